// SPDX-License-Identifier: MIT
//
// Threads that hand blocks to each other.
#include "contract.h"

#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 256, THREADS = 4, STEPS = 3000 };

// A block says how long it is, and by which seed it was filled.
struct letter {
    size_t size;
    uint64_t seed;
};

static _Atomic(struct letter *) places[PLACES];

static struct letter *written_letter(struct random *random) {
    size_t size = sizeof(struct letter) + random_size(random);
    struct letter *letter = NULL;
    switch (random_below(random, 4)) {
    case 0:
        letter = got(calloc(1, size), size);
        CHECK(is_all(letter, size < PAGE ? size : PAGE, 0));
        break;
    case 1:
        letter = got_aligned(memalign(64, size), 64, size);
        break;
    default:
        letter = got(malloc(size), size);
    }
    letter->size = size;
    letter->seed = random->state;
    fill(letter + 1, size - sizeof *letter, letter->seed);
    return letter;
}

static struct letter *rewritten(struct letter *letter, struct random *random) {
    size_t size = sizeof *letter + random_size(random);
    size_t kept_bytes = (letter->size < size ? letter->size : size) - sizeof *letter;
    letter = got(realloc(letter, size), size);
    CHECK(holds(letter + 1, kept_bytes, letter->seed));
    letter->size = size;
    fill(letter + 1, size - sizeof *letter, letter->seed);
    return letter;
}

static void read_and_free(struct letter *letter) {
    if (letter) {
        CHECK(malloc_usable_size(letter) >= letter->size);
        CHECK(holds(letter + 1, letter->size - sizeof *letter, letter->seed));
        free(letter);
    }
}

static void *correspond(void *argument) {
    struct random random = {(uintptr_t)argument * 7919};
    for (unsigned i = 0; i < STEPS; i++) {
        size_t place = random_below(&random, PLACES);
        struct letter *letter = NULL;
        if (random_below(&random, 3)) {
            letter = written_letter(&random);
        }
        letter = atomic_exchange(&places[place], letter);
        if (letter && random_below(&random, 4) == 0) {
            letter = rewritten(letter, &random);
        }
        read_and_free(letter);
    }
    return NULL;
}

static void letters(void) {
    void *threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        threads[i] = new_thread(correspond, (void *)(i + 1));
    }
    for (unsigned i = 0; i < THREADS; i++) {
        join(threads[i]);
    }
    for (unsigned i = 0; i < PLACES; i++) {
        read_and_free(atomic_exchange(&places[i], NULL));
    }
}

// Threads that end after a few letters, and leave them to those that follow.
static void *correspond_briefly(void *argument) {
    struct random random = {(uintptr_t)argument * 104729};
    for (unsigned i = 0; i < 60; i++) {
        size_t place = random_below(&random, PLACES);
        read_and_free(atomic_exchange(&places[place], written_letter(&random)));
    }
    return NULL;
}

static void generations(void) {
    void *threads[THREADS];
    for (uintptr_t round = 0; round < 30; round++) {
        for (uintptr_t i = 0; i < THREADS; i++) {
            threads[i] = new_thread(correspond_briefly, (void *)(round * THREADS + i + 1));
        }
        for (unsigned i = 0; i < THREADS; i++) {
            join(threads[i]);
        }
    }
    for (unsigned i = 0; i < PLACES; i++) {
        read_and_free(atomic_exchange(&places[i], NULL));
    }
}

// One thread only allocates, another only frees.
enum { QUEUE = 64, PASSED = 5000 };

static struct { _Atomic(struct letter *) slots[QUEUE]; } queue;

static void *produce(void *unused) {
    struct random random = {77};
    for (unsigned i = 0; i < PASSED; i++) {
        struct letter *letter = written_letter(&random), *none = NULL;
        while (!atomic_compare_exchange_weak(&queue.slots[i % QUEUE], &none, letter)) {
            none = NULL;
            sched_yield();
        }
    }
    return unused;
}

static void *consume(void *unused) {
    for (;;) {
        for (unsigned i = 0; i < QUEUE; i++) {
            read_and_free(atomic_exchange(&queue.slots[i], NULL));
        }
        if (*(atomic_bool *)unused) {
            return NULL;
        }
    }
}

static void producer_and_consumer(void) {
    atomic_bool over = false;
    void *consumers[2] = {new_thread(consume, &over), new_thread(consume, &over)};
    produce(NULL);
    over = true;
    join(consumers[0]);
    join(consumers[1]);
    for (unsigned i = 0; i < QUEUE; i++) {
        read_and_free(atomic_exchange(&queue.slots[i], NULL));
    }
}

const struct promise stress_promises[] = {
    {"letters", "threads hand blocks of all sizes to each other", letters, 0},
    {"generations", "threads that end leave blocks to others", generations, 0},
    {"producer-and-consumer", "one thread allocates, others free", producer_and_consumer, 0},
    {0},
};
