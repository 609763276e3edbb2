// SPDX-License-Identifier: MIT
//
// The C library's own dlsym. Preloaded libraries, ours among them (entry/by_handle.c), may have
// that name as well. Asked for by a version, theirs is not found: it has none.
#ifndef PW_OS_DLSYM_H
#define PW_OS_DLSYM_H

#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <gnu/libc-version.h>
#include <stdbool.h>

#ifdef __x86_64__
#define PW_OS_OLDEST_VERSION "GLIBC_2.2.5"
#else
#define PW_OS_OLDEST_VERSION "GLIBC_2.17"
#endif

// Since glibc 2.34 libdl is a part of the C library. Without the C library's help: a sanitizer that
// starts looks for functions, and its own in front of the C library's do not work yet.
static inline bool pw_os_libdl_is_apart(void) {
    int minor = 0;
    for (const char *digit = gnu_get_libc_version() + 2; *digit >= '0' && *digit <= '9'; digit++) {
        minor = 10 * minor + (*digit - '0'); // "2.36"
    }
    return minor < 34;
}

static inline const char *pw_os_dlsym_library(void) {
    return pw_os_libdl_is_apart() ? LIBDL_SO : LIBC_SO;
}

static inline const char *pw_os_dlsym_version(void) {
    return pw_os_libdl_is_apart() ? PW_OS_OLDEST_VERSION : "GLIBC_2.34";
}

typedef void *pw_os_look_up(void *library, const char *name);

// For a library that comes before the C library in the order of loading. NULL: the versions of this
// C library are not known (other processors, before 2.34).
static inline pw_os_look_up *pw_os_next_dlsym(void) {
    return (pw_os_look_up *)dlvsym(RTLD_NEXT, "dlsym", pw_os_dlsym_version());
}

// What comes next after such a library under this name, by the C library's dlsym: a library that
// wraps it may not say on whose behalf it asks. No jump: the caller is told by the return address.
static inline void *pw_os_find_next(const char *name) {
    pw_os_look_up *look_up = pw_os_next_dlsym();
    void *volatile found = look_up ? look_up(RTLD_NEXT, name) : dlsym(RTLD_NEXT, name);
    return found;
}

#endif
