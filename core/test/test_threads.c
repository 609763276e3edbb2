// SPDX-License-Identifier: MIT
//
// Threads: allocating, copying and freeing at once, frees by another thread, forks meanwhile, and
// the concurrency contract: bytes next to a copied range, and the source itself, may be written at
// any time, by a thread or by a system call, and no store is lost.
#include "entry/sandbox.h"
#include "entry/switch.h"
#include "os/fault.h"
#include "os/os.h"
#include "pagewise.h"
#include "process/lock.h"
#include "process/state.h"
#include "support.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

// TSan has a thread of its own, beside which nothing is shared.
#ifdef __SANITIZE_THREAD__
#define PW_THREAD_SANITIZED true
#else
#define PW_THREAD_SANITIZED false
#endif

#define PAGE    PW_PAGE
#define THREADS 6
#define SLOTS   32
#define OWN     6

#define SECONDS 2

static atomic_bool stop;

static void pause_ms(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&time, &time) != 0) {}
}

static struct pw_statistics statistics(void) {
    struct pw_statistics now;
    CHECK(pw_statistics_read(&now, sizeof now) == sizeof now);
    return now;
}

// Threads of the test that write beside what is copied, never to it: such are let pass as ours are,
// for what is shared beside their stores to be tested at all.
static void let_pass(int threads) {
    pw_quiet_count(&pw_process.quiet.own, threads);
}

static void join_all(pthread_t *threads, int count) {
    for (int i = 0; i < count; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

// Who has been joined is still seen for a moment, as a thread that nobody knows.
static void join_and_see_off(pthread_t *threads, int count) {
    unsigned with_them = pw_os_thread_count();
    join_all(threads, count);
    for (int i = 0; i < 5000 && pw_os_thread_count() > with_them - (unsigned)count; i++) {
        pause_ms(1);
    }
}

// --- everything at once -------------------------------------------------------

struct item {
    unsigned char *data, *shadow;
    size_t size;
};

static _Atomic(struct item *) slots[SLOTS];
static atomic_ulong seeds = 1;

static struct item *item_new(struct random *random) {
    struct item *item = malloc(sizeof *item);
    size_t size = 8192 + random_below(random, random_chance(random, 10) ? 2 << 20 : 200 << 10);
    *item = (struct item){.data = pw_allocate(size), .shadow = malloc(size), .size = size};
    CHECK(item->data && item->shadow);
    random_fill(random, item->shadow, size);
    memcpy(item->data, item->shadow, size);
    return item;
}

static void item_check(const struct item *item) {
    CHECK(memcmp(item->data, item->shadow, item->size) == 0);
}

static void item_delete(struct item *item) {
    item_check(item);
    pw_free(item->data);
    free(item->shadow);
    free(item);
}

static void item_copy(struct item *to, const struct item *from, size_t offset) {
    size_t size = (to->size < from->size ? to->size : from->size) - offset;
    pw_copy(to->data + offset, from->data + offset, size);
    memcpy(to->shadow + offset, from->shadow + offset, size);
}

static void item_resize(struct item *item, size_t size) {
    size_t old = item->size;
    item->data = pw_resize(item->data, size);
    item->shadow = realloc(item->shadow, size);
    CHECK(item->data && item->shadow);
    item->size = size;
    if (size > old) {
        pw_zero(item->data + old, size - old);
        memset(item->shadow + old, 0, size - old);
    }
}

static void work_step(struct random *random, struct item **own) {
    struct item **one = &own[random_below(random, OWN)], **other = &own[random_below(random, OWN)];
    switch (random_below(random, 8)) {
    case 0:
        item_delete(*one);
        *one = item_new(random);
        break;
    case 1: { // pass it on, take over what somebody else has left there
        struct item *got = atomic_exchange(&slots[random_below(random, SLOTS)], *one);
        *one = got ? got : item_new(random);
        item_check(*one);
        break;
    }
    case 2:
        item_resize(*one, 8192 + random_below(random, 400 << 10));
        break;
    case 3:
        pw_zero((*one)->data, (*one)->size / 2);
        memset((*one)->shadow, 0, (*one)->size / 2);
        break;
    case 4:
        if (random_chance(random, 20)) {
            pw_trim();
        }
        item_check(*one);
        break;
    default:
        item_copy(*one, *other, random_chance(random, 2) ? 0 : random_below(random, 8000));
        (*one)->data[100] = (*one)->shadow[100] = 5;
        item_check(*one);
        item_check(*other);
    }
}

static void work(struct random *random, int count) {
    struct item *own[OWN];
    for (int i = 0; i < OWN; i++) {
        own[i] = item_new(random);
    }
    for (int i = 0; count < 0 ? !stop : i < count; i++) {
        work_step(random, own);
    }
    for (int i = 0; i < OWN; i++) {
        item_delete(own[i]);
    }
}

static void *worker(void *unused) {
    struct random random = random_from(atomic_fetch_add(&seeds, 1));
    work(&random, -1);
    return unused;
}

static void empty_slots(void) {
    for (int i = 0; i < SLOTS; i++) {
        struct item *item = atomic_exchange(&slots[i], NULL);
        if (item) {
            item_delete(item);
        }
    }
}

// While nobody else runs: what is published now may be shared beside other threads.
static void fill_slots(void) {
    struct random random = random_from(99);
    struct item *last = NULL;
    for (int i = 0; i < SLOTS; i++) {
        struct item *item = item_new(&random);
        if (last) {
            item_copy(item, last, 0);
        }
        atomic_store(&slots[i], last = item);
    }
}

static void run_workers(void (*meanwhile)(void)) {
    pthread_t threads[THREADS];
    fill_slots();
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, worker, NULL) == 0);
    }
    meanwhile();
    stop = true;
    join_all(threads, THREADS);
    empty_slots();
}

