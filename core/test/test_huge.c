// SPDX-License-Identifier: MIT
//
// Large pages one by one: advised and touched as far as somebody asks, and no further.
#include "arena_fixture.h"
#include "huge/huge.h"

enum { UNIT = PW_HUGE_PAGE / PW_PAGE, UNITS = 3, TAIL = 100 };

static struct pw_arena arena;
static struct pw_stats stats;
static uint64_t huge_before;

static struct pw_extent *fresh_extent(void) {
    struct pw_extent *extent = pw_arena_take_cold(&arena, 1 + UNITS * UNIT + TAIL, UNIT);
    assert_non_null(extent);
    pw_arena_use(&arena, extent);
    return extent;
}

static int begin(void **state) {
    (void)state;
    arena = (struct pw_arena){0};
    arena_begin(&arena, &stats);
    huge_before = PW_READ(&stats, huge_bytes);
    return 0;
}

static int end(void **state) {
    (void)state;
    arena_end(&arena);
    return 0;
}

static uint64_t advised_bytes(void) {
    return PW_READ(&stats, huge_bytes) - huge_before;
}

static void pages_not_asked_for_stay_absent(void **state) {
    (void)state;
    struct pw_extent *extent = fresh_extent();
    assert_true(pw_huge_touch_next(&arena, extent) > 0);
    assert_true(in_memory(page_at(&arena, extent, 1)));
    assert_false(in_memory(page_at(&arena, extent, 1 + UNIT)));
    assert_int_equal(advised_bytes(), PW_HUGE_PAGE);
    assert_int_equal(*page_at(&arena, extent, 1), 0);
}

static void the_end_of_whole_units_ends_it(void **state) {
    (void)state;
    struct pw_extent *extent = fresh_extent();
    for (int unit = 0; unit < UNITS; unit++) {
        assert_true(pw_huge_touch_next(&arena, extent) > 0);
    }
    assert_int_equal(pw_huge_touch_next(&arena, extent), 0);
    assert_false(in_memory(page_at(&arena, extent, 1 + UNITS * UNIT))); // the exact tail
    assert_int_equal(advised_bytes(), UNITS * PW_HUGE_PAGE);
}

static void the_rest_can_be_advised_untouched_and_all_is_forgotten_at_once(void **state) {
    (void)state;
    struct pw_extent *extent = fresh_extent();
    const struct pw_huge huge = {.on = true, .smallest = 1, .largest = UINT64_MAX};
    assert_true(pw_huge_touch_next(&arena, extent) > 0);
    pw_huge_back(&huge, &arena, extent);
    assert_false(in_memory(page_at(&arena, extent, 1 + UNIT)));
    assert_int_equal(advised_bytes(), UNITS * PW_HUGE_PAGE);
    pw_huge_forget(&arena, extent);
    assert_int_equal(advised_bytes(), 0);
}

// What is filled with zero needs no memory, touched or not; what is not wholly filled stays.
static void large_pages_that_are_filled_with_zero_become_absent(void **state) {
    (void)state;
    struct pw_extent *extent = fresh_extent();
    pw_huge_touch_next(&arena, extent);
    pw_huge_touch_next(&arena, extent);
    pw_huge_touch_next(&arena, extent);
    *page_at(&arena, extent, 1) = 1;
    *page_at(&arena, extent, 1 + UNIT) = 2;
    *page_at(&arena, extent, 1 + 2 * UNIT) = 3;
    pw_huge_empty(&arena, extent, page_at(&arena, extent, 2),
                  page_at(&arena, extent, 1 + 2 * UNIT + 1));
    assert_false(in_memory(page_at(&arena, extent, 1 + UNIT)));
    assert_int_equal(*page_at(&arena, extent, 1), 1);
    assert_int_equal(*page_at(&arena, extent, 1 + UNIT), 0);
    assert_int_equal(*page_at(&arena, extent, 1 + 2 * UNIT), 3);
    char *whole_end = page_at(&arena, extent, 1 + UNITS * UNIT + TAIL - 1) + PW_PAGE;
    *page_at(&arena, extent, 1 + UNITS * UNIT) = 4; // behind what was advised
    pw_huge_empty(&arena, extent, page_at(&arena, extent, 0), whole_end);
    assert_int_equal(*page_at(&arena, extent, 1), 0);
    assert_int_equal(*page_at(&arena, extent, 1 + 2 * UNIT), 0);
    assert_int_equal(*page_at(&arena, extent, 1 + UNITS * UNIT), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pages_not_asked_for_stay_absent, begin, end),
        cmocka_unit_test_setup_teardown(the_end_of_whole_units_ends_it, begin, end),
        cmocka_unit_test_setup_teardown(
            the_rest_can_be_advised_untouched_and_all_is_forgotten_at_once, begin, end),
        cmocka_unit_test_setup_teardown(large_pages_that_are_filled_with_zero_become_absent, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
