// SPDX-License-Identifier: MIT
//
// Are large pages worth it on this machine, now? A fresh one costs a third of the small pages in
// its place where the memory is there. Where a hypervisor takes free memory back in large pieces
// (free page reporting), the host has to find all of it again: 3.8 ms for 2 MB were measured, and
// small pages, which come from memory that was in use a moment ago, cost a fifth of that. So one
// large page of a block is touched now and then, and the clock decides.
#ifndef PW_POLICY_HUGE_H
#define PW_POLICY_HUGE_H

#include <stdbool.h>
#include <stdint.h>

enum pw_huge_answer {
    PW_HUGE_ADVISE,
    PW_HUGE_TRY,  // and report what the first page of 2 MB cost
    PW_HUGE_LEAVE // small pages are cheaper now
};

// Zeroed memory is a valid start.
struct pw_huge_price {
    uint64_t pause;   // pages of fresh blocks until the next try
    uint64_t untried; // pages of fresh blocks since the last one
    uint64_t cost;    // nanoseconds for 2 MB, the newest tries weighing most; 0: never tried
};

// For a fresh block of `pages` that large pages suit.
enum pw_huge_answer pw_huge_decide(struct pw_huge_price *price, uint64_t pages);

void pw_huge_report(struct pw_huge_price *price, uint64_t nanoseconds);

#endif
