// SPDX-License-Identifier: MIT
//
// The plain heap: DDmalloc (section 3.2 of its paper) with lazy carving: blocks that were never
// used are not linked anywhere, a class knows where they begin and end.
#include "transaction/transaction.h"

#include <errno.h>
#include <string.h>

#define CACHE_LINE   ((size_t)64)
#define FIRST_CHUNKS 64u // entries of the table that comes with the heap
#define MAPPING_BYTES                                                                              \
    ((sizeof(struct pw_heap_whole) + FIRST_CHUNKS * sizeof(void *) + 2 * PW_PAGE - 1) &            \
     ~(PW_PAGE - 1))

// --- birth and death -------------------------------------------------------------

static size_t class_size(unsigned number) {
    if (number == 0) {
        return 8;
    }
    if (number <= 8) {
        return (size_t)16 * number;
    }
    if (number <= 20) {
        return 128 + (size_t)32 * (number - 8);
    }
    if (number < PW_HEAP_EVEN_CLASSES) {
        return (size_t)1024 << (number - 21);
    }
    static const uint16_t packed[PW_HEAP_CLASSES - PW_HEAP_EVEN_CLASSES] = {
        24, 40, 56, 72, 88, 104, 120, 640, 768, 896, 1280, 1536, 1792, 2560, 3072, 3584};
    return packed[number - PW_HEAP_EVEN_CLASSES];
}

bool pw_options_make_sense(const struct pw_heap_options *options) {
    size_t segment = options->segment_bytes;
    bool known_flags =
        !(options->flags & ~(PW_HEAP_HUGE_PAGES | PW_HEAP_RETURN_EMPTY | PW_HEAP_CHECKED));
    for (size_t i = 0; i < sizeof options->reserved / sizeof *options->reserved; i++) {
        known_flags = known_flags && options->reserved[i] == 0;
    }
    return known_flags &&
           (segment == 0 || (segment >= PW_SMALLEST_SEGMENT && segment <= PW_LARGEST_SEGMENT &&
                             (segment & (segment - 1)) == 0));
}

static void forget_classes(struct pw_heap *heap) {
    for (unsigned i = 0; i < PW_HEAP_CLASSES; i++) {
        heap->classes[i].free = NULL;
        heap->classes[i].fresh = 1;
        heap->classes[i].last = 0;
    }
}

// Heaps of several processes and threads do the same at the same time: their tables begin at
// different cache sets (section 3.3, first optimization; the paper's offset is the process's number
// alone).
static size_t staggered(const char *mapping) {
    size_t places = PW_PAGE / CACHE_LINE;
    return ((size_t)pw_os_pid() * 7 + ((uintptr_t)mapping >> PW_PAGE_SHIFT) * 5) % places *
           CACHE_LINE;
}

struct pw_heap_whole *pw_plain_new(const struct pw_heap_options *options) {
    char *mapping = pw_os_map_table(MAPPING_BYTES);
    if (!mapping) {
        return NULL;
    }
    struct pw_heap_whole *heap = (struct pw_heap_whole *)(mapping + staggered(mapping));
    heap->mapping = mapping;
    heap->mapping_bytes = MAPPING_BYTES;
    heap->options = *options;
    size_t segment = options->segment_bytes ? options->segment_bytes : PW_DEFAULT_SEGMENT;
    heap->segment_shift = (unsigned)__builtin_ctzl(segment);
    heap->chunk_segments = (unsigned)(PW_HEAP_CHUNK >> heap->segment_shift);
    heap->largest_small = segment / 2;
    heap->transaction = 1;
    heap->chunks = (struct pw_chunk **)(heap + 1);
    heap->chunk_capacity = FIRST_CHUNKS;
    for (unsigned i = 0; i < PW_HEAP_CLASSES; i++) {
        heap->hot.classes[i].size = class_size(i);
    }
    forget_classes(&heap->hot);
    heap->resorts = &pw_plain_resorts;
    return heap;
}

void pw_plain_delete(struct pw_heap_whole *heap) {
    pw_giants_unmap(heap);
    pw_chunks_unmap(heap);
    pw_os_unmap(heap->mapping, heap->mapping_bytes);
}

// --- allocation --------------------------------------------------------------------

// The class has neither a freed nor a fresh block: give it a segment, and its first block to the
// caller.
static void *take_segment(struct pw_heap_whole *heap, unsigned class_number) {
    size_t size = pw_segment_size(heap);
    while (!pw_limit_allows(heap, size)) {
        if (!pw_limit_asks(heap, size)) {
            return NULL;
        }
        // The program's function may have freed blocks of this class, or taken the segment itself.
        void *block = pw_heap_take(&heap->hot.classes[class_number]);
        if (block) {
            return block;
        }
    }
    bool zero;
    char *segment = pw_segments_take(heap, 1, size, &zero);
    if (!segment) { // a checked heap may have let go of blocks that it held back
        return pw_heap_take(&heap->hot.classes[class_number]);
    }
    memset(pw_heap_class_note(segment), (int)class_number, size >> PW_HEAP_GRANULE_SHIFT);
    struct pw_heap_class *of = &heap->hot.classes[class_number];
    of->fresh = (uintptr_t)segment + of->size;
    of->last = (uintptr_t)segment + size - of->size;
    return segment;
}

