// SPDX-License-Identifier: MIT
//
// Threads that began before we were switched on in a running R or Python: which function does one
// run? The timer of package cli is told so, and the thread of pyarrow's jemalloc; all
// others stay unknown (quiet.h).
//
// The C library keeps a record of each thread, which holds its function and its number. Where in
// the record they are, is found on a thread of our own, and believed only if the record of the
// calling thread agrees. Another thread's record lies above its stack. It is read by the kernel, so
// that a thread that ends meanwhile is an answer and not a crash. x86-64 alone; elsewhere none is
// found.
#ifndef PW_PROCESS_EARLIER_H
#define PW_PROCESS_EARLIER_H

#include <stdbool.h>
#include <stdint.h>

#define PW_EARLIER_THREADS 4u

struct pw_earlier {
    uintptr_t number_at, start_at; // in its record
    int number;                    // 0: none
    uintptr_t start;
};

// Find those of them that block all signals. Not under the heap's lock. Starts and ends a thread.
void pw_earlier_find(struct pw_earlier found[PW_EARLIER_THREADS]);

// Does it run still?
bool pw_earlier_runs(const struct pw_earlier *thread);

#endif
