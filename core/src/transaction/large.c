// SPDX-License-Identifier: MIT
//
// Large blocks take whole segments (section 3.2); giants, which no chunk can hold, a mapping of
// their own. Giants that were freed are kept for the next one of about their size, for some
// transactions: programs that grow a buffer step by step would fault in its pages at each step.
#include "transaction/transaction.h"

#define IDLE_GIANT_BYTES ((size_t)32 << 20)
#define LONGEST_IDLE     8u // transactions

static struct pw_giant *giant_of(const void *block) {
    return (struct pw_giant *)pw_chunk_of(block);
}

static void unlink_giant(struct pw_giant **list, struct pw_giant *giant) {
    if (giant->next) {
        giant->next->previous = giant->previous;
    }
    if (giant->previous) {
        giant->previous->next = giant->next;
    } else {
        *list = giant->next;
    }
}

static void link_giant(struct pw_giant **list, struct pw_giant *giant) {
    giant->previous = NULL;
    giant->next = *list;
    if (giant->next) {
        giant->next->previous = giant;
    }
    *list = giant;
}

static void start_giant(struct pw_heap_whole *heap, struct pw_giant *giant) {
    link_giant(&heap->giants, giant);
    pw_count_segments(heap, giant->mapped_bytes);
}

static void unmap_giant(struct pw_heap_whole *heap, struct pw_giant *giant) {
    size_t size = giant->mapped_bytes;
    // Where even that fails the mapping is lost to us, and its pages are given back.
    if (pw_os_unmap(pw_chunk_start(giant), size) || pw_os_discard(pw_chunk_start(giant), size)) {
        heap->returned_bytes += size;
    }
    heap->giant_bytes -= size;
}

// An idle giant that fits, within the limit as well, and is not more than twice as large.
static struct pw_giant *idle_giant(struct pw_heap_whole *heap, size_t mapped_bytes,
                                   size_t block_at) {
    for (struct pw_giant *giant = heap->idle_giants; giant; giant = giant->next) {
        if (giant->mapped_bytes >= mapped_bytes && giant->mapped_bytes / 2 <= mapped_bytes &&
            (size_t)(giant->block - pw_chunk_start(giant)) == block_at &&
            pw_limit_allows(heap, giant->mapped_bytes)) {
            unlink_giant(&heap->idle_giants, giant);
            heap->idle_giant_bytes -= giant->mapped_bytes;
            return giant;
        }
    }
    return NULL;
}

static struct pw_giant *map_giant(struct pw_heap_whole *heap, size_t mapped_bytes,
                                  size_t block_at) {
    char *start = pw_os_map_aligned(mapped_bytes, PW_HEAP_CHUNK);
    if (!start) {
        return NULL;
    }
    if (heap->options.flags & PW_HEAP_HUGE_PAGES) {
        pw_os_advise_huge(start, mapped_bytes);
    }
    struct pw_giant *giant = giant_of(start);
    giant->block = start + block_at;
    giant->mapped_bytes = mapped_bytes;
    *pw_heap_class_note(giant->block) = PW_NOTE_GIANT;
    heap->giant_bytes += mapped_bytes;
    return giant;
}

static void *take_giant(struct pw_heap_whole *heap, size_t size, size_t alignment, bool *zero) {
    size_t segment = pw_segment_size(heap), block_at = alignment > segment ? alignment : segment;
    size_t mapped_bytes = pw_round_up(size + block_at, PW_PAGE);
    if (!pw_within_limit(heap, mapped_bytes)) {
        return NULL;
    }
    struct pw_giant *giant = idle_giant(heap, mapped_bytes, block_at);
    *zero = !giant;
    while (!giant && !(giant = map_giant(heap, mapped_bytes, block_at))) {
        if (!heap->resorts->refused_giant(heap)) {
            return NULL;
        }
    }
    start_giant(heap, giant);
    return giant->block;
}

