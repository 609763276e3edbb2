// SPDX-License-Identifier: MIT
//
// The work whose result tells whether memory held what the program put there.
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 16

void fill(unsigned char *block, size_t size, uint64_t seed) {
    uint64_t word = seed * 0x9e3779b97f4a7c15u;
    for (size_t at = 0; at + 8 <= size; at += 8) {
        memcpy(block + at, &word, 8);
        word = word * 6364136223846793005u + 1442695040888963407u;
    }
}

uint64_t sum(const unsigned char *block, size_t size) {
    uint64_t total = size, word;
    for (size_t at = 0; at + 8 <= size; at += 8) {
        memcpy(&word, block + at, 8);
        total = (total ^ word) * 0x100000001b3u;
    }
    return total;
}

uint64_t work(int rounds, size_t size) {
    unsigned char *blocks[BLOCKS] = {0};
    size_t sizes[BLOCKS] = {0};
    uint64_t total = 0;
    for (int round = 0; round < rounds; round++) {
        int to = round % BLOCKS, from = (round * 7 + 3) % BLOCKS;
        free(blocks[to]);
        sizes[to] = size + (size_t)(round % 5) * 3000;
        blocks[to] = round % 6 == 5 ? calloc(1, sizes[to]) : malloc(sizes[to]);
        CHECK(blocks[to] != NULL);
        if (blocks[from] && from != to) {
            size_t common = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
            if (round % 6 != 5) {
                fill(blocks[to], sizes[to], (uint64_t)round);
            }
            memcpy(blocks[to], blocks[from], common);
            blocks[to][common / 2] ^= 1;
            blocks[from][common / 3] ^= 2;
        } else {
            fill(blocks[to], sizes[to], (uint64_t)round);
        }
        if (round % 9 == 8) {
            unsigned char *moved = realloc(blocks[from], sizes[from] + size / 2);
            CHECK(moved != NULL);
            memset(moved + sizes[from], 0, size / 2);
            blocks[from] = moved;
            sizes[from] += size / 2;
        }
        total = (total ^ sum(blocks[to], sizes[to])) * 31;
    }
    for (int i = 0; i < BLOCKS; i++) {
        total = (total ^ (blocks[i] ? sum(blocks[i], sizes[i]) : 1)) * 31;
        free(blocks[i]);
    }
    return total;
}

void say_work(const char *when) {
    printf("%s: %016llx\n", when, (unsigned long long)work(60, MEGABYTE));
    fflush(stdout);
}

size_t status_kb(const char *name) {
    char line[200];
    size_t kilobytes = 0, length = strlen(name);
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (!strncmp(line, name, length) && line[length] == ':') {
            kilobytes = strtoul(line + length + 1, NULL, 10);
        }
    }
    if (file) {
        fclose(file);
    }
    return kilobytes;
}

void limit(int resource, rlim_t value) {
    struct rlimit now;
    CHECK(getrlimit(resource, &now) == 0);
    now.rlim_cur = value;
    CHECK(setrlimit(resource, &now) == 0);
}

void wait_well(pid_t child) {
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

void close_all(int from) {
    if (close_range((unsigned)from, ~0u, 0) != 0) {
        for (int fd = from; fd < 4096; fd++) {
            close(fd);
        }
    }
}
