// SPDX-License-Identifier: MIT
//
// What needing less memory may cost: the part of the program's CPU time that the option `budget`
// allows, and all that Pagewise has saved it so far. Who is about to spend asks here first, and who
// has saved or spent says so. Nanoseconds of CPU time of the thread that collects. Faults that come
// of sharing later are not seen.
#ifndef PW_POLICY_BUDGET_H
#define PW_POLICY_BUDGET_H

#include <stdint.h>

// Zeroed memory is a valid start: nothing saved, nothing spent.
struct pw_budget {
    uint64_t saved, spent;
    uint64_t page_price; // of a page that is made and filled, on this machine; 0: not measured
};

// What may be spent at `now`, where `percent` of all time may.
uint64_t pw_budget_left(const struct pw_budget *budget, unsigned percent, uint64_t now);

void pw_budget_spend(struct pw_budget *budget, uint64_t time);
void pw_budget_save(struct pw_budget *budget, uint64_t time);

// The same for pages that had to be made once more, or need not be made.
void pw_budget_spend_pages(struct pw_budget *budget, uint64_t pages);
void pw_budget_save_pages(struct pw_budget *budget, uint64_t pages);

#endif