static void retire_giant(struct pw_heap_whole *heap, struct pw_giant *giant) {
    heap->segment_bytes -= giant->mapped_bytes;
    bool returns = heap->options.flags & PW_HEAP_RETURN_EMPTY;
    size_t most = returns ? 0 : IDLE_GIANT_BYTES;
    if (most < heap->options.keep_bytes) {
        most = heap->options.keep_bytes;
    }
    if (giant->mapped_bytes > most || heap->idle_giant_bytes > most - giant->mapped_bytes) {
        unmap_giant(heap, giant);
        return;
    }
    giant->retired = heap->transaction;
    link_giant(&heap->idle_giants, giant);
    heap->idle_giant_bytes += giant->mapped_bytes;
}

void pw_giants_age(struct pw_heap_whole *heap) {
    if (heap->idle_giant_bytes <= heap->options.keep_bytes) {
        return;
    }
    struct pw_giant *oldest = heap->idle_giants; // the last of the list
    while (oldest->next) {
        oldest = oldest->next;
    }
    if (heap->transaction - oldest->retired > LONGEST_IDLE) {
        unlink_giant(&heap->idle_giants, oldest);
        heap->idle_giant_bytes -= oldest->mapped_bytes;
        unmap_giant(heap, oldest);
    }
}

static unsigned segments_for(const struct pw_heap_whole *heap, size_t size) {
    return (unsigned)((size + pw_segment_size(heap) - 1) >> heap->segment_shift);
}

static void *take_segments(struct pw_heap_whole *heap, size_t size, size_t alignment, bool grows,
                           bool *zero) {
    unsigned count = segments_for(heap, size);
    if (!pw_within_limit(heap, (size_t)count << heap->segment_shift)) {
        return NULL;
    }
    char *block = grows ? pw_segments_take_with_room(heap, count, zero) : NULL;
    block = block ? block : pw_segments_take(heap, count, alignment, zero);
    if (block) {
        *pw_heap_class_note(block) = PW_NOTE_LARGE;
        pw_chunk_of(block)->run[pw_segment_of(heap, block)] = (uint16_t)count;
    }
    return block;
}

static void *take(struct pw_heap_whole *heap, size_t size, size_t alignment, bool grows,
                  bool *zero) {
    size = size ? size : 1;
    if (size > PW_LARGEST_BLOCK) {
        return NULL;
    }
    // A chunk's first segment is not for blocks, and so none before a multiple of the alignment.
    size_t first = alignment > pw_segment_size(heap) ? alignment : pw_segment_size(heap);
    return size > PW_HEAP_CHUNK - first ? take_giant(heap, size, alignment, zero)
                                        : take_segments(heap, size, alignment, grows, zero);
}

void *pw_large_take(struct pw_heap_whole *heap, size_t size, size_t alignment, bool *zero) {
    return take(heap, size, alignment, false, zero);
}

void *pw_large_take_growing(struct pw_heap_whole *heap, size_t size) {
    bool zero;
    return take(heap, size, PW_NATURAL_ALIGNMENT, true, &zero);
}

static bool is_giant(const void *block) {
    return *pw_heap_class_note(block) == PW_NOTE_GIANT;
}

static unsigned run_of(const struct pw_heap_whole *heap, const void *block) {
    return pw_chunk_of(block)->run[pw_segment_of(heap, block)];
}

void pw_large_release(struct pw_heap_whole *heap, void *block) {
    if (is_giant(block)) {
        unlink_giant(&heap->giants, giant_of(block));
        retire_giant(heap, giant_of(block));
        return;
    }
    pw_segments_release(heap, block, run_of(heap, block));
}

size_t pw_large_size(const struct pw_heap_whole *heap, const void *block) {
    if (is_giant(block)) {
        const struct pw_giant *giant = giant_of(block);
        return giant->mapped_bytes - (size_t)(giant->block - pw_chunk_start(giant));
    }
    return (size_t)run_of(heap, block) << heap->segment_shift;
}

