// SPDX-License-Identifier: MIT
//
// Collections asked of R: of whom, and what it is then told.
#include "entry/switch.h"
#include "os/fault.h"
#include "process/state.h"
#include "runtime/collection.h"
#include "runtime/r/ask.h"
#include "support.h"

// --- of whom -------------------------------------------------------------------

static void *attempts[2];

static __attribute__((noinline)) bool comes_first(size_t size) {
    return pw_r_collection_comes_first(&pw_process, size, __builtin_return_address(0));
}

// As R's memory.c: malloc, else collect garbage and try again, else "cannot allocate vector".
PW_API __attribute__((noinline)) void *Rf_allocVector3(size_t size);
void *Rf_allocVector3(size_t size) {
    for (int attempt = 0; attempt < 2; attempt++) {
        if (!comes_first(size)) {
            return attempts[attempt] = pw_allocate(size);
        }
    }
    return NULL;
}

static bool comes_first_of_allocator(size_t size) {
    return pw_r_collection_comes_first(&pw_process, size, (const void *)(pw_process.allocator + 1));
}

static void *vector(size_t size) {
    attempts[0] = attempts[1] = NULL;
    return Rf_allocVector3(size);
}

static uint64_t asked(void) {
    return PW_READ(&pw_process.stats, collections_asked);
}

static void an_allocator_that_tries_again_gets_its_vector(void **state) {
    (void)state;
    uint64_t before = asked();
    pw_os_fault_plan(PW_POINT_ROOM, ENOMEM, 1, 1);
    void *block = vector(64 << 20);
    pw_os_fault_clear();
    assert_non_null(block);
    assert_null(attempts[0]);
    assert_ptr_equal(attempts[1], block);
    assert_int_equal(asked(), before + 1);
    pw_free(block);
}

static void *garbage;

// The collection frees 200 MB into the pool, of which 32 MB were missing and the request needs
// some.
static uint64_t kept_of_garbage(size_t request) {
    pw_process.collector = (struct pw_collector){0};
    pw_trim();
    garbage = memset(pw_allocate(200 << 20), 1, 200 << 20);
    pw_os_fault_plan(PW_POINT_ROOM, ENOMEM, 1, 1);
    assert_true(comes_first_of_allocator(request));
    pw_os_fault_clear();
    pw_free(garbage);
    garbage = NULL;
    assert_false(comes_first_of_allocator(request));
    uint64_t kept = pw_process.arena.warm_pages * PW_PAGE;
    pw_trim();
    return kept;
}

static void what_was_missing_goes_back_to_the_system(void **state) {
    (void)state;
    assert_in_range(kept_of_garbage(8 << 20), 164 << 20, 169 << 20);
}

static void but_nothing_that_the_request_needs(void **state) {
    (void)state;
    assert_in_range(kept_of_garbage(199 << 20), 196 << 20, 201 << 20);
}

static void with_room_nobody_waits(void **state) {
    (void)state;
    uint64_t before = asked();
    void *block = vector(64 << 20);
    assert_non_null(attempts[0]);
    assert_int_equal(asked(), before);
    pw_free(block);
}

static void switched_off_nobody_is_asked(void **state) {
    (void)state;
    pw_os_fault_plan(PW_POINT_ROOM, ENOMEM, 1, 1);
    pw_process.collector = (struct pw_collector){0};
    pw_process.options.relieve = PW_RELIEVE_OFF; // as pw_switch_on does with other options
    void *block = vector(64 << 20);
    pw_process.options.relieve = PW_RELIEVE_SHORT;
    pw_os_fault_clear();
    assert_non_null(attempts[0]);
    pw_free(block);
}

