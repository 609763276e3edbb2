// SPDX-License-Identifier: MIT
//
// Programs that are about to be started: can a library of ours be preloaded into them? Asked in
// children of vfork and in signal handlers: nothing here allocates, takes a lock or writes anything
// but its own stack. Errno is kept.
#ifndef PW_OS_PROGRAM_H
#define PW_OS_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

// A file, whatever it is called.
struct pw_os_identity {
    uint64_t device, number; // 0, 0: not known
};

struct pw_os_identity pw_os_identity_of(const char *path);

// False: it cannot. It is a program of another C library (musl), or of another installation of
// ours, which may lack what we need; or for another processor; or one with a sanitizer, which wants
// to be first. `loader` is the dynamic loader of this process. What cannot be read or understood is
// given the benefit of the doubt, and so are static programs, which do not look at LD_PRELOAD.
bool pw_os_program_bears(int fd, const struct pw_os_identity *loader);
bool pw_os_program_at_bears(int folder, const char *path, const struct pw_os_identity *loader);

// The same for a name without a slash, as execvp looks for it.
bool pw_os_program_named_bears(const char *name, const struct pw_os_identity *loader);

// Is it the name of a sanitizer's library that must come first?
bool pw_os_is_sanitizer(const char *file_name);

bool pw_os_exists(const char *path);

#endif
