// SPDX-License-Identifier: MIT
//
// Are large pages worth it on this machine, now? A fresh one costs a third of the small pages in
// its place where the memory is there. Where a hypervisor takes free memory back in large pieces
// (free page reporting), the host has to find all of it again: 3.8 ms for 2 MB were measured, and
// small pages, which come from memory that was in use a moment ago, cost a fifth of that. So large
// pages are touched under the clock: all those of a block that is about to be filled, until one is
// dear; of others one now and then. The runtime asks in the same way for a block that will be
// filled and for one that a copy is to share, which needs no pages: sizes that were shared lately
// are not touched.
#ifndef PW_POLICY_HUGE_PRICE_H
#define PW_POLICY_HUGE_PRICE_H

#include <stdbool.h>
#include <stdint.h>

enum pw_huge_answer {
    PW_HUGE_ADVISE, // for all that is left of the block
    PW_HUGE_TRY,    // touch the next page of 2 MB, and report what it cost
    PW_HUGE_LEAVE   // small pages are cheaper now
};

#define PW_HUGE_SIZES 64u

// Blocks of one size that are asked for to be filled.
struct pw_huge_size {
    uint32_t pages; // 0: none yet
    uint32_t doubt; // of so many next ones no page is touched
};

// Zeroed memory is a valid start.
struct pw_huge_price {
    uint64_t pause;   // pages of fresh blocks until the next try
    uint64_t untried; // pages of fresh blocks since the last one
    uint64_t cost;    // nanoseconds for 2 MB, the newest tries weighing most; 0: never tried
    struct pw_huge_size sizes[PW_HUGE_SIZES];
};

// For a fresh block of `pages` that large pages suit. `filled`: all of it is about to be written,
// so that touching its pages first makes none that would have stayed absent.
enum pw_huge_answer pw_huge_decide(struct pw_huge_price *price, uint32_t pages, bool filled);

// What a try cost; 0: there was no page left to try. Returns what to do with the rest of the block.
enum pw_huge_answer pw_huge_report(struct pw_huge_price *price, uint64_t nanoseconds, bool filled);

// A block of `pages` was not filled after all: a copy shared its pages, or it was filled with zero.
void pw_huge_spared(struct pw_huge_price *price, uint32_t pages);

#endif
