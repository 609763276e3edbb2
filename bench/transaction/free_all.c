// SPDX-License-Identifier: MIT
//
// Free-all against freeing one by one: free_all [ROUNDS]
// A million live blocks of 16 to 128 bytes, written. Prints the lowest and the median time in
// nanoseconds of: free-all of a transaction heap; pw_heap_free of each block; free of each block of
// the C library's malloc.
#include <pagewise_heap.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BLOCKS 1000000
#define MOST   1001

static void *blocks[BLOCKS];

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static size_t size_of(uint32_t number) {
    return 16 + number * 2654435761u % 113;
}

static int compare(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static void print(const char *name, uint64_t *times, int rounds) {
    qsort(times, (size_t)rounds, sizeof *times, compare);
    printf("%s %lu %lu\n", name, times[0], times[rounds / 2]);
}

int main(int argc, char **argv) {
    static uint64_t all[MOST], each[MOST], library[MOST];
    int rounds = argc > 1 && atoi(argv[1]) > 0 && atoi(argv[1]) < MOST ? atoi(argv[1]) : 11;
    struct pw_heap *heap = pw_heap_new(NULL);
    if (!heap) {
        return 1;
    }
    for (int round = 0; round < rounds; round++) {
        for (int with = 0; with < 3; with++) {
            for (uint32_t i = 0; i < BLOCKS; i++) {
                blocks[i] = with == 2 ? malloc(size_of(i)) : pw_heap_alloc_inline(heap, size_of(i));
                *(uint64_t *)blocks[i] = i;
            }
            uint64_t start = now_ns();
            for (uint32_t i = 0; with == 1 && i < BLOCKS; i++) {
                pw_heap_free_inline(heap, blocks[i]);
            }
            for (uint32_t i = 0; with == 2 && i < BLOCKS; i++) {
                free(blocks[i]);
            }
            if (with == 0) {
                pw_heap_free_all(heap);
            }
            (with == 0 ? all : with == 1 ? each : library)[round] = now_ns() - start;
            pw_heap_free_all(heap);
        }
    }
    print("free-all", all, rounds);
    print("pw_heap_free", each, rounds);
    print("free", library, rounds);
    return 0;
}
