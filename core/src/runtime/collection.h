// SPDX-License-Identifier: MIT
//
// The end of a garbage collection: how it is noticed, and what is done then.
#ifndef PW_RUNTIME_COLLECTION_H
#define PW_RUNTIME_COLLECTION_H

#include "pagewise.h"
#include "process/caller.h"
#include "process/state.h"

struct pw_process;

// getrusage was called from `site`. `small_bytes` grows with each block that is not managed, and
// begins anew now and then: where it is what it was at the call before, hardly any was allocated.
PW_API void pw_collection_getrusage(struct pw_process *process, const void *site,
                                    size_t small_bytes);

// A collection has ended: bytes that were given back. pw_collection_end is told by the program,
// which says that nobody writes meanwhile; pw_collection_notice finds that out.
size_t pw_collection_end(struct pw_process *process);
size_t pw_collection_notice(struct pw_process *process);

// Would an allocation of so many bytes be a moment to search? A guess, without the lock.
bool pw_collection_is_moment(struct pw_process *process, size_t size);

// A managed block was released, or one of `size` bytes is about to be allocated: the moment to
// notice that a collection has ended, and to look for zeros before the peak rises. Callers hold the
// heap's lock.
void pw_collection_block_freed(struct pw_process *process);
void pw_collection_block_allocated(struct pw_process *process, size_t size,
                                   const struct pw_caller *caller, struct pw_resident *resident);

#endif
