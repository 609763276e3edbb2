// SPDX-License-Identifier: MIT
//
// The end of a garbage collection: how it is noticed, and what is done then.
#ifndef PW_FRONT_COLLECTION_H
#define PW_FRONT_COLLECTION_H

#include "pagewise.h"

// Once every module is loaded: is this R?
PW_API void pw_collection_find_runtime(void);

// getrusage was called from `site`.
PW_API void pw_collection_getrusage(const void *site);

// The runtime or a package asks for so many pages: if the peak is about to rise, look for zeros in
// blocks that were never searched. Not for other callers: a BLAS allocates while its threads work.
// Callers hold the heap's lock.
void pw_collection_before_peak(uint32_t pages);

// A managed block was released or is about to be allocated. Callers hold the heap's lock.
void pw_collection_block_freed(void);
void pw_collection_block_allocated(void);

// A thread that cannot write to blocks while a collection ends: one of a BLAS, or our keeper. To be
// called by the thread itself, so that it is counted only while it certainly exists.
PW_API void pw_quiet_thread_began(void);
PW_API void pw_quiet_thread_ends(void);

#endif
