// SPDX-License-Identifier: MIT
//
// Walk and statistics. The hot paths count nothing, so everything is found out when asked: which
// places of a segment are no live blocks is what the free lists and the fresh range say.
#include "transaction/transaction.h"

#include <string.h>

#define WORD_BITS 64u

struct pw_heap_class *pw_class_in(struct pw_heap_whole *heap, const char *segment) {
    unsigned number = *pw_heap_class_note(segment);
    return number < PW_HEAP_CLASSES ? &heap->hot.classes[number] : NULL;
}

static bool segment_is_used(const struct pw_chunk *chunk, unsigned segment) {
    return chunk->used[segment / WORD_BITS] >> segment % WORD_BITS & 1;
}

bool pw_each_segment(struct pw_heap_whole *heap, pw_segment_visitor *visit, void *context) {
    for (unsigned i = 0; i < heap->chunk_count; i++) {
        struct pw_chunk *chunk = heap->chunks[i];
        if (!pw_chunk_is_used(heap, chunk)) {
            continue;
        }
        for (unsigned segment = 1; segment < heap->chunk_segments;) {
            if (!segment_is_used(chunk, segment)) {
                segment++;
                continue;
            }
            char *start = pw_chunk_start(chunk) + ((size_t)segment << heap->segment_shift);
            unsigned next = segment + (pw_class_in(heap, start) ? 1 : chunk->run[segment]);
            if (!visit(heap, chunk, segment, start, context)) {
                return false;
            }
            segment = next;
        }
    }
    return true;
}

size_t pw_places_carved(const struct pw_heap_whole *heap, const struct pw_heap_class *of,
                        const char *start) {
    uintptr_t end = (uintptr_t)start + pw_segment_size(heap);
    bool current = of->fresh <= of->last && of->last >= (uintptr_t)start && of->last < end;
    return current ? (of->fresh - (uintptr_t)start) / of->size : pw_segment_size(heap) / of->size;
}

// --- statistics ---------------------------------------------------------------------

void pw_count_free_block(struct pw_heap_whole *heap, const void *block) {
    pw_chunk_of(block)->scratch[pw_segment_of(heap, block)]++;
}

void pw_count_no_blocks(struct pw_heap_whole *heap) {
    for (unsigned i = 0; i < heap->chunk_count; i++) {
        memset(heap->chunks[i]->scratch, 0, sizeof heap->chunks[i]->scratch);
    }
}

void pw_count_free_blocks(struct pw_heap_whole *heap) {
    pw_count_no_blocks(heap);
    for (unsigned i = 0; i < PW_HEAP_CLASSES; i++) {
        for (void *block = heap->hot.classes[i].free; block; block = *(pw_heap_link *)block) {
            pw_count_free_block(heap, block);
        }
    }
}

static bool add_segment(struct pw_heap_whole *heap, struct pw_chunk *chunk, unsigned segment,
                        char *start, void *context) {
    struct pw_heap_statistics *sum = context;
    const struct pw_heap_class *of = pw_class_in(heap, start);
    if (!of) {
        sum->live_blocks++;
        sum->live_bytes += pw_large_size(heap, start);
        return true;
    }
    size_t carved = pw_places_carved(heap, of, start), freed = chunk->scratch[segment];
    size_t places = pw_segment_size(heap) / of->size;
    sum->live_blocks += carved - freed;
    sum->live_bytes += (carved - freed) * of->size;
    sum->free_bytes += freed * of->size;
    sum->empty_segment_bytes += carved == freed ? freed * of->size : 0;
    sum->fresh_bytes += (places - carved) * of->size;
    sum->slack_bytes += pw_segment_size(heap) - places * of->size;
    return true;
}

