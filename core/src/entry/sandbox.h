// SPDX-License-Identifier: MIT
//
// Sandboxes: a seccomp filter may end the process for a system call that its author did not expect,
// and some doors open only to a process of one thread. Both are seen as they come: the calls that
// lead there are interposed (family_sandbox.h).
#ifndef PW_ENTRY_SANDBOX_H
#define PW_ENTRY_SANDBOX_H

#include "pagewise.h"

#include <stdbool.h>

struct pw_options;

// Read once, at the start: must everything be left to the C library, because a filter is in force
// that nobody has said to be harmless?
bool pw_sandbox_forbids(const struct pw_options *options);

// A filter is about to come into force. What needs system calls is dropped now: the keeper, the
// pool, descriptors, sharing. From here on no call is made but those that the C library's allocator
// would make. For good: children inherit it with the filter.
PW_API void pw_sandbox_enters(void);

// What is due before the program's system call of that number: seccomp, prctl, unshare, setns and
// exit. Nothing for any other.
PW_API void pw_sandbox_before_syscall(long number, unsigned long one, unsigned long two,
                                      unsigned long three);

// The C library's functions, after that.
PW_API int pw_sandbox_prctl(int option, const unsigned long *arguments);
PW_API int pw_sandbox_unshare(int flags);
PW_API int pw_sandbox_setns(int fd, int type);

#endif
