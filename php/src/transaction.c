// SPDX-License-Identifier: MIT
//
// Requests on a transaction heap. Bytes in use are wanted by memory_get_usage(): each call counts
// them, with the size that its class has beside its lists.
#include "php_pagewise.h"

#define SMALLEST_SEGMENT ((size_t)16 << 10)
// Heaps below this size are left alone.
#define RECLAIM_ABOVE ((size_t)32 << 20)

static void reclaim_again_above(size_t segment_bytes) {
    pw_php.reclaim_above = MAX(segment_bytes + segment_bytes / 2, RECLAIM_ABOVE);
}

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
            pw_php_log_none("heap");
        }
    }
    reclaim_again_above(0);
    return pw_php.heap != NULL;
}

// --- what is in use ----------------------------------------------------------------

// Peaks lie where the heap grew, or somebody looks: what was in use in between, with segments that
// it had already, is not seen.
static void note_peaks(size_t segment_bytes) {
    pw_php.seen_segment_bytes = segment_bytes;
    pw_php.peak_segment_bytes = MAX(pw_php.peak_segment_bytes, segment_bytes);
    pw_php.peak_live_bytes = MAX(pw_php.peak_live_bytes, pw_php.live_bytes);
}

static size_t used(bool real) {
    size_t segment_bytes = pw_heap_segment_bytes(pw_php.heap);
    note_peaks(segment_bytes);
    return real ? segment_bytes : pw_php.live_bytes;
}

static size_t peak(bool real) {
    note_peaks(pw_heap_segment_bytes(pw_php.heap));
    return real ? pw_php.peak_segment_bytes : pw_php.peak_live_bytes;
}

static void reset_peak(void) {
    pw_php.peak_live_bytes = pw_php.peak_segment_bytes = 0;
    note_peaks(pw_heap_segment_bytes(pw_php.heap));
}

static size_t reclaim_and(bool give_back) {
    size_t bytes = pw_heap_reclaim(pw_php.heap, give_back);
    pw_php.seen_segment_bytes = pw_heap_segment_bytes(pw_php.heap);
    reclaim_again_above(pw_php.seen_segment_bytes);
    return bytes;
}

static size_t reclaim(void) {
    return reclaim_and(true);
}

// A worker that runs for long in one request has jobs of many sizes, and would have the most of
// each class at the end: more than half of it must be in use. Not looked at before it has grown by
// half.
static void note_growth(size_t segment_bytes) {
    note_peaks(segment_bytes);
    if (segment_bytes > pw_php.reclaim_above) {
        if (pw_php.live_bytes < segment_bytes / 2) {
            reclaim_and(false);
        } else {
            reclaim_again_above(segment_bytes);
        }
    }
}

static void set_limit(size_t bytes) {
    pw_heap_set_limit(pw_php.heap, bytes);
}

static void statistics(struct pw_heap_statistics *out) {
    pw_heap_statistics_read(pw_php.heap, out);
}

// --- the handlers --------------------------------------------------------------------
//
// PHP aligns its own blocks to 8 bytes, and asks for 24, 40 and 56 of them most often: packed.

// From a cache line's start on, they fill as few lines as they can.
#define HOT __attribute__((aligned(64)))

// The compiler would compute an element's address again for each field: pinned, it is done once.
static inline struct pw_heap_class *class_numbered(unsigned number) {
    struct pw_heap_class *class = &pw_php.heap->classes[number];
    __asm__("" : "+r"(class));
    return class;
}

static size_t usable_size(const void *block) {
    return pw_heap_usable_size(pw_php.heap, block);
}

static void *allocated(void *block, size_t size) {
    if (UNEXPECTED(!block)) {
        return pw_php_refused(size);
    }
    pw_php.live_bytes += usable_size(block);
    size_t segment_bytes = pw_heap_segment_bytes(pw_php.heap);
    if (segment_bytes != pw_php.seen_segment_bytes) {
        note_growth(segment_bytes);
    }
    return block;
}

static __attribute__((noinline)) void *alloc_slow(size_t size) {
    pw_php.requested = size;
    pw_php.limited = false;
    return allocated(pw_heap_alloc_packed(pw_php.heap, size), size);
}

