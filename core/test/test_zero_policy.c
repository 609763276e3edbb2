// SPDX-License-Identifier: MIT
//
// How long new blocks are left alone by zero reclaim, and what is learnt from earlier ones.
#include "policy/zero.h"
#include "support.h"

static const uint32_t pages = 5000, zeros = 3000;

static void wasted_work_makes_the_wait_longer(void **state) {
    (void)state;
    struct pw_zero_learner learner = {0};
    uint32_t shortest = pw_zero_wait(&learner, pages);
    assert_false(pw_zero_report(&learner, pages, zeros, 1, zeros)); // freed right after
    uint32_t longer = pw_zero_wait(&learner, pages);
    assert_true(longer >= 4 * shortest);
    assert_false(pw_zero_report(&learner, pages, zeros, 100, zeros / 4)); // written again
    assert_true(pw_zero_wait(&learner, pages) > longer);
    assert_int_equal(pw_zero_wait(&learner, pages + 1), shortest);
}

static void the_wait_is_bounded_and_comes_back(void **state) {
    (void)state;
    struct pw_zero_learner learner = {0};
    uint32_t shortest = pw_zero_wait(&learner, pages);
    for (int i = 0; i < 1000; i++) {
        pw_zero_report(&learner, pages, zeros, 0, 0);
    }
    assert_true(pw_zero_wait(&learner, pages) <= 256);
    for (int i = 0; i < 8; i++) {
        assert_true(pw_zero_report(&learner, pages, zeros, 50, zeros));
    }
    assert_int_equal(pw_zero_wait(&learner, pages), shortest);
}

static void sizes_without_zeros_are_searched_less_often(void **state) {
    (void)state;
    struct pw_zero_learner learner = {0};
    uint32_t shortest = pw_zero_wait(&learner, pages);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pw_zero_wait(&learner, pages), shortest);
        pw_zero_report_nothing(&learner, pages);
    }
    assert_true(pw_zero_wait(&learner, pages) > shortest);
    for (int i = 0; i < 1000; i++) {
        pw_zero_report_nothing(&learner, pages);
    }
    assert_true(pw_zero_wait(&learner, pages) <= 256);
    assert_true(pw_zero_report(&learner, pages, zeros, 50, zeros)); // one that pays is enough
    assert_int_equal(pw_zero_wait(&learner, pages), shortest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wasted_work_makes_the_wait_longer),
        cmocka_unit_test(sizes_without_zeros_are_searched_less_often),
        cmocka_unit_test(the_wait_is_bounded_and_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