static void wait_a_little(void) {
    pause_ms(SECONDS * 1000);
}

static void check_all_given_back(void) {
    pw_trim(); // what waits for more to be given back at once
    struct pw_statistics now = statistics();
    CHECK(PW_THREAD_SANITIZED || now.copies_shared > 0);
    CHECK(now.live_bytes == 0 && now.shared_bytes == 0 && now.snapshots_live == 0);
    CHECK(now.snapshot_bytes == 0);
}

static void mixed_work(void *options) {
    CHECK(pw_start(options));
    run_workers(wait_a_little);
    check_all_given_back();
}

// --- forks meanwhile ----------------------------------------------------------

// In a child of many threads only the forking one is left. It must find usable tables.
static void fork_child(int round) {
    struct random random = random_from((uint64_t)round + 1000);
    alarm(60);
    work(&random, 30);
    _exit(0);
}

static void fork_a_lot(void) {
    for (int round = 0; round < 30; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            fork_child(round);
        }
        pause_ms(5);
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
}

static void forks_meanwhile(void *options) {
    CHECK(pw_start(options));
    run_workers(fork_a_lot);
    // Children that saw the snapshots have all ended: everything can be given back again.
    char *one = pw_allocate(1 << 20), *other = pw_allocate(1 << 20);
    memset(one, 1, 1 << 20);
    pw_copy(other, one, 1 << 20);
    pw_free(one);
    pw_free(other);
    check_all_given_back();
}

static void *fork_worker(void *unused) {
    while (!stop) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            fork_child(1);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
    return unused;
}

static void fork_in_threads(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, fork_worker, NULL) == 0);
    }
    wait_a_little();
    stop = true;
    join_all(threads, 2);
}

static void forks_in_threads(void *options) {
    CHECK(pw_start(options));
    run_workers(fork_in_threads);
}

#ifndef PW_TEST_SANITIZED
// memcpy may be called after _Fork and in a signal handler, with any lock held by a thread that the
// child does not have.
static void raw_fork_a_lot(void) {
    size_t size = 256 << 10;
    unsigned char *one = pw_allocate(size), *other = pw_allocate(size);
    memset(one, 9, size);
    for (int round = 0; round < 300; round++) {
        memset(other, 0, size);
        pid_t child = _Fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(20);
            pw_copy(other, one, size);
            pw_zero(one, size);
            _exit(other[size - 1] == 9 && one[size - 1] == 0 ? 0 : 1);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
        CHECK(one[size / 2] == 9 && other[size / 2] == 0);
    }
    pw_free(one);
    pw_free(other);
}

static void raw_forks_meanwhile(void *options) {
    CHECK(pw_start(options));
    run_workers(raw_fork_a_lot);
}
#endif

// --- writers to neighbouring bytes --------------------------------------------

// A copied range [first, end) of a block, and words right before and after it, each written by one
// thread: in the same pages where the range does not end with a page, else in the next ones.
struct race {
    char *block;
    size_t first, end;
    _Atomic uint64_t *words[8];
    uint64_t counts[8];
};

static _Atomic uint64_t *word_at(struct race *race, size_t offset) {
    return (_Atomic uint64_t *)(race->block + (offset & ~(size_t)7));
}

static void race_start(struct race *race, size_t size, size_t first, size_t end) {
    race->block = pw_allocate(size);
    CHECK(race->block);
    memset(race->block, 0, size);
    // Offsets are from the block's first page; its data begins 16 bytes into it.
    race->first = first - 16;
    race->end = end - 16;
    race->words[0] = word_at(race, race->first - 8);
    race->words[1] = word_at(race, race->end + 7);
    race->words[2] = word_at(race, race->first - 64);
    race->words[3] = word_at(race, race->end + 64);
    race->words[4] = word_at(race, race->first - PAGE);
    race->words[5] = word_at(race, race->end + PAGE);
    race->words[6] = word_at(race, race->first - 2 * PAGE);
    race->words[7] = word_at(race, race->end + 2 * PAGE);
}

