// SPDX-License-Identifier: MIT
//
// Random steps on blocks against shadow copies:
//     test_stress [--seed N] [--steps N] [--smallest BYTES] [--options STRING] [--forks 0]
//
// Every block has a shadow in ordinary memory that is changed by plain memcpy, memmove and memset.
// A block and its shadow must never differ, in this process or in any forked child.
#include "pagewise.h"
#include "support.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#define BLOCKS       160
#define LIVE_LIMIT   ((size_t)160 << 20)
#define LARGEST      ((size_t)64 << 20)
#define LATE         3 // children kept waiting at a time
#define DEEPEST      2 // forks within forks
#define PAGE         ((size_t)1 << PW_PAGE_SHIFT)
#define NOT_SEEN     "a block differs from its shadow"
#define CHILD_STEPS  60
#define SAMPLE_BYTES ((size_t)256 << 10)

struct block {
    unsigned char *data, *shadow; // NULL: no block
    size_t size;
};

struct late_child {
    pid_t pid;
    int release; // closing it lets the child go on
    uint64_t until;
};

static struct {
    uint64_t seed, step, steps;
    struct random random;
    struct block blocks[BLOCKS];
    size_t live, smallest;
    struct late_child late[LATE];
    unsigned depth;
    bool forks;
    const char *options, *doing;
} run = {.seed = 0, .steps = 20000, .smallest = 8 << 10, .forks = true, .options = "modules=all"};

// --- checking -----------------------------------------------------------------

static void fail_at(const struct block *block, size_t at) {
    fprintf(stderr,
            "stress: " NOT_SEEN ": byte %zu of %zu (page %zu) holds %02x, not %02x\n"
            "stress: after '%s'; run again with --seed %llu --steps %llu --options %s "
            "--smallest %zu (step %llu, depth %u)\n",
            at, block->size, at / PAGE, block->data[at], block->shadow[at], run.doing,
            (unsigned long long)run.seed, (unsigned long long)run.steps, run.options, run.smallest,
            (unsigned long long)run.step, run.depth);
    abort();
}

static void verify_range(const struct block *block, size_t from, size_t size) {
    if (size && memcmp(block->data + from, block->shadow + from, size) != 0) {
        size_t at = from;
        while (block->data[at] == block->shadow[at]) {
            at++;
        }
        fail_at(block, at);
    }
}

static void verify(const struct block *block) {
    verify_range(block, 0, block->size);
}

// The ends, where edges of copies lie, and something from the middle.
static void verify_some(const struct block *block) {
    if (block->size <= SAMPLE_BYTES) {
        verify(block);
        return;
    }
    size_t part = SAMPLE_BYTES / 4;
    verify_range(block, 0, part);
    verify_range(block, block->size - part, part);
    verify_range(block, random_below(&run.random, block->size - part), part);
}

static void verify_all(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (run.blocks[i].data) {
            verify(&run.blocks[i]);
        }
    }
}

// --- blocks -------------------------------------------------------------------

// From a few bytes to 64 MB, mostly small.
static size_t some_size(void) {
    if (random_chance(&run.random, 12)) {
        return 1 + random_below(&run.random, 8 << 10);
    }
    double fraction = (double)random_below(&run.random, 1 << 20) / (1 << 20);
    unsigned shift = (unsigned)(fraction * fraction * fraction * fraction * fraction * 13);
    size_t base = run.smallest << shift;
    size_t size = base + random_below(&run.random, base);
    if (random_chance(&run.random, 4) && size >= PAGE) {
        size &= ~(PAGE - 1);
    }
    return size < LARGEST ? size : LARGEST;
}

static struct block *some_block(void) {
    for (int attempt = 0; attempt < 40; attempt++) {
        struct block *block = &run.blocks[random_below(&run.random, BLOCKS)];
        if (block->data) {
            return block;
        }
    }
    return NULL;
}

