// SPDX-License-Identifier: MIT
//
// Collections asked of the runtime: when, and how many.
#include "policy/collector.h"
#include "policy/page.h"
#include "support.h"

enum { MEGABYTE = PW_MEGABYTE_PAGES, SWAP = 1000 * MEGABYTE }; // in pages
static const uint64_t MS = 1000000, SECOND = 1000000000;       // in nanoseconds

static bool ask_as_cheap(struct pw_collector *collector, uint64_t live, uint64_t request,
                         uint64_t now) {
    return pw_collector_ask(
        collector, PW_REASON_CHEAP,
        &(struct pw_collector_facts){.live = live, .request = request, .now = now});
}

static bool ask_at_peak(struct pw_collector *collector, uint64_t live, uint64_t resident,
                        uint64_t now) {
    return pw_collector_ask(
        collector, PW_REASON_PEAK,
        &(struct pw_collector_facts){.live = live, .resident = resident, .now = now});
}

static bool ask_when_short(struct pw_collector *collector, uint64_t live, uint64_t swap,
                           uint64_t now) {
    return pw_collector_ask(collector, PW_REASON_SHORT,
                            &(struct pw_collector_facts){.live = live, .swap = swap, .now = now});
}

// How many may be in vain before none is asked for because it is cheap.
static unsigned chances(const struct pw_collector *collector) {
    return collector->found_much ? 3 - collector->of[PW_REASON_CHEAP].in_vain : 0;
}

// --- collections are cheap, or the process would become larger -----------------

// A collection of R's that began at `now`, with as much garbage as it left; returns what it freed
// of those that were asked for.
static uint64_t collection(struct pw_collector *collector, uint64_t now, uint64_t took,
                           uint64_t left) {
    pw_collector_began(collector, 2 * left, now);
    return pw_collector_ended(collector, left, now + took);
}

static uint64_t collection_in_vain(struct pw_collector *collector, uint64_t now, uint64_t took,
                                   uint64_t left) {
    pw_collector_began(collector, left + left / 4, now);
    return pw_collector_ended(collector, left, now + took);
}

static struct pw_collector after_full_one(uint64_t live) {
    struct pw_collector collector = {0};
    collection(&collector, 10 * SECOND, 20 * MS, live);
    return collector;
}

static bool asks(struct pw_collector *collector, uint64_t live, uint64_t now) {
    return pw_collector_may_look_at_clock(collector, live, 0) &&
           ask_as_cheap(collector, live, 0, now);
}

// Where the process would become larger than it ever was.
static bool asks_at_peak(struct pw_collector *collector, uint64_t live, uint64_t request,
                         uint64_t now) {
    return pw_collector_may_look_at_clock(collector, live, request) &&
           !ask_as_cheap(collector, live, request, now) && ask_at_peak(collector, live, live, now);
}

// A second and a half after the last of those below.
static const uint64_t LATER = 60700 * (uint64_t)1000000;

// R's own full ones take a fifth of the time, and find half of what was live to be garbage.
static struct pw_collector after_dear_ones(uint64_t live) {
    struct pw_collector collector = {0};
    for (uint64_t now = 50 * SECOND; now < 60 * SECOND; now += SECOND) {
        collection(&collector, now, 200 * MS, live);
    }
    return collector;
}

static void garbage_is_half_of_what_lives(void **state) {
    (void)state;
    struct pw_collector collector = after_full_one(200 * MEGABYTE);
    assert_false(asks(&collector, 299 * MEGABYTE, 11 * SECOND));
    assert_true(asks(&collector, 301 * MEGABYTE, 11 * SECOND));
    assert_int_equal(collection(&collector, 11 * SECOND, 20 * MS, 180 * MEGABYTE), 121 * MEGABYTE);
}