static void *race_writer(void *argument) {
    struct race *race = argument;
    while (!stop) {
        for (int i = 0; i < 8; i++) {
            // A load and a store, not one instruction: a remapping in between must not lose it.
            uint64_t value = atomic_load_explicit(race->words[i], memory_order_relaxed);
            CHECK(value == race->counts[i]);
            atomic_store_explicit(race->words[i], value + 1, memory_order_relaxed);
            race->counts[i]++;
        }
    }
    return NULL;
}

static void race_check(const struct race *race) {
    for (int i = 0; i < 8; i++) {
        CHECK(atomic_load(race->words[i]) == race->counts[i]);
        CHECK(race->counts[i] > 100);
    }
}

static void copy_between_writers(size_t first, size_t end) {
    size_t size = end + 4 * PAGE;
    struct race from = {0}, to = {0};
    race_start(&from, size, first, end);
    race_start(&to, size, first, end);
    size_t length = from.end - from.first;
    memset(from.block + from.first, 1, length);
    pw_copy(to.block + to.first, from.block + from.first, length); // publishes, while it may
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, race_writer, &from) == 0);
    CHECK(pthread_create(&threads[1], NULL, race_writer, &to) == 0);
    let_pass(2);
    uint64_t until = pw_os_now_ms() + SECONDS * 1000 / 2;
    unsigned char round = 0;
    while (pw_os_now_ms() < until) {
        from.block[from.first + length / 2] = (char)++round; // written since, and copied
        pw_copy(to.block + to.first, from.block + from.first, length);
        CHECK(to.block[to.first + length / 2] == (char)round && to.block[to.end - 1] == 1);
        memset(to.block + to.first, round + 1, round % 2 ? length / 2 : 1);
        CHECK(from.block[from.first] == 1);
    }
    stop = true;
    let_pass(-2);
    join_and_see_off(threads, 2);
    stop = false;
    race_check(&from);
    race_check(&to);
    pw_free(from.block);
    pw_free(to.block);
}

static void racing_writers(void *options) {
    CHECK(pw_start(options));
    copy_between_writers(3 * PAGE, 35 * PAGE);             // whole pages: neighbours in the next
    copy_between_writers(3 * PAGE + 104, 35 * PAGE + 800); // parts: neighbours in the same pages
    copy_between_writers(3 * PAGE + 8, 2000 * PAGE);       // published in more than one chunk
    CHECK(PW_THREAD_SANITIZED || statistics().copies_shared > 20);
    CHECK(PW_THREAD_SANITIZED || statistics().copies_plain_fallback == 0);
}

// --- writers to the source ------------------------------------------------------

static _Atomic uint64_t *filled;
#define FILLED ((size_t)8 << 20)

static void *fill_again_and_again(void *unused) {
    for (uint64_t round = 1; round <= 20; round++) {
        for (size_t i = 0; i < FILLED / 8; i++) {
            atomic_store_explicit(&filled[i], round, memory_order_relaxed);
        }
    }
    stop = true;
    return unused;
}

// A worker fills a vector while another thread takes copies to show how far it is.
static void copies_of_what_is_being_filled(void *options) {
    CHECK(pw_start(options));
    filled = pw_allocate(FILLED);
    memset((void *)filled, 0, FILLED);
    char *first = pw_allocate(FILLED);
    pw_copy(first, (void *)filled, FILLED); // published already, or not, when the thread begins
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fill_again_and_again, NULL) == 0);
    while (!stop) {
        char *copy = pw_allocate(FILLED);
        pw_copy(copy, (void *)filled, FILLED);
        pw_collection_noticed();
        pw_free(copy);
    }
    join_all(&thread, 1);
    for (size_t i = 0; i < FILLED / 8; i++) {
        CHECK(filled[i] == 20);
    }
}

// --- read(2) into neighbouring bytes ------------------------------------------

struct reader {
    int fd;
    unsigned char *before, *after; // of PAGE bytes each, next to the copied range
    uint64_t bytes;
};

// Blocks in read while the range beside the buffer is being shared.
static void *read_neighbours(void *argument) {
    struct reader *reader = argument;
    unsigned char expected = 0;
    for (int turn = 0;; turn++) {
        unsigned char *buffer = turn % 2 ? reader->before : reader->after;
        ssize_t got = read(reader->fd, buffer, PAGE);
        if (got <= 0) {
            return NULL;
        }
        for (ssize_t i = 0; i < got; i++) {
            CHECK(buffer[i] == expected);
            expected++;
        }
        reader->bytes += (uint64_t)got;
    }
}

static void *write_pipe(void *argument) {
    unsigned char bytes[1500], next = 0;
    while (!stop) {
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] = next++;
        }
        CHECK(write(*(int *)argument, bytes, sizeof bytes) == (ssize_t)sizeof bytes);
    }
    close(*(int *)argument);
    return NULL;
}

