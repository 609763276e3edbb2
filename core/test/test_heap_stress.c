// SPDX-License-Identifier: MIT
//
// Random operations on transaction heaps beside a model:
//     test_heap_stress [--seed N] [--rounds N] [--steps N] [--threads N]
// With threads, a heap's next transaction is whichever thread's that comes by.
#include "heap_model.h"
#include "support.h"

#include <pthread.h>

#define MOST_THREADS 16

static unsigned long argument(int argc, char **argv, const char *name, unsigned long otherwise) {
    for (int i = 1; i + 1 < argc; i++) {
        if (!strcmp(argv[i], name)) {
            return strtoul(argv[i + 1], NULL, 10);
        }
    }
    return otherwise;
}

static uint8_t *operations(struct random *noise, uint8_t *data, size_t size, unsigned long round) {
    random_fill(noise, data, size);
    data[1] = (uint8_t)round; // every combination of flags in turn
    for (size_t at = 2; at < size; at++) {
        data[at] = (uint8_t)random_next(noise);
    }
    return data;
}

struct rota {
    pthread_mutex_t lock;
    struct heap_model *waiting[2 * MOST_THREADS];
    size_t count, handed_over;
};

static void *serve_transactions(void *argument) {
    struct rota *rota = argument;
    for (;;) {
        pthread_mutex_lock(&rota->lock);
        struct heap_model *model = rota->count ? rota->waiting[--rota->count] : NULL;
        pthread_mutex_unlock(&rota->lock);
        if (!model) {
            return NULL; // the others finish what they have
        }
        if (!heap_model_transaction(model)) {
            heap_model_delete(model);
            continue;
        }
        pthread_mutex_lock(&rota->lock);
        memmove(rota->waiting + 1, rota->waiting, rota->count++ * sizeof rota->waiting[0]);
        rota->waiting[0] = model;
        rota->handed_over++;
        pthread_mutex_unlock(&rota->lock);
    }
}

static void run_handed_over(uint8_t *data, size_t size, unsigned long threads) {
    struct rota rota = {.lock = PTHREAD_MUTEX_INITIALIZER, .count = 2 * threads};
    size_t share = size / rota.count;
    for (size_t i = 0; i < rota.count; i++) {
        data[i * share + 1] = (uint8_t)i; // other flags
        rota.waiting[i] = heap_model_new(data + i * share, share);
    }
    pthread_t running[MOST_THREADS];
    for (unsigned long i = 0; i < threads; i++) {
        CHECK(pthread_create(&running[i], NULL, serve_transactions, &rota) == 0);
    }
    for (unsigned long i = 0; i < threads; i++) {
        CHECK(pthread_join(running[i], NULL) == 0);
    }
    CHECK(rota.count == 0 && rota.handed_over > threads);
}

int main(int argc, char **argv) {
    unsigned long seed = argument(argc, argv, "--seed", (unsigned long)getpid());
    unsigned long rounds = argument(argc, argv, "--rounds", 48);
    unsigned long threads = argument(argc, argv, "--threads", 0);
    size_t size = argument(argc, argv, "--steps", 20000) * 4;
    printf("test_heap_stress --seed %lu --rounds %lu --steps %zu --threads %lu\n", seed, rounds,
           size / 4, threads);
    fflush(stdout);
    CHECK(threads <= MOST_THREADS);
    uint8_t *data = malloc(size);
    CHECK(data);
    struct random noise = random_from(seed);
    for (unsigned long round = 0; round < rounds; round++) {
        operations(&noise, data, size, round);
        if (threads) {
            run_handed_over(data, size, threads);
        } else {
            heap_model_run(data, size);
        }
    }
    free(data);
    return 0;
}
