// SPDX-License-Identifier: MIT
//
// What is freed is used again, and given back in the end. All limits are loose: an allocator may
// keep some of it, for a while.
#include "contract.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOTAL (32 * MEGABYTE)

static size_t resident(void) {
    char line[100] = "";
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fgets(line, sizeof line, file));
    fclose(file);
    size_t all = 0, there = 0;
    CHECK(sscanf(line, "%zu %zu", &all, &there) == 2);
    return there * PAGE;
}

// What was free but not given back counts as resident, and would hide what is looked for.
static size_t resident_after_trim(void) {
    malloc_trim(0);
    return resident();
}

static void falls_below(size_t limit) {
    for (unsigned i = 0; i < 60; i++) {
        if (resident_after_trim() < limit) {
            return;
        }
        usleep(100000);
    }
    CHECK(resident_after_trim() < limit);
}

static void **take_all(size_t size) {
    size_t count = TOTAL / size;
    void **blocks = got(malloc(count * sizeof *blocks), count * sizeof *blocks);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = got(malloc(size), size);
        memset(blocks[i], 1, size);
    }
    return blocks;
}

static void free_all(void **blocks, size_t size) {
    for (size_t i = 0; i < TOTAL / size; i++) {
        free(blocks[i]);
    }
    free(blocks);
}

static void given_back(size_t size) {
    size_t before = resident_after_trim();
    void **blocks = take_all(size);
    CHECK(resident() > before + TOTAL / 2);
    free_all(blocks, size);
    falls_below(before + TOTAL / 2);
}

static void small_given_back(void) {
    given_back(64);
    given_back(1000);
}

static void middle_given_back(void) {
    given_back(10 * KILOBYTE);
    given_back(100 * KILOBYTE);
}

static void large_given_back(void) {
    given_back(MEGABYTE);
    given_back(16 * MEGABYTE);
}

static void used_again_of(size_t size) {
    size_t before = resident_after_trim(), highest = 0;
    for (unsigned i = 0; i < 6; i++) {
        void **blocks = take_all(size + i % 2 * 16);
        size_t now = resident();
        highest = now > highest ? now : highest;
        free_all(blocks, size + i % 2 * 16);
    }
    CHECK(highest < before + TOTAL * 5 / 2);
}

static void used_again(void) {
    used_again_of(100);
    used_again_of(5000);
    used_again_of(200 * KILOBYTE);
    used_again_of(5 * MEGABYTE);
}

// Not every size of its own.
static void used_for_other_sizes(void) {
    size_t before = resident_after_trim(), highest = 0;
    for (size_t size = 300 * KILOBYTE; size < 3 * MEGABYTE; size = size * 9 / 8) {
        void **blocks = take_all(size);
        size_t now = resident();
        highest = now > highest ? now : highest;
        free_all(blocks, size);
    }
    CHECK(highest < before + 3 * TOTAL);
}

static void *take_and_leave(void *unused) {
    void *blocks[400];
    for (unsigned i = 0; i < 400; i++) {
        blocks[i] = got(malloc(i * 13), i * 13);
        memset(blocks[i], 1, i * 13);
    }
    for (unsigned i = 0; i < 400; i++) {
        free(blocks[i]);
    }
    return unused;
}

static void ended_threads(void) {
    for (unsigned i = 0; i < 20; i++) {
        join(new_thread(take_and_leave, NULL));
    }
    size_t before = resident();
    for (unsigned i = 0; i < 600; i++) {
        join(new_thread(take_and_leave, NULL));
    }
    CHECK(resident() < before + 32 * MEGABYTE);
    free(got(malloc(MEGABYTE), MEGABYTE));
}

static void *free_theirs(void *block) {
    free(block);
    return NULL;
}

static void freed_by_others(void) {
    size_t before = resident_after_trim();
    for (unsigned i = 0; i < 150; i++) {
        void *block = got(malloc(2 * MEGABYTE), 2 * MEGABYTE);
        memset(block, 1, 2 * MEGABYTE);
        join(new_thread(free_theirs, block));
    }
    CHECK(resident() < before + 64 * MEGABYTE);
}

static void repeated_resizes(void) {
    size_t before = resident_after_trim();
    void *block = got(malloc(100), 100);
    for (unsigned i = 0; i < 300; i++) {
        size_t size = i % 2 ? 6 * MEGABYTE : 3 * MEGABYTE;
        block = got(realloc(block, size), size);
        memset(block, 1, size);
    }
    CHECK(resident() < before + 48 * MEGABYTE);
    free(block);
}

// A large block that was never written costs next to nothing.
static void untouched(void) {
    size_t before = resident_after_trim();
    void *blocks[6];
    for (unsigned i = 0; i < 6; i++) {
        blocks[i] = got(i % 2 ? malloc(TOTAL) : calloc(1, TOTAL), TOTAL);
    }
    CHECK(resident() < before + TOTAL);
    for (unsigned i = 0; i < 6; i++) {
        free(blocks[i]);
    }
}

static void break_moved(void) {
    void *blocks[100];
    for (unsigned i = 0; i < 100; i++) {
        blocks[i] = got(malloc(i * 500), i * 500);
        fill(blocks[i], i * 500, i);
        char *place = sbrk((intptr_t)PAGE);
        CHECK(place != (char *)-1);
        memset(place, 7, PAGE);
    }
    for (unsigned i = 0; i < 100; i++) {
        CHECK(holds(blocks[i], i * 500, i));
        free(blocks[i]);
    }
}

const struct promise memory_promises[] = {
    {"small-given-back", "memory of small blocks goes back", small_given_back, ALONE},
    {"middle-given-back", "and of middling ones", middle_given_back, ALONE | UNSERVED},
    {"large-given-back", "and of large ones", large_given_back, ALONE},
    {"used-again", "freed memory serves again", used_again, ALONE},
    {"used-for-other-sizes", "for other sizes too", used_for_other_sizes, ALONE},
    {"ended-threads", "threads that ended leave no memory behind", ended_threads, ALONE},
    {"freed-by-others", "nor do blocks that another thread frees", freed_by_others, ALONE},
    {"repeated-resizes", "nor does realloc, up and down", repeated_resizes, ALONE},
    {"untouched", "what was never written costs nothing", untouched, ALONE},
    {"break-moved", "a program may move its break", break_moved, ALONE | UNSERVED},
    {0},
};