static void trim_giant(struct pw_heap_whole *heap, struct pw_giant *giant, size_t size) {
    size_t before = giant->mapped_bytes;
    size_t block_at = (size_t)(giant->block - pw_chunk_start(giant));
    size_t smaller = pw_round_up(size + block_at, PW_PAGE);
    if (smaller < before && pw_os_unmap(pw_chunk_start(giant) + smaller, before - smaller)) {
        giant->mapped_bytes = smaller;
        heap->giant_bytes -= before - smaller;
        heap->segment_bytes -= before - smaller;
        heap->returned_bytes += before - smaller;
    }
}

static void resize_run(struct pw_heap_whole *heap, void *block, unsigned count, unsigned wanted) {
    if (wanted < count) {
        char *rest = (char *)block + ((size_t)wanted << heap->segment_shift);
        pw_segments_release(heap, rest, count - wanted);
    }
    pw_chunk_of(block)->run[pw_segment_of(heap, block)] = (uint16_t)wanted;
}

void pw_large_trim(struct pw_heap_whole *heap, void *block, size_t size) {
    size = size ? size : 1;
    if (is_giant(block)) {
        trim_giant(heap, giant_of(block), size);
    } else {
        resize_run(heap, block, run_of(heap, block), segments_for(heap, size));
    }
}

bool pw_large_resize(struct pw_heap_whole *heap, void *block, size_t size) {
    if (is_giant(block)) {
        size_t usable = pw_large_size(heap, block);
        if (size < usable / 2 && size > PW_HEAP_CHUNK) {
            trim_giant(heap, giant_of(block), size);
            return true;
        }
        return size <= usable && size >= usable / 2;
    }
    unsigned count = run_of(heap, block), wanted = segments_for(heap, size);
    if (size <= heap->largest_small || size > PW_HEAP_CHUNK) {
        return false;
    }
    if (wanted > count &&
        (!pw_within_limit(heap, (size_t)(wanted - count) << heap->segment_shift) ||
         !pw_segments_extend(heap, block, count, wanted - count))) {
        return false;
    }
    resize_run(heap, block, count, wanted);
    return true;
}

void *pw_giant_grow(struct pw_heap_whole *heap, void *block, size_t size) {
    struct pw_giant *giant = giant_of(block);
    size_t block_at = (size_t)((char *)block - pw_chunk_start(giant)), before = giant->mapped_bytes;
    if (*pw_heap_class_note(block) != PW_NOTE_GIANT || size > PW_LARGEST_BLOCK) {
        return NULL;
    }
    size_t larger = pw_round_up(size + block_at, pw_segment_size(heap));
    if (larger <= before || !pw_within_limit(heap, larger - before)) {
        return NULL;
    }
    unlink_giant(&heap->giants, giant); // its address may change
    char *start = pw_os_grow(pw_chunk_start(giant), before, larger, PW_HEAP_CHUNK);
    if (start) {
        giant = giant_of(start);
        giant->block = start + block_at;
        giant->mapped_bytes = larger;
        // The class note lies at a place that depends on the chunk's number.
        *pw_heap_class_note(giant->block) = PW_NOTE_GIANT;
        heap->giant_bytes += larger - before;
        pw_count_segments(heap, larger - before);
    }
    link_giant(&heap->giants, giant);
    return start ? giant->block : NULL;
}

void pw_giants_free_all(struct pw_heap_whole *heap) {
    while (heap->giants) {
        struct pw_giant *giant = heap->giants;
        unlink_giant(&heap->giants, giant);
        retire_giant(heap, giant);
    }
}

static void unmap_all(struct pw_heap_whole *heap, struct pw_giant **list) {
    for (struct pw_giant *giant = *list, *next; giant; giant = next) {
        next = giant->next;
        unmap_giant(heap, giant);
    }
    *list = NULL;
}

bool pw_giants_drop_idle(struct pw_heap_whole *heap) {
    bool there_were = heap->idle_giants != NULL;
    unmap_all(heap, &heap->idle_giants);
    heap->idle_giant_bytes = 0;
    return there_were;
}

void pw_giants_unmap(struct pw_heap_whole *heap) {
    unmap_all(heap, &heap->giants);
    pw_giants_drop_idle(heap);
}
