// SPDX-License-Identifier: MIT
//
// The program that runs in hostile environments, plain and under the preloaded library:
//     program CASE [ARGUMENT...]
// It knows nothing of Pagewise. What it prints must be the same in both runs; environment.py says
// what the statistics must show. Each file has the cases of one subject.
#ifndef PW_TEST_PROGRAM_H
#define PW_TEST_PROGRAM_H

#include "check.h"

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct program_case {
    const char *name; // NULL ends a list
    int (*function)(char **arguments);
};

extern const struct program_case limit_cases[], mapping_cases[], memory_cases[], denied_cases[],
    process_cases[], descriptor_cases[], signal_cases[], thread_cases[], library_cases[],
    child_cases[], advice_cases[], copy_cases[];

extern const char *own_path;

// --- the work (work.c) --------------------------------------------------------

void fill(unsigned char *block, size_t size, uint64_t seed);
uint64_t sum(const unsigned char *block, size_t size);

// Allocate, copy, modify, resize and free, and say what came of it.
uint64_t work(int rounds, size_t size);
void say_work(const char *when);

// --- what several subjects need (work.c) --------------------------------------

size_t status_kb(const char *name); // of /proc/self/status
void limit(int resource, rlim_t value);
void wait_well(pid_t child); // it must end with 0
void close_all(int from);

#endif
