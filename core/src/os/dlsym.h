// SPDX-License-Identifier: MIT
//
// Where the C library's own dlsym is. A preloaded library of ours has that name as well
// (entry/by_handle.c), and another version of it serves as none.
#ifndef PW_OS_DLSYM_H
#define PW_OS_DLSYM_H

#include <gnu/lib-names.h>
#include <gnu/libc-version.h>
#include <stdbool.h>
#include <stdlib.h>

#ifdef __x86_64__
#define PW_OS_OLDEST_VERSION "GLIBC_2.2.5"
#else
#define PW_OS_OLDEST_VERSION "GLIBC_2.17"
#endif

// Since glibc 2.34 libdl is a part of the C library.
static inline bool pw_os_libdl_is_apart(void) {
    return atoi(gnu_get_libc_version() + 2) < 34; // "2.36"
}

static inline const char *pw_os_dlsym_library(void) {
    return pw_os_libdl_is_apart() ? LIBDL_SO : LIBC_SO;
}

static inline const char *pw_os_dlsym_version(void) {
    return pw_os_libdl_is_apart() ? PW_OS_OLDEST_VERSION : "GLIBC_2.34";
}

#endif
