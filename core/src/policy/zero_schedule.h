// SPDX-License-Identifier: MIT
//
// How long a new block is left alone before its pages are searched for zeros. Giving a page back
// costs a fault when it is written again, and saves nothing when the block is freed soon after;
// earlier blocks of the same size tell.
#ifndef PW_POLICY_ZERO_SCHEDULE_H
#define PW_POLICY_ZERO_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#define PW_ZERO_SIZES 1024u

// Zeroed memory is a valid start.
struct pw_zero_learner {
    uint8_t level[PW_ZERO_SIZES];   // log2 of the wait beyond the shortest one, by hashed size
    uint8_t in_vain[PW_ZERO_SIZES]; // blocks in a row in which nothing was found
    uint64_t given_in_vain;         // pages given back that were needed soon
};

// When a new block is searched.
struct pw_zero_plan {
    uint16_t wait; // collections until all its zero pages are looked for
    // Collections until long runs of them are: that costs little, and saves most where a matrix was
    // made to be filled later.
    uint16_t first_wait;
    // May it be searched before a new peak, without any wait? Where blocks of its size are freed by
    // the next collections or filled at once, their zeros were given back for nothing.
    bool at_peak;
};

struct pw_zero_plan pw_zero_plan(const struct pw_zero_learner *learner, uint32_t pages);

// May other young blocks be searched then as well? A few large ones that are soon gone can be all
// that the peak consists of: while what was given back in vain is little of the time. `now`: CPU
// time of the thread, ns.
bool pw_zero_may_search_all(const struct pw_zero_learner *learner, uint64_t now);

// A block of `pages` pages is freed. `given` pages were given back, most of them `since`
// collections ago, and `absent` of the block's pages are still not backed. Returns whether that was
// worth it.
bool pw_zero_report(struct pw_zero_learner *learner, uint32_t pages, uint32_t given, uint32_t since,
                    uint64_t absent);

// A block is freed that was searched in vain.
void pw_zero_report_nothing(struct pw_zero_learner *learner, uint32_t pages);

#endif
