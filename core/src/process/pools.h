// SPDX-License-Identifier: MIT
//
// Libraries that run a pool of threads (quiet.h says what is known of them).
#ifndef PW_PROCESS_POOLS_H
#define PW_PROCESS_POOLS_H

enum pw_pool {
    PW_POOL_NONE,
    PW_POOL_BLAS,   // OpenBLAS with threads of its own (also in NumPy's and SciPy's wheels), BLIS
    PW_POOL_OPENMP, // libgomp
    PW_POOL_TIMER,  // R's package cli (loaded with ggplot2, dplyr or mlr)
    PW_POOL_LATER,  // R's package later (loaded with promises): timers, and threads that are none
};

enum pw_pool pw_pool_at(const void *site);
enum pw_pool pw_pool_of_path(const char *path);

#endif
