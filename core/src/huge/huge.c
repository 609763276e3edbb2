// SPDX-License-Identifier: MIT
#include "huge/huge.h"

#define UNIT_PAGES ((uint32_t)(PW_HUGE_PAGE / PW_PAGE))

bool pw_huge_wanted(const struct pw_huge *huge, uint32_t pages) {
    return huge->on && pages >= PW_HUGE_SMALLEST_PAGES;
}

// Whole 2 MB units behind the header page.
static size_t advised_size(const struct pw_extent *extent) {
    return (size_t)((extent->pages - 1) / UNIT_PAGES * UNIT_PAGES) * PW_PAGE;
}

void pw_huge_advise(struct pw_arena *arena, struct pw_extent *extent) {
    size_t size = advised_size(extent);
    char *start = pw_extent_address(arena, extent) + PW_PAGE;
    bool aligned = ((uintptr_t)start & (PW_HUGE_PAGE - 1)) == 0;
    if (aligned && size > 0 && pw_os_advise_huge(start, size)) {
        extent->huge = arena->has_huge = true;
        PW_COUNT(arena->stats, huge_bytes, size);
    }
}

void pw_huge_forget(struct pw_arena *arena, struct pw_extent *extent) {
    if (extent->huge) {
        extent->huge = false;
        PW_COUNT(arena->stats, huge_bytes, -(int64_t)advised_size(extent));
    }
}
