// SPDX-License-Identifier: MIT
//
// Writes down which functions of the core are entered and left by one thread: built into it with
// -finstrument-functions (walk).
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define MOST_EVENTS (1u << 20)
#define PLAIN       __attribute__((no_instrument_function))

extern const char __ehdr_start[];
static uintptr_t events[MOST_EVENTS]; // where in the file, doubled; odd: it is left
static unsigned count;
static int walker;

void walk_begin(void);
void walk_end(const char *act);
void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

static PLAIN void note(const void *function, uintptr_t is_left) {
    if (walker && count < MOST_EVENTS && gettid() == walker) {
        events[count++] = ((uintptr_t)function - (uintptr_t)__ehdr_start) << 1 | is_left;
    }
}

PLAIN void __cyg_profile_func_enter(void *function, void *caller) {
    (void)caller;
    note(function, 0);
}

PLAIN void __cyg_profile_func_exit(void *function, void *caller) {
    (void)caller;
    note(function, 1);
}

__attribute__((visibility("default"))) PLAIN void walk_begin(void) {
    count = 0;
    walker = gettid();
}

__attribute__((visibility("default"))) PLAIN void walk_end(const char *act) {
    walker = 0;
    FILE *file = fopen(act, "w");
    for (unsigned i = 0; file && i < count; i++) {
        fprintf(file, "%c %lx\n", events[i] & 1 ? 'x' : 'e', (unsigned long)(events[i] >> 1));
    }
    if (file) {
        fclose(file);
    }
}
