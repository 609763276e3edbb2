// SPDX-License-Identifier: MIT
//
// A program that links against libpagewise.so: its malloc stays the C library's.
#include "pagewise.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_the_c_librarys(const char *name) {
    Dl_info info;
    void *found = dlsym(RTLD_DEFAULT, name);
    return found && dladdr(found, &info) && strstr(info.dli_fname, "/libc.so") != NULL;
}

int main(void) {
    static const char *const names[] = {"malloc", "calloc",  "realloc", "free",
                                        "memcpy", "memmove", "memset",  "posix_memalign"};
    int wrong = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        // memcpy and its like may be resolved to a function that the C library chooses.
        if (!is_the_c_librarys(names[i])) {
            printf("replaced: %s\n", names[i]);
            wrong = 1;
        }
    }
    bool on = pw_start(NULL);
    void *plain = malloc(1 << 20), *ours = pw_allocate(1 << 20), *copy = pw_allocate(1 << 20);
    memset(ours, 5, 1 << 20);
    pw_copy(copy, ours, 1 << 20);
    wrong |= pw_owns(plain) || (on && !pw_owns(ours)) || memcmp(ours, copy, 1 << 20) != 0;
    pw_free(plain);
    pw_free(ours);
    pw_free(copy);
    printf("%s, on: %d, effective user: %d\n", wrong ? "wrong" : "right", on, (int)geteuid());
    return wrong;
}
