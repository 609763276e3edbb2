// SPDX-License-Identifier: MIT
#include "policy/freeze_schedule.h"

// Of the longest, that a first freeze is taken to cost (docs/results/frozen.md).
#define COLLECTIONS         3
#define PAYS_BACK           2  // times what it costs, spent on collections
#define LARGEST_PART        32 // of the time so far, that it may cost
#define IN_VAIN_NUMERATOR   2  // collections two thirds as long as before were not worth it
#define IN_VAIN_DENOMINATOR 3

void pw_freeze_collection_began(struct pw_freeze_schedule *schedule, uint64_t now) {
    schedule->began = now;
}

void pw_freeze_collection_ended(struct pw_freeze_schedule *schedule, uint64_t now) {
    if (schedule->began == 0 || now < schedule->began) {
        return;
    }
    uint64_t took = now - schedule->began;
    schedule->began = 0;
    if (schedule->shortest == 0 || took < schedule->shortest) {
        schedule->shortest = took;
    }
    if (took > schedule->longest) {
        schedule->longest = took;
    }
    schedule->spent += took - schedule->shortest;
    if (schedule->cost > 0 &&
        took * IN_VAIN_DENOMINATOR > schedule->longest_before * IN_VAIN_NUMERATOR) {
        schedule->in_vain = true;
    }
}

bool pw_freeze_pays(const struct pw_freeze_schedule *schedule, uint64_t now) {
    uint64_t cost = schedule->cost ? schedule->cost : COLLECTIONS * schedule->longest;
    return !schedule->in_vain && now >= schedule->not_before &&
           schedule->spent > PAYS_BACK * cost && cost <= now / LARGEST_PART;
}

// Tried again when the program has run as long again: what is lost at all is a small part.
void pw_freeze_tried(struct pw_freeze_schedule *schedule, uint64_t start, uint64_t now) {
    *schedule = (struct pw_freeze_schedule){
        .cost = now - start,
        .longest_before = schedule->longest,
        .not_before = 2 * now,
    };
}
