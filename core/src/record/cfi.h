// SPDX-License-Identifier: MIT
//
// One step up a stack by unwind tables (.eh_frame), for frames whose registers are not certain: a
// compiler's unwinder believes them, and would read wherever they point. Here nothing is read but
// the tables and the thread's own stack. x86-64 only; elsewhere no step is made.
#ifndef PW_RECORD_CFI_H
#define PW_RECORD_CFI_H

#include <stdbool.h>
#include <stdint.h>

// The frame pointer's number in the tables.
#ifdef __aarch64__
#define PW_CFI_POINTER 29
#else
#define PW_CFI_POINTER 6
#endif

// A call that is going on.
struct pw_cfi_frame {
    uintptr_t address; // to which the called function returns
    uintptr_t stack;   // the stack pointer then
    uintptr_t pointer; // the frame pointer then, or whatever else its register holds
};

// To the caller, by the entry of the tables (an FDE) for the function that begins at `function`.
// `end` is that of the stack. False, and nothing has changed: the entry, or what it leads to, makes
// no sense here. True: the caller's frame lies above, and the return address right below it.
bool pw_cfi_step(struct pw_cfi_frame *frame, const void *entry, uintptr_t function, uintptr_t end);

// To the caller by the frame pointer, which holds the caller's and, above it, the return address.
bool pw_cfi_step_by_pointer(struct pw_cfi_frame *frame, uintptr_t end);

// To the caller by the code that is left of the function, if that does nothing but return. The
// address must be known to be code: it is read. CPython's trampolines are such code.
bool pw_cfi_step_by_code(struct pw_cfi_frame *frame, uintptr_t end);

#endif