static void others_never_see_a_failure(void **state) {
    (void)state;
    pw_os_fault_plan(PW_POINT_ROOM, ENOMEM, 1, 1);
    pw_process.collector = (struct pw_collector){0};
    assert_false(pw_r_collection_comes_first(&pw_process, 64 << 20, (const void *)vector));
    assert_false(pw_r_collection_comes_first(&pw_process, 64 << 20, NULL));
    assert_false(pw_r_collection_comes_first(&pw_process, SIZE_MAX, (const void *)Rf_allocVector3));
    assert_false(pw_r_collection_comes_first(&pw_process, 2000, (const void *)Rf_allocVector3));
    pw_os_fault_clear();
}

// --- before R would begin one ----------------------------------------------------

static bool collector_is_seen;

// As R's memory.c: malloc, else collect garbage and try again.
static void *vector_of_a_collector(size_t size) {
    if (comes_first_of_allocator(size)) {
        if (collector_is_seen) {
            pw_collection_getrusage(&pw_process, NULL, 0);
        }
        pw_free(garbage);
        garbage = NULL;
        if (collector_is_seen) {
            pw_collection_getrusage(&pw_process, NULL, 0);
        }
        assert_false(comes_first_of_allocator(size)); // not twice in a row
    }
    return pw_allocate(size);
}

static void make_garbage(bool seen) {
    pw_process.collector = (struct pw_collector){
        .until = pw_os_thread_cpu_ns(), .running = 1000000000, .found_much = true};
    pw_process.collector.of[PW_REASON_CHEAP].in_vain = 2;
    pw_process.getrusage_works = true;
    collector_is_seen = seen;
    garbage = pw_allocate(200 << 20);
    pw_collection_getrusage(&pw_process, NULL,
                            0); // nothing was allocated since: neither start nor end is clear
}

static void garbage_is_collected_before_r_would(void **state) {
    (void)state;
    make_garbage(true);
    uint64_t before = asked(), seen = PW_READ(&pw_process.stats, collections_seen);
    uint64_t bytes = PW_READ(&pw_process.stats, collections_asked_bytes);
    void *block = vector_of_a_collector(100 << 20);
    assert_non_null(block);
    assert_null(garbage);
    assert_int_equal(asked(), before + 1);
    assert_in_range(PW_READ(&pw_process.stats, collections_asked_bytes) - bytes, 200 << 20,
                    201 << 20);
    assert_int_equal(PW_READ(&pw_process.stats, collections_seen), seen + 1);
    pw_free(block);
}

// R's own collections take a third of the time: no more are asked for, but before a new peak.
static void collections_are_dear(uint64_t highest_resident, bool written) {
    make_garbage(true);
    if (written) {
        memset(garbage, 1, 200 << 20);
    }
    uint64_t now = pw_os_thread_cpu_ns();
    while (now < 1500000000) { // the last full one is so long ago
        now = pw_os_thread_cpu_ns();
    }
    pw_process.collector = (struct pw_collector){.of[PW_REASON_CHEAP].spent = 500000000,
                                                 .floors = {256, 256},
                                                 .last_full = 1,
                                                 .last_took = now / 100,
                                                 .full_took = now / 100,
                                                 .found_much = true,
                                                 .running = 1500000000,
                                                 .until = now,
                                                 .highest_resident = highest_resident};
}

static void before_a_new_peak_garbage_is_collected(void **state) {
    (void)state;
    collections_are_dear(0, true);
    uint64_t before = asked();
    void *block = vector_of_a_collector(100 << 20);
    assert_null(garbage);
    assert_int_equal(asked(), before + 1);
    assert_true(pw_process.collector.of[PW_REASON_PEAK].spent > 0);
    pw_free(block);
}

static void r_is_left_alone(void) {
    uint64_t before = asked();
    void *block = vector_of_a_collector(100 << 20);
    assert_non_null(garbage);
    assert_int_equal(asked(), before);
    pw_free(garbage);
    pw_free(block);
}

static void below_the_peak_r_is_left_alone(void **state) {
    (void)state;
    collections_are_dear(UINT64_MAX / 2, true);
    r_is_left_alone();
    pw_process.collector.highest_resident = 0;
}

