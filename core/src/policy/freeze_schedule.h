// SPDX-License-Identifier: MIT
//
// When to freeze what packages brought (runtime/r/frozen.h). A freeze costs as much as a few full
// collections. From then on each full one is cheaper, and before every collection there is a look,
// which costs, with the faults before it, about two young ones. How long the program will run is
// not known; that it runs as long again as it has is the best guess there is. So a freeze is worth
// it when
//
//  - it would have saved its cost, looks counted, since the last package was loaded;
//  - it is a small part of the time so far, as the program may end now;
//  - nothing was loaded for a while: most of what packages bring later would be left out.
//
// It is renewed, to be rid of what was dropped since, when the program has run as long again and it
// is a very small part of the time.
//
// Whether it was is seen: where collections and looks take little less than collections did, all is
// given back. Times are CPU time of the thread that collects, in nanoseconds.
#ifndef PW_POLICY_FREEZE_SCHEDULE_H
#define PW_POLICY_FREEZE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pw_freeze_tally {
    uint64_t collections;
    uint64_t time; // that they took
    uint64_t more; // than young ones would have, or than what no other freeze can save
};

// Zeroed memory is a valid start.
struct pw_freeze_schedule {
    uint64_t began;                      // the collection that is under way; 0: none
    struct pw_freeze_tally since_loaded; // or since the last freeze
    struct pw_freeze_tally since_frozen;
    uint64_t shortest;       // since loaded: a young one
    uint64_t longest;        // since frozen
    uint64_t last_full;      // the last one that took half as long as the longest
    uint64_t residual;       // the longest after the last freeze, before more was loaded
    uint64_t cost;           // of the last freeze, if nothing was loaded or given back since
    uint64_t least_cost;     // of the next one: of an earlier one
    uint64_t average_before; // collection before the last freeze; 0: not to be compared
    uint64_t not_before;
    size_t loaded;      // packages
    uint64_t loaded_at; // when their number was last another one
    bool frozen;
    bool in_vain; // collections and looks take little less since the last one
};

void pw_freeze_collection_began(struct pw_freeze_schedule *schedule, uint64_t now);
void pw_freeze_collection_ended(struct pw_freeze_schedule *schedule, uint64_t now);

// A look before a collection took so long.
void pw_freeze_looked(struct pw_freeze_schedule *schedule, uint64_t took);

// So many packages are loaded now.
void pw_freeze_note_loaded(struct pw_freeze_schedule *schedule, size_t loaded, uint64_t now);

// Does it pay to freeze, or to thaw and freeze anew?
bool pw_freeze_pays(const struct pw_freeze_schedule *schedule, uint64_t now);

// It was tried. What was frozen before it, `again`, was given back first.
struct pw_freeze_try {
    bool again, done;
    uint64_t start, end;
};
void pw_freeze_tried(struct pw_freeze_schedule *schedule, const struct pw_freeze_try *attempt);

// What was frozen is given back.
void pw_freeze_thawed(struct pw_freeze_schedule *schedule);

// In a child: collections copy what they write. To give back what is frozen, or to renew it, would
// copy all of it.
void pw_freeze_forked(struct pw_freeze_schedule *schedule);

#endif
