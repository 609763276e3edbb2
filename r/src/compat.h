// SPDX-License-Identifier: MIT
//
// What R 4.6 still has in its library, and no more in its headers. share() must hand the list of
// attributes on as it is, and R_mapAttrib() only shows its members.
#ifndef PAGEWISE_R_COMPAT_H
#define PAGEWISE_R_COMPAT_H

#include <R.h>
#include <Rinternals.h>
#include <Rversion.h>

#if R_VERSION >= R_Version(4, 6, 0)
SEXP ATTRIB(SEXP x);
void SET_ATTRIB(SEXP x, SEXP value);
void *DATAPTR(SEXP x);
#endif

#endif
