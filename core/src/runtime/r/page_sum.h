// SPDX-License-Identifier: MIT
//
// What the frozen nodes of a page hold, as one number: most writes to a page change counts in its
// headers alone, and to compare numbers is cheaper than to ask of each child whether it is frozen.
#ifndef PW_RUNTIME_R_PAGE_SUM_H
#define PW_RUNTIME_R_PAGE_SUM_H

#include "runtime/r/frozen_pages.h"

#define PW_R_SUM_KEYS 21 // for a page; for a header's bits, the attributes, and 18 words

struct pw_r_sum_key {
    uint64_t keys[PW_R_SUM_KEYS]; // nobody can guess them; the first is 0 where there are none
};

void pw_r_sum_key_make(struct pw_r_sum_key *key);

// All that decides which children pw_r_each_child visits, but the children's own bits. Two contents
// have the same sum once in 2^49 times at most. PW_R_NO_SUM: without a key.
uint64_t pw_r_page_sum(const struct pw_r_sum_key *key, const struct pw_r_frozen_page *page);

#endif
