// SPDX-License-Identifier: MIT
//
// Zero reclaim (page-sharing-dls14, section 4.3): after a collection, pages that hold only zeros
// are given back; the next read of one finds the kernel's zero page.
#include "share/share.h"

#include "share/snapshot.h"

#define RANGES      128
#define MAX_BACKOFF 6 // at least every 64th collection looks at a block

// All 4,096 bytes zero? Most pages that are not show it in their first bytes.
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

static uint64_t give_back_run(struct pw_share *share, struct zero_run *run) {
    size_t size = (size_t)(run->end - run->start);
    run->start = run->end;
    if (size == 0) {
        return 0;
    }
    if (!pw_os_discard(run->end - size, size)) {
        PW_COUNT(share->stats, fallback_discard, 1);
        return 0;
    }
    return size;
}

// Give back the zero pages of one resident range.
static uint64_t reclaim_range(struct pw_share *share, char *start, char *end) {
    uint64_t freed = 0, found = 0;
    struct zero_run run = {start, start};
    for (char *page = start; page < end; page += PW_PAGE) {
        if (is_zero(page)) {
            if (run.end != page) {
                freed += give_back_run(share, &run);
                run.start = page;
            }
            run.end = page + PW_PAGE;
            found++;
        }
    }
    freed += give_back_run(share, &run);
    PW_COUNT(share->stats, zero_pages_checked, (uint64_t)(end - start) / PW_PAGE);
    PW_COUNT(share->stats, zero_pages_found, found);
    return freed;
}

// The first page holds the chunk header and the object's own header: never zero. Pages on a
// snapshot are looked at only once written (a discarded one would show the snapshot again, so they
// are left out altogether); swapped ones are not resident and so never brought back.
static uint64_t reclaim_part(struct pw_share *share, const struct pw_extent *extent, uint32_t first,
                             uint32_t last) {
    struct pw_os_range ranges[RANGES];
    uintptr_t base = (uintptr_t)pw_extent_address(share->arena, extent);
    uintptr_t at = base + (uintptr_t)first * PW_PAGE, end = base + (uintptr_t)last * PW_PAGE;
    uint64_t freed = 0;
    while (at < end) {
        uintptr_t walked = at;
        int found = pw_os_pagemap_find(&share->pagemap, at, end, PW_OS_RESIDENT_PAGES, ranges,
                                       RANGES, &walked);
        if (found < 0 || walked <= at) {
            return freed;
        }
        for (int i = 0; i < found; i++) {
            freed += reclaim_range(share, (char *)ranges[i].start, (char *)ranges[i].end);
        }
        at = walked;
    }
    return freed;
}

static uint64_t reclaim_extent(struct pw_share *share, const struct pw_extent *extent) {
    if (!extent->snapshot) {
        return reclaim_part(share, extent, 1, extent->pages);
    }
    uint32_t shared_end = extent->share_first + extent->share_pages;
    return reclaim_part(share, extent, 1, extent->share_first) +
           reclaim_part(share, extent, shared_end, extent->pages);
}

static bool is_due(const struct pw_extent *extent, uint32_t collections, bool always) {
    return always || (int32_t)(collections - extent->zero_due) >= 0;
}

uint64_t pw_share_reclaim_zero(struct pw_share *share, bool always) {
    uint64_t freed = 0;
    share->collections++;
    PW_COUNT(share->stats, zero_scans, 1);
    for (uint32_t number = 1; number < share->arena->extent_count; number++) {
        struct pw_extent *extent = pw_extent_at(share->arena, number);
        if (extent->state != PW_EXTENT_USED || !extent->collected ||
            !is_due(extent, share->collections, always)) {
            continue;
        }
        uint64_t got = reclaim_extent(share, extent);
        freed += got;
        if (got) {
            extent->zero_backoff = 0;
        } else if (extent->zero_backoff < MAX_BACKOFF) {
            extent->zero_backoff++;
        }
        extent->zero_due = share->collections + (1u << extent->zero_backoff);
    }
    PW_COUNT(share->stats, zero_reclaimed_bytes, freed);
    return freed;
}

// --- pages of which only a writer is left
// ---------------------------------------------------------

// The only owner has its own copy of these pages: nobody can read the snapshot's any more. What was
// written stays written, so the count of the last time tells how much is new.
static uint64_t punch_written(struct pw_share *share, struct pw_snapshot_file *file,
                              struct pw_snapshot *snapshot, const struct pw_extent *extent) {
    struct pw_os_range ranges[RANGES];
    uint64_t total = 0;
    int count = pw_share_written(share, extent, extent->share_first, extent->share_pages, ranges,
                                 RANGES, &total);
    if (count < 0 || total <= snapshot->punched) {
        return 0;
    }
    uintptr_t base = (uintptr_t)pw_extent_address(share->arena, extent) +
                     (uintptr_t)extent->share_first * PW_PAGE;
    for (int i = 0; i < count; i++) {
        uint64_t offset =
            snapshot->offset + (uint64_t)extent->share_offset * PW_PAGE + (ranges[i].start - base);
        if (!pw_os_punch(file->file.fd, offset, ranges[i].end - ranges[i].start)) {
            PW_COUNT(share->stats, fallback_discard, 1);
            return 0;
        }
    }
    uint64_t pages = total - snapshot->punched;
    snapshot->punched = (uint32_t)total;
    return pages * PW_PAGE;
}

static void back_off(struct pw_snapshot *snapshot, uint32_t collections, bool found) {
    if (found) {
        snapshot->backoff = 0;
    } else if (snapshot->backoff < MAX_BACKOFF) {
        snapshot->backoff++;
    }
    snapshot->due = collections + (1u << snapshot->backoff);
}

uint64_t pw_share_reclaim_sole(struct pw_share *share) {
    uint64_t freed = 0;
    for (uint32_t number = 1; number < share->snapshot_count; number++) {
        struct pw_snapshot *snapshot = pw_snapshot_at(share, number);
        if (snapshot->owners != 1 || (int32_t)(share->collections - snapshot->due) < 0) {
            continue;
        }
        struct pw_snapshot_file *file = &share->files[snapshot->file];
        if (!pw_snapshot_may_punch(share, file)) {
            continue;
        }
        const struct pw_extent *owner = pw_extent_at(share->arena, snapshot->first_member);
        uint64_t got = punch_written(share, file, snapshot, owner);
        back_off(snapshot, share->collections, got > 0);
        freed += got;
    }
    PW_COUNT(share->stats, sole_owner_bytes, freed);
    PW_COUNT(share->stats, snapshot_bytes, -(int64_t)freed);
    return freed;
}
