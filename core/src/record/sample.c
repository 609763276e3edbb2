// SPDX-License-Identifier: MIT
//
// Sampling: points are strewn over the allocated bytes at random, `sample` bytes apart on average
// (a Poisson process), and an allocation is recorded if a point falls into it. So one of s bytes is
// recorded with probability 1 - exp(-s / sample), whatever was allocated before it. A free is
// recorded if the block's allocation was: the addresses of those blocks are kept in a table of
// fixed size.

#include "record/log.h"

#define LINES 131072 // of eight addresses, one cache line each

bool pw_sample_start(void) {
    pw_log.sampled = pw_os_map_table((size_t)LINES * 64);
    return pw_log.sampled != NULL;
}

// xorshift64*
static uint64_t draw(struct pw_lane *lane) {
    uint64_t x = lane->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    lane->random = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

// -ln(u) for u uniform in (0, 1], without the mathematics library: u = m * 2^-zeros with m in (1,
// 2], and ln m = 2 atanh((m - 1) / (m + 1)).
static double minus_logarithm(uint64_t random) {
    random |= 1;
    int zeros = __builtin_clzll(random);
    double m = (double)(random << zeros >> 11) / (double)(UINT64_C(1) << 52);
    double z = (m - 1) / (m + 1), square = z * z;
    double sum =
        1 + square * (1 / 3.0 +
                      square * (1 / 5.0 + square * (1 / 7.0 + square * (1 / 9.0 + square / 11))));
    return (zeros + 1) * 0.69314718055994531 - 2 * z * sum;
}

static void next_point(struct pw_lane *lane) {
    double distance = minus_logarithm(draw(lane)) * (double)pw_log.sample_bytes;
    lane->until_sample = 1 + (int64_t)distance;
}

// Each thread draws its own numbers, whichever lane it was given: threads that do the same must not
// be sampled at the same places.
static uint64_t new_seed(void) {
    uint64_t thread = __atomic_add_fetch(&pw_log.seeds, 1, __ATOMIC_RELAXED);
    uint64_t process = (uint64_t)pw_log.header->pid
                       << 32; // a fork's children are threads of their own
    uint64_t x = pw_os_random() + process + thread * UINT64_C(0x9e3779b97f4a7c15); // splitmix64
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) | 1;
}

void pw_sample_begin(struct pw_lane *lane) {
    if (pw_log.sample_bytes) {
        lane->random = new_seed();
        next_point(lane);
    }
}

bool pw_sample_takes(struct pw_lane *lane, size_t size) {
    int64_t length = size > INT64_MAX / 2 ? INT64_MAX / 2 : size ? (int64_t)size : 1;
    lane->until_sample -= length;
    if (lane->until_sample > 0) {
        return false;
    }
    next_point(lane);
    return true;
}

static uint64_t *line_of(const void *block) {
    uint64_t hash = ((uintptr_t)block >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    return pw_log.sampled + (hash >> 47) % LINES * 8;
}

static bool replace(uint64_t *line, uint64_t from, uint64_t to) {
    for (int i = 0; i < 8; i++) {
        uint64_t seen = __atomic_load_n(line + i, __ATOMIC_RELAXED);
        if (seen == from && __atomic_compare_exchange_n(line + i, &seen, to, false,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            return true;
        }
    }
    return false;
}

bool pw_sample_add(const void *block) {
    return replace(line_of(block), 0, (uintptr_t)block);
}

bool pw_sample_remove(const void *block) {
    return replace(line_of(block), (uintptr_t)block, 0);
}
