// SPDX-License-Identifier: MIT
//
// Stands for an R that was built without a shared library (.../R/bin/exec/R): the executable itself
// is served, and so are packages that it loads. hooked_program PACKAGE
#include <dlfcn.h>
#include <pagewise.h>
#include <stdio.h>
#include <stdlib.h>

static int serves(void) {
    void *volatile block = malloc((size_t)1 << 20);
    int ours = pw_owns(block);
    free(block);
    return ours;
}

int main(int count, char **words) {
    const char *reason = "";
    if (count != 2 || serves() || !pw_switch_on("policy=auto", &reason)) {
        printf("cannot be switched on: %s\n", reason);
        return 1;
    }
    void *library = dlopen(words[1], RTLD_NOW);
    void *(*allocate)(size_t) =
        library ? (void *(*)(size_t))dlsym(library, "module_allocate") : NULL;
    if (!serves() || !allocate || !pw_owns(allocate((size_t)1 << 20))) {
        printf("the executable, or what it loads, is not served\n");
        return 1;
    }
    pw_switch_off();
    return serves();
}
