// SPDX-License-Identifier: MIT
//
// gc.time(FALSE) ends what we see of collections: something must be done before it.
#ifndef PW_RUNTIME_R_GC_GUARD_H
#define PW_RUNTIME_R_GC_GUARD_H

#include "runtime/r/r_api.h"

// Have `before` called before each call of gc.time with an argument. False: it is not found.
bool pw_r_guard_gc_time(const struct pw_r_api *api, void (*before)(void));

#endif
