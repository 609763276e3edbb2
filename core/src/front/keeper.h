// SPDX-License-Identifier: MIT
//
// The keeper: a thread that gives warm pages back.
#ifndef PW_FRONT_KEEPER_H
#define PW_FRONT_KEEPER_H

#include "pagewise.h"

// Should it be started? Asked under the heap's lock; who is told so starts it, outside the lock.
bool pw_keeper_is_due(void);
void pw_keeper_start(void);

#endif
