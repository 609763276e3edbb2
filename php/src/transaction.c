// SPDX-License-Identifier: MIT
//
// Requests on a transaction heap. Bytes in use are wanted by memory_get_usage(): counting blocks
// by class costs one instruction a call, the sum is made when somebody asks.
#include "php_pagewise.h"

#define SMALLEST_SEGMENT ((size_t)16 << 10)

static bool start(void) {
    struct pw_heap_options options = pw_php_heap_options();
    pw_php.heap = pw_heap_new(&options);
    if (!pw_php.heap) {
        if (errno == EINVAL) {
            pw_php_log("pagewise.segment_size=" ZEND_LONG_FMT
                       " is not possible: it must be a power of two from 16K to 256K. "
                       "PHP keeps its own allocator",
                       pw_php.segment_size);
        } else {
            pw_php_log("no memory for a heap. PHP keeps its own allocator");
        }
    }
    return pw_php.heap != NULL;
}

// --- what is in use ----------------------------------------------------------------

static size_t live_bytes(void) {
    if (pw_php.checked) { // its classes are empty: every block is a slow one
        struct pw_heap_statistics statistics;
        pw_heap_statistics_read(pw_php.heap, &statistics);
        return statistics.live_bytes;
    }
    size_t bytes = pw_php.large_bytes;
    for (unsigned i = 0; i < PW_HEAP_CLASSES; i++) {
        bytes += pw_php.live[i] * pw_php.heap->classes[i].size;
    }
    return bytes;
}

// Peaks lie where the heap grew, or somebody looks: what was in use in between, with segments that
// it had already, is not seen.
static void note_peaks(size_t segment_bytes) {
    size_t bytes = live_bytes();
    pw_php.seen_segment_bytes = segment_bytes;
    pw_php.peak_segment_bytes = MAX(pw_php.peak_segment_bytes, segment_bytes);
    pw_php.peak_live_bytes = MAX(pw_php.peak_live_bytes, bytes);
}

static size_t used(bool real) {
    size_t segment_bytes = pw_heap_segment_bytes(pw_php.heap);
    note_peaks(segment_bytes);
    return real ? segment_bytes : live_bytes();
}

static size_t peak(bool real) {
    note_peaks(pw_heap_segment_bytes(pw_php.heap));
    return real ? pw_php.peak_segment_bytes : pw_php.peak_live_bytes;
}

static void reset_peak(void) {
    pw_php.peak_live_bytes = pw_php.peak_segment_bytes = 0;
    note_peaks(pw_heap_segment_bytes(pw_php.heap));
}

static void set_limit(size_t bytes) {
    pw_heap_set_limit(pw_php.heap, bytes);
}

static void statistics(struct pw_heap_statistics *out) {
    pw_heap_statistics_read(pw_php.heap, out);
}

// The class of a block; PW_HEAP_CLASSES where it has none.
static unsigned class_of(const void *block) {
    if (UNEXPECTED(pw_php.checked)) {
        return PW_HEAP_CLASSES;
    }
    unsigned number = *pw_heap_class_note(block);
    return number < PW_HEAP_CLASSES ? number : PW_HEAP_CLASSES;
}

static void count(const void *block) {
    unsigned number = class_of(block);
    if (UNEXPECTED(pw_php.checked)) {
        return;
    }
    if (number < PW_HEAP_CLASSES) {
        pw_php.live[number]++;
    } else {
        pw_php.large_bytes += pw_heap_usable_size(pw_php.heap, block);
    }
}

static void count_off(unsigned number, size_t large_bytes) {
    if (UNEXPECTED(pw_php.checked)) {
        return;
    }
    if (number < PW_HEAP_CLASSES) {
        pw_php.live[number]--;
    } else {
        pw_php.large_bytes -= large_bytes;
    }
}

static size_t large_size(unsigned number, const void *block) {
    return number < PW_HEAP_CLASSES ? 0 : pw_heap_usable_size(pw_php.heap, block);
}

// --- the handlers --------------------------------------------------------------------

static void *allocated(void *block, size_t size) {
    if (UNEXPECTED(!block)) {
        return pw_php_refused(size);
    }
    count(block);
    size_t segment_bytes = pw_heap_segment_bytes(pw_php.heap);
    if (segment_bytes != pw_php.seen_segment_bytes) {
        note_peaks(segment_bytes);
    }
    return block;
}

