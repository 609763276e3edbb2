// SPDX-License-Identifier: MIT
//
// What the policy needs to know of the process's size (pw_collector_is_peak). Under the lock.
#ifndef PW_RUNTIME_PEAK_H
#define PW_RUNTIME_PEAK_H

#include "process/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pw_process;

// Pages of a request of `size` bytes that the pool will not have.
uint64_t pw_peak_fresh_pages(struct pw_process *process, size_t size);

// Pages that are there, by our own count where the kernel does not tell.
uint64_t pw_peak_resident(struct pw_process *process, struct pw_resident *resident);

#endif
