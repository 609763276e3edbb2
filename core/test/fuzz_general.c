// SPDX-License-Identifier: MIT
//
// libFuzzer on sequences of operations of the general room, with an arena of its own and a model
// beside it: fuzz_general [libFuzzer's options] [CORPUS...]
#include "general/general.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS 4096

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static struct pw_stats stats;
static struct pw_arena arena;
static struct pw_general general;
static struct {
    unsigned char *data;
    unsigned class_number;
    unsigned char mark;
} blocks[BLOCKS];

static struct pw_extent *take(void *context, uint32_t pages) {
    (void)context;
    struct pw_extent *extent = pw_arena_take_warm(&arena, pages);
    extent = extent ? extent : pw_arena_take_cold(&arena, pages, 0);
    if (extent) {
        pw_arena_use(&arena, extent);
        extent->state = PW_EXTENT_SEGMENT;
        arena.live_pages += extent->pages;
    }
    return extent;
}

static void release(void *context, struct pw_extent *extent, uint32_t absent) {
    (void)context;
    MUST(absent <= extent->pages);
    arena.live_pages -= extent->pages;
    pw_arena_release(&arena, extent, PW_EXTENT_WARM);
}

static void drop(void *context, void *block) {
    (void)context;
    MUST(!block); // the shelf is not opened
}

static void thread_began(void *context) {
    (void)context;
}

static void misuse(void *context) {
    (void)context;
    abort(); // the model makes no mistakes
}

static void allocate(unsigned at, unsigned class_number, unsigned char mark) {
    if (blocks[at].data) {
        return;
    }
    void *block = pw_cache_pop(class_number);
    block = block ? block : pw_cache_refill(&general, class_number);
    MUST(block && (uintptr_t)block % 16 == 0);
    blocks[at].data = memset(block, mark, pw_class_size(class_number));
    blocks[at].class_number = class_number;
    blocks[at].mark = mark;
}

static void free_block(unsigned at) {
    unsigned char *data = blocks[at].data;
    if (!data) {
        return;
    }
    unsigned class_number = blocks[at].class_number;
    for (size_t i = 0; i < pw_class_size(class_number); i++) {
        MUST(data[i] == blocks[at].mark);
    }
    uintptr_t offset = (uintptr_t)data - (uintptr_t)arena.base;
    MUST(pw_general_class_at(general.classes, offset) == class_number + 1);
    if (!pw_cache_push(class_number, data)) {
        pw_cache_flush(&general, class_number, data);
    }
    blocks[at].data = NULL;
}

static void step(unsigned char operation, unsigned char one, unsigned char two) {
    unsigned at = (one | (unsigned)two << 8) % BLOCKS;
    unsigned class_number = operation % PW_GENERAL_CLASSES;
    switch (operation >> 5) {
    case 0:
    case 1: // a few of a class
        for (unsigned i = 0; i < 1 + two % 32u; i++) {
            allocate((one * 16u + i) % BLOCKS, class_number, (unsigned char)(one + i));
        }
        break;
    case 2:
        for (unsigned i = 0; i < 1 + operation % 32u; i++) {
            free_block((at + i) % BLOCKS);
        }
        break;
    case 3: // every second one
        for (unsigned i = 0; i < 64; i += 2) {
            free_block((at + i) % BLOCKS);
        }
        break;
    case 4:
        allocate(at, class_number, one);
        break;
    case 5:
        pw_general_look(&general);
        break;
    case 6:
        if (operation & 1) {
            pw_general_trim(&general);
        } else {
            pw_arena_purge(&arena, arena.warm_pages);
        }
        break;
    default: // the thread ends, and another one begins
        pw_cache_end(&general);
        pw_general_thread.ended = operation & 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void looked(void *context) {
    (void)context;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct pw_general_host host = {take,         release, drop, looked,
                                                thread_began, misuse,  NULL};
    if (!arena.base) {
        pw_stats_start(&stats);
        MUST(pw_arena_start(&arena, &stats, 1));
        MUST(pw_general_start(&general, &arena, &stats, &host));
    }
    for (size_t i = 0; i + 2 < size; i += 3) {
        step(data[i], data[i + 1], data[i + 2]);
    }
    for (unsigned at = 0; at < BLOCKS; at++) {
        free_block(at);
    }
    pw_general_thread.ended = false;
    pw_general_trim(&general);
    struct pw_general_usage usage;
    pw_general_usage(&general, &usage);
    MUST(usage.block_bytes == 0 && usage.segment_bytes == 0 && arena.live_pages == 0);
    return 0;
}
