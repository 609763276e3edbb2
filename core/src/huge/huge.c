// SPDX-License-Identifier: MIT
#include "huge/huge.h"

#include <ucontext.h>

#define UNIT_PAGES ((uint32_t)(PW_HUGE_PAGE / PW_PAGE))

bool pw_huge_wanted(const struct pw_huge *huge, uint32_t pages) {
    return huge->on && pages >= huge->smallest && pages <= huge->largest;
}

uint32_t pw_huge_unit(const struct pw_huge *huge, uint32_t pages) {
    uint32_t wished = huge->hugetlb ? 1u << (huge->hugetlb - PW_PAGE_SHIFT) : UNIT_PAGES;
    return pages > wished ? wished : UNIT_PAGES;
}

static bool is_aligned(const struct pw_extent *extent) {
    return (extent->page + 1) % UNIT_PAGES == 0;
}

bool pw_huge_suits(const struct pw_huge *huge, const struct pw_extent *extent) {
    return !huge->always || !pw_huge_wanted(huge, extent->pages) ||
           (!huge->hugetlb && !huge->lock && is_aligned(extent));
}

// --- backing -------------------------------------------------------------------

static char *units_start(const struct pw_arena *arena, const struct pw_extent *extent) {
    return pw_extent_address(arena, extent) + PW_PAGE;
}

// Bytes of the whole units of `unit` pages behind the header page.
static size_t units_size(const struct pw_extent *extent, uint32_t unit) {
    return (size_t)((extent->pages - 1) / unit * unit) * PW_PAGE;
}

static size_t hugetlb_size(const struct pw_extent *extent) {
    return units_size(extent, 1u << (extent->hugetlb - PW_PAGE_SHIFT));
}

static bool take_from_pool(struct pw_arena *arena, struct pw_extent *extent, unsigned shift) {
    uint32_t unit = 1u << (shift - PW_PAGE_SHIFT);
    size_t size = units_size(extent, unit);
    char *start = units_start(arena, extent);
    if (size == 0 || (extent->page + 1) % unit != 0) {
        return false;
    }
    if (pw_os_map_hugetlb(start, size, shift)) {
        extent->hugetlb = (uint8_t)shift;
        extent->fixed = true;
        arena->hugetlb_blocks++;
        PW_COUNT(arena->stats, hugetlb_bytes, size);
        return true;
    }
    // The refused mapping may have left a hole.
    if (!pw_arena_mend(arena, start, size)) {
        arena->hole = start;
    }
    PW_COUNT(arena->stats, fallback_hugetlb, 1);
    return false;
}

static uint32_t unadvised_units(const struct pw_extent *extent) {
    return is_aligned(extent) ? (extent->pages - 1 - extent->huge_pages) / UNIT_PAGES : 0;
}

static bool advise(struct pw_arena *arena, struct pw_extent *extent, uint32_t units) {
    char *start = units_start(arena, extent) + (size_t)extent->huge_pages * PW_PAGE;
    size_t size = units * PW_HUGE_PAGE;
    if (size == 0 || !pw_os_advise_huge(start, size)) {
        return false;
    }
    extent->huge_pages += units * UNIT_PAGES;
    arena->has_huge = true;
    PW_COUNT(arena->stats, huge_bytes, size);
    return true;
}

// What whole pages of 1 GB leave over may still be large.
static void advise_rest(struct pw_arena *arena, struct pw_extent *extent) {
    size_t taken = hugetlb_size(extent), size = units_size(extent, UNIT_PAGES);
    if (size > taken) {
        pw_os_advise_huge(units_start(arena, extent) + taken, size - taken);
    }
}

static void lock(struct pw_arena *arena, struct pw_extent *extent) {
    extent->fixed = true;
    extent->locked = pw_os_lock(pw_extent_address(arena, extent), (size_t)extent->pages * PW_PAGE);
    if (!extent->locked) {
        PW_COUNT(arena->stats, fallback_lock, 1);
    }
}

void pw_huge_back(const struct pw_huge *huge, struct pw_arena *arena, struct pw_extent *extent) {
    bool backed = huge->hugetlb && (take_from_pool(arena, extent, huge->hugetlb) ||
                                    (huge->hugetlb > 21 && take_from_pool(arena, extent, 21)));
    if (backed) {
        advise_rest(arena, extent);
    } else if (!huge->ordinary) {
        advise(arena, extent, unadvised_units(extent));
    }
    if (huge->lock) {
        lock(arena, extent);
    }
}

uint64_t pw_huge_touch_next(struct pw_arena *arena, struct pw_extent *extent) {
    if (unadvised_units(extent) == 0 || !advise(arena, extent, 1)) {
        return 0;
    }
    char *unit = units_start(arena, extent) + (size_t)extent->huge_pages * PW_PAGE - PW_HUGE_PAGE;
    uint64_t before = pw_os_thread_cpu_ns();
    *(volatile char *)unit = 0;
    return pw_os_thread_cpu_ns() - before;
}

