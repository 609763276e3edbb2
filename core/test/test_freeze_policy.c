// SPDX-License-Identifier: MIT
//
// When it pays to freeze what packages brought: twice the cost must have gone to collections, and
// what may be lost is a small part of the time.
#include "policy/freeze_schedule.h"
#include "support.h"

#define MS UINT64_C(1000000)

// A program that collects for `took` once in `every` ns, until it pays or `end` is reached.
static uint64_t run_until_it_pays(struct pw_freeze_schedule *schedule, uint64_t now, uint64_t every,
                                  uint64_t took, uint64_t end) {
    while (now < end && !pw_freeze_pays(schedule, now)) {
        pw_freeze_collection_began(schedule, now); // a young one between two full ones
        pw_freeze_collection_ended(schedule, now + MS);
        now += every;
        pw_freeze_collection_began(schedule, now - took);
        pw_freeze_collection_ended(schedule, now);
    }
    return now;
}

static void was_frozen(struct pw_freeze_schedule *schedule, uint64_t now) {
    struct pw_freeze_try attempt = {.done = true, .start = now, .end = now + 100 * MS};
    pw_freeze_tried(schedule, &attempt);
}

static void short_programs_are_left_alone(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    assert_false(pw_freeze_pays(&schedule, 0));
    // 50 ms, ten times a second: a freeze costs 100 ms, and may cost an eighth.
    uint64_t when = run_until_it_pays(&schedule, 0, 100 * MS, 50 * MS, 100000 * MS);
    assert_true(when >= 8 * 100 * MS);
    assert_true(when <= 9 * 100 * MS);
}

static void rare_collections_wait_for_what_a_freeze_costs(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t when = run_until_it_pays(&schedule, 0, 100000 * MS, 100 * MS, 1000000 * MS);
    assert_true(when >= 800000 * MS); // sixteen young and full ones
    assert_true(when < 1000000 * MS);
}

static void young_collections_do_not_count(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t when = run_until_it_pays(&schedule, 0, 10 * MS, MS, 1000000 * MS);
    assert_true(when >= 1000000 * MS);
}

static void what_did_not_help_is_not_tried_again(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t now = run_until_it_pays(&schedule, 0, 100 * MS, 50 * MS, 100000 * MS);
    was_frozen(&schedule, now);
    uint64_t when = run_until_it_pays(&schedule, now, 100 * MS, 45 * MS, 100 * now);
    assert_true(when >= 100 * now);
}

static void packages_that_come_later_are_frozen_later(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t now = run_until_it_pays(&schedule, 0, 100 * MS, 50 * MS, 100000 * MS);
    was_frozen(&schedule, now);
    assert_true(run_until_it_pays(&schedule, now, 100 * MS, 30 * MS, 3 * now) >= 3 * now);
    pw_freeze_note_loaded(&schedule, 7, 3 * now);
    uint64_t when = run_until_it_pays(&schedule, 3 * now, 100 * MS, 70 * MS, 100 * now);
    assert_true(when >= 4 * now); // nothing came in the last quarter
    assert_true(when < 5 * now);
}

static void nothing_is_frozen_while_packages_are_loaded(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t now = 0;
    for (size_t loaded = 1; loaded <= 100; loaded++) {
        pw_freeze_note_loaded(&schedule, loaded, now);
        uint64_t end = now + 100 * MS;
        now = run_until_it_pays(&schedule, now, 10 * MS, 50 * MS, end);
        assert_true(now >= end);
    }
    pw_freeze_note_loaded(&schedule, 100, now);
    uint64_t when = run_until_it_pays(&schedule, now, 10 * MS, 50 * MS, 10 * now);
    assert_true(when >= 4 * (now - 100 * MS) / 3); // nothing came in the last quarter
    assert_true(when < 3 * now / 2);
}

static void what_was_in_vain_is_tried_again_when_more_was_loaded(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t now = run_until_it_pays(&schedule, 0, 100 * MS, 50 * MS, 100000 * MS);
    was_frozen(&schedule, now);
    now = run_until_it_pays(&schedule, now, 100 * MS, 45 * MS, 4 * now);
    assert_true(schedule.in_vain);
    pw_freeze_thawed(&schedule);
    pw_freeze_note_loaded(&schedule, 7, now);
    uint64_t when = run_until_it_pays(&schedule, now, 100 * MS, 45 * MS, 100 * now);
    assert_true(when < 2 * now);
}

// What full collections still take with all of it frozen, no other freeze can save.
// What full collections still take with all of it frozen, no other freeze can save.
static void a_small_package_is_not_worth_another_freeze(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t now = run_until_it_pays(&schedule, 0, 100 * MS, 50 * MS, 100000 * MS);
    was_frozen(&schedule, now);
    now = run_until_it_pays(&schedule, now, 100 * MS, 20 * MS, 2 * now);
    pw_freeze_note_loaded(&schedule, 7, now);
    // But when all of it is renewed, as that takes a sixty-fourth of the time.
    uint64_t when = run_until_it_pays(&schedule, now, 100 * MS, 20 * MS, 100 * now);
    assert_true(when >= 6400 * MS);
    assert_true(when < 6600 * MS);
    assert_false(schedule.in_vain);
}