static void a_small_program_is_left_alone(void **state) {
    (void)state;
    struct pw_collector collector = after_full_one(10 * MEGABYTE);
    assert_false(asks(&collector, 73 * MEGABYTE, 11 * SECOND));
    assert_true(asks(&collector, 75 * MEGABYTE, 11 * SECOND));
}

static void what_lives_varies(void **state) {
    (void)state;
    struct pw_collector collector = after_full_one(200 * MEGABYTE);
    for (uint64_t now = 20 * SECOND; now < 23 * SECOND; now += SECOND) {
        collection(&collector, now, 20 * MS, 100 * MEGABYTE);
        assert_false(asks(&collector, 299 * MEGABYTE, now + SECOND / 2));
    }
    collection(&collector, 30 * SECOND, 20 * MS, 100 * MEGABYTE);
    assert_false(asks(&collector, 163 * MEGABYTE, 31 * SECOND));
    assert_true(asks(&collector, 165 * MEGABYTE, 31 * SECOND));
}

static void a_minor_one_says_nothing_of_what_lives(void **state) {
    (void)state;
    struct pw_collector collector = after_full_one(200 * MEGABYTE);
    assert_true(asks(&collector, 400 * MEGABYTE, 11 * SECOND));
    collection(&collector, 11 * SECOND, 20 * MS, 200 * MEGABYTE);
    assert_int_equal(collection(&collector, 13 * SECOND, 1 * MS, 290 * MEGABYTE), 0);
    collection(&collector, 14 * SECOND, 1 * MS, 290 * MEGABYTE);
    assert_true(asks(&collector, 301 * MEGABYTE, 15 * SECOND));
}

// R lets its heap grow after each full collection that found little.
static void nothing_is_asked_for_where_there_was_no_garbage(void **state) {
    (void)state;
    struct pw_collector collector = {0};
    collection_in_vain(&collector, 10 * SECOND, 20 * MS, 200 * MEGABYTE);
    assert_false(asks(&collector, 400 * MEGABYTE, 11 * SECOND)); // R is reading data
    collection(&collector, 12 * SECOND, 1 * MS, 200 * MEGABYTE); // a minor one: it was young
    assert_false(asks(&collector, 400 * MEGABYTE, 12 * SECOND + 500 * MS));
    collection(&collector, 12 * SECOND + 600 * MS, 20 * MS, 200 * MEGABYTE);
    assert_true(asks(&collector, 301 * MEGABYTE, 13 * SECOND));
    collection(&collector, 13 * SECOND, 20 * MS, 280 * MEGABYTE);
    assert_true(asks(&collector, 421 * MEGABYTE, 15 * SECOND));
    collection(&collector, 15 * SECOND, 20 * MS, 400 * MEGABYTE);
    collection_in_vain(&collector, 17 * SECOND, 1 * MS, 450 * MEGABYTE); // R's own: says nothing
    assert_true(asks(&collector, 601 * MEGABYTE, 18 * SECOND));
    collection(&collector, 18 * SECOND, 20 * MS, 580 * MEGABYTE);
    assert_false(asks(&collector, 900 * MEGABYTE, 20 * SECOND)); // three were in vain
    collection(&collector, 21 * SECOND, 20 * MS, 300 * MEGABYTE);
    assert_true(asks(&collector, 900 * MEGABYTE, 22 * SECOND));
}

static void one_is_asked_for_at_a_time(void **state) {
    (void)state;
    struct pw_collector collector = after_full_one(200 * MEGABYTE);
    assert_true(asks(&collector, 301 * MEGABYTE, 11 * SECOND));
    assert_false(asks(&collector, 401 * MEGABYTE, 11 * SECOND));
    collection(&collector, 11 * SECOND, 20 * MS, 280 * MEGABYTE);
    assert_false(asks(&collector, 419 * MEGABYTE, 13 * SECOND));
    assert_true(asks(&collector, 422 * MEGABYTE, 13 * SECOND));
}

