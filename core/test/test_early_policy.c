// SPDX-License-Identifier: MIT
//
// Collections asked of R before it begins one: when, and how many.
#include "policy/early.h"
#include "support.h"

enum { MEGABYTE = 256 };                                 // in pages
static const uint64_t MS = 1000000, SECOND = 1000000000; // in nanoseconds

// A collection of R's that began at `now`, with as much garbage as it left; returns what it freed
// of those that were asked for.
static uint64_t collection(struct pw_early *early, uint64_t now, uint64_t took, uint64_t left) {
    pw_early_began(early, 2 * left, now);
    return pw_early_ended(early, left, now + took);
}

static uint64_t collection_in_vain(struct pw_early *early, uint64_t now, uint64_t took,
                                   uint64_t left) {
    pw_early_began(early, left + left / 4, now);
    return pw_early_ended(early, left, now + took);
}

static struct pw_early after_full_one(uint64_t live) {
    struct pw_early early = {0};
    collection(&early, 10 * SECOND, 20 * MS, live);
    return early;
}

static bool asks(struct pw_early *early, uint64_t live, uint64_t now) {
    return pw_early_is_due(early, live) && pw_early_ask(early, live, now);
}

static void garbage_is_half_of_what_lives(void **state) {
    (void)state;
    struct pw_early early = after_full_one(200 * MEGABYTE);
    assert_false(asks(&early, 299 * MEGABYTE, 11 * SECOND));
    assert_true(asks(&early, 301 * MEGABYTE, 11 * SECOND));
    assert_int_equal(collection(&early, 12 * SECOND, 20 * MS, 180 * MEGABYTE), 121 * MEGABYTE);
}

static void a_small_program_is_left_alone(void **state) {
    (void)state;
    struct pw_early early = after_full_one(10 * MEGABYTE);
    assert_false(asks(&early, 73 * MEGABYTE, 11 * SECOND));
    assert_true(asks(&early, 75 * MEGABYTE, 11 * SECOND));
}

static void what_lives_varies(void **state) {
    (void)state;
    struct pw_early early = after_full_one(200 * MEGABYTE);
    collection(&early, 20 * SECOND, 20 * MS, 100 * MEGABYTE);
    assert_false(asks(&early, 299 * MEGABYTE, 21 * SECOND));
    collection(&early, 30 * SECOND, 20 * MS, 100 * MEGABYTE);
    assert_false(asks(&early, 163 * MEGABYTE, 31 * SECOND));
    assert_true(asks(&early, 165 * MEGABYTE, 31 * SECOND));
}

static void a_minor_one_says_nothing_of_what_lives(void **state) {
    (void)state;
    struct pw_early early = after_full_one(200 * MEGABYTE);
    assert_true(asks(&early, 400 * MEGABYTE, 11 * SECOND));
    collection(&early, 12 * SECOND, 20 * MS, 200 * MEGABYTE);
    assert_int_equal(collection(&early, 13 * SECOND, 1 * MS, 290 * MEGABYTE), 0);
    collection(&early, 14 * SECOND, 1 * MS, 290 * MEGABYTE);
    assert_true(asks(&early, 301 * MEGABYTE, 15 * SECOND));
}

// R lets its heap grow after each full collection that found little.
static void nothing_is_asked_for_where_there_was_no_garbage(void **state) {
    (void)state;
    struct pw_early early = {0};
    collection_in_vain(&early, 10 * SECOND, 20 * MS, 200 * MEGABYTE);
    assert_false(asks(&early, 400 * MEGABYTE, 11 * SECOND)); // R is reading data
    collection(&early, 12 * SECOND, 1 * MS, 200 * MEGABYTE);
    assert_true(asks(&early, 400 * MEGABYTE, 13 * SECOND));
    collection_in_vain(&early, 14 * SECOND, 20 * MS, 200 * MEGABYTE);
    assert_true(asks(&early, 400 * MEGABYTE, 15 * SECOND));
    collection_in_vain(&early, 16 * SECOND, 20 * MS, 200 * MEGABYTE);
    collection_in_vain(&early, 17 * SECOND, 1 * MS, 220 * MEGABYTE); // R's own: says nothing
    assert_true(asks(&early, 400 * MEGABYTE, 18 * SECOND));
    collection_in_vain(&early, 19 * SECOND, 20 * MS, 200 * MEGABYTE);
    assert_false(asks(&early, 400 * MEGABYTE, 20 * SECOND)); // three were in vain
    collection(&early, 21 * SECOND, 1 * MS, 200 * MEGABYTE);
    assert_true(asks(&early, 400 * MEGABYTE, 22 * SECOND));
}

