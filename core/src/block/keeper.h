// SPDX-License-Identifier: MIT
//
// The keeper: a thread that gives warm pages back.
#ifndef PW_BLOCK_KEEPER_H
#define PW_BLOCK_KEEPER_H

#include "pagewise.h"
#include "process/state.h"

struct pw_process;

// Warm pages may have become enough for it: should who frees start it, as `site` asked? To start a
// thread allocates, and takes locks of the C library, which frees with some of them held (the
// memory of a thread that has ended): not by a call of its. With policy general nobody starts it at
// once, and `keeper_wanted` is set. Asked under the heap's lock; who is told so starts it outside.
bool pw_keeper_is_due(struct pw_process *process, const void *site);
// The same of who knows that it may be started.
bool pw_keeper_claim(struct pw_process *process);
void pw_keeper_start(struct pw_process *process);

// So many pages may lie idle where nobody comes to look: an eighth of what is in use, 8 MB at
// least. A guess where the lock is not held.
uint64_t pw_keeper_room(const struct pw_process *process);

// For who comes by, now and then: do the keeper's work where there is none and will be none.
void pw_keeper_stand_in(struct pw_process *process);

// Have its thread gone when this returns, which may take some milliseconds. A later free may start
// it again.
void pw_keeper_end(struct pw_process *process);

// The same, and none comes any more in this process.
void pw_keeper_end_for_ever(struct pw_process *process);

// This thread is about to exit. Where it is the process's first one, no keeper outlives it, and
// none comes any more: the C library has the last thread of a process end the program, on its own
// stack.
PW_API void pw_keeper_before_exit(struct pw_process *process);

// The same of a thread that is about to be cancelled: it may be the first one.
PW_API void pw_keeper_before_cancel(struct pw_process *process, pthread_t thread);

#endif
