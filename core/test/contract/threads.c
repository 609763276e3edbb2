// SPDX-License-Identifier: MIT
//
// Blocks belong to the process, not to the thread that asked for them.
#include "contract.h"

#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 200 };

struct basket {
    void *data[BLOCKS];
    size_t size[BLOCKS];
};

static void *fill_basket(void *argument) {
    struct basket *basket = argument;
    struct random random = {(uintptr_t)basket};
    for (unsigned i = 0; i < BLOCKS; i++) {
        basket->size[i] = i % 25 ? random_below(&random, 5000) : 128 * KILOBYTE + i;
        basket->data[i] =
            got(i % 2 ? malloc(basket->size[i]) : calloc(1, basket->size[i]), basket->size[i]);
        fill(basket->data[i], basket->size[i], i);
    }
    return NULL;
}

static void *empty_basket(void *argument) {
    struct basket *basket = argument;
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK(holds(basket->data[i], basket->size[i], i));
        free(basket->data[i]);
    }
    return NULL;
}

static void *resize_basket(void *argument) {
    struct basket *basket = argument;
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = basket->size[i] * 2 + 1;
        CHECK(malloc_usable_size(basket->data[i]) >= basket->size[i]);
        basket->data[i] = got(realloc(basket->data[i], size), size);
        CHECK(holds(basket->data[i], basket->size[i], i));
        fill(basket->data[i], size, i);
        basket->size[i] = size;
    }
    return NULL;
}

// --- who frees -----------------------------------------------------------------------

static void freed_elsewhere(void) {
    static struct basket basket;
    for (unsigned i = 0; i < 20; i++) {
        fill_basket(&basket);
        join(new_thread(empty_basket, &basket));
    }
}

static void freed_after_the_end(void) {
    static struct basket basket;
    for (unsigned i = 0; i < 20; i++) {
        join(new_thread(fill_basket, &basket)); // who allocated is gone
        join(new_thread(resize_basket, &basket));
        empty_basket(&basket);
    }
}

static void in_turn(void) {
    static struct basket baskets[6];
    void *threads[6];
    for (unsigned i = 0; i < 6; i++) {
        fill_basket(&baskets[i]);
    }
    for (unsigned round = 0; round < 5; round++) {
        for (unsigned i = 0; i < 6; i++) {
            threads[i] = new_thread(i % 2 ? resize_basket : empty_basket, &baskets[i]);
        }
        for (unsigned i = 0; i < 6; i++) {
            join(threads[i]);
            if (i % 2 == 0) {
                fill_basket(&baskets[i]);
            } else {
                empty_basket(&baskets[i]);
                fill_basket(&baskets[i]);
            }
        }
    }
    for (unsigned i = 0; i < 6; i++) {
        empty_basket(&baskets[i]);
    }
}

// --- threads that come and go --------------------------------------------------------

static void *allocate_a_little(void *unused) {
    for (size_t size = 1; size < 300 * KILOBYTE; size = size * 3 + 1) {
        unsigned char *block = got(malloc(size), size);
        fill(block, size, size);
        CHECK(holds(block, size, size));
        free(block);
    }
    return unused;
}

static void many_threads(void) {
    void *threads[8];
    for (unsigned i = 0; i < 60; i++) {
        for (unsigned k = 0; k < 8; k++) {
            threads[k] = new_thread(allocate_a_little, NULL);
        }
        for (unsigned k = 0; k < 8; k++) {
            join(threads[k]);
        }
    }
}

static sem_t detached_ended;

static void *allocate_detached(void *block) {
    allocate_a_little(NULL);
    free(block);
    sem_post(&detached_ended);
    return NULL;
}

static void detached_threads(void) {
    pthread_attr_t attributes;
    CHECK(sem_init(&detached_ended, 0, 0) == 0 && pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    for (unsigned i = 0; i < 100; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, &attributes, allocate_detached, got(malloc(i), i)) == 0);
        if (i % 8 == 7) {
            for (unsigned k = 0; k < 8; k++) {
                sem_wait(&detached_ended);
            }
        }
    }
    for (unsigned k = 0; k < 4; k++) {
        sem_wait(&detached_ended);
    }
    CHECK(pthread_attr_destroy(&attributes) == 0);
}

// --- what runs at a thread's end -----------------------------------------------------

static pthread_key_t keys[2];
static atomic_uint rounds;

// Destructors are called again as long as they set a value, a few times.
static void at_end(void *value) {
    size_t size = *(size_t *)value;
    CHECK(holds((char *)value + sizeof size, size, 3));
    free(value);
    rounds++;
    void *more = malloc(size / 2 + 100);
    CHECK(more);
    more = realloc(more, 200 * KILOBYTE);
    CHECK(more);
    fill(more, 200 * KILOBYTE, 1);
    CHECK(holds(more, 200 * KILOBYTE, 1));
    free(more);
    if (size > 64) {
        size_t *again = calloc(1, sizeof size + size / 2);
        CHECK(again);
        *again = size / 2;
        fill(again + 1, size / 2, 3);
        CHECK(pthread_setspecific(keys[0], again) == 0);
    }
}

static void at_end_plainly(void *value) {
    free(value);
    free(malloc(40));
    rounds++;
}

static void *set_values(void *argument) {
    size_t size = *(size_t *)argument, *value = got(malloc(sizeof size + size), size);
    *value = size;
    fill(value + 1, size, 3);
    CHECK(pthread_setspecific(keys[0], value) == 0);
    CHECK(pthread_setspecific(keys[1], strdup("freed at the end")) == 0);
    return NULL;
}

