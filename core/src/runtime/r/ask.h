// SPDX-License-Identifier: MIT
//
// Collections that are asked of R, for the reasons of policy/collector.h.
//
// R's allocator of vectors, Rf_allocVector3 in R's memory.c, has always collected garbage and tried
// again when malloc fails ("cannot allocate vector" comes only after the second time). So a
// collection is asked for by a malloc that fails once, for that allocator and for nobody else. A
// collection may happen in any allocation of a vector: what R code computes does not change.
#ifndef PW_RUNTIME_R_ASK_H
#define PW_RUNTIME_R_ASK_H

#include "pagewise.h"
#include "process/state.h"

struct pw_process;

// Where R allocates vectors, if this is R.
void pw_r_find_allocator(struct pw_process *process);

// R's collector is at its start, at its end. With the process's lock.
void pw_r_collection_began(struct pw_process *process);
void pw_r_collection_ended(struct pw_process *process);

// Is a request for `size` bytes from `site` to fail, for a collection to come first? Never twice in
// a row. Looks at memory only when the program has grown since the last collection. The first is
// asked with the process's lock, the second takes it.
bool pw_r_collection_is_first(struct pw_process *process, size_t size, const void *site);
PW_API bool pw_r_collection_comes_first(struct pw_process *process, size_t size, const void *site);

#endif
