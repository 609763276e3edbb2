// SPDX-License-Identifier: MIT
//
// Threads allocate, resize, hand to each other and release blocks of all sizes, beside a model of
// what each must contain, while others of them end, begin, fork and trim.
//     test_general_stress [--seed N] [--steps N] [--threads N] [--forks 0|1] [--options STRING]
//     [--faults 1]
// With --faults, the same in a child for each system call that can fail, and each way of failing.
#include "block/small.h"
#include "os/fault.h"
#include "pagewise.h"
#include "support.h"

#include <pthread.h>
#include <sys/resource.h>

#define OWN_BLOCKS    400
#define SHARED_BLOCKS 256
#define MOST_THREADS  16

// A block's contents follow from its size and a number, not from where it lies.
struct block {
    unsigned char *data;
    size_t size;
    uint64_t number;
};

static struct {
    pthread_mutex_t lock;
    struct block block;
} shared[SHARED_BLOCKS];

static struct {
    uint64_t seed, steps;
    unsigned threads;
    bool forks, faults;
    const char *options;
} setting = {1, 20000, 4, true, false, "policy=general"};

// --- contents ----------------------------------------------------------------------------

static unsigned char byte_at(const struct block *block, size_t at) {
    return (unsigned char)(block->number * 31 + at * 7 + (at >> 8));
}

// All of a small block; of a large one its ends and a byte of each page.
static size_t next_place(const struct block *block, size_t at) {
    bool inside = at >= 256 && at + 256 < block->size && block->size > 4096;
    return inside ? at + 509 : at + 1;
}

static void fill(const struct block *block) {
    for (size_t at = 0; at < block->size; at = next_place(block, at)) {
        block->data[at] = byte_at(block, at);
    }
}

static void verify(const struct block *block, size_t size) {
    for (size_t at = 0; at < size; at = next_place(block, at)) {
        CHECK(block->data[at] == byte_at(block, at));
    }
}

// --- operations --------------------------------------------------------------------------

// Mostly small; some of every class, some at a class's very edge, a few large.
static size_t choose_size(struct random *noise) {
    switch (random_below(noise, 16)) {
    case 0:
        return random_below(noise, 33000);
    case 1:
        return pw_class_size((unsigned)random_below(noise, PW_GENERAL_CLASSES)) +
               random_below(noise, 3) - 1;
    case 2:
        return random_chance(noise, 8) ? random_below(noise, 3000000) : random_below(noise, 200000);
    case 3:
    case 4:
        return random_below(noise, 4096);
    default:
        return random_below(noise, 300);
    }
}

static struct block allocate(struct random *noise) {
    struct block block = {.size = choose_size(noise), .number = random_next(noise)};
    if (random_chance(noise, 5)) {
        block.data = pw_general_calloc(&pw_process, &pw_gate, block.size);
        CHECK(block.data);
        for (size_t at = 0; at < block.size; at++) {
            CHECK(block.data[at] == 0);
        }
    } else if (random_chance(noise, 12)) {
        size_t alignment = (size_t)1 << random_below(noise, random_chance(noise, 20) ? 22 : 14);
        block.data = pw_general_memalign(&pw_process, alignment, block.size);
        CHECK(block.data && (uintptr_t)block.data % alignment == 0);
    } else {
        block.data = pw_general_malloc(&pw_process, &pw_gate, block.size);
    }
    CHECK(block.data && (uintptr_t)block.data % 16 == 0);
    size_t usable = pw_general_usable(&pw_process, block.data);
    CHECK(usable >= block.size);
    if (random_chance(noise, 10)) { // a program may use all of it
        block.size = usable;
    }
    fill(&block);
    return block;
}

static void release(struct block *block) {
    if (block->data) {
        verify(block, block->size);
        if (block->size < 256) { // whoever still has it must not find it whole
            memset(block->data, 0xdd, block->size);
        }
        pw_general_free(&pw_process, &pw_gate, block->data);
    }
    *block = (struct block){0};
}

