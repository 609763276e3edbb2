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
    return pw_early_is_due(early, live, 0) && pw_early_ask(early, live, 0, now);
}

// Where the process would become larger than it ever was.
static bool asks_at_peak(struct pw_early *early, uint64_t live, uint64_t request, uint64_t now) {
    return pw_early_is_due(early, live, request) && !pw_early_ask(early, live, request, now) &&
           pw_early_ask_at_peak(early, live, live, now);
}

// A second and a half after the last of those below.
static const uint64_t LATER = 60700 * (uint64_t)1000000;

// R's own full ones take a fifth of the time, and find half of what was live to be garbage.
static struct pw_early after_dear_ones(uint64_t live) {
    struct pw_early early = {0};
    for (uint64_t now = 50 * SECOND; now < 60 * SECOND; now += SECOND) {
        collection(&early, now, 200 * MS, live);
    }
    return early;
}

static void garbage_is_half_of_what_lives(void **state) {
    (void)state;
    struct pw_early early = after_full_one(200 * MEGABYTE);
    assert_false(asks(&early, 299 * MEGABYTE, 11 * SECOND));
    assert_true(asks(&early, 301 * MEGABYTE, 11 * SECOND));
    assert_int_equal(collection(&early, 11 * SECOND, 20 * MS, 180 * MEGABYTE), 121 * MEGABYTE);
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
    for (uint64_t now = 20 * SECOND; now < 23 * SECOND; now += SECOND) {
        collection(&early, now, 20 * MS, 100 * MEGABYTE);
        assert_false(asks(&early, 299 * MEGABYTE, now + SECOND / 2));
    }
    collection(&early, 30 * SECOND, 20 * MS, 100 * MEGABYTE);
    assert_false(asks(&early, 163 * MEGABYTE, 31 * SECOND));
    assert_true(asks(&early, 165 * MEGABYTE, 31 * SECOND));
}

static void a_minor_one_says_nothing_of_what_lives(void **state) {
    (void)state;
    struct pw_early early = after_full_one(200 * MEGABYTE);
    assert_true(asks(&early, 400 * MEGABYTE, 11 * SECOND));
    collection(&early, 11 * SECOND, 20 * MS, 200 * MEGABYTE);
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
    collection(&early, 12 * SECOND, 1 * MS, 200 * MEGABYTE); // a minor one: it was young
    assert_false(asks(&early, 400 * MEGABYTE, 12 * SECOND + 500 * MS));
    collection(&early, 12 * SECOND + 600 * MS, 20 * MS, 200 * MEGABYTE);
    assert_true(asks(&early, 301 * MEGABYTE, 13 * SECOND));
    collection(&early, 13 * SECOND, 20 * MS, 280 * MEGABYTE);
    assert_true(asks(&early, 421 * MEGABYTE, 15 * SECOND));
    collection(&early, 15 * SECOND, 20 * MS, 400 * MEGABYTE);
    collection_in_vain(&early, 17 * SECOND, 1 * MS, 450 * MEGABYTE); // R's own: says nothing
    assert_true(asks(&early, 601 * MEGABYTE, 18 * SECOND));
    collection(&early, 18 * SECOND, 20 * MS, 580 * MEGABYTE);
    assert_false(asks(&early, 900 * MEGABYTE, 20 * SECOND)); // three were in vain
    collection(&early, 21 * SECOND, 20 * MS, 300 * MEGABYTE);
    assert_true(asks(&early, 900 * MEGABYTE, 22 * SECOND));
}

static void one_is_asked_for_at_a_time(void **state) {
    (void)state;
    struct pw_early early = after_full_one(200 * MEGABYTE);
    assert_true(asks(&early, 301 * MEGABYTE, 11 * SECOND));
    assert_false(asks(&early, 401 * MEGABYTE, 11 * SECOND));
    collection(&early, 11 * SECOND, 20 * MS, 280 * MEGABYTE);
    assert_false(asks(&early, 419 * MEGABYTE, 13 * SECOND));
    assert_true(asks(&early, 422 * MEGABYTE, 13 * SECOND));
}

