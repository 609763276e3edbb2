// SPDX-License-Identifier: MIT
//
// The reader of /proc/self/maps. It allocates nothing.
#ifndef PW_OS_MAPS_H
#define PW_OS_MAPS_H

#include <stdbool.h>
#include <stdint.h>

struct pw_os_line {
    uintptr_t start, end;
    int protection;
    const char *name; // as it is written there; gone after the call
};

// Calls `see` with each line until it returns true. False: it never did, or the kernel does not
// tell.
bool pw_os_each_line(bool (*see)(void *context, const struct pw_os_line *line), void *context);

#endif
