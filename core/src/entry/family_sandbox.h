// SPDX-License-Identifier: MIT
//
// The calls by which a program enters a sandbox (sandbox.h). Compiled wherever the malloc family
// is, by whoever defines FAMILY and FAMILY_API as for family.h.

#include "entry/sandbox.h"

#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>

FAMILY_API int FAMILY(prctl)(int option, ...) {
    unsigned long arguments[4]; // as many as there may be, as the C library takes them
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++) {
        arguments[i] = va_arg(list, unsigned long);
    }
    va_end(list);
    return pw_sandbox_prctl(option, arguments);
}

FAMILY_API int FAMILY(unshare)(int flags) {
    return pw_sandbox_unshare(flags);
}

FAMILY_API int FAMILY(setns)(int fd, int type) {
    return pw_sandbox_setns(fd, type);
}
