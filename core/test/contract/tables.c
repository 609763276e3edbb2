// SPDX-License-Identifier: MIT
//
// The cases of the program in C.
#include "contract.h"

extern const struct promise *const all_promises[];

const struct promise *const all_promises[] = {
    allocation_promises,
    refusal_promises,
    resize_promises,
    alignment_promises,
    thread_promises,
    fork_promises,
    signal_promises,
    end_promises,
    library_promises,
    module_promises,
    memory_promises,
    stress_promises,
    NULL,
};
