// SPDX-License-Identifier: MIT
//
// Which children still have memory of ours, and of which time. Private to share.
//
// Witnesses (os/sealed.c) follow each other, numbered, and the next one is mapped before the last
// one is unmapped: whoever is forked, at any moment, has the one that was mapped then. A range of
// memory that was mapped while the witnesses `first` to `last` were can be seen by nobody else any
// more when all of these have been asked after their time, and nobody had them.
//
// One that somebody has is kept by its descriptor and asked again. To forget it would be a fault: a
// second child's witness can be gone before the first child's.
#ifndef PW_SHARE_WITNESS_H
#define PW_SHARE_WITNESS_H

#include "share/share.h"

// Map the next witness, or the first, and ask the last one. False: the present one stays, and
// nothing is known.
bool pw_witness_turn(struct pw_share *share);

// Ask again those that somebody had.
void pw_witness_ask_again(struct pw_share *share);

// Does no other process have what was mapped while witnesses `first` to `last` were?
bool pw_witness_cleared(const struct pw_share *share, uint64_t first, uint64_t last);

// This process turned out to be a fork's child. Its parent's witnesses stay mapped: they tell the
// parent of it.
void pw_witness_after_fork(struct pw_share *share);

#endif