static void one_is_asked_for_at_a_time(void **state) {
    (void)state;
    struct pw_early early = after_full_one(200 * MEGABYTE);
    assert_true(asks(&early, 301 * MEGABYTE, 11 * SECOND));
    assert_false(asks(&early, 401 * MEGABYTE, 11 * SECOND));
    collection(&early, 12 * SECOND, 20 * MS, 400 * MEGABYTE);
    assert_false(asks(&early, 590 * MEGABYTE, 13 * SECOND));
    assert_true(asks(&early, 610 * MEGABYTE, 13 * SECOND));
}

// However fast it makes garbage: of all the time, an eighth is spent on collections.
static void they_stay_cheap(void **state) {
    (void)state;
    struct pw_early early = after_full_one(200 * MEGABYTE);
    uint64_t now = 11 * SECOND, began = now, spent = 0;
    for (int i = 0; i < 2000; i++, now += 20 * MS) {
        if (asks(&early, 400 * MEGABYTE, now)) {
            collection(&early, now, 150 * MS, 200 * MEGABYTE);
            now += 150 * MS;
            spent += 150 * MS;
        }
        early.looked_at = 0; // as if the program had grown
    }
    assert_in_range(spent, (now - began) / 14, (now - began) / 8);
}

static void who_collects_much_is_left_alone(void **state) {
    (void)state;
    struct pw_early early = {0};
    uint64_t now = 10 * SECOND;
    for (int i = 0; i < 50; i++, now += SECOND) {
        collection(&early, now, 150 * MS, 200 * MEGABYTE);
        assert_true(i < 5 || !asks(&early, 400 * MEGABYTE, now + SECOND / 2));
    }
    assert_true(asks(&early, 403 * MEGABYTE, now + 20 * SECOND)); // it has stopped that
}

// Where nothing was asked for because it was not cheap, the clock is not read at each request.
static void the_clock_is_read_every_two_megabytes(void **state) {
    (void)state;
    struct pw_early early = after_full_one(200 * MEGABYTE);
    assert_true(pw_early_is_due(&early, 301 * MEGABYTE));
    assert_false(pw_early_is_due(&early, 302 * MEGABYTE));
    assert_true(pw_early_is_due(&early, 303 * MEGABYTE));
}

// R asks for the time at proc.time() as well: what then looks like a collection of an hour is none.
static void nobody_collects_for_an_hour(void **state) {
    (void)state;
    struct pw_early early = after_full_one(200 * MEGABYTE);
    collection(&early, 100 * SECOND, 3600 * SECOND, 200 * MEGABYTE);
    assert_false(asks(&early, 401 * MEGABYTE, 3701 * SECOND));
    assert_true(asks(&early, 404 * MEGABYTE, 3720 * SECOND));
}

// The clock of a fork's child begins again.
static void a_childs_clock_is_behind(void **state) {
    (void)state;
    struct pw_early early = {0};
    for (uint64_t now = 10 * SECOND; now < 20 * SECOND; now += SECOND) {
        collection(&early, now, 500 * MS, 200 * MEGABYTE);
    }
    assert_false(asks(&early, 400 * MEGABYTE, 1 * MS));
    collection(&early, 2 * MS, 1 * MS, 200 * MEGABYTE);
    assert_false(asks(&early, 403 * MEGABYTE, 10 * MS));
    assert_true(asks(&early, 406 * MEGABYTE, 40 * SECOND));
}

static void an_end_without_a_start_takes_no_time(void **state) {
    (void)state;
    struct pw_early early = after_full_one(200 * MEGABYTE);
    for (int i = 0; i < 100; i++) {
        pw_early_ended(&early, 200 * MEGABYTE, 11 * SECOND + (uint64_t)i * MS);
    }
    assert_true(asks(&early, 301 * MEGABYTE, 12 * SECOND));
    assert_int_equal(pw_early_ended(&early, 400 * MEGABYTE, 13 * SECOND), 0); // more than before
    assert_int_equal(early.hopes, 2);                                         // one in vain
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_is_half_of_what_lives),
        cmocka_unit_test(a_small_program_is_left_alone),
        cmocka_unit_test(what_lives_varies),
        cmocka_unit_test(a_minor_one_says_nothing_of_what_lives),
        cmocka_unit_test(nothing_is_asked_for_where_there_was_no_garbage),
        cmocka_unit_test(one_is_asked_for_at_a_time),
        cmocka_unit_test(they_stay_cheap),
        cmocka_unit_test(who_collects_much_is_left_alone),
        cmocka_unit_test(the_clock_is_read_every_two_megabytes),
        cmocka_unit_test(nobody_collects_for_an_hour),
        cmocka_unit_test(a_childs_clock_is_behind),
        cmocka_unit_test(an_end_without_a_start_takes_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
