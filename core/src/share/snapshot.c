// SPDX-License-Identifier: MIT
#include "share/snapshot.h"

// Offsets start beyond the size that most file systems allow a file, so that a punch that ever met
// a file of the program's could not reach its bytes (pw_os_is_ours guards against meeting one).
#define FIRST_OFFSET ((uint64_t)1 << 46)
#define FILE_SIZE    ((uint64_t)1 << 60)
#define FILE_NAME    PW_SNAPSHOT_FILE_NAME

static void count_snapshot_pages(struct pw_share *share, int64_t pages) {
    PW_COUNT(share->stats, snapshot_bytes, pages * (int64_t)PW_PAGE);
    PW_PEAK(share->stats, peak_snapshot_bytes, PW_READ(share->stats, snapshot_bytes));
}

// --- files -------------------------------------------------------------------

static bool open_file(struct pw_share *share, struct pw_snapshot_file *file) {
    bool limited = false;
    struct pw_os_file opened = pw_os_memory_file(FILE_NAME, FILE_SIZE, &limited);
    if (opened.fd < 0) {
        if (limited) {
            PW_COUNT(share->stats, fallback_file_size, 1);
        } else {
            PW_COUNT(share->stats, fallback_memfd, 1);
        }
        return false;
    }
    void *witness = pw_os_witness();
    if (!witness) {
        PW_COUNT(share->stats, fallback_map, 1);
        pw_os_close(&opened);
        return false;
    }
    pw_os_include_files_in_core();
    *file = (struct pw_snapshot_file){.file = opened, .witness = witness, .end = FIRST_OFFSET};
    PW_COUNT(share->stats, arenas_live, 1);
    return true;
}

static void free_number(struct pw_share *share, uint32_t number) {
    struct pw_snapshot *snapshot = pw_snapshot_at(share, number);
    *snapshot = (struct pw_snapshot){.next = share->free_snapshot};
    share->free_snapshot = number;
}

// Nothing of ours maps the file any more: whoever else does keeps it alive.
static void close_file(struct pw_share *share, struct pw_snapshot_file *file) {
    while (file->waiting) {
        uint32_t number = file->waiting;
        struct pw_snapshot *snapshot = pw_snapshot_at(share, number);
        file->waiting = snapshot->next;
        count_snapshot_pages(share, (int64_t)snapshot->punched - (int64_t)snapshot->pages);
        free_number(share, number);
    }
    pw_os_close(&file->file);
    pw_os_witness_release(file->witness);
    *file = (struct pw_snapshot_file){.file = PW_OS_NO_FILE};
    PW_COUNT(share->stats, arenas_live, -1);
}

static bool in_use(const struct pw_snapshot_file *file) {
    return file->witness != NULL;
}

bool pw_snapshot_may_punch(struct pw_share *share, struct pw_snapshot_file *file) {
    bool known = false;
    if (file->inherited) {
        return false;
    }
    if (!pw_os_pagemap_exclusive(&share->pagemap, file->witness, &known)) {
        if (!known) {
            PW_COUNT(share->stats, fallback_pagemap, 1);
        }
        return false;
    }
    if (!pw_os_is_ours(&file->file)) {
        PW_COUNT(share->stats, fallback_descriptor, 1);
        return false;
    }
    return true;
}

// Punch what was released while a fork's child could still see it.
static void punch_waiting(struct pw_share *share, struct pw_snapshot_file *file) {
    uint32_t number = file->waiting;
    file->waiting = 0;
    while (number) {
        struct pw_snapshot *snapshot = pw_snapshot_at(share, number);
        uint32_t next = snapshot->next;
        size_t size = (size_t)snapshot->pages * PW_PAGE;
        if (pw_os_punch(file->file.fd, snapshot->offset, size)) {
            PW_COUNT(share->stats, punched_bytes, size);
            count_snapshot_pages(share, (int64_t)snapshot->punched - (int64_t)snapshot->pages);
            free_number(share, number);
        } else {
            PW_COUNT(share->stats, fallback_discard, 1);
            snapshot->next = file->waiting;
            file->waiting = number;
        }
        number = next;
    }
}

// The file to publish into: ours, and seen by no other process. A file that a child can see is left
// alone until the child has ended.
static struct pw_snapshot_file *writable_file(struct pw_share *share) {
    struct pw_snapshot_file *unused = NULL;
    for (unsigned i = 0; i < PW_SHARE_EPOCHS; i++) {
        struct pw_snapshot_file *file = &share->files[i];
        if (in_use(file) && file->live == 0 && !pw_snapshot_may_punch(share, file)) {
            close_file(share, file);
        }
        if (in_use(file) && pw_snapshot_may_punch(share, file)) {
            if (file->waiting) {
                punch_waiting(share, file);
            }
            return file;
        }
        if (!in_use(file) && !unused) {
            unused = file;
        }
    }
    if (!unused) {
        PW_COUNT(share->stats, fallback_epochs, 1);
        return NULL;
    }
    return open_file(share, unused) ? unused : NULL;
}

