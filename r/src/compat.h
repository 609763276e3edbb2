// SPDX-License-Identifier: MIT
//
// Attributes, data and ALTREP classes by what each version of R offers: from 4.6 on R CMD check
// warns of ATTRIB, SET_ATTRIB, DATAPTR and ALTREP_CLASS, and what replaces these is not there
// before.
#ifndef PAGEWISE_R_COMPAT_H
#define PAGEWISE_R_COMPAT_H

#include <R.h>
#include <Rinternals.h>
#include <Rversion.h>

#include <R_ext/Altrep.h>

typedef SEXP visit_attribute(SEXP tag, SEXP value, void *context); // NULL: go on

// As they are kept: Rf_getAttrib() would make row names. None may be added or removed meanwhile.
static inline void each_attribute(SEXP x, visit_attribute *visit, void *context) {
#if R_VERSION >= R_Version(4, 6, 0)
    R_mapAttrib(x, visit, context);
#else
    for (SEXP at = ATTRIB(x); at != R_NilValue; at = CDR(at)) {
        if (visit(TAG(at), CAR(at), context)) {
            return;
        }
    }
#endif
}

// Rf_setAttrib() would look at names, dimnames and row names once more, and may change them.
static inline void replace_attribute(SEXP x, SEXP tag, SEXP value) {
    if (tag == Rf_install(".Data")) { // of a slot of this name the vector itself would be replaced
        Rf_setAttrib(x, tag, value);
    } else {
        R_do_slot_assign(x, tag, value);
    }
}

// Symbols: the name of an ALTREP vector's class, and the package that it is of.
static inline SEXP altrep_class_name(SEXP x) {
#if R_VERSION >= R_Version(4, 6, 0)
    return R_altrep_class_name(x);
#else
    return CAR(ATTRIB(ALTREP_CLASS(x)));
#endif
}

static inline SEXP altrep_class_package(SEXP x) {
#if R_VERSION >= R_Version(4, 6, 0)
    return R_altrep_class_package(x);
#else
    return CADR(ATTRIB(ALTREP_CLASS(x)));
#endif
}

// Of a vector that R has just made, and nobody else has.
static inline void *data_of_new(SEXP x) {
    return (void *)DATAPTR_RO(x);
}

#endif
