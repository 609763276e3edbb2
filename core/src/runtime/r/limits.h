// SPDX-License-Identifier: MIT
//
// R's limits on its heap (R_NSize, R_VSize, R_MaxVSize; see ?Memory). R counts what is in use
// without what is frozen, so its limits leave that out as well, and move as they would with it.
#ifndef PW_RUNTIME_R_LIMITS_H
#define PW_RUNTIME_R_LIMITS_H

#include "runtime/r/layout.h"

struct pw_r_amount { // of small nodes
    uint64_t nodes;
    uint64_t units; // of 8 bytes, that their data take
};

struct pw_r_limits {
    const struct pw_r_layout *layout; // the limits that it points to are R's own
    struct pw_r_amount frozen;
    uint64_t floor;      // of R_NSize
    uint64_t floor_then; // when it was frozen
    uint64_t nodes_then; // R_NSize at the last look
    uint64_t most_then;  // R_MaxVSize, less what is frozen
    bool may_grow;       // no limit is set on nodes
};

// Is there room in R's limits to leave `amount` out?
bool pw_r_limits_fit(const struct pw_r_layout *layout, struct pw_r_amount amount);

// `frozen` is in no limit any more.
void pw_r_limits_freeze(struct pw_r_limits *limits, const struct pw_r_layout *layout,
                        struct pw_r_amount frozen, bool may_grow);

// `amount` of what was frozen is R's again: part of it, to which it does not shrink, or all.
void pw_r_limits_give_back(struct pw_r_limits *limits, struct pw_r_amount amount);
void pw_r_limits_thaw(struct pw_r_limits *limits);

// A collection begins.
void pw_r_limits_look(struct pw_r_limits *limits);

// R has moved its limits at the end of a collection; if that was a full one, R_NSize grows where it
// would have grown with what is frozen. Where it may be no end: what is right at any time.
void pw_r_limits_collected(struct pw_r_limits *limits);
void pw_r_limits_collected_fully(struct pw_r_limits *limits);
void pw_r_limits_keep_growth_in_bounds(struct pw_r_limits *limits);

#endif
