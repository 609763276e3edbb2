// SPDX-License-Identifier: MIT
//
// How long new blocks are left alone by zero reclaim, and what is learnt from earlier ones.
#include "policy/zero_schedule.h"
#include "support.h"

static const uint32_t pages = 5000, zeros = 3000;

static void work_in_vain_makes_the_wait_longer(void **state) {
    (void)state;
    struct pw_zero_learner learner = {0};
    uint32_t shortest = pw_zero_plan(&learner, pages).wait;
    assert_false(pw_zero_report(&learner, pages, zeros, 1, zeros)); // freed right after
    uint32_t longer = pw_zero_plan(&learner, pages).wait;
    assert_true(longer >= 4 * shortest);
    assert_false(pw_zero_report(&learner, pages, zeros, 100, zeros / 4)); // written again
    assert_true(pw_zero_plan(&learner, pages).wait > longer);
    assert_int_equal(pw_zero_plan(&learner, pages + 1).wait, shortest);
}

static void the_wait_is_bounded_and_comes_back(void **state) {
    (void)state;
    struct pw_zero_learner learner = {0};
    uint32_t shortest = pw_zero_plan(&learner, pages).wait;
    for (int i = 0; i < 1000; i++) {
        pw_zero_report(&learner, pages, zeros, 0, 0);
    }
    assert_true(pw_zero_plan(&learner, pages).wait <= 256);
    for (int i = 0; i < 8; i++) {
        assert_true(pw_zero_report(&learner, pages, zeros, 50, zeros));
    }
    assert_int_equal(pw_zero_plan(&learner, pages).wait, shortest);
}

static void sizes_without_zeros_are_searched_less_often(void **state) {
    (void)state;
    struct pw_zero_learner learner = {0};
    uint32_t shortest = pw_zero_plan(&learner, pages).wait;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pw_zero_plan(&learner, pages).wait, shortest);
        pw_zero_report_nothing(&learner, pages);
    }
    assert_true(pw_zero_plan(&learner, pages).wait > shortest);
    for (int i = 0; i < 1000; i++) {
        pw_zero_report_nothing(&learner, pages);
    }
    assert_true(pw_zero_plan(&learner, pages).wait <= 256);
    assert_true(pw_zero_report(&learner, pages, zeros, 50, zeros)); // one that pays is enough
    assert_int_equal(pw_zero_plan(&learner, pages).wait, shortest);
}

// At a peak there is no wait that could be longer: two blocks that were not worth it are enough,
// and a third one is left to the collections, which tell when it has become so again.
static void peaks_leave_alone_what_is_freed_soon(void **state) {
    (void)state;
    struct pw_zero_learner learner = {0};
    assert_true(pw_zero_plan(&learner, pages).at_peak);
    pw_zero_report(&learner, pages, zeros, 0, zeros); // freed by the next collection
    assert_true(pw_zero_plan(&learner, pages).at_peak);
    pw_zero_report(&learner, pages, zeros, 100, 0); // filled
    assert_false(pw_zero_plan(&learner, pages).at_peak);
    assert_true(pw_zero_plan(&learner, pages + 1).at_peak);
    pw_zero_report(&learner, pages, zeros, 50, zeros);
    assert_true(pw_zero_plan(&learner, pages).at_peak);
}

// A search in vain costs next to nothing, and the next matrix may be one of zeros.
static void peaks_search_what_had_no_zeros(void **state) {
    (void)state;
    struct pw_zero_learner learner = {0};
    for (int i = 0; i < 1000; i++) {
        pw_zero_report_nothing(&learner, pages);
    }
    assert_true(pw_zero_plan(&learner, pages).at_peak);
}

// 300,000 pages take about a second to have back: one in a hundred of those that were computed.
static void little_of_the_time_may_be_in_vain(void **state) {
    (void)state;
    const uint64_t second = 1000000000;
    struct pw_zero_learner learner = {0};
    assert_true(pw_zero_may_search_all(&learner, 0));
    pw_zero_report(&learner, 300000, 300000, 50, 300000); // worth it
    assert_true(pw_zero_may_search_all(&learner, 0));
    pw_zero_report(&learner, 300000, 300000, 0, 300000);
    assert_false(pw_zero_may_search_all(&learner, 80 * second));
    assert_true(pw_zero_may_search_all(&learner, 100 * second));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_in_vain_makes_the_wait_longer),
        cmocka_unit_test(sizes_without_zeros_are_searched_less_often),
        cmocka_unit_test(peaks_leave_alone_what_is_freed_soon),
        cmocka_unit_test(peaks_search_what_had_no_zeros),
        cmocka_unit_test(little_of_the_time_may_be_in_vain),
        cmocka_unit_test(the_wait_is_bounded_and_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
