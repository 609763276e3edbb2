// SPDX-License-Identifier: MIT
#include "share/share.h"

#include "share/snapshot.h"

// Published in pieces, so that the peak never holds the source and its snapshot in full.
#define CHUNK_PAGES ((uint32_t)pw_pages_for(4 << 20))

void pw_share_start(struct pw_share *share, struct pw_arena *arena) {
    share->arena = arena;
    share->stats = arena->stats;
    share->snapshot_count = 1; // 0 means none
    // A shared extent splits the mapping around it: at most three for each. Half of all mappings
    // are left to the program.
    share->mapping_limit = pw_os_max_map_count() / 2 / 3;
    pw_os_pagemap_open(&share->pagemap);
}

uint32_t pw_share_owners(struct pw_share *share, const struct pw_extent *extent) {
    return pw_snapshot_at(share, extent->snapshot)->owners;
}

void pw_share_seal(struct pw_share *share) {
    for (unsigned i = 0; i < PW_SHARE_FILES; i++) {
        pw_os_close(&share->files[i].file);
    }
    pw_os_close(&share->witness.at.file); // its page stays
    for (unsigned i = 0; i < PW_SHARE_WITNESSES; i++) {
        pw_os_close(&share->refused[i].at.file);
    }
    pw_os_close(&share->pagemap.file);
    share->pagemap.usable = false;
    share->mmapcopy = share->mmapcopy_works = false;
    share->mmapcopy_asked = true;
}

void pw_share_after_fork(struct pw_share *share) {
    if (share->arena && share->arena->sealed) {
        return;
    }
    // The parent's descriptor shows the parent's page tables. It is closed, not used.
    pw_os_close(&share->pagemap.file);
    pw_os_pagemap_open(&share->pagemap);
    share->scan_missed = false;
    pw_snapshot_after_fork(share);
}

static bool pagemap_usable(struct pw_share *share) {
    uint64_t unused;
    char *page = share->arena->base;
    bool usable =
        pw_os_pagemap_count(&share->pagemap, page, page + PW_PAGE, PW_OS_PRIVATE_PAGES, &unused);
    if (usable && !share->pagemap.scan && !share->scan_missed) { // a search may have found out
        share->scan_missed = true;
        PW_COUNT(share->stats, fallback_pagemap_scan, 1);
    }
    return usable;
}

bool pw_share_ready(struct pw_share *share, bool publishing) {
    if (share->shared_extents >= share->mapping_limit) {
        PW_COUNT(share->stats, fallback_map_count, 1);
        return false;
    }
    if (!pw_mappings_may_rise(share->arena)) {
        return false;
    }
    if (!pagemap_usable(share)) {
        PW_COUNT(share->stats, fallback_pagemap, 1);
        return false;
    }
    return !publishing || pw_snapshot_file_ready(share);
}

static char *page_address(struct pw_share *share, const struct pw_extent *extent, uint32_t page) {
    return pw_extent_address(share->arena, extent) + (size_t)page * PW_PAGE;
}

bool pw_share_count_private(struct pw_share *share, const struct pw_extent *extent, uint32_t first,
                            uint32_t pages, uint64_t *total) {
    return pw_os_pagemap_count(&share->pagemap, page_address(share, extent, first),
                               page_address(share, extent, first + pages), PW_OS_PRIVATE_PAGES,
                               total);
}

// --- publishing --------------------------------------------------------------

// Before Linux 6.12 a mapping that is refused may have unmapped what it was to replace. The bytes
// are in the file then.
static void restore(struct pw_share *share, const struct pw_os_file *file, char *address,
                    size_t size, uint64_t offset) {
    if (!pw_os_is_mapped(address, size)) {
        while (!pw_arena_mend(share->arena, address, size)) {}
        while (!pw_os_read(file, address, size, offset) && pw_os_is_ours(file)) {}
    }
}

// Write one piece of the source and map the source onto it. Between the two, a store to these pages
// would be lost: nobody may make one during a copy (concurrency contract in share.h), and signals
// are held back by the caller.
static bool publish_chunk(struct pw_share *share, uint32_t number, char *address, size_t done,
                          size_t size) {
    uint64_t offset = pw_snapshot_at(share, number)->offset + done;
    struct pw_snapshot_file *file = pw_snapshot_file(share, number);
    if (!file) {
        return false;
    }
    if (!pw_os_may_write(offset + size)) {
        PW_COUNT(share->stats, fallback_file_size, 1);
        return false;
    }
    if (!pw_os_write(file->file.fd, address + done, size, offset)) {
        PW_COUNT(share->stats, fallback_write, 1);
        return false;
    }
    if (!pw_os_is_ours(&file->file) ||
        !pw_os_map_snapshot(address + done, size, file->file.fd, offset)) {
        PW_COUNT(share->stats, fallback_map, 1);
        pw_mappings_relieve(share->arena);
        restore(share, &file->file, address + done, size, offset);
        return false;
    }
    return true;
}

