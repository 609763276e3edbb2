// SPDX-License-Identifier: MIT
//
// The reader of /proc/self/maps. It allocates nothing.
#ifndef PW_OS_MAPPING_H
#define PW_OS_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PW_OS_LONGEST_LINE (4096 + 256) // a path, and what is before it
#define PW_OS_SHORT_LINE   512          // where the beginning of a name is enough

struct pw_os_line {
    uintptr_t start, end;
    int protection;
    const char *name; // as it is written there; gone after the call
};

// Calls `see` with each line until it returns true. False: it never did, or the kernel does not
// tell. `text` holds the lines meanwhile: of one that is longer its beginning is seen.
bool pw_os_each_line(bool (*see)(void *context, const struct pw_os_line *line), void *context,
                     char *text, size_t size);

#endif
