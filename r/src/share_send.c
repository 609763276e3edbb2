// SPDX-License-Identifier: MIT
//
// When R writes a handle in place of a shared vector's data, and what becomes of a handle that
// nobody can explain. docs/design/processes.md has the reasons.
#include "share_send.h"

// For an ALTREP vector R writes list(class, package, type) and the state. Where it finds no such
// class it makes a vector of that type and of length 0, and an error only for types that it cannot
// make. So no type is written: a vector never turns into an empty one.
#define NO_TYPE NILSXP

static bool types_are_hidden = true; // else everything travels by value
static SEXP decision;                // travels_by_handle() of share.R; NULL before it is known

struct class_info {
    int count;
    SEXP last;
};

static SEXP visit_info(SEXP tag, SEXP value, void *context) {
    (void)tag;
    struct class_info *info = context;
    info->count++;
    info->last = value;
    return NULL;
}

// Where R keeps the type of a class, or NULL if it keeps it in another way than it did up to now.
static int *type_of_class(R_altrep_class_t class) {
    struct class_info info = {0, R_NilValue};
    each_attribute(R_SEXP(class), visit_info, &info);
    bool known = info.count == 3 && TYPEOF(info.last) == INTSXP && XLENGTH(info.last) == 1;
    return known ? INTEGER(info.last) : NULL;
}

static void set_type(R_altrep_class_t class, int type) {
    if (types_are_hidden) {
        *type_of_class(class) = type;
    }
}

void share_hide_type(R_altrep_class_t class, SEXPTYPE type) {
    const int *place = type_of_class(class);
    types_are_hidden = types_are_hidden && place && *place == (int)type;
    set_type(class, NO_TYPE);
}

// R takes the type of a new vector from the same place.
SEXP share_new(R_altrep_class_t class, SEXPTYPE type, SEXP data1, SEXP data2) {
    set_type(class, (int)type);
    SEXP x = R_new_altrep(class, data1, data2);
    set_type(class, NO_TYPE);
    return x;
}

SEXP pagewise_share_decide(SEXP function) {
    if (decision) {
        R_ReleaseObject(decision);
    }
    R_PreserveObject(function);
    decision = function;
    return R_NilValue;
}

bool share_may_send_handle(void) {
    int failed = 0;
    if (!decision || !types_are_hidden) {
        return false;
    }
    SEXP call = PROTECT(Rf_lang1(decision));
    SEXP answer = R_tryEvalSilent(call, R_GlobalEnv, &failed);
    UNPROTECT(1);
    return !failed && TYPEOF(answer) == LGLSXP && XLENGTH(answer) == 1 && LOGICAL(answer)[0] == 1;
}

SEXP share_handle(R_altrep_class_t class, const struct view *view) {
    set_type(class, NO_TYPE); // share_new() may have been left by an error
    return view_handle(view);
}
