// SPDX-License-Identifier: MIT
//
// The bump region of section 4.1: chunks of 256 MB of address space, a pointer that goes up, and
// back to the start at free-all. Each chunk begins with the address of the next one, the first one
// with the region itself.
#include "transaction/transaction.h"

#include <errno.h>
#include <string.h>

#define REGION_CHUNK    ((size_t)256 << 20)
#define SMALLEST_REGION ((size_t)1 << 20)

struct region_chunk {
    struct region_chunk *next;
    size_t size;
    size_t head; // bytes before the first block
};

struct pw_region {
    struct region_chunk first;
    uintptr_t next; // where the next block may begin
    uintptr_t end;  // for the hot path: the chunk's end, or before it where the limit is
    struct region_chunk *chunk;
    size_t used_before; // bytes of the chunks before it
    size_t peak;
    uint64_t transactions, returned_bytes;
    struct pw_heap_options options;
};

static uintptr_t start_of(const struct region_chunk *chunk) {
    return (uintptr_t)chunk + chunk->head;
}

static uintptr_t end_of(const struct region_chunk *chunk) {
    return (uintptr_t)chunk + chunk->size;
}

static size_t used(const struct pw_region *region) {
    return region->used_before + (region->next - start_of(region->chunk));
}

static void note_peak(struct pw_region *region) {
    region->peak = used(region) > region->peak ? used(region) : region->peak;
}

// --- chunks ----------------------------------------------------------------------

// Address space of a chunk's size, or less where there is not that much, but `least`.
static struct region_chunk *map_chunk(size_t least, size_t head, unsigned flags) {
    size_t size = least > REGION_CHUNK ? pw_round_up(least, PW_PAGE) : REGION_CHUNK;
    struct region_chunk *chunk = pw_os_map_table(size);
    while (!chunk && size / 2 >= least && size / 2 >= SMALLEST_REGION) {
        size /= 2;
        chunk = pw_os_map_table(size);
    }
    if (!chunk) {
        errno = ENOMEM;
        return NULL;
    }
    if (flags & PW_HEAP_HUGE_PAGES) {
        pw_os_advise_huge(chunk, size);
    }
    chunk->size = size;
    chunk->head = pw_round_up(head, PW_NATURAL_ALIGNMENT);
    return chunk;
}

static void set_end(struct pw_region *region) {
    size_t limit = region->options.limit_bytes;
    region->end = end_of(region->chunk);
    if (limit) {
        size_t left = used(region) < limit ? limit - used(region) : 0;
        region->end = left < region->end - region->next ? region->next + left : region->end;
    }
}

static void enter_chunk(struct pw_region *region, struct region_chunk *chunk) {
    region->chunk = chunk;
    region->next = start_of(chunk);
    set_end(region);
}

// The next chunk with room for `least`: one of an earlier transaction, or a new one behind them.
static bool next_chunk(struct pw_region *region, size_t least) {
    struct region_chunk *last = region->chunk;
    while (last->next && last->next->size < least) {
        last = last->next;
    }
    if (!last->next && !(last->next = map_chunk(least, sizeof *last, region->options.flags))) {
        return false;
    }
    region->used_before = used(region);
    enter_chunk(region, last->next);
    return true;
}

// A chunk that cannot be unmapped (mappings may be short) stays, with nothing but its first page.
static void unmap_chunks_after(struct pw_region *region, struct region_chunk *last) {
    struct region_chunk **link = &last->next;
    while (*link) {
        struct region_chunk *chunk = *link, *next = chunk->next;
        size_t size = chunk->size;
        if (pw_os_unmap(chunk, size)) {
            region->returned_bytes += size;
            *link = next;
            continue;
        }
        if (pw_os_discard((char *)chunk + PW_PAGE, size - PW_PAGE)) {
            region->returned_bytes += size - PW_PAGE;
        }
        link = &chunk->next;
    }
}

// --- birth and death -----------------------------------------------------------------

struct pw_region *pw_region_new(const struct pw_heap_options *options) {
    static const struct pw_heap_options defaults;
    options = options ? options : &defaults;
    if (options->segment_bytes || (options->flags & PW_HEAP_CHECKED) ||
        !pw_options_make_sense(options)) {
        errno = EINVAL;
        return NULL;
    }
    if (!pw_os_pages_fit()) {
        errno = ENOSYS;
        return NULL;
    }
    struct region_chunk *chunk =
        map_chunk(SMALLEST_REGION, sizeof(struct pw_region), options->flags);
    if (!chunk) {
        return NULL;
    }
    struct pw_region *region = (struct pw_region *)chunk;
    region->options = *options;
    enter_chunk(region, chunk);
    return region;
}

void pw_region_delete(struct pw_region *region) {
    if (region) {
        unmap_chunks_after(region, &region->first);
        size_t size = region->first.size;
        if (!pw_os_unmap(region, size)) {
            pw_os_discard(region, size);
        }
    }
}

