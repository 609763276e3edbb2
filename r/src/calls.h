// SPDX-License-Identifier: MIT
//
// What R calls. The work is done by the core (pagewise.h); here arguments and results are
// converted.
#ifndef PAGEWISE_R_CALLS_H
#define PAGEWISE_R_CALLS_H

#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>

#include "compat.h"

// X(function, number of arguments)
#define SESSION_CALLS(X)                                                                           \
    X(pagewise_switch_on, 1)                                                                       \
    X(pagewise_switch_off, 0)                                                                      \
    X(pagewise_state, 0)                                                                           \
    X(pagewise_policy, 0)                                                                          \
    X(pagewise_version, 0)                                                                         \
    X(pagewise_statistics, 0)                                                                      \
    X(pagewise_vectors, 2)                                                                         \
    X(pagewise_frame, 1)                                                                           \
    X(pagewise_cost, 1)                                                                            \
    X(pagewise_blocks, 0)                                                                          \
    X(pagewise_collapse, 1)                                                                        \
    X(pagewise_trim, 0)                                                                            \
    X(pagewise_freeze_for_forks, 0)                                                                \
    X(pagewise_profile_start, 2)                                                                   \
    X(pagewise_profile_stop, 1)

#define DECLARE_0(name)           SEXP name(void);
#define DECLARE_1(name)           SEXP name(SEXP);
#define DECLARE_2(name)           SEXP name(SEXP, SEXP);
#define DECLARE_3(name)           SEXP name(SEXP, SEXP, SEXP);
#define DECLARE_4(name)           SEXP name(SEXP, SEXP, SEXP, SEXP);
#define DECLARE_5(name)           SEXP name(SEXP, SEXP, SEXP, SEXP, SEXP);
#define DECLARE_CALL(name, count) DECLARE_##count(name)

SESSION_CALLS(DECLARE_CALL)

#endif
