// SPDX-License-Identifier: MIT
//
// Libraries that run a pool of threads (quiet.h says what is known of them).
#ifndef PW_PROCESS_POOLS_H
#define PW_PROCESS_POOLS_H

enum pw_pool {
    PW_POOL_NONE,
    PW_POOL_BLAS,   // OpenBLAS with threads of its own (also in NumPy's and SciPy's wheels), BLIS
    PW_POOL_OPENMP, // libgomp
    PW_POOL_TIMER, // R's packages cli (loaded with ggplot2, dplyr or mlr) and later (with promises)
};

enum pw_pool pw_pool_at(const void *site);
enum pw_pool pw_pool_of_path(const char *path);

#endif
