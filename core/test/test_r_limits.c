// SPDX-License-Identifier: MIT
//
// R's limits while part of its heap is frozen: they move as they would with it, whatever the
// program or R's own reckoning does to them meanwhile.
#include "runtime/r/limits.h"
#include "support.h"

#include <string.h>

#define MILLION UINT64_C(1000000)

struct heap {
    struct pw_r_heap_class classes[PW_R_CLASSES];
    uint64_t node_limit, vector_limit, vector_most;
    struct pw_r_layout layout;
};

static void make_heap(struct heap *heap, uint64_t nodes_in_use) {
    memset(heap, 0, sizeof *heap);
    heap->node_limit = 4 * MILLION;
    heap->vector_limit = 32 * MILLION;
    heap->vector_most = 400 * MILLION;
    heap->classes[1].old_count[PW_R_OLDEST] = (int)nodes_in_use;
    heap->layout = (struct pw_r_layout){
        .classes = heap->classes,
        .node_limit = &heap->node_limit,
        .vector_limit = &heap->vector_limit,
        .vector_most = &heap->vector_most,
    };
}

static void freeze(struct pw_r_limits *limits, struct heap *heap, uint64_t nodes, bool may_grow) {
    struct pw_r_amount amount = {nodes, 2 * nodes};
    assert_true(pw_r_limits_fit(&heap->layout, amount));
    heap->classes[1].old_count[PW_R_OLDEST] -= (int)nodes;
    pw_r_limits_freeze(limits, &heap->layout, amount, may_grow);
}

static void assert_limits(const struct heap *heap, uint64_t nodes, uint64_t units, uint64_t most) {
    assert_int_equal(heap->node_limit, nodes);
    assert_int_equal(heap->vector_limit, units);
    assert_int_equal(heap->vector_most, most);
}

static void a_thaw_brings_them_back(void **state) {
    (void)state;
    struct heap heap;
    struct pw_r_limits limits;
    make_heap(&heap, 2 * MILLION);
    freeze(&limits, &heap, MILLION, true);
    assert_limits(&heap, 3 * MILLION, 30 * MILLION, 398 * MILLION);
    pw_r_limits_give_back(&limits, (struct pw_r_amount){MILLION / 4, MILLION / 2});
    assert_limits(&heap, 3250000, 30500000, 398500000);
    pw_r_limits_thaw(&limits);
    assert_limits(&heap, 4 * MILLION, 32 * MILLION, 400 * MILLION);
    assert_int_equal(limits.frozen.nodes, 0);
}

static void no_limit_stays_none(void **state) {
    (void)state;
    struct heap heap;
    struct pw_r_limits limits;
    make_heap(&heap, 2 * MILLION);
    heap.vector_most = PW_R_NO_LIMIT;
    freeze(&limits, &heap, MILLION, true);
    assert_limits(&heap, 3 * MILLION, 30 * MILLION, PW_R_NO_LIMIT);
    pw_r_limits_thaw(&limits);
    assert_limits(&heap, 4 * MILLION, 32 * MILLION, PW_R_NO_LIMIT);
}

static void a_limit_that_the_program_sets_is_kept(void **state) {
    (void)state;
    struct heap heap;
    struct pw_r_limits limits;
    make_heap(&heap, 2 * MILLION);
    freeze(&limits, &heap, MILLION, true);
    heap.vector_most = 50 * MILLION;
    pw_r_limits_thaw(&limits);
    assert_limits(&heap, 4 * MILLION, 32 * MILLION, 50 * MILLION);

    make_heap(&heap, 2 * MILLION);
    freeze(&limits, &heap, MILLION, true);
    heap.vector_most = 31 * MILLION; // R takes what is in use from it, without a sign
    pw_r_limits_thaw(&limits);
    assert_limits(&heap, 4 * MILLION, 32 * MILLION, 32 * MILLION);
}

static void limits_that_are_too_low_are_left_alone(void **state) {
    (void)state;
    struct heap heap;
    make_heap(&heap, 2 * MILLION);
    assert_false(pw_r_limits_fit(&heap.layout, (struct pw_r_amount){4 * MILLION, 1}));
    assert_false(pw_r_limits_fit(&heap.layout, (struct pw_r_amount){1, 32 * MILLION}));
    heap.vector_most = 10;
    assert_false(pw_r_limits_fit(&heap.layout, (struct pw_r_amount){1, 10}));
}