void pw_huge_empty(struct pw_arena *arena, const struct pw_extent *extent, char *start, char *end) {
    char *units = units_start(arena, extent);
    char *units_end = units + (size_t)extent->huge_pages * PW_PAGE;
    uintptr_t first = (uintptr_t)(start > units ? start : units) + PW_HUGE_PAGE - 1;
    uintptr_t last = (uintptr_t)(end < units_end ? end : units_end);
    first -= first % PW_HUGE_PAGE;
    last -= last % PW_HUGE_PAGE;
    if (extent->huge_pages && first < last) {
        pw_os_discard((char *)first, last - first);
    }
}

void pw_huge_forget(struct pw_arena *arena, struct pw_extent *extent) {
    PW_COUNT(arena->stats, huge_bytes, -(int64_t)((size_t)extent->huge_pages * PW_PAGE));
    extent->huge_pages = 0;
    extent->locked = false;
    if (extent->hugetlb) {
        PW_COUNT(arena->stats, hugetlb_bytes, -(int64_t)hugetlb_size(extent));
        extent->hugetlb = 0;
        arena->hugetlb_blocks--;
    }
}

// --- forks, and what the pool's pages do not bear --------------------------------

bool pw_huge_cuts_page(const struct pw_arena *arena, const struct pw_extent *extent,
                       const char *start, const char *end) {
    const char *units = units_start(arena, extent);
    size_t size = hugetlb_size(extent), within = ((size_t)1 << extent->hugetlb) - 1;
    bool begins = start > units && start < units + size && ((size_t)(start - units) & within);
    bool ends = end > units && end < units + size && ((size_t)(end - units) & within);
    return begins || ends;
}

// False: there is no memory for it.
static bool move_from_pool(struct pw_arena *arena, struct pw_extent *extent) {
    size_t size = hugetlb_size(extent);
    char *start = units_start(arena, extent);
    if (pw_os_has_hole(start, size)) {
        return true; // the C library has released the block where we do not see it
    }
    char *pages = pw_os_map_table(size);
    if (!pages) {
        PW_COUNT(arena->stats, fallback_map, 1);
        return false;
    }
    pw_os_copy(pages, start, size);
    bool moved = pw_os_move(pages, size, start);
    if (!moved && !pw_os_is_mapped(start, size) && // the pool's pages are gone all the same
        pw_arena_mend(arena, start, size)) {
        pw_os_copy(start, pages, size);
        moved = true;
    }
    if (moved) {
        PW_COUNT(arena->stats, hugetlb_bytes, -(int64_t)size);
        extent->hugetlb = 0;
        arena->hugetlb_blocks--;
    }
    pw_os_unmap(pages, size);
    return true;
}

#define OTHER_STACK ((size_t)64 << 10)

struct leaving {
    struct pw_arena *arena;
    struct pw_extent *extent;
    bool done;
    ucontext_t before, there;
};

static void move_from_there(unsigned high, unsigned low) {
    struct leaving *leaving = (struct leaving *)(((uintptr_t)high << 32) | low);
    leaving->done = move_from_pool(leaving->arena, leaving->extent);
}

// The block in which the caller's stack lies, a coroutine's: from another stack, or what we write
// to it between the copy and the move would be lost.
static bool leave_from_other_stack(struct pw_arena *arena, struct pw_extent *extent) {
    struct leaving leaving = {.arena = arena, .extent = extent};
    uintptr_t self = (uintptr_t)&leaving;
    char *stack = pw_os_map_table(OTHER_STACK);
    if (!stack || getcontext(&leaving.there) != 0) {
        PW_COUNT(arena->stats, fallback_map, 1);
    } else {
        leaving.there.uc_stack = (stack_t){.ss_sp = stack, .ss_size = OTHER_STACK};
        leaving.there.uc_link = &leaving.before;
        makecontext(&leaving.there, (void (*)(void))move_from_there, 2, (unsigned)(self >> 32),
                    (unsigned)self);
        swapcontext(&leaving.before, &leaving.there);
    }
    if (stack) {
        pw_os_unmap(stack, OTHER_STACK);
    }
    return leaving.done;
}

bool pw_huge_leave_pool(struct pw_arena *arena, struct pw_extent *extent) {
    if (!extent->hugetlb || extent->altered) {
        return true; // or the program has taken its pages in hand
    }
    return pw_extent_holds_stack(arena, extent) ? leave_from_other_stack(arena, extent)
                                                : move_from_pool(arena, extent);
}

static void leave_pool(void *context, struct pw_arena *arena, struct pw_extent *extent) {
    (void)context;
    if (!pw_huge_leave_pool(arena, extent)) {
        pw_os_warn("fork with pages of the hugetlb pool", ": no memory to move them; a child that "
                                                          "writes them needs free ones");
    }
}

void pw_huge_before_fork(struct pw_arena *arena) {
    if (arena->hugetlb_blocks > 0) {
        pw_arena_each(arena, leave_pool, NULL);
    }
}
