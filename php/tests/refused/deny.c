// SPDX-License-Identifier: MIT
//
// To be preloaded: mmap of new memory fails, the DENY_FROMth time, and DENY_COUNT times in all.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static long setting(const char *name) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    static long calls;
    if (flags & MAP_ANONYMOUS) {
        long from = setting("DENY_FROM"), call = ++calls;
        if (call >= from && call < from + setting("DENY_COUNT")) {
            errno = ENOMEM;
            return MAP_FAILED;
        }
    }
    return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
}
