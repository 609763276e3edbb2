// SPDX-License-Identifier: MIT
//
// In R's process vectors are served from two pages on, unless somebody asked for another threshold.
#include "entry/switch.h"
#include "process/state.h"
#include "runtime/collection.h"
#include "support.h"

// Found by name, as libR's: this program is R.
__attribute__((visibility("default"))) void (*R_PolledEvents)(void);

static size_t threshold_under(const char *options) {
    assert_null(pw_heap_switch_on(options));
    return pw_gate.threshold;
}

static bool is_ours(size_t size) {
    void *block = pw_allocate(size);
    assert_non_null(block);
    struct pw_block_info info;
    bool ours = pw_block_describe(block, &info);
    pw_free(block);
    return ours;
}

static void a_program_is_not_r_until_r_is_found(void **state) {
    (void)state;
    assert_int_equal(pw_gate.threshold, 128 << 10);
    assert_false(is_ours(16 << 10));
    pw_serve_runtime(false);
    assert_int_equal(pw_gate.threshold, 8 << 10);
    assert_true(is_ours(16 << 10));
    assert_false(is_ours(8191));
}

static void a_threshold_that_was_asked_for_stays(void **state) {
    (void)state;
    assert_int_equal(threshold_under("threshold=64K"), 64 << 10);
    assert_int_equal(threshold_under("threshold=128K,policy=auto"), 128 << 10);
    assert_int_equal(threshold_under("policy=auto"), 8 << 10);
}

static void other_policies_have_their_own(void **state) {
    (void)state;
    assert_int_equal(threshold_under("policy=huge"), 128 << 10);
    assert_int_equal(threshold_under("policy=share"), 8 << 10);
    assert_int_equal(threshold_under("policy=share,threshold=32K"), 32 << 10);
}

static void what_is_off_stays_off(void **state) {
    (void)state;
    pw_heap_switch_off();
    pw_serve_runtime(false);
    assert_false(pw_is_on());
    assert_false(is_ours(1 << 20));
    assert_int_equal(threshold_under("policy=auto"), 8 << 10);
}

static struct pw_block_info fresh_block(const char *options, size_t size) {
    assert_null(pw_heap_switch_on(options));
    pw_process.huge_price = (struct pw_huge_price){.cost = UINT64_MAX / 2, .pause = UINT64_MAX};
    void *block = pw_allocate(size);
    assert_non_null(block);
    struct pw_block_info info;
    assert_true(pw_block_describe(block, &info));
    pw_free(block);
    return info;
}

// Dear large pages are left alone, but not what somebody asked for by name.
static void locked_blocks_are_locked_at_any_price(void **state) {
    (void)state;
    size_t size = (size_t)8 << 20, small = size / 2; // whom the kernel lets lock 8 MB in all
    assert_int_equal(fresh_block("policy=auto,pool=off", size).huge_shift, 0);
    assert_int_equal(fresh_block("policy=auto,pool=off", small).locked, 0);
    assert_int_equal(fresh_block("policy=auto,pool=off,lock=on", small).locked, 1);
    assert_int_equal(fresh_block("policy=auto,pool=off,huge=always", size).huge_shift, 21);
    pw_process.huge_price = (struct pw_huge_price){0};
}

// How many of the 16 whole pages of 2 MB of a fresh block have memory before anybody wrote to it.
static int touched_pages(const char *options) {
    assert_null(pw_heap_switch_on(options));
    size_t unit = 2 * MB, size = 17 * unit;
    char *block = pw_allocate(size);
    assert_non_null(block);
    char *page = (char *)(((uintptr_t)block + unit - 1) & ~(unit - 1));
    int touched = 0;
    for (int i = 0; i < 16; i++) {
        touched += in_memory(page + (size_t)i * unit);
    }
    pw_free(block);
    return touched;
}

// R fills what its allocator asks for; what others ask for may stay empty. Here nobody is R, and
// with modules=all everybody is.
static void only_what_r_will_fill_is_touched_beforehand(void **state) {
    (void)state;
    struct pw_huge_price cheap = {.cost = 1};
    pw_process.huge_price = cheap;
    assert_in_range(touched_pages("policy=auto,pool=off"), 0, 1);
    pw_process.huge_price = cheap;
    int touched = touched_pages("policy=auto,pool=off,modules=all");
    bool ended_by_a_dear_page = pw_process.huge_price.pause > 0;
    assert_true(touched == 16 || (ended_by_a_dear_page && touched > 0));
    pw_process.huge_price = cheap;
    assert_int_equal(touched_pages("policy=auto,pool=off,modules=all,huge=off"), 0);
}

