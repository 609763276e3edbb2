// SPDX-License-Identifier: MIT
//
// Blocks that leave their snapshot with all their bytes, and pages of a snapshot's mapping that a
// program empties: madvise(MADV_DONTNEED) would show the snapshot's bytes again there, where
// anonymous memory reads zero.
#include "share/share.h"

#include "share/snapshot.h"

#include <string.h>

#define PIECE_PAGES ((uint32_t)pw_pages_for(4 << 20)) // so many at a time

// The page's bytes lie in `buffer` while there is no page.
static bool replace(struct pw_share *share, char *address, size_t size, char *buffer) {
    if (!pw_os_is_mapped(address, size)) {
        return false; // by a system call of the program's own code
    }
    pw_os_copy(buffer, address, size);
    if (!pw_arena_blank(share->arena, address, size)) {
        PW_COUNT(share->stats, fallback_map, 1);
        if (pw_os_is_mapped(address, size)) {
            return false;
        }
        while (!pw_arena_mend(share->arena, address, size)) {} // or its bytes would be lost
    }
    pw_os_copy(address, buffer, size);
    return true;
}

bool pw_share_leave(struct pw_share *share, struct pw_extent *extent) {
    char *start = pw_extent_address(share->arena, extent) + (size_t)extent->share_first * PW_PAGE;
    char *buffer = pw_os_map_table(PIECE_PAGES * PW_PAGE);
    uint32_t done = 0;
    bool going = buffer != NULL;
    struct pw_os_signals signals;
    if (!buffer) {
        PW_COUNT(share->stats, fallback_map, 1);
    }
    pw_os_signals_block(&signals);
    while (going && done < extent->share_pages) {
        uint32_t rest = extent->share_pages - done;
        uint32_t pages = rest < PIECE_PAGES ? rest : PIECE_PAGES;
        going = replace(share, start + (size_t)done * PW_PAGE, (size_t)pages * PW_PAGE, buffer);
        done += going ? pages : 0;
    }
    pw_os_signals_restore(&signals);
    if (buffer) {
        pw_os_unmap(buffer, PIECE_PAGES * PW_PAGE);
    }
    if (going) {
        pw_snapshot_remove_owner(share, extent);
        extent->copied = false; // what it may share next goes out of it
    }
    return going; // else what was replaced counts as written, and the rest is as before
}

static bool is_snapshot(const struct pw_os_mapping *mapping) {
    return strstr(mapping->name, PW_SNAPSHOT_FILE_NAME) != NULL;
}

// The kernel refuses to empty what is locked, where that is not asked for: its bytes stay.
static bool empty_mapping(struct pw_share *share, char *start, size_t size, int protection,
                          bool locked_too) {
    bool is_locked = pw_os_is_locked(start, size);
    if (is_locked && !locked_too) {
        return true;
    }
    bool done = pw_os_map_empty(start, size, protection) ||
                (pw_mappings_relieve(share->arena) && pw_os_map_empty(start, size, protection));
    return done && (!is_locked || pw_os_lock(start, size));
}

bool pw_share_empty(struct pw_share *share, char *start, char *end, bool locked_too) {
    struct pw_os_mapping mapping;
    while (start < end) {
        if (!pw_os_mapping_from(start, &mapping)) {
            PW_COUNT(share->stats, fallback_map, 1);
            return false;
        }
        char *from = (char *)mapping.start > start ? (char *)mapping.start : start;
        char *to = (char *)mapping.end < end ? (char *)mapping.end : end;
        if (from < to && is_snapshot(&mapping) &&
            !empty_mapping(share, from, (size_t)(to - from), mapping.protection, locked_too)) {
            PW_COUNT(share->stats, fallback_map, 1);
            return false;
        }
        start = (char *)mapping.end;
    }
    return true;
}