// A range of the block, often made of whole pages or reaching to its end.
static size_t some_range(const struct block *block, size_t *from) {
    *from = random_below(&run.random, block->size);
    if (random_chance(&run.random, 3)) {
        *from &= ~(PAGE - 1);
    }
    size_t rest = block->size - *from;
    return random_chance(&run.random, 3) ? rest : 1 + random_below(&run.random, rest);
}

static void fill_range(struct block *block, size_t from, size_t size) {
    random_fill(&run.random, block->shadow + from, size);
    memcpy(block->data + from, block->shadow + from, size);
}

static void zero_range(struct block *block, size_t from, size_t size) {
    memset(block->shadow + from, 0, size);
    CHECK(pw_zero(block->data + from, size) == block->data + from);
}

// New memory may hold anything: give it a content in one of several ways.
static void settle_range(struct block *block, size_t from, size_t size) {
    switch (random_below(&run.random, 4)) {
    case 0:
        memcpy(block->shadow + from, block->data + from, size);
        break;
    case 1:
        zero_range(block, from, size);
        break;
    default:
        fill_range(block, from, size);
        break;
    }
}

static void release(struct block *block) {
    verify_some(block);
    pw_free(block->data);
    free(block->shadow);
    run.live -= block->size;
    *block = (struct block){0};
}

static struct block *room_for(size_t size) {
    while (run.live + size > LIVE_LIMIT) {
        struct block *victim = some_block();
        if (victim) {
            release(victim);
        }
    }
    struct block *block = &run.blocks[random_below(&run.random, BLOCKS)];
    if (block->data) {
        release(block);
    }
    return block;
}

static void add(struct block *block, void *data, size_t size) {
    CHECK(data != NULL);
    *block = (struct block){.data = data, .shadow = malloc(size), .size = size};
    CHECK(block->shadow != NULL);
    run.live += size;
}

// --- steps --------------------------------------------------------------------

static void step_allocate(void) {
    size_t size = some_size();
    struct block *block = room_for(size);
    add(block, pw_allocate(size), size);
    CHECK((uintptr_t)block->data % 16 == 0);
    settle_range(block, 0, size);
}

static void step_allocate_zeroed(void) {
    size_t size = some_size();
    struct block *block = room_for(size);
    add(block, pw_allocate_zeroed(1, size), size);
    memset(block->shadow, 0, size);
    verify_some(block);
}

static void step_allocate_aligned(void) {
    size_t alignment = (size_t)16 << random_below(&run.random, 11), size = some_size();
    struct block *block = room_for(size);
    add(block, pw_allocate_aligned(alignment, size), size);
    CHECK((uintptr_t)block->data % alignment == 0);
    settle_range(block, 0, size);
}

static void step_write_bytes(void) {
    struct block *block = some_block();
    if (block) {
        size_t from = random_below(&run.random, block->size), rest = block->size - from;
        fill_range(block, from, 1 + random_below(&run.random, rest < 200 ? rest : 200));
    }
}

// Scattered writes, which leave a shared block dirty here and there.
static void step_write_scattered(void) {
    struct block *block = some_block();
    for (int i = 0; block && i < 30; i++) {
        size_t at = random_below(&run.random, block->size);
        block->data[at] = block->shadow[at] = (unsigned char)random_next(&run.random);
    }
}

static void step_write_pages(void) {
    struct block *block = some_block();
    size_t from = 0, size = block ? some_range(block, &from) : 0;
    if (size) {
        fill_range(block, from, size);
    }
}

static void step_zero(void) {
    struct block *block = some_block();
    size_t from = 0, size = block ? some_range(block, &from) : 0;
    if (size && random_chance(&run.random, 3)) {
        zero_range(block, 0, block->size);
    } else if (size) {
        zero_range(block, from, size);
    }
}

// Zeros written the ordinary way: food for the zero reclaim.
static void step_write_zeros(void) {
    struct block *block = some_block();
    size_t from = 0, size = block ? some_range(block, &from) : 0;
    if (size) {
        memset(block->shadow + from, 0, size);
        memset(block->data + from, 0, size);
    }
}

