// SPDX-License-Identifier: MIT
//
// Which module contains an address. May take the dynamic loader's lock (before glibc 2.35): never
// under a lock of ours, nor in a child of a fork that left that lock to a thread it does not have.
#ifndef PW_OS_MODULE_H
#define PW_OS_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link_map;

// The module that contains `address`, and the range that the loader gave it: to the address itself
// alone where the C library tells no more (before glibc 2.35). NULL: in none.
const struct link_map *pw_os_module_find(const void *address, const char **start, const char **end);

// Its path, as it was loaded; the program's as the kernel knows it. NULL: the address is in none.
const char *pw_os_module_path(const void *address);

// Where the module that contains `address` was loaded, and its path as the loader has it. NULL: in
// none.
const void *pw_os_module_base(const void *address, const char **path);

// Are both addresses in the same module?
bool pw_os_module_is_one(const void *one, const void *other);

// The program headers (ElfW(Phdr)) of a module: a `struct link_map`, and the range around an
// address in it as the loader tells, which is one segment alone where there are gaps between them.
// NULL: they are not where they should be. `module_size`: of the range from `start` on in which the
// module's segments lie; SIZE_MAX: somewhere.
const void *pw_os_module_headers(const void *module, const void *start, size_t size, size_t *count,
                                 size_t *module_size);

// What a module says of an address in it.
struct pw_os_place {
    bool is_code;
    const unsigned char *code_end; // of the code around it, if that may be read; else NULL
    // The table of contents of its unwind tables (.eh_frame_hdr) and the segment in which both lie.
    // NULL: it has none that may be read.
    const unsigned char *tables, *tables_low, *tables_high;
};

// False: it is in no module, or the C library cannot tell without a lock (before glibc 2.35). The
// module must not be unloaded meanwhile.
bool pw_os_module_place(uintptr_t address, struct pw_os_place *place);

// Whether the C library can.
bool pw_os_module_has_places(void);

// What follows the last slash of a path.
const char *pw_os_base_name(const char *path);

#endif
