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

// A request for a managed block.
struct pw_request {
    size_t size;
    const void *site;
    bool may_fail; // whoever asks from there may be one that collects and tries again (r/ask.h)
};

// Who makes it? Without the lock. Where it seems to be a moment to search, whoever else runs is
// looked at as well.
struct pw_caller pw_collection_who_asks(struct pw_process *process, struct pw_request request);

// It is about to be served: the moment to notice that a collection has ended, and to look for zeros
// before the peak rises. False: it is to fail, for a collection to come first. With the lock.
bool pw_collection_before_block(struct pw_process *process, struct pw_request request,
                                const struct pw_caller *caller, struct pw_resident *resident);

// A managed block was released. With the lock.
void pw_collection_block_freed(struct pw_process *process);

#endif