static void what_could_not_be_frozen_is_tried_again(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t now = run_until_it_pays(&schedule, 0, 100 * MS, 50 * MS, 100000 * MS);
    struct pw_freeze_try attempt = {.start = now, .end = now + 10 * MS};
    pw_freeze_tried(&schedule, &attempt);
    uint64_t when = run_until_it_pays(&schedule, now, 100 * MS, 50 * MS, 100 * now);
    assert_true(when >= 2 * now); // when the program has run as long again
    assert_true(when < 3 * now);
}

static void a_renewed_freeze_is_not_compared_with_itself(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t now = run_until_it_pays(&schedule, 0, 100 * MS, 50 * MS, 100000 * MS);
    was_frozen(&schedule, now);
    now = run_until_it_pays(&schedule, now, 100 * MS, 20 * MS, 100 * now);
    pw_freeze_thawed(&schedule);
    struct pw_freeze_try attempt = {.again = true, .done = true, .start = now, .end = now + MS};
    pw_freeze_tried(&schedule, &attempt);
    run_until_it_pays(&schedule, now, 100 * MS, 20 * MS, 3 * now);
    assert_false(schedule.in_vain);
}

// Its collections copy what they write to.
static void a_child_neither_judges_nor_renews(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t now = run_until_it_pays(&schedule, 0, 100 * MS, 50 * MS, 100000 * MS);
    was_frozen(&schedule, now);
    pw_freeze_forked(&schedule);
    assert_true(run_until_it_pays(&schedule, now, 100 * MS, 90 * MS, 100 * now) >= 100 * now);
    assert_false(schedule.in_vain);
}

// The program's own data may grow.
static void what_comes_late_is_no_fault_of_the_freeze(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t now = run_until_it_pays(&schedule, 0, 100 * MS, 50 * MS, 100000 * MS);
    was_frozen(&schedule, now);
    now = run_until_it_pays(&schedule, now, 100 * MS, 20 * MS, now + 6400 * MS);
    run_until_it_pays(&schedule, now, 100 * MS, 200 * MS, now + 10000 * MS);
    assert_false(schedule.in_vain);
}

// A look before each collection costs about as much as a young one.
static void what_looks_would_cost_is_not_for_few_full_ones(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t now = 0;
    for (int i = 0; i < 100000; i++, now += 20 * MS) { // 23 ms more in each 41 collections
        pw_freeze_collection_began(&schedule, now);
        pw_freeze_collection_ended(&schedule, now + (i % 41 == 0 ? 26 * MS : 3 * MS));
        assert_false(pw_freeze_pays(&schedule, now));
    }
}

static void looks_that_cost_what_was_saved_are_in_vain(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t now = run_until_it_pays(&schedule, 0, 100 * MS, 50 * MS, 100000 * MS);
    was_frozen(&schedule, now);
    struct pw_freeze_schedule other = schedule;
    for (int i = 0; i < 40; i++, now += 50 * MS) { // 10 ms for 27, and 23
        pw_freeze_looked(&schedule, 3 * MS);
        pw_freeze_looked(&other, 16 * MS);
        pw_freeze_collection_began(&schedule, now);
        pw_freeze_collection_began(&other, now);
        pw_freeze_collection_ended(&schedule, now + 7 * MS);
        pw_freeze_collection_ended(&other, now + 7 * MS);
        assert_int_equal(other.in_vain, i + 1 >= 16);
    }
    assert_false(schedule.in_vain);
    pw_freeze_thawed(&other);
    assert_true(run_until_it_pays(&other, now, 100 * MS, 50 * MS, 100 * now) >= 100 * now);
}

static void what_was_given_back_is_frozen_again(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t now = run_until_it_pays(&schedule, 0, 100 * MS, 50 * MS, 100000 * MS);
    was_frozen(&schedule, now);
    pw_freeze_thawed(&schedule); // a namespace was unloaded, or somebody waits for a frozen node
    uint64_t when = run_until_it_pays(&schedule, now, 100 * MS, 50 * MS, 100 * now);
    assert_true(when >= 2 * now);
    assert_true(when < 3 * now);
}

static void a_clock_that_goes_back_counts_nothing(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    pw_freeze_collection_ended(&schedule, 5000 * MS); // no beginning was seen
    pw_freeze_collection_began(&schedule, 9000 * MS);
    pw_freeze_collection_ended(&schedule, 10 * MS);
    assert_int_equal(schedule.since_frozen.time, 0);
    assert_int_equal(schedule.longest, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_programs_are_left_alone),
        cmocka_unit_test(rare_collections_wait_for_what_a_freeze_costs),
        cmocka_unit_test(young_collections_do_not_count),
        cmocka_unit_test(what_did_not_help_is_not_tried_again),
        cmocka_unit_test(packages_that_come_later_are_frozen_later),
        cmocka_unit_test(nothing_is_frozen_while_packages_are_loaded),
        cmocka_unit_test(what_was_in_vain_is_tried_again_when_more_was_loaded),
        cmocka_unit_test(a_small_package_is_not_worth_another_freeze),
        cmocka_unit_test(what_could_not_be_frozen_is_tried_again),
        cmocka_unit_test(a_renewed_freeze_is_not_compared_with_itself),
        cmocka_unit_test(a_child_neither_judges_nor_renews),
        cmocka_unit_test(what_comes_late_is_no_fault_of_the_freeze),
        cmocka_unit_test(what_looks_would_cost_is_not_for_few_full_ones),
        cmocka_unit_test(looks_that_cost_what_was_saved_are_in_vain),
        cmocka_unit_test(what_was_given_back_is_frozen_again),
        cmocka_unit_test(a_clock_that_goes_back_counts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
