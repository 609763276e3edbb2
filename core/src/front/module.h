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

enum pw_module pw_module_of(const void *site);

// The same by the path of a module's file, whatever the user trusts.
enum pw_module pw_module_of_path(const char *path);

// R and the libraries of its packages: blocks of theirs may be shared and zero reclaimed.
bool pw_module_is_safe(const void *site);

// The C library itself, or the dynamic loader. Takes no lock. `otherwise`: the answer for code of
// no module, and where the C library cannot be asked without a lock (before 2.35).
bool pw_module_is_c_library(const void *site, bool otherwise);

// A BLAS, whose threads only work while it is being called, or R's package cli, whose only thread
// counts time for progress bars: loaded with ggplot2, dplyr or mlr, it runs in most sessions.
PW_API bool pw_module_is_quiet(const void *site);

#endif
