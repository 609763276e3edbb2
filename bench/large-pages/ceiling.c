// SPDX-License-Identifier: MIT
//
// The most that page size can give to random access on this machine: y[k] = x[i[k]] and x[i[k]] =
// y[k] over 2e7 doubles, all pages touched before, once with 4 KB pages and once with 2 MB pages.
// Prints milliseconds of CPU a pass, medians of several alternating rounds, as JSON.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { ROUNDS = 7, SIZES = 2, KINDS = 2 };
static const size_t COUNT = 20000000;
static const size_t HUGE_PAGE = (size_t)2 << 20;

struct data {
    double *x, *y;
    int32_t *index;
};

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void *map(size_t bytes, int advice) {
    size_t size = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    char *raw =
        mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    char *at = (char *)(((uintptr_t)raw + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    madvise(at, size, advice);
    return at;
}

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static struct data make(int advice) {
    struct data d = {.x = map(COUNT * sizeof(double), advice),
                     .y = map(COUNT * sizeof(double), advice),
                     .index = map(COUNT * sizeof(int32_t), advice)};
    for (size_t k = 0; k < COUNT; k++) {
        d.x[k] = d.y[k] = (double)k;
        d.index[k] = (int32_t)k;
    }
    uint64_t state = 88172645463325252U;
    for (size_t k = COUNT - 1; k > 0; k--) {
        size_t other = next_random(&state) % (k + 1);
        int32_t kept = d.index[k];
        d.index[k] = d.index[other];
        d.index[other] = kept;
    }
    return d;
}

static double gather(struct data d) {
    double start = milliseconds();
    for (size_t k = 0; k < COUNT; k++)
        d.y[k] = d.x[d.index[k]];
    return milliseconds() - start;
}

static double scatter(struct data d) {
    double start = milliseconds();
    for (size_t k = 0; k < COUNT; k++)
        d.x[d.index[k]] = d.y[k];
    return milliseconds() - start;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void) {
    struct data data[SIZES] = {make(MADV_NOHUGEPAGE), make(MADV_HUGEPAGE)};
    double took[SIZES][KINDS][ROUNDS];
    for (int round = 0; round < ROUNDS; round++)
        for (int size = 0; size < SIZES; size++) {
            took[size][0][round] = gather(data[size]);
            took[size][1][round] = scatter(data[size]);
        }
    for (int size = 0; size < SIZES; size++)
        for (int kind = 0; kind < KINDS; kind++)
            qsort(took[size][kind], ROUNDS, sizeof(double), by_size);
    printf("{\"gather_small_ms\": %.1f, \"gather_huge_ms\": %.1f, \"scatter_small_ms\": %.1f, "
           "\"scatter_huge_ms\": %.1f}\n",
           took[0][0][ROUNDS / 2], took[1][0][ROUNDS / 2], took[0][1][ROUNDS / 2],
           took[1][1][ROUNDS / 2]);
    return 0;
}
