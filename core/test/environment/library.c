// SPDX-License-Identifier: MIT
//
// The library used by its own functions, where it is there.
#include "program.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Our memory outlives whoever loaded a library that uses it.
static int case_dlclose(char **arguments) {
    void *library = dlopen(arguments[0], RTLD_NOW);
    CHECK(library != NULL);
    bool (*start)(const char *) = (bool (*)(const char *))dlsym(library, "pw_start");
    void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(library, "pw_allocate");
    void (*release)(void *) = (void (*)(void *))dlsym(library, "pw_free");
    void *(*copy)(void *, const void *, size_t) =
        (void *(*)(void *, const void *, size_t))dlsym(library, "pw_copy");
    CHECK(start && allocate && release && copy && start("modules=all,share=always,decay=1"));
    unsigned char *one = allocate(20 * MEGABYTE), *other = allocate(20 * MEGABYTE);
    fill(one, 20 * MEGABYTE, 1);
    copy(other, one, 20 * MEGABYTE);
    unsigned char *warm = allocate(20 * MEGABYTE);
    fill(warm, 20 * MEGABYTE, 2);
    release(warm); // and now a thread waits to give it back
    CHECK(dlclose(library) == 0);
    other[5] ^= 1;
    CHECK(memcmp(one + PAGE, other + PAGE, 20 * MEGABYTE - PAGE) == 0);
    usleep(2500000);
    say_work("closed");
    return 0;
}

// Ten copies that are answered by a plain one: each must be looked at once.
static int case_ten_copies(char **arguments) {
    (void)arguments;
    void *(*copy)(void *, const void *, size_t) =
        (void *(*)(void *, const void *, size_t))dlsym(RTLD_DEFAULT, "pw_copy");
    unsigned char *from = malloc(MEGABYTE), *to = malloc(MEGABYTE);
    fill(from, MEGABYTE, 4);
    for (int i = 0; i < 10; i++) {
        (copy ? copy : memmove)(to, from, MEGABYTE);
    }
    CHECK(memcmp(from, to, MEGABYTE) == 0);
    return 0;
}

const struct program_case library_cases[] = {
    {"dlclose", case_dlclose},
    {"ten-copies", case_ten_copies},
    {NULL, NULL},
};
