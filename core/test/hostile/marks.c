// SPDX-License-Identifier: MIT
//
// What a program does to the pages of its own blocks: advice, protection, locks, moves, and other
// mappings in their place; by the C library's functions, by syscall(), and by the instruction.
#include "hostile.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

unsigned ways_to_call = 3; // the C library's function, syscall(), the instruction

// --- calls ---------------------------------------------------------------------------------

static long wrapper(long number, long a, long b, long c, long d, long e, long f) {
    switch (number) {
    case SYS_madvise:
        return madvise((void *)a, (size_t)b, (int)c);
    case SYS_mprotect:
        return mprotect((void *)a, (size_t)b, (int)c);
    case SYS_pkey_mprotect:
        return pkey_mprotect((void *)a, (size_t)b, (int)c, (int)d);
    case SYS_ioctl:
        return ioctl((int)a, (unsigned long)b, (void *)c);
    case SYS_mlock:
        return mlock((void *)a, (size_t)b);
    case SYS_munlock:
        return munlock((void *)a, (size_t)b);
    case SYS_munmap:
        return munmap((void *)a, (size_t)b);
    case SYS_mmap:
        return (long)mmap((void *)a, (size_t)b, (int)c, (int)d, (int)e, f);
    case SYS_mremap:
        return (long)mremap((void *)a, (size_t)b, (size_t)c, (int)d, (void *)e);
    default:
        return syscall(number, a, b, c, d, e, f);
    }
}

// Returns as the C library's functions do.
long some_call(long number, long a, long b, long c, long d, long e, long f) {
    switch (random_below(&world.random, ways_to_call)) {
    case 0:
        return wrapper(number, a, b, c, d, e, f);
    case 1:
        return syscall(number, a, b, c, d, e, f);
    default: {
        long result = raw_call(number, a, b, c, d, e, f);
        if (result < 0 && result > -4096) {
            errno = (int)-result;
            return -1;
        }
        return result;
    }
    }
}

// A key that lets nobody write; 0: the processor has none.
static int protection_key(void) {
    static int key = -1;
    if (key == -1) {
        int got = pkey_alloc(0, PKEY_DISABLE_WRITE);
        key = got > 0 ? got : 0;
    }
    return key;
}

// At the start, and in handlers, which begin without the right to what is under a key.
void marks_take_key(void) {
    if (protection_key()) {
        pkey_set(protection_key(), PKEY_DISABLE_WRITE);
    }
}

static bool call_pages_with(long number, const struct block *block, size_t from, size_t size,
                            long how, int key) {
    return some_call(number, (long)(block->data + from), (long)size, how, key, 0, 0) == 0;
}

static bool call_pages(long number, const struct block *block, size_t from, size_t size, long how) {
    return call_pages_with(number, block, from, size, how, 0);
}

bool refused_where_others_write(void) {
    bool refused = world.others_may_write && errno == ENOMEM;
    report->refused += refused;
    return refused;
}

// --- marks ---------------------------------------------------------------------------------

struct block *some_unmarked(size_t *from, size_t *size) {
    struct block *block = random_chance(&world.random, 2) ? some_block() : some_block_of(64 * KB);
    bool found = block && !block->raced && !block->mark.kind && some_pages(block, from, size);
    return found ? block : NULL;
}

static const struct {
    const char *name;
    long set, set_how, undo, undo_how;
} kinds[] = {
    [MARK_WIPED] = {"wipe on fork", SYS_madvise, MADV_WIPEONFORK, SYS_madvise, MADV_KEEPONFORK},
    [MARK_NOT_THERE] = {"no fork", SYS_madvise, MADV_DONTFORK, SYS_madvise, MADV_DOFORK},
    [MARK_READ_ONLY] = {"read only", SYS_mprotect, PROT_READ, SYS_mprotect, PROT_READ | PROT_WRITE},
    [MARK_NO_ACCESS] = {"no access", SYS_mprotect, PROT_NONE, SYS_mprotect, PROT_READ | PROT_WRITE},
    [MARK_LOCKED] = {"locked", SYS_mlock, 0, SYS_munlock, 0},
    [MARK_KEYED] = {"keyed", SYS_pkey_mprotect, PROT_READ | PROT_WRITE, SYS_pkey_mprotect,
                    PROT_READ | PROT_WRITE},
};

bool mark_undo(struct block *block) {
    struct mark *mark = &block->mark;
    if (mark->kind == MARK_NONE) {
        return false;
    }
    say("%s ends on %zu+%zu of %zu bytes at %p", kinds[mark->kind].name, mark->from, mark->size,
        block->size, (void *)block->data);
    if (!call_pages(kinds[mark->kind].undo, block, mark->from, mark->size,
                    kinds[mark->kind].undo_how)) {
        fail("mark %d cannot be undone on %zu+%zu of %zu bytes at %p (errno %d)", (int)mark->kind,
             mark->from, mark->size, block->size, (void *)block->data, errno);
    }
    *mark = (struct mark){0};
    return true;
}

