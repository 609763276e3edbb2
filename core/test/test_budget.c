// SPDX-License-Identifier: MIT
//
// What needing less memory may cost.
#include "policy/budget.h"
#include "support.h"

static const uint64_t MS = 1000000, SECOND = 1000000000; // in nanoseconds

static struct pw_budget after_the_first(void) {
    struct pw_budget budget = {0};
    pw_budget_spend(&budget, pw_budget_left(&budget, 0, 0));
    return budget;
}

static void a_part_of_the_time_may_be_spent(void **state) {
    (void)state;
    struct pw_budget budget = {0};
    const uint64_t first = pw_budget_left(&budget, 5, 0);
    assert_in_range(first, 1 * MS, 100 * MS); // so that there is something to save by
    pw_budget_spend(&budget, first);
    assert_int_equal(pw_budget_left(&budget, 5, 0), 0);
    assert_int_equal(pw_budget_left(&budget, 5, 20 * SECOND), SECOND);
    pw_budget_spend(&budget, 800 * MS);
    assert_int_equal(pw_budget_left(&budget, 5, 20 * SECOND), 200 * MS);
    pw_budget_spend(&budget, 800 * MS);
    assert_int_equal(pw_budget_left(&budget, 5, 20 * SECOND), 0);
    assert_int_equal(pw_budget_left(&budget, 5, 40 * SECOND), 400 * MS);
}

static void without_a_part_what_was_saved_may(void **state) {
    (void)state;
    struct pw_budget budget = after_the_first();
    assert_int_equal(pw_budget_left(&budget, 0, 1000 * SECOND), 0);
    pw_budget_save(&budget, 300 * MS);
    assert_int_equal(pw_budget_left(&budget, 0, 1000 * SECOND), 300 * MS);
    pw_budget_spend(&budget, 200 * MS);
    assert_int_equal(pw_budget_left(&budget, 0, 1000 * SECOND), 100 * MS);
}

// A day of savings is no reason to waste the next one.
static void savings_are_put_by_up_to_a_bound(void **state) {
    (void)state;
    struct pw_budget budget = {0};
    const uint64_t first = pw_budget_left(&budget, 0, 0);
    for (int i = 0; i < 1000; i++) {
        pw_budget_save(&budget, SECOND);
    }
    assert_int_equal(pw_budget_left(&budget, 0, SECOND), 10 * SECOND + first);
    pw_budget_spend(&budget, 4 * SECOND);
    pw_budget_save(&budget, SECOND);
    assert_int_equal(pw_budget_left(&budget, 0, SECOND), 7 * SECOND + first);
}

static void pages_cost_what_they_cost_here(void **state) {
    (void)state;
    struct pw_budget budget = after_the_first();
    budget.page_price = 2000;
    pw_budget_save_pages(&budget, 1000);
    assert_int_equal(pw_budget_left(&budget, 0, SECOND), 2 * MS);
    pw_budget_spend_pages(&budget, 400);
    assert_int_equal(pw_budget_left(&budget, 0, SECOND), 1200000);
    budget = after_the_first(); // not measured
    pw_budget_save_pages(&budget, 1000);
    assert_in_range(pw_budget_left(&budget, 0, SECOND), MS / 2, 5 * MS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_the_time_may_be_spent),
        cmocka_unit_test(without_a_part_what_was_saved_may),
        cmocka_unit_test(savings_are_put_by_up_to_a_bound),
        cmocka_unit_test(pages_cost_what_they_cost_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
