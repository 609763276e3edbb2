// SPDX-License-Identifier: MIT
//
// When to freeze what packages brought (runtime/r/frozen.h). A freeze costs as much as a few full
// collections, and each later one is cheaper. How long the program will run is not known; that it
// runs as long again as it has is the best guess there is. So it is worth it when collections have
// taken twice as much already; and it must be a small part of the time so far, as the program may
// end now. Not while packages are being loaded: most of what they bring would be left out. Times
// are CPU time of the thread that collects, in nanoseconds.
#ifndef PW_POLICY_FREEZE_SCHEDULE_H
#define PW_POLICY_FREEZE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Zeroed memory is a valid start.
struct pw_freeze_schedule {
    uint64_t began;             // the collection that is under way; 0: none
    uint64_t shortest, longest; // collection since the last freeze
    uint64_t last_full;         // the last one that took half as long as the longest
    uint64_t spent;             // on collections since, beyond the shortest: a young one
    uint64_t cost;              // of the last freeze; 0: there was none
    uint64_t least_cost;        // of the next one: of an earlier one
    uint64_t longest_before;    // collection before the last freeze
    uint64_t not_before;
    size_t loaded;      // packages
    uint64_t loaded_at; // when their number was last another one
    bool in_vain;       // the last one made collections no shorter
};

void pw_freeze_collection_began(struct pw_freeze_schedule *schedule, uint64_t now);
void pw_freeze_collection_ended(struct pw_freeze_schedule *schedule, uint64_t now);

// So many packages are loaded now.
void pw_freeze_note_loaded(struct pw_freeze_schedule *schedule, size_t loaded, uint64_t now);

// Does it pay to freeze, or to thaw and freeze anew?
bool pw_freeze_pays(const struct pw_freeze_schedule *schedule, uint64_t now);

// It was tried, from `start` to `now`.
void pw_freeze_tried(struct pw_freeze_schedule *schedule, uint64_t start, uint64_t now);

#endif
