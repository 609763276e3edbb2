// SPDX-License-Identifier: MIT
#include "policy/zero_schedule.h"

// Collections until a first search, and for which pages must have stayed away to be worth it. Tuned
// on the inverse and the regression of bench/r, whose `solve` fills such blocks at once
// (docs/notes/experiments/zero-pages.md).
#define SHORTEST_WAIT 4u
#define WORTH_KEEPING 4u
#define FIRST_PART    4u // of the wait, until long runs are looked for
#define HIGHEST_LEVEL 6
#define IN_VAIN       4u // so many blocks searched in vain double the wait
// From here on peaks leave blocks alone: two were not worth it. Tuned on the README's example
// (there).
#define LEVEL_AT_PEAK 4
// But for this part of all time. Tuned on lda and ada (there).
#define IN_VAIN_PART 100u
#define FAULT_COST   UINT64_C(3000) // ns to give a page back and to have it again

static uint32_t slot(uint32_t pages) {
    return (uint32_t)((pages * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % PW_ZERO_SIZES;
}

struct pw_zero_plan pw_zero_plan(const struct pw_zero_learner *learner, uint32_t pages) {
    uint32_t size = slot(pages);
    unsigned level = learner->level[size] + learner->in_vain[size] / IN_VAIN;
    uint16_t wait = (uint16_t)(SHORTEST_WAIT << (level > HIGHEST_LEVEL ? HIGHEST_LEVEL : level));
    return (struct pw_zero_plan){wait, wait / FIRST_PART, learner->level[size] < LEVEL_AT_PEAK};
}

bool pw_zero_may_search_all(const struct pw_zero_learner *learner, uint64_t now) {
    return learner->given_in_vain * FAULT_COST <= now / IN_VAIN_PART;
}

bool pw_zero_report(struct pw_zero_learner *learner, uint32_t pages, uint32_t given, uint32_t since,
                    uint64_t absent) {
    uint8_t *level = &learner->level[slot(pages)];
    learner->in_vain[slot(pages)] = 0;
    bool worth = absent * 2 >= given && since >= WORTH_KEEPING;
    if (worth) {
        *level -= *level > 0;
    } else {
        learner->given_in_vain += given;
        *level = (uint8_t)(*level + 2 > HIGHEST_LEVEL ? HIGHEST_LEVEL : *level + 2);
    }
    return worth;
}

void pw_zero_report_nothing(struct pw_zero_learner *learner, uint32_t pages) {
    uint8_t *in_vain = &learner->in_vain[slot(pages)];
    *in_vain += *in_vain < HIGHEST_LEVEL * IN_VAIN;
}
