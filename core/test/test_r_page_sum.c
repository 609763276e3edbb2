// SPDX-License-Identifier: MIT
//
// The sum of a page of R's nodes: another one whenever a frozen node may hold something else, and
// the same whenever only counts, marks and links have changed.
#include "runtime/r/page_sum.h"
#include "support.h"

#include <string.h>

#define NODES 30

struct page {
    struct pw_r_frozen_page frozen;
    uint64_t memory[2048];
};

static struct pw_r_sum_key key;

static struct pw_r_node *node_at(struct page *page, unsigned at) {
    return pw_r_page_node(&page->frozen, at);
}

// All nodes but the last are frozen.
static void make_page(struct page *page, unsigned class) {
    memset(page, 0, sizeof *page);
    page->frozen = (struct pw_r_frozen_page){
        .page = (struct pw_r_page *)page->memory, .class = (uint8_t) class, .count = NODES - 1};
    page->frozen.nodes[0] = ((uint64_t)1 << (NODES - 1)) - 1;
    uint64_t some = 88172645463325252;
    for (size_t i = 0; i < sizeof page->memory / sizeof *page->memory; i++) {
        some ^= some << 13, some ^= some >> 7, some ^= some << 17;
        page->memory[i] = some >> 16 & ~(uint64_t)7; // as addresses
    }
}

static uint64_t sum_of(const struct page *page) {
    uint64_t sum = pw_r_page_sum(&key, &page->frozen);
    assert_true(sum < (uint64_t)1 << 61);
    assert_int_equal(pw_r_page_sum(&key, &page->frozen), sum);
    return sum;
}

static void assert_told(struct page *page, uint64_t *word, uint64_t change) {
    uint64_t before = sum_of(page);
    *word ^= change;
    assert_int_not_equal(sum_of(page), before);
    *word ^= change;
    assert_int_equal(sum_of(page), before);
}

static void assert_not_told(struct page *page, uint64_t *word, uint64_t change) {
    uint64_t before = sum_of(page);
    *word ^= change;
    assert_int_equal(sum_of(page), before);
    *word ^= change;
}

static void whatever_a_node_holds_is_told(void **state) {
    (void)state;
    static struct page page;
    for (unsigned class = 0; class < PW_R_SMALL_CLASSES; class ++) {
        make_page(&page, class);
        for (unsigned at = 0; at < NODES - 1; at++) {
            uint64_t *words = (uint64_t *)node_at(&page, at);
            assert_told(&page, &words[1], 8); // attributes
            for (size_t i = 4; i < pw_r_node_size(class) / 8; i++) {
                assert_told(&page, &words[i], 8);
                assert_told(&page, &words[i], (uint64_t)1 << 46);
            }
            for (unsigned bit = 0; bit < 5; bit++) {
                assert_told(&page, &words[0], (uint64_t)1 << bit); // the type
            }
            assert_told(&page, &words[0], (uint64_t)1 << 7);  // ALTREP
            assert_told(&page, &words[0], (uint64_t)1 << 48); // holds a number
            assert_told(&page, &words[0], (uint64_t)1 << 63);
        }
    }
}

static void counts_marks_and_links_are_not(void **state) {
    (void)state;
    static struct page page;
    for (unsigned class = 0; class < PW_R_SMALL_CLASSES; class ++) {
        make_page(&page, class);
        uint64_t *words = (uint64_t *)node_at(&page, 3);
        assert_not_told(&page, &words[0], PW_R_MARK);
        assert_not_told(&page, &words[0], (uint64_t)0xffff << 32); // references
        assert_not_told(&page, &words[2], 8);
        assert_not_told(&page, &words[3], 8);
        uint64_t *other = (uint64_t *)node_at(&page, NODES - 1); // not frozen
        for (size_t i = 0; i < pw_r_node_size(class) / 8; i++) {
            assert_not_told(&page, &other[i], 8);
        }
    }
}

static void what_changes_places_is_told(void **state) {
    (void)state;
    static struct page page;
    make_page(&page, 0);
    struct pw_r_node *one = node_at(&page, 1), *two = node_at(&page, 2);
    uint64_t before = sum_of(&page);
    struct pw_r_node *kept = one->fields[0]; // between nodes
    one->fields[0] = two->fields[0], two->fields[0] = kept;
    assert_int_not_equal(sum_of(&page), before);
    two->fields[0] = one->fields[0], one->fields[0] = kept;
    one->fields[0] = one->fields[1], one->fields[1] = kept; // within one
    assert_int_not_equal(sum_of(&page), before);
}

// By the compiler's division.
static uint64_t expected_sum(struct page *page) {
    unsigned __int128 prime = ((uint64_t)1 << 61) - 1, sum = 0;
    for (unsigned at = 0; at < NODES - 1; at++) {
        const uint64_t *words = (const uint64_t *)node_at(page, at);
        uint64_t bits = (words[0] & 0x9f) | words[0] >> 48 << 8;
        sum = sum * key.keys[0] % prime;
        sum += (unsigned __int128)bits * key.keys[1] % prime;
        sum += (unsigned __int128)words[1] * key.keys[2] % prime;
        for (size_t i = 4; i < pw_r_node_size(page->frozen.class) / 8; i++) {
            sum += (unsigned __int128)words[i] * key.keys[i - 1] % prime;
        }
        sum %= prime;
    }
    return (uint64_t)sum;
}

static void sums_are_modulo_the_prime(void **state) {
    (void)state;
    static struct page page;
    for (unsigned class = 0; class < PW_R_SMALL_CLASSES; class ++) {
        make_page(&page, class);
        assert_int_equal(sum_of(&page), expected_sum(&page));
    }
}

// The largest words and keys that there can be.
static void no_product_overflows(void **state) {
    (void)state;
    static struct page page;
    struct pw_r_sum_key random = key;
    make_page(&page, PW_R_SMALL_CLASSES - 1);
    memset(page.memory, 0xff, sizeof page.memory);
    memset(&key, 0xff, sizeof key);
    for (unsigned i = 0; i < PW_R_SUM_KEYS; i++) {
        key.keys[i] >>= 6;
    }
    uint64_t *words = (uint64_t *)node_at(&page, 0);
    assert_int_equal(sum_of(&page), expected_sum(&page));
    for (size_t i = 4; i < pw_r_node_size(PW_R_SMALL_CLASSES - 1) / 8; i++) {
        assert_told(&page, &words[i], 8);
    }
    key = random;
}

static void without_a_key_there_is_none(void **state) {
    (void)state;
    static struct page page;
    make_page(&page, 0);
    assert_int_equal(pw_r_page_sum(&(struct pw_r_sum_key){0}, &page.frozen), PW_R_NO_SUM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_a_node_holds_is_told),
        cmocka_unit_test(counts_marks_and_links_are_not),
        cmocka_unit_test(what_changes_places_is_told),
        cmocka_unit_test(sums_are_modulo_the_prime),
        cmocka_unit_test(no_product_overflows),
        cmocka_unit_test(without_a_key_there_is_none),
    };
    pw_r_sum_key_make(&key);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
