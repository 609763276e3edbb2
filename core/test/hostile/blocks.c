// SPDX-License-Identifier: MIT
//
// The malloc family, and what it promises.
#include "hostile.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

extern void *__libc_realloc(void *block, size_t size); // what a module calls that is not hooked

static size_t some_size(const struct block *place) {
    size_t size = place->smallest + random_below(&world.random, place->room - place->smallest + 1);
    if (random_chance(&world.random, 2)) { // mostly nearer to the smallest
        size = place->smallest + (size - place->smallest) / 4;
    }
    if (size > PAGE && random_chance(&world.random, 4)) {
        size &= ~(PAGE - 1);
    }
    return size;
}

static unsigned char *obtained(void *got, size_t size, size_t alignment) {
    if (!got) {
        fail("no memory for %zu bytes (errno %d)", size, errno);
    }
    if ((uintptr_t)got % alignment != 0) {
        fail("%zu bytes at %p are not at a multiple of %zu", size, got, alignment);
    }
    return got;
}

static void allocate(void) {
    struct block *place = some_place();
    size_t size = some_size(place);
    adopt(place, obtained(malloc(size), size, 16), size);
    say("malloc of %zu bytes at %p", size, (void *)place->data);
    settle(place, 0, size);
}

static void allocate_small(void) {
    struct block *place = &world.blocks[random_below(&world.random, 64)];
    if (place->data) {
        release(place);
    }
    size_t size =
        1 + random_below(&world.random, random_chance(&world.random, 4) ? place->room : 200);
    adopt(place, obtained(malloc(size), size, 16), size);
    say("malloc of %zu bytes at %p", size, (void *)place->data);
    fill(place, 0, size);
}

static void allocate_zeroed(void) {
    struct block *place = some_place();
    size_t size = some_size(place), count = 1;
    while (size % (count * 2) == 0 && random_chance(&world.random, 2)) {
        count *= 2;
    }
    adopt(place, obtained(calloc(count, size / count), size, 16), size);
    say("calloc of %zu bytes at %p", size, (void *)place->data);
    plain_fill(place->shadow, 0, size);
    check(place);
}

static void allocate_aligned(void) {
    static const size_t alignments[] = {8,    16,   32,   64,      256,   1024,
                                        PAGE, PAGE, PAGE, 16 * KB, 2 * MB};
    struct block *place = some_place();
    size_t size = some_size(place), alignment = alignments[random_below(&world.random, 11)];
    void *got = NULL;
    switch (random_below(&world.random, 4)) {
    case 0:
        got = aligned_alloc(alignment, size);
        break;
    case 1:
        got = memalign(alignment, size);
        break;
    case 2:
        got = alignment == PAGE ? valloc(size) : memalign(alignment, size);
        break;
    default:
        if (posix_memalign(&got, alignment, size) != 0) {
            got = NULL;
        }
    }
    adopt(place, obtained(got, size, alignment), size);
    say("%zu bytes at a multiple of %zu: %p", size, alignment, (void *)place->data);
    settle(place, 0, size);
}

static void release_one(void) {
    struct block *block = some_block();
    if (block) {
        errno = 4711;
        release(block);
        if (errno != 4711) {
            fail("free changed errno to %d", errno);
        }
    }
}

// As at the end of a garbage collection: many at once, and then the next request.
static void release_many(void) {
    for (int i = 0; i < 24; i++) {
        release_one();
    }
}

static void after_resize(struct block *block, unsigned char *data, size_t size, size_t checked) {
    size_t old = block->size;
    adopt(block, data, size);
    size_t kept = old < size ? old : size;
    if (checked || kept <= 64 * KB) {
        check_range(block, 0, kept);
    } else {
        block->size = kept;
        check_some(block);
        block->size = size;
    }
    if (size > old) {
        settle(block, old, size - old);
    }
}

static size_t new_size(const struct block *block) {
    size_t old = block->size, size;
    switch (random_below(&world.random, 4)) {
    case 0: // a little more or less
        size = old - old / 16 + random_below(&world.random, old / 8 + 2);
        break;
    case 1: // as growing buffers
        size = old * 2;
        break;
    case 2:
        size = old / 4 + random_below(&world.random, old + 1);
        break;
    default:
        size = some_size(block);
    }
    size = size < block->room ? size : block->room;
    return size ? size : 1;
}