static void resize(struct block *block, struct random *noise) {
    size_t size =
        random_chance(noise, 3) ? block->size + random_below(noise, 100) : choose_size(noise) + 1;
    size += size == 0;
    verify(block, block->size);
    unsigned char *moved = pw_general_realloc(&pw_process, &pw_gate, block->data, size);
    CHECK(moved && (uintptr_t)moved % 16 == 0);
    size_t kept = size < block->size ? size : block->size;
    block->data = moved;
    // What was written is found again; the places looked at depend on the size.
    for (size_t at = 0; at < kept; at = next_place(block, at)) {
        CHECK(moved[at] == byte_at(block, at));
    }
    block->size = size;
    fill(block);
}

static void trade(struct block *own, struct random *noise) {
    size_t at = random_below(noise, SHARED_BLOCKS);
    pthread_mutex_lock(&shared[at].lock);
    struct block other = shared[at].block;
    shared[at].block = *own;
    pthread_mutex_unlock(&shared[at].lock);
    *own = other;
    if (own->data) {
        verify(own, own->size);
    }
}

// --- threads -----------------------------------------------------------------------------

struct worker {
    uint64_t seed, steps;
    bool forks;
};

static void steps(struct worker *worker, struct block *own, struct random *noise, bool alone);

// A child has this thread's blocks, and must find them as they were; and can go on.
static void fork_and_work(struct block *own, struct random *noise) {
    fflush(stderr);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(100);
        for (int i = 0; i < OWN_BLOCKS; i++) {
            if (own[i].data) {
                verify(&own[i], own[i].size);
            }
        }
        struct worker worker = {random_next(noise), 500, random_chance(noise, 4)};
        steps(&worker, own, noise, true);
        for (int i = 0; i < OWN_BLOCKS; i++) {
            release(&own[i]);
        }
        _exit(0);
    }
    random_next(noise);
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    CHECK(status == 0);
}

static void steps(struct worker *worker, struct block *own, struct random *noise, bool alone) {
    for (uint64_t step = 0; step < worker->steps; step++) {
        struct block *block = &own[random_below(noise, OWN_BLOCKS)];
        switch (random_below(noise, 8)) {
        case 0:
        case 1:
        case 2:
            release(block);
            *block = allocate(noise);
            break;
        case 3:
        case 4:
            release(block);
            break;
        case 5:
            if (block->data) {
                resize(block, noise);
            }
            break;
        case 6:
            if (!alone) { // in a child the locks of the exchange may be somebody else's
                trade(block, noise);
            }
            break;
        default:
            if (block->data) {
                verify(block, block->size);
            }
        }
        if (random_chance(noise, 3000)) {
            pw_trim();
        }
        if (worker->forks && random_chance(noise, alone ? 400 : 2500)) {
            fork_and_work(own, noise);
        }
        if (random_chance(noise, 5000)) { // a burst, so that segments become full, and empty
            for (int i = 0; i < OWN_BLOCKS; i++) {
                release(&own[i]);
            }
        }
    }
}

static void *work(void *argument) {
    struct worker *worker = argument;
    struct random noise = random_from(worker->seed);
    struct block *own = calloc(OWN_BLOCKS, sizeof *own);
    CHECK(own);
    steps(worker, own, &noise, false);
    // Half of what a thread leaves behind outlives it.
    for (int i = 0; i < OWN_BLOCKS; i++) {
        if (i % 2) {
            trade(&own[i], &noise);
        }
        release(&own[i]);
    }
    free(own);
    return NULL;
}

