// SPDX-License-Identifier: MIT
//
// Chunks and segments. A chunk that was not used since the last free-all is not touched by it: that
// all its segments are free follows from the number of the transaction that used it last.
#include "transaction/transaction.h"

#include <string.h>

#define WORD_BITS 64u
// Chunks in which room to grow is looked for: a few hundred nanoseconds.
#define MOST_SEARCHED 8u

static void reset_chunk(struct pw_heap_whole *heap, struct pw_chunk *chunk) {
    chunk->transaction = heap->transaction;
    chunk->free_segments = heap->chunk_segments - 1;
    for (unsigned word = 0; word < PW_GRANULES / WORD_BITS; word++) {
        // Segments that a chunk of larger ones does not have count as used for ever.
        unsigned first = word * WORD_BITS;
        unsigned here = heap->chunk_segments > first ? heap->chunk_segments - first : 0;
        chunk->used[word] = here >= WORD_BITS ? 0 : ~0ull << here;
    }
    chunk->used[0] |= 1;
}

// The first segment from `from` on that is (not) used; PW_GRANULES when there is none.
static unsigned next_segment(const struct pw_chunk *chunk, unsigned from, bool used) {
    while (from < PW_GRANULES) {
        uint64_t word = chunk->used[from / WORD_BITS];
        word = (used ? word : ~word) >> from % WORD_BITS;
        if (word) {
            return from + (unsigned)__builtin_ctzll(word);
        }
        from = (from / WORD_BITS + 1) * WORD_BITS;
    }
    return PW_GRANULES;
}

// The first of `count` free neighbours, at a multiple of `step` segments; 0 when there are none.
static unsigned find_run(const struct pw_chunk *chunk, unsigned count, unsigned step) {
    unsigned first = next_segment(chunk, 0, false);
    while (first < PW_GRANULES) {
        first = (first + step - 1) / step * step;
        unsigned end = next_segment(chunk, first, true);
        if (first < PW_GRANULES && end >= first + count) {
            return first;
        }
        first = next_segment(chunk, end, false);
    }
    return 0;
}

static void mark(struct pw_chunk *chunk, unsigned first, unsigned count, bool used) {
    for (unsigned segment = first; segment < first + count; segment++) {
        uint64_t bit = 1ull << segment % WORD_BITS;
        uint64_t *word = &chunk->used[segment / WORD_BITS];
        *word = used ? *word | bit : *word & ~bit;
    }
    chunk->free_segments += used ? -count : count;
}

static bool grow_table(struct pw_heap_whole *heap) {
    size_t size = (size_t)heap->chunk_capacity * sizeof *heap->chunks;
    struct pw_chunk **larger = pw_os_map_table(2 * pw_round_up(size, PW_PAGE));
    if (!larger) {
        return false;
    }
    for (unsigned i = 0; i < heap->chunk_count; i++) {
        larger[i] = heap->chunks[i];
    }
    // The first table lies in the heap's own mapping and stays there.
    if (size >= PW_PAGE) {
        pw_os_unmap(heap->chunks, size);
    }
    heap->chunks = larger;
    heap->chunk_capacity = (unsigned)(2 * pw_round_up(size, PW_PAGE) / sizeof *larger);
    return true;
}

static struct pw_chunk *new_chunk(struct pw_heap_whole *heap) {
    if (heap->chunk_count == heap->chunk_capacity && !grow_table(heap)) {
        return NULL;
    }
    char *start = pw_os_map_aligned(PW_HEAP_CHUNK, PW_HEAP_CHUNK);
    if (!start) {
        return NULL;
    }
    if (heap->options.flags & PW_HEAP_HUGE_PAGES) {
        pw_os_advise_huge(start, PW_HEAP_CHUNK); // advice: without it the heap works as well
    }
    struct pw_chunk *chunk = pw_chunk_of(start);
    chunk->touched = 1;
    chunk->index = heap->chunk_count;
    heap->chunks[heap->chunk_count++] = chunk;
    return chunk;
}

bool pw_limit_allows(const struct pw_heap_whole *heap, size_t bytes) {
    size_t limit = heap->options.limit_bytes;
    return !limit || (heap->segment_bytes <= limit && bytes <= limit - heap->segment_bytes);
}

bool pw_limit_asks(struct pw_heap_whole *heap, size_t bytes) {
    return heap->resorts->reclaim(heap) ||
           (heap->options.on_limit && !heap->asks_nobody &&
            heap->options.on_limit(&heap->hot, bytes, heap->options.context));
}

bool pw_within_limit(struct pw_heap_whole *heap, size_t bytes) {
    while (!pw_limit_allows(heap, bytes)) {
        if (!pw_limit_asks(heap, bytes)) {
            return false;
        }
    }
    return true;
}

