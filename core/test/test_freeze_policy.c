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

static void short_programs_are_left_alone(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    assert_false(pw_freeze_pays(&schedule, 0));
    // 100 ms, ten times a second: a freeze costs 200 ms, and may cost a sixteenth part.
    uint64_t when = run_until_it_pays(&schedule, 0, 100 * MS, 50 * MS, 100000 * MS);
    assert_true(when >= 16 * 100 * MS);
    assert_true(when <= 18 * 100 * MS);
}

static void long_programs_that_rarely_collect_are_left_alone(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t when = run_until_it_pays(&schedule, 0, 100000 * MS, 100 * MS, 600000 * MS);
    assert_true(when >= 600000 * MS); // six collections: as much as two freezes
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
    pw_freeze_tried(&schedule, now, now + 100 * MS);
    uint64_t when = run_until_it_pays(&schedule, now, 100 * MS, 45 * MS, 100 * now);
    assert_true(when >= 100 * now);
}

static void packages_that_come_later_are_frozen_later(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    uint64_t now = run_until_it_pays(&schedule, 0, 100 * MS, 50 * MS, 100000 * MS);
    pw_freeze_tried(&schedule, now, now + 100 * MS);
    uint64_t when = run_until_it_pays(&schedule, now, 100 * MS, 20 * MS, 100 * now);
    assert_true(when >= 2 * now); // not before the program has run as long again
    assert_true(when < 3 * now);
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
    pw_freeze_tried(&schedule, now, now + 100 * MS);
    now = run_until_it_pays(&schedule, now, 100 * MS, 45 * MS, 4 * now);
    pw_freeze_note_loaded(&schedule, 7, now);
    uint64_t when = run_until_it_pays(&schedule, now, 100 * MS, 45 * MS, 100 * now);
    assert_true(when < 2 * now);
}

static void a_clock_that_goes_back_counts_nothing(void **state) {
    (void)state;
    struct pw_freeze_schedule schedule = {0};
    pw_freeze_collection_ended(&schedule, 5000 * MS); // no beginning was seen
    pw_freeze_collection_began(&schedule, 9000 * MS);
    pw_freeze_collection_ended(&schedule, 10 * MS);
    assert_int_equal(schedule.spent, 0);
    assert_int_equal(schedule.longest, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_programs_are_left_alone),
        cmocka_unit_test(long_programs_that_rarely_collect_are_left_alone),
        cmocka_unit_test(young_collections_do_not_count),
        cmocka_unit_test(what_did_not_help_is_not_tried_again),
        cmocka_unit_test(packages_that_come_later_are_frozen_later),
        cmocka_unit_test(nothing_is_frozen_while_packages_are_loaded),
        cmocka_unit_test(what_was_in_vain_is_tried_again_when_more_was_loaded),
        cmocka_unit_test(a_clock_that_goes_back_counts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
