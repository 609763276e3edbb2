// SPDX-License-Identifier: MIT
//
// The end of a garbage collection: how it is noticed, and what is done then.
#ifndef PW_RUNTIME_COLLECTION_H
#define PW_RUNTIME_COLLECTION_H

#include "pagewise.h"
#include "process/caller.h"

// getrusage was called from `site`. `small_bytes` grows with each block that is not managed, and
// begins anew now and then: where it is what it was at the call before, hardly any was allocated.
PW_API void pw_collection_getrusage(const void *site, size_t small_bytes);

// Would an allocation of so many bytes be a moment to search? A guess, without the lock.
bool pw_collection_is_moment(size_t size);

// A managed block was released, or one of `size` bytes is about to be allocated: the moment to
// notice that a collection has ended, and to look for zeros before the peak rises. Callers hold the
// heap's lock.
void pw_collection_block_freed(void);
void pw_collection_block_allocated(size_t size, const struct pw_caller *caller);

#endif
