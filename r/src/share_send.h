// SPDX-License-Identifier: MIT
//
// What R writes of a vector of ours: a handle, or its data.
#ifndef PAGEWISE_R_SHARE_SEND_H
#define PAGEWISE_R_SHARE_SEND_H

#include "share_view.h"

// Called for each new class, and for each new vector in place of R_new_altrep().
void share_hide_type(R_altrep_class_t class, SEXPTYPE type);
SEXP share_new(R_altrep_class_t class, SEXPTYPE type, SEXP data1, SEXP data2);

// May a vector that reads as its view does be written as a handle? Else its data are.
bool share_may_send_handle(void);

// The handle that R is to write, or NULL: its data.
SEXP share_handle(R_altrep_class_t class, const struct view *view);

#endif
