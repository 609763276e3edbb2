// SPDX-License-Identifier: MIT
#include "policy/freeze_schedule.h"

// Full ones, that a first freeze is taken to cost (docs/results/frozen.md).
#define COLLECTIONS         2
#define PAYS_BACK           2  // times what it costs, spent on collections
#define LARGEST_PART        8  // of the time so far, that it may cost
#define SETTLED_PART        4  // of the time so far, in which nothing was loaded
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
    if (took >= schedule->longest / 2) {
        schedule->last_full = took;
    }
    schedule->spent += took - schedule->shortest;
    if (schedule->cost > 0 &&
        took * IN_VAIN_DENOMINATOR > schedule->longest_before * IN_VAIN_NUMERATOR) {
        schedule->in_vain = true;
    }
}

// What was loaded since a freeze may make the next one worth it.
void pw_freeze_note_loaded(struct pw_freeze_schedule *schedule, size_t loaded, uint64_t now) {
    if (loaded != schedule->loaded || now < schedule->loaded_at) { // a child's clock begins anew
        schedule->loaded = loaded;
        schedule->loaded_at = now;
        schedule->in_vain = false;
        schedule->least_cost = schedule->cost > 0 ? schedule->cost : schedule->least_cost;
        schedule->cost = 0; // what the last one gave tells nothing of it
    }
}

bool pw_freeze_pays(const struct pw_freeze_schedule *schedule, uint64_t now) {
    uint64_t cost = schedule->cost ? schedule->cost : COLLECTIONS * schedule->last_full;
    cost = cost > schedule->least_cost ? cost : schedule->least_cost;
    return !schedule->in_vain && now >= schedule->not_before &&
           now - schedule->loaded_at >= now / SETTLED_PART && schedule->spent > PAYS_BACK * cost &&
           cost <= now / LARGEST_PART;
}

// Tried again when the program has run as long again: what is lost at all is a small part.
void pw_freeze_tried(struct pw_freeze_schedule *schedule, uint64_t start, uint64_t now) {
    *schedule = (struct pw_freeze_schedule){
        .cost = now - start,
        .longest_before = schedule->longest,
        .not_before = 2 * now,
        .loaded = schedule->loaded,
        .loaded_at = schedule->loaded_at,
    };
}
