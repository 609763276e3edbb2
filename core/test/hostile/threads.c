// SPDX-License-Identifier: MIT
//
// Other threads, for a while: some store to words of blocks that only they write, and look whether
// their stores are still there; others allocate, read lines, flush streams, load libraries. While
// they run the first thread goes on with its steps, and copies from the blocks they write to.
#include "hostile.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define RACED  6    // blocks at a time
#define ZONE   1024 // where in each page the words of the racers lie
#define STRIDE 64   // a racer's word is that far from the next one's
#define PAGES  48   // of a block, at most, that a racer writes to

typedef uint64_t __attribute__((may_alias)) word;

// --- raced blocks --------------------------------------------------------------------------

struct raced {
    struct block *block;
    unsigned char *data;                          // page aligned
    size_t pages, step;                           // of which every step-th is written
    _Atomic uint64_t began[RACERS], done[RACERS]; // values: all words have `done` at least
    _Atomic int busy[RACERS], stop;
};

static struct {
    struct raced raced[RACED];
    pthread_t threads[RACERS];
    unsigned count;
    bool is_process[RACERS]; // a child that has our memory, not a thread
    pid_t children[RACERS];
    _Atomic int end;
    uint64_t until; // step
} race;

static word *word_of(const struct raced *raced, size_t page, unsigned racer) {
    return (word *)(raced->data + page * PAGE + ZONE + racer * STRIDE);
}

bool is_raced_range(const struct block *block, size_t from, size_t size) {
    uintptr_t start = (uintptr_t)block->data + from, at = start % PAGE;
    return at < ZONE + RACERS * STRIDE ? at + size > ZONE : at + size > PAGE + ZONE;
}

// The largest part of a range of a raced block that lies in or out of a page's zone as a whole.
size_t check_step(const struct block *block, size_t from, size_t size) {
    size_t at = ((uintptr_t)block->data + from) % PAGE, end = ZONE + RACERS * STRIDE;
    size_t part = at < ZONE ? ZONE - at : at < end ? end - at : PAGE + ZONE - at;
    return part < size ? part : size;
}

static struct raced *raced_of(const struct block *block) {
    for (unsigned i = 0; i < RACED; i++) {
        if (race.raced[i].block == block) {
            return &race.raced[i];
        }
    }
    fail("a raced block is in no list");
}

struct race_time race_begins(const struct block *block) {
    struct race_time time;
    const struct raced *raced = raced_of(block);
    for (unsigned racer = 0; racer < RACERS; racer++) {
        time.before[racer] = raced->done[racer];
    }
    return time;
}

// A copy of words that were written meanwhile holds values of that time.
static void check_copied(const struct raced *raced, const unsigned char *from,
                         const unsigned char *to, size_t size, const struct race_time *time) {
    for (unsigned racer = 0; racer < race.count; racer++) {
        for (size_t page = 0; page < raced->pages; page += raced->step) {
            const unsigned char *source = (unsigned char *)word_of(raced, page, racer);
            if (source < from || source + sizeof(word) > from + size) {
                continue;
            }
            word value;
            plain_copy(&value, to + (source - from), sizeof value);
            if (value < time->before[racer] || value > raced->began[racer]) {
                fail("racer %u's word at %p was copied as %llu, while it went from %llu to %llu",
                     racer, (const void *)source, (unsigned long long)value,
                     (unsigned long long)time->before[racer],
                     (unsigned long long)raced->began[racer]);
            }
        }
    }
}

void race_copied(struct block *to, size_t to_at, const struct block *from, size_t from_at,
                 size_t size, const struct race_time *time) {
    check_copied(raced_of(from), from->data + from_at, to->data + to_at, size, time);
    for (size_t at = from_at, part; at < from_at + size; at += part) {
        part = check_step(from, at, from_at + size - at);
        if (is_raced_range(from, at, part)) {
            size_t place = to_at + (at - from_at);
            plain_copy(to->shadow + place, to->data + place, part);
        }
    }
}

// What threads have left in a block becomes what must be there.
static void take_over_zones(struct block *block) {
    for (size_t at = 0, part; at < block->size; at += part) {
        part = check_step(block, at, block->size - at);
        if (is_raced_range(block, at, part)) {
            plain_copy(block->shadow + at, block->data + at, part);
        }
    }
    block->raced = false;
}

static void check_words(const struct raced *raced, unsigned racer, uint64_t value,
                        const char *how) {
    for (size_t page = 0; page < raced->pages; page += raced->step) {
        uint64_t found = __atomic_load_n(word_of(raced, page, racer), __ATOMIC_RELAXED);
        if (found != value) {
            fail("a store of racer %u (by %s) to page %zu of %zu of a block at %p is lost: %llu "
                 "there, %llu stored",
                 racer, how, page, raced->pages, (void *)raced->data, (unsigned long long)found,
                 (unsigned long long)value);
        }
    }
}

