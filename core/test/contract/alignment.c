// SPDX-License-Identifier: MIT
//
// aligned_alloc, memalign, posix_memalign, valloc, pvalloc.
#include "contract.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_ALIGNMENT (32 * MEGABYTE)

static void *aligned_by(unsigned function, size_t alignment, size_t size) {
    void *block = NULL;
    switch (function) {
    case 0:
        return memalign(alignment, size);
    case 1:
        return aligned_alloc(alignment, size);
    default:
        CHECK(posix_memalign(&block, alignment, size) == 0);
        return block;
    }
}

static void check_filled(unsigned char *block, size_t size, uint64_t seed) {
    CHECK(malloc_usable_size(block) >= size);
    fill(block, size, seed);
    CHECK(holds(block, size, seed));
}

static void every_alignment(void) {
    for (size_t alignment = sizeof(void *); alignment <= LARGEST_ALIGNMENT; alignment *= 2) {
        for (unsigned i = 0; i < 3; i++) {
            for (size_t k = 0; k < edge_count && edges[k] <= MEGABYTE; k++) {
                size_t size = edges[k] + i;
                unsigned char *block = got_aligned(aligned_by(i, alignment, size), alignment, size);
                check_filled(block, size, k);
                free(block);
            }
        }
    }
}

static void every_small_size(void) {
    for (size_t alignment = 16; alignment <= 2 * PAGE; alignment *= 2) {
        for (size_t size = 1; size <= 9000; size += 1 + size / 64) {
            unsigned char *first = got_aligned(memalign(alignment, size), alignment, size);
            unsigned char *second = got_aligned(memalign(alignment, size), alignment, size);
            fill(first, size, 1);
            fill(second, size, 2);
            CHECK(holds(first, size, 1) && holds(second, size, 2));
            free(first);
            free(second);
        }
    }
}

static void multiples(void) {
    for (size_t alignment = 16; alignment <= MEGABYTE; alignment *= 2) {
        for (size_t times = 1; times <= 5; times++) {
            size_t size = alignment * times;
            unsigned char *block = got_aligned(aligned_alloc(alignment, size), alignment, size);
            check_filled(block, size, times);
            free(block);
        }
    }
}

static void small_alignments(void) {
    for (size_t alignment = 1; alignment <= 8; alignment *= 2) {
        for (size_t i = 0; i < edge_count; i++) {
            unsigned char *block = got(memalign(alignment, edges[i]), edges[i]);
            check_filled(block, edges[i], i);
            free(block);
        }
    }
}

// The C library takes the next power of two; aligned_alloc refuses since 2.38.
static void odd_alignments(void) {
    static const size_t odd[] = {3, 24, 48, 100, 1000, 5000, 70000};
    int minor = 0;
    CHECK(sscanf(gnu_get_libc_version(), "2.%d", &minor) == 1);
    bool refused = minor >= 38;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        for (size_t k = 1; k < edge_count && edges[k] <= MEGABYTE; k++) {
            size_t power = LEAST;
            while (power < odd[i]) {
                power *= 2;
            }
            void *block = memalign(odd[i], edges[k]);
            CHECK(block && (uintptr_t)block % power == 0);
            check_filled(block, edges[k], k);
            free(block);
            errno = 0;
            block = aligned_alloc(odd[i], edges[k]);
            CHECK(refused ? !block && errno == EINVAL : block && (uintptr_t)block % power == 0);
            free(block);
        }
    }
}

static void many_aligned(void) {
    enum { BLOCKS = 300 };
    static struct held blocks[BLOCKS];
    struct random random = {4};
    for (unsigned round = 0; round < 12; round++) {
        for (unsigned i = round % 3; i < BLOCKS; i += 1 + round % 2) {
            if (blocks[i].data) {
                CHECK(holds(blocks[i].data, blocks[i].size, i));
            }
            free(blocks[i].data);
            size_t alignment = (size_t)16 << random_below(&random, 14), size = 0;
            size = random_below(&random, 8) ? random_below(&random, 3000) : random_size(&random);
            blocks[i].size = size;
            blocks[i].data = got_aligned(
                aligned_by((unsigned)random_below(&random, 3), alignment, size), alignment, size);
            fill(blocks[i].data, size, i);
        }
    }
    free_held(blocks, BLOCKS);
}

static void pages(void) {
    for (size_t i = 0; i < edge_count; i++) {
        size_t size = edges[i] + 1, rounded = (size + PAGE - 1) / PAGE * PAGE;
        unsigned char *block = got_aligned(valloc(size), PAGE, size);
        check_filled(block, size, 1);
        free(block);
        block = got_aligned(pvalloc(size), PAGE, size);
        CHECK(malloc_usable_size(block) >= rounded);
        check_filled(block, rounded, 2);
        free(block);
    }
}

// realloc gives the alignment of malloc, and the content.
static void resized_aligned(void) {
    for (size_t alignment = 32; alignment <= 4 * MEGABYTE; alignment *= 4) {
        for (size_t i = 1; i < edge_count && edges[i] <= 4 * MEGABYTE; i++) {
            size_t size = edges[i];
            void *block = got_aligned(memalign(alignment, size), alignment, size);
            fill(block, size, i);
            block = got(realloc(block, size * 2 + 3), size * 2 + 3);
            CHECK(holds(block, size, i));
            block = got(realloc(block, size / 2 + 1), size / 2 + 1);
            CHECK(holds(block, size / 2 + 1, i));
            free(block);
        }
    }
}

static void freed_aligned_is_dirty(void) {
    for (size_t alignment = 64; alignment <= MEGABYTE; alignment *= 4) {
        for (size_t i = 1; i < edge_count && edges[i] <= MEGABYTE; i++) {
            unsigned char *block = got_aligned(memalign(alignment, edges[i]), alignment, edges[i]);
            memset(block, 0xdd, malloc_usable_size(block));
            free(block);
            block = got(calloc(edges[i], 1), edges[i]);
            CHECK(is_all(block, edges[i], 0));
            free(block);
        }
    }
}

const struct promise alignment_promises[] = {
    {"every-alignment", "blocks are aligned as asked, up to 32 MB", every_alignment, 0},
    {"every-small-size", "and for every small size, two at a time", every_small_size, UNSERVED},
    {"multiples", "aligned_alloc of multiples, as C17 has it", multiples, UNSERVED},
    {"small-alignments", "alignments below malloc's are served", small_alignments, 0},
    {"odd-alignments", "alignments that are no power of two: rounded up, or EINVAL", odd_alignments,
     UNSERVED},
    {"many-aligned", "many aligned blocks live apart", many_aligned, 0},
    {"pages", "valloc gives pages, pvalloc whole ones", pages, 0},
    {"resized-aligned", "aligned blocks are resized like others", resized_aligned, 0},
    {"freed-aligned-is-dirty", "calloc is zero in the place of an aligned block",
     freed_aligned_is_dirty, 0},
    {0},
};