static __attribute__((noinline)) void *alloc_slow(size_t size) {
    pw_php.requested = size;
    return allocated(pw_heap_alloc_slow(pw_php.heap, size), size);
}

static void *alloc(size_t size) {
    if (EXPECTED(size <= PW_HEAP_TABLE_BYTES)) {
        unsigned number = pw_heap_class_table[(size + 7) >> 3];
        void *block = pw_heap_take(&pw_php.heap->classes[number]);
        if (EXPECTED(block != NULL)) {
            pw_php.live[number]++;
            return block;
        }
    }
    return alloc_slow(size);
}

static __attribute__((noinline)) void free_slow(void *block) {
    if (block) {
        pw_php.grown = block == pw_php.grown ? NULL : pw_php.grown;
        pw_php.large_bytes -= pw_php.checked ? 0 : pw_heap_usable_size(pw_php.heap, block);
        pw_heap_free_slow(pw_php.heap, block);
    }
}

static void free_block(void *block) {
    if (EXPECTED((uintptr_t)block > pw_php.heap->slow_below)) {
        unsigned number = *pw_heap_class_note(block);
        if (EXPECTED(number < PW_HEAP_CLASSES)) {
            pw_heap_put(&pw_php.heap->classes[number], block);
            pw_php.live[number]--;
            return;
        }
    }
    free_slow(block);
}

// Strings are appended to a few bytes at a time, and PHP asks for each: most calls change nothing.
static bool stays(const void *block, unsigned number, size_t size) {
    if (number < PW_HEAP_CLASSES) {
        size_t most = pw_php.heap->classes[number].size;
        return size <= most && size > most / 2;
    }
    return block == pw_php.grown && size <= pw_php.grown_most && size >= pw_php.grown_least;
}

static void note_grown(void *block) {
    pw_php.grown = NULL;
    if (class_of(block) == PW_HEAP_CLASSES && !pw_php.checked) {
        pw_php.grown = block;
        pw_php.grown_most = pw_heap_usable_size(pw_php.heap, block);
        pw_php.grown_least = pw_php.grown_most - SMALLEST_SEGMENT + 1;
    }
}

// From class to class, the usual step of what grows. NULL: not so simple.
static void *move_small(void *block, unsigned from, size_t size) {
    struct pw_heap_class *classes = pw_php.heap->classes;
    unsigned to =
        size <= PW_HEAP_TABLE_BYTES ? pw_heap_class_table[(size + 7) >> 3] : PW_HEAP_CLASSES;
    if (from == PW_HEAP_CLASSES || to == PW_HEAP_CLASSES) {
        return NULL;
    }
    void *moved = pw_heap_take(&classes[to]);
    if (moved) {
        memcpy(moved, block, MIN(classes[from].size, size));
        pw_heap_put(&classes[from], block);
        pw_php.live[to]++;
        pw_php.live[from]--;
    }
    return moved;
}

static void *realloc_block(void *block, size_t size) {
    if (UNEXPECTED(!block)) {
        return alloc(size);
    }
    unsigned number = class_of(block);
    if (EXPECTED(stays(block, number, size))) {
        return block;
    }
    void *moved = move_small(block, number, size);
    if (EXPECTED(moved != NULL)) {
        return moved;
    }
    size_t large_bytes = large_size(number, block);
    pw_php.requested = size;
    moved = pw_heap_realloc(pw_php.heap, block, size);
    if (moved) {
        note_grown(moved);
    }
    if (moved == block && number < PW_HEAP_CLASSES) {
        return block;
    }
    if (moved) {
        count_off(number, large_bytes);
    }
    return allocated(moved, size);
}

static void free_all(void) {
    pw_heap_free_all(pw_php.heap);
    memset(pw_php.live, 0, sizeof pw_php.live);
    pw_php.large_bytes = pw_php.seen_segment_bytes = 0;
    pw_php.grown = NULL;
    pw_php.peak_live_bytes = pw_php.peak_segment_bytes = 0;
}

const struct pw_php_mode pw_php_transaction = {
    .name = "transaction",
    .text = "transaction heap",
    .start = start,
    .alloc = alloc,
    .free = free_block,
    .realloc = realloc_block,
    .free_all = free_all,
    .used = used,
    .peak = peak,
    .reset_peak = reset_peak,
    .set_limit = set_limit,
    .statistics = statistics,
};