void threads_yield_block(struct block *block) {
    struct raced *raced = raced_of(block);
    raced->stop = 1;
    for (unsigned racer = 0; racer < race.count; racer++) {
        while (raced->busy[racer]) {
            sched_yield();
        }
        check_words(raced, racer, raced->done[racer], "anything");
    }
    raced->block = NULL;
    take_over_zones(block);
}

// --- racers --------------------------------------------------------------------------------

enum way { BY_STORE, BY_EXCHANGE, BY_COPY, BY_READ, BY_RECV, BY_WRITEV, BY_PREAD, WAYS };
static const char *const ways[] = {"store", "exchange",          "memcpy", "read",
                                   "recv",  "process_vm_writev", "pread"};

struct racer {
    unsigned number;
    int pipe[2], socket[2], file;
};

static void put(struct racer *racer, enum way way, word *to, uint64_t value) {
    struct iovec local = {&value, sizeof value}, remote = {to, sizeof value};
    ssize_t moved = sizeof value;
    switch (way) {
    case BY_EXCHANGE:
        __atomic_exchange_n(to, value, __ATOMIC_SEQ_CST);
        break;
    case BY_COPY:
        memcpy(to, &value, sizeof value);
        break;
    case BY_READ:
        moved = write(racer->pipe[1], &value, sizeof value);
        moved = moved > 0 ? read(racer->pipe[0], to, sizeof value) : moved;
        break;
    case BY_RECV:
        moved = send(racer->socket[1], &value, sizeof value, 0);
        moved = moved > 0 ? recv(racer->socket[0], to, sizeof value, 0) : moved;
        break;
    case BY_PREAD:
        moved = pwrite(racer->file, &value, sizeof value, 0);
        moved = moved > 0 ? pread(racer->file, to, sizeof value, 0) : moved;
        break;
    case BY_WRITEV:
        moved = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
        break;
    default:
        __atomic_store_n(to, value, __ATOMIC_RELAXED);
        break;
    }
    if (moved != sizeof value) {
        fail("a racer's %s moved %zd bytes, errno %d", ways[way], moved, errno);
    }
}

static void race_once(struct racer *racer, struct raced *raced, enum way way) {
    raced->busy[racer->number] = 1;
    if (raced->block && !raced->stop) {
        uint64_t value = raced->done[racer->number] + 1, stores = 0;
        raced->began[racer->number] = value;
        for (size_t page = 0; page < raced->pages; page += raced->step, stores++) {
            put(racer, way, word_of(raced, page, racer->number), value);
        }
        for (volatile int wait = 0; wait < 100; wait++) {}
        check_words(raced, racer->number, value, ways[way]);
        raced->done[racer->number] = value;
        report_count(&report->stores, stores);
    }
    raced->busy[racer->number] = 0;
}

static void *run_racer(void *argument) {
    struct racer racer = {.number = (unsigned)(uintptr_t)argument % RACERS};
    struct random random = random_of(world.seed, (uintptr_t)argument);
    racer.file = memfd_create("racer", MFD_CLOEXEC);
    if (pipe(racer.pipe) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, racer.socket) != 0 ||
        racer.file < 0) {
        fail("no descriptors for a racer: errno %d", errno);
    }
    while (!race.end) {
        enum way way = random_chance(&random, 3) ? random_below(&random, WAYS) : BY_STORE;
        for (unsigned i = 0; i < RACED && !race.end; i++) {
            race_once(&racer, &race.raced[i], way);
        }
        if (random_chance(&random, 20)) {
            sched_yield();
        }
    }
    close(racer.pipe[0]), close(racer.pipe[1]);
    close(racer.socket[0]), close(racer.socket[1]);
    close(racer.file);
    return NULL;
}

// A child with our memory, which is no thread: it may call nothing of the C library's.
static int run_child_racer(void *argument) {
    struct racer racer = {.number = (unsigned)(uintptr_t)argument % RACERS};
    while (!race.end) {
        for (unsigned i = 0; i < RACED && !race.end; i++) {
            race_once(&racer, &race.raced[i], BY_STORE);
        }
    }
    raw_call(SYS_exit, 0, 0, 0, 0, 0, 0);
    return 0;
}

// --- other threads ---------------------------------------------------------------------------

