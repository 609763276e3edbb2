// SPDX-License-Identifier: MIT
//
// malloc, calloc and free: what is given, and that it is given to one only.
#include "contract.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

// --- sizes and places ------------------------------------------------------------

static void every_size(void) {
    for (size_t size = 0; size <= 2 * PAGE; size++) {
        unsigned char *block = got(malloc(size), size);
        fill(block, size, size);
        CHECK(holds(block, size, size));
        free(block);
    }
}

static void around(size_t edge) {
    for (size_t size = edge ? edge - 1 : 0; size <= edge + 1; size++) {
        unsigned char *block = got(malloc(size), size);
        fill(block, size, edge);
        CHECK(holds(block, size, edge));
        free(block);
    }
}

static void sizes_around_edges(void) {
    for (size_t i = 0; i < edge_count; i++) {
        around(edges[i]);
    }
    around(16 * MEGABYTE);
    around(32 * MEGABYTE);
}

#define MANY 6000

static struct {
    unsigned char *data;
    size_t size;
} many[MANY];

static int by_address(const void *left, const void *right) {
    uintptr_t a = *(const uintptr_t *)left, b = *(const uintptr_t *)right;
    return a < b ? -1 : a > b;
}

// Sorted by address, each ends before the next begins.
static void check_apart(void) {
    qsort(many, MANY, sizeof *many, by_address);
    for (size_t i = 0; i < MANY; i++) {
        CHECK(i + 1 == MANY || many[i].data + many[i].size <= many[i + 1].data);
        CHECK(holds(many[i].data, many[i].size, (uintptr_t)many[i].data));
    }
}

static void get_one(size_t index, size_t size) {
    many[index].size = size;
    many[index].data = got(malloc(size), size);
    fill(many[index].data, size, (uintptr_t)many[index].data);
}

static void many_apart(void) {
    struct random random = {1};
    for (size_t i = 0; i < MANY; i++) {
        get_one(i, i % 500 == 7 ? 130 * KILOBYTE + i : random_below(&random, 3000));
    }
    check_apart();
    for (size_t i = 0; i < 3 * MANY; i++) {
        size_t chosen = random_below(&random, MANY);
        CHECK(holds(many[chosen].data, many[chosen].size, (uintptr_t)many[chosen].data));
        free(many[chosen].data);
        get_one(chosen, random_below(&random, 40) ? random_below(&random, 3000)
                                                  : random_below(&random, 200 * KILOBYTE));
    }
    check_apart();
    for (size_t i = 0; i < MANY; i++) {
        free(many[i].data);
    }
}

static void usable_apart(void) {
    for (size_t i = 0; i < MANY; i++) {
        size_t size = i % 600 == 5 ? 128 * KILOBYTE + 10 * i : i % 2000;
        many[i].data = got(malloc(size), size);
        many[i].size = malloc_usable_size(many[i].data);
        CHECK(many[i].size >= size);
        fill(many[i].data, many[i].size, (uintptr_t)many[i].data);
    }
    check_apart();
    for (size_t i = 0; i < MANY; i++) {
        free(many[i].data);
    }
}

static void many_large(void) {
    enum { LARGE = 1500 };
    static unsigned char *blocks[LARGE];
    for (size_t i = 0; i < LARGE; i++) {
        size_t size = 128 * KILOBYTE + i * 16;
        blocks[i] = got(malloc(size), size);
        memcpy(blocks[i], &i, sizeof i);
        memcpy(blocks[i] + size - sizeof i, &i, sizeof i);
    }
    for (size_t i = 0; i < LARGE; i++) {
        size_t size = 128 * KILOBYTE + i * 16;
        CHECK(memcmp(blocks[i], &i, sizeof i) == 0);
        CHECK(memcmp(blocks[i] + size - sizeof i, &i, sizeof i) == 0);
        free(blocks[i]);
    }
}

// --- no bytes ------------------------------------------------------------------------

