// SPDX-License-Identifier: MIT
#include "calls.h"
#include "share.h"

#include <R_ext/Rdynload.h>
#include <R_ext/Visibility.h>

#define REGISTER(name, count) {#name, (DL_FUNC)name, count},

static const R_CallMethodDef calls[] = {SESSION_CALLS(REGISTER)
                                            SHARE_CALLS(REGISTER){NULL, NULL, 0}};

attribute_visible void R_init_pagewise(DllInfo *library) {
    R_registerRoutines(library, NULL, calls, NULL, NULL);
    R_useDynamicSymbols(library, FALSE);
    R_forceSymbols(library, TRUE);
    share_start();
}
