// SPDX-License-Identifier: MIT
//
// For test-share.R: vectors of numbers that show a part of another vector.
#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>

#include <R_ext/Altrep.h>
#include <R_ext/Rdynload.h>

static R_altrep_class_t window_class;

// data1: the vector. data2: c(elements before the window, length).
static R_xlen_t method_length(SEXP x) {
    return INTEGER(R_altrep_data2(x))[1];
}

static void *method_dataptr(SEXP x, Rboolean writable) {
    (void)writable;
    return REAL(R_altrep_data1(x)) + INTEGER(R_altrep_data2(x))[0];
}

static const void *method_dataptr_or_null(SEXP x) {
    return method_dataptr(x, FALSE);
}

static double method_element(SEXP x, R_xlen_t i) {
    return ((const double *)method_dataptr_or_null(x))[i];
}

SEXP window_of(SEXP x, SEXP range) {
    return R_new_altrep(window_class, x, range);
}

void R_init_windows(DllInfo *library) {
    window_class = R_make_altreal_class("wrap_window", "windows", library);
    R_set_altrep_Length_method(window_class, method_length);
    R_set_altvec_Dataptr_method(window_class, method_dataptr);
    R_set_altvec_Dataptr_or_null_method(window_class, method_dataptr_or_null);
    R_set_altreal_Elt_method(window_class, method_element);
}
