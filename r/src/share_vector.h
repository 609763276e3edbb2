// SPDX-License-Identifier: MIT
//
// Vectors of views: of numbers here, of strings in share_string.h.
#ifndef PAGEWISE_R_SHARE_VECTOR_H
#define PAGEWISE_R_SHARE_VECTOR_H

#include "share_view.h"

// Make the classes, once in a process. They belong to no library: R takes the methods from the
// classes of one that is unloaded, and vectors of ours live on (-z nodelete in Makevars.in keeps
// the code).
void share_vector_start(void);

bool share_is_atomic(SEXPTYPE type); // a type whose elements lie in memory as they are
size_t share_element_size(SEXPTYPE type);

// An R vector of a view.
SEXP share_vector(SEXP pointer);

// One of what a handle names, of whatever type it is; also of what Python has shared.
SEXP share_vector_named(SEXP handle);

// The vector of ours that x is, or that R has put a wrapper around to change the attributes of; or
// NULL. And its view. Strings are among them.
SEXP share_inner(SEXP x);
const struct view *share_view_of(SEXP x);

// Does the vector read otherwise than the part that it is a view of?
bool share_is_changed(SEXP x);

#endif