static void reads_in_flight(void *options) {
    CHECK(pw_start(options));
    size_t pages = 60, size = (pages + 4) * PAGE;
    unsigned char *blocks[2] = {pw_allocate(size), pw_allocate(size)};
    size_t first = 2 * PAGE + 40, end = (pages + 1) * PAGE + 60; // inside pages, both
    struct reader readers[2];
    pthread_t threads[4];
    int ends[2][2];
    for (int i = 0; i < 2; i++) {
        memset(blocks[i], 1, size);
    }
    pw_copy(blocks[1] + first, blocks[0] + first, end - first); // publishes, while it may
    for (int i = 0; i < 2; i++) {
        CHECK(pipe(ends[i]) == 0);
        readers[i] = (struct reader){ends[i][0], blocks[i] + first - PAGE, blocks[i] + end, 0};
        CHECK(pthread_create(&threads[2 * i], NULL, read_neighbours, &readers[i]) == 0);
        CHECK(pthread_create(&threads[2 * i + 1], NULL, write_pipe, &ends[i][1]) == 0);
    }
    let_pass(4);
    uint64_t until = pw_os_now_ms() + SECONDS * 1000;
    for (unsigned char round = 0; pw_os_now_ms() < until; round++) {
        blocks[0][first + (end - first) / 2] = round;
        pw_copy(blocks[1] + first, blocks[0] + first, end - first);
        CHECK(blocks[1][first + (end - first) / 2] == round && blocks[1][end - 1] == 1);
    }
    stop = true;
    let_pass(-4);
    join_all(threads, 4);
    CHECK(readers[0].bytes > 10000 && readers[1].bytes > 10000);
    CHECK(PW_THREAD_SANITIZED || statistics().copies_shared > 10);
}

// --- the keeper ---------------------------------------------------------------

static void fill_pool(void) {
    char *block = pw_allocate(40 << 20);
    memset(block, 1, 40 << 20);
    pw_free(block);
    CHECK(statistics().cached_bytes >= 40 << 20);
}

// What others do may leave the machine short of memory: the pool goes at once then, whatever the
// options say, and is counted as that.
static bool memory_was_short(void) {
    return statistics().pressure_releases > 0;
}

// What the keeper gives back is counted a moment after it has left the pool.
static bool the_pool_has_gone(void) {
    return statistics().cached_bytes == 0 &&
           (memory_was_short() || statistics().decayed_bytes >= 40 << 20);
}

static void idle_program(void *unused) {
    (void)unused;
    CHECK(pw_start("modules=all"));
    fill_pool();
    for (int i = 0; i < 60 && !the_pool_has_gone(); i++) {
        pause_ms(100);
    }
    CHECK(the_pool_has_gone());
#ifndef PW_TEST_SANITIZED // TSan has a thread of its own
    pause_ms(1500);       // the keeper has nothing left to do
    CHECK(pw_os_thread_count() == 1);
#endif
    char *block = pw_allocate(40 << 20);
    for (size_t i = 0; i < 40 << 20; i += PAGE) {
        CHECK(block[i + 100] == 0);
    }
    pw_free(block);
}

// In a process that does without us the keeper touches nothing, and ends.
static void keeper_of_an_orphan(void *unused) {
    (void)unused;
    CHECK(pw_start("modules=all,decay=4"));
    fill_pool();
    uint64_t before = 0;
    for (bool begun = false; !begun; pause_ms(1)) {
        CHECK(pw_process_enter());
        CHECK(pw_process.keeper_runs);
        begun = pw_process.keeper_thread != 0;
        before = pw_process.arena.warm_pages;
        pw_process_leave();
    }
    __atomic_store_n(&pw_process.orphaned, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 100 && pw_os_thread_count() > 1; i++) {
        pause_ms(100);
    }
    CHECK(pw_process.keeper_runs && pw_process.arena.warm_pages == before);
#ifndef PW_TEST_SANITIZED
    CHECK(pw_os_thread_count() == 1);
#endif
}

// Switched off while the keeper is at work: what is there stays.
static void kept_program(void *unused) {
    (void)unused;
    CHECK(pw_start("modules=all,decay=1"));
    fill_pool();
    CHECK(pw_heap_switch_on("modules=all,decay=0") == NULL);
    uint64_t before = statistics().decayed_bytes;
    pause_ms(3000);
    CHECK(statistics().decayed_bytes == before);
    CHECK(memory_was_short() || statistics().cached_bytes >= 40 << 20);
}

static void many_threads_end(void *options) {
    CHECK(pw_start(options));
    fill_slots();
    for (int round = 0; round < 20; round++) {
        pthread_t threads[THREADS];
        stop = false;
        for (int i = 0; i < THREADS; i++) {
            CHECK(pthread_create(&threads[i], NULL, worker, NULL) == 0);
        }
        pause_ms(20);
        stop = true;
        join_all(threads, THREADS);
    }
    empty_slots();
    check_all_given_back();
}

// --- cancellation --------------------------------------------------------------

static char *cancelled_source, *cancelled_copy;
static atomic_int cancelled_steps;

