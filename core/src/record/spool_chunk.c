// SPDX-License-Identifier: MIT
#include "record/spool_chunk.h"
#include "record/clock.h"

#include <errno.h>
#include <string.h>

#define LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define LARGEST_CHUNK       (1 << 20)

struct pw_log pw_log;

void pw_log_stop(enum pw_spool_stop reason, int error) {
    pw_log.is_on = false;
    if (pw_log.header && pw_log.header->stop == PW_STOP_NONE) {
        pw_log.header->error = (uint32_t)error;
        pw_log.header->stop = reason;
    }
}

void pw_log_note_time(void) {
    struct pw_spool_header *header = pw_log.header;
    if (pw_log.is_frozen || pw_log.has_no_clock) {
        return; // it may take a system call
    }
    header->end_stamp = pw_clock();
    header->end_ns = pw_os_monotonic_ns();
}

// --- chunks -------------------------------------------------------------------

// A program with many threads shall not need a large chunk for each.
static size_t next_chunk_size(const struct pw_lane *lane) {
    size_t size = (size_t)PW_SPOOL_STEP << (lane->chunks < 4 ? lane->chunks : 4);
    return size < LARGEST_CHUNK ? size : LARGEST_CHUNK;
}

static void begin_chunk(struct pw_lane *lane, struct pw_spool_chunk *chunk, size_t size) {
    chunk->lane = lane->number;
    chunk->sequence = lane->chunks++;
    chunk->stamp = lane->stamp;
    chunk->size = size;
    __atomic_store_n(&chunk->magic, PW_CHUNK_MAGIC, __ATOMIC_RELEASE);
    __atomic_store_n(&lane->mapped, (uintptr_t)chunk | size / PW_SPOOL_STEP, __ATOMIC_RELEASE);
    lane->next = (uint64_t *)(chunk + 1);
    lane->end = (uint64_t *)((char *)chunk + size);
}

static void *start_of(uintptr_t mapped) {
    return (void *)(mapped & ~(PW_PAGE - 1));
}

static size_t size_of(uintptr_t mapped) {
    return (mapped & (PW_PAGE - 1)) * PW_SPOOL_STEP;
}

static void unmap_chunk(uintptr_t mapped) {
    if (mapped) {
        pw_os_unmap(start_of(mapped), size_of(mapped));
    }
}

static void leave_own(struct pw_lane *lane) {
    unmap_chunk(lane->left);
    lane->left = lane->mapped;
    if (lane->left) {
        pw_os_part_from(start_of(lane->left), size_of(lane->left));
    }
}

// Nothing but what no lane has taken: of that, parts may have been unmapped since.
static void leave_reserve(const struct pw_log_reserve *reserve) {
    if (reserve && reserve->used < reserve->size) {
        pw_os_unmap(reserve->start + reserve->used, reserve->size - reserve->used);
    }
}

void pw_log_leave_parents(struct pw_lane *own) {
    if (pw_log.is_frozen || pw_log.is_closed) {
        return; // it may not, and nothing will be recorded
    }
    leave_reserve(pw_log.reserve);
    for (struct pw_lane *lane = pw_log.newest; lane; lane = lane->older) {
        if (lane == own) {
            leave_own(lane);
        } else {
            unmap_chunk(lane->mapped);
        }
        lane->mapped = 0;
    }
    pw_log.newest = own;
    if (own) {
        own->older = NULL;
    }
}

// With signals held back. NULL: recording has ended.
static struct pw_spool_chunk *map_next(struct pw_lane *lane, size_t size) {
    int error = 0;
    uint64_t offset = __atomic_fetch_add(&pw_log.size, size, __ATOMIC_RELAXED);
    // Without its name nothing can be opened.
    const char *path = pw_log.is_closed ? NULL : pw_log.path;
    struct pw_spool_chunk *chunk = pw_os_map_spool(&pw_log.file, path, offset, size, &error);
    if (chunk) {
        uintptr_t before = lane->mapped;
        begin_chunk(lane, chunk, size); // first: a child would unmap what is another's by now
        unmap_chunk(before);
        pw_log_note_time();
    } else {
        pw_log_stop(error == ENOSPC || error == EDQUOT || error == EFBIG ? PW_STOP_NO_ROOM
                    : error == ENOMEM                                    ? PW_STOP_NO_MEMORY
                                                                         : PW_STOP_NO_FILE,
                    error);
    }
    return chunk;
}

static bool map_chunk(struct pw_lane *lane, size_t size) {
    struct pw_os_signals signals;
    pw_os_signals_block(&signals);
    bool is_mapped = pw_log_is_own(lane) && map_next(lane, size);
    pw_os_signals_restore(&signals);
    return is_mapped;
}

// From what was mapped ahead. NULL: nothing is left of it.
static struct pw_spool_chunk *take_reserved(struct pw_lane *lane, size_t size) {
    struct pw_log_reserve *reserve = pw_log.reserve;
    if (LIKELY(!reserve) || reserve->used >= reserve->size) {
        return NULL;
    }
    uint64_t at = __atomic_fetch_add(&reserve->used, size, __ATOMIC_RELAXED);
    if (at + size > reserve->size || !pw_log_is_own(lane)) {
        return NULL;
    }
    struct pw_spool_chunk *chunk = (struct pw_spool_chunk *)(reserve->start + at);
    begin_chunk(lane, chunk, size);
    return chunk;
}

bool pw_log_new_chunk(struct pw_lane *lane) {
    size_t size = next_chunk_size(lane);
    if (!pw_log.is_on) {
        return false;
    }
    if (LIKELY(!pw_log.is_frozen)) {
        return map_chunk(lane, size);
    }
    // The last of it in small pieces.
    if (take_reserved(lane, size) || take_reserved(lane, PW_SPOOL_STEP)) {
        return true;
    }
    if (pw_log_is_own(lane)) {
        pw_log_stop(pw_log.frozen_for, pw_log.frozen_error);
    }
    return false;
}

void pw_log_other(struct pw_lane *lane, enum pw_spool_kind kind, uint32_t operand,
                  const uint64_t *words, size_t count) {
    if (UNLIKELY(!pw_log_is_own(lane))) {
        return;
    }
    memcpy(lane->next + 1, words, count * sizeof *words);
    pw_log_commit(
        lane, PW_WORD_OTHER | (uint64_t)kind << 2 | (uint64_t)count << 8 | (uint64_t)operand << 32,
        count + 1);
}
