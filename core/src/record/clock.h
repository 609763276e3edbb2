// SPDX-License-Identifier: MIT
//
// Stamps: what puts the events of several threads in order.
//
// If one thread frees a block and another one gets it, the free's stamp must be the smaller one. A
// free is stamped before the allocator is called: the stamp is taken before the stores that hand
// the block on can be seen. An allocation is stamped after the allocator has returned, and must not
// be taken ahead of the loads that saw the block free: hence the fence.
#ifndef PW_RECORD_CLOCK_H
#define PW_RECORD_CLOCK_H

#include "os/os.h"

#include <stdint.h>

#if defined(__x86_64__)
static inline uint64_t pw_clock(void) {
    return __builtin_ia32_rdtsc();
}
static inline uint64_t pw_clock_after_loads(void) {
    __builtin_ia32_lfence();
    return __builtin_ia32_rdtsc();
}
#else
static inline uint64_t pw_clock(void) {
    return pw_os_monotonic_ns();
}
static inline uint64_t pw_clock_after_loads(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return pw_os_monotonic_ns();
}
#endif

#endif