// With a cancellation pending, none of what malloc, memcpy and memset promise not to be ends it.
static void *work_on_though_cancelled(void *unused) {
    CHECK(pthread_cancel(pthread_self()) == 0);
    size_t size = (size_t)20 << 20;
    memset(cancelled_source, 1, size);
    pw_copy(cancelled_copy, cancelled_source, size); // publishes
    cancelled_steps++;
    cancelled_copy[5 * PAGE] = 2;
    pw_copy(cancelled_source, cancelled_copy, size); // looks at the page map
    cancelled_steps++;
    pw_zero(cancelled_copy, size);
    pw_free(cancelled_copy);
    pw_free(cancelled_source);
    cancelled_steps++;
    pthread_testcancel();
    return unused;
}

static void cancelled_thread(void *options) {
    pw_os_fault_plan(PW_POINT_PAGEMAP_SCAN, ENOTTY, 1, 1); // an older kernel: it is read
    CHECK(pw_start(options));
    cancelled_source = pw_allocate((size_t)20 << 20);
    cancelled_copy = pw_allocate((size_t)20 << 20);
    pthread_t thread;
    void *result = NULL;
    CHECK(pthread_create(&thread, NULL, work_on_though_cancelled, NULL) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(cancelled_steps == 3 && result == PTHREAD_CANCELED);
    CHECK(pw_process_enter()); // nobody has taken the lock along
    pw_process_leave();
}

// --- a child that does without us ----------------------------------------------

static bool entered;

static void look(void) {
    entered = pw_process_enter();
    if (entered) {
        pw_process_leave();
    }
}

// A child of a raw fork, made while another thread was in the middle of our tables, forks in turn:
// other libraries' handlers must not find the tables open.
static void forks_of_an_orphan(void *options) {
    CHECK(pthread_atfork(look, NULL, NULL) == 0); // before ours, so that it runs after it
    CHECK(pw_start(options));
    char *block = pw_allocate(1 << 20);
    int status = -1;
    for (int orphan = 0; orphan < 2; orphan++) {
        entered = !orphan;
        __atomic_store_n(&pw_process.orphaned, orphan == 1, __ATOMIC_RELAXED);
        pid_t child = fork();
        if (child == 0) {
            pw_free(block);
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK(entered == !orphan);
    }
    pw_free(block);
    CHECK(!pw_process_enter());
}

// --- a child that a handler forked while its thread waited ----------------------

static atomic_bool is_held, may_leave, waits;
static pid_t (*forks_by)(void);
static int status_of_child;

static void *hold_lock(void *unused) {
    CHECK(pw_process_enter());
    is_held = true;
    while (!may_leave) {
        usleep(1000);
    }
    pw_process_leave();
    return unused;
}

static void signal_soon(void) {
    struct itimerval soon = {.it_value.tv_usec = 20000};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
}

static void fork_and_wait(int number) {
    (void)number;
    if (!waits) {
        signal_soon(); // a busy machine
        return;
    }
    pid_t child = forks_by();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(signal(SIGALRM, SIG_DFL) != SIG_ERR);
        alarm(20);
        return;
    }
    CHECK(waitpid(child, &status_of_child, 0) == child);
    may_leave = true;
}

// The child does not have the thread that it waits for.
static void wait_and_fork(bool (*enter)(void), pid_t (*how)(void)) {
    pthread_t thread;
    struct sigaction action = {.sa_handler = fork_and_wait};
    pid_t parent = getpid();
    is_held = may_leave = waits = false;
    status_of_child = -1;
    forks_by = how;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, hold_lock, NULL) == 0);
    while (!is_held) {
        usleep(1000);
    }
    signal_soon();
    waits = true;
    bool entered_at_last = enter();
    if (getpid() != parent) {
        _exit(entered_at_last || pw_process_enter() ? 1 : 0);
    }
    CHECK(entered_at_last);
    pw_process_leave();
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(status_of_child == 0);
}

static void forks_while_waiting(void *options) {
    CHECK(pw_start(options));
    pw_free(pw_allocate(1 << 20));
    wait_and_fork(pw_process_enter, fork);
    wait_and_fork(pw_process_wait, fork);
#ifndef PW_TEST_SANITIZED
    wait_and_fork(pw_process_enter, _Fork);
    wait_and_fork(pw_process_wait, _Fork);
#endif
}

// --- a handler's fork while its thread takes the lock, or gives it back ---------

static atomic_int steps_left; // of this process's lock, until a signal comes
static bool child_returns;

static void step(pthread_mutex_t *lock) {
    if (lock == &pw_process.lock && atomic_fetch_sub(&steps_left, 1) == 1) {
        CHECK(raise(SIGUSR1) == 0);
    }
}

int __real_pthread_mutex_trylock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __real_pthread_mutex_clocklock(pthread_mutex_t *lock, clockid_t clock,
                                   const struct timespec *until);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_clocklock(pthread_mutex_t *lock, clockid_t clock,
                                   const struct timespec *until);

int __wrap_pthread_mutex_trylock(pthread_mutex_t *lock) {
    int error = __real_pthread_mutex_trylock(lock);
    step(lock);
    return error;
}

int __wrap_pthread_mutex_clocklock(pthread_mutex_t *lock, clockid_t clock,
                                   const struct timespec *until) {
    int error = __real_pthread_mutex_clocklock(lock, clock, until);
    step(lock);
    return error;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock) {
    step(lock);
    int error = __real_pthread_mutex_unlock(lock);
    step(lock);
    return error;
}