void pw_count_segments(struct pw_heap_whole *heap, size_t bytes) {
    heap->segment_bytes += bytes;
    if (heap->segment_bytes > heap->peak_segment_bytes) {
        heap->peak_segment_bytes = heap->segment_bytes;
    }
}

static char *take_from(struct pw_heap_whole *heap, struct pw_chunk *chunk, unsigned first,
                       unsigned count, bool *zero) {
    mark(chunk, first, count, true);
    *zero = first >= chunk->touched;
    if (first + count > chunk->touched) {
        chunk->touched = first + count;
    }
    pw_count_segments(heap, (size_t)count << heap->segment_shift);
    return pw_chunk_start(chunk) + ((size_t)first << heap->segment_shift);
}

// Where a search for a run begins. Without it, blocks that leave room for none of their size in
// each chunk would look into all chunks before, each of them.
static unsigned first_to_search(struct pw_heap_whole *heap, unsigned count) {
    const struct pw_no_run *known = &heap->no_runs[31 - __builtin_clz(count)];
    bool tells = known->count && known->count <= count && known->before > heap->first_with_room;
    return tells ? known->before : heap->first_with_room;
}

// The search has found none before this chunk.
static void note_no_run(struct pw_heap_whole *heap, unsigned count, unsigned before) {
    struct pw_no_run *known = &heap->no_runs[31 - __builtin_clz(count)];
    if (!known->count || count <= known->count) {
        *known = (struct pw_no_run){count, before};
    }
}

static char *search(struct pw_heap_whole *heap, unsigned count, size_t alignment, bool *zero) {
    unsigned step = (unsigned)((alignment + pw_segment_size(heap) - 1) >> heap->segment_shift);
    step = step ? step : 1;
    for (unsigned i = first_to_search(heap, count);; i++) {
        struct pw_chunk *chunk = i < heap->chunk_count ? heap->chunks[i] : new_chunk(heap);
        if (!chunk) {
            return NULL;
        }
        if (!pw_chunk_is_used(heap, chunk)) {
            reset_chunk(heap, chunk);
            heap->chunks_used = i + 1;
        }
        if (i == heap->first_with_room && chunk->free_segments == 0) {
            heap->first_with_room++;
        } else if (chunk->free_segments >= count) {
            unsigned first = find_run(chunk, count, step);
            if (first) {
                if (step == 1) {
                    note_no_run(heap, count, i);
                }
                return take_from(heap, chunk, first, count, zero);
            }
        }
    }
}

char *pw_segments_take(struct pw_heap_whole *heap, unsigned count, size_t alignment, bool *zero) {
    char *segments;
    do {
        segments = search(heap, count, alignment, zero);
    } while (!segments && heap->resorts->refused_chunk(heap));
    return segments;
}

struct free_run {
    struct pw_chunk *chunk;
    unsigned first, count;
};

static struct free_run longer(struct free_run one, struct free_run other) {
    return other.count > one.count ? other : one;
}

static struct free_run longest_run(struct pw_chunk *chunk) {
    struct free_run longest = {0};
    unsigned first = next_segment(chunk, 0, false);
    while (first < PW_GRANULES) {
        unsigned end = next_segment(chunk, first, true);
        longest = longer(longest, (struct free_run){chunk, first, end - first});
        first = next_segment(chunk, end, false);
    }
    return longest;
}

char *pw_segments_take_with_room(struct pw_heap_whole *heap, unsigned count, bool *zero) {
    struct free_run longest = {0};
    unsigned end = heap->chunks_used;
    unsigned from = end > MOST_SEARCHED ? end - MOST_SEARCHED : 0;
    for (unsigned i = from > heap->first_with_room ? from : heap->first_with_room; i < end; i++) {
        longest = longer(longest, longest_run(heap->chunks[i]));
    }
    // In its middle, so that what ends before it has room as well.
    unsigned half = longest.count / 2;
    return half >= 2 * count ? take_from(heap, longest.chunk, longest.first + half, count, zero)
                             : NULL;
}

// The chunk gets room: searches that begin behind it would not see it.
static void note_room(struct pw_heap_whole *heap, const struct pw_chunk *chunk) {
    if (chunk->index < heap->first_with_room) {
        heap->first_with_room = chunk->index;
    }
    for (unsigned i = 0; i < PW_RUN_KINDS; i++) {
        if (chunk->index < heap->no_runs[i].before) {
            heap->no_runs[i].before = chunk->index;
        }
    }
}

void pw_segments_release(struct pw_heap_whole *heap, const void *first, unsigned count) {
    struct pw_chunk *chunk = pw_chunk_of(first);
    note_room(heap, chunk);
    mark(chunk, pw_segment_of(heap, first), count, false);
    heap->segment_bytes -= (size_t)count << heap->segment_shift;
}

