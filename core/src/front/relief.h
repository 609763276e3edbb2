// SPDX-License-Identifier: MIT
//
// Relief when memory is short: R is asked for a garbage collection before more is taken.
//
// R's allocator of vectors, Rf_allocVector3 in R's memory.c, has always collected garbage and tried
// again when malloc fails ("cannot allocate vector" comes only after the second time). So where a
// cgroup's limit or the machine's memory is close, malloc fails once for it and for nobody else. A
// collection may happen in any allocation of a vector: what R code computes does not change.
#ifndef PW_FRONT_RELIEF_H
#define PW_FRONT_RELIEF_H

#include "pagewise.h"

// Where R allocates vectors, if this is R.
void pw_relief_find_allocator(void);

// Is a request for `size` bytes from `site` to fail, for a collection to come first? Never twice in
// a row. Looks at memory only when the program has grown since the last collection.
PW_API bool pw_relief_comes_first(size_t size, const void *site);

#endif
