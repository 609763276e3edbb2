// SPDX-License-Identifier: MIT
//
// Plain copies are watched: what the predictor learns from those that were expected to be
// overwritten. How long copies live, of which all are counted. That shared ones need no pages. And
// what is not shared, or does not leave its place, whatever was learnt.
#include "block/fate.h"
#include "block/mapped.h"
#include "os/fault.h"
#include "process/lock.h"
#include "process/state.h"
#include "support.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define SIZE  ((size_t)4 << 20)
#define PAGES ((uint32_t)(SIZE / PW_PAGE))
#define SITE  0x1234u
#define SCORE 5

struct copies {
    char *source, *destination;
    struct pw_prediction *prediction;
};

// A plain copy, watched, of a kind that is expected to be overwritten.
static int start_watching(void **state) {
    static struct copies copies;
    pw_os_fault_clear();
    copies.source = pw_allocate(SIZE);
    copies.destination = pw_allocate(SIZE);
    assert_non_null(copies.source);
    assert_non_null(copies.destination);
    struct random random = random_from(1);
    random_fill(&random, copies.source, SIZE);
    memcpy(copies.destination, copies.source, SIZE);
    struct pw_extent *source = pw_arena_find(&pw_process.arena, copies.source);
    struct pw_extent *destination = pw_arena_find(&pw_process.arena, copies.destination);
    copies.prediction = pw_predictor_entry(&pw_process.predictor, destination->pages, SITE);
    *copies.prediction = (struct pw_prediction){.known = true, .score = SCORE};
    destination->site = SITE;
    assert_true(pw_process_enter());
    pw_fate_watch_plain(&pw_process, copies.prediction, destination, 1, source, 1, PAGES - 1);
    pw_process_leave();
    *state = &copies;
    return 0;
}

static int stop_watching(void **state) {
    struct copies *copies = *state;
    pw_os_fault_clear();
    pw_free(copies->source);
    pw_free(copies->destination);
    return 0;
}

static int look(struct copies *copies) {
    assert_true(pw_process_enter());
    pw_fate_look(&pw_process, copies->prediction);
    pw_process_leave();
    return copies->prediction->score;
}

static void an_untouched_copy_speaks_for_sharing(void **state) {
    struct copies *copies = *state;
    assert_int_equal(look(copies), SCORE - 1);
    assert_int_equal(copies->prediction->watched, 0);
}

static void an_overwritten_copy_speaks_against(void **state) {
    struct copies *copies = *state;
    memset(copies->destination, 1, SIZE);
    assert_int_equal(look(copies), SCORE + 2);
}

static void so_does_an_overwritten_source(void **state) {
    struct copies *copies = *state;
    memset(copies->source, 1, SIZE);
    assert_int_equal(look(copies), SCORE + 2);
}

static void a_few_written_pages_are_no_overwrite(void **state) {
    struct copies *copies = *state;
    memset(copies->destination, 1, SIZE / 4);
    assert_int_equal(look(copies), SCORE - 1);
}

// Pages that the program has altered may wait for somebody who is to fill them.
static void what_was_altered_is_not_read(void **state) {
    struct copies *copies = *state;
    pw_extent_alter(pw_arena_find(&pw_process.arena, copies->source), false);
    assert_int_equal(look(copies), SCORE);
    assert_int_equal(copies->prediction->watched, 0);
}

static void nor_is_an_altered_copy(void **state) {
    struct copies *copies = *state;
    pw_extent_alter(pw_arena_find(&pw_process.arena, copies->destination), false);
    assert_int_equal(look(copies), SCORE);
}

static void the_end_of_the_copy_tells_too(void **state) {
    struct copies *copies = *state;
    memset(copies->destination, 1, SIZE);
    pw_free(copies->destination);
    copies->destination = NULL;
    assert_int_equal(copies->prediction->score, SCORE + 2);
    assert_int_equal(copies->prediction->watched, 0);
}

static void without_its_source_nothing_is_learnt(void **state) {
    struct copies *copies = *state;
    pw_free(copies->source);
    copies->source = NULL;
    assert_int_equal(look(copies), SCORE);
    assert_int_equal(copies->prediction->watched, 0);
}

