// SPDX-License-Identifier: MIT
//
// For test-share.R: character vectors that make a string anew whenever they are asked for it.
#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>

#include <R_ext/Altrep.h>
#include <R_ext/Rdynload.h>
#include <stdio.h>

static R_altrep_class_t fresh_class;

static R_xlen_t method_length(SEXP x) {
    return (R_xlen_t)Rf_asReal(R_altrep_data1(x));
}

static SEXP method_element(SEXP x, R_xlen_t i) {
    char text[32];
    (void)x;
    snprintf(text, sizeof text, "string %d", (int)i);
    return Rf_mkChar(text);
}

SEXP fresh_strings(SEXP length) {
    return R_new_altrep(fresh_class, length, R_NilValue);
}

void R_init_fresh_strings(DllInfo *library) {
    fresh_class = R_make_altstring_class("fresh_strings", "pagewise", library);
    R_set_altrep_Length_method(fresh_class, method_length);
    R_set_altstring_Elt_method(fresh_class, method_element);
}
