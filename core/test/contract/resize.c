// SPDX-License-Identifier: MIT
//
// realloc, reallocarray and malloc_usable_size: what was there stays there.
#include "contract.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static size_t least(size_t left, size_t right) {
    return left < right ? left : right;
}

static void *resized(void *block, size_t from, size_t to, uint64_t seed) {
    CHECK(holds(block, from, seed));
    block = got(realloc(block, to), to);
    CHECK(holds(block, least(from, to), seed));
    CHECK(malloc_usable_size(block) >= to);
    fill(block, to, seed + 1);
    CHECK(holds(block, to, seed + 1));
    return block;
}

static void from_to(size_t from, size_t to) {
    if (from > 0 && to > 0) {
        void *block = got(malloc(from), from);
        fill(block, from, from + to);
        free(resized(block, from, to, from + to));
    }
}

// From around each edge to around each other one.
static void across_edges(size_t lowest, size_t highest, size_t step) {
    for (size_t i = 1; i < edge_count && edges[i] <= highest; i++) {
        for (size_t k = 1; k < edge_count && edges[k] <= highest; k++) {
            bool is_of_these = edges[i] >= lowest || edges[k] >= lowest;
            for (size_t off = 0; is_of_these && off < 9; off += step) {
                from_to(edges[i] + off % 3 - 1, edges[k] + off / 3 - 1);
            }
        }
    }
}

static void across_small_edges(void) {
    across_edges(0, 256 * KILOBYTE, 1);
}

static void across_large_edges(void) {
    across_edges(512 * KILOBYTE, 2 * MEGABYTE, 4);
}

static void up_and_down(void) {
    static const size_t sizes[] = {10,
                                   5 * MEGABYTE,
                                   200,
                                   33 * MEGABYTE,
                                   32 * MEGABYTE,
                                   130 * KILOBYTE,
                                   17 * MEGABYTE,
                                   9 * KILOBYTE,
                                   64 * MEGABYTE,
                                   1};
    void *block = got(malloc(1), 1);
    size_t from = 1;
    fill(block, 1, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        block = resized(block, from, sizes[i], i);
        from = sizes[i];
    }
    free(block);
}

static void grow_by(size_t step, size_t end) {
    unsigned char *block = got(malloc(1), 1);
    void *beside = NULL;
    size_t size = 1;
    fill(block, size, 1);
    while (size < end) {
        size_t next = size + step;
        block = got(realloc(block, next), next);
        CHECK(holds(block, least(size, PAGE), 1));
        CHECK(holds(block, size, 1) || size > 300 * KILOBYTE);
        fill(block, next, 1);
        if (size / 3 % 2) { // something in the way
            free(beside);
            beside = malloc(size);
        }
        size = next;
    }
    CHECK(holds(block, size, 1));
    free(beside);
    free(block);
}

static void growth(void) {
    grow_by(1, 3000);
    grow_by(777, 200 * KILOBYTE);
    grow_by(99 * KILOBYTE, 6 * MEGABYTE);
}

static void doubling(void) {
    struct {
        unsigned char *data;
        size_t size;
    } rows[8];
    for (unsigned i = 0; i < 8; i++) {
        rows[i].size = i + 1;
        rows[i].data = got(malloc(i + 1), i + 1);
        fill(rows[i].data, i + 1, i);
    }
    for (unsigned round = 0; round < 19; round++) {
        for (unsigned i = 0; i < 8; i++) {
            size_t next = rows[i].size * 2;
            rows[i].data = got(realloc(rows[i].data, next), next);
            CHECK(holds(rows[i].data, rows[i].size, i));
            fill(rows[i].data, next, i);
            rows[i].size = next;
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        CHECK(holds(rows[i].data, rows[i].size, i));
        free(rows[i].data);
    }
}

static void shrinking(void) {
    for (size_t size = 9 * MEGABYTE; size > 16; size = size * 2 / 3) {
        void *block = got(malloc(size), size);
        fill(block, size, size);
        for (size_t less = size; less > 1; less = less * 3 / 5) {
            block = got(realloc(block, less), less);
            CHECK(holds(block, less, size));
        }
        free(block);
    }
}

static void same_size(void) {
    for (size_t i = 1; i < edge_count; i++) {
        void *block = got(malloc(edges[i]), edges[i]);
        fill(block, edges[i], i);
        for (unsigned k = 0; k < 3; k++) {
            block = got(realloc(block, edges[i]), edges[i]);
            CHECK(holds(block, edges[i], i));
        }
        free(block);
    }
}

static void random_resizes(void) {
    enum { BLOCKS = 60 };
    static struct held blocks[BLOCKS];
    struct random random = {6};
    for (unsigned i = 0; i < 20000; i++) {
        unsigned chosen = (unsigned)random_below(&random, BLOCKS);
        size_t size = random_size(&random) + 1;
        if (size > 100 * KILOBYTE && random_below(&random, 4)) {
            continue;
        }
        void *block = got(realloc(blocks[chosen].data, size), size);
        if (blocks[chosen].data) {
            CHECK(holds(block, least(size, blocks[chosen].size), chosen));
        }
        fill(block, size, chosen);
        blocks[chosen].data = block;
        blocks[chosen].size = size;
    }
    free_held(blocks, BLOCKS);
}

static void of_null(void) {
    for (size_t i = 0; i < edge_count; i++) {
        void *block = got(realloc(NULL, edges[i]), edges[i]);
        void *array = got(reallocarray(NULL, edges[i], 1), edges[i]);
        fill(block, edges[i], 1);
        fill(array, edges[i], 2);
        CHECK(holds(block, edges[i], 1));
        free(array);
        free(block);
    }
}

static void arrays(void) {
    static const size_t counts[] = {1, 10, 1000, 3, 100000, 65536, 20};
    void *block = NULL;
    size_t held = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        size_t size = counts[i] * 24;
        block = got(reallocarray(block, counts[i], 24), size);
        CHECK(holds(block, least(held, size), 4));
        fill(block, size, 4);
        held = size;
    }
    CHECK(!reallocarray(block, 0, 24));
}