static void no_bytes(void) {
    void *blocks[11] = {0}, *posix = NULL;
    CHECK(posix_memalign(&posix, 64, 0) == 0);
    blocks[0] = got(malloc(0), 0);
    blocks[1] = got(malloc(0), 0);
    blocks[2] = got(calloc(0, 8), 0);
    blocks[3] = got(calloc(SIZE_MAX, 0), 0);
    blocks[4] = got(realloc(NULL, 0), 0);
    blocks[5] = got(reallocarray(NULL, 0, 5), 0);
    blocks[6] = got_aligned(aligned_alloc(128, 0), 128, 0);
    blocks[7] = got_aligned(memalign(256, 0), 256, 0);
    blocks[8] = got_aligned(valloc(0), PAGE, 0);
    blocks[9] = got_aligned(pvalloc(0), PAGE, 0);
    blocks[10] = got_aligned(posix, 64, 0);
    for (unsigned i = 0; i < 11; i++) {
        for (unsigned k = 0; k < i; k++) {
            CHECK(blocks[i] != blocks[k]);
        }
    }
    for (unsigned i = 0; i < 11; i++) {
        blocks[i] = got(realloc(blocks[i], 300 * KILOBYTE), 300 * KILOBYTE);
        fill(blocks[i], 300 * KILOBYTE, i);
    }
    for (unsigned i = 0; i < 11; i++) {
        CHECK(holds(blocks[i], 300 * KILOBYTE, i));
        free(blocks[i]);
    }
}

static void free_of_null(void) {
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
}

// --- zeros ---------------------------------------------------------------------------

static void zero_after(size_t dirty, size_t size) {
    unsigned char *blocks[4];
    for (unsigned i = 0; i < 4; i++) {
        blocks[i] = got(malloc(dirty), dirty);
        memset(blocks[i], 0xa5, malloc_usable_size(blocks[i]));
    }
    for (unsigned i = 0; i < 4; i++) {
        free(blocks[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        blocks[i] = got(calloc(1, size), size);
        CHECK(is_all(blocks[i], size, 0));
        memset(blocks[i], 0x5a, malloc_usable_size(blocks[i]));
    }
    for (unsigned i = 0; i < 4; i++) {
        free(blocks[i]);
    }
}

static void calloc_is_zero(void) {
    for (size_t i = 0; i < edge_count && edges[i] <= 4 * MEGABYTE; i++) {
        size_t size = edges[i];
        zero_after(size, size);
        zero_after(size + 1, size);
        zero_after(size + 1, size ? size - 1 : 0);
        zero_after(2 * size, size);
        zero_after(size / 2, size);
    }
}

static void calloc_is_zero_random(void) {
    struct random random = {2};
    for (unsigned i = 0; i < 600; i++) {
        zero_after(random_size(&random), random_size(&random));
    }
}

static void calloc_large_is_zero(void) {
    zero_after(16 * MEGABYTE, 16 * MEGABYTE);
    zero_after(40 * MEGABYTE, 3 * MEGABYTE);
    zero_after(3 * MEGABYTE, 33 * MEGABYTE);
}

// Parts that are all zero may be given back and taken again: they must still be there.
static void calloc_after_zeros(void) {
    for (size_t size = 64 * KILOBYTE; size <= 8 * MEGABYTE; size *= 4) {
        unsigned char *block = got(calloc(size / 16, 16), size);
        memset(block + size / 4, 0xff, size / 4);
        memset(block, 0, size);
        CHECK(is_all(block, size, 0));
        block[size / 2] = 7;
        free(block);
        block = got(calloc(size / 4, 4), size);
        CHECK(is_all(block, size, 0));
        free(block);
    }
}

static void calloc_multiplies(void) {
    static const size_t counts[] = {1, 3, 7, 16, 255, 4096, 65537};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (size_t k = 0; k < 5; k++) {
            size_t size = counts[i] * counts[k];
            unsigned char *block = got(calloc(counts[i], counts[k]), size);
            CHECK(malloc_usable_size(block) >= size);
            CHECK(is_all(block, size, 0));
            fill(block, size, i);
            CHECK(holds(block, size, i));
            free(block);
        }
    }
}

// A copy between blocks, one of which was released: what the other has stays.
static void copies_are_copies(void) {
    for (size_t size = 32 * KILOBYTE; size <= 16 * MEGABYTE; size *= 4) {
        unsigned char *from = got(malloc(size), size), *to = got(malloc(size), size);
        fill(from, size, size);
        memcpy(to, from, size);
        memset(from + size / 3, 1, PAGE);
        CHECK(holds(to, size, size));
        to[size - 1] ^= 1;
        CHECK(holds(from, size / 3, size));
        free(from);
        to[size - 1] ^= 1;
        CHECK(holds(to, size, size));
        from = got(calloc(1, size), size);
        CHECK(is_all(from, size, 0));
        memmove(from, to, size);
        free(to);
        CHECK(holds(from, size, size));
        free(from);
    }
}

// One copy after the other into the same block, and on from there, part by part.
static void copied_over(void) {
    for (size_t size = 128 * KILOBYTE; size <= 4 * MEGABYTE; size *= 2) {
        unsigned char *blocks[4];
        for (unsigned i = 0; i < 4; i++) {
            blocks[i] = got(malloc(size), size);
            fill(blocks[i], size, i);
        }
        for (unsigned i = 0; i < 3; i++) {
            memcpy(blocks[3], blocks[i], size);
            CHECK(holds(blocks[3], size, i) && holds(blocks[i], size, i));
        }
        memcpy(blocks[1], blocks[3], size / 2);
        fill(blocks[3], size, 9);
        memcpy(blocks[0] + size / 2, blocks[3] + size / 2, size / 2);
        CHECK(holds(blocks[0], size / 2, 0) && holds(blocks[1], size / 2, 2));
        CHECK(holds(blocks[2], size, 2) && holds(blocks[3], size, 9));
        CHECK(memcmp(blocks[0] + size / 2, blocks[3] + size / 2, size / 2) == 0);
        for (unsigned i = 0; i < 4; i++) {
            free(blocks[i]);
        }
    }
}

static void reuse_keeps_neighbours(void) {
    enum { BLOCKS = 64 };
    unsigned char *blocks[BLOCKS];
    for (size_t size = 16; size <= MEGABYTE; size *= 4) {
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = got(malloc(size), size);
            fill(blocks[i], size, i);
        }
        for (size_t i = 0; i < BLOCKS; i += 2) {
            free(blocks[i]);
        }
        for (size_t i = 0; i < BLOCKS; i += 2) {
            blocks[i] = got(calloc(1, size), size);
            memset(blocks[i], 0xee, malloc_usable_size(blocks[i]));
        }
        for (size_t i = 1; i < BLOCKS; i += 2) {
            CHECK(holds(blocks[i], size, i));
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
        }
    }
}

