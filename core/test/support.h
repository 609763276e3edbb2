// SPDX-License-Identifier: MIT
//
// What the tests share: checks that also work in forked children, and a seeded random source.
#ifndef PW_TEST_SUPPORT_H
#define PW_TEST_SUPPORT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SKIPPED 77 // exit status that ctest shows as skipped

// cmocka's own asserts jump back into the runner, which a forked child must not do.
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            fflush(stderr);                                                                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define CHECK_EQUAL(found, wanted)                                                                 \
    do {                                                                                           \
        unsigned long long is = (found), should = (wanted);                                        \
        if (is != should) {                                                                        \
            fprintf(stderr, "%s:%d: %s is %llu and not %llu\n", __FILE__, __LINE__, #found, is,    \
                    should);                                                                       \
            fflush(stderr);                                                                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

// xorshift64*: the same numbers from the same seed everywhere.
struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *random) {
    random->state ^= random->state >> 12;
    random->state ^= random->state << 25;
    random->state ^= random->state >> 27;
    return random->state * 0x2545f4914f6cdd1du;
}

static inline struct random random_from(uint64_t seed) {
    struct random random = {.state = seed * 0x9e3779b97f4a7c15u + 0x1234567};
    random_next(&random);
    return random;
}

// In [0, limit).
static inline uint64_t random_below(struct random *random, uint64_t limit) {
    return (random_next(random) >> 11) % limit;
}

static inline bool random_chance(struct random *random, unsigned one_in) {
    return random_below(random, one_in) == 0;
}

static inline void random_fill(struct random *random, void *to, size_t size) {
    unsigned char *bytes = to;
    uint64_t word = random_next(random);
    size_t at = 0;
    for (; at + sizeof word <= size; at += sizeof word) {
        memcpy(bytes + at, &word, sizeof word);
        word += 0x9e3779b97f4a7c15u;
    }
    memcpy(bytes + at, &word, size - at);
}

// Run `body` in a forked child, which ends with 0 unless the body ends it otherwise. Returns the
// wait status.
static inline int run_in_child(void (*body)(void *), void *argument) {
    fflush(stdout);
    fflush(stderr);
    pid_t child = fork();
    if (child == 0) {
        body(argument);
        fflush(stdout);
        fflush(stderr);
        _exit(0);
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)

// Is there memory behind an address?
static inline bool in_memory(const void *address) {
    unsigned char resident = 0;
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)((uintptr_t)address & ~(size - 1));
    assert_int_equal(mincore(page, size, &resident), 0);
    return resident & 1;
}

#endif
