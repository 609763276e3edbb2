// SPDX-License-Identifier: MIT
//
// The bump region of section 4.1: chunks of 256 MB of address space, a pointer that goes up, and
// back to the start at free-all. Each chunk begins with the address of the next one.
#include "transaction/transaction.h"

#include <errno.h>
#include <string.h>

#define REGION_CHUNK    ((size_t)256 << 20)
#define SMALLEST_REGION ((size_t)1 << 20)

struct region_chunk {
    struct region_chunk *next;
    size_t size;
};

struct pw_region {
    uintptr_t next; // where the next block may begin
    uintptr_t end;  // of the chunk
    struct region_chunk *chunk;
    size_t used_before; // bytes of the chunks before it
    struct region_chunk first;
};

static uintptr_t start_of(const struct pw_region *region, const struct region_chunk *chunk) {
    size_t head = chunk == &region->first ? sizeof *region : sizeof *chunk;
    return pw_round_up((uintptr_t)(chunk == &region->first ? (const void *)region : chunk) + head,
                       PW_NATURAL_ALIGNMENT);
}

static uintptr_t end_of(const struct pw_region *region, const struct region_chunk *chunk) {
    return (chunk == &region->first ? (uintptr_t)region : (uintptr_t)chunk) + chunk->size;
}

// Address space of a chunk's size, or less where there is not that much, but `least`.
static void *map_chunk(size_t least, size_t *size) {
    for (*size = least > REGION_CHUNK ? pw_round_up(least, PW_PAGE) : REGION_CHUNK;; *size /= 2) {
        void *mapped = *size >= least ? pw_os_map_table(*size) : NULL;
        if (mapped || *size < least || *size / 2 < SMALLEST_REGION) {
            return mapped;
        }
    }
}

static void enter_chunk(struct pw_region *region, struct region_chunk *chunk) {
    region->chunk = chunk;
    region->next = start_of(region, chunk);
    region->end = end_of(region, chunk);
}

struct pw_region *pw_region_new(void) {
    size_t size;
    struct pw_region *region = map_chunk(SMALLEST_REGION, &size);
    if (!region) {
        errno = ENOMEM;
        return NULL;
    }
    region->first.size = size;
    enter_chunk(region, &region->first);
    return region;
}

void pw_region_delete(struct pw_region *region) {
    if (!region) {
        return;
    }
    for (struct region_chunk *chunk = region->first.next; chunk;) {
        struct region_chunk *next = chunk->next;
        pw_os_unmap(chunk, chunk->size);
        chunk = next;
    }
    pw_os_unmap(region, region->first.size);
}

// The next chunk that has room: one of an earlier transaction, or a new one behind all others.
static bool next_chunk(struct pw_region *region, size_t least) {
    region->used_before += region->next - start_of(region, region->chunk);
    struct region_chunk *chunk = region->chunk;
    while (chunk->next && chunk->next->size < least) {
        chunk = chunk->next;
    }
    if (!chunk->next) {
        size_t size;
        struct region_chunk *fresh = map_chunk(least, &size);
        if (!fresh) {
            region->used_before -= region->next - start_of(region, region->chunk);
            return false;
        }
        fresh->size = size;
        chunk->next = fresh;
    }
    enter_chunk(region, chunk->next);
    return true;
}

void *pw_region_aligned(struct pw_region *region, size_t alignment, size_t size) {
    if (alignment == 0 || (alignment & (alignment - 1)) || alignment > PW_LARGEST_ALIGNMENT) {
        errno = EINVAL;
        return NULL;
    }
    size_t rounded = pw_round_up(size ? size : 1, PW_NATURAL_ALIGNMENT);
    uintptr_t block = (region->next + alignment - 1) & ~(alignment - 1);
    if (size > PW_LARGEST_BLOCK || block > region->end || rounded > region->end - block) {
        if (size > PW_LARGEST_BLOCK ||
            !next_chunk(region, rounded + alignment + sizeof(struct region_chunk))) {
            errno = ENOMEM;
            return NULL;
        }
        block = (region->next + alignment - 1) & ~(alignment - 1);
    }
    region->next = block + rounded;
    return (void *)block;
}

void *pw_region_alloc(struct pw_region *region, size_t size) {
    size_t rounded = pw_round_up(size, PW_NATURAL_ALIGNMENT);
    if (size - 1 < PW_LARGEST_BLOCK && rounded <= region->end - region->next) {
        uintptr_t block = region->next;
        region->next = block + rounded;
        return (void *)block;
    }
    return pw_region_aligned(region, PW_NATURAL_ALIGNMENT, size);
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
        uintptr_t start = start_of(region, chunk), end = end_of(region, chunk);
        if (block >= start && block < end) {
            return (chunk == region->chunk ? region->next : end) - block;
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

void pw_region_free_all(struct pw_region *region) {
    enter_chunk(region, &region->first);
    region->used_before = 0;
}

uint64_t pw_region_used_bytes(const struct pw_region *region) {
    return region->used_before + (region->next - start_of(region, region->chunk));
}
