// SPDX-License-Identifier: MIT
//
// Who calls us, found out before the process's lock is taken (pw_caller_at in runtime/runtime.h).
#ifndef PW_PROCESS_CALLER_H
#define PW_PROCESS_CALLER_H

#include <stdbool.h>

struct pw_os_signals;

// Only blocks and copies of modules that are known not to hand memory to devices (fixed buffers of
// io_uring, registration of GPUs or RDMA) may share pages: a page that the kernel has pinned must
// never be remapped.
enum pw_module {
    PW_MODULE_OTHER,     // unknown: may hand memory to devices
    PW_MODULE_RUNTIME,   // of a language: R itself, NumPy's arrays
    PW_MODULE_EXTENSION, // the library of a package
};

struct pw_caller {
    enum pw_module module; // by what the user trusts
    bool in_blas;
    bool looked;                      // pw_quiet_look came after
    bool without_rings;               // and found no library that has the kernel write to memory
    const struct pw_os_signals *held; // those blocked before ours were; NULL: ours are not blocked
};

#endif
