// SPDX-License-Identifier: MIT
//
// Steps up a stack that trust nothing: a compiler's unwinder believes registers, tables and return
// addresses, and reads wherever they point. Here nothing is read but tables, inside the bounds that
// the caller gives, and the thread's own stack above the frame. x86-64 only; elsewhere no step is
// made.
#ifndef PW_RECORD_CFI_H
#define PW_RECORD_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// How the tables number what they speak of.
enum {
    PW_CFI_POINTER = 6,
    PW_CFI_STACK = 7,
    PW_CFI_RETURN = 16,
    PW_CFI_COUNT = 17,
};

// A call that is going on.
struct pw_cfi_frame {
    uintptr_t address;               // to which the called function returns
    uintptr_t stack;                 // the stack pointer then
    uintptr_t pointer;               // the frame pointer then, or whatever else its register holds
    uintptr_t others[PW_CFI_RETURN]; // the other registers by number; a caller saves some itself
    bool is_exact;                   // a signal came at the address itself: no call lies before it
};

// Where something of the caller's is.
struct pw_cfi_rule {
    unsigned char how;    // see cfi.c
    unsigned char number; // of the register that it is counted from
    int32_t after;        // added to what lies there
    union {
        int64_t offset;
        const unsigned char *block; // of operations
    };
};

// What holds at one place of a function. The CFA is where the caller's frame begins.
struct pw_cfi_row {
    struct pw_cfi_rule cfa;
    struct pw_cfi_rule rules[PW_CFI_COUNT];
    uint32_t changed;                // of `rules`, one bit each
    bool is_signal;                  // the caller was interrupted
    bool has_blocks;                 // some lie in the tables
    const unsigned char *blocks_end; // of the tables
};

// Unwind tables (.eh_frame) with their table of contents (.eh_frame_hdr), and the memory in which
// they lie.
struct pw_cfi_tables {
    const unsigned char *contents, *low, *high;
};

// The row for the place where a frame goes on. False: there is none, or it makes no sense here.
bool pw_cfi_find(const struct pw_cfi_tables *tables, const struct pw_cfi_frame *frame,
                 struct pw_cfi_row *row);

// The same by one entry of the tables (an FDE), which is for the function that begins at
// `function`.
bool pw_cfi_read(const struct pw_cfi_tables *tables, const unsigned char *entry, uintptr_t function,
                 const struct pw_cfi_frame *frame, struct pw_cfi_row *row);

// The row by the code that is left of the function, of which `size` bytes may be read, if that does
// nothing but return. CPython's trampolines are such code. More bytes than these are not looked at.
#define PW_CFI_LONGEST_RETURN 6
bool pw_cfi_read_code(const unsigned char *code, size_t size, struct pw_cfi_row *row);

// To the caller. `end` is that of the stack. False, and nothing has changed: the row leads nowhere
// on the stack above. True: the caller's frame lies above.
bool pw_cfi_step(struct pw_cfi_frame *frame, const struct pw_cfi_row *row, uintptr_t end);

// Whether the tables say that nobody has called: a thread or the program begins there.
bool pw_cfi_is_first(const struct pw_cfi_row *row);

// To the caller by the frame pointer, which holds the caller's and, above it, the return address.
bool pw_cfi_step_by_pointer(struct pw_cfi_frame *frame, uintptr_t end);

#endif