static void copy(struct block *to, size_t to_at, struct block *from, size_t from_at, size_t size) {
    memmove(to->shadow + to_at, from->shadow + from_at, size);
    CHECK(pw_copy(to->data + to_at, from->data + from_at, size) == to->data + to_at);
    size_t edge = size < 3 * PAGE ? size : 3 * PAGE;
    verify_range(to, to_at, edge);
    verify_range(to, to_at + size - edge, edge);
    size_t before = to_at < PAGE ? to_at : PAGE;
    size_t after = to->size - to_at - size < PAGE ? to->size - to_at - size : PAGE;
    verify_range(to, to_at - before, before);
    verify_range(to, to_at + size, after);
    if (random_chance(&run.random, 10)) {
        verify_some(from);
        verify_some(to);
    }
}

static void step_copy_whole(void) {
    struct block *from = some_block(), *to = some_block();
    if (from && to) {
        copy(to, 0, from, 0, from->size < to->size ? from->size : to->size);
    }
}

// As a modified argument: a new block of the same size, copied and written.
static void step_duplicate(void) {
    struct block *from = some_block();
    if (!from) {
        return;
    }
    size_t size = from->size, index = (size_t)(from - run.blocks);
    struct block *to = room_for(size);
    from = &run.blocks[index];
    void *data = pw_allocate(size);
    add(to, data, size);
    if (from->data && from != to && from->size == size) {
        memcpy(to->shadow, from->shadow, size);
        pw_copy(to->data, from->data, size);
        size_t at = random_below(&run.random, size);
        to->data[at] = to->shadow[at] = 77;
        verify_some(to);
        verify_some(from);
    } else {
        settle_range(to, 0, size);
    }
}

// Any bytes to anywhere; half of the time so that pages lie on pages.
static void step_copy_part(void) {
    struct block *from = some_block(), *to = some_block();
    if (!from || !to) {
        return;
    }
    size_t from_at = random_below(&run.random, from->size);
    size_t to_at = random_below(&run.random, to->size);
    if (random_chance(&run.random, 2)) {
        size_t place = ((uintptr_t)from->data + from_at) % PAGE;
        size_t base = ((uintptr_t)to->data + to_at) % PAGE;
        size_t shift = (place - base) & (PAGE - 1);
        to_at += to_at + shift < to->size ? shift : 0;
    }
    size_t most = from->size - from_at;
    most = to->size - to_at < most ? to->size - to_at : most;
    copy(to, to_at, from, from_at,
         random_chance(&run.random, 2) ? most : 1 + random_below(&run.random, most));
}

static void step_copy_overlapping(void) {
    struct block *block = some_block();
    if (block) {
        size_t one = random_below(&run.random, block->size);
        size_t other = random_below(&run.random, block->size);
        if (random_chance(&run.random, 2)) {
            one &= ~(PAGE - 1), other &= ~(PAGE - 1);
        }
        copy(block, one, block, other, block->size - (one > other ? one : other));
    }
}

static void step_resize(void) {
    struct block *block = some_block();
    if (!block) {
        return;
    }
    size_t old = block->size, size = some_size();
    if (random_chance(&run.random, 2)) { // nearby, so that it can stay or move by pages
        size = old / 2 + random_below(&run.random, old + 1) + 1;
        size = size > LARGEST ? LARGEST : size;
    }
    if (run.live - old + size > LIVE_LIMIT) {
        return;
    }
    verify_some(block);
    block->data = pw_resize(block->data, size);
    block->shadow = realloc(block->shadow, size);
    CHECK(block->data && block->shadow);
    run.live += size - old;
    block->size = size;
    size_t kept = old < size ? old : size;
    verify_range(block, 0, kept < SAMPLE_BYTES ? kept : SAMPLE_BYTES);
    if (size > old) {
        settle_range(block, old, size - old);
    }
    verify_some(block);
}