static void set_mark(enum mark_kind kind) {
    size_t from, size;
    struct block *block = some_unmarked(&from, &size);
    if (!block) {
        return;
    }
    say("%s on %zu+%zu of %zu bytes at %p", kinds[kind].name, from, size, block->size,
        (void *)block->data);
    int key = kind == MARK_KEYED ? protection_key() : 0;
    if (call_pages_with(kinds[kind].set, block, from, size, kinds[kind].set_how, key)) {
        block->mark = (struct mark){kind, from, size};
    } else if (kind != MARK_LOCKED && !(kind == MARK_WIPED && refused_where_others_write())) {
        fail("%s refused on %zu+%zu of %zu bytes at %p (errno %d)", kinds[kind].name, from, size,
             block->size, (void *)block->data, errno);
    }
}

static void wipe_on_fork(void) {
    set_mark(MARK_WIPED);
}

static void no_fork(void) {
    set_mark(MARK_NOT_THERE);
}

static void protect(void) {
    static const enum mark_kind ways[] = {MARK_READ_ONLY, MARK_NO_ACCESS, MARK_KEYED};
    enum mark_kind kind = ways[random_below(&world.random, 3)];
    set_mark(kind == MARK_KEYED && !protection_key() ? MARK_READ_ONLY : kind);
}

static void lock(void) {
    set_mark(MARK_LOCKED);
}

static struct block *some_marked(void) {
    unsigned from = (unsigned)random_below(&world.random, PLACES);
    for (unsigned i = 0; i < PLACES; i++) {
        struct block *block = &world.blocks[(from + i) % PLACES];
        if (block->data && block->mark.kind) {
            return block;
        }
    }
    return NULL;
}

static void undo(void) {
    struct block *block = some_marked();
    if (block) {
        mark_undo(block);
        check_some(block);
    }
}

// The kernel, asked to store a byte, must refuse it where the program took the right away.
static void probe_protection(void) {
    struct block *block = some_marked();
    int ends[2];
    if (!block || may_write(block, block->mark.from, 1) || pipe(ends) != 0) {
        return;
    }
    unsigned char *at =
        block->data + block->mark.from + random_below(&world.random, block->mark.size);
    if (write(ends[1], "x", 1) == 1 && read(ends[0], at, 1) == 1) {
        fail("a protected byte at %p of %zu bytes at %p was written", (void *)at, block->size,
             (void *)block->data);
    }
    close(ends[0]);
    close(ends[1]);
}

void marks_after_fork(void) {
    for (unsigned i = 0; i < PLACES; i++) {
        struct block *block = &world.blocks[i];
        if (block->data && block->mark.kind == MARK_WIPED) {
            plain_fill(block->shadow + block->mark.from, 0, block->mark.size);
        } else if (block->data && block->mark.kind == MARK_NOT_THERE) {
            block->data = NULL;
        } else if (block->data && block->mark.kind == MARK_LOCKED) {
            block->mark.kind = MARK_NONE; // locks are not inherited
        }
    }
}

// --- advice --------------------------------------------------------------------------------

static bool is_known(int advice) { // by this kernel, for memory of a program
    static signed char known[64];
    if (!known[advice]) {
        unsigned char *pages = raw_memory(4 * PAGE, false);
        plain_fill(pages, 1, 4 * PAGE);
        known[advice] = raw_call(SYS_madvise, (long)pages, 4 * PAGE, advice, 0, 0, 0) == 0 ? 1 : -1;
        raw_call(SYS_munmap, (long)pages, 4 * PAGE, 0, 0, 0, 0);
    }
    return known[advice] > 0;
}

static bool advise(const struct block *block, size_t from, size_t size, int advice) {
    say("advice %d on %zu+%zu of %zu bytes at %p", advice, from, size, block->size,
        (void *)block->data);
    if (call_pages(SYS_madvise, block, from, size, advice)) {
        return true;
    }
    if (is_known(advice) && advice != MADV_COLLAPSE && errno != EAGAIN) {
        fail("advice %d refused on %zu+%zu of %zu bytes at %p (errno %d)", advice, from, size,
             block->size, (void *)block->data, errno);
    }
    return false;
}

// Advice that leaves what the program sees as it is.
static void advise_neutral(void) {
    static const int advices[] = {
        MADV_NORMAL,     MADV_SEQUENTIAL, MADV_RANDOM,        MADV_WILLNEED,       MADV_HUGEPAGE,
        MADV_NOHUGEPAGE, MADV_MERGEABLE,  MADV_UNMERGEABLE,   MADV_DONTDUMP,       MADV_DODUMP,
        MADV_COLD,       MADV_PAGEOUT,    MADV_POPULATE_READ, MADV_POPULATE_WRITE,
    };
    size_t from, size;
    struct block *block = some_unmarked(&from, &size);
    if (block) {
        int advice = advices[random_below(&world.random, sizeof advices / sizeof advices[0])];
        advise(block, from, size, advice);
        check_some(block);
    }
}

