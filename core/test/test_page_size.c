// SPDX-License-Identifier: MIT
//
// A kernel whose pages are of another size than the library's: nothing is begun, and all say why.
#include "entry/switch.h"
#include "os/fault.h"
#include "pagewise.h"
#include "process/state.h"
#include "support.h"

static int other_pages(void **state) {
    (void)state;
    pw_os_fault_plan(PW_POINT_PAGE_SIZE, EINVAL, 1, 1);
    return 0;
}

static int own_pages(void **state) {
    (void)state;
    pw_os_fault_clear();
    return 0;
}

static void the_start_leaves_all_to_the_c_library(void **state) {
    (void)state;
    assert_false(pw_start("modules=all,policy=ksm"));
    assert_int_equal(PW_READ(&pw_process.stats, fallback_page_size), 1);
    assert_null(pw_process.arena.base);
    void *block = pw_allocate(16 << 20);
    assert_non_null(block);
    memset(block, 1, 16 << 20);
    pw_free(block);
    assert_int_equal(PW_READ(&pw_process.stats, blocks_allocated), 0);
}

static void neither_does_it_map_blocks_itself(void **state) {
    (void)state;
    assert_false(pw_gate.map_directly || pw_gate.mergeable);
}

static void switching_on_says_why_not(void **state) {
    (void)state;
    const char *problem = pw_heap_switch_on(NULL);
    assert_non_null(problem);
    assert_non_null(strstr(problem, "pages of 4 KB"));
    assert_false(pw_is_on());
}

static void heaps_and_regions_are_refused(void **state) {
    (void)state;
    errno = 0;
    assert_null(pw_heap_new(NULL));
    assert_int_equal(errno, ENOSYS);
    errno = 0;
    assert_null(pw_region_new(NULL));
    assert_int_equal(errno, ENOSYS);
}

static void no_object_is_shared(void **state) {
    (void)state;
    struct pw_shared shared;
    assert_int_equal(pw_shared_begin(&shared, 1), PW_SHARED_PAGES);
    assert_int_equal(shared.fd, -1);
}

static void a_kernel_with_such_pages_is_served(void **state) {
    (void)state;
    assert_null(pw_heap_switch_on(NULL));
    assert_true(pw_is_on());
    struct pw_heap *heap = pw_heap_new(NULL);
    assert_non_null(heap);
    pw_heap_delete(heap);
}

#define WITH(kernel, test) cmocka_unit_test_setup_teardown(test, kernel##_pages, own_pages)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(other, the_start_leaves_all_to_the_c_library),
        WITH(other, neither_does_it_map_blocks_itself),
        WITH(other, switching_on_says_why_not),
        WITH(other, heaps_and_regions_are_refused),
        WITH(other, no_object_is_shared),
        WITH(own, a_kernel_with_such_pages_is_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