static void step_use_all(void) {
    struct block *block = some_block();
    if (block && pw_owns(block->data)) {
        size_t usable = pw_usable_size(block->data), old = block->size;
        CHECK(usable >= old);
        block->shadow = realloc(block->shadow, usable);
        CHECK(block->shadow != NULL);
        block->size = usable;
        run.live += usable - old;
        settle_range(block, old, usable - old);
    }
}

static void step_free(void) {
    struct block *block = some_block();
    if (block) {
        release(block);
    }
}

static void step_free_many(void) {
    for (int i = 0; i < BLOCKS / 2; i++) {
        step_free();
    }
}

static void step_collection(void) {
    pw_collection_ended();
}

static void step_trim(void) {
    pw_trim();
}

static void step_verify(void) {
    struct block *block = some_block();
    if (block) {
        verify(block);
    }
}

static void step_fork(void);

static const struct {
    const char *name;
    void (*function)(void);
    unsigned weight;
} steps[] = {
    {"allocate", step_allocate, 60},
    {"allocate zeroed", step_allocate_zeroed, 25},
    {"allocate aligned", step_allocate_aligned, 20},
    {"write bytes", step_write_bytes, 120},
    {"write scattered", step_write_scattered, 40},
    {"write pages", step_write_pages, 30},
    {"zero", step_zero, 25},
    {"write zeros", step_write_zeros, 25},
    {"copy whole", step_copy_whole, 60},
    {"duplicate", step_duplicate, 60},
    {"copy part", step_copy_part, 60},
    {"copy overlapping", step_copy_overlapping, 15},
    {"resize", step_resize, 40},
    {"use all", step_use_all, 10},
    {"free", step_free, 80},
    {"free many", step_free_many, 1},
    {"collection", step_collection, 4},
    {"trim", step_trim, 2},
    {"verify", step_verify, 20},
    {"fork", step_fork, 3},
};

static void one_step(void) {
    static unsigned total;
    if (!total) {
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            total += steps[i].weight;
        }
    }
    unsigned at = (unsigned)random_below(&run.random, total);
    size_t chosen = 0;
    while (at >= steps[chosen].weight) {
        at -= steps[chosen++].weight;
    }
    run.doing = steps[chosen].name;
    steps[chosen].function();
}

// --- forks --------------------------------------------------------------------

static void let_go(struct late_child *child) {
    int status = -1;
    close(child->release);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {}
    if (status != 0) {
        fprintf(stderr, "stress: a late child ended with status %x\n", (unsigned)status);
        abort();
    }
    *child = (struct late_child){0};
}

static pid_t fork_somehow(void) {
#ifdef PW_TEST_SANITIZED
    return fork();
#else
    switch (random_below(&run.random, 4)) {
    case 0:
        return _Fork();
    case 1:
        return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    default:
        return fork();
    }
#endif
}

static void forget_children(void) {
    for (int i = 0; i < LATE; i++) {
        if (run.late[i].pid) {
            close(run.late[i].release);
        }
        run.late[i] = (struct late_child){0};
    }
}

__attribute__((noreturn)) static void be_child(uint64_t seed, int wait_on) {
    run.depth++;
    run.random = random_from(seed);
    forget_children();
    for (int i = 0; i < 4; i++) {
        struct block *block = some_block();
        if (block) {
            verify_some(block);
        }
    }
    uint64_t count = random_below(&run.random, CHILD_STEPS);
    for (uint64_t i = 0; i < count; i++) {
        one_step();
    }
    if (wait_on >= 0) { // what the parent releases meanwhile must still be here
        char byte;
        while (read(wait_on, &byte, 1) < 0 && errno == EINTR) {}
        run.doing = "waiting for the parent";
    }
    for (int i = 0; i < LATE; i++) {
        if (run.late[i].pid) {
            let_go(&run.late[i]);
        }
    }
    if (wait_on >= 0 || random_chance(&run.random, 4)) {
        verify_all();
    }
    _exit(0);
}