// Nothing of the garbage was ever written: to collect it would not make the process smaller.
static void what_is_not_there_is_left_alone(void **state) {
    (void)state;
    collections_are_dear(0, false);
    r_is_left_alone();
}

// The kernel may not say what is resident: then what is live and warm is compared.
static void without_the_kernels_count_it_is_our_own(void **state) {
    (void)state;
    pw_os_fault_plan(PW_POINT_RESIDENT, EIO, 1, 1000);
    collections_are_dear(0, true);
    void *block = vector_of_a_collector(100 << 20);
    pw_os_fault_clear();
    assert_null(garbage);
    pw_free(block);
}

static void an_end_that_was_not_seen_blocks_nobody(void **state) {
    (void)state;
    make_garbage(false);
    uint64_t before = asked();
    void *block = vector_of_a_collector(8 << 20);
    assert_null(garbage);
    assert_int_equal(asked(), before + 1);
    assert_int_equal(pw_process.collector.asked, PW_REASON_NONE);
    assert_int_equal(pw_process.collector.last_full, 0); // it may not have been made
    pw_free(block);
}

// What was learnt is of the parent's clock; and a full collection writes to every object, which a
// child shares with its parent until then.
static void a_child_begins_anew(void **state) {
    (void)state;
    make_garbage(true);
    pid_t child = fork();
    if (child == 0) {
        void *block = vector_of_a_collector(100 << 20);
        CHECK(block && garbage);
        CHECK(!pw_process.collector.found_much);
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    pw_free(garbage);
}

static void so_do_other_options(void **state) {
    (void)state;
    make_garbage(true);
    assert_null(pw_heap_switch_on("policy=auto,modules=all"));
    void *block = vector_of_a_collector(100 << 20);
    assert_non_null(garbage);
    pw_free(garbage);
    pw_free(block);
}

static void where_it_is_off_or_blind_r_is_left_alone(void **state) {
    (void)state;
    make_garbage(true);
    pw_process.options.early = false;
    void *block = vector_of_a_collector(8 << 20);
    assert_non_null(garbage);
    pw_process.options.early = true;
    pw_process.getrusage_works = false; // no collection is seen, so none can be timed
    void *other = vector_of_a_collector(8 << 20);
    assert_non_null(garbage);
    pw_free(garbage);
    pw_free(block);
    pw_free(other);
}

static void room_is_what_the_machine_says(void **state) {
    (void)state;
    struct pw_os_room room = pw_os_memory_room();
    assert_true(room.memory > 0);
    assert_true(room.memory < (uint64_t)1 << 50); // every kernel of today has MemAvailable
    assert_true(room.swap < (uint64_t)1 << 50);
}

int main(void) {
    CHECK(pw_start("policy=auto,modules=all"));
    pw_r_find_allocator(&pw_process);
    CHECK(pw_process.allocator == (uintptr_t)Rf_allocVector3);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allocator_that_tries_again_gets_its_vector),
        cmocka_unit_test(what_was_missing_goes_back_to_the_system),
        cmocka_unit_test(but_nothing_that_the_request_needs),
        cmocka_unit_test(with_room_nobody_waits),
        cmocka_unit_test(switched_off_nobody_is_asked),
        cmocka_unit_test(others_never_see_a_failure),
        cmocka_unit_test(garbage_is_collected_before_r_would),
        cmocka_unit_test(what_is_not_there_is_left_alone), // before others write the same pages
        cmocka_unit_test(before_a_new_peak_garbage_is_collected),
        cmocka_unit_test(below_the_peak_r_is_left_alone),
        cmocka_unit_test(without_the_kernels_count_it_is_our_own),
        cmocka_unit_test(an_end_that_was_not_seen_blocks_nobody),
        cmocka_unit_test(a_child_begins_anew),
        cmocka_unit_test(so_do_other_options),
        cmocka_unit_test(where_it_is_off_or_blind_r_is_left_alone),
        cmocka_unit_test(room_is_what_the_machine_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