static void destructors(void) {
    static const size_t sizes[] = {100, 5000, 300 * KILOBYTE};
    CHECK(pthread_key_create(&keys[0], at_end) == 0);
    CHECK(pthread_key_create(&keys[1], at_end_plainly) == 0);
    rounds = 0;
    for (unsigned i = 0; i < 60; i++) {
        join(new_thread(set_values, (void *)&sizes[i % 3]));
    }
    CHECK(rounds >= 2 * 60);
    CHECK(pthread_key_delete(keys[0]) == 0 && pthread_key_delete(keys[1]) == 0);
}

static void clean_up(void *block) {
    CHECK(holds(block, 150 * KILOBYTE, 6));
    free(block);
}

static void *wait_to_be_cancelled(void *started) {
    void *block = got(malloc(150 * KILOBYTE), 150 * KILOBYTE);
    fill(block, 150 * KILOBYTE, 6);
    pthread_cleanup_push(clean_up, block);
    sem_post(started);
    for (;;) {
        free(malloc(1000));
        free(malloc(200 * KILOBYTE));
        pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return NULL;
}

static void cancelled(void) {
    sem_t started;
    CHECK(sem_init(&started, 0, 0) == 0);
    for (unsigned i = 0; i < 40; i++) {
        void *thread = new_thread(wait_to_be_cancelled, &started);
        sem_wait(&started);
        CHECK(pthread_cancel((pthread_t)thread) == 0);
        CHECK(join(thread) == PTHREAD_CANCELED);
    }
    got(malloc(0), 0); // nobody left with a lock
}

// --- what lies in blocks -------------------------------------------------------------

static void *use_stack(void *argument) {
    char on_stack[64 * KILOBYTE];
    fill(on_stack, sizeof on_stack, (uintptr_t)argument);
    allocate_a_little(NULL);
    CHECK(holds(on_stack, sizeof on_stack, (uintptr_t)argument));
    return NULL;
}

static void stacks(void) {
    enum { STACKS = 4 };
    size_t size = 512 * KILOBYTE;
    for (unsigned round = 0; round < 4; round++) {
        pthread_t threads[STACKS];
        void *blocks[STACKS];
        for (unsigned i = 0; i < STACKS; i++) {
            pthread_attr_t attributes;
            blocks[i] = got_aligned(aligned_alloc(PAGE, size), PAGE, size);
            CHECK(pthread_attr_init(&attributes) == 0);
            CHECK(pthread_attr_setstack(&attributes, blocks[i], size) == 0);
            CHECK(pthread_create(&threads[i], &attributes, use_stack, blocks[i]) == 0);
            CHECK(pthread_attr_destroy(&attributes) == 0);
        }
        for (unsigned i = 0; i < STACKS; i++) {
            CHECK(pthread_join(threads[i], NULL) == 0);
            free(blocks[i]);
        }
    }
}

struct shared {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned count;
};

static void *count_up(void *argument) {
    struct shared *shared = argument;
    for (unsigned i = 0; i < 300; i++) {
        pthread_mutex_lock(&shared->lock);
        shared->count++;
        pthread_cond_broadcast(&shared->changed);
        pthread_mutex_unlock(&shared->lock);
        free(malloc(100));
    }
    return NULL;
}

static void locks_in_blocks(void) {
    struct shared *shared = got(calloc(1, 160 * KILOBYTE), 160 * KILOBYTE);
    CHECK(pthread_mutex_init(&shared->lock, NULL) == 0);
    CHECK(pthread_cond_init(&shared->changed, NULL) == 0);
    void *threads[3];
    for (unsigned i = 0; i < 3; i++) {
        threads[i] = new_thread(count_up, shared);
    }
    pthread_mutex_lock(&shared->lock);
    while (shared->count < 900) {
        pthread_cond_wait(&shared->changed, &shared->lock);
    }
    pthread_mutex_unlock(&shared->lock);
    for (unsigned i = 0; i < 3; i++) {
        join(threads[i]);
    }
    CHECK(shared->count == 900);
    free(shared);
}

// --- the main thread goes first ------------------------------------------------------

static pthread_t first;
static void *from_first;

static void *go_on_alone(void *unused) {
    CHECK(pthread_join(first, NULL) == 0);
    allocate_a_little(NULL);
    CHECK(holds(from_first, 300 * KILOBYTE, 2));
    free(from_first);
    kept();
    _exit(0);
    return unused;
}

static void first_thread_ends(void) {
    first = pthread_self();
    from_first = got(malloc(300 * KILOBYTE), 300 * KILOBYTE);
    fill(from_first, 300 * KILOBYTE, 2);
    new_thread(go_on_alone, NULL);
    pthread_exit(NULL);
}

const struct promise thread_promises[] = {
    {"freed-elsewhere", "a block may be freed by another thread", freed_elsewhere, 0},
    {"freed-after-the-end", "and resized and freed when its thread has ended", freed_after_the_end,
     0},
    {"in-turn", "threads resize and free each other's blocks", in_turn, 0},
    {"many-threads", "threads that come and go", many_threads, 0},
    {"detached-threads", "and detached ones", detached_threads, 0},
    {"destructors", "destructors of a thread's values allocate and free", destructors, 0},
    {"cancelled", "a thread cancelled between two calls leaves no lock", cancelled, 0},
    {"stacks", "blocks may be the stacks of threads", stacks, 0},
    {"locks-in-blocks", "mutexes and conditions may lie in blocks", locks_in_blocks, 0},
    {"first-thread-ends", "the main thread may end before others", first_thread_ends, ENDS},
    {0},
};