void *pw_plain_alloc_small(struct pw_heap_whole *heap, unsigned class_number) {
    void *block = pw_heap_take(&heap->hot.classes[class_number]);
    block = block ? block : take_segment(heap, class_number);
    if (!block) {
        errno = ENOMEM;
    }
    return block;
}

void *pw_plain_alloc(struct pw_heap_whole *heap, size_t size, bool *zero) {
    *zero = false;
    if (size <= heap->largest_small) {
        return pw_plain_alloc_small(heap, pw_class_of(size));
    }
    void *block = pw_large_take(heap, size, PW_NATURAL_ALIGNMENT, zero);
    if (!block) {
        errno = ENOMEM;
    }
    return block;
}

void *pw_plain_zalloc(struct pw_heap_whole *heap, size_t size) {
    bool zero;
    void *block = pw_plain_alloc(heap, size, &zero);
    if (block && !zero) {
        memset(block, 0, size);
    }
    return block;
}

// Blocks of a class lie at multiples of its size from a multiple of the segment's size on: where
// the alignment divides the class's size, every block is aligned. 0: no class will do.
static size_t aligned_small_size(const struct pw_heap_whole *heap, size_t alignment, size_t size) {
    size_t at_least = size > alignment ? size : alignment;
    if (at_least > heap->largest_small) {
        return 0;
    }
    for (unsigned i = pw_class_of(at_least); i < PW_HEAP_EVEN_CLASSES; i++) {
        size_t of_class = heap->hot.classes[i].size;
        if (of_class % alignment == 0) {
            return of_class <= heap->largest_small ? of_class : 0;
        }
    }
    return 0;
}

void *pw_plain_aligned(struct pw_heap_whole *heap, size_t alignment, size_t size) {
    bool zero;
    size_t small = aligned_small_size(heap, alignment, size);
    if (small) {
        return pw_plain_alloc(heap, small, &zero);
    }
    void *block = pw_large_take(heap, size, alignment, &zero);
    if (!block) {
        errno = ENOMEM;
    }
    return block;
}

// --- free and realloc -----------------------------------------------------------------

void pw_plain_free(struct pw_heap_whole *heap, void *block) {
    unsigned class_number = *pw_heap_class_note(block);
    if (class_number < PW_HEAP_CLASSES) {
        pw_heap_put(&heap->hot.classes[class_number], block);
    } else {
        pw_large_release(heap, block);
    }
}

size_t pw_plain_usable_size(const struct pw_heap_whole *heap, const void *block) {
    unsigned class_number = *pw_heap_class_note(block);
    return class_number < PW_HEAP_CLASSES ? heap->hot.classes[class_number].size
                                          : pw_large_size(heap, block);
}

// May the block stay where it is? A small one while it fits, and needs more than half of it.
static bool resize_in_place(struct pw_heap_whole *heap, void *block, size_t size) {
    unsigned class_number = *pw_heap_class_note(block);
    if (class_number >= PW_HEAP_CLASSES) {
        return pw_large_resize(heap, block, size);
    }
    size_t usable = heap->hot.classes[class_number].size;
    return size <= usable && (size > usable / 2 || usable <= PW_NATURAL_ALIGNMENT);
}

// A block of a plain heap for one that has grown out of its place.
static void *allocate_growing(struct pw_heap_whole *heap, size_t size) {
    if (size <= heap->largest_small) {
        return pw_plain_alloc_small(heap, pw_class_of(size));
    }
    void *block = pw_large_take_growing(heap, size);
    if (!block) {
        errno = ENOMEM;
    }
    return block;
}

// A smaller place for it, or its own: a block that shrinks needs no memory. The limit's function is
// not asked.
static void *shrink(struct pw_heap_whole *heap, void *block, size_t size) {
    int saved = errno;
    heap->asks_nobody = true;
    bool zero;
    void *moved = pw_plain_alloc(heap, size, &zero);
    heap->asks_nobody = false;
    if (moved) {
        memcpy(moved, block, size);
        pw_plain_free(heap, block);
        return moved;
    }
    errno = saved;
    if (*pw_heap_class_note(block) >= PW_HEAP_CLASSES) {
        pw_large_trim(heap, block, size);
    }
    return block;
}

void *pw_plain_realloc(struct pw_heap_whole *heap, void *block, size_t size) {
    if (resize_in_place(heap, block, size)) {
        return block;
    }
    size_t usable = pw_plain_usable_size(heap, block);
    if (size <= usable) {
        return shrink(heap, block, size);
    }
    void *moved = pw_giant_grow(heap, block, size);
    if (moved) {
        return moved;
    }
    moved = allocate_growing(heap, size);
    if (!moved) {
        return NULL;
    }
    memcpy(moved, block, usable);
    pw_plain_free(heap, block);
    return moved;
}

// --- the whole heap ------------------------------------------------------------------

void pw_plain_free_all(struct pw_heap_whole *heap) {
    forget_classes(&heap->hot);
    if (heap->giants) {
        pw_giants_free_all(heap);
    }
    heap->transaction++; // and so every chunk's tables are out of date: chunk.c
    if (heap->idle_giants) {
        pw_giants_age(heap);
    }
    pw_chunks_return(heap);
    heap->segment_bytes = 0;
    heap->first_with_room = heap->chunks_used = 0;
    memset(heap->no_runs, 0, sizeof heap->no_runs);
}
