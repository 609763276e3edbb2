// SPDX-License-Identifier: MIT
//
// Global offset tables. A module reaches a function of another one through a pointer that the
// dynamic linker has stored in the module's own table. Here chosen functions are replaced in R and
// in the libraries of its packages (or in NumPy and what is built on it), and nowhere else, and put
// back.
#ifndef PW_ENTRY_GOT_H
#define PW_ENTRY_GOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pw_got_function {
    const char *name;
    void *replacement;
    void *original;    // the C library's
    void *stub;        // the executable's own way to it, or the same
    bool of_loader;    // in who loads the modules only: R itself, Python's interpreter
    bool of_pools;     // in libraries that run pools of threads as well
    bool until_no_use; // stays when the others are put back, while blocks of ours live
};

#define PW_GOT_SLOTS   8192u // a package has about ten
#define PW_GOT_MODULES 1024u

// A pointer that was replaced, and what it was.
struct pw_got_slot {
    void **place;
    void *original;
};

struct pw_got {
    const struct pw_got_function *functions;
    size_t function_count;
    struct pw_got_slot *slots;         // hashed by place; of PW_GOT_SLOTS
    uintptr_t modules[PW_GOT_MODULES]; // load addresses of those looked at already
    size_t module_count;
    unsigned long long unloaded; // modules unloaded so far: load addresses may mean others since
    unsigned patched, refused;   // pointers replaced, and left alone because of a failure
};

// What a call of a function reaches. An executable at a fixed address that takes a function's
// address has a stub of the same name, which dlsym finds before it: `stub`, else the same. NULL:
// the executable has not called it yet.
void *pw_got_definition(const char *name, void **stub);

// Replace the functions in all modules of runtimes that were not looked at yet. Returns the
// pointers replaced. A pointer that somebody else has replaced stays theirs.
unsigned pw_got_patch(struct pw_got *got);

// Put back what is still ours; `all`: also what stays while blocks live. Returns the pointers put
// back.
unsigned pw_got_restore(struct pw_got *got, bool all);

#endif
