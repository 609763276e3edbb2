// SPDX-License-Identifier: MIT
//
// The permanent generation: nodes that packages brought, taken off R's lists and still marked, so
// that no collection visits them (docs/design/frozen.md).
#ifndef PW_RUNTIME_R_FROZEN_H
#define PW_RUNTIME_R_FROZEN_H

#include "pagewise.h"
#include "process/state.h"

#include <stdbool.h>
#include <stdint.h>

struct pw_process;

struct pw_r_freeze_how {
    bool watch;   // the kernel is asked to tell of written pages
    bool by_hand; // from then on it is never due
    // R is running a finalizer, which it does not while it collects. Where R does not tell (from
    // 4.5 on) it is taken to collect while interrupts are suspended, as they are then.
    bool in_finalizer;
    // All is collected before and after, and free nodes of any page with a frozen one stay free:
    // were a child to take one, the page would be copied, and a collection of its writes to all
    // that are in R's list.
    bool for_forks;
};

// Freeze, or thaw and freeze anew. Collects: to be called where R code may run. NULL, or why
// nothing is frozen.
const char *pw_r_freeze(struct pw_process *process, struct pw_r_freeze_how how);

// Are R's functions found? Looked for here, once; nothing is due before.
bool pw_r_freeze_can_be(void);

// freeze=check: at once, and when ten collections have passed. freeze=auto: it pays.
bool pw_r_freeze_is_due(struct pw_process *process);

// Give everything back to R, where a collection begins; where R code may run.
void pw_r_thaw(void);
void pw_r_thaw_by_hand(void);

// How often was something frozen, or all given back?
uint64_t pw_r_freeze_changes(void);

// getrusage was called from `site`: a collection of R's may begin or have ended there.
void pw_r_before_collection(struct pw_process *process, const void *site);

#endif
