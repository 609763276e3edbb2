// SPDX-License-Identifier: MIT
//
// huge: large pages for large blocks, with an exact tail.
//
// Fresh extents of this size start so that the page behind their header page lies on a 2 MB
// boundary (1 GB where such pages are wished for). Whole units get large pages; the 4 KB-rounded
// tail does not, so that a block never costs more memory than the C library's would
// (ism-large-pages; "exact tail" in the design notes).
//
// Pages of the hugetlb pool are taken on explicit wish only, reserved when the block is made. A
// fork's child that writes one needs another one, and gets SIGBUS where the pool is empty: before a
// fork, blocks on such pages are moved to ordinary ones.
#ifndef PW_HUGE_HUGE_H
#define PW_HUGE_HUGE_H

#include "extent/extent.h"

// Below this, the gain from fewer faults does not pay for the unaligned pages around.
#define PW_HUGE_SMALLEST_PAGES ((uint32_t)pw_pages_for(4 << 20))

struct pw_huge {
    bool on;
    bool always;                // rather fresh large pages than warm ordinary ones
    bool ordinary;              // no large pages: for locked blocks, and to compare
    bool lock;                  // keep blocks in memory
    uint8_t hugetlb;            // log2 of the page size wished for from the hugetlb pool; 0: none
    uint64_t smallest, largest; // pages of a block
};

// Should an extent of `pages` be laid out for large pages?
bool pw_huge_wanted(const struct pw_huge *huge, uint32_t pages);

// Pages to whose multiples the second page of such an extent is aligned.
uint32_t pw_huge_unit(const struct pw_huge *huge, uint32_t pages);

// May these pages from the pool serve a request? Where large pages are wished for, a request that
// pw_huge_wanted chooses gets none that cannot become large.
bool pw_huge_suits(const struct pw_huge *huge, const struct pw_extent *extent);

// Give a fresh extent that pw_huge_wanted chose large pages: from the pool, else by advice. Locks
// it if that is wished for.
void pw_huge_back(const struct pw_huge *huge, struct pw_arena *arena, struct pw_extent *extent);

// Advise the next large page of a fresh extent, and touch it. Returns nanoseconds of this thread's
// CPU time; 0: there is none left, or the kernel takes no advice.
uint64_t pw_huge_touch_next(struct pw_arena *arena, struct pw_extent *extent);

// Before the range of the block is filled with zero: give back the large pages that lie wholly in
// it. They read zero, and to find others when they are written costs less than to fill them. What
// cannot be given back is as it was.
void pw_huge_empty(struct pw_arena *arena, const struct pw_extent *extent, char *start, char *end);

// The block is gone: its advised pages no longer count.
void pw_huge_forget(struct pw_arena *arena, struct pw_extent *extent);

// Does the range begin or end within one of the hugetlb pool's pages of this block?
bool pw_huge_cuts_page(const struct pw_arena *arena, const struct pw_extent *extent,
                       const char *start, const char *end);

// Move a block from the hugetlb pool's pages to ordinary ones, with its bytes. No other thread may
// write it meanwhile. Where that fails its pages are as they were. False: no memory for it.
bool pw_huge_leave_pool(struct pw_arena *arena, struct pw_extent *extent);

// A fork is about to happen: move blocks from the hugetlb pool's pages to ordinary ones. No other
// thread may write them meanwhile.
void pw_huge_before_fork(struct pw_arena *arena);

#endif
