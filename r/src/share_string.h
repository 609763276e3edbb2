// SPDX-License-Identifier: MIT
//
// Vectors of strings.
#ifndef PAGEWISE_R_SHARE_STRING_H
#define PAGEWISE_R_SHARE_STRING_H

#include "share_view.h"

// Make the class, once in a process: see share_vector_start().
void share_string_start(void);

// An R vector of a view.
SEXP share_string(SEXP pointer);

bool share_string_owns(SEXP x);
bool share_string_is_changed(SEXP x);

// The tables that R's strings of a shared character vector are in; R_NilValue: none yet.
SEXP share_string_made(SEXP x);
SEXP share_string_expanded(SEXP x);

// Write a character vector as a part: `length` elements in *part.
enum pw_shared_result share_string_write(struct pw_shared *shared, SEXP x,
                                         struct pw_shared_part *part);

#endif
