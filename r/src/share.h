// SPDX-License-Identifier: MIT
//
// Objects shared between processes: what R calls (registered by init.c).
#ifndef PAGEWISE_R_SHARE_H
#define PAGEWISE_R_SHARE_H

#include "calls.h"

// X(function, number of arguments), as in calls.h.
#define SHARE_CALLS(X)                                                                             \
    X(pagewise_share, 1)                                                                           \
    X(pagewise_share_decide, 1)                                                                    \
    X(pagewise_shared_leaf, 1)                                                                     \
    X(pagewise_shared_holders, 1)                                                                  \
    X(pagewise_shared_handle, 1)                                                                   \
    X(pagewise_shared_open, 1)                                                                     \
    X(pagewise_shared_bytes, 0)

SHARE_CALLS(DECLARE_CALL)

// Called once, when the package's library is loaded: makes the ALTREP classes.
void share_start(void);

#endif
