// SPDX-License-Identifier: MIT
//
// Blocks and what must be in them. The shadow lies in memory that comes straight from the kernel,
// and is written by instructions, so that no memory manager has a hand in it.
#include "hostile.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

struct world world = {.may_allocate = true, .may_load = true};

#define SAMPLE (3 * PAGE)

// --- memory that is nobody's -----------------------------------------------------------

long raw_call(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#else
#error "no system calls known for this processor"
#endif
}

unsigned char *raw_memory(size_t size, bool shared) {
    long flags = MAP_ANONYMOUS | MAP_NORESERVE | (shared ? MAP_SHARED : MAP_PRIVATE);
    long got = raw_call(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (got < 0 && got > -4096) {
        abort();
    }
    return (unsigned char *)got;
}

void plain_copy(void *to, const void *from, size_t size) {
#if defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size)::"memory");
#else
    unsigned char *target = to;
    for (const unsigned char *source = from; size > 0; size--) {
        *target++ = *source++;
        __asm__ volatile("" ::: "memory");
    }
#endif
}

void plain_fill(void *to, int value, size_t size) {
#if defined(__x86_64__)
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(value) : "memory");
#else
    for (unsigned char *target = to; size > 0; size--) {
        *target++ = (unsigned char)value;
        __asm__ volatile("" ::: "memory");
    }
#endif
}

// --- places ------------------------------------------------------------------------------

// How many places for blocks of which sizes: enough large ones to be copied, and few enough that a
// step stays cheap.
static const struct {
    unsigned places;
    size_t smallest, room;
} kinds[] = {
    {64, 1, 4 * KB},   {40, 8 * KB, 64 * KB}, {16, 64 * KB, 256 * KB},
    {6, 256 * KB, MB}, {2, 3 * MB, 9 * MB},
};

#define LARGEST 2 // places of the last kind: used by one seed in four, at half of the steps' speed

void model_start(void) {
    unsigned place = 0;
    world.has_largest = world.seed % 4 == 0;
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        for (unsigned i = 0; i < kinds[kind].places; i++) {
            world.blocks[place++] = (struct block){
                .shadow = raw_memory(kinds[kind].room, false),
                .smallest = kinds[kind].smallest,
                .room = kinds[kind].room,
            };
        }
    }
}

struct block *some_block(void) {
    unsigned from = (unsigned)random_below(&world.random, PLACES);
    for (unsigned i = 0; i < 12; i++) {
        struct block *block = &world.blocks[(from + i) % PLACES];
        if (block->data) {
            return block;
        }
    }
    return NULL;
}

struct block *some_block_of(size_t smallest) {
    unsigned from = (unsigned)random_below(&world.random, PLACES);
    for (unsigned i = 0; i < PLACES; i++) {
        struct block *block = &world.blocks[(from + i) % PLACES];
        if (block->data && block->size >= smallest) {
            return block;
        }
    }
    return NULL;
}

// The large ones are seldom asked for: they cost as much as all others.
struct block *some_place(void) {
    unsigned place = (unsigned)random_below(&world.random, PLACES);
    if (place >= PLACES - LARGEST &&
        (world.has_largest ? !random_chance(&world.random, 3) : true)) {
        place -= 64;
    }
    struct block *block = &world.blocks[place];
    if (block->data) {
        release(block);
    }
    return block;
}

struct block *place_like(const struct block *block) {
    unsigned from = (unsigned)random_below(&world.random, PLACES);
    for (unsigned i = 0; i < PLACES; i++) {
        struct block *other = &world.blocks[(from + i) % PLACES];
        if (other != block && other->room == block->room) {
            if (other->data) {
                release(other);
            }
            return other;
        }
    }
    return NULL;
}

size_t some_range(const struct block *block, size_t *from) {
    *from = random_below(&world.random, block->size);
    size_t rest = block->size - *from;
    return random_chance(&world.random, 2) ? rest : 1 + random_below(&world.random, rest);
}

bool some_pages(const struct block *block, size_t *from, size_t *size) {
    size_t lead = -(uintptr_t)block->data & (PAGE - 1);
    size_t pages = block->size > lead ? (block->size - lead) / PAGE : 0;
    if (pages == 0) {
        return false;
    }
    size_t first = random_below(&world.random, pages), most = pages - first;
    size_t count = random_chance(&world.random, 3) ? most : 1 + random_below(&world.random, most);
    if (random_chance(&world.random, 6)) {
        first = 0, count = pages;
    }
    *from = lead + first * PAGE;
    *size = count * PAGE;
    return true;
}

// --- contents ----------------------------------------------------------------------------

static bool overlaps(const struct mark *mark, size_t from, size_t size) {
    return mark->from < from + size && from < mark->from + mark->size;
}

bool may_write(const struct block *block, size_t from, size_t size) {
    enum mark_kind kind = block->mark.kind;
    bool shut = kind == MARK_READ_ONLY || kind == MARK_NO_ACCESS || kind == MARK_KEYED;
    return !(shut && overlaps(&block->mark, from, size)) &&
           !(block->raced && is_raced_range(block, from, size));
}