// A collection that takes seconds is one that was asked for, if no other call can be meant.
static void what_was_asked_for_costs_what_it_takes(void **state) {
    (void)state;
    struct pw_collector collector = after_full_one(200 * MEGABYTE);
    assert_true(asks(&collector, 301 * MEGABYTE, 100 * SECOND));
    collection(&collector, 100 * SECOND, 5 * SECOND, 200 * MEGABYTE);
    assert_false(asks(&collector, 304 * MEGABYTE, 150 * SECOND));
    assert_true(asks(&collector, 307 * MEGABYTE, 200 * SECOND));
}

// Its end may be taken for another start: the time runs from where it was asked for.
static void a_start_does_not_begin_it_again(void **state) {
    (void)state;
    struct pw_collector collector = after_full_one(200 * MEGABYTE);
    assert_true(asks(&collector, 301 * MEGABYTE, 11 * SECOND));
    pw_collector_began(&collector, 100 * MEGABYTE, 11 * SECOND + 150 * MS);
    pw_collector_ended(&collector, 100 * MEGABYTE, 11 * SECOND + 151 * MS);
    assert_int_equal(collector.full_took, 151 * MS);
    assert_int_equal(chances(&collector), 3);
}

// However fast it makes garbage: of all the time, an eighth is spent on collections.
static void they_stay_cheap(void **state) {
    (void)state;
    struct pw_collector collector = after_full_one(200 * MEGABYTE);
    uint64_t now = 11 * SECOND, began = now, spent = 0;
    for (int i = 0; i < 2000; i++, now += 20 * MS) {
        if (asks(&collector, 400 * MEGABYTE, now)) {
            collection(&collector, now, 150 * MS, 200 * MEGABYTE);
            now += 150 * MS;
            spent += 150 * MS;
        }
        collector.of[PW_REASON_CHEAP].looked_at = 0; // as if the program had grown
    }
    assert_in_range(spent, (now - began) / 14, (now - began) / 8);
}

static void who_collects_much_is_left_alone(void **state) {
    (void)state;
    struct pw_collector collector = {0};
    uint64_t now = 10 * SECOND;
    for (int i = 0; i < 50; i++, now += SECOND) {
        collection(&collector, now, 150 * MS, 200 * MEGABYTE);
        assert_true(i < 5 || !asks(&collector, 400 * MEGABYTE, now + SECOND / 2));
    }
    assert_true(asks(&collector, 403 * MEGABYTE, now + 20 * SECOND)); // it has stopped that
}

// Where nothing was asked for because it was not cheap, the clock is not read at each request.
static void the_clock_is_read_every_two_megabytes(void **state) {
    (void)state;
    struct pw_collector collector = after_full_one(200 * MEGABYTE);
    assert_true(pw_collector_may_look_at_clock(&collector, 301 * MEGABYTE, 0));
    assert_false(pw_collector_may_look_at_clock(&collector, 302 * MEGABYTE, 0));
    assert_true(pw_collector_may_look_at_clock(&collector, 303 * MEGABYTE, 0));
}

// R asks for the time at proc.time() as well: what then looks like a collection of an hour is none.
static void nobody_collects_for_an_hour(void **state) {
    (void)state;
    struct pw_collector collector = after_full_one(200 * MEGABYTE);
    collection(&collector, 100 * SECOND, 3600 * SECOND, 200 * MEGABYTE);
    assert_false(asks(&collector, 401 * MEGABYTE, 3701 * SECOND));
    assert_true(asks(&collector, 404 * MEGABYTE, 3720 * SECOND));
}

// The clock of a fork's child begins again.
static void a_childs_clock_is_behind(void **state) {
    (void)state;
    struct pw_collector collector = {0};
    for (uint64_t now = 10 * SECOND; now < 20 * SECOND; now += SECOND) {
        collection(&collector, now, 500 * MS, 200 * MEGABYTE);
    }
    assert_false(asks(&collector, 400 * MEGABYTE, 1 * MS));
    collection(&collector, 2 * MS, 1 * MS, 200 * MEGABYTE);
    assert_false(asks(&collector, 403 * MEGABYTE, 10 * MS));
    assert_true(asks(&collector, 406 * MEGABYTE, 40 * SECOND));
}

