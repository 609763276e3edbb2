// SPDX-License-Identifier: MIT
//
// Large pages by their price: tried, left while they are dear, and tried again.
#include "policy/huge_price.h"
#include "policy/page.h"
#include "support.h"

#define PAGES_OF(megabytes) ((megabytes) << (20 - PW_PAGE_SHIFT))
enum { SMALL = PAGES_OF(8), LARGE = PAGES_OF(40), GIGABYTE = PAGES_OF(1024) };
#define CHEAP 170000u // nanoseconds
#define DEAR  3800000u

static void every_large_block_begins_with_a_try_while_they_are_cheap(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(pw_huge_decide(&price, LARGE, false), PW_HUGE_TRY);
        pw_huge_report(&price, CHEAP, false);
    }
}

// A try touches 2 MB that may have stayed absent.
static void small_blocks_are_tried_first_and_every_64_mb(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    assert_int_equal(pw_huge_decide(&price, SMALL, false), PW_HUGE_TRY);
    pw_huge_report(&price, CHEAP, false);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(pw_huge_decide(&price, SMALL, false), PW_HUGE_ADVISE);
    }
    assert_int_equal(pw_huge_decide(&price, SMALL, false), PW_HUGE_TRY);
    pw_huge_report(&price, DEAR, false);
    assert_int_equal(pw_huge_decide(&price, SMALL, false), PW_HUGE_LEAVE);
}

static void a_dear_page_ends_it_for_a_gigabyte(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    assert_int_equal(pw_huge_decide(&price, LARGE, false), PW_HUGE_TRY);
    pw_huge_report(&price, CHEAP, false);
    assert_int_equal(pw_huge_decide(&price, LARGE, false), PW_HUGE_TRY);
    pw_huge_report(&price, DEAR, false);
    uint64_t left = 0;
    while (pw_huge_decide(&price, LARGE, false) == PW_HUGE_LEAVE) {
        left += LARGE;
    }
    assert_in_range(left, GIGABYTE - 2 * LARGE, GIGABYTE);
    pw_huge_report(&price, DEAR, false);
    assert_int_equal(pw_huge_decide(&price, LARGE, false), PW_HUGE_LEAVE);
}

static void pages_that_are_cheap_again_are_used_again(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    pw_huge_decide(&price, LARGE, false);
    pw_huge_report(&price, DEAR, false);
    int tries = 0;
    for (int i = 0; i < 1000; i++) {
        if (pw_huge_decide(&price, LARGE, false) == PW_HUGE_TRY) {
            pw_huge_report(&price, CHEAP, false);
            tries++;
        }
    }
    assert_true(tries > 500); // 26 blocks a gigabyte, a handful of gigabytes
    assert_int_equal(pw_huge_decide(&price, SMALL, false), PW_HUGE_ADVISE);
}

static void a_try_that_tells_nothing_changes_nothing(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    assert_int_equal(pw_huge_decide(&price, LARGE, false), PW_HUGE_TRY);
    pw_huge_report(&price, CHEAP, false);
    assert_int_equal(pw_huge_decide(&price, SMALL, false), PW_HUGE_ADVISE);
}

// Every page of a block that is about to be filled is tried, as the first may be cheap and the
// others not.
static void a_block_to_be_filled_is_tried_page_by_page(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    assert_int_equal(pw_huge_decide(&price, SMALL, true), PW_HUGE_TRY);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(pw_huge_report(&price, CHEAP, true), PW_HUGE_TRY);
    }
    assert_int_equal(pw_huge_report(&price, 0, true), PW_HUGE_LEAVE); // its end
    assert_int_equal(pw_huge_decide(&price, LARGE, true), PW_HUGE_TRY);
    assert_int_equal(pw_huge_report(&price, DEAR, true), PW_HUGE_LEAVE);
    assert_int_equal(pw_huge_decide(&price, LARGE + 1, true), PW_HUGE_LEAVE);
}

// As in x <- numeric(n) + 1; y <- x; y[1] <- 0: the second block of a size may be a copy.
static void the_second_block_of_a_size_is_left_untouched(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    assert_int_equal(pw_huge_decide(&price, LARGE, true), PW_HUGE_TRY);
    pw_huge_report(&price, CHEAP, true);
    assert_int_equal(pw_huge_decide(&price, LARGE, true), PW_HUGE_ADVISE);
    assert_int_equal(pw_huge_decide(&price, LARGE, true), PW_HUGE_TRY); // it was no copy
    assert_int_equal(pw_huge_decide(&price, SMALL, true), PW_HUGE_TRY); // first of another size
}

static void sizes_whose_copies_are_shared_are_left_untouched(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    assert_int_equal(pw_huge_decide(&price, LARGE, true), PW_HUGE_TRY);
    pw_huge_report(&price, CHEAP, true);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(pw_huge_decide(&price, LARGE, true), PW_HUGE_ADVISE);
        pw_huge_spared(&price, LARGE);
    }
    int untouched = 0;
    while (pw_huge_decide(&price, LARGE, true) == PW_HUGE_ADVISE) {
        assert_in_range(++untouched, 1, 8); // shared no more: soon touched again
    }
    assert_int_equal(untouched, 8);
}

static void a_size_that_was_never_asked_for_leaves_the_others_alone(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    for (uint32_t pages = LARGE; pages < LARGE + 1000; pages++) {
        pw_huge_spared(&price, pages);
        assert_int_equal(pw_huge_decide(&price, pages, true), PW_HUGE_TRY);
        pw_huge_report(&price, CHEAP, true);
    }
}

static void dear_pages_are_not_advised_for_blocks_in_doubt(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    pw_huge_decide(&price, LARGE, true);
    pw_huge_report(&price, DEAR, true);
    assert_int_equal(pw_huge_decide(&price, LARGE, true), PW_HUGE_LEAVE);
    pw_huge_spared(&price, LARGE);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(pw_huge_decide(&price, LARGE, true), PW_HUGE_LEAVE);
    }
}

static void of_other_blocks_the_first_page_speaks_for_the_rest(void **state) {
    (void)state;
    struct pw_huge_price price = {0};
    assert_int_equal(pw_huge_decide(&price, LARGE, false), PW_HUGE_TRY);
    assert_int_equal(pw_huge_report(&price, CHEAP, false), PW_HUGE_ADVISE);
    assert_int_equal(pw_huge_report(&price, DEAR, false), PW_HUGE_LEAVE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_large_block_begins_with_a_try_while_they_are_cheap),
        cmocka_unit_test(small_blocks_are_tried_first_and_every_64_mb),
        cmocka_unit_test(a_dear_page_ends_it_for_a_gigabyte),
        cmocka_unit_test(pages_that_are_cheap_again_are_used_again),
        cmocka_unit_test(a_try_that_tells_nothing_changes_nothing),
        cmocka_unit_test(a_block_to_be_filled_is_tried_page_by_page),
        cmocka_unit_test(of_other_blocks_the_first_page_speaks_for_the_rest),
        cmocka_unit_test(the_second_block_of_a_size_is_left_untouched),
        cmocka_unit_test(sizes_whose_copies_are_shared_are_left_untouched),
        cmocka_unit_test(a_size_that_was_never_asked_for_leaves_the_others_alone),
        cmocka_unit_test(dear_pages_are_not_advised_for_blocks_in_doubt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