static void r_does_not_shrink_below_what_it_had(void **state) {
    (void)state;
    struct heap heap;
    struct pw_r_limits limits;
    make_heap(&heap, 3 * MILLION);
    freeze(&limits, &heap, 2 * MILLION, true);
    pw_r_limits_look(&limits);
    heap.node_limit = 350000; // what R starts with
    heap.vector_limit = 500 * MILLION;
    pw_r_limits_collected(&limits);
    assert_int_equal(heap.node_limit, 2 * MILLION);
    assert_int_equal(heap.vector_limit, heap.vector_most);
}

// A full collection of a heap of which 2 of 4 million nodes are frozen, and R's limit after it.
static uint64_t limit_after(uint64_t in_use_besides, uint64_t limit_of_r, bool may_grow) {
    struct heap heap;
    struct pw_r_limits limits;
    make_heap(&heap, 2 * MILLION + in_use_besides);
    freeze(&limits, &heap, 2 * MILLION, may_grow);
    pw_r_limits_look(&limits);
    heap.node_limit = limit_of_r;
    pw_r_limits_collected(&limits);
    pw_r_limits_collected_fully(&limits);
    return heap.node_limit + 2 * MILLION;
}

static void the_heap_grows_as_with_nothing_frozen(void **state) {
    (void)state;
    assert_int_equal(limit_after(700000, 2 * MILLION, true), 4 * MILLION);  // .675 in use
    assert_int_equal(limit_after(900000, 2 * MILLION, true), 4800000);      // .725
    assert_int_equal(limit_after(900000, 2 * MILLION, false), 4 * MILLION); // R must not grow
    assert_int_equal(limit_after(1500000, 2400000, true), 4400000);         // R has grown by itself
}

// R reckons that what is in use goes on growing as it did. After a freeze it fell by what was
// frozen, and that R makes a growth of 2^64 less so many.
static void a_growth_that_r_reckons_without_a_sign_is_bounded(void **state) {
    (void)state;
    uint64_t limit = limit_after(900000, UINT64_MAX / 2, true);
    assert_true(limit >= 4800000);
    assert_true(limit <= 2 * 2900000 * 10 / 7 + 1);
    // Where it may be no end of a collection, nothing else is moved.
    struct heap heap;
    struct pw_r_limits limits;
    make_heap(&heap, 2900000);
    freeze(&limits, &heap, 2 * MILLION, true);
    heap.node_limit = UINT64_MAX;
    pw_r_limits_keep_growth_in_bounds(&limits);
    assert_true(heap.node_limit <= 2 * 2900000 * 10 / 7 + 1 - 2 * MILLION);
    heap.node_limit = 1900000;
    pw_r_limits_keep_growth_in_bounds(&limits);
    assert_int_equal(heap.node_limit, 1900000);
}

static void what_it_grew_by_is_kept_until_little_is_in_use(void **state) {
    (void)state;
    struct heap heap;
    struct pw_r_limits limits;
    make_heap(&heap, 2900000);
    freeze(&limits, &heap, 2 * MILLION, true);
    pw_r_limits_look(&limits);
    pw_r_limits_collected(&limits);
    pw_r_limits_collected_fully(&limits);
    assert_int_equal(heap.node_limit, 2800000);
    pw_r_limits_look(&limits);
    heap.node_limit = 350000;
    heap.classes[1].old_count[PW_R_OLDEST] = 0; // 2 of 4.8 million: more than three tenths
    pw_r_limits_collected(&limits);
    pw_r_limits_collected_fully(&limits);
    assert_int_equal(heap.node_limit, 2800000);
    pw_r_limits_give_back(&limits, (struct pw_r_amount){MILLION, 0}); // and it was garbage
    heap.node_limit = 350000;
    pw_r_limits_look(&limits);
    heap.node_limit = 9 * MILLION;
    pw_r_limits_collected_fully(&limits); // 1 of 10 million
    heap.node_limit = 350000;
    pw_r_limits_collected(&limits);
    assert_int_equal(heap.node_limit, 3 * MILLION); // as when it was frozen
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thaw_brings_them_back),
        cmocka_unit_test(no_limit_stays_none),
        cmocka_unit_test(a_limit_that_the_program_sets_is_kept),
        cmocka_unit_test(limits_that_are_too_low_are_left_alone),
        cmocka_unit_test(r_does_not_shrink_below_what_it_had),
        cmocka_unit_test(the_heap_grows_as_with_nothing_frozen),
        cmocka_unit_test(a_growth_that_r_reckons_without_a_sign_is_bounded),
        cmocka_unit_test(what_it_grew_by_is_kept_until_little_is_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