// Between collections for small objects alone nothing is allocated that we see: a start looks like
// an end.
static void an_end_without_a_start_may_be_one(void **state) {
    (void)state;
    struct pw_collector collector = after_full_one(200 * MEGABYTE);
    uint64_t now = 20 * SECOND;
    for (int i = 0; i < 20; i++, now += SECOND) {
        pw_collector_ended(&collector, 400 * MEGABYTE, now);
        pw_collector_ended(&collector, 200 * MEGABYTE, now + 200 * MS);
    }
    assert_int_equal(collector.floors[0], 200 * MEGABYTE);
    assert_false(asks(&collector, 301 * MEGABYTE, now)); // a fifth of the time
}

static void a_request_is_no_garbage_at_a_peak(void **state) {
    (void)state;
    struct pw_collector collector = after_dear_ones(400 * MEGABYTE);
    assert_false(asks_at_peak(&collector, 499 * MEGABYTE, 0, LATER));
    assert_false(asks_at_peak(&collector, 499 * MEGABYTE, 90 * MEGABYTE, LATER));
    assert_true(asks_at_peak(&collector, 501 * MEGABYTE, 92 * MEGABYTE, LATER));
    assert_int_equal(collection(&collector, LATER, 200 * MS, 300 * MEGABYTE), 201 * MEGABYTE);
}

static void a_small_program_may_have_a_new_peak(void **state) {
    (void)state;
    struct pw_collector collector = after_dear_ones(10 * MEGABYTE);
    assert_false(asks_at_peak(&collector, 73 * MEGABYTE, 0, LATER));
    assert_true(asks_at_peak(&collector, 76 * MEGABYTE, 0, LATER));
}

// Where collections are cheap more garbage is waited for: they are asked for at any time.
static void the_cheap_rule_goes_first(void **state) {
    (void)state;
    struct pw_collector collector = after_full_one(400 * MEGABYTE);
    assert_false(asks_at_peak(&collector, 599 * MEGABYTE, 0, 60 * SECOND));
    assert_true(asks(&collector, 602 * MEGABYTE, 60 * SECOND));
}

// Right after a full one there is little that the next could find.
static void two_at_peaks_are_apart(void **state) {
    (void)state;
    struct pw_collector collector = after_dear_ones(400 * MEGABYTE);
    collection(&collector, 60 * SECOND, 400 * MS, 400 * MEGABYTE);
    uint64_t last = 60 * SECOND + 400 * MS;
    assert_false(asks_at_peak(&collector, 600 * MEGABYTE, 0, last + 1990 * MS));
    assert_true(asks_at_peak(&collector, 602 * MEGABYTE, 0, last + 2010 * MS));
    collection(&collector, last + 2010 * MS, 400 * MS, 400 * MEGABYTE);
    last += 2410 * MS;
    assert_false(asks_at_peak(&collector, 600 * MEGABYTE, 0, last + 1990 * MS));
    assert_true(asks_at_peak(&collector, 602 * MEGABYTE, 0, last + 2010 * MS));
}

// Who makes a full one ten times a second needs no more, however short they are.
static void so_are_short_ones(void **state) {
    (void)state;
    struct pw_collector collector = {0};
    uint64_t now = 50 * SECOND;
    for (; now < 60 * SECOND; now += 100 * MS) {
        collection(&collector, now, 20 * MS, 400 * MEGABYTE);
    }
    uint64_t last = now - 80 * MS;
    assert_false(asks_at_peak(&collector, 600 * MEGABYTE, 0, last + 190 * MS));
    collector.until = last + 1390 * MS; // as if others had taken the time since
    assert_false(asks_at_peak(&collector, 602 * MEGABYTE, 0, last + 1390 * MS));
    assert_true(asks_at_peak(&collector, 604 * MEGABYTE, 0, last + 1410 * MS));
}

