// SPDX-License-Identifier: MIT
//
// Large pages one by one: advised and touched as far as somebody asks, and no further.
#include "arena_fixture.h"
#include "huge/huge.h"
#include "os/numbers.h"

#include <sys/syscall.h>
#include <sys/wait.h>

enum { UNIT = PW_HUGE_PAGE / PW_PAGE, UNITS = 3, TAIL = UNIT / 5 };

static struct pw_arena arena;
static struct pw_stats stats;
static uint64_t huge_before;

static struct pw_extent *fresh_extent(void) {
    struct pw_extent *extent = pw_arena_take_cold(&arena, 1 + UNITS * UNIT + TAIL, UNIT);
    assert_non_null(extent);
    pw_arena_use(&arena, extent);
    return extent;
}

static unsigned advised[32]; // calls by advice

// Takes the place of the C library's.
int madvise(void *address, size_t size, int advice) {
    CHECK(advice >= 0 && advice < 32);
    advised[advice]++;
    return (int)syscall(SYS_madvise, address, size, advice);
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

static unsigned long long splits(void) {
    char line[128];
    unsigned long long count = 0;
    FILE *file = fopen("/proc/vmstat", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) && sscanf(line, "thp_split_page %llu", &count) != 1) {}
    fclose(file);
    return count;
}

// The kernel would keep all of a huge page for the sake of the part that is still in use.
static void a_huge_page_that_goes_in_part_is_split_at_once(void **state) {
    (void)state;
    struct pw_extent *extent = fresh_extent();
    char *unit = page_at(&arena, extent, 1);
    unsigned char resident[UNIT] = {0};
    pw_huge_touch_next(&arena, extent);
    assert_int_equal(mincore(unit, PW_HUGE_PAGE, resident), 0);
    if (!resident[UNIT - 1]) {
        skip(); // the kernel had no huge page
    }
    *page_at(&arena, extent, UNIT) = 5;
    unsigned long long before = splits();
    pw_os_split_huge(unit, PW_HUGE_PAGE / 2);
    assert_true(splits() > before);
    assert_true(pw_os_discard(unit, PW_HUGE_PAGE / 2));
    assert_int_equal(*page_at(&arena, extent, UNIT), 5);
}

// A page that is free here may be in use in the child of a fork. MADV_FREE would let the kernel
// drop it there too: pages of zeros in children under memory pressure.
static void pages_that_a_child_reads_are_not_offered_to_the_kernel(void **state) {
    (void)state;
    struct pw_extent *extent = fresh_extent();
    size_t size = (size_t)extent->pages * PW_PAGE;
    char *block = pw_extent_address(&arena, extent);
    pw_huge_touch_next(&arena, extent);
    memset(block, 6, size);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(ready[1]);
        bool right = read(ready[0], &byte, 1) == 1;
        madvise(block, size, MADV_PAGEOUT);
        for (size_t i = 0; i < size; i += PW_PAGE) {
            right = right && block[i] == 6;
        }
        _exit(!right);
    }
    assert_true(child > 0);
    pw_arena_release(&arena, extent, PW_EXTENT_WARM);
    assert_true(pw_arena_purge(&arena, UINT64_MAX) > 0);
    int status;
    assert_int_equal(write(ready[1], "", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(status, 0);
    assert_int_equal(advised[MADV_FREE], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pages_not_asked_for_stay_absent, begin, end),
        cmocka_unit_test_setup_teardown(the_end_of_whole_units_ends_it, begin, end),
        cmocka_unit_test_setup_teardown(
            the_rest_can_be_advised_untouched_and_all_is_forgotten_at_once, begin, end),
        cmocka_unit_test_setup_teardown(large_pages_that_are_filled_with_zero_become_absent, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_huge_page_that_goes_in_part_is_split_at_once, begin, end),
        cmocka_unit_test_setup_teardown(pages_that_a_child_reads_are_not_offered_to_the_kernel,
                                        begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