// Make pages private by writing each without changing it, so that they no longer need a snapshot.
static void make_private(char *address, size_t size) {
    for (size_t done = 0; done < size; done += PW_PAGE) {
        __atomic_fetch_or(address + done, 0, __ATOMIC_RELAXED);
    }
}

// A re-publish that stopped half-way leaves pages on the old snapshot. They become the block's own,
// but lie in a mapping of its file still, where a page that is given back shows the old bytes
// again. So until it is freed nobody looks for zeros in the block, shares its pages or keeps them.
static void leave_snapshot(struct pw_share *share, struct pw_extent *source, uint32_t from) {
    uint32_t end = source->share_first + source->share_pages;
    if (end > from) {
        make_private(page_address(share, source, from), (size_t)(end - from) * PW_PAGE);
        source->may_share = false;
        source->fixed = source->of_file = true;
    }
    pw_snapshot_remove_owner(share, source);
}

uint32_t pw_share_publish(struct pw_share *share, struct pw_extent *source, uint32_t first,
                          uint32_t pages) {
    uint32_t number = pw_snapshot_new(share, pages);
    if (!number) {
        return 0;
    }
    char *address = page_address(share, source, first);
    uint32_t done = 0;
    while (done < pages) {
        uint32_t part = pages - done < CHUNK_PAGES ? pages - done : CHUNK_PAGES;
        if (!publish_chunk(share, number, address, (size_t)done * PW_PAGE,
                           (size_t)part * PW_PAGE)) {
            break;
        }
        done += part;
    }
    if (done && source->snapshot) {
        leave_snapshot(share, source, first + done);
    }
    if (!done) {
        pw_snapshot_release(share, number);
        return 0;
    }
    pw_mmapcopy_forget(share, source);
    source->share_first = first;
    source->share_pages = done;
    source->share_offset = 0;
    pw_snapshot_add_owner(share, number, source);
    PW_COUNT(share->stats, publishes, 1);
    PW_COUNT(share->stats, published_bytes, (uint64_t)done * PW_PAGE);
    return done;
}

// From a source to a destination that is that far away.
static bool copy_range(void *context, char *start, size_t size) {
    pw_os_copy(start + *(const ptrdiff_t *)context, start, size);
    return true;
}

bool pw_share_attach(struct pw_share *share, struct pw_extent *destination, uint32_t to,
                     struct pw_extent *source, uint32_t from, uint32_t pages) {
    uint32_t number = source->snapshot;
    uint32_t offset = source->share_offset + (from - source->share_first);
    char *address = page_address(share, destination, to);
    char *origin = page_address(share, source, from);
    size_t size = (size_t)pages * PW_PAGE;
    struct pw_snapshot_file *file = pw_snapshot_file(share, number);
    if (!file) {
        return false;
    }
    uint64_t place = pw_snapshot_at(share, number)->offset + (uint64_t)offset * PW_PAGE;
    if (!pw_os_map_snapshot(address, size, file->file.fd, place)) {
        PW_COUNT(share->stats, fallback_map, 1);
        pw_mappings_relieve(share->arena);
        return false;
    }
    // Looked at again: had the program taken the number in between, these are a file's bytes.
    if (!pw_os_is_ours(&file->file)) {
        PW_COUNT(share->stats, fallback_descriptor, 1);
        return false;
    }
    ptrdiff_t distance = address - origin;
    if (!pw_os_pagemap_each(&share->pagemap, origin, origin + size, PW_OS_PRIVATE_PAGES, copy_range,
                            &distance)) {
        PW_COUNT(share->stats, fallback_pagemap, 1);
        return false;
    }
    pw_mmapcopy_forget(share, destination);
    destination->share_first = to;
    destination->share_pages = pages;
    destination->share_offset = offset;
    pw_snapshot_add_owner(share, number, destination);
    return true;
}

static bool blank(struct pw_share *share, struct pw_extent *extent, uint32_t first,
                  uint32_t pages) {
    bool done =
        pw_arena_blank(share->arena, page_address(share, extent, first), (size_t)pages * PW_PAGE);
    if (!done) {
        PW_COUNT(share->stats, fallback_map, 1);
    }
    return done;
}

void pw_share_forget(struct pw_share *share, struct pw_extent *extent) {
    if (extent->snapshot) {
        pw_snapshot_remove_owner(share, extent);
    }
    pw_mmapcopy_forget(share, extent);
    extent->copied = false; // what it may share next goes out of it
}

bool pw_share_drop(struct pw_share *share, struct pw_extent *extent) {
    bool done = blank(share, extent, extent->share_first, extent->share_pages);
    if (done) {
        pw_share_forget(share, extent);
    }
    return done;
}

bool pw_share_drop_block(struct pw_share *share, struct pw_extent *extent) {
    bool done = blank(share, extent, 0, extent->pages);
    if (done || pw_arena_abandon(page_address(share, extent, 0), (size_t)extent->pages * PW_PAGE)) {
        pw_share_forget(share, extent);
    }
    return done;
}
