// SPDX-License-Identifier: MIT
//
// What becomes of copies: watched here, told to the predictor. The lock is held throughout.
//
// A shared copy shows it in the page tables. A plain one, made because an overwrite was expected,
// is compared with its source in a few places as long as both live: so a site that was expected to
// overwrite its copies, and does not, is found out without sharing one on trial. How long copies
// live is known of all of them.
#ifndef PW_BLOCK_FATE_H
#define PW_BLOCK_FATE_H

#include "extent/extent.h"
#include "policy/copy.h"

struct pw_process;

// A copy is about to be made, whether by sharing or not.
void pw_fate_begins(struct pw_process *process, struct pw_prediction *prediction,
                    struct pw_extent *destination, const struct pw_copy_question *question);

// Watch this copy unless another one of its kind is being watched.
void pw_fate_watch_shared(struct pw_process *process, struct pw_prediction *prediction,
                          struct pw_extent *destination);
void pw_fate_watch_plain(struct pw_process *process, struct pw_prediction *prediction,
                         struct pw_extent *destination, uint32_t to, struct pw_extent *source,
                         uint32_t from, uint32_t pages);

// The next copy of its kind arrives: what has become of the watched one so far?
void pw_fate_look(struct pw_process *process, struct pw_prediction *prediction);

// A copy is about to be freed, or to be moved to a block of another size.
void pw_fate_ends(struct pw_process *process, struct pw_extent *extent);

#endif