// C23's ways to free. The C library may be older.
extern void free_sized(void *block, size_t size) __attribute__((weak));
extern void free_aligned_sized(void *block, size_t alignment, size_t size) __attribute__((weak));

static void freed_otherwise(void) {
    for (size_t size = 24; size <= 8 * MEGABYTE; size *= 3) {
        unsigned char *block = got(malloc(size), size);
        memset(block, 0xaa, size);
        free_sized ? free_sized(block, size) : free(block);
        block = got_aligned(aligned_alloc(64, (size + 63) & ~(size_t)63), 64, size);
        memset(block, 0xbb, size);
        free_aligned_sized ? free_aligned_sized(block, 64, (size + 63) & ~(size_t)63) : free(block);
        block = got(calloc(1, size), size);
        CHECK(is_all(block, size, 0));
        free(block);
    }
}

const struct promise allocation_promises[] = {
    {"every-size", "malloc gives every size to two pages, aligned for any object", every_size,
     UNSERVED},
    {"sizes-around-edges", "malloc gives what is asked, around every edge", sizes_around_edges, 0},
    {"many-apart", "no two live blocks overlap", many_apart, 0},
    {"usable-apart", "all that malloc_usable_size tells is the block's alone", usable_apart, 0},
    {"many-large", "many large blocks live at once", many_large, 0},
    {"no-bytes", "blocks of no bytes are distinct, and may grow", no_bytes, 0},
    {"freed-otherwise", "free_sized and free_aligned_sized free", freed_otherwise, 0},
    {"free-of-null", "free(NULL) does nothing; NULL has no usable bytes", free_of_null, UNSERVED},
    {"calloc-is-zero", "calloc reads zero where a dirty block was freed", calloc_is_zero, 0},
    {"calloc-is-zero-random", "so it does for any two sizes", calloc_is_zero_random, 0},
    {"calloc-large-is-zero", "so it does for blocks of many megabytes", calloc_large_is_zero, 0},
    {"calloc-after-zeros", "zeros that were written count as content", calloc_after_zeros, 0},
    {"calloc-multiplies", "calloc gives count times size", calloc_multiplies, 0},
    {"copies-are-copies", "a copy is its owner's alone, whatever becomes of the other",
     copies_are_copies, 0},
    {"copied-over", "copies over copies, of blocks and of parts", copied_over, 0},
    {"reuse-keeps-neighbours", "a block in a freed one's place leaves others as they are",
     reuse_keeps_neighbours, 0},
    {0},
};