// Copies that share pages, and zeros that were given back: to free them would give nothing back.
static void what_is_not_there_is_no_garbage(void **state) {
    (void)state;
    struct pw_collector collector = after_dear_ones(400 * MEGABYTE);
    assert_false(ask_at_peak(&collector, 700 * MEGABYTE, 499 * MEGABYTE, LATER));
    assert_true(ask_at_peak(&collector, 700 * MEGABYTE, 501 * MEGABYTE, LATER));
}

// No full one was seen: nothing is known of what lives. So it is in a fork's child.
static void before_the_first_full_one_nothing_is_asked_for(void **state) {
    (void)state;
    struct pw_collector collector = {0};
    assert_false(asks_at_peak(&collector, 600 * MEGABYTE, 0, 100 * SECOND));
    collection(&collector, 100 * SECOND, 1 * MS, 600 * MEGABYTE);
    assert_false(asks_at_peak(&collector, 800 * MEGABYTE, 0, 110 * SECOND));
}

// A computation in folds has most alive once in each.
static void at_a_peak_what_lives_is_looked_at_longer(void **state) {
    (void)state;
    struct pw_collector collector = after_dear_ones(600 * MEGABYTE);
    for (uint64_t now = 60 * SECOND; now < 63 * SECOND; now += SECOND) {
        collection(&collector, now, 200 * MS, 400 * MEGABYTE);
    }
    assert_false(asks_at_peak(&collector, 740 * MEGABYTE, 0, 63 * SECOND + 700 * MS));
    collection(&collector, 64 * SECOND, 200 * MS, 400 * MEGABYTE);
    assert_true(asks_at_peak(&collector, 740 * MEGABYTE, 0, 65 * SECOND + 700 * MS));
}

// With large packages those of the middle generation take 20 ms, and a full one 200.
static void a_longer_one_tells_what_is_full(void **state) {
    (void)state;
    struct pw_collector collector = after_dear_ones(400 * MEGABYTE);
    collection_in_vain(&collector, 60 * SECOND, 40 * MS, 700 * MEGABYTE);
    assert_int_equal(collector.floors[0], 400 * MEGABYTE);
    assert_true(asks_at_peak(&collector, 703 * MEGABYTE, 0, 62 * SECOND));
}

// What took a second was none, but R's calls of getrusage elsewhere: it is forgotten.
static void a_longer_one_is_forgotten(void **state) {
    (void)state;
    struct pw_collector collector = after_full_one(400 * MEGABYTE);
    collection(&collector, 20 * SECOND, 3600 * SECOND, 900 * MEGABYTE);
    uint64_t now = 4000 * SECOND;
    for (int i = 0; i < 200; i++, now += SECOND) {
        collection(&collector, now, 1 * MS, 900 * MEGABYTE);
    }
    collection(&collector, now, 20 * MS, 300 * MEGABYTE);
    assert_int_equal(collector.floors[0], 300 * MEGABYTE);
}

// Each in vain doubles the garbage that the next one waits for; one of use halves it. The others
// may still be asked for.
static void peaks_in_vain_are_waited_out(void **state) {
    (void)state;
    struct pw_collector collector = after_dear_ones(400 * MEGABYTE);
    assert_true(asks_at_peak(&collector, 520 * MEGABYTE, 0, LATER));
    collection(&collector, LATER, 200 * MS, 400 * MEGABYTE);
    assert_int_equal(chances(&collector), 3);
    assert_false(asks_at_peak(&collector, 660 * MEGABYTE, 0, 63 * SECOND));
    assert_true(asks_at_peak(&collector, 670 * MEGABYTE, 0, 63 * SECOND));
    collection(&collector, 63 * SECOND, 200 * MS, 400 * MEGABYTE);
    assert_true(asks_at_peak(&collector, 510 * MEGABYTE, 0, 66 * SECOND));
}