// --- allocation ------------------------------------------------------------------------

static bool within_limit(struct pw_region *region, size_t bytes) {
    const struct pw_heap_options *options = &region->options;
    while (options->limit_bytes &&
           (used(region) > options->limit_bytes || bytes > options->limit_bytes - used(region))) {
        if (!options->on_limit || !options->on_limit(NULL, bytes, options->context)) {
            return false;
        }
    }
    return true;
}

void *pw_region_aligned(struct pw_region *region, size_t alignment, size_t size) {
    if (alignment == 0 || (alignment & (alignment - 1)) || alignment > PW_LARGEST_ALIGNMENT) {
        errno = EINVAL;
        return NULL;
    }
    size_t rounded = pw_round_up(size ? size : 1, PW_NATURAL_ALIGNMENT);
    if (size > PW_LARGEST_BLOCK || !within_limit(region, rounded + alignment - 1)) {
        errno = ENOMEM;
        return NULL;
    }
    uintptr_t block = pw_round_up(region->next, alignment), end = end_of(region->chunk);
    if (block > end || rounded > end - block) {
        if (!next_chunk(region, rounded + alignment + PW_PAGE)) {
            return NULL;
        }
        block = pw_round_up(region->next, alignment);
    }
    region->next = block + rounded;
    set_end(region);
    return (void *)block;
}

void *pw_region_alloc(struct pw_region *region, size_t size) {
    size_t rounded = pw_round_up(size, PW_NATURAL_ALIGNMENT);
    if (size - 1 < PW_LARGEST_BLOCK && rounded <= region->end - region->next) {
        uintptr_t block = region->next;
        region->next = block + rounded;
        return (void *)block;
    }
    return pw_region_aligned(region, 1, size); // every block ends at a multiple of 16
}

void *pw_region_zalloc(struct pw_region *region, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = pw_region_alloc(region, bytes);
    return block ? memset(block, 0, bytes) : NULL;
}

// No block knows its size. What lies between it and the end of its chunk can be read at least, and
// the new block needs no more than its own size of it.
static size_t readable_from(const struct pw_region *region, uintptr_t block) {
    for (const struct region_chunk *chunk = &region->first; chunk; chunk = chunk->next) {
        if (block >= start_of(chunk) && block < end_of(chunk)) {
            return (chunk == region->chunk ? region->next : end_of(chunk)) - block;
        }
    }
    return 0;
}

void *pw_region_realloc(struct pw_region *region, void *block, size_t size) {
    size_t readable = block ? readable_from(region, (uintptr_t)block) : 0;
    void *moved = pw_region_alloc(region, size);
    if (moved && block) {
        memcpy(moved, block, readable < size ? readable : size);
    }
    return moved;
}

void pw_region_free(struct pw_region *region, void *block) {
    (void)region;
    (void)block;
}

size_t pw_region_usable_size(struct pw_region *region, const void *block) {
    (void)region;
    (void)block;
    return 0;
}

// --- the whole region ----------------------------------------------------------------------

static void return_memory(struct pw_region *region) {
    unmap_chunks_after(region, &region->first);
    uintptr_t first = start_of(&region->first), kept = region->options.keep_bytes;
    uintptr_t end = pw_round_up(
        region->chunk == &region->first ? region->next : end_of(&region->first), PW_PAGE);
    uintptr_t from = kept < end - first ? pw_round_up(first + kept, PW_PAGE) : end;
    if (from < end && pw_os_discard((void *)from, end - from)) {
        region->returned_bytes += end - from;
    }
}

bool pw_region_contains(const struct pw_region *region, const void *address) {
    return readable_from(region, (uintptr_t)address) > 0;
}

void pw_region_free_all(struct pw_region *region) {
    note_peak(region);
    if (region->options.flags & PW_HEAP_RETURN_EMPTY) {
        return_memory(region);
    }
    region->used_before = 0;
    region->transactions++;
    enter_chunk(region, &region->first);
}

void pw_region_set_limit(struct pw_region *region, size_t limit_bytes) {
    region->options.limit_bytes = limit_bytes;
    set_end(region);
}

void pw_region_statistics_read(struct pw_region *region, struct pw_heap_statistics *out) {
    note_peak(region);
    *out = (struct pw_heap_statistics){
        .live_bytes = used(region),
        .segment_bytes = used(region),
        .peak_segment_bytes = region->peak,
        .bookkeeping_bytes = region->first.head,
        .limit_bytes = region->options.limit_bytes,
        .transactions = region->transactions,
        .returned_bytes = region->returned_bytes,
    };
    for (const struct region_chunk *chunk = &region->first; chunk; chunk = chunk->next) {
        out->mapped_bytes += chunk->size;
    }
}
