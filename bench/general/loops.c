// SPDX-License-Identifier: MIT
//
// Loops of malloc and free, for comparing allocators that are preloaded:
//     loops replace|pairs|hand-over THREADS OPERATIONS [BLOCKS]
// THREADS 0: in the first thread, without starting any. Prints seconds, CPU seconds, MB at the
// peak.
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define MOST_THREADS 16
#define RING         4096

static long operations;
static unsigned long blocks = 10000;

static uint64_t next(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

// Most blocks are small, as in servers written in dynamic languages.
static size_t choose_size(uint64_t *state) {
    uint64_t random = next(state);
    unsigned percent = (random >> 40) % 100;
    random >>= 8;
    if (percent < 60) {
        return 16 + random % 112;
    }
    if (percent < 90) {
        return 128 + random % 900;
    }
    return percent < 98 ? 1024 + random % 7000 : 8192 + random % 24000;
}

static void *allocate(size_t size) {
    char *block = malloc(size);
    if (!block) {
        abort();
    }
    block[0] = block[size - 1] = 1;
    return block;
}

static void *replace(void *number) {
    uint64_t state = 0x1234567 + (uintptr_t)number * 77;
    void **held = calloc(blocks, sizeof *held);
    for (long i = 0; i < operations; i++) {
        unsigned long at = (next(&state) >> 20) % blocks;
        free(held[at]);
        held[at] = allocate(choose_size(&state));
    }
    for (unsigned long i = 0; i < blocks; i++) {
        free(held[i]);
    }
    free(held);
    return NULL;
}

static void *pairs(void *number) {
    uint64_t state = 99 + (uintptr_t)number;
    for (long i = 0; i < operations; i++) {
        void *held[8];
        for (int j = 0; j < 8; j++) {
            held[j] = allocate(16 + (next(&state) >> 30) % 200);
        }
        for (int j = 0; j < 8; j++) {
            free(held[j]);
        }
    }
    return NULL;
}

static struct ring {
    void *held[RING];
    unsigned long head, tail;
} rings[MOST_THREADS];

static void *produce(void *number) {
    struct ring *ring = &rings[(uintptr_t)number];
    uint64_t state = 5 + (uintptr_t)number;
    for (long i = 0; i < operations; i++) {
        void *block = allocate(16 + (next(&state) >> 30) % 500);
        while (ring->head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) >= RING) {
            sched_yield();
        }
        ring->held[ring->head % RING] = block;
        __atomic_store_n(&ring->head, ring->head + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void *consume(void *number) {
    struct ring *ring = &rings[(uintptr_t)number];
    for (long i = 0; i < operations; i++) {
        while (__atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) == ring->tail) {
            sched_yield();
        }
        free(ring->held[ring->tail % RING]);
        __atomic_store_n(&ring->tail, ring->tail + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double seconds(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "usage: loops replace|pairs|hand-over THREADS OPERATIONS [BLOCKS]\n");
        return 2;
    }
    unsigned long threads = strtoul(arguments[2], NULL, 10) % (MOST_THREADS + 1);
    operations = strtol(arguments[3], NULL, 10);
    blocks = count > 4 ? strtoul(arguments[4], NULL, 10) : blocks;
    void *(*body)(void *) = strcmp(arguments[1], "replace") == 0 ? replace : pairs;
    bool hands_over = strcmp(arguments[1], "hand-over") == 0;
    pthread_t started[2 * MOST_THREADS];
    unsigned running = 0;
    double begin = now();
    if (threads == 0) {
        body((void *)1);
    }
    for (uintptr_t i = 0; i < threads; i++) {
        pthread_create(&started[running++], NULL, hands_over ? produce : body, (void *)i);
        if (hands_over) {
            pthread_create(&started[running++], NULL, consume, (void *)i);
        }
    }
    while (running > 0) {
        pthread_join(started[--running], NULL);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%.3f %.3f %ld\n", now() - begin, seconds(usage.ru_utime) + seconds(usage.ru_stime),
           usage.ru_maxrss / 1024);
    return 0;
}