static void however_often_they_are_in_vain(void **state) {
    (void)state;
    struct pw_collector collector = after_dear_ones(400 * MEGABYTE);
    for (uint64_t now = 1000 * SECOND, i = 0; i < 80; i++, now += 5 * SECOND) {
        collector.asked = PW_REASON_PEAK;
        collection(&collector, now, 200 * MS, 400 * MEGABYTE);
        collector.asked = PW_REASON_PEAK;
        collector.began_with = 400 * MEGABYTE;
        collector.began = now + SECOND;
        pw_collector_ended(&collector, 400 * MEGABYTE, now + SECOND + 200 * MS);
        collector.asked = PW_REASON_PEAK;
        pw_collector_asked_again(&collector, 400 * MEGABYTE, now + 2 * SECOND);
    }
    assert_int_equal(collector.of[PW_REASON_PEAK].in_vain, 6);
}

// However many new peaks: of all the time, a twentieth is spent on them.
static void peaks_stay_cheap(void **state) {
    (void)state;
    struct pw_collector collector = after_dear_ones(400 * MEGABYTE);
    uint64_t now = 60 * SECOND, spent = 0;
    for (int i = 0; i < 8000; i++, now += 20 * MS) {
        if (asks_at_peak(&collector, 700 * MEGABYTE, 0, now)) {
            collection(&collector, now, 300 * MS, 400 * MEGABYTE);
            now += 300 * MS;
            spent += 300 * MS;
        } else if (i % 100 == 0) { // R collects as well, so that the cheap rule is not in force
            collection(&collector, now, 300 * MS, 400 * MEGABYTE);
            now += 300 * MS;
        }
        collector.of[PW_REASON_CHEAP].looked_at = 0; // as if the program had grown
    }
    assert_in_range(spent, now / 25, now / 20);
    assert_int_equal(collector.of[PW_REASON_PEAK].spent, spent);
}

// R makes none while it converts a vector: nothing was learnt of what lives.
static void one_that_was_not_made_says_nothing(void **state) {
    (void)state;
    struct pw_collector collector = after_dear_ones(400 * MEGABYTE);
    assert_true(asks_at_peak(&collector, 600 * MEGABYTE, 0, LATER));
    assert_int_equal(pw_collector_asked_again(&collector, 599 * MEGABYTE, LATER), MEGABYTE);
    assert_int_equal(collector.asked, PW_REASON_NONE);
    assert_int_equal(collector.floors[0], 400 * MEGABYTE);
    assert_int_equal(collector.of[PW_REASON_PEAK].in_vain, 1);
    assert_int_equal(chances(&collector), 3);
}

// --- memory is short -----------------------------------------------------------

static void garbage_must_have_been_made(void **state) {
    (void)state;
    struct pw_collector collector = {0};
    pw_collector_collected(&collector, 1000 * MEGABYTE);
    assert_false(pw_collector_may_look_at_room(&collector, 1020 * MEGABYTE, 0));
    assert_true(pw_collector_may_look_at_room(&collector, 1070 * MEGABYTE, 0));
    assert_false(
        pw_collector_may_look_at_room(&collector, 1071 * MEGABYTE, 0)); // looked a moment ago
    assert_true(pw_collector_may_look_at_room(&collector, 1080 * MEGABYTE, 0));
    pw_collector_collected(&collector, 1060 * MEGABYTE);
    assert_false(pw_collector_may_look_at_room(&collector, 1080 * MEGABYTE, 0));
}

