// SPDX-License-Identifier: MIT
//
// huge: advice for huge pages on large blocks, with an exact tail.
//
// Fresh extents of this size start so that the page behind their header page lies on a 2 MB
// boundary. Whole 2 MB units get the advice; the 4 KB-rounded tail does not, so that a block never
// costs more memory than the C library's would (ism-large-pages; "exact tail" in the design notes).
#ifndef PW_HUGE_HUGE_H
#define PW_HUGE_HUGE_H

#include "extent/extent.h"

// Below this, the gain from fewer faults does not pay for the unaligned pages around.
#define PW_HUGE_SMALLEST_PAGES 1024u

struct pw_huge {
    bool on;
};

// Should a fresh extent of `pages` be laid out for huge pages?
bool pw_huge_wanted(const struct pw_huge *huge, uint32_t pages);

// Advise the whole 2 MB units of a fresh extent that pw_huge_wanted chose.
void pw_huge_advise(struct pw_arena *arena, struct pw_extent *extent);

// The block is gone: its advised pages no longer count.
void pw_huge_forget(struct pw_arena *arena, struct pw_extent *extent);

#endif
