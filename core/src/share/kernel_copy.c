// SPDX-License-Identifier: MIT
//
// Copies by mmapcopy(2) (mmapcopy-sac16): no file, no descriptor, no preparation, and afterwards
// two blocks of ordinary anonymous memory. Fork, realloc and reclaim need no care of ours. What is
// left to know is which blocks may hold shared pages: a write to one costs a page, so they are not
// warm when they are freed; and a copy is a mapping of its own.
#include "share/share.h"

#include "share/snapshot.h"

// A page is looked at by the page map alone: reading it through the kernel, as for plain copies,
// would pin it, and the kernel copies a shared page before it is pinned.
#define SAMPLED_PAGES 32u

void pw_share_use_mmapcopy(struct pw_share *share, bool wanted) {
    if (wanted && !share->mmapcopy_asked) {
        share->mmapcopy_asked = true;
        share->mmapcopy_works = pw_os_has_mmapcopy();
    }
    share->mmapcopy = wanted && share->mmapcopy_works;
    PW_GAUGE(share->stats, mmapcopy_used, share->mmapcopy);
}

bool pw_share_ready_for_mmapcopy(struct pw_share *share) {
    if (share->shared_extents >= share->mapping_limit) {
        PW_COUNT(share->stats, fallback_map_count, 1);
        return false;
    }
    return pw_mappings_may_rise(share->arena);
}

// Pages [first, first + pages) may be shared from now on, whatever of the extent was before.
static void mark(struct pw_share *share, struct pw_extent *extent, uint32_t first, uint32_t pages) {
    uint32_t end = first + pages;
    if (extent->mmapcopied) {
        uint32_t old_end = extent->share_first + extent->share_pages;
        first = extent->share_first < first ? extent->share_first : first;
        end = old_end > end ? old_end : end;
    } else {
        extent->mmapcopied = true;
        share->shared_extents++;
    }
    extent->share_first = first;
    extent->share_pages = end - first;
}

bool pw_share_mmapcopy(struct pw_share *share, struct pw_extent *destination, uint32_t to,
                       struct pw_extent *source, uint32_t from, uint32_t pages) {
    char *address = pw_extent_address(share->arena, destination) + (size_t)to * PW_PAGE;
    const char *origin = pw_extent_address(share->arena, source) + (size_t)from * PW_PAGE;
    enum pw_os_copied copied = pw_os_mmapcopy(address, origin, (size_t)pages * PW_PAGE);
    if (copied != PW_OS_COPIED) {
        PW_COUNT(share->stats, fallback_mmapcopy, 1);
        pw_mappings_relieve(share->arena);
        if (copied == PW_OS_COPY_DENIED) { // by a filter that came later: snapshots from now on
            share->mmapcopy_works = false;
            pw_share_use_mmapcopy(share, false);
        }
        return false;
    }
    mark(share, source, from, pages);
    mark(share, destination, to, pages);
    destination->origin = pw_extent_number(share->arena, source);
    destination->origin_generation = source->generation;
    destination->copy_first = to;
    destination->copy_pages = pages;
    PW_COUNT(share->stats, copies_by_mmapcopy, 1);
    return true;
}

static bool origin_lives(struct pw_share *share, const struct pw_extent *copy) {
    if (!copy->mmapcopied || !copy->origin) {
        return false;
    }
    const struct pw_extent *origin = pw_extent_at(share->arena, copy->origin);
    return origin->state == PW_EXTENT_USED && origin->generation == copy->origin_generation;
}

bool pw_share_estimate_private(struct pw_share *share, const struct pw_extent *copy,
                               uint64_t *total) {
    uint32_t asked = copy->copy_pages < SAMPLED_PAGES ? copy->copy_pages : SAMPLED_PAGES;
    uint32_t alone = 0;
    if (!origin_lives(share, copy)) {
        return false;
    }
    const char *first = pw_extent_address(share->arena, copy) + (size_t)copy->copy_first * PW_PAGE;
    for (uint32_t i = 0; i < asked; i++) {
        size_t page = (size_t)copy->copy_pages * i / asked;
        bool known = false;
        alone += pw_os_pagemap_exclusive(&share->pagemap, first + page * PW_PAGE, &known);
        if (!known) {
            PW_COUNT(share->stats, fallback_pagemap, 1);
            return false;
        }
    }
    *total = (uint64_t)copy->copy_pages * alone / asked;
    return true;
}

void pw_mmapcopy_forget(struct pw_share *share, struct pw_extent *extent) {
    if (extent->mmapcopied) {
        extent->mmapcopied = false;
        extent->origin = extent->share_pages = 0;
        share->shared_extents--;
    }
}

bool pw_share_blank_mmapcopied(struct pw_share *share, struct pw_extent *extent, uint32_t first,
                               uint32_t pages) {
    uint32_t end = first + pages, shared_end = extent->share_first + extent->share_pages;
    uint32_t from = first > extent->share_first ? first : extent->share_first;
    uint32_t to = end < shared_end ? end : shared_end;
    char *address = pw_extent_address(share->arena, extent) + (size_t)first * PW_PAGE;
    if (to <= from || (to - from) * 2 <= extent->share_pages) {
        return false;
    }
    if (!pw_arena_blank(share->arena, address, (size_t)pages * PW_PAGE)) {
        PW_COUNT(share->stats, fallback_map, 1);
        return false;
    }
    // What is left at one end may still be shared; of two ends, the range between them counts too.
    if (from == extent->share_first && to == shared_end) {
        pw_mmapcopy_forget(share, extent);
    } else if (from == extent->share_first) {
        extent->share_first = to;
        extent->share_pages = shared_end - to;
    } else if (to == shared_end) {
        extent->share_pages = from - extent->share_first;
    }
    return true;
}