bool may_read(const struct block *block, size_t from, size_t size) {
    return !(block->mark.kind == MARK_NO_ACCESS && overlaps(&block->mark, from, size));
}

void fill(struct block *block, size_t from, size_t size) {
    typedef uint64_t __attribute__((may_alias, aligned(1))) word;
    uint64_t value = random_next(&world.random);
    unsigned char *shadow = block->shadow + from, *data = block->data + from;
    size_t at = 0;
    for (; at + sizeof(word) <= size; at += sizeof(word)) {
        *(word *)(shadow + at) = *(volatile word *)(data + at) = value;
        value += 0x9e3779b97f4a7c15u;
    }
    for (; at < size; at++) {
        shadow[at] = *(volatile unsigned char *)(data + at) = (unsigned char)(value >> at % 8 * 8);
    }
}

void settle(struct block *block, size_t from, size_t size) {
    switch (random_below(&world.random, 5)) {
    case 0:
        plain_copy(block->shadow + from, block->data + from, size); // as it was found
        break;
    case 1:
        plain_fill(block->shadow + from, 0, size);
        memset(block->data + from, 0, size);
        break;
    default:
        fill(block, from, size);
        break;
    }
}

void must_be_apart(const struct block *block) {
    for (unsigned i = 0; i < PLACES; i++) {
        const struct block *other = &world.blocks[i];
        if (other != block && other->data && block->data < other->data + other->size &&
            other->data < block->data + block->size) {
            fail("a new block of %zu bytes at %p lies in one of %zu at %p", block->size,
                 (void *)block->data, other->size, (void *)other->data);
        }
    }
}

void adopt(struct block *block, unsigned char *data, size_t size) {
    block->data = data;
    block->size = size;
    block->mark = (struct mark){0};
    block->raced = false;
    must_be_apart(block);
}

// Is the block a mapping of its own, by the C library's header? Where blocks have none, the larger
// ones are.
static bool stands_alone(const struct block *block) {
    size_t lead = (uintptr_t)block->data % PAGE;
    return block->size >= MAPPED_SIZE &&
           ((lead == 16 && ((const size_t *)block->data)[-1] & 2) || (lead == 0 && !world.headers));
}

// What was done to the pages of a block that is not a mapping of its own must be undone before it
// is freed; of others, nothing is left.
void release(struct block *block) {
    if (block->raced) {
        threads_yield_block(block);
    }
    check_some(block);
    bool leave = stands_alone(block) && random_chance(&world.random, 2);
    if (!leave) {
        mark_undo(block);
    }
    say("free of %zu bytes at %p%s", block->size, (void *)block->data,
        block->mark.kind ? " as it is" : "");
    if (world.may_allocate) {
        free(block->data);
    }
    block->data = NULL;
    block->mark = (struct mark){0};
}

// --- checks ------------------------------------------------------------------------------

static void differs(const struct block *block, size_t at, size_t size) {
    size_t first = at, bad = 0;
    while (block->data[first] == block->shadow[first]) {
        first++;
    }
    for (size_t i = first; i < at + size; i++) {
        bad += block->data[i] != block->shadow[i];
    }
    fail("byte %zu of a block of %zu at %p (byte %zu of its page) is %02x, not %02x; %zu of %zu "
         "are wrong; mark %d on %zu+%zu, %s",
         first, block->size, (void *)block->data, (uintptr_t)(block->data + first) % PAGE,
         block->data[first], block->shadow[first], bad, size, (int)block->mark.kind,
         block->mark.from, block->mark.size, block->raced ? "raced" : "not raced");
}

// Pages that are not there, or are written by threads, are passed over.
void check_range(const struct block *block, size_t from, size_t size) {
    const struct mark *mark = &block->mark;
    if (size == 0) {
        return;
    }
    if (!may_read(block, from, size)) {
        size_t end = mark->from + mark->size;
        if (from < mark->from) {
            check_range(block, from, mark->from - from);
        }
        if (from + size > end) {
            check_range(block, end, from + size - end);
        }
        return;
    }
    if (block->raced) {
        for (size_t at = from, part; at < from + size; at += part) {
            part = check_step(block, at, from + size - at);
            if (!is_raced_range(block, at, part) &&
                memcmp(block->data + at, block->shadow + at, part) != 0) {
                differs(block, at, part);
            }
        }
        return;
    }
    if (memcmp(block->data + from, block->shadow + from, size) != 0) {
        differs(block, from, size);
    }
}

void check(const struct block *block) {
    check_range(block, 0, block->size);
}

void check_some(const struct block *block) {
    if (block->size <= 4 * SAMPLE) {
        check(block);
        return;
    }
    check_range(block, 0, SAMPLE);
    check_range(block, block->size - SAMPLE, SAMPLE);
    check_range(block, random_below(&world.random, block->size - SAMPLE), SAMPLE);
}

void check_all(void) {
    for (unsigned i = 0; i < PLACES; i++) {
        if (world.blocks[i].data) {
            check(&world.blocks[i]);
        }
    }
}
