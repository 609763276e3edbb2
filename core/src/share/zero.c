// SPDX-License-Identifier: MIT
//
// Zero reclaim (page-sharing-dls14, section 4.3): after a collection, pages that hold only zeros
// are given back; the next read of one finds the kernel's zero page.
#include "share/share.h"

// Shorter runs of a young block are left alone. Tuned on `solve`
// (docs/notes/experiments/zero-pages.md).
#define YOUNG_RUN ((size_t)128 << 10)
#define YOUNG_PAGES                                                                                \
    ((uint32_t)pw_pages_for(1 << 20)) // smaller young blocks wait for the collection
#define MAX_BACKOFF 6                 // at least every 64th collection looks at a block

// All of its bytes zero? Most pages that are not show it in their first bytes.
static bool is_zero(const char *page) {
    const uint64_t *words = (const uint64_t *)page;
    for (size_t i = 0; i < PW_PAGE / sizeof *words; i += 8) {
        uint64_t any = words[i] | words[i + 1] | words[i + 2] | words[i + 3] | words[i + 4] |
                       words[i + 5] | words[i + 6] | words[i + 7];
        if (any) {
            return false;
        }
    }
    return true;
}

struct zero_run {
    char *start, *end;
};

static uint64_t give_back_run(struct pw_share *share, struct zero_run *run, size_t shortest) {
    size_t size = (size_t)(run->end - run->start);
    run->start = run->end;
    if (size < shortest) {
        return 0;
    }
    if (share->arena->has_huge) {
        pw_os_split_huge(run->end - size, size);
    }
    if (!pw_os_discard(run->end - size, size)) {
        PW_COUNT(share->stats, fallback_discard, 1);
        return 0;
    }
    return size;
}

// A call that nobody saw may have left a page in a block that cannot be read: the kernel is asked
// once for each mapping.
static bool is_readable(struct pw_os_maps *maps, char *start, size_t size) {
    bool ordinary = true;
    return maps->fd < 0 || !pw_os_maps_ordinary(maps, start, size, &ordinary) || ordinary;
}

struct reclaim {
    struct pw_share *share;
    struct pw_os_maps *maps;
    size_t shortest; // run worth giving back
    uint64_t freed;
};

// Give back the zero pages of one resident range. Signals are held back by the caller: what a
// handler wrote between the look and the discard would be lost.
static bool reclaim_range(void *context, char *start, size_t size) {
    struct reclaim *reclaim = context;
    struct pw_share *share = reclaim->share;
    uint64_t found = 0;
    struct zero_run run = {start, start};
    for (char *page = start; page < start + size; page += PW_PAGE) {
        if (is_zero(page)) {
            if (run.end != page) {
                reclaim->freed += give_back_run(share, &run, reclaim->shortest);
                run.start = page;
            }
            run.end = page + PW_PAGE;
            found++;
        }
    }
    reclaim->freed += give_back_run(share, &run, reclaim->shortest);
    PW_COUNT(share->stats, zero_pages_checked, size / PW_PAGE);
    PW_COUNT(share->stats, zero_pages_found, found);
    return true;
}

static void reclaim_pages(struct reclaim *reclaim, struct pw_extent *extent, uint32_t first,
                          uint32_t last) {
    char *base = pw_extent_address(reclaim->share->arena, extent);
    if (!is_readable(reclaim->maps, base + (size_t)first * PW_PAGE,
                     (size_t)(last - first) * PW_PAGE)) {
        PW_COUNT(reclaim->share->stats, blocks_altered, 1);
        pw_extent_alter(extent, true);
        return;
    }
    pw_os_pagemap_each(&reclaim->share->pagemap, base + (size_t)first * PW_PAGE,
                       base + (size_t)last * PW_PAGE, PW_OS_RESIDENT_PAGES, reclaim_range, reclaim);
}

// The first page holds the chunk header and the object's own: never zero. Shared pages are left
// out: a discarded one would show its snapshot again. Swapped ones are not resident, and so never
// brought back.
static uint64_t reclaim_extent(struct pw_share *share, struct pw_os_maps *maps,
                               struct pw_extent *extent, size_t shortest) {
    struct reclaim reclaim = {.share = share, .maps = maps, .shortest = shortest};
    if (pw_extent_holds_stack(share->arena, extent)) {
        return 0;
    }
    uint32_t shared_end = extent->share_first + extent->share_pages;
    if (extent->snapshot) {
        reclaim_pages(&reclaim, extent, 1, extent->share_first);
        reclaim_pages(&reclaim, extent, shared_end, extent->pages);
    } else {
        reclaim_pages(&reclaim, extent, 1, extent->pages);
    }
    return reclaim.freed;
}

static bool is_due(const struct pw_extent *extent, uint32_t collections, bool always) {
    return always || (int32_t)(collections - extent->zero_due) >= 0;
}

// When to look again: soon where something was found, else less and less often.
static void reschedule(struct pw_extent *extent, uint32_t collections, uint64_t got) {
    uint32_t pages = (uint32_t)(got / PW_PAGE);
    if (pages) {
        extent->sparse = true;
        extent->zero_given_at = pages >= extent->zero_given ? collections : extent->zero_given_at;
        extent->zero_given += pages;
        extent->zero_backoff = 0;
    } else if (!extent->zero_young && extent->zero_backoff < MAX_BACKOFF) {
        extent->zero_backoff++;
    }
    extent->zero_due =
        collections + (extent->zero_young ? extent->zero_wait : 1u << extent->zero_backoff);
    extent->zero_young = false;
}

// Which of its pages a look gives back: the shortest run of zeros in bytes, 0 for none.
typedef size_t (*choice)(const struct pw_share *share, const struct pw_extent *extent, bool all);

static size_t chosen_for_peaks(const struct pw_share *share, const struct pw_extent *extent,
                               bool all) {
    (void)share;
    bool chosen =
        extent->zero_young && extent->pages >= YOUNG_PAGES && (all || extent->zero_at_peak);
    return chosen ? YOUNG_RUN : 0;
}

static size_t chosen_when_due(const struct pw_share *share, const struct pw_extent *extent,
                              bool always) {
    if (!is_due(extent, share->collections, always)) {
        return 0;
    }
    return extent->zero_young && !always ? YOUNG_RUN : PW_PAGE;
}

static uint64_t reclaim_chosen(struct pw_share *share, choice shortest_of, bool all) {
    uint64_t freed = 0;
    struct pw_os_maps maps;
    struct pw_os_signals signals;
    pw_os_signals_block(&signals);
    pw_os_maps_open(&maps);
    for (uint32_t number = 1; number < share->arena->extent_count; number++) {
        struct pw_extent *extent = pw_extent_at(share->arena, number);
        if (extent->state != PW_EXTENT_USED || !extent->may_share) {
            continue;
        }
        size_t shortest = shortest_of(share, extent, all);
        if (shortest > 0) {
            uint64_t got = reclaim_extent(share, &maps, extent, shortest);
            reschedule(extent, share->collections, got);
            freed += got;
        }
    }
    pw_os_maps_close(&maps);
    pw_os_signals_restore(&signals);
    PW_COUNT(share->stats, zero_reclaimed_bytes, freed);
    return freed;
}

uint64_t pw_share_reclaim_young(struct pw_share *share, bool all) {
    return reclaim_chosen(share, chosen_for_peaks, all);
}

uint64_t pw_share_reclaim_zero(struct pw_share *share, bool always) {
    PW_COUNT(share->stats, zero_scans, 1);
    return reclaim_chosen(share, chosen_when_due, always);
}
