// SPDX-License-Identifier: MIT
//
// Zero reclaim at the end of a collection: only while no thread of the program's could write.
#include "block/block.h"
#include "block/keeper.h"
#include "entry/switch.h"
#include "os/fault.h"
#include "process/c_library.h"
#include "process/lock.h"
#include "process/quiet.h"
#include "process/state.h"
#include "runtime/collection.h"
#include "support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;

static void *wait_at_the_door(void *unused) {
    pthread_mutex_lock(&door);
    pthread_mutex_unlock(&door);
    return unused;
}

static uint64_t scans(void) {
    return PW_READ(&pw_process.stats, zero_scans);
}

static uint64_t skipped(void) {
    return PW_READ(&pw_process.stats, fallback_threads);
}

// As R calls it with gc.time(TRUE): at the start and at the end.
static void collect(void) {
    pw_free(pw_allocate(1 << 20));
    pw_collection_getrusage(&pw_process, NULL, 0);
    pw_collection_getrusage(&pw_process, NULL, 0);
}

static uint64_t ends(void) {
    return PW_READ(&pw_process.stats, collections_seen);
}

// Blocks that a package frees between two collections do not make the second one's start an end.
static void a_start_is_no_end(void **state) {
    (void)state;
    void *block = pw_allocate(1 << 20);
    pw_collection_getrusage(&pw_process, NULL, 0);
    uint64_t before = ends();
    pw_free(block);
    pw_free(pw_allocate(1 << 20));
    pw_collection_getrusage(&pw_process, NULL, 0);
    assert_int_equal(ends(), before);
    pw_collection_getrusage(&pw_process, NULL, 0);
    assert_int_equal(ends(), before + 1);
}

// R collects for small objects alone as well; mlr's naiveBayes mostly does.
static void nor_after_small_blocks_alone(void **state) {
    (void)state;
    collect();
    uint64_t before = ends();
    pw_collection_getrusage(&pw_process, NULL, 4096);
    assert_int_equal(ends(), before);
    pw_collection_getrusage(&pw_process, NULL, 4096);
    assert_int_equal(ends(), before + 1);
    pw_collection_getrusage(&pw_process, NULL, 0); // the count was reset
    assert_int_equal(ends(), before + 1);
    pw_collection_getrusage(&pw_process, NULL, 0);
    assert_int_equal(ends(), before + 2);
}