static void advise_dont_need(void) {
    size_t from, size;
    struct block *block = some_unmarked(&from, &size);
    if (block && advise(block, from, size, MADV_DONTNEED)) {
        plain_fill(block->shadow + from, 0, size);
        check_range(block, from, size < 8 * PAGE ? size : 8 * PAGE);
    }
}

// Each page keeps its bytes or becomes zero, until it is written.
static void advise_free(void) {
    size_t from, size;
    struct block *block = some_unmarked(&from, &size);
    if (!block || !advise(block, from, size, MADV_FREE)) {
        return;
    }
    for (size_t page = from; page < from + size; page += PAGE) {
        *(volatile unsigned char *)(block->data + page) = 0x5a;
        if (memcmp(block->data + page + 1, block->shadow + page + 1, PAGE - 1) != 0) {
            plain_fill(block->shadow + page, 0, PAGE);
        }
        block->shadow[page] = 0x5a;
    }
    check_range(block, from, size);
}

// --- mappings ------------------------------------------------------------------------------

static void map_fresh(const struct block *block, size_t from, size_t size) {
    unsigned char *at = block->data + from;
    long got = some_call(SYS_mmap, (long)at, (long)size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if ((unsigned char *)got != at) {
        fail("mmap over %zu+%zu of %zu bytes at %p gave %ld (errno %d)", from, size, block->size,
             (void *)block->data, got, errno);
    }
}

static void map_over(void) {
    size_t from, size;
    struct block *block = some_unmarked(&from, &size);
    if (!block) {
        return;
    }
    say("mmap over %zu+%zu of %zu bytes at %p", from, size, block->size, (void *)block->data);
    bool hole = random_chance(&world.random, 2);
    if (hole) {
        some_call(SYS_munmap, (long)(block->data + from), (long)size, 0, 0, 0, 0);
    }
    if (hole && random_chance(&world.random, 2)) { // a collection meets the hole
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        getrusage(RUSAGE_SELF, &usage);
    }
    map_fresh(block, from, size);
    plain_fill(block->shadow + from, 0, size);
    check_range(block, from, size < 8 * PAGE ? size : 8 * PAGE);
}

// Pages go elsewhere and come back.
static void move_away(void) {
    size_t from, size;
    struct block *block = some_unmarked(&from, &size);
    if (!block) {
        return;
    }
    unsigned char *at = block->data + from, *other = raw_memory(size, false);
    long flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    long moved = some_call(SYS_mremap, (long)at, (long)size, (long)size, flags, (long)other, 0);
    if (moved == -1 && errno != EFAULT && errno != EINVAL && !refused_where_others_write()) {
        fail("mremap of %zu+%zu of %zu bytes at %p: errno %d", from, size, block->size,
             (void *)block->data, errno);
    }
    if (moved == (long)other) {
        say("mremap of %zu+%zu of %zu bytes at %p, and back", from, size, block->size,
            (void *)block->data);
        long back = some_call(SYS_mremap, moved, (long)size, (long)size, flags, (long)at, 0);
        if (back != (long)at) {
            fail("mremap back to %p: errno %d", (void *)at, errno);
        }
    } else {
        raw_call(SYS_munmap, (long)other, (long)size, 0, 0, 0, 0);
    }
    check_some(block);
}

// Of a block that other threads write to meanwhile.
static void lock_raced(void) {
    size_t from, size;
    for (int i = 0; i < 20 && world.threads; i++) {
        struct block *block = some_block_of(16 * KB);
        if (block && block->raced && some_pages(block, &from, &size)) {
            say("%zu+%zu of %zu bytes at %p are locked for a moment", from, size, block->size,
                (void *)block->data);
            if (call_pages(SYS_mlock, block, from, size, 0)) {
                call_pages(SYS_munlock, block, from, size, 0);
            }
            return;
        }
    }
}

const struct operation mark_operations[] = {
    {"wipe-on-fork", wipe_on_fork, 400, IN_CHILDREN | NO_MALLOC},
    {"no-fork", no_fork, 400, IN_CHILDREN | NO_MALLOC},
    {"protect", protect, 600, IN_CHILDREN | NO_MALLOC},
    {"probe", probe_protection, 300, IN_CHILDREN | NO_MALLOC},
    {"lock", lock, 300, IN_CHILDREN | NO_MALLOC},
    {"lock-raced", lock_raced, 3000, ANYWHERE | NO_MALLOC},
    {"undo", undo, 3000, ANYWHERE | NO_MALLOC},
    {"advise", advise_neutral, 1500, IN_CHILDREN | NO_MALLOC},
    {"dont-need", advise_dont_need, 800, IN_CHILDREN | NO_MALLOC},
    {"madv-free", advise_free, 400, IN_CHILDREN | NO_MALLOC},
    {"map-over", map_over, 400, IN_CHILDREN | NO_MALLOC},
    {"move-away", move_away, 400, IN_CHILDREN | NO_MALLOC},
    {0},
};