// The program may write all that it is told is there; and then it is content.
static void usable_is_kept(void) {
    for (size_t i = 0; i < edge_count; i++) {
        for (size_t size = edges[i] ? edges[i] - 1 : 0; size <= edges[i] + 1; size++) {
            void *block = got(malloc(size), size);
            size_t usable = malloc_usable_size(block);
            CHECK(usable >= size);
            fill(block, usable, size);
            CHECK(malloc_usable_size(block) == usable);
            block = got(realloc(block, usable + 100 + usable / 2), usable + 100 + usable / 2);
            CHECK(holds(block, usable, size));
            block = got(realloc(block, usable + 1), usable + 1);
            CHECK(holds(block, usable, size));
            free(block);
        }
    }
}

static void usable_after_all(void) {
    for (size_t i = 1; i < edge_count; i++) {
        void *zeroed = got(calloc(1, edges[i]), edges[i]);
        void *aligned = got_aligned(memalign(256, edges[i]), 256, edges[i]);
        void *page = got_aligned(valloc(edges[i]), PAGE, edges[i]);
        zeroed = got(realloc(zeroed, edges[i] + 1), edges[i] + 1);
        void *blocks[] = {zeroed, aligned, page};
        for (uint64_t k = 0; k < 3; k++) {
            fill(blocks[k], malloc_usable_size(blocks[k]), k);
        }
        for (uint64_t k = 0; k < 3; k++) {
            CHECK(holds(blocks[k], malloc_usable_size(blocks[k]), k));
            free(blocks[k]);
        }
    }
}

// A block that shares pages with its copy is resized; neither sees what becomes of the other.
static void resized_copies(void) {
    for (size_t size = 64 * KILOBYTE; size <= 8 * MEGABYTE; size *= 2) {
        void *from = got(malloc(size), size), *to = got(malloc(size), size);
        fill(from, size, 8);
        memcpy(to, from, size);
        from = got(realloc(from, 2 * size), 2 * size);
        fill(from, 2 * size, 9);
        CHECK(holds(to, size, 8));
        to = got(realloc(to, 3 * size), 3 * size);
        CHECK(holds(to, size, 8) && holds(from, 2 * size, 9));
        to = got(realloc(to, size / 3), size / 3);
        CHECK(holds(to, size / 3, 8));
        fill(to, size / 3, 7);
        CHECK(holds(from, 2 * size, 9));
        free(from);
        CHECK(holds(to, size / 3, 7));
        free(to);
    }
}

const struct promise resize_promises[] = {
    {"across-small-edges", "realloc keeps content from any size to any other", across_small_edges,
     0},
    {"across-large-edges", "and across the edges of mapped blocks", across_large_edges, 0},
    {"up-and-down", "and up to 64 MB and down again", up_and_down, 0},
    {"growth", "a block that grows step by step keeps its content", growth, 0},
    {"doubling", "blocks that double in turn do", doubling, 0},
    {"shrinking", "a block that shrinks keeps what remains", shrinking, 0},
    {"same-size", "realloc to the same size keeps all", same_size, 0},
    {"random-resizes", "random resizes keep content", random_resizes, 0},
    {"resize-of-null", "realloc(NULL, n) is malloc(n)", of_null, 0},
    {"arrays", "reallocarray is realloc of count times size", arrays, 0},
    {"usable-is-kept", "all usable bytes are writable, and kept by realloc", usable_is_kept, 0},
    {"usable-after-all", "and so for every function that gives blocks", usable_after_all, 0},
    {"resized-copies", "resizing a copy leaves its source, and the reverse", resized_copies, 0},
    {0},
};
