// SPDX-License-Identifier: MIT
//
// Large pages by their price: tried, left while they are dear, and tried again.
#include "policy/huge.h"
#include "support.h"

enum { SMALL = 2048, LARGE = 10240, GIGABYTE = 256 << 10 }; // pages: 8 MB, 40 MB
#define CHEAP 170000u                                       // nanoseconds
#define DEAR  3800000u

static void every_large_block_begins_with_a_try_while_they_are_cheap(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(pw_huge_decide(&price, LARGE), PW_HUGE_TRY);
        pw_huge_report(&price, CHEAP);
    }
}

// A try touches 2 MB that may have stayed absent.
static void small_blocks_are_tried_first_and_every_64_mb(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    assert_int_equal(pw_huge_decide(&price, SMALL), PW_HUGE_TRY);
    pw_huge_report(&price, CHEAP);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(pw_huge_decide(&price, SMALL), PW_HUGE_ADVISE);
    }
    assert_int_equal(pw_huge_decide(&price, SMALL), PW_HUGE_TRY);
    pw_huge_report(&price, DEAR);
    assert_int_equal(pw_huge_decide(&price, SMALL), PW_HUGE_LEAVE);
}

static void a_dear_page_ends_it_for_a_gigabyte(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    assert_int_equal(pw_huge_decide(&price, LARGE), PW_HUGE_TRY);
    pw_huge_report(&price, CHEAP);
    assert_int_equal(pw_huge_decide(&price, LARGE), PW_HUGE_TRY);
    pw_huge_report(&price, DEAR);
    uint64_t left = 0;
    while (pw_huge_decide(&price, LARGE) == PW_HUGE_LEAVE) {
        left += LARGE;
    }
    assert_in_range(left, GIGABYTE - 2 * LARGE, GIGABYTE);
    pw_huge_report(&price, DEAR);
    assert_int_equal(pw_huge_decide(&price, LARGE), PW_HUGE_LEAVE);
}

static void pages_that_are_cheap_again_are_used_again(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    pw_huge_decide(&price, LARGE);
    pw_huge_report(&price, DEAR);
    int tries = 0;
    for (int i = 0; i < 1000; i++) {
        if (pw_huge_decide(&price, LARGE) == PW_HUGE_TRY) {
            pw_huge_report(&price, CHEAP);
            tries++;
        }
    }
    assert_true(tries > 500); // 26 blocks a gigabyte, a handful of gigabytes
    assert_int_equal(pw_huge_decide(&price, SMALL), PW_HUGE_ADVISE);
}

static void a_try_that_tells_nothing_changes_nothing(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    assert_int_equal(pw_huge_decide(&price, LARGE), PW_HUGE_TRY);
    pw_huge_report(&price, CHEAP);
    assert_int_equal(pw_huge_decide(&price, SMALL), PW_HUGE_ADVISE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_large_block_begins_with_a_try_while_they_are_cheap),
        cmocka_unit_test(small_blocks_are_tried_first_and_every_64_mb),
        cmocka_unit_test(a_dear_page_ends_it_for_a_gigabyte),
        cmocka_unit_test(pages_that_are_cheap_again_are_used_again),
        cmocka_unit_test(a_try_that_tells_nothing_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
