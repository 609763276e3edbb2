// SPDX-License-Identifier: MIT
//
// Objects shared between processes: what R calls (registered by init.c).
#ifndef PAGEWISE_R_SHARE_H
#define PAGEWISE_R_SHARE_H

#include "calls.h"

// X(function, number of arguments), as in calls.h.
#define SHARE_CALLS(X)

SHARE_CALLS(DECLARE_CALL)

// Called once, when the package's library is loaded (ALTREP classes and the like).
static inline void share_start(DllInfo *library) {
    (void)library;
}

#endif