static void resize(void) {
    struct block *block = some_block();
    if (!block) {
        return;
    }
    if (block->raced) {
        threads_yield_block(block);
    }
    mark_undo(block);
    size_t size = new_size(block), old = block->size;
    void *got = random_chance(&world.random, 3) ? reallocarray(block->data, 1, size)
                                                : realloc(block->data, size);
    say("realloc of %zu bytes at %p to %zu: %p", old, (void *)block->data, size, got);
    after_resize(block, obtained(got, size, 16), size, random_chance(&world.random, 8));
}

// A module that is not hooked makes a block smaller, or larger.
static void resize_unhooked(void) {
    struct block *block = some_block_of(PAGE);
    if (!block || !world.unhooked_allowed || block->raced) {
        return;
    }
    mark_undo(block);
    size_t size = new_size(block), old = block->size;
    void *got = __libc_realloc(block->data, size);
    say("__libc_realloc of %zu bytes at %p to %zu: %p", old, (void *)block->data, size, got);
    after_resize(block, obtained(got, size, 16), size, true);
}

// All of a block may be used, once its size was asked for.
static void use_all(void) {
    struct block *block = some_block();
    if (!block || block->raced) {
        return;
    }
    size_t usable = malloc_usable_size(block->data), old = block->size;
    if (usable < old) {
        fail("malloc_usable_size says %zu for a block of %zu", usable, old);
    }
    usable = usable < block->room ? usable : block->room;
    if (usable > old) {
        say("all %zu bytes of %zu at %p are used", usable, old, (void *)block->data);
        block->size = usable;
        must_be_apart(block);
        settle(block, old, usable - old);
    }
}

static void refused(void *got, const char *what) {
    if (got) {
        fail("%s gave %p", what, got);
    }
    if (errno != ENOMEM) {
        fail("%s set errno to %d", what, errno);
    }
}

static void contract(void) {
    void *got = NULL;
    void *volatile none = NULL;
    volatile size_t too_much = (size_t)PTRDIFF_MAX + 1, half = SIZE_MAX / 2;
    struct block *block = some_block();
    errno = 0;
    switch (random_below(&world.random, 8)) {
    case 0:
        refused(malloc(too_much), "malloc of too much");
        break;
    case 1:
        refused(calloc(half, 3), "calloc of too much");
        break;
    case 2:
        if (block && !block->raced && !block->mark.kind) {
            refused(realloc(block->data, too_much), "realloc to too much");
            check_some(block);
        }
        break;
    case 3:
        if (block && !block->raced && !block->mark.kind) {
            refused(reallocarray(block->data, half, 3), "reallocarray to too much");
            check_some(block);
        }
        break;
    case 4:
        free(none);
        got = malloc(0);
        obtained(got, 0, 16);
        free(got);
        break;
    case 5:
        if (posix_memalign(&got, 24, 100) != EINVAL || posix_memalign(&got, 2, 100) != EINVAL) {
            fail("posix_memalign took an alignment that is none");
        }
        break;
    case 6:
        got = realloc(none, 300 * KB);
        obtained(got, 300 * KB, 16);
        if (realloc(got, 0)) {
            fail("realloc to 0 bytes returned a block");
        }
        break;
    default:
        if (malloc_usable_size(none) != 0) {
            fail("malloc_usable_size of NULL is not 0");
        }
    }
}

static void trim(void) {
    malloc_trim(0);
}

// What a garbage collector does at its start and its end, with nothing in between.
static void collect(void) {
    struct rusage usage;
    for (int i = 0; i < 3; i++) {
        getrusage(RUSAGE_SELF, &usage);
    }
}

// Long enough for memory that lies idle to be given back.
static void idle(void) {
    usleep(200000 + (useconds_t)random_below(&world.random, 1300000));
}

const struct operation block_operations[] = {
    {"malloc", allocate, 18000, ANYWHERE},
    {"malloc-small", allocate_small, 90000, ANYWHERE},
    {"calloc", allocate_zeroed, 6000, ANYWHERE},
    {"aligned", allocate_aligned, 6000, ANYWHERE},
    {"free", release_one, 25000, ANYWHERE},
    {"free-many", release_many, 300, ANYWHERE},
    {"realloc", resize, 20000, ANYWHERE},
    {"unhooked", resize_unhooked, 2000, ANYWHERE},
    {"usable", use_all, 6000, ANYWHERE},
    {"contract", contract, 3000, ANYWHERE},
    {"trim", trim, 200, ANYWHERE},
    {"collect", collect, 2500, ANYWHERE},
    {"idle", idle, 2, ANYWHERE | NO_MALLOC},
    {0},
};
