// SPDX-License-Identifier: MIT
//
// The most memory that the process has had, by the kernel's count of resident pages, and whether a
// request would make it more. All of it under the lock.
#ifndef PW_RUNTIME_PEAK_H
#define PW_RUNTIME_PEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pw_process;

// Pages of a request of `size` bytes that the pool will not have.
uint64_t pw_peak_fresh_pages(struct pw_process *process, size_t size);

// Pages that are there. Reads a file: some microseconds.
uint64_t pw_peak_resident(struct pw_process *process);

// Would the process become larger than it ever was with `fresh` pages on top of `resident` ones?
bool pw_peak_rises(struct pw_process *process, uint64_t resident, uint64_t fresh);

// `resident` pages were there at a look.
void pw_peak_note(struct pw_process *process, uint64_t resident);

#endif