// A collection that takes seconds is one that was asked for, if no other call can be meant.
static void what_was_asked_for_costs_what_it_takes(void **state) {
    (void)state;
    struct pw_early early = after_full_one(200 * MEGABYTE);
    assert_true(asks(&early, 301 * MEGABYTE, 100 * SECOND));
    collection(&early, 100 * SECOND, 5 * SECOND, 200 * MEGABYTE);
    assert_false(asks(&early, 304 * MEGABYTE, 150 * SECOND));
    assert_true(asks(&early, 307 * MEGABYTE, 200 * SECOND));
}

// Its end may be taken for another start: the time runs from where it was asked for.
static void a_start_does_not_begin_it_again(void **state) {
    (void)state;
    struct pw_early early = after_full_one(200 * MEGABYTE);
    assert_true(asks(&early, 301 * MEGABYTE, 11 * SECOND));
    pw_early_began(&early, 100 * MEGABYTE, 11 * SECOND + 150 * MS);
    pw_early_ended(&early, 100 * MEGABYTE, 11 * SECOND + 151 * MS);
    assert_int_equal(early.full_took, 151 * MS);
    assert_int_equal(early.vain_left, 3);
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
    assert_true(pw_early_is_due(&early, 301 * MEGABYTE, 0));
    assert_false(pw_early_is_due(&early, 302 * MEGABYTE, 0));
    assert_true(pw_early_is_due(&early, 303 * MEGABYTE, 0));
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

// Between collections for small objects alone nothing is allocated that we see: a start looks like
// an end.
static void an_end_without_a_start_may_be_one(void **state) {
    (void)state;
    struct pw_early early = after_full_one(200 * MEGABYTE);
    uint64_t now = 20 * SECOND;
    for (int i = 0; i < 20; i++, now += SECOND) {
        pw_early_ended(&early, 400 * MEGABYTE, now);
        pw_early_ended(&early, 200 * MEGABYTE, now + 200 * MS);
    }
    assert_int_equal(early.floors[0], 200 * MEGABYTE);
    assert_false(asks(&early, 301 * MEGABYTE, now)); // a fifth of the time
}

static void a_request_is_no_garbage_at_a_peak(void **state) {
    (void)state;
    struct pw_early early = after_dear_ones(400 * MEGABYTE);
    assert_false(asks_at_peak(&early, 499 * MEGABYTE, 0, LATER));
    assert_false(asks_at_peak(&early, 499 * MEGABYTE, 90 * MEGABYTE, LATER));
    assert_true(asks_at_peak(&early, 501 * MEGABYTE, 92 * MEGABYTE, LATER));
    assert_int_equal(collection(&early, LATER, 200 * MS, 300 * MEGABYTE), 201 * MEGABYTE);
}

static void a_small_program_may_have_a_new_peak(void **state) {
    (void)state;
    struct pw_early early = after_dear_ones(10 * MEGABYTE);
    assert_false(asks_at_peak(&early, 73 * MEGABYTE, 0, LATER));
    assert_true(asks_at_peak(&early, 76 * MEGABYTE, 0, LATER));
}

// Where collections are cheap more garbage is waited for: they are asked for at any time.
static void the_cheap_rule_goes_first(void **state) {
    (void)state;
    struct pw_early early = after_full_one(400 * MEGABYTE);
    assert_false(asks_at_peak(&early, 599 * MEGABYTE, 0, 60 * SECOND));
    assert_true(asks(&early, 602 * MEGABYTE, 60 * SECOND));
}

// Right after a full one there is little that the next could find.
static void two_at_peaks_are_apart(void **state) {
    (void)state;
    struct pw_early early = after_dear_ones(400 * MEGABYTE);
    collection(&early, 60 * SECOND, 400 * MS, 400 * MEGABYTE);
    uint64_t last = 60 * SECOND + 400 * MS;
    assert_false(asks_at_peak(&early, 600 * MEGABYTE, 0, last + 1990 * MS));
    assert_true(asks_at_peak(&early, 602 * MEGABYTE, 0, last + 2010 * MS));
    collection(&early, last + 2010 * MS, 400 * MS, 400 * MEGABYTE);
    last += 2410 * MS;
    assert_false(asks_at_peak(&early, 600 * MEGABYTE, 0, last + 1990 * MS));
    assert_true(asks_at_peak(&early, 602 * MEGABYTE, 0, last + 2010 * MS));
}

// Who makes a full one ten times a second needs no more, however short they are.
static void so_are_short_ones(void **state) {
    (void)state;
    struct pw_early early = {0};
    uint64_t now = 50 * SECOND;
    for (; now < 60 * SECOND; now += 100 * MS) {
        collection(&early, now, 20 * MS, 400 * MEGABYTE);
    }
    uint64_t last = now - 80 * MS;
    assert_false(asks_at_peak(&early, 600 * MEGABYTE, 0, last + 190 * MS));
    early.until = last + 1390 * MS; // as if others had taken the time since
    assert_false(asks_at_peak(&early, 602 * MEGABYTE, 0, last + 1390 * MS));
    assert_true(asks_at_peak(&early, 604 * MEGABYTE, 0, last + 1410 * MS));
}

// Copies that share pages, and zeros that were given back: to free them would give nothing back.
static void what_is_not_there_is_no_garbage(void **state) {
    (void)state;
    struct pw_early early = after_dear_ones(400 * MEGABYTE);
    assert_false(pw_early_ask_at_peak(&early, 700 * MEGABYTE, 499 * MEGABYTE, LATER));
    assert_true(pw_early_ask_at_peak(&early, 700 * MEGABYTE, 501 * MEGABYTE, LATER));
}

// No full one was seen: nothing is known of what lives. So it is in a fork's child.
static void before_the_first_full_one_nothing_is_asked_for(void **state) {
    (void)state;
    struct pw_early early = {0};
    assert_false(asks_at_peak(&early, 600 * MEGABYTE, 0, 100 * SECOND));
    collection(&early, 100 * SECOND, 1 * MS, 600 * MEGABYTE);
    assert_false(asks_at_peak(&early, 800 * MEGABYTE, 0, 110 * SECOND));
}

// A computation in folds has most alive once in each.
static void at_a_peak_what_lives_is_looked_at_longer(void **state) {
    (void)state;
    struct pw_early early = after_dear_ones(600 * MEGABYTE);
    for (uint64_t now = 60 * SECOND; now < 63 * SECOND; now += SECOND) {
        collection(&early, now, 200 * MS, 400 * MEGABYTE);
    }
    assert_false(asks_at_peak(&early, 740 * MEGABYTE, 0, 63 * SECOND + 700 * MS));
    collection(&early, 64 * SECOND, 200 * MS, 400 * MEGABYTE);
    assert_true(asks_at_peak(&early, 740 * MEGABYTE, 0, 65 * SECOND + 700 * MS));
}

// With large packages those of the middle generation take 20 ms, and a full one 200.
static void a_longer_one_tells_what_is_full(void **state) {
    (void)state;
    struct pw_early early = after_dear_ones(400 * MEGABYTE);
    collection_in_vain(&early, 60 * SECOND, 40 * MS, 700 * MEGABYTE);
    assert_int_equal(early.floors[0], 400 * MEGABYTE);
    assert_true(asks_at_peak(&early, 703 * MEGABYTE, 0, 62 * SECOND));
}

// What took a second was none, but R's calls of getrusage elsewhere: it is forgotten.
static void a_longer_one_is_forgotten(void **state) {
    (void)state;
    struct pw_early early = after_full_one(400 * MEGABYTE);
    collection(&early, 20 * SECOND, 3600 * SECOND, 900 * MEGABYTE);
    uint64_t now = 4000 * SECOND;
    for (int i = 0; i < 200; i++, now += SECOND) {
        collection(&early, now, 1 * MS, 900 * MEGABYTE);
    }
    collection(&early, now, 20 * MS, 300 * MEGABYTE);
    assert_int_equal(early.floors[0], 300 * MEGABYTE);
}

// Each in vain doubles the garbage that the next one waits for; one of use halves it. The others
// may still be asked for.
static void peaks_in_vain_are_waited_out(void **state) {
    (void)state;
    struct pw_early early = after_dear_ones(400 * MEGABYTE);
    assert_true(asks_at_peak(&early, 520 * MEGABYTE, 0, LATER));
    collection(&early, LATER, 200 * MS, 400 * MEGABYTE);
    assert_int_equal(early.vain_left, 3);
    assert_false(asks_at_peak(&early, 660 * MEGABYTE, 0, 63 * SECOND));
    assert_true(asks_at_peak(&early, 670 * MEGABYTE, 0, 63 * SECOND));
    collection(&early, 63 * SECOND, 200 * MS, 400 * MEGABYTE);
    assert_true(asks_at_peak(&early, 510 * MEGABYTE, 0, 66 * SECOND));
}

static void however_often_they_are_in_vain(void **state) {
    (void)state;
    struct pw_early early = after_dear_ones(400 * MEGABYTE);
    for (uint64_t now = 1000 * SECOND, i = 0; i < 80; i++, now += 5 * SECOND) {
        early.at_peak = early.asked = true;
        collection(&early, now, 200 * MS, 400 * MEGABYTE);
        early.at_peak = early.asked = true;
        early.began_with = 400 * MEGABYTE;
        early.began = now + SECOND;
        pw_early_ended(&early, 400 * MEGABYTE, now + SECOND + 200 * MS);
        early.at_peak = early.asked = true;
        pw_early_unseen(&early, 400 * MEGABYTE, now + 2 * SECOND);
    }
    assert_int_equal(early.peaks_vain, 6);
}

// However many new peaks: of all the time, a twentieth is spent on them.
static void peaks_stay_cheap(void **state) {
    (void)state;
    struct pw_early early = after_dear_ones(400 * MEGABYTE);
    uint64_t now = 60 * SECOND, spent = 0;
    for (int i = 0; i < 8000; i++, now += 20 * MS) {
        if (asks_at_peak(&early, 700 * MEGABYTE, 0, now)) {
            collection(&early, now, 300 * MS, 400 * MEGABYTE);
            now += 300 * MS;
            spent += 300 * MS;
        } else if (i % 100 == 0) { // R collects as well, so that the cheap rule is not in force
            collection(&early, now, 300 * MS, 400 * MEGABYTE);
            now += 300 * MS;
        }
        early.looked_at = 0; // as if the program had grown
    }
    assert_in_range(spent, now / 25, now / 20);
    assert_int_equal(early.peaks_spent, spent);
}

// R makes none while it converts a vector: nothing was learnt of what lives.
static void one_that_was_not_made_says_nothing(void **state) {
    (void)state;
    struct pw_early early = after_dear_ones(400 * MEGABYTE);
    assert_true(asks_at_peak(&early, 600 * MEGABYTE, 0, LATER));
    assert_int_equal(pw_early_unseen(&early, 599 * MEGABYTE, LATER), MEGABYTE);
    assert_false(early.asked);
    assert_int_equal(early.floors[0], 400 * MEGABYTE);
    assert_int_equal(early.peaks_vain, 1);
    assert_int_equal(early.vain_left, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_is_half_of_what_lives),
        cmocka_unit_test(a_small_program_is_left_alone),
        cmocka_unit_test(what_lives_varies),
        cmocka_unit_test(a_minor_one_says_nothing_of_what_lives),
        cmocka_unit_test(nothing_is_asked_for_where_there_was_no_garbage),
        cmocka_unit_test(one_is_asked_for_at_a_time),
        cmocka_unit_test(what_was_asked_for_costs_what_it_takes),
        cmocka_unit_test(a_start_does_not_begin_it_again),
        cmocka_unit_test(they_stay_cheap),
        cmocka_unit_test(who_collects_much_is_left_alone),
        cmocka_unit_test(the_clock_is_read_every_two_megabytes),
        cmocka_unit_test(nobody_collects_for_an_hour),
        cmocka_unit_test(a_childs_clock_is_behind),
        cmocka_unit_test(an_end_without_a_start_may_be_one),
        cmocka_unit_test(a_request_is_no_garbage_at_a_peak),
        cmocka_unit_test(a_small_program_may_have_a_new_peak),
        cmocka_unit_test(the_cheap_rule_goes_first),
        cmocka_unit_test(two_at_peaks_are_apart),
        cmocka_unit_test(so_are_short_ones),
        cmocka_unit_test(what_is_not_there_is_no_garbage),
        cmocka_unit_test(before_the_first_full_one_nothing_is_asked_for),
        cmocka_unit_test(at_a_peak_what_lives_is_looked_at_longer),
        cmocka_unit_test(a_longer_one_tells_what_is_full),
        cmocka_unit_test(a_longer_one_is_forgotten),
        cmocka_unit_test(peaks_in_vain_are_waited_out),
        cmocka_unit_test(however_often_they_are_in_vain),
        cmocka_unit_test(peaks_stay_cheap),
        cmocka_unit_test(one_that_was_not_made_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
