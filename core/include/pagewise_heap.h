// SPDX-License-Identifier: MIT
//
// The transaction heap's hot paths, to be compiled into the caller: the functions of pagewise.h
// with the suffix _inline, which do the same. Include this where calls are frequent and their cost
// matters, and link against libpagewise as usual: everything that is not hot is called there.
//
// What a program sees here of struct pw_heap is part of the library's binary interface: it stays as
// it is for as long as the library is called libpagewise.so.0. Touch it through these functions
// only.
#ifndef PAGEWISE_HEAP_H
#define PAGEWISE_HEAP_H

#include "pagewise.h"

#ifdef __cplusplus
extern "C" {
#endif

// Size classes (DDmalloc, section 3.2, with 16 bytes for its 8 from 16 on): 8, then every 16 up to
// 128, every 32 up to 512, then powers of two up to half the largest segment: 29 classes. The
// others are for pw_heap_alloc_packed alone: every 8 up to 128, and four to a doubling from 512 to
// 3584.
#define PW_HEAP_CLASSES      45u
#define PW_HEAP_EVEN_CLASSES 29u
// Sizes up to this one find their class in a table.
#define PW_HEAP_TABLE_BYTES 1024u
// The same for packed blocks.
#define PW_HEAP_PACKED_BYTES 3584u
// Chunks are what a heap takes from the kernel: as large as they are aligned. Where a block is
// tells where its chunk begins, and there lies the class of each of its granules, one byte for
// each.
#define PW_HEAP_CHUNK_SHIFT   22
#define PW_HEAP_GRANULE_SHIFT 14
#define PW_HEAP_CHUNK         ((uintptr_t)1 << PW_HEAP_CHUNK_SHIFT)

#if defined(__GNUC__)
#define PW_HEAP_LIKELY(condition) __builtin_expect(!!(condition), 1)
// To be written; any address will do, NULL as well.
#define PW_HEAP_PREFETCH(address) __builtin_prefetch(address, 1)
#else
#define PW_HEAP_LIKELY(condition) (condition)
#define PW_HEAP_PREFETCH(address) ((void)(address))
#endif

// A free block holds the address of the next one, whatever type its bytes had before.
typedef void *__attribute__((may_alias)) pw_heap_link;

struct pw_heap_class {
    void *free;      // freed blocks: the last one first
    uintptr_t fresh; // next place in the segment that never was a block since the segment was taken
    uintptr_t last;  // last place for a block there; below `fresh` when there is none
    size_t size;     // of the blocks
};

struct pw_heap {
    // Frees of addresses up to this one take the slow path: of NULL alone where it is 0, of all
    // blocks where it is UINTPTR_MAX (PW_HEAP_CHECKED).
    uintptr_t slow_below;
    struct pw_heap_class classes[PW_HEAP_CLASSES];
};

PW_API void *pw_heap_alloc_slow(struct pw_heap *heap, size_t size);
PW_API void pw_heap_free_slow(struct pw_heap *heap, void *block);

// The class of each size up to PW_HEAP_TABLE_BYTES, by steps of 8.
#define PW_HEAP_4(c) c, c, c, c
#define PW_HEAP_64(c)                                                                              \
    PW_HEAP_4(c), PW_HEAP_4(c), PW_HEAP_4(c), PW_HEAP_4(c), PW_HEAP_4(c), PW_HEAP_4(c),            \
        PW_HEAP_4(c), PW_HEAP_4(c), PW_HEAP_4(c), PW_HEAP_4(c), PW_HEAP_4(c), PW_HEAP_4(c),        \
        PW_HEAP_4(c), PW_HEAP_4(c), PW_HEAP_4(c), PW_HEAP_4(c)
static const uint8_t pw_heap_class_table[PW_HEAP_TABLE_BYTES / 8 + 1] = {
    0,
    0,
    1,
    2,
    2,
    3,
    3,
    4,
    4,
    5,
    5,
    6,
    6,
    7,
    7,
    8,
    8,
    PW_HEAP_4(9),
    PW_HEAP_4(10),
    PW_HEAP_4(11),
    PW_HEAP_4(12),
    PW_HEAP_4(13),
    PW_HEAP_4(14),
    PW_HEAP_4(15),
    PW_HEAP_4(16),
    PW_HEAP_4(17),
    PW_HEAP_4(18),
    PW_HEAP_4(19),
    PW_HEAP_4(20),
    PW_HEAP_64(21),
};
// The same for packed blocks, up to PW_HEAP_PACKED_BYTES.
#define PW_HEAP_16(c) PW_HEAP_4(c), PW_HEAP_4(c), PW_HEAP_4(c), PW_HEAP_4(c)
#define PW_HEAP_32(c) PW_HEAP_16(c), PW_HEAP_16(c)
static const uint8_t pw_heap_packed_table[PW_HEAP_PACKED_BYTES / 8 + 1] = {
    0,
    0,
    1,
    29,
    2,
    30,
    3,
    31,
    4,
    32,
    5,
    33,
    6,
    34,
    7,
    35,
    8,
    PW_HEAP_4(9),
    PW_HEAP_4(10),
    PW_HEAP_4(11),
    PW_HEAP_4(12),
    PW_HEAP_4(13),
    PW_HEAP_4(14),
    PW_HEAP_4(15),
    PW_HEAP_4(16),
    PW_HEAP_4(17),
    PW_HEAP_4(18),
    PW_HEAP_4(19),
    PW_HEAP_4(20),
    PW_HEAP_16(36),
    PW_HEAP_16(37),
    PW_HEAP_16(38),
    PW_HEAP_16(21),
    PW_HEAP_32(39),
    PW_HEAP_32(40),
    PW_HEAP_32(41),
    PW_HEAP_32(22),
    PW_HEAP_64(42),
    PW_HEAP_64(43),
    PW_HEAP_64(44),
};
#undef PW_HEAP_4
#undef PW_HEAP_16
#undef PW_HEAP_32
#undef PW_HEAP_64

// Where the class of the granule at `address` is noted. The low bits of the chunk's number choose
// among sixteen places, so that the notes of neighbouring chunks do not share a cache set
// (section 3.3, first optimization): that is one mask, not a step more.
static inline uint8_t *pw_heap_class_note(const void *address) {
    uintptr_t at = (uintptr_t)address;
    return (uint8_t *)((at & ~(PW_HEAP_CHUNK - 1)) + (at >> PW_HEAP_GRANULE_SHIFT & 0xfff));
}

// The block after this one will be the next of its size, and is seldom in the nearest cache when it
// was freed long ago or never used: it is on its way while the program fills this one.
static inline void *pw_heap_take(struct pw_heap_class *from) {
    void *block = from->free;
    if (PW_HEAP_LIKELY(block != NULL)) {
        void *next = *(pw_heap_link *)block;
        from->free = next;
        PW_HEAP_PREFETCH(next);
        return block;
    }
    uintptr_t fresh = from->fresh;
    if (PW_HEAP_LIKELY(fresh <= from->last)) {
        from->fresh = fresh + from->size;
        PW_HEAP_PREFETCH((void *)(fresh + 2 * from->size));
        return (void *)fresh;
    }
    return NULL;
}

static inline void pw_heap_put(struct pw_heap_class *to, void *block) {
    *(pw_heap_link *)block = to->free;
    to->free = block;
}

static inline void *pw_heap_alloc_inline(struct pw_heap *heap, size_t size) {
    if (PW_HEAP_LIKELY(size <= PW_HEAP_TABLE_BYTES)) {
        void *block = pw_heap_take(&heap->classes[pw_heap_class_table[(size + 7) >> 3]]);
        if (PW_HEAP_LIKELY(block != NULL)) {
            return block;
        }
    }
    return pw_heap_alloc_slow(heap, size);
}

static inline void *pw_heap_alloc_packed_inline(struct pw_heap *heap, size_t size) {
    if (PW_HEAP_LIKELY(size <= PW_HEAP_PACKED_BYTES)) {
        void *block = pw_heap_take(&heap->classes[pw_heap_packed_table[(size + 7) >> 3]]);
        if (PW_HEAP_LIKELY(block != NULL)) {
            return block;
        }
    }
    return pw_heap_alloc_packed(heap, size);
}

static inline void pw_heap_free_inline(struct pw_heap *heap, void *block) {
    if (PW_HEAP_LIKELY((uintptr_t)block > heap->slow_below)) {
        unsigned class_number = *pw_heap_class_note(block);
        if (PW_HEAP_LIKELY(class_number < PW_HEAP_CLASSES)) {
            pw_heap_put(&heap->classes[class_number], block);
            return;
        }
    }
    pw_heap_free_slow(heap, block);
}

// The size is what pw_heap_alloc or pw_heap_zalloc was asked for. Not for blocks of other
// functions.
static inline void pw_heap_free_sized_inline(struct pw_heap *heap, void *block, size_t size) {
    if (PW_HEAP_LIKELY(size <= PW_HEAP_TABLE_BYTES && (uintptr_t)block > heap->slow_below)) {
        pw_heap_put(&heap->classes[pw_heap_class_table[(size + 7) >> 3]], block);
        return;
    }
    pw_heap_free_inline(heap, block);
}

#ifdef __cplusplus
}
#endif

#endif