static bool keeper_works(void) {
    for (int i = 0; i < 2000; i++) {
        if (__atomic_load_n(&pw_process.quiet.own, __ATOMIC_SEQ_CST) == 1) {
            return true;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

static void a_lone_thread_searches(void **state) {
    (void)state;
    uint64_t before = scans();
    collect();
    assert_true(scans() > before);
    assert_int_equal(skipped(), 0);
}

static void beside_another_thread_it_does_not(void **state) {
    (void)state;
    pthread_t thread;
    pthread_mutex_lock(&door);
    assert_int_equal(pthread_create(&thread, NULL, wait_at_the_door, NULL), 0);
    uint64_t before = scans(), skips = skipped();
    collect();
    pthread_mutex_unlock(&door);
    pthread_join(thread, NULL);
    assert_int_equal(scans(), before);
    assert_true(skipped() > skips);
}

// Searching for zeros waits for quiet threads. Pages of a snapshot that only a writer owns do not.
static void a_sole_owners_pages_are_given_back_all_the_same(void **state) {
    (void)state;
    const size_t size = (size_t)20 << 20;
    char *source = pw_allocate(size), *copy = pw_allocate(size);
    assert_non_null(source);
    assert_non_null(copy);
    memset(source, 1, size);
    uint64_t shared = PW_READ(&pw_process.stats, copies_shared);
    pw_copy(copy, source, size);
    assert_int_equal(PW_READ(&pw_process.stats, copies_shared), shared + 1);
    pw_free(source);
    if (PW_READ(&pw_process.stats, copies_by_mmapcopy)) {
        pw_free(copy);
        skip(); // there is no snapshot
    }
    pthread_t thread;
    pthread_mutex_lock(&door);
    assert_int_equal(pthread_create(&thread, NULL, wait_at_the_door, NULL), 0);
    for (size_t quarter = 0; quarter < 4; quarter++) {
        uint64_t before = PW_READ(&pw_process.stats, sole_owner_bytes);
        memset(copy + quarter * size / 4, 2, size / 4);
        collect();
        collect();
        assert_true(PW_READ(&pw_process.stats, sole_owner_bytes) > before + size / 5);
    }
    pthread_mutex_unlock(&door);
    pthread_join(thread, NULL);
    pw_free(copy);
}

// A block whose pages were given back is no memory to keep for the next one.
static void what_was_given_back_is_not_warm(void **state) {
    (void)state;
    const size_t size = (size_t)6 << 20;
    pw_trim();
    char *block = pw_allocate(size);
    assert_non_null(block);
    memset(block, 1, size);
    for (size_t at = 0; at < size; at++) {
        ((volatile char *)block)[at] = 0; // the program's own loop, which we do not see
    }
    uint64_t before = PW_READ(&pw_process.stats, zero_reclaimed_bytes);
    collect();
    assert_true(PW_READ(&pw_process.stats, zero_reclaimed_bytes) - before > size / 10 * 9);
    before = PW_READ(&pw_process.stats, cached_bytes);
    pw_free(block);
    assert_true(PW_READ(&pw_process.stats, cached_bytes) < before + ((size_t)1 << 20));
}

static bool keeper_is_wanted(const void *site) {
    char *large = pw_allocate(32 << 20);
    assert_non_null(large);
    memset(large, 1, 32 << 20);
    pw_block_free(&pw_process, large, site);
    assert_true(pw_process_enter());
    bool is_wanted = pw_process.keeper_runs;
    pw_process_leave();
    return is_wanted;
}

// The C library frees the memory of a thread that has ended with a lock held that a new thread
// needs.
static void the_c_librarys_own_free_starts_no_thread(void **state) {
    (void)state;
    pw_trim();
    for (int i = 0; i < 4000 && pw_process.keeper_runs; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_false(keeper_is_wanted((const void *)(uintptr_t)__libc_free));
    assert_true(keeper_is_wanted((const void *)(uintptr_t)keeper_is_wanted));
}

// It would be a thread of that child, which may end with it, or have it live on.
static void nor_does_a_child_that_shares_our_memory(void **state) {
    (void)state;
    pw_keeper_end(&pw_process);
    pid_t child = vfork();
    if (child == 0) {
        _exit(keeper_is_wanted((const void *)(uintptr_t)keeper_is_wanted));
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    assert_true(keeper_is_wanted((const void *)(uintptr_t)keeper_is_wanted));
}

// However late the machine lets the thread begin: the next copy would be made in full.
static void a_keeper_is_known_as_ours_when_the_free_that_started_it_returns(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) {
        pw_keeper_end(&pw_process);
        assert_int_equal(pw_process.quiet.own, 0);
        assert_true(keeper_is_wanted((const void *)(uintptr_t)keeper_is_wanted));
        assert_int_equal(__atomic_load_n(&pw_process.quiet.own, __ATOMIC_SEQ_CST), 1);
        struct pw_caller caller = {.module = PW_MODULE_RUNTIME};
        pw_quiet_look(&caller);
        assert_true(pw_is_quiet(&caller));
    }
}

// Our own thread must not stand for one of the program's.
static void nor_beside_another_thread_and_the_keeper(void **state) {
    char *large = pw_allocate(32 << 20);
    assert_non_null(large);
    memset(large, 1, 32 << 20);
    pw_free(large);
    assert_true(keeper_works());
    uint64_t before = scans();
    collect();
    assert_true(scans() > before);
    beside_another_thread_it_does_not(state);
}

// Its threads are quiet only while it does not run itself.
static void a_blas_that_allocates_starts_no_search(void **state) {
    (void)state;
    setenv("OPENBLAS_NUM_THREADS", "1", 1); // it starts none then
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    const void *blas = library ? dlsym(library, "cblas_dgemm") : NULL;
    if (!blas) {
        skip();
    }
    uint64_t before = PW_READ(&pw_process.stats, zero_pages_checked);
    char *young = pw_allocate(64 << 20);
    assert_non_null(young);
    memset(young, 1, 64 << 20);
    void *more = pw_block_allocate(&pw_process, 128 << 20, 1, false, blas);
    assert_int_equal(PW_READ(&pw_process.stats, zero_pages_checked), before);
    pw_free(pw_allocate(256 << 20)); // the program's own allocation does
    assert_true(PW_READ(&pw_process.stats, zero_pages_checked) > before);
    pw_free(more);
    pw_free(young);
}

#define MATRIX       ((size_t)32 << 20)
#define MOST_VECTORS 2048

static uint64_t reclaimed(void) {
    return PW_READ(&pw_process.stats, zero_reclaimed_bytes);
}

// Make vectors that are too small to be searched for, until zeros are given back or there are
// 512 MB. Returns the bytes of the vectors.
static size_t fill_until_searched(void) {
    enum { VECTOR = 256 << 10 };
    static char *vectors[MOST_VECTORS];
    uint64_t before = reclaimed();
    size_t made = 0;
    while (made < MOST_VECTORS && reclaimed() == before) {
        vectors[made] = pw_allocate(VECTOR);
        assert_non_null(vectors[made]);
        memset(vectors[made++], 1, VECTOR);
    }
    for (size_t i = 0; i < made; i++) {
        pw_free(vectors[i]);
    }
    return made * VECTOR;
}

static char *matrix_of_zeros(void) {
    char *matrix = pw_allocate(MATRIX);
    assert_non_null(matrix);
    for (size_t at = 0; at < MATRIX; at += PW_PAGE) {
        ((volatile char *)matrix)[at] = 0; // the program's own loop, which we do not see
    }
    return matrix;
}

// Long enough that to give its zeros back was worth it.
static void live_on_and_free(char *matrix) {
    for (int i = 0; i < 4; i++) {
        collect();
    }
    pw_free(matrix);
}

// More was asked for once, and never written: by that, nothing here is a peak. By what is there,
// it is, and small vectors make it.
static void a_new_peak_of_what_is_there_starts_a_search(void **state) {
    (void)state;
    pw_free(pw_allocate((size_t)2 << 30));
    pw_trim();
    char *matrix = matrix_of_zeros();
    uint64_t before = reclaimed();
    fill_until_searched();
    assert_true(reclaimed() - before > MATRIX / 10 * 9);
    for (size_t at = 0; at < MATRIX; at++) {
        assert_int_equal(matrix[at], 0);
    }
    pw_free(matrix);
}

static void below_it_nothing_is_searched(void **state) {
    (void)state;
    uint64_t highest = pw_process.collector.highest_resident;
    pw_process.collector.highest_resident = UINT64_MAX / 2;
    char *matrix = matrix_of_zeros();
    assert_int_equal(fill_until_searched(), (size_t)MOST_VECTORS * (256 << 10));
    pw_free(matrix);
    pw_process.collector.highest_resident = highest;
}

// What a search gave back was not needed: the next one comes as early.
static void the_peak_does_not_creep(void **state) {
    (void)state;
    pw_trim();
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); // a large page more or less is all that is looked for
    uint64_t highest = 0;
    for (size_t round = 0; round < 12; round++) {
        char *matrix = matrix_of_zeros();
        size_t some = ((size_t)3 << 20) + round * 700000; // the looks come at other moments
        char *more = pw_allocate(some);
        memset(more, 1, some);
        fill_until_searched();
        pw_free(more);
        live_on_and_free(matrix);
        pw_trim();
        highest = round == 1 ? pw_process.collector.highest_resident : highest;
    }
    prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    assert_true(pw_process.collector.highest_resident <= highest + 512);
}

// Bytes given back of one that is freed before the next collection.
static uint64_t reclaimed_of_a_short_life(void) {
    pw_trim();
    pw_process.collector.highest_resident = 0; // whatever is made, it is a new peak
    uint64_t before = reclaimed();
    char *short_lived = matrix_of_zeros();
    fill_until_searched();
    pw_free(short_lived);
    return reclaimed() - before;
}

// R's logical vectors are mostly zeros, and gone with the next collection. But where that has
// been in vain for little of the time so far, they may be what the peak consists of.
static void what_is_freed_soon_is_searched_while_that_is_cheap(void **state) {
    (void)state;
    assert_true(reclaimed_of_a_short_life() > 0);
    for (int i = 0; i < 4; i++) {
        reclaimed_of_a_short_life();
    }
    assert_true(pw_process.zero_learner.given_in_vain > 0);
    pw_process.zero_learner.given_in_vain += pw_os_thread_cpu_ns(); // however slow the machine is
    assert_int_equal(reclaimed_of_a_short_life(), 0);
    pw_process.zero_learner.given_in_vain = 0;
    assert_true(reclaimed_of_a_short_life() > 0);
}

// A program whose collections are guessed may seem to have thousands in a second.
static void collections_alone_do_not_ask_the_kernel(void **state) {
    (void)state;
    unsigned long before = pw_os_fault_calls(PW_POINT_RESIDENT);
    for (int i = 0; i < 1000; i++) {
        collect();
    }
    assert_true(pw_os_fault_calls(PW_POINT_RESIDENT) < before + 100);
}

#define WRITTEN_PAGES 16384u

static volatile char *written;
static volatile uint32_t stores;

// What a profiler's handler does: it writes where nothing but zeros were.
static void store(int number) {
    (void)number;
    uint32_t page = stores * 7919u % WRITTEN_PAGES;
    written[(size_t)page * PW_PAGE + 8] = 1;
    stores++;
}

// The handler may come between the look at a page and its discard.
static void a_signals_store_is_kept(void **state) {
    (void)state;
    assert_null(pw_heap_switch_on("modules=all,zero=always"));
    char *block = pw_allocate((size_t)(WRITTEN_PAGES + 2) * PW_PAGE);
    assert_non_null(block);
    written = block + 2 * PW_PAGE;
    struct sigaction action = {.sa_handler = store}, before;
    sigaction(SIGALRM, &action, &before);
    struct itimerval fast = {{0, 100}, {0, 100}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &fast, NULL);
    while (stores < 3000) {
        for (size_t page = 0; page < WRITTEN_PAGES; page++) {
            (void)__atomic_fetch_or(&written[page * PW_PAGE], 0, __ATOMIC_RELAXED); // there, zero
        }
        pw_collection_ended();
    }
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &before, NULL);
    for (uint32_t i = 0; i < stores; i++) {
        assert_int_equal(written[(size_t)(i * 7919u % WRITTEN_PAGES) * PW_PAGE + 8], 1);
    }
    pw_free(block);
    assert_null(pw_heap_switch_on("modules=all"));
}

int main(void) {
#ifdef __SANITIZE_THREAD__
    return SKIPPED; // TSan has a thread of its own
#endif
    CHECK(pw_start("modules=all"));
    pw_process.getrusage_works = true; // no guessing from bursts of frees
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_is_no_end),
        cmocka_unit_test(nor_after_small_blocks_alone),
        cmocka_unit_test(a_lone_thread_searches),
        cmocka_unit_test(a_signals_store_is_kept),
        cmocka_unit_test(a_blas_that_allocates_starts_no_search),
        cmocka_unit_test(beside_another_thread_it_does_not),
        cmocka_unit_test(a_sole_owners_pages_are_given_back_all_the_same),
        cmocka_unit_test(what_was_given_back_is_not_warm),
        cmocka_unit_test(a_new_peak_of_what_is_there_starts_a_search),
        cmocka_unit_test(below_it_nothing_is_searched),
        cmocka_unit_test(the_peak_does_not_creep),
        cmocka_unit_test(what_is_freed_soon_is_searched_while_that_is_cheap), // it is learnt
        cmocka_unit_test(collections_alone_do_not_ask_the_kernel),
        cmocka_unit_test(the_c_librarys_own_free_starts_no_thread),
        cmocka_unit_test(nor_does_a_child_that_shares_our_memory),
        cmocka_unit_test(a_keeper_is_known_as_ours_when_the_free_that_started_it_returns),
        cmocka_unit_test(nor_beside_another_thread_and_the_keeper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