void pw_plain_statistics(struct pw_heap_whole *heap, struct pw_heap_statistics *out) {
    *out = (struct pw_heap_statistics){
        .segment_bytes = heap->segment_bytes,
        .peak_segment_bytes = heap->peak_segment_bytes,
        .bookkeeping_bytes = heap->mapping_bytes + (size_t)heap->chunk_count * 2 * PW_PAGE,
        .mapped_bytes = heap->mapping_bytes + heap->giant_bytes + heap->chunk_count * PW_HEAP_CHUNK,
        .limit_bytes = heap->options.limit_bytes,
        .returned_bytes = heap->returned_bytes,
    };
    pw_each_segment(heap, add_segment, out);
    for (struct pw_giant *giant = heap->giants; giant; giant = giant->next) {
        size_t size = pw_large_size(heap, giant->block);
        out->live_blocks++;
        out->live_bytes += size;
        out->slack_bytes += giant->mapped_bytes - size;
    }
}

// --- walk -------------------------------------------------------------------------------

struct walk {
    pw_heap_visitor *visit;
    void *context;
    uint64_t *freed; // one bit for every 8 bytes of the chunks, in the order of their table
    size_t chunk_words;
    unsigned chunk_index;
};

static bool is_freed(const struct walk *walk, unsigned chunk_index, const char *block) {
    size_t place = ((uintptr_t)block & (PW_HEAP_CHUNK - 1)) / 8;
    return walk->freed[chunk_index * walk->chunk_words + place / WORD_BITS] >> place % WORD_BITS &
           1;
}

// Where chunks lie in their table: kept in their scratch space for the time of a walk.
static void mark_freed(struct pw_heap_whole *heap, struct walk *walk) {
    for (unsigned i = 0; i < heap->chunk_count; i++) {
        memcpy(heap->chunks[i]->scratch, &i, sizeof i);
    }
    for (unsigned i = 0; i < PW_HEAP_CLASSES; i++) {
        for (void *block = heap->hot.classes[i].free; block; block = *(pw_heap_link *)block) {
            unsigned index;
            memcpy(&index, pw_chunk_of(block)->scratch, sizeof index);
            size_t place = ((uintptr_t)block & (PW_HEAP_CHUNK - 1)) / 8;
            walk->freed[index * walk->chunk_words + place / WORD_BITS] |= 1ull << place % WORD_BITS;
        }
    }
}

static bool visit_segment(struct pw_heap_whole *heap, struct pw_chunk *chunk, unsigned segment,
                          char *start, void *context) {
    struct walk *walk = context;
    (void)segment;
    const struct pw_heap_class *of = pw_class_in(heap, start);
    if (!of) {
        return walk->visit(start, pw_large_size(heap, start), walk->context);
    }
    unsigned index;
    memcpy(&index, chunk->scratch, sizeof index);
    size_t carved = pw_places_carved(heap, of, start);
    for (size_t i = 0; i < carved; i++) {
        char *block = start + i * of->size;
        if (!is_freed(walk, index, block) && !walk->visit(block, of->size, walk->context)) {
            return false;
        }
    }
    return true;
}

bool pw_plain_walk(struct pw_heap_whole *heap, pw_heap_visitor *visit, void *context) {
    struct walk walk = {visit, context, NULL, PW_HEAP_CHUNK / 8 / WORD_BITS, 0};
    size_t table =
        (heap->chunk_count ? heap->chunk_count : 1) * walk.chunk_words * sizeof(uint64_t);
    walk.freed = pw_os_map_table(table);
    if (!walk.freed) {
        return false;
    }
    mark_freed(heap, &walk);
    bool whole = pw_each_segment(heap, visit_segment, &walk);
    for (struct pw_giant *giant = heap->giants; whole && giant; giant = giant->next) {
        whole = visit(giant->block, pw_large_size(heap, giant->block), context);
    }
    pw_os_unmap(walk.freed, table);
    return whole;
}

bool pw_plain_contains(const struct pw_heap_whole *heap, const void *address) {
    for (unsigned i = 0; i < heap->chunk_count; i++) {
        if (pw_chunk_start(heap->chunks[i]) == pw_chunk_start(address)) {
            return true;
        }
    }
    for (const struct pw_giant *giant = heap->giants; giant; giant = giant->next) {
        if ((uintptr_t)address - (uintptr_t)pw_chunk_start(giant) < giant->mapped_bytes) {
            return true;
        }
    }
    return false;
}
