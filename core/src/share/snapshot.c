// SPDX-License-Identifier: MIT
#include "share/snapshot.h"

#include "share/witness.h"

// Offsets start beyond the size that most file systems allow a file, so that a punch that ever met
// a file of the program's could not reach its bytes (pw_os_is_ours guards against meeting one).
#define FIRST_OFFSET ((uint64_t)1 << 46)
#define FILE_SIZE    ((uint64_t)1 << 60)
#define FILE_NAME    PW_SNAPSHOT_FILE_NAME

// To ask whether a child can see what was released takes some 20 us, as long as it takes to write
// 8 pages. So it is asked when so many pages wait, or after so long, or at a collection's end.
#define ASK_PAGES ((uint32_t)pw_pages_for(2 << 20))
#define ASK_MS    1000u
// And when so many were published: what a child may see is told apart from what came later.
#define ASK_PUBLISHED ((uint32_t)pw_pages_for(16 << 20))

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
    pw_os_include_files_in_core();
    *file = (struct pw_snapshot_file){
        .file = opened, .opened = share->witness.number, .end = FIRST_OFFSET};
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
    *file = (struct pw_snapshot_file){.file = PW_OS_NO_FILE};
    PW_COUNT(share->stats, arenas_live, -1);
}

static bool in_use(const struct pw_snapshot_file *file) {
    return file->opened != 0;
}

bool pw_snapshot_is_own(struct pw_share *share, const struct pw_snapshot_file *file) {
    if (!in_use(file) || file->inherited || file->opened <= share->lost) {
        return false;
    }
    if (!pw_os_is_ours(&file->file)) {
        PW_COUNT(share->stats, fallback_descriptor, 1);
        return false;
    }
    return true;
}

void pw_snapshot_after_fork(struct pw_share *share) {
    pw_witness_after_fork(share);
    share->published = share->released = share->unasked = 0;
    for (unsigned i = 0; i < PW_SHARE_FILES; i++) {
        share->files[i].inherited = true;
    }
}

// Punch of what was released that which no child can see.
static void punch_waiting(struct pw_share *share, struct pw_snapshot_file *file) {
    uint32_t number = file->waiting;
    file->waiting = 0;
    while (number) {
        struct pw_snapshot *snapshot = pw_snapshot_at(share, number);
        uint32_t next = snapshot->next;
        size_t size = (size_t)snapshot->pages * PW_PAGE;
        bool cleared = pw_witness_cleared(share, snapshot->born, snapshot->released);
        if (cleared && pw_os_punch(file->file.fd, snapshot->offset, size)) {
            PW_COUNT(share->stats, punched_bytes, size);
            count_snapshot_pages(share, (int64_t)snapshot->punched - (int64_t)snapshot->pages);
            free_number(share, number);
        } else {
            PW_COUNT(share->stats, fallback_discard, cleared);
            snapshot->next = file->waiting;
            file->waiting = number;
        }
        number = next;
    }
}

// A file that nothing of ours maps is closed, if it cannot be emptied: what children have of it
// goes with them.
static void punch_files(struct pw_share *share) {
    for (unsigned i = 0; i < PW_SHARE_FILES; i++) {
        struct pw_snapshot_file *file = &share->files[i];
        if (file->waiting && pw_snapshot_is_own(share, file)) {
            punch_waiting(share, file);
        }
        if (file->waiting && file->live == 0) {
            close_file(share, file);
        }
    }
}

static bool is_due(const struct pw_share *share) {
    bool undecided = share->unasked || share->refused_count;
    return share->unasked >= ASK_PAGES || share->published >= ASK_PUBLISHED ||
           (undecided && pw_os_now_ms() - share->asked_ms >= ASK_MS);
}

void pw_share_settle(struct pw_share *share) {
    pw_witness_ask_again(share);
    if (share->released || share->published >= ASK_PUBLISHED) {
        share->news |= !pw_witness_turn(share); // it cannot be known: files may have to be closed
    }
    share->unasked = 0;
    share->asked_ms = pw_os_now_ms();
    if (share->news) {
        share->news = false;
        punch_files(share);
    }
}

// Nothing is published without a witness, nor for long under one that is not asked: what may never
// be given back is not worth sharing.
static bool is_witnessed(struct pw_share *share) {
    if (!share->witness.at.page) {
        return pw_witness_turn(share);
    }
    if (is_due(share)) {
        pw_share_settle(share);
    }
    return share->published < ASK_PUBLISHED;
}

static struct pw_snapshot_file *writable_file(struct pw_share *share) {
    struct pw_snapshot_file *unused = NULL;
    if (!is_witnessed(share)) {
        return NULL;
    }
    for (unsigned i = 0; i < PW_SHARE_FILES; i++) {
        struct pw_snapshot_file *file = &share->files[i];
        if (pw_snapshot_is_own(share, file)) {
            return file;
        }
        if (in_use(file) && file->live == 0) {
            close_file(share, file);
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
        .born = share->witness.number,
    };
    file->end += (uint64_t)pages * PW_PAGE;
    file->live++;
    share->published += pages;
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
    if (share->arena->sealed) { // its file is closed, and goes with its last mapping
        count_snapshot_pages(share, (int64_t)snapshot->punched - (int64_t)snapshot->pages);
        free_number(share, number);
        return;
    }
    snapshot->released = share->witness.number;
    snapshot->next = file->waiting;
    file->waiting = number;
    if (file->inherited) {
        if (file->live == 0) {
            close_file(share, file);
        }
        return;
    }
    share->released += snapshot->pages;
    share->unasked += snapshot->pages;
    if (is_due(share)) {
        pw_share_settle(share);
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
