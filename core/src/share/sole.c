// SPDX-License-Identifier: MIT
//
// Snapshots of which only one owner is left. What it does not map, and what it has its own copy of,
// nobody can read there any more: copies are made through an owner, and hold the latter themselves.
// Such pages are given back while the snapshot lives.
//
// The order is: pages are seen to be private, the witness is asked, they are punched. A child that
// is forked after that look has the private pages as well, however it is forked; one that was
// forked before is told of by the witness.
#include "share/snapshot.h"
#include "share/witness.h"

#define MAX_BACKOFF 6 // at least every 64th collection looks at a snapshot

struct search {
    struct pw_share *share;
    uint32_t number; // of the snapshot that is being searched
    uint32_t offset; // its page that is mapped at `base`
    char *base;
    uint64_t written; // pages found
    uint32_t failed;  // the last snapshot of which a part could not be punched
    uint64_t freed;
};

static bool punch(struct search *search, const struct pw_snapshot_range *range) {
    struct pw_share *share = search->share;
    const struct pw_snapshot *snapshot = pw_snapshot_at(share, range->snapshot);
    const struct pw_snapshot_file *file = &share->files[snapshot->file];
    return pw_witness_cleared(share, snapshot->born, share->witness.number - 1) &&
           pw_snapshot_is_own(share, file) &&
           pw_os_punch(file->file.fd, snapshot->offset + (uint64_t)range->first * PW_PAGE,
                       (uint64_t)range->pages * PW_PAGE);
}

static void note_gone(struct search *search, const struct pw_snapshot_range *range) {
    struct pw_snapshot *snapshot = pw_snapshot_at(search->share, range->snapshot);
    search->freed += (uint64_t)(range->first - snapshot->punched) * PW_PAGE;
    snapshot->punched = range->first;
    snapshot->backoff = 0;
    snapshot->due = search->share->collections + 1;
}

static void punch_ranges(struct search *search) {
    struct pw_share *share = search->share;
    bool known = share->range_count && pw_witness_turn(share);
    for (uint32_t i = 0; i < share->range_count; i++) {
        const struct pw_snapshot_range *range = &share->ranges[i];
        if (range->snapshot == search->failed) {
            continue;
        }
        if (!known || (range->pages && !punch(search, range))) {
            PW_COUNT(share->stats, fallback_discard, known);
            search->failed = range->snapshot;
        } else if (!range->pages) {
            note_gone(search, range);
        }
    }
    share->range_count = 0;
}

static void add(struct search *search, uint32_t first, uint32_t pages) {
    struct pw_share *share = search->share;
    if (share->range_count == PW_SHARE_RANGES) {
        punch_ranges(search);
    }
    share->ranges[share->range_count++] = (struct pw_snapshot_range){search->number, first, pages};
}

static bool add_written(void *context, char *start, size_t size) {
    struct search *search = context;
    uint32_t pages = (uint32_t)(size / PW_PAGE);
    add(search, search->offset + (uint32_t)((start - search->base) / (ptrdiff_t)PW_PAGE), pages);
    search->written += pages;
    return true;
}

// What was given up stays so, and the count of the last time tells how much is new.
static void search_snapshot(struct search *search, const struct pw_snapshot *snapshot) {
    struct pw_share *share = search->share;
    const struct pw_extent *owner = pw_extent_at(share->arena, snapshot->first_member);
    uint32_t end = owner->share_offset + owner->share_pages;
    uint32_t outside = snapshot->pages - owner->share_pages;
    uint64_t written = 0;
    search->offset = owner->share_offset;
    search->base = pw_extent_address(share->arena, owner) + (size_t)owner->share_first * PW_PAGE;
    search->written = 0;
    char *last = search->base + (size_t)owner->share_pages * PW_PAGE;
    if (!pw_os_pagemap_count(&share->pagemap, search->base, last, PW_OS_PRIVATE_PAGES, &written) ||
        outside + written <= snapshot->punched) {
        return;
    }
    if (owner->share_offset) {
        add(search, 0, owner->share_offset);
    }
    if (end < snapshot->pages) {
        add(search, end, snapshot->pages - end);
    }
    if (pw_os_pagemap_each(&share->pagemap, search->base, last, PW_OS_PRIVATE_PAGES, add_written,
                           search)) {
        add(search, outside + (uint32_t)search->written, 0);
    }
}

// Nothing would come of a search while a child has the snapshot.
static bool is_due(struct pw_share *share, const struct pw_snapshot *snapshot) {
    return snapshot->owners == 1 && (int32_t)(share->collections - snapshot->due) >= 0 &&
           (snapshot->born == share->witness.number ||
            pw_witness_cleared(share, snapshot->born, share->witness.number - 1)) &&
           pw_snapshot_is_own(share, &share->files[snapshot->file]);
}

static void back_off(struct pw_snapshot *snapshot, uint32_t collections) {
    if (snapshot->backoff < MAX_BACKOFF) {
        snapshot->backoff++;
    }
    snapshot->due = collections + (1u << snapshot->backoff);
}

uint64_t pw_share_reclaim_sole(struct pw_share *share) {
    struct search search = {.share = share};
    pw_witness_ask_again(share);
    for (uint32_t number = 1; number < share->snapshot_count; number++) {
        struct pw_snapshot *snapshot = pw_snapshot_at(share, number);
        search.number = number;
        if (is_due(share, snapshot)) {
            back_off(snapshot, share->collections); // until something was given back
            search_snapshot(&search, snapshot);
        }
    }
    punch_ranges(&search);
    pw_share_settle(share); // after it, so that one ask does for both
    PW_COUNT(share->stats, sole_owner_bytes, search.freed);
    PW_COUNT(share->stats, snapshot_bytes, -(int64_t)search.freed);
    return search.freed;
}

uint64_t pw_share_collected(struct pw_share *share, bool zeros, bool all) {
    pw_share_count_collection(share);
    uint64_t freed = zeros ? pw_share_reclaim_zero(share, all) : 0;
    return freed + pw_share_reclaim_sole(share);
}
