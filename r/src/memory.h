// SPDX-License-Identifier: MIT
#ifndef PAGEWISE_R_MEMORY_H
#define PAGEWISE_R_MEMORY_H

#include "calls.h"

// Bytes that this process has for itself because of one shared vector. NA: the kernel does not
// tell.
double share_own_bytes(SEXP x);

#endif
