// SPDX-License-Identifier: MIT
//
// The keeper: a thread that gives warm pages back.
#ifndef PW_BLOCK_KEEPER_H
#define PW_BLOCK_KEEPER_H

#include "pagewise.h"

struct pw_process;

// Warm pages may have become enough for it: should who frees start it, as `site` asked? To start a
// thread allocates, and takes locks of the C library, which frees with some of them held (the
// memory of a thread that has ended): not by a call of its. With policy general nobody starts it at
// once, and `keeper_wanted` is set. Asked under the heap's lock; who is told so starts it outside.
bool pw_keeper_is_due(struct pw_process *process, const void *site);
// The same of who knows that it may be started.
bool pw_keeper_claim(struct pw_process *process);
void pw_keeper_start(struct pw_process *process);

// Have its thread gone when this returns, which may take some milliseconds. A later free may start
// it again.
void pw_keeper_end(struct pw_process *process);

#endif
