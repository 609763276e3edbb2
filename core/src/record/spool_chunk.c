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
    lane->chunk = chunk;
    lane->next = (uint64_t *)(chunk + 1);
    lane->end = (uint64_t *)((char *)chunk + size);
}

// NULL: recording has ended.
static struct pw_spool_chunk *map_chunk(struct pw_lane *lane, size_t size) {
    int error = 0;
    struct pw_os_signals signals;
    pw_os_signals_block(&signals);
    uint64_t offset = __atomic_fetch_add(&pw_log.size, size, __ATOMIC_RELAXED);
    // Without its name nothing can be opened.
    const char *path = pw_log.is_closed ? NULL : pw_log.path;
    struct pw_spool_chunk *chunk = pw_os_map_spool(&pw_log.file, path, offset, size, &error);
    if (chunk && lane->chunk) {
        pw_os_unmap(lane->chunk, lane->chunk->size);
    }
    if (chunk) {
        begin_chunk(lane, chunk, size);
        pw_log_note_time();
    } else {
        pw_log_stop(error == ENOSPC || error == EDQUOT || error == EFBIG ? PW_STOP_NO_ROOM
                    : error == ENOMEM                                    ? PW_STOP_NO_MEMORY
                                                                         : PW_STOP_NO_FILE,
                    error);
    }
    pw_os_signals_restore(&signals);
    return chunk;
}

// From what was mapped ahead. NULL: nothing is left of it.
static struct pw_spool_chunk *take_reserved(struct pw_lane *lane, size_t size) {
    struct pw_log_reserve *reserve = pw_log.reserve;
    if (LIKELY(!reserve) || reserve->used >= reserve->size) {
        return NULL;
    }
    uint64_t at = __atomic_fetch_add(&reserve->used, size, __ATOMIC_RELAXED);
    if (at + size > reserve->size) {
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
    if (UNLIKELY(pw_log.is_frozen)) {
        // The last of it in small pieces.
        if (!take_reserved(lane, size) && !take_reserved(lane, PW_SPOOL_STEP)) {
            pw_log_stop(pw_log.frozen_for, pw_log.frozen_error);
            return false;
        }
        return true;
    }
    return map_chunk(lane, size) != NULL;
}

void pw_log_other(struct pw_lane *lane, enum pw_spool_kind kind, uint32_t operand,
                  const uint64_t *words, size_t count) {
    memcpy(lane->next + 1, words, count * sizeof *words);
    pw_log_commit(
        lane, PW_WORD_OTHER | (uint64_t)kind << 2 | (uint64_t)count << 8 | (uint64_t)operand << 32,
        count + 1);
}