static void a_page_that_may_not_be_read_is_no_crash(void **state) {
    struct copies *copies = *state;
    char *middle =
        copies->destination - ((uintptr_t)copies->destination & (PW_PAGE - 1)) + SIZE / 2;
    assert_int_equal(mprotect(middle, SIZE / 4, PROT_NONE), 0);
    int score = look(copies);
    assert_int_equal(mprotect(middle, SIZE / 4, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(score, SCORE);
}

static void a_kernel_that_refuses_to_look_teaches_nothing(void **state) {
    struct copies *copies = *state;
    pw_os_fault_plan(PW_POINT_PEEK, ENOSYS, 1, 1);
    errno = 77;
    assert_int_equal(look(copies), SCORE);
    assert_int_equal(errno, 77);
}

#define counted(name) PW_READ(&pw_process.stats, name)

// --- lifetimes ---------------------------------------------------------------

// A new vector and a copy of it, whose pages are all there.
static char *fresh_copy(size_t size, char **source) {
    *source = pw_allocate(size);
    char *copy = pw_allocate(size);
    assert_non_null(*source);
    assert_non_null(copy);
    memset(*source, 7, size);
    pw_copy(copy, *source, size);
    assert_memory_equal(copy, *source, size);
    return copy;
}

static void sources_of_brief_copies_are_not_published(void **state) {
    (void)state;
    const size_t size = (size_t)3 << 20;
    uint64_t published = counted(publishes), brief = counted(copies_plain_brief);
    for (int i = 0; i < 100; i++) {
        char *source, *copy = fresh_copy(size, &source);
        pw_free(copy);
        pw_free(source);
    }
    assert_in_range(counted(publishes) - published, 1, 4);
    assert_in_range(counted(copies_plain_brief) - brief, 96, 99);
}

// Young as they are when the next one is made.
static void sources_of_copies_that_live_on_are(void **state) {
    (void)state;
    enum { KEPT = 20 };
    const size_t size = (size_t)5 << 20;
    char *sources[KEPT], *copies[KEPT];
    uint64_t published = counted(publishes);
    for (int i = 0; i < KEPT; i++) {
        copies[i] = fresh_copy(size, &sources[i]);
    }
    assert_int_equal(counted(publishes) - published, KEPT);
    for (int i = 0; i < KEPT; i++) {
        pw_free(copies[i]);
        pw_free(sources[i]);
    }
}

static struct pw_lifetimes sum_of_lifetimes(void) {
    struct pw_lifetimes sum = {0};
    for (size_t i = 0; i < PW_PREDICTIONS; i++) {
        sum.alive += pw_process.predictor.table[i].lifetimes.alive;
        sum.born_sum += pw_process.predictor.table[i].lifetimes.born_sum;
    }
    return sum;
}

// One that was counted as born and never as ended would look as if it lived for ever.
static void every_copy_that_began_ends(void **state) {
    (void)state;
    enum { SLOTS = 8, LARGEST = 600 };
    struct pw_lifetimes before = sum_of_lifetimes();
    char *blocks[SLOTS] = {0};
    size_t sizes[SLOTS] = {0};
    struct random random = random_from(11);
    for (int step = 0; step < 4000; step++) {
        unsigned to = random_below(&random, SLOTS), from = random_below(&random, SLOTS);
        size_t size = (size_t)(32 + random_below(&random, LARGEST)) * PW_PAGE;
        switch (random_below(&random, 5)) {
        case 0:
            pw_free(blocks[to]);
            blocks[to] = pw_allocate(sizes[to] = size);
            memset(blocks[to], step, size);
            break;
        case 1:
            if (blocks[to]) {
                blocks[to] = pw_resize(blocks[to], sizes[to] = size);
            }
            break;
        case 2:
            if (blocks[to]) {
                pw_zero(blocks[to], sizes[to]);
            }
            break;
        default:
            if (blocks[to] && blocks[from] && to != from) {
                pw_copy(blocks[to], blocks[from],
                        sizes[to] < sizes[from] ? sizes[to] : sizes[from]);
            }
            break;
        }
    }
    assert_true(sum_of_lifetimes().alive > before.alive);
    for (int i = 0; i < SLOTS; i++) {
        pw_free(blocks[i]);
    }
    assert_int_equal(sum_of_lifetimes().alive, before.alive);
    assert_int_equal(sum_of_lifetimes().born_sum, before.born_sum);
}

// What the random steps taught of hundreds of sizes: one of them may have the entry of another.
static int forget(void **state) {
    (void)state;
    assert_int_equal(sum_of_lifetimes().alive, 0);
    memset(&pw_process.predictor, 0, sizeof pw_process.predictor);
    return 0;
}

// --- what a block is when it ends ----------------------------------------------

// It gave up what it shared, and is a source now.
static void a_copy_that_was_overwritten_is_none_any_more(void **state) {
    (void)state;
    const size_t size = (size_t)18 << 20;
    char *source, *copy = fresh_copy(size, &source), *later = pw_allocate(size);
    pw_zero(copy, size);
    memset(copy, 3, size);
    uint64_t shared = counted(copies_shared);
    pw_copy(later, copy, size);
    assert_int_equal(counted(copies_shared), shared + 1);
    uint64_t told = counted(predictor_hits) + counted(predictor_misses);
    pw_free(copy);
    assert_int_equal(counted(predictor_hits) + counted(predictor_misses), told);
    pw_free(later);
    assert_int_equal(counted(predictor_hits) + counted(predictor_misses), told + 1);
    pw_free(source);
}

// Pages of a pool, or of a snapshot's mapping: where they cannot be replaced, nobody gets them.
static void fixed_pages_that_cannot_be_replaced_are_put_aside(void **state) {
    (void)state;
    char *block = pw_allocate(SIZE);
    memset(block, 1, SIZE);
    struct pw_extent *extent = pw_arena_find(&pw_process.arena, block);
    extent->fixed = true;
    uint64_t cached = counted(cached_bytes);
    pw_os_fault_plan(PW_POINT_MAP_BLANK, ENOMEM, 1, 1);
    pw_free(block);
    pw_os_fault_clear();
    assert_int_equal(extent->state, PW_EXTENT_LOST);
    assert_int_equal(counted(cached_bytes), cached);
}

// --- large pages that are touched beforehand -----------------------------------

// Two blocks of a size that the runtime has filled: the next one's large pages would be touched.
static struct pw_huge_price *price_of_filled(uint32_t pages) {
    struct pw_huge_price *price = &pw_process.huge_price;
    *price = (struct pw_huge_price){.cost = 1};
    pw_huge_decide(price, pages, true);
    pw_huge_decide(price, pages, true);
    assert_int_equal(pw_huge_decide(price, pages, true), PW_HUGE_TRY);
    return price;
}

static void a_size_that_is_shared_gets_no_pages_beforehand(void **state) {
    (void)state;
    const size_t size = (size_t)24 << 20;
    uint64_t shared = counted(copies_shared);
    char *source = pw_allocate(size), *copy = pw_allocate(size);
    uint32_t pages = pw_arena_find(&pw_process.arena, copy)->pages;
    struct pw_huge_price *price = price_of_filled(pages);
    memset(source, 7, size);
    pw_copy(copy, source, size);
    assert_int_equal(counted(copies_shared) - shared, 1);
    assert_int_equal(pw_huge_decide(price, pages, true), PW_HUGE_ADVISE);
    pw_free(copy);
    pw_free(source);
}

static void neither_does_one_that_is_filled_with_zero(void **state) {
    (void)state;
    const size_t size = (size_t)40 << 20;
    char *block = pw_allocate(size);
    uint32_t pages = pw_arena_find(&pw_process.arena, block)->pages;
    struct pw_huge_price *price = price_of_filled(pages);
    pw_zero(block, size);
    assert_int_equal(pw_huge_decide(price, pages, true), PW_HUGE_ADVISE);
    pw_free(block);
}

// --- what may be published, and moved ----------------------------------------

// A page that the program has protected by a call that nobody saw stays so.
static void what_was_protected_unseen_is_not_published(void **state) {
    (void)state;
    char *source = pw_allocate(SIZE), *copy = pw_allocate(SIZE);
    char *page = (char *)(((uintptr_t)source + 8 * PW_PAGE) & ~(uintptr_t)(PW_PAGE - 1));
    struct pw_os_maps maps;
    bool ordinary = false, known = false;
    int ends[2];
    memset(source, 1, SIZE);
    assert_int_equal(mprotect(page, PW_PAGE, PROT_READ), 0);
    if (pw_os_maps_open(&maps)) {
        known = pw_os_maps_ordinary(&maps, page, PW_PAGE, &ordinary);
        pw_os_maps_close(&maps);
    }
    if (!known) {
        skip(); // Linux 6.11 tells
    }
    pw_copy(copy, source, SIZE);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(read(ends[0], page, 1), -1);
    assert_int_equal(errno, EFAULT);
    close(ends[0]);
    close(ends[1]);
    assert_memory_equal(copy, source, SIZE);
    assert_int_equal(mprotect(page, PW_PAGE, PROT_READ | PROT_WRITE), 0);
    pw_free(source);
    pw_free(copy);
}

#ifndef __SANITIZE_THREAD__ // which has a thread of its own
static void *wait_for_end(void *end) {
    char byte;
    return read(*(int *)end, &byte, 1) == 0 ? end : NULL;
}

// Its pages would be read from the snapshot when that has gone.
static void what_cannot_leave_its_snapshot_is_not_moved(void **state) {
    (void)state;
    char *source = pw_allocate(SIZE), *copy = pw_allocate(SIZE);
    long page = (long)(((uintptr_t)copy + 8 * PW_PAGE) & ~(uintptr_t)(PW_PAGE - 1));
    const long arguments[6] = {page, 4 * PW_PAGE, 4 * PW_PAGE, MREMAP_MAYMOVE};
    const void *site = (const void *)(uintptr_t)read; // not of our own code
    pthread_t thread;
    int ends[2];
    memset(source, 1, SIZE);
    pw_copy(copy, source, SIZE);
    assert_int_not_equal(pw_arena_find(&pw_process.arena, copy)->snapshot, 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_end, &ends[0]), 0);
    assert_true(pw_mapping_call_begins(&pw_process, SYS_mremap, arguments, site).refused);
    // Nor is the source replaced for a lock: the thread could store to it meanwhile.
    long other = (long)(((uintptr_t)source + 8 * PW_PAGE) & ~(uintptr_t)(PW_PAGE - 1));
    const long lock[6] = {other, 4 * PW_PAGE};
    assert_false(pw_mapping_call_begins(&pw_process, SYS_mlock, lock, site).refused);
    assert_int_not_equal(pw_arena_find(&pw_process.arena, source)->snapshot, 0);
    close(ends[1]);
    pthread_join(thread, NULL);
    close(ends[0]);
    for (int i = 0; i < 5000 && pw_os_thread_count() > 1; i++) {
        usleep(1000);
    }
    assert_false(pw_mapping_call_begins(&pw_process, SYS_mremap, arguments, site).refused);
    assert_memory_equal(copy, source, SIZE);
    pw_free(source);
    pw_free(copy);
}
#endif

#define WATCHED(test)  cmocka_unit_test_setup_teardown(test, start_watching, stop_watching)
#define UNTAUGHT(test) cmocka_unit_test_setup(test, forget)

int main(void) {
    CHECK(pw_start("modules=all,decay=0")); // no keeper: faults are planned without a lock
    const struct CMUnitTest tests[] = {
        WATCHED(an_untouched_copy_speaks_for_sharing),
        WATCHED(an_overwritten_copy_speaks_against),
        WATCHED(so_does_an_overwritten_source),
        WATCHED(a_few_written_pages_are_no_overwrite),
        WATCHED(what_was_altered_is_not_read),
        WATCHED(nor_is_an_altered_copy),
        WATCHED(the_end_of_the_copy_tells_too),
        WATCHED(without_its_source_nothing_is_learnt),
        WATCHED(a_page_that_may_not_be_read_is_no_crash),
        WATCHED(a_kernel_that_refuses_to_look_teaches_nothing),
        cmocka_unit_test(sources_of_brief_copies_are_not_published),
        cmocka_unit_test(sources_of_copies_that_live_on_are),
        cmocka_unit_test(every_copy_that_began_ends),
        UNTAUGHT(a_copy_that_was_overwritten_is_none_any_more),
        cmocka_unit_test(fixed_pages_that_cannot_be_replaced_are_put_aside),
        UNTAUGHT(a_size_that_is_shared_gets_no_pages_beforehand),
        cmocka_unit_test(neither_does_one_that_is_filled_with_zero),
        UNTAUGHT(what_was_protected_unseen_is_not_published),
#ifndef __SANITIZE_THREAD__
        UNTAUGHT(what_cannot_leave_its_snapshot_is_not_moved),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