static HOT void *alloc(size_t size) {
    if (EXPECTED(size <= PW_HEAP_PACKED_BYTES)) {
        struct pw_heap_class *from = class_numbered(pw_heap_packed_table[(size + 7) >> 3]);
        void *block = pw_heap_take(from);
        if (EXPECTED(block != NULL)) {
            pw_php.live_bytes += from->size;
            return block;
        }
    }
    return alloc_slow(size);
}

static __attribute__((noinline)) void free_slow(void *block) {
    if (block) {
        pw_php.grown = block == pw_php.grown ? NULL : pw_php.grown;
        pw_php.live_bytes -= usable_size(block);
        pw_heap_free_slow(pw_php.heap, block);
    }
}

static HOT void free_block(void *block) {
    if (EXPECTED((uintptr_t)block > pw_php.heap->slow_below)) {
        unsigned number = *pw_heap_class_note(block);
        if (EXPECTED(number < PW_HEAP_CLASSES)) {
            struct pw_heap_class *to = class_numbered(number);
            pw_heap_put(to, block);
            pw_php.live_bytes -= to->size;
            return;
        }
    }
    free_slow(block);
}

static void note_grown(void *block) {
    pw_php.grown = NULL;
    if (!pw_php.checked && *pw_heap_class_note(block) >= PW_HEAP_CLASSES) {
        pw_php.grown = block;
        pw_php.grown_most = usable_size(block);
        pw_php.grown_least = pw_php.grown_most - SMALLEST_SEGMENT + 1;
    }
}

static __attribute__((noinline)) void *realloc_slow(void *block, size_t size) {
    if (!block) {
        return alloc(size);
    }
    size_t before = usable_size(block);
    pw_php.requested = size;
    pw_php.limited = false;
    void *moved = pw_heap_realloc(pw_php.heap, block, size);
    if (moved) {
        note_grown(moved);
        pw_php.live_bytes -= before;
    }
    return allocated(moved, size);
}

// From class to class, the usual step of what grows. Not part of realloc_block, so that this one
// saves no registers.
static __attribute__((noinline)) void *move_small(void *block, struct pw_heap_class *from,
                                                  size_t size) {
    if (size > PW_HEAP_PACKED_BYTES) {
        return realloc_slow(block, size);
    }
    struct pw_heap_class *to = class_numbered(pw_heap_packed_table[(size + 7) >> 3]);
    void *moved = pw_heap_take(to);
    if (UNEXPECTED(!moved)) {
        return realloc_slow(block, size);
    }
    pw_php.live_bytes += to->size - from->size;
    memcpy(moved, block, MIN(from->size, size));
    pw_heap_put(from, block);
    return moved;
}

// Strings are appended to a few bytes at a time, and PHP asks for each: most calls change nothing.
static HOT void *realloc_block(void *block, size_t size) {
    if (EXPECTED((uintptr_t)block > pw_php.heap->slow_below)) {
        unsigned number = *pw_heap_class_note(block);
        if (EXPECTED(number < PW_HEAP_CLASSES)) {
            struct pw_heap_class *from = class_numbered(number);
            return size <= from->size && size > from->size / 2 ? block
                                                               : move_small(block, from, size);
        }
        if (block == pw_php.grown && size <= pw_php.grown_most && size >= pw_php.grown_least) {
            return block;
        }
    }
    return realloc_slow(block, size);
}

static void free_all(void) {
    pw_heap_free_all(pw_php.heap);
    pw_php.live_bytes = pw_php.seen_segment_bytes = 0;
    pw_php.grown = NULL;
    pw_php.peak_live_bytes = pw_php.peak_segment_bytes = 0;
    reclaim_again_above(0);
}

static void renew(void) {
    struct pw_heap_options options = pw_php_heap_options();
    struct pw_heap *heap = pw_heap_new(&options);
    if (heap) {
        pw_heap_delete(pw_php.heap);
        pw_php.heap = heap;
    }
}

const struct pw_php_mode pw_php_transaction = {
    .name = "transaction",
    .text = "transaction heap",
    .start = start,
    .alloc = alloc,
    .free = free_block,
    .realloc = realloc_block,
    .free_all = free_all,
    .renew = renew,
    .used = used,
    .peak = peak,
    .reset_peak = reset_peak,
    .reclaim = reclaim,
    .set_limit = set_limit,
    .statistics = statistics,
};