static void *run_allocator(void *argument) {
    struct random random = random_of(world.seed, (uintptr_t)argument);
    unsigned char *own[8] = {0};
    size_t sizes[8] = {0};
    while (!race.end) {
        size_t i = random_below(&random, 8), size = 1 + random_below(&random, 200 * KB);
        unsigned char *got = own[i] && random_chance(&random, 2) ? realloc(own[i], size) : NULL;
        size_t kept = !got ? 0 : sizes[i] < size ? sizes[i] : size;
        if (!got) {
            free(own[i]);
            got = malloc(size);
        }
        if (!got || (kept && (got[0] != i || got[kept - 1] != i))) {
            fail("a thread's block of %zu bytes at %p is wrong", size, (void *)got);
        }
        memset(got, (int)i, size);
        own[i] = got;
        sizes[i] = size;
        size_t other = random_below(&random, 8);
        if (own[other] && other != i) {
            size_t most = sizes[other] < size ? sizes[other] : size;
            memcpy(got, own[other], most);
            if (got[0] != other || got[most - 1] != other) {
                fail("a thread's copy of %zu bytes at %p is wrong", most, (void *)got);
            }
            memset(got, (int)i, most);
        }
    }
    for (int i = 0; i < 8; i++) {
        free(own[i]);
    }
    return NULL;
}

// Holds a stream's lock while it asks for memory.
static void *run_lines(void *argument) {
    (void)argument;
    char *line = NULL;
    size_t room = 0;
    FILE *file = fdopen(memfd_create("lines", MFD_CLOEXEC), "w+");
    for (int i = 0; file && i < 40000; i++) {
        fputs(i % 8000 == 0 ? "\n" : "a long line of a file, ", file);
    }
    while (file && !race.end) {
        rewind(file);
        while (!race.end && getline(&line, &room, file) > 0) {
            free(line);
            line = NULL;
            room = 0;
        }
    }
    free(line);
    if (file) {
        fclose(file);
    }
    return NULL;
}

static void *run_flush(void *argument) {
    (void)argument;
    while (!race.end) {
        fflush(NULL);
        usleep(20);
    }
    return NULL;
}

// Forks while the first thread copies. What its children see must stay, though it is overwritten,
// copied and freed here; they allocate only where the C library's locks are whole.
static void *run_forker(void *argument) {
    struct random random = random_of(world.seed, (uintptr_t)argument);
    while (!race.end) {
        size_t size = 64 * KB + random_below(&random, 64 * KB);
        unsigned char *first = malloc(size), *second = malloc(size);
        if (!first || !second) {
            fail("no memory for a thread that forks");
        }
        memset(first, 17, size);
        memcpy(second, first, size);
        bool whole = random_chance(&random, 2);
        pid_t child = whole ? fork() : _Fork();
        if (child == 0) {
            usleep((useconds_t)random_below(&random, 2000));
            for (size_t i = 0; i < size; i += 100) {
                if (first[i] != 17 || second[i] != 17) {
                    fail("a thread's child finds %02x and %02x in byte %zu of %zu", first[i],
                         second[i], i, size);
                }
            }
            if (whole) {
                free(first);
                memset(second, 1, size);
            }
            _exit(0);
        }
        memset(first, 18, size);
        memcpy(second, first, size);
        free(second);
        free(first);
        int status = 0;
        while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
        if (child < 0 || status) {
            fail("a thread's child %d ended with status %x", (int)child, (unsigned)status);
        }
        report_count(&report->forks, 1);
    }
    return NULL;
}

// As whoever unwinds a stack: the loader's lock is held meanwhile.
static int look_at_module(struct dl_phdr_info *info, size_t size, void *count) {
    (void)info, (void)size;
    usleep(100);
    return ++*(int *)count == 4;
}

static void *run_loader(void *argument) {
    (void)argument;
    while (!race.end) {
        int count = 0;
        libraries_load_once();
        dl_iterate_phdr(look_at_module, &count);
        usleep(100);
    }
    return NULL;
}

static void *run_sleep(void *argument) {
    (void)argument;
    while (!race.end) {
        usleep(200);
    }
    return NULL;
}

// --- beginning and end -------------------------------------------------------------------------

static void choose_blocks(void) {
    for (unsigned i = 0; i < RACED; i++) {
        struct block *block = some_block_of(random_chance(&world.random, 2) ? 64 * KB : 16 * KB);
        struct raced *raced = &race.raced[i];
        raced->block = NULL;
        if (!block || block->raced || block->mark.kind) {
            continue;
        }
        size_t lead = -(uintptr_t)block->data & (PAGE - 1);
        *raced = (struct raced){
            .block = block, .data = block->data + lead, .pages = (block->size - lead) / PAGE};
        raced->step = raced->pages / PAGES + 1;
        block->raced = true;
        for (unsigned racer = 0; racer < RACERS; racer++) {
            for (size_t page = 0; page < raced->pages; page += raced->step) {
                *word_of(raced, page, racer) = 0;
            }
        }
    }
}