static void step_fork(void) {
    if (!run.forks || run.depth >= DEEPEST) {
        return;
    }
    uint64_t seed = random_next(&run.random);
    struct late_child *late = NULL;
    for (int i = 0; i < LATE && random_chance(&run.random, 2); i++) {
        late = run.late[i].pid ? late : &run.late[i];
    }
    int ends[2] = {-1, -1};
    CHECK(!late || pipe(ends) == 0);
    fflush(stdout);
    pid_t child = fork_somehow();
    CHECK(child >= 0);
    if (child == 0) {
        close(ends[1]);
        be_child(seed, ends[0]);
    }
    if (late) {
        close(ends[0]);
        *late = (struct late_child){child, ends[1], run.step + random_below(&run.random, 500)};
        return;
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status != 0) {
        fprintf(stderr, "stress: a child ended with status %x\n", (unsigned)status);
        abort();
    }
    for (int i = 0; i < 4; i++) {
        step_verify();
    }
}

// --- main ---------------------------------------------------------------------

static void read_arguments(int count, char **arguments) {
    for (int i = 1; i + 1 < count; i += 2) {
        const char *value = arguments[i + 1];
        if (!strcmp(arguments[i], "--seed")) {
            run.seed = strtoull(value, NULL, 0);
        } else if (!strcmp(arguments[i], "--steps")) {
            run.steps = strtoull(value, NULL, 0);
        } else if (!strcmp(arguments[i], "--smallest")) {
            run.smallest = strtoull(value, NULL, 0);
        } else if (!strcmp(arguments[i], "--options")) {
            run.options = value;
        } else if (!strcmp(arguments[i], "--forks")) {
            run.forks = *value != '0';
        } else {
            fprintf(stderr, "test_stress: no such argument: %s\n", arguments[i]);
            exit(2);
        }
    }
}

static void report(void) {
    struct pw_statistics now;
    pw_statistics_read(&now, sizeof now);
    printf("stress: %llu steps, %llu blocks, %llu copies seen, %llu shared, %llu publishes, "
           "%llu MB punched, %llu MB zero reclaimed, %llu MB lazily zero, %llu MB gathered\n",
           (unsigned long long)run.steps, (unsigned long long)now.blocks_allocated,
           (unsigned long long)now.copies_seen, (unsigned long long)now.copies_shared,
           (unsigned long long)now.publishes, (unsigned long long)now.punched_bytes >> 20,
           (unsigned long long)now.zero_reclaimed_bytes >> 20,
           (unsigned long long)now.lazy_zero_bytes >> 20,
           (unsigned long long)now.gathered_bytes >> 20);
    CHECK(now.copies_shared > 0 || run.steps < 2000);
    CHECK(now.zero_reclaimed_bytes > 0 || run.steps < 2000);
    CHECK(now.shared_bytes == 0 && now.live_bytes == 0 && now.snapshots_live == 0);
}

int main(int count, char **arguments) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    run.seed = (uint64_t)now.tv_nsec ^ ((uint64_t)getpid() << 32);
    read_arguments(count, arguments);
    printf("stress: --seed %llu --steps %llu --options %s\n", (unsigned long long)run.seed,
           (unsigned long long)run.steps, run.options);
    fflush(stdout);
    run.random = random_from(run.seed);
    signal(SIGPIPE, SIG_IGN);
    CHECK(pw_start(run.options));
    for (run.step = 0; run.step < run.steps; run.step++) {
        one_step();
        for (int i = 0; i < LATE; i++) {
            if (run.late[i].pid && run.late[i].until <= run.step) {
                let_go(&run.late[i]);
            }
        }
        if (run.step % 5000 == 4999) {
            run.doing = "looking at everything";
            verify_all();
        }
    }
    for (int i = 0; i < LATE; i++) {
        if (run.late[i].pid) {
            let_go(&run.late[i]);
        }
    }
    verify_all();
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (run.blocks[i].data) {
            release(&run.blocks[i]);
        }
    }
    report();
    return 0;
}
