// SPDX-License-Identifier: MIT
//
// Segments that hold no live block leave their class, for any class and for large blocks. It takes
// a walk over all freed blocks, so that it is done where the heap would otherwise fail (at the
// limit, or because the machine has no more memory), and when the program asks for it.
#include "transaction/transaction.h"

#define LEAVES UINT16_MAX // in scratch: the segment leaves its class. No segment has so many blocks

bool pw_segment_leaves(const struct pw_heap_whole *heap, const void *inside) {
    return pw_chunk_of(inside)->scratch[pw_segment_of(heap, inside)] == LEAVES;
}

static bool decide(struct pw_heap_whole *heap, struct pw_chunk *chunk, unsigned segment,
                   char *start, void *context) {
    bool *found = context;
    const struct pw_heap_class *of = pw_class_in(heap, start);
    if (of && chunk->scratch[segment] == pw_places_carved(heap, of, start)) {
        chunk->scratch[segment] = LEAVES;
        *found = true;
    }
    return true;
}

bool pw_segments_leave(struct pw_heap_whole *heap) {
    bool found = false;
    pw_each_segment(heap, decide, &found);
    return found;
}

static void unlink_blocks(const struct pw_heap_whole *heap, struct pw_heap_class *of) {
    pw_heap_link *link = &of->free;
    for (void *block = of->free, *next; block; block = next) {
        next = *(pw_heap_link *)block;
        if (pw_segment_leaves(heap, block)) {
            continue;
        }
        if (*link != block) { // what stays as it is is not written
            *link = block;
        }
        link = block;
    }
    if (*link) {
        *link = NULL;
    }
}

static bool release(struct pw_heap_whole *heap, struct pw_chunk *chunk, unsigned segment,
                    char *start, void *context) {
    (void)context;
    struct pw_heap_class *of = pw_class_in(heap, start);
    if (of && chunk->scratch[segment] == LEAVES) {
        if (of->last - (uintptr_t)start < pw_segment_size(heap)) { // the rest of it is fresh
            of->fresh = 1;
            of->last = 0;
        }
        pw_segments_release(heap, start, 1);
    }
    return true;
}

void pw_segments_release_leaving(struct pw_heap_whole *heap) {
    pw_each_segment(heap, release, NULL);
}

size_t pw_segments_reclaim(struct pw_heap_whole *heap) {
    size_t before = heap->segment_bytes;
    pw_count_free_blocks(heap);
    if (!pw_segments_leave(heap)) {
        return 0;
    }
    for (unsigned i = 0; i < PW_HEAP_CLASSES; i++) {
        unlink_blocks(heap, &heap->hot.classes[i]);
    }
    pw_segments_release_leaving(heap);
    return before - heap->segment_bytes;
}

static bool let_go_of_nothing(struct pw_heap_whole *heap) {
    (void)heap;
    return false;
}

bool pw_refused_chunk(struct pw_heap_whole *heap) {
    return pw_giants_drop_idle(heap) || heap->resorts->reclaim(heap) || heap->resorts->let_go(heap);
}

bool pw_refused_giant(struct pw_heap_whole *heap) {
    if (pw_giants_drop_idle(heap)) {
        return true;
    }
    heap->resorts->reclaim(heap);
    return pw_chunks_unmap_free(heap) || heap->resorts->let_go(heap);
}

const struct pw_last_resorts pw_plain_resorts = {
    .reclaim = pw_segments_reclaim,
    .let_go = let_go_of_nothing,
    .count_free_blocks = pw_count_free_blocks,
    .refused_chunk = pw_refused_chunk,
    .refused_giant = pw_refused_giant,
};
