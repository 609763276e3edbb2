// SPDX-License-Identifier: MIT
//
// Which module contains an address, and what is known about it.
#ifndef PW_FRONT_MODULE_H
#define PW_FRONT_MODULE_H

#include "pagewise.h"

enum pw_module {
    PW_MODULE_OTHER,     // unknown: may hand memory to devices
    PW_MODULE_RUNTIME,   // R itself
    PW_MODULE_EXTENSION, // the library of a package
};

// Of a module's file, whatever the user trusts.
enum pw_module pw_module_of_path(const char *path);

// Find out where the C library and the dynamic loader lie.
void pw_module_find_c_library(void);

// The C library itself, or the dynamic loader. Takes no lock. `otherwise`: the answer before it was
// found out where they lie.
bool pw_module_is_c_library(const void *site, bool otherwise);

// Where the module that contains `address` was loaded, and its path. NULL: in none.
const void *pw_module_base(const void *address, const char **path);

// A library that runs a pool of threads (quiet.h says what is known of them).
enum pw_pool {
    PW_POOL_NONE,
    PW_POOL_BLAS,   // OpenBLAS with threads of its own, BLIS
    PW_POOL_OPENMP, // libgomp
    PW_POOL_TIMER, // R's packages cli (loaded with ggplot2, dplyr or mlr) and later (with promises)
};
enum pw_pool pw_pool_at(const void *site);
enum pw_pool pw_pool_of_path(const char *path);

// Who calls, found out before the heap's lock is taken: it may need the dynamic loader's.
struct pw_caller {
    enum pw_module module; // by what the user trusts
    bool in_blas;
    bool looked;        // pw_quiet_look came after
    bool without_rings; // and found no library that has the kernel write to memory
};
struct pw_caller pw_caller_at(const void *site);

// Are both addresses in the same module?
bool pw_module_is_one(const void *one, const void *other);

#endif
