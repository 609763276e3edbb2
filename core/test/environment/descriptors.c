// SPDX-License-Identifier: MIT
//
// Descriptors that the program does not know closed, and their numbers used again.
#include "program.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int case_close_all(char **arguments) {
    (void)arguments;
    close_all(3);
    say_work("closed before");
    unsigned char *block = malloc(4 * MEGABYTE), *copy = malloc(4 * MEGABYTE);
    fill(block, 4 * MEGABYTE, 5);
    memcpy(copy, block, 4 * MEGABYTE);
    for (int i = 0; i < 10; i++) {
        close_all(3);
        unsigned char *next = malloc(4 * MEGABYTE);
        memcpy(next, copy, 4 * MEGABYTE);
        next[(size_t)i * PAGE * 10] ^= 1;
        free(copy);
        copy = next;
        say_work("closed again");
    }
    printf("%016llx %016llx\n", (unsigned long long)sum(block, 4 * MEGABYTE),
           (unsigned long long)sum(copy, 4 * MEGABYTE));
    return 0;
}

static int descriptor_named(const char *part, int otherwise) {
    DIR *directory = opendir("/proc/self/fd");
    int found = otherwise;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char target[PATH_MAX] = "";
        if (readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1) > 0 &&
            strstr(target, part)) {
            found = atoi(entry->d_name);
        }
    }
    closedir(directory);
    return found;
}

static void check_file(int fd, size_t size, uint64_t seed) {
    unsigned char *expected = malloc(size), *got = malloc(size);
    fill(expected, size, seed);
    CHECK(pread(fd, got, size, 0) == (ssize_t)size);
    CHECK(memcmp(expected, got, size) == 0);
    free(expected);
    free(got);
}

// The program closes a descriptor it does not know and gets its number for a file of its own.
static int case_reuse(char **arguments) {
    size_t size = 4 * MEGABYTE;
    unsigned char *blocks[6];
    for (int i = 0; i < 6; i++) {
        blocks[i] = malloc(size);
    }
    fill(blocks[0], size, 7);
    for (int i = 1; i < 6; i++) {
        memcpy(blocks[i], blocks[0], size);
    }
    int number = descriptor_named(arguments[0], 700);
    close(number);
    int own = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(own >= 0 && dup2(own, number) == number);
    unsigned char *data = malloc(size);
    fill(data, size, 99);
    CHECK(write(number, data, size) == (ssize_t)size);
    for (int i = 1; i < 6; i++) {
        blocks[i][(size_t)i * PAGE] ^= 1;
        CHECK(memcmp(blocks[i] + 10 * PAGE, blocks[0] + 10 * PAGE, size - 10 * PAGE) == 0);
        check_file(number, size, 99);
        free(blocks[i]); // would punch
        blocks[i] = malloc(size);
        memcpy(blocks[i], blocks[0], size);
    }
    say_work("reused");
    check_file(number, size, 99);
    struct stat status;
    CHECK(fstat(number, &status) == 0 && status.st_size == (off_t)size);
    CHECK((size_t)status.st_blocks * 512 >= size);
    for (int i = 0; i < 6; i++) {
        printf("%016llx\n", (unsigned long long)sum(blocks[i], size));
        free(blocks[i]);
    }
    check_file(own, size, 99);
    return 0;
}

// The program gets the number for a memory file of its own, which it goes on writing.
static int case_reuse_memory(char **arguments) {
    size_t size = 4 * MEGABYTE;
    unsigned char *block = malloc(size), *copy = malloc(size);
    fill(block, size, 7);
    memcpy(copy, block, size);
    int number = descriptor_named(arguments[0], 700);
    int own = memfd_create("own", MFD_ALLOW_SEALING);
    CHECK(own >= 0 && dup2(own, number) == number);
    for (int i = 0; i < 5; i++) {
        CHECK(pwrite(own, block, size, 0) == (ssize_t)size);
        CHECK(fcntl(own, F_GET_SEALS) == 0);
        check_file(own, size, 7);
        free(copy);
        say_work("reused");
        copy = malloc(size);
        memcpy(copy, block, size);
    }
    printf("%016llx\n", (unsigned long long)sum(copy, size));
    return 0;
}

static uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

// What is opened next has the lowest number that is free, as the program has one thread.
static int opens_lowest(void) {
    int lowest = open("/dev/null", O_RDONLY);
    size_t size = 9 * MEGABYTE;
    close(lowest);
    unsigned char *block = malloc(size);
    for (size_t i = 0; i < size; i += PAGE) {
        block[i] = 1;
    }
    free(block);
    for (uint64_t end = now_us() + 3000; now_us() < end;) {
        int next = open("/dev/null", O_RDONLY);
        if (next != lowest) {
            return 1;
        }
        close(next);
    }
    return 0;
}

// Once in each child: what a release sets going may be over soon.
static int case_lowest_number(char **arguments) {
    (void)arguments;
    for (int i = 0; i < 80; i++) {
        pid_t child = fork();
        if (child == 0) {
            _exit(opens_lowest());
        }
        wait_well(child);
    }
    puts("done");
    return 0;
}

const struct program_case descriptor_cases[] = {
    {"lowest-number", case_lowest_number},
    {"close-all", case_close_all},
    {"reuse", case_reuse},
    {"reuse-memory", case_reuse_memory},
    {NULL, NULL},
};
