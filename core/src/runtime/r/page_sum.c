// SPDX-License-Identifier: MIT
//
// A polynomial over the nodes, each of them a sum of products, modulo the prime 2^61 - 1: see
// Carter and Wegman, Universal classes of hash functions (1979).
#include "runtime/r/page_sum.h"

#include "os/os.h"

#define PRIME         (((uint64_t)1 << 61) - 1)
#define WORD_KEY_MASK (((uint64_t)1 << 58) - 1) // twenty products fit
#define PAGE_KEY      0
#define BITS_KEY      1
#define ATTRIBUTES    2
#define WORDS         3
#define FIRST_WORD    4 // behind a node's links

typedef unsigned __int128 wide;

void pw_r_sum_key_make(struct pw_r_sum_key *key) {
    if (!pw_os_random_bytes(key, sizeof *key)) {
        *key = (struct pw_r_sum_key){0};
        return;
    }
    for (unsigned i = 0; i < PW_R_SUM_KEYS; i++) {
        key->keys[i] &= WORD_KEY_MASK;
    }
    key->keys[PAGE_KEY] |= 1;
}

static uint64_t modulo(wide number) {
    wide high = number >> 61;
    uint64_t sum = ((uint64_t)number & PRIME) + (uint64_t)(high & PRIME) + (uint64_t)(high >> 61);
    sum = (sum & PRIME) + (sum >> 61);
    return sum >= PRIME ? sum - PRIME : sum;
}

// The type, ALTREP, and what pw_r_holds_number reads.
static uint64_t telling_bits(uint64_t info) {
    return (info & 0x9f) | info >> 48 << 8;
}

static wide sum_of(const struct pw_r_sum_key *key, const struct pw_r_node *node, size_t words) {
    const uint64_t *word = (const uint64_t *)node;
    wide sum = (wide)telling_bits(node->info) * key->keys[BITS_KEY] +
               (wide)(uintptr_t)node->attributes * key->keys[ATTRIBUTES];
    for (size_t i = FIRST_WORD; i < words; i++) {
        sum += (wide)word[i] * key->keys[WORDS + i - FIRST_WORD];
    }
    return sum;
}

uint64_t pw_r_page_sum(const struct pw_r_sum_key *key, const struct pw_r_frozen_page *page) {
    if (key->keys[PAGE_KEY] == 0) {
        return PW_R_NO_SUM;
    }
    size_t words = pw_r_node_size(page->class) / sizeof(uint64_t);
    uint64_t sum = 0;
    for (unsigned word = 0; word < PW_R_PAGE_WORDS; word++) {
        for (uint64_t left = page->nodes[word]; left; left &= left - 1) {
            unsigned at = word * 64 + (unsigned)__builtin_ctzll(left);
            wide node = sum_of(key, pw_r_page_node(page, at), words);
            sum = modulo((wide)sum * key->keys[PAGE_KEY] + node);
        }
    }
    return sum;
}