static void plenty_of_room_is_not_looked_at_again_soon(void **state) {
    (void)state;
    struct pw_collector collector = {0};
    pw_collector_collected(&collector, 1000 * MEGABYTE);
    assert_true(pw_collector_may_look_at_room(&collector, 1100 * MEGABYTE, 5000));
    pw_collector_saw_room(&collector, 1600 * MEGABYTE, 1100 * MEGABYTE, 5000);
    assert_false(pw_collector_may_look_at_room(&collector, 1199 * MEGABYTE, 5049));
    assert_true(
        pw_collector_may_look_at_room(&collector, 1199 * MEGABYTE, 5050)); // others use it too
    assert_true(
        pw_collector_may_look_at_room(&collector, 1204 * MEGABYTE, 5001)); // a part of it has gone
    pw_collector_saw_room(&collector, 10 * MEGABYTE, 1204 * MEGABYTE, 6000);
    assert_true(pw_collector_may_look_at_room(&collector, 1208 * MEGABYTE,
                                              6001)); // little is looked at always
}

// A look opens files: the more there is, the longer others need to take it.
static void the_more_room_the_rarer_the_looks(void **state) {
    (void)state;
    static const struct {
        uint64_t room, looked_at_after;
    } machines[] = {{64 * MEGABYTE, 50}, {16384 * MEGABYTE, 512}, {UINT64_MAX, 1000}};
    for (unsigned i = 0; i < sizeof machines / sizeof *machines; i++) {
        struct pw_collector collector = {.after = 1000 * MEGABYTE};
        pw_collector_saw_room(&collector, machines[i].room, 1199 * MEGABYTE, 5000);
        uint64_t due = 5000 + machines[i].looked_at_after;
        assert_false(pw_collector_may_look_at_room(&collector, 1200 * MEGABYTE, due - 1));
        assert_true(pw_collector_may_look_at_room(&collector, 1200 * MEGABYTE, due));
    }
}

static void warm_pages_are_room_of_our_own(void **state) {
    (void)state;
    assert_false(pw_collector_is_short(UINT64_MAX / 4096, 0, 1000 * MEGABYTE, 800 * MEGABYTE));
    assert_false(pw_collector_is_short(200 * MEGABYTE, 0, 100 * MEGABYTE, 800 * MEGABYTE));
    assert_true(pw_collector_is_short(110 * MEGABYTE, 0, 100 * MEGABYTE, 800 * MEGABYTE));
    assert_false(
        pw_collector_is_short(110 * MEGABYTE, 50 * MEGABYTE, 100 * MEGABYTE, 800 * MEGABYTE));
    assert_true(pw_collector_is_short(0, 100 * MEGABYTE, 100 * MEGABYTE, 800 * MEGABYTE));
    assert_false(pw_collector_is_short(110 * MEGABYTE, 0, 100 * MEGABYTE, 150 * MEGABYTE));
}

static void when_short_one_is_asked_for_at_a_time(void **state) {
    (void)state;
    struct pw_collector collector = {0};
    assert_true(ask_when_short(&collector, 1000 * MEGABYTE, SWAP, SECOND));
    assert_false(ask_when_short(&collector, 1000 * MEGABYTE, SWAP, SECOND));
    assert_int_equal(pw_collector_asked_again(&collector, 400 * MEGABYTE, SECOND + 1000),
                     600 * MEGABYTE);
    assert_false(pw_collector_may_look_at_room(&collector, 410 * MEGABYTE, 0));
}

static void they_take_a_quarter_of_the_time_at_most(void **state) {
    (void)state;
    struct pw_collector collector = {0};
    uint64_t now = SECOND, spent = 0;
    for (int i = 0; i < 1000; i++, now += SECOND / 10) {
        if (ask_when_short(&collector, 1000 * MEGABYTE, SWAP, now)) {
            now += SECOND;
            spent += SECOND;
            pw_collector_asked_again(&collector, 400 * MEGABYTE, now);
        }
    }
    assert_true(spent > (now - SECOND) / 5);
    assert_true(spent < (now - SECOND) / 3);
}