bool pw_snapshot_file_ready(struct pw_share *share) {
    return writable_file(share) != NULL;
}

struct pw_snapshot_file *pw_snapshot_file(struct pw_share *share, uint32_t number) {
    struct pw_snapshot_file *file = &share->files[pw_snapshot_at(share, number)->file];
    if (pw_os_is_ours(&file->file)) {
        return file;
    }
    PW_COUNT(share->stats, fallback_descriptor, 1);
    return NULL;
}

// --- snapshots ---------------------------------------------------------------

static uint32_t new_number(struct pw_share *share) {
    uint32_t number = share->free_snapshot;
    if (number) {
        share->free_snapshot = pw_snapshot_at(share, number)->next;
        return number;
    }
    uint32_t chunk = share->snapshot_count / PW_SNAPSHOT_CHUNK;
    if (chunk == PW_SNAPSHOT_CHUNKS) {
        PW_COUNT(share->stats, fallback_table, 1);
        return 0;
    }
    if (!share->snapshots[chunk]) {
        size_t size = PW_SNAPSHOT_CHUNK * sizeof(struct pw_snapshot);
        share->snapshots[chunk] = pw_os_map_table(size);
        if (!share->snapshots[chunk]) {
            PW_COUNT(share->stats, fallback_table, 1);
            return 0;
        }
        PW_COUNT(share->stats, bookkeeping_bytes, size);
    }
    return share->snapshot_count++;
}

uint32_t pw_snapshot_new(struct pw_share *share, uint32_t pages) {
    struct pw_snapshot_file *file = writable_file(share);
    uint32_t number = file ? new_number(share) : 0;
    if (!number) {
        return 0;
    }
    *pw_snapshot_at(share, number) = (struct pw_snapshot){
        .offset = file->end,
        .pages = pages,
        .file = (uint32_t)(file - share->files),
    };
    file->end += (uint64_t)pages * PW_PAGE;
    file->live++;
    PW_COUNT(share->stats, snapshots_live, 1);
    count_snapshot_pages(share, pages);
    return number;
}

void pw_snapshot_add_owner(struct pw_share *share, uint32_t number, struct pw_extent *extent) {
    struct pw_snapshot *snapshot = pw_snapshot_at(share, number);
    extent->snapshot = number;
    extent->previous_member = 0;
    extent->next_member = snapshot->first_member;
    snapshot->first_member = pw_extent_number(share->arena, extent);
    if (extent->next_member) {
        pw_extent_at(share->arena, extent->next_member)->previous_member = snapshot->first_member;
    }
    snapshot->owners++;
    share->shared_extents++;
    PW_COUNT(share->stats, shared_bytes, (uint64_t)extent->share_pages * PW_PAGE);
}

static void unlink_member(struct pw_share *share, struct pw_snapshot *snapshot,
                          const struct pw_extent *extent) {
    if (extent->next_member) {
        pw_extent_at(share->arena, extent->next_member)->previous_member = extent->previous_member;
    }
    if (extent->previous_member) {
        pw_extent_at(share->arena, extent->previous_member)->next_member = extent->next_member;
    } else {
        snapshot->first_member = extent->next_member;
    }
}

void pw_snapshot_release(struct pw_share *share, uint32_t number) {
    struct pw_snapshot *snapshot = pw_snapshot_at(share, number);
    struct pw_snapshot_file *file = &share->files[snapshot->file];
    file->live--;
    PW_COUNT(share->stats, snapshots_live, -1);
    snapshot->next = file->waiting;
    file->waiting = number;
    if (pw_snapshot_may_punch(share, file)) {
        punch_waiting(share, file);
    } else if (file->live == 0) {
        close_file(share, file);
    }
}

void pw_snapshot_remove_owner(struct pw_share *share, struct pw_extent *extent) {
    uint32_t number = extent->snapshot;
    struct pw_snapshot *snapshot = pw_snapshot_at(share, number);
    unlink_member(share, snapshot, extent);
    PW_COUNT(share->stats, shared_bytes, -(int64_t)extent->share_pages * (int64_t)PW_PAGE);
    extent->snapshot = extent->share_pages = 0;
    share->shared_extents--;
    if (--snapshot->owners == 0) {
        pw_snapshot_release(share, number);
    }
}