// Bytes that the program had at once at most since `forget_peak`.
static size_t peak(void) {
    char line[256];
    size_t kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            kilobytes = strtoul(line + 6, NULL, 10);
        }
    }
    fclose(file);
    return kilobytes << 10;
}

static bool forget_peak(void) {
#ifdef __SANITIZE_THREAD__
    return false; // TSan's shadow of what is written is in the peak, at four times its size
#endif
    FILE *file = fopen("/proc/self/clear_refs", "w");
    bool done = file && fputs("5", file) >= 0;
    return file && fclose(file) == 0 && done;
}

// Warm pages go first: they and large pages that are touched beforehand are never there together.
static void what_is_touched_beforehand_is_not_on_top_of_the_pool(void **state) {
    (void)state;
    enum { PIECES = 32 };
    assert_null(pw_heap_switch_on("policy=auto,modules=all,decay=0,huge=off"));
    char *pieces[PIECES];
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = pw_allocate(3 * MB);
        memset(pieces[i], 1, 3 * MB);
    }
    for (int i = 0; i < PIECES; i += 2) { // 48 MB, in pieces
        pw_free(pieces[i]);
    }
    assert_null(pw_heap_switch_on("policy=auto,modules=all,decay=0"));
    pw_process.huge_price = (struct pw_huge_price){.cost = 1};
    if (!forget_peak()) {
        skip();
    }
    size_t before = peak();
    char *block = pw_allocate(66 * MB);
    assert_true(peak() < before + 24 * MB); // 18 more than there was
    pw_free(block);
    for (int i = 1; i < PIECES; i += 2) {
        pw_free(pieces[i]);
    }
}

// A block that was never written makes no room for warm pages.
static void what_was_never_written_is_no_reason_to_keep_more(void **state) {
    (void)state;
    enum { PIECES = 32 };
    assert_null(pw_heap_switch_on("policy=auto,modules=all,decay=0,huge=off"));
    pw_free(pw_allocate((size_t)2 << 30));
    pw_trim();
    char *pieces[PIECES];
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = pw_allocate(3 * MB);
        memset(pieces[i], 1, 3 * MB);
    }
    pw_collection_ended();
    if (!forget_peak()) {
        skip();
    }
    size_t before = peak();
    for (int i = 0; i < PIECES; i += 2) { // 48 MB, in pieces
        pw_free(pieces[i]);
    }
    char *block = pw_allocate(66 * MB);
    memset(block, 1, 66 * MB);
    assert_true(peak() < before + 26 * MB); // 18 more than there was
    pw_free(block);
    for (int i = 1; i < PIECES; i += 2) {
        pw_free(pieces[i]);
    }
}

// The whole pages of 2 MB, of 8, that a written block still has after it was filled with zero.
static int pages_after_zero(const char *options) {
    assert_null(pw_heap_switch_on(options));
    size_t unit = 2 * MB, size = 9 * unit;
    char *block = pw_allocate(size);
    assert_non_null(block);
    char *page = (char *)(((uintptr_t)block + unit - 1) & ~(unit - 1));
    memset(block, 1, size);
    pw_zero(block, size);
    int present = 0;
    for (int i = 0; i < 8; i++) {
        present += in_memory(page + (size_t)i * unit);
    }
    for (size_t at = 0; at < size; at++) {
        assert_int_equal(block[at], 0);
    }
    pw_free(block);
    return present;
}

// Of R's vectors those that are filled with zero need no memory. A program that is not R may have
// handed its pages to a device, which would go on writing to them.
static void only_rs_large_pages_go_when_they_are_filled_with_zero(void **state) {
    (void)state;
    assert_int_equal(pages_after_zero("policy=auto,pool=off,huge=always,modules=all"), 0);
    assert_int_equal(pages_after_zero("policy=auto,pool=off,huge=always"), 8);
    assert_int_equal(pages_after_zero("policy=auto,pool=off,huge=always,modules=all,zero=off"), 8);
    assert_int_equal(pages_after_zero("policy=auto,pool=off,huge=off,modules=all"), 8);
}

int main(void) {
    CHECK(pw_start("collect=burst"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_not_r_until_r_is_found),
        cmocka_unit_test(a_threshold_that_was_asked_for_stays),
        cmocka_unit_test(other_policies_have_their_own),
        cmocka_unit_test(locked_blocks_are_locked_at_any_price),
        cmocka_unit_test(only_what_r_will_fill_is_touched_beforehand),
        cmocka_unit_test(what_is_touched_beforehand_is_not_on_top_of_the_pool),
        cmocka_unit_test(what_was_never_written_is_no_reason_to_keep_more),
        cmocka_unit_test(only_rs_large_pages_go_when_they_are_filled_with_zero),
        cmocka_unit_test(what_is_off_stays_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
