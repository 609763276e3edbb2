// SPDX-License-Identifier: MIT
//
// Stores, copies and fills.
#include "hostile.h"

#include <stdlib.h>
#include <string.h>

static void write_bytes(void) {
    struct block *block = some_block();
    if (block) {
        size_t from = random_below(&world.random, block->size), rest = block->size - from;
        size_t size = 1 + random_below(&world.random, rest < 64 ? rest : 64);
        if (may_write(block, from, size)) {
            fill(block, from, size);
        }
    }
}

static void read_bytes(void) {
    struct block *block = some_block();
    if (block) {
        size_t from = random_below(&world.random, block->size), rest = block->size - from;
        check_range(block, from, rest < 100 ? rest : 100);
    }
}

// Scattered stores, which leave a shared block dirty here and there.
static void write_scattered(void) {
    struct block *block = some_block();
    for (int i = 0; block && i < 8; i++) {
        size_t at = random_below(&world.random, block->size);
        if (may_write(block, at, 1)) {
            block->data[at] = block->shadow[at] = (unsigned char)random_next(&world.random);
        }
    }
}

static void write_range(void) {
    struct block *block = some_block();
    size_t from = 0, size = block ? some_range(block, &from) : 0;
    if (size && may_write(block, from, size)) {
        say("%zu+%zu of %zu bytes at %p are filled", from, size, block->size, (void *)block->data);
        fill(block, from, size);
    }
}

static void set_bytes(struct block *block, int value, size_t from, size_t size) {
    if (may_write(block, from, size)) {
        say("memset to %d of %zu+%zu of %zu bytes at %p", value, from, size, block->size,
            (void *)block->data);
        plain_fill(block->shadow + from, value, size);
        if (memset(block->data + from, value, size) != block->data + from) {
            fail("memset returned something else");
        }
    }
}

static void set_range(void) {
    struct block *block = some_block();
    size_t from = 0, size = block ? some_range(block, &from) : 0;
    int value = random_chance(&world.random, 3) ? (int)random_below(&world.random, 256) : 0;
    if (size) {
        set_bytes(block, value, from, size);
    }
}

static void set_whole(void) {
    struct block *block = some_block();
    if (block) {
        set_bytes(block, 0, 0, block->size);
    }
}

// --- copies ------------------------------------------------------------------------------

typedef void *copy_function(void *, const void *, size_t);

static void copy(struct block *to, size_t to_at, struct block *from, size_t from_at, size_t size) {
    bool moves = to == from || random_chance(&world.random, 2);
    copy_function *function = moves ? memmove : memcpy;
    if (!may_write(to, to_at, size) || !may_read(from, from_at, size)) {
        return;
    }
    say("%s of %zu bytes from %zu of %zu at %p to %zu of %zu at %p", moves ? "memmove" : "memcpy",
        size, from_at, from->size, (void *)from->data, to_at, to->size, (void *)to->data);
    struct race_time time = {0};
    if (from->raced) {
        time = race_begins(from);
    }
    if (function(to->data + to_at, from->data + from_at, size) != to->data + to_at) {
        fail("a copy returned something else");
    }
    if (to == from) {
        memmove(to->shadow + to_at, from->shadow + from_at, size); // none of the manager's memory
    } else {
        plain_copy(to->shadow + to_at, from->shadow + from_at, size);
    }
    if (from->raced) {
        race_copied(to, to_at, from, from_at, size, &time);
    }
    report->copies++;
    size_t edge = size < 3 * PAGE ? size : 3 * PAGE;
    check_range(to, to_at, edge);
    check_range(to, to_at + size - edge, edge);
    size_t before = to_at < 64 ? to_at : 64, after = to->size - to_at - size;
    check_range(to, to_at - before, before);
    check_range(to, to_at + size, after < 64 ? after : 64);
    if (size <= 32 * KB || random_chance(&world.random, 8)) {
        check(to);
        check(from);
    }
}

