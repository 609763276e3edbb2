// SPDX-License-Identifier: MIT
//
// Switching Pagewise on and off in this process, and its statistics block.
#include "calls.h"

#include <pagewise.h>
#include <R_ext/Utils.h>

#include <string.h>

// NULL, or why it could not be switched on.
SEXP pagewise_switch_on(SEXP options) {
    const char *reason = NULL;
    if (pw_switch_on(CHAR(STRING_ELT(options, 0)), &reason)) {
        // What it has R do once comes now, where nothing is unprotected.
        R_CheckUserInterrupt();
        return R_NilValue;
    }
    return Rf_mkString(reason);
}

SEXP pagewise_switch_off(void) {
    pw_switch_off();
    return R_NilValue;
}

// c(on, preloaded)
SEXP pagewise_state(void) {
    SEXP state = Rf_allocVector(LGLSXP, 2);
    LOGICAL(state)[0] = pw_is_on();
    LOGICAL(state)[1] = pw_is_preloaded();
    return state;
}

SEXP pagewise_policy(void) {
    struct pw_statistics block = {0};
    pw_statistics_read(&block, sizeof block);
    char name[sizeof block.policy + 1] = {0};
    memcpy(name, block.policy, sizeof block.policy);
    return Rf_mkString(*name ? name : "plain");
}

SEXP pagewise_version(void) {
    return Rf_mkString(pw_version());
}

SEXP pagewise_trim(void) {
    return Rf_ScalarReal((double)pw_trim());
}

// NULL, or why nothing was frozen.
SEXP pagewise_freeze_for_forks(void) {
    const char *reason = pw_freeze_for_forks();
    return reason ? Rf_mkString(reason) : R_NilValue;
}

// The statistics block as a named numeric vector; NULL before Pagewise was first switched on.
SEXP pagewise_statistics(void) {
    static const char *const names[] = {
#define NAME(name, meaning) #name,
        PW_STATISTICS_FIELDS(NAME)
#undef NAME
    };
    enum { COUNT = sizeof names / sizeof names[0] };
    struct pw_statistics block = {0};
    if (pw_statistics_read(&block, sizeof block) == 0) {
        return R_NilValue;
    }
    SEXP values = PROTECT(Rf_allocVector(REALSXP, COUNT));
    SEXP labels = PROTECT(Rf_allocVector(STRSXP, COUNT));
    R_xlen_t at = 0;
#define VALUE(name, meaning) REAL(values)[at++] = (double)block.name;
    PW_STATISTICS_FIELDS(VALUE)
#undef VALUE
    for (at = 0; at < COUNT; at++) {
        SET_STRING_ELT(labels, at, Rf_mkChar(names[at]));
    }
    Rf_setAttrib(values, R_NamesSymbol, labels);
    UNPROTECT(2);
    return values;
}
