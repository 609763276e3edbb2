// SPDX-License-Identifier: MIT
//
// The keeper: a thread that gives warm pages back.
#ifndef PW_FRONT_KEEPER_H
#define PW_FRONT_KEEPER_H

#include "pagewise.h"

// Should it be started, now that `site` called (NULL: who is told
// knows that it may)? Asked under the heap's lock; who is told so starts
// it, outside the lock. To start a thread allocates, and takes locks of the C library, which frees
// with some of them held (the memory of a thread that has ended): not by a call of its.
bool pw_keeper_is_due(const void *site);
void pw_keeper_start(void);

#endif