static char *shared_block;
static bool signalled_in_fork;

static void *use_the_heap(void *unused) {
    memset(shared_block, 8, 1 << 20);
    pw_free(shared_block);
    pw_free(pw_allocate(1 << 20));
    return unused;
}

static void fork_with_a_thread(int number) {
    (void)number;
    int status = -1;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) {
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        return;
    }
    pthread_t thread;
    alarm(20);
    if (signalled_in_fork) { // whoever forks has the lock
        fill_pool();
        CHECK(!pw_process.keeper_runs); // which is kept out
    }
    CHECK(pthread_create(&thread, NULL, use_the_heap, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    if (!child_returns) {
        _exit(0);
    }
}

static void allocate_once(void) {
    pw_free(pw_allocate(1 << 20));
}

static void fork_and_wait_for_it(void) {
    int status = -1;
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        _exit(pw_process_enter() ? 0 : 1);
    }
    bool has_ended = waitpid(child, &status, 0) == child && status == 0;
    CHECK(has_ended || getpid() != parent); // whom the handler forked has no such child
}

// False where the work has fewer steps.
static bool fork_at_step(int number, void (*work)(void)) {
    pid_t parent = getpid();
    CHECK(shared_block = pw_allocate(1 << 20));
    steps_left = number;
    work();
    bool is_signalled = steps_left <= 0;
    steps_left = 0;
    if (getpid() != parent) {
        _exit(pw_process_enter() ? 0 : 1); // nobody else is kept out any more
    }
    CHECK(pw_process_enter());
    pw_process_leave();
    pw_free(shared_block);
    return is_signalled;
}

static void forks_at_each_step(void *options) {
    CHECK(pw_start(options));
    pw_free(pw_allocate(1 << 20));
    CHECK(signal(SIGUSR1, fork_with_a_thread) != SIG_ERR);
    void (*works[])(void) = {allocate_once, fork_and_wait_for_it};
    for (int i = 0; i < 4; i++) {
        int number = 1;
        child_returns = i % 2;
        while (fork_at_step(number, works[i / 2])) {
            number++;
        }
        CHECK(number > 3); // it is taken, and given back
    }
}

// Switched on late: forks take the lock already.
static void fork_while_starting(void *options) {
    pid_t parent = getpid();
    CHECK(signal(SIGUSR1, fork_with_a_thread) != SIG_ERR);
    CHECK(shared_block = malloc(1 << 20));
    child_returns = true;
    steps_left = 1;
    alarm(30);
    CHECK(pw_start(options) && steps_left <= 0);
    CHECK(pw_process.pid == getpid() && pw_process_enter());
    if (getpid() != parent) {
        _exit(0);
    }
    pw_process_leave();
}

static void signal_in_fork(void) {
    if (!signalled_in_fork) {
        signalled_in_fork = true;
        CHECK(raise(SIGUSR1) == 0);
    }
}

static void forks_in_a_fork(void *options) {
    pid_t parent = getpid();
    CHECK(pthread_atfork(signal_in_fork, NULL, NULL) == 0); // before ours, so that it runs after
    CHECK(pw_start(options));
    CHECK(signal(SIGUSR1, fork_with_a_thread) != SIG_ERR);
    for (int i = 0; i < 2; i++) {
        CHECK(shared_block = pw_allocate(1 << 20));
        child_returns = i == 1;
        signalled_in_fork = false;
        fork_and_wait_for_it();
        if (getpid() != parent) {
            _exit(pw_process_enter() ? 0 : 1);
        }
        pw_free(shared_block);
    }
}

// --- a fork that takes long -----------------------------------------------------

#define PUT_OFF 1000

static char *to_release[PUT_OFF];

static void *release_all(void *unused) {
    for (int i = 0; i < PUT_OFF; i++) {
        pw_free(to_release[i]);
    }
    return unused;
}

static void wait_for_releases(void) {
    pthread_t thread;
    if (to_release[0]) {
        CHECK(pthread_create(&thread, NULL, release_all, NULL) == 0);
        join_all(&thread, 1);
        to_release[0] = NULL;
    }
}