static void copy_whole(void) {
    struct block *from = some_block(), *to = some_block();
    if (from && random_chance(&world.random, 2)) { // to one of its own kind
        to = &world.blocks[(from - world.blocks + 1) % PLACES];
    }
    if (from && to && to->data && to != from) {
        copy(to, 0, from, 0, from->size < to->size ? from->size : to->size);
    }
}

void copy_to_another(struct block *from) {
    struct block *to = place_like(from);
    if (!to || !may_read(from, 0, from->size)) {
        return;
    }
    void *data = malloc(from->size);
    if (!data) {
        fail("no memory for a copy of %zu bytes", from->size);
    }
    adopt(to, data, from->size);
    copy(to, 0, from, 0, from->size);
}

// As a modified argument: a new block of the same size, copied and written.
static void duplicate(void) {
    struct block *from = some_block();
    if (from) {
        copy_to_another(from);
        write_bytes();
    }
}

// Any bytes to anywhere; half of the time so that pages lie on pages.
static void copy_part(void) {
    struct block *from = some_block(), *to = some_block();
    if (!from || !to || from == to) {
        return;
    }
    size_t from_at = random_below(&world.random, from->size);
    size_t to_at = random_below(&world.random, to->size);
    if (random_chance(&world.random, 2)) {
        size_t place = ((uintptr_t)from->data + from_at) % PAGE;
        size_t shift = (place - ((uintptr_t)to->data + to_at)) & (PAGE - 1);
        to_at += to_at + shift < to->size ? shift : 0;
    }
    size_t most = from->size - from_at;
    most = to->size - to_at < most ? to->size - to_at : most;
    copy(to, to_at, from, from_at,
         random_chance(&world.random, 2) ? most : 1 + random_below(&world.random, most));
}

static void copy_overlapping(void) {
    struct block *block = some_block();
    if (block) {
        size_t one = random_below(&world.random, block->size);
        size_t other = random_below(&world.random, block->size);
        if (random_chance(&world.random, 2)) {
            one &= ~(PAGE - 1), other &= ~(PAGE - 1);
        }
        copy(block, one, block, other, block->size - (one > other ? one : other));
    }
}

// Keep many versions of one block, as a program that takes a copy at each step.
static void versions(void) {
    struct block *from = some_block_of(32 * KB);
    for (int i = 0; from && i < 5; i++) {
        struct block *to = place_like(from);
        if (!to || !may_read(from, 0, from->size)) {
            return;
        }
        void *data = malloc(from->size);
        if (!data) {
            fail("no memory for a copy of %zu bytes", from->size);
        }
        adopt(to, data, from->size);
        copy(to, 0, from, 0, from->size);
        size_t at = random_below(&world.random, from->size);
        if (may_write(from, at, 1)) {
            from->data[at] = from->shadow[at] = (unsigned char)i;
        }
        from = random_chance(&world.random, 2) ? to : from;
    }
}

static void check_one(void) {
    struct block *block = some_block();
    if (block) {
        check(block);
    }
}

const struct operation copy_operations[] = {
    {"write", write_bytes, 380000, ANYWHERE | NO_MALLOC},
    {"read", read_bytes, 260000, ANYWHERE | NO_MALLOC},
    {"scatter", write_scattered, 30000, ANYWHERE | NO_MALLOC},
    {"write-range", write_range, 8000, ANYWHERE | NO_MALLOC},
    {"memset", set_range, 6000, ANYWHERE | NO_MALLOC},
    {"memset-whole", set_whole, 2500, ANYWHERE | NO_MALLOC},
    {"copy", copy_whole, 24000, ANYWHERE | NO_MALLOC},
    {"duplicate", duplicate, 14000, ANYWHERE},
    {"copy-part", copy_part, 20000, ANYWHERE | NO_MALLOC},
    {"copy-overlapping", copy_overlapping, 3000, ANYWHERE | NO_MALLOC},
    {"versions", versions, 1500, ANYWHERE},
    {"check", check_one, 8000, ANYWHERE | NO_MALLOC},
    {"check-all", check_all, 60, ANYWHERE | NO_MALLOC},
    {0},
};