static void in_vain_they_wait_for_more_garbage(void **state) {
    (void)state;
    struct pw_collector collector = {0};
    uint64_t live = 1000 * MEGABYTE, now = SECOND;
    for (int i = 0; i < 4; i++, now += 100 * SECOND) {
        assert_true(ask_when_short(&collector, live, SWAP, now));
        pw_collector_asked_again(&collector, live - 1, now + 1);
    }
    assert_false(pw_collector_may_look_at_room(&collector, live + live / 2, 0));
    assert_true(pw_collector_may_look_at_room(&collector, 2 * live + MEGABYTE, 0));
    assert_true(ask_when_short(&collector, 2 * live, SWAP, now));
    pw_collector_asked_again(&collector, live, now + 1); // not in vain
    assert_true(pw_collector_may_look_at_room(&collector, live + live / 8, 0));
}

static void without_swap_any_time_is_worth_it(void **state) {
    (void)state;
    struct pw_collector collector = {0};
    uint64_t live = 1000 * MEGABYTE;
    for (uint64_t now = SECOND; now < 20 * SECOND; now += SECOND) {
        assert_true(ask_when_short(&collector, live, 0, now));
        pw_collector_asked_again(&collector, live - 1, now + SECOND);
        assert_true(pw_collector_may_look_at_room(&collector, live + live / 8, 0));
    }
}

// --- both ----------------------------------------------------------------------

// What was learnt of collections is forgotten, not what is known of the machine's memory.
static void a_new_process_begins_anew(void **state) {
    (void)state;
    struct pw_collector collector = after_full_one(200 * MEGABYTE);
    pw_collector_saw_resident(&collector, 500 * MEGABYTE);
    assert_true(ask_when_short(&collector, 200 * MEGABYTE, SWAP, 11 * SECOND));
    pw_collector_asked_again(&collector, 199 * MEGABYTE, 12 * SECOND);
    pw_collector_forget(&collector);
    assert_false(asks(&collector, 400 * MEGABYTE, 13 * SECOND));
    assert_false(pw_collector_is_peak(&collector, 400 * MEGABYTE, 100 * MEGABYTE));
    assert_true(pw_collector_is_peak(&collector, 400 * MEGABYTE, 101 * MEGABYTE));
    assert_int_equal(collector.of[PW_REASON_SHORT].in_vain, 1);
    assert_false(ask_when_short(&collector, 400 * MEGABYTE, SWAP, 14 * SECOND)); // it took a third
    assert_true(ask_when_short(&collector, 400 * MEGABYTE, SWAP, 15 * SECOND));
}

// One that was asked for because memory was short is the runtime's own for the other reasons: it
// may have been of any kind.
static void one_for_want_of_memory_says_what_others_say(void **state) {
    (void)state;
    struct pw_collector collector = {0};
    assert_true(ask_when_short(&collector, 400 * MEGABYTE, SWAP, 11 * SECOND));
    assert_int_equal(collection(&collector, 10 * SECOND, 20 * MS, 200 * MEGABYTE), 0);
    assert_int_equal(collector.asked, PW_REASON_SHORT);
    assert_int_equal(pw_collector_asked_again(&collector, 200 * MEGABYTE, 12 * SECOND),
                     200 * MEGABYTE);
    assert_int_equal(chances(&collector), 3);
    assert_true(asks(&collector, 301 * MEGABYTE, 11 * SECOND));
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
        cmocka_unit_test(garbage_must_have_been_made),
        cmocka_unit_test(plenty_of_room_is_not_looked_at_again_soon),
        cmocka_unit_test(the_more_room_the_rarer_the_looks),
        cmocka_unit_test(warm_pages_are_room_of_our_own),
        cmocka_unit_test(when_short_one_is_asked_for_at_a_time),
        cmocka_unit_test(they_take_a_quarter_of_the_time_at_most),
        cmocka_unit_test(in_vain_they_wait_for_more_garbage),
        cmocka_unit_test(without_swap_any_time_is_worth_it),
        cmocka_unit_test(a_new_process_begins_anew),
        cmocka_unit_test(one_for_want_of_memory_says_what_others_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