// Another library's handler waits for a thread that releases blocks, while the fork has the lock.
// All are given back afterwards.
static void releases_during_a_fork(void *options) {
    CHECK(pthread_atfork(wait_for_releases, NULL, NULL) == 0); // before ours, so that it runs after
    CHECK(pw_start(options));
    for (int i = 0; i < PUT_OFF; i++) {
        CHECK(to_release[i] = pw_allocate(64 << 10));
    }
    alarm(60);
    pid_t child = fork();
    if (child == 0) {
        pw_free(pw_allocate(64 << 10));
        _exit(0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(statistics().fallback_fork == PUT_OFF);
    pw_free(pw_allocate(64 << 10));
    CHECK(statistics().live_bytes == 0);
}

static bool is_locked = true;

static void start_keeper_and_wait(void) {
    uint32_t before = pw_process.keepers;
    fill_pool();
    CHECK(pw_process.keepers == before + 1);
    pause_ms(300); // for more than the keeper's patience
    is_locked = pthread_mutex_trylock(&pw_process.lock) != 0;
}

// A keeper that begins while a fork takes long waits for its end, and leaves it its lock.
static void keeper_begins_during_a_fork(void *options) {
    CHECK(pthread_atfork(start_keeper_and_wait, NULL, NULL) == 0); // before ours
    CHECK(pw_start(options));
    alarm(60);
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(is_locked);
}

static atomic_bool forks;

static void fork_slowly(void) {
    forks = true;
    pause_ms(300);
}

static void *fork_once(void *unused) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    return unused;
}

// What must be done before a filter comes into force is done when the fork has ended.
static void sandbox_during_a_fork(void *options) {
    pthread_t thread;
    CHECK(pthread_atfork(fork_slowly, NULL, NULL) == 0); // before ours
    CHECK(pw_start(options));
    fill_pool();
    CHECK(pw_process.keeper_runs);
    CHECK(pthread_create(&thread, NULL, fork_once, NULL) == 0);
    while (!forks) {
        pause_ms(1);
    }
    pw_sandbox_enters();
    CHECK(pw_process.arena.sealed && !pw_process.keeper_runs && pw_process.keeper_failed);
    CHECK(pw_process.arena.warm_pages == 0);
    join_all(&thread, 1);
}

static void release_twice_during_a_fork(void *options) {
    CHECK(pthread_atfork(wait_for_releases, NULL, NULL) == 0);
    CHECK(pw_start(options));
    for (int i = 0; i < PUT_OFF; i++) {
        to_release[i] = i % 2 ? to_release[i - 1] : pw_allocate(64 << 10);
    }
    _exit(fork() == 0 ? 0 : 1);
}

// --- a lock that cannot be had ---------------------------------------------------

static unsigned char *held_from, *held_to;
static bool entered_in_handler = true;

static void copy_in_handler(int number) {
    (void)number;
    entered_in_handler = pw_process_enter();
    pw_copy(held_to, held_from, 1 << 20);
}

// A signal's handler in the middle of our own work would wait for itself.
static void handler_inside(void *options) {
    CHECK(pw_start(options));
    held_from = pw_allocate(1 << 20);
    held_to = pw_allocate(1 << 20);
    memset(held_from, 9, 1 << 20);
    memset(held_to, 0, 1 << 20);
    CHECK(signal(SIGUSR1, copy_in_handler) != SIG_ERR);
    alarm(20);
    CHECK(pw_process_enter());
    CHECK(raise(SIGUSR1) == 0);
    pw_process_leave();
    CHECK(!entered_in_handler);
    CHECK(memcmp(held_from, held_to, 1 << 20) == 0);
}

#ifndef PW_TEST_SANITIZED
static atomic_bool is_held;

static void *hold_the_lock(void *unused) {
    CHECK(pw_process_enter());
    is_held = true;
    while (!stop) {
        pause_ms(1);
    }
    pw_process_leave();
    return unused;
}

// The thread that has the lock is not in the child, which would wait for ever.
static void raw_fork_beside_its_holder(void *options) {
    CHECK(pw_start(options));
    held_from = pw_allocate(1 << 20);
    memset(held_from, 9, 1 << 20);
    pthread_t holder;
    CHECK(pthread_create(&holder, NULL, hold_the_lock, NULL) == 0);
    while (!is_held) {
        pause_ms(1);
    }
    pid_t child = _Fork();
    if (child == 0) {
        alarm(20);
        unsigned char *other = pw_allocate(1 << 20);
        CHECK(other && !pw_process_enter());
        pw_copy(other, held_from, 1 << 20);
        pw_free(held_from);
        _exit(other[0] == 9 && other[(1 << 20) - 1] == 9 ? 0 : 1);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    stop = true;
    CHECK(pthread_join(holder, NULL) == 0);
    CHECK(held_from[12345] == 9);
    pw_free(held_from);
}
#endif

// --- main ---------------------------------------------------------------------

static const char always[] = "modules=all,share=always,threshold=8K,slack=50";
static const char papers[] = "modules=all,policy=share";
// Smaller blocks are the C library's, whose locks TSan does not see.
static const char standard[] = "modules=all,threshold=8K";

static void in_a_child(void (*body)(void *), const char *options) {
    stop = false;
    assert_int_equal(run_in_child(body, (void *)(uintptr_t)options), 0);
}

static void threads_work_on_blocks(void **state) {
    (void)state;
    in_a_child(mixed_work, always);
    in_a_child(mixed_work, papers);
    in_a_child(mixed_work, standard);
}

static void threads_come_and_go(void **state) {
    (void)state;
    in_a_child(many_threads_end, always);
}

// The sanitizers of Debian 12 do not hold their own allocator's locks over a fork: children hang in
// the malloc of a shadow copy, now and then.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FORKS_AND_THREADS 0
#else
#define FORKS_AND_THREADS 1
#endif

static void forks_happen_while_threads_work(void **state) {
    (void)state;
    if (!FORKS_AND_THREADS) {
        skip();
    }
    in_a_child(forks_meanwhile, always);
    in_a_child(forks_meanwhile, papers);
}

static void threads_fork(void **state) {
    (void)state;
    if (!FORKS_AND_THREADS) {
        skip();
    }
    in_a_child(forks_in_threads, always);
}

static void no_store_beside_a_copy_is_lost(void **state) {
    (void)state;
    in_a_child(racing_writers, always);
    in_a_child(racing_writers, papers);
}

static void no_store_to_a_copys_source_is_lost(void **state) {
    (void)state;
    if (PW_THREAD_SANITIZED) {
        skip(); // to copy what another thread writes is a race
    }
    in_a_child(copies_of_what_is_being_filled, always);
    in_a_child(copies_of_what_is_being_filled, papers);
}

static void no_read_beside_a_copy_is_lost(void **state) {
    (void)state;
    in_a_child(reads_in_flight, always);
}

static void an_orphans_keeper_ends(void **state) {
    (void)state;
    in_a_child(keeper_of_an_orphan, NULL);
}

static void a_pool_that_is_to_stay_stays(void **state) {
    (void)state;
    in_a_child(kept_program, NULL);
}

static void an_idle_program_gives_its_pool_back(void **state) {
    (void)state;
    in_a_child(idle_program, NULL);
}

static void a_cancelled_thread_goes_on_to_the_next_point(void **state) {
    (void)state;
    in_a_child(cancelled_thread, "modules=all,mmapcopy=off");
}

static void an_orphan_forks(void **state) {
    (void)state;
    in_a_child(forks_of_an_orphan, standard);
}

static void a_child_does_not_wait_for_whom_its_thread_waited(void **state) {
    (void)state;
    if (!FORKS_AND_THREADS) {
        skip();
    }
    in_a_child(forks_while_waiting, standard);
}

static void a_child_does_not_wait_for_whom_its_handler_interrupted(void **state) {
    (void)state;
    if (!FORKS_AND_THREADS) {
        skip();
    }
    in_a_child(forks_at_each_step, standard);
    in_a_child(forks_in_a_fork, standard);
    in_a_child(fork_while_starting, standard);
}

static void what_is_released_during_a_fork_is_given_back(void **state) {
    (void)state;
    if (!FORKS_AND_THREADS) {
        skip();
    }
    in_a_child(releases_during_a_fork, standard);
    int status = run_in_child(release_twice_during_a_fork, (void *)(uintptr_t)standard);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void a_keeper_waits_for_a_fork(void **state) {
    (void)state;
    if (!FORKS_AND_THREADS) {
        skip();
    }
    in_a_child(keeper_begins_during_a_fork, standard);
}

static void a_sandbox_waits_for_a_fork(void **state) {
    (void)state;
    if (!FORKS_AND_THREADS) {
        skip();
    }
    in_a_child(sandbox_during_a_fork, standard);
}

static void a_handler_inside_does_without_us(void **state) {
    (void)state;
    in_a_child(handler_inside, always);
}

#ifndef PW_TEST_SANITIZED
static void a_raw_child_does_not_wait_for_a_thread_it_has_not(void **state) {
    (void)state;
    in_a_child(raw_fork_beside_its_holder, always);
}

static void copies_work_in_a_raw_fork(void **state) {
    (void)state;
    in_a_child(raw_forks_meanwhile, always);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_released_during_a_fork_is_given_back),
        cmocka_unit_test(a_keeper_waits_for_a_fork),
        cmocka_unit_test(a_sandbox_waits_for_a_fork),
        cmocka_unit_test(a_handler_inside_does_without_us),
#ifndef PW_TEST_SANITIZED
        cmocka_unit_test(a_raw_child_does_not_wait_for_a_thread_it_has_not),
#endif
        cmocka_unit_test(threads_work_on_blocks),
        cmocka_unit_test(threads_come_and_go),
        cmocka_unit_test(forks_happen_while_threads_work),
        cmocka_unit_test(threads_fork),
        cmocka_unit_test(no_store_beside_a_copy_is_lost),
        cmocka_unit_test(no_store_to_a_copys_source_is_lost),
        cmocka_unit_test(no_read_beside_a_copy_is_lost),
        cmocka_unit_test(an_idle_program_gives_its_pool_back),
        cmocka_unit_test(a_pool_that_is_to_stay_stays),
        cmocka_unit_test(an_orphans_keeper_ends),
        cmocka_unit_test(a_cancelled_thread_goes_on_to_the_next_point),
        cmocka_unit_test(an_orphan_forks),
        cmocka_unit_test(a_child_does_not_wait_for_whom_its_thread_waited),
        cmocka_unit_test(a_child_does_not_wait_for_whom_its_handler_interrupted),
#ifndef PW_TEST_SANITIZED
        cmocka_unit_test(copies_work_in_a_raw_fork),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