static void begin_thread(unsigned number, void *(*run)(void *)) {
    sigset_t all, before;
    uintptr_t argument = (uintptr_t)(random_below(&world.random, 1 << 20) * RACERS + number);
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int problem = pthread_create(&race.threads[number], NULL, run, (void *)argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (problem) {
        fail("no thread: errno %d", problem);
    }
}

static void begin(bool as_process) {
    static void *(*const others[])(void *) = {run_allocator, run_lines,  run_flush, run_sleep,
                                              run_forker,    run_loader, run_racer, run_racer,
                                              run_racer,     run_racer};
    race.end = 0;
    choose_blocks();
    // A child with our memory is mostly alone: beside threads nobody would mind it.
    bool alone = as_process && !random_chance(&world.random, 4);
    race.count = alone ? 1 : 1 + (unsigned)random_below(&world.random, RACERS);
    race.until = world.step + 50 + random_below(&world.random, 600);
    bool lines = random_chance(&world.random, 6);
    for (unsigned i = 0; i < race.count; i++) {
        race.is_process[i] = as_process && i == 0;
        if (race.is_process[i]) {
            unsigned char *stack = raw_memory(64 * KB, false) + 64 * KB;
            race.children[i] = clone(run_child_racer, stack, CLONE_VM | CLONE_FILES | SIGCHLD,
                                     (void *)(uintptr_t)i);
            if (race.children[i] < 0) {
                fail("no child with our memory: errno %d", errno);
            }
        } else if (lines && race.count > 1) {
            begin_thread(i, i % 2 ? run_flush : run_lines);
        } else {
            begin_thread(i, others[random_below(&world.random, 10)]);
        }
    }
    world.threads = true;
    say("%u threads begin%s, until step %llu", race.count, as_process ? ", one is a process" : "",
        (unsigned long long)race.until);
}

static void race_begin(void) {
    if (!world.threads) {
        begin(false);
    }
}

static void race_begin_process(void) {
    if (!world.threads) {
        begin(true);
    }
}

void threads_stop(void) {
    if (!world.threads) {
        return;
    }
    race.end = 1;
    for (unsigned i = 0; i < race.count; i++) {
        if (race.is_process[i]) {
            int status = 0;
            while (waitpid(race.children[i], &status, 0) < 0 && errno == EINTR) {}
            if (status) {
                fail("the child with our memory ended with status %x", status);
            }
        } else {
            pthread_join(race.threads[i], NULL);
        }
    }
    for (unsigned i = 0; i < RACED; i++) {
        if (race.raced[i].block) {
            threads_yield_block(race.raced[i].block);
        }
    }
    world.threads = false;
    say("the threads have ended");
}

void threads_look(void) {
    if (world.step >= race.until) {
        threads_stop();
    }
}

// In a forked child, where none of them is.
void threads_after_fork(void) {
    for (unsigned i = 0; i < RACED && world.threads; i++) {
        struct raced *raced = &race.raced[i];
        if (raced->block && raced->block->raced) {
            take_over_zones(raced->block);
        }
        raced->block = NULL;
    }
    world.threads = false;
}

// --- cancelled -----------------------------------------------------------------------------

static _Atomic int is_in_vain; // the cancelled thread got no memory

// Cancelled where it asks for that and nowhere else: malloc and memcpy are no cancellation points.
static void *run_till_cancelled(void *argument) {
    struct random random = random_of(world.seed, (uintptr_t)argument);
    unsigned char *held = NULL;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    for (;;) {
        size_t size = 64 * KB + random_below(&random, 256 * KB);
        unsigned char *first = malloc(size), *second = malloc(size);
        is_in_vain |= !first || !second;
        if (is_in_vain) {
            return NULL;
        }
        memset(first, 7, size);
        memcpy(second, first, size);
        free(first);
        free(held);
        held = realloc(second, size / 2);
        free(held);
        held = NULL;
        pthread_testcancel();
    }
}

static void cancel_thread(void) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    uintptr_t argument = (uintptr_t)random_below(&world.random, 1 << 20);
    int problem = pthread_create(&thread, NULL, run_till_cancelled, (void *)argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (problem) {
        fail("no thread: errno %d", problem);
    }
    for (uint64_t i = random_below(&world.random, 5); i > 0; i--) {
        struct block *from = some_block_of(64 * KB);
        if (from && !from->raced) {
            copy_to_another(from);
        }
    }
    void *result;
    pthread_cancel(thread);
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED || is_in_vain) {
        fail("a cancelled thread ended otherwise");
    }
}

const struct operation thread_operations[] = {
    {"cancel", cancel_thread, 60, 0},
    {"race", race_begin, 250, WITH_THREADS},
    {"race-vm", race_begin_process, 60, WITH_THREADS},
    {0},
};
