// SPDX-License-Identifier: MIT
//
// What the cases share.
#include "contract.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const size_t edges[] = {
    0,
    1,
    8,
    16,
    24,
    32,
    128,
    512,
    1024,
    1032,
    PAGE,
    2 * PAGE,
    32 * KILOBYTE,
    64 * KILOBYTE,
    128 * KILOBYTE,
    256 * KILOBYTE,
    512 * KILOBYTE,
    MEGABYTE,
    2 * MEGABYTE,
    4 * MEGABYTE,
};
const size_t edge_count = sizeof edges / sizeof *edges;

// By words, because it is done often.
static uint64_t word_at(size_t index, uint64_t seed) {
    return (index + 1) * 0x9e3779b97f4a7c15 + (seed + 1) * 0xbf58476d1ce4e5b9;
}

void fill(void *block, size_t size, uint64_t seed) {
    unsigned char *bytes = (unsigned char *)block;
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = word_at(i, seed);
        memcpy(bytes + i, &word, size - i < sizeof word ? size - i : sizeof word);
    }
}

// `size` may be less than what was filled.
bool holds(const void *block, size_t size, uint64_t seed) {
    const unsigned char *bytes = (const unsigned char *)block;
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = word_at(i, seed);
        if (memcmp(bytes + i, &word, size - i < sizeof word ? size - i : sizeof word) != 0) {
            return false;
        }
    }
    return true;
}

bool is_all(const void *block, size_t size, unsigned char value) {
    const unsigned char *bytes = (const unsigned char *)block;
    return size == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, size - 1) == 0);
}

void free_held(struct held *blocks, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        CHECK(!blocks[i].data || holds(blocks[i].data, blocks[i].size, i));
        free(blocks[i].data);
        blocks[i].data = NULL;
    }
}

uint64_t random_below(struct random *random, uint64_t limit) {
    uint64_t mixed = random->state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return (mixed ^ mixed >> 31) % limit;
}

size_t random_size(struct random *random) {
    unsigned kind = (unsigned)random_below(random, 64);
    if (kind < 40) {
        return random_below(random, 512);
    }
    if (kind < 56) {
        return random_below(random, 16 * KILOBYTE);
    }
    return random_below(random, kind < 63 ? 256 * KILOBYTE : 2 * MEGABYTE);
}

void wait_for(int child) {
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

int in_child(void (*function)(void *), void *argument) {
    int status = -1;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        function(argument);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

void *new_thread(void *(*start)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, start, argument) == 0);
    return (void *)thread;
}

void *join(void *thread) {
    void *result = NULL;
    CHECK(pthread_join((pthread_t)thread, &result) == 0);
    return result;
}