static void run_generation(unsigned generation) {
    pthread_t threads[MOST_THREADS];
    struct worker workers[MOST_THREADS];
    for (unsigned i = 0; i < setting.threads; i++) {
        workers[i] = (struct worker){setting.seed * 1000 + generation * 100 + i, setting.steps,
                                     setting.forks && i == 0};
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (unsigned i = 0; i < setting.threads; i++) {
        pthread_join(threads[i], NULL);
    }
}

// --- faults ------------------------------------------------------------------------------

struct fault {
    enum pw_os_point point;
    int error;
    unsigned long first, period;
};

static void run_all(void) {
    for (unsigned generation = 0; generation < 3; generation++) {
        run_generation(generation);
    }
    for (int i = 0; i < SHARED_BLOCKS; i++) {
        release(&shared[i].block);
    }
    pw_trim();
}

static void run_fault(void *argument) {
    const struct fault *fault = argument;
    alarm(100);
    pw_os_fault_plan(fault->point, fault->error, fault->first, fault->period);
    CHECK(pw_start(setting.options) == pw_gate.general); // or not: then the C library serves
    run_all();
    struct pw_statistics now;
    pw_statistics_read(&now, sizeof now);
    bool reached = pw_os_fault_calls(fault->point) >= fault->first;
    bool serves_none = fault->first == 1 && fault->period == 1 &&
                       (fault->point == PW_POINT_MAP_NEW || fault->point == PW_POINT_RESERVE ||
                        fault->point == PW_POINT_PROTECT || fault->point == PW_POINT_MAP_TABLE);
    CHECK(!reached || !serves_none || now.fallback_general > 0);
}

static int run_faults(void) {
    static const struct {
        enum pw_os_point point;
        int error; // -1: a part of it was done
    } points[] = {
        {PW_POINT_MAP_NEW, ENOMEM},   {PW_POINT_MAP_BLANK, ENOMEM},  {PW_POINT_MAP_BLANK, -1},
        {PW_POINT_MAP_TABLE, ENOMEM}, {PW_POINT_RESERVE, ENOMEM},    {PW_POINT_UNMAP, ENOMEM},
        {PW_POINT_MOVE, ENOMEM},      {PW_POINT_DISCARD, ENOMEM},    {PW_POINT_PROTECT, ENOMEM},
        {PW_POINT_KEEPER, ENOMEM},    {PW_POINT_FORK_MARKER, ENOMEM}};
    static const unsigned long shapes[][2] = {{1, 1}, {1, 0}, {2, 0}, {2, 1}, {3, 2}, {7, 5}};
    int failures = 0;
    for (size_t point = 0; point < sizeof points / sizeof *points; point++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            struct fault fault = {points[point].point, points[point].error, shapes[i][0],
                                  shapes[i][1]};
            int status = run_in_child(run_fault, &fault);
            if (status != 0) {
                fprintf(stderr, "%s, first %lu, period %lu: status %x\n",
                        pw_os_point_names[fault.point], fault.first, fault.period,
                        (unsigned)status);
                failures++;
            }
        }
    }
    return failures > 0;
}

int main(int count, char **arguments) {
    for (int i = 1; i + 1 < count; i += 2) {
        const char *value = arguments[i + 1];
        if (!strcmp(arguments[i], "--seed")) {
            setting.seed = strtoull(value, NULL, 10);
        } else if (!strcmp(arguments[i], "--steps")) {
            setting.steps = strtoull(value, NULL, 10);
        } else if (!strcmp(arguments[i], "--threads")) {
            setting.threads = (unsigned)strtoul(value, NULL, 10) % (MOST_THREADS + 1);
        } else if (!strcmp(arguments[i], "--forks")) {
            setting.forks = *value == '1';
        } else if (!strcmp(arguments[i], "--faults")) {
            setting.faults = *value == '1';
        } else if (!strcmp(arguments[i], "--options")) {
            setting.options = value;
        }
    }
    printf("seed %llu\n", (unsigned long long)setting.seed);
    fflush(stdout);
    pw_gate.serves_all = true;
    for (int i = 0; i < SHARED_BLOCKS; i++) {
        pthread_mutex_init(&shared[i].lock, NULL);
    }
    if (setting.faults) {
        return run_faults();
    }
    CHECK(pw_start(setting.options) && pw_gate.general);
    run_all();
    // The threads have ended, and nothing of theirs is left behind.
    struct pw_general_usage usage;
    pw_general_usage(&pw_process.general, &usage);
    struct pw_statistics now;
    pw_statistics_read(&now, sizeof now);
    for (int wait = 0; now.live_bytes != 0 && wait < 100; wait++) {
        usleep(10000); // the keeper may have one in its hands
        pw_statistics_read(&now, sizeof now);
    }
    printf(
        "segments %zu bytes, blocks %zu bytes, live %llu; segments taken %llu, fall-backs %llu\n",
        usage.segment_bytes, usage.block_bytes, (unsigned long long)now.live_bytes,
        (unsigned long long)now.segments_taken, (unsigned long long)now.fallback_general);
    fflush(stdout);
    CHECK(usage.block_bytes == 0 && usage.segment_bytes == 0 && now.live_bytes == 0);
    return 0;
}