bool pw_segments_extend(struct pw_heap_whole *heap, const void *first, unsigned count,
                        unsigned more) {
    struct pw_chunk *chunk = pw_chunk_of(first);
    unsigned next = pw_segment_of(heap, first) + count;
    if (next + more > PW_GRANULES || next_segment(chunk, next, true) < next + more) {
        return false;
    }
    bool zero;
    take_from(heap, chunk, next, more, &zero);
    return true;
}

// Pages of the chunk's segments back to the kernel; its tables stay, and where pages are larger
// than segments so do the segments beside them.
static void discard_segments(struct pw_heap_whole *heap, struct pw_chunk *chunk, unsigned from) {
    size_t start = pw_round_up((size_t)(from < 1 ? 1 : from) << heap->segment_shift, PW_PAGE);
    size_t end = (size_t)chunk->touched << heap->segment_shift;
    if (end > start &&
        pw_os_discard(pw_chunk_start(chunk) + start, pw_round_up(end - start, PW_PAGE))) {
        chunk->touched = (unsigned)(start >> heap->segment_shift);
        heap->returned_bytes += end - start;
    }
}

// From the last on, so that a mapping of several is seldom cut in two. Where mappings are short a
// cut is refused: such a chunk stays, without its pages, and the others go.
static bool unmap_chunk(struct pw_heap_whole *heap, unsigned number) {
    struct pw_chunk *chunk = heap->chunks[number];
    size_t touched = (size_t)chunk->touched << heap->segment_shift;
    if (!pw_os_unmap(pw_chunk_start(chunk), PW_HEAP_CHUNK)) {
        discard_segments(heap, chunk, 1);
        return false;
    }
    heap->chunk_count--;
    heap->returned_bytes += touched;
    for (unsigned i = number; i < heap->chunk_count; i++) { // those that stay close the gap
        heap->chunks[i] = heap->chunks[i + 1];
        heap->chunks[i]->index = i;
    }
    return true;
}

static void unmap_chunks_above(struct pw_heap_whole *heap, unsigned keep) {
    for (unsigned i = heap->chunk_count; i-- > keep;) {
        unmap_chunk(heap, i);
    }
}

bool pw_chunks_unmap_free(struct pw_heap_whole *heap) {
    bool unmapped = false;
    for (unsigned i = heap->chunk_count; i-- > 1;) {
        const struct pw_chunk *chunk = heap->chunks[i];
        bool is_free =
            !pw_chunk_is_used(heap, chunk) || chunk->free_segments == heap->chunk_segments - 1;
        if (is_free && unmap_chunk(heap, i)) {
            unmapped = true;
            heap->chunks_used -= i < heap->chunks_used;
        }
    }
    if (unmapped) { // what is known of numbered chunks is about others now
        heap->first_with_room = 0;
        memset(heap->no_runs, 0, sizeof heap->no_runs);
    }
    return unmapped;
}

void pw_chunks_return(struct pw_heap_whole *heap) {
    size_t keep = heap->options.keep_bytes;
    if (keep == SIZE_MAX) {
        return;
    }
    // However much that is, it is no more chunks than there are.
    size_t chunks = keep >> PW_HEAP_CHUNK_SHIFT;
    unsigned kept = chunks < heap->chunk_count ? (unsigned)chunks : heap->chunk_count;
    if (heap->options.flags & PW_HEAP_RETURN_EMPTY) {
        size_t rest = keep & (PW_HEAP_CHUNK - 1);
        unmap_chunks_above(heap, kept + 1); // one chunk's address space is always kept
        if (heap->chunk_count > kept) {
            discard_segments(heap, heap->chunks[kept], (unsigned)(rest >> heap->segment_shift));
        }
        return;
    }
    // In sixteenths, so that a second chunk is not gone after the first transaction without it.
    unsigned wanted = heap->sixteenths_wanted - (heap->sixteenths_wanted + 15) / 16;
    unsigned used = heap->chunks_used * 16;
    heap->sixteenths_wanted = wanted > used ? wanted : used;
    unsigned most = (heap->sixteenths_wanted + 15) / 16;
    unmap_chunks_above(heap, most > kept + 1 ? most : kept + 1);
}

void pw_chunks_unmap(struct pw_heap_whole *heap) {
    unmap_chunks_above(heap, 0);
    for (unsigned i = 0; i < heap->chunk_count; i++) { // their address space is lost
        pw_os_discard(pw_chunk_start(heap->chunks[i]), PW_HEAP_CHUNK);
    }
    size_t size = (size_t)heap->chunk_capacity * sizeof *heap->chunks;
    if (size >= PW_PAGE) {
        pw_os_unmap(heap->chunks, size);
    }
}
