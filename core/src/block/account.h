// SPDX-License-Identifier: MIT
//
// What the heap holds, for who operates a program: in numbers, and as text. Nothing is allocated.
#ifndef PW_BLOCK_ACCOUNT_H
#define PW_BLOCK_ACCOUNT_H

#include "pagewise.h"
#include "process/state.h"

// Bytes, but for the counts of blocks. What the C library serves is not counted.
struct pw_account {
    struct pw_general_usage small; // blocks in a thread's cache count as in use
    size_t larger_blocks, larger_bytes;
    size_t shelf_bytes; // released, and ready for the next request
    size_t warm_bytes;  // free pages that have memory
};
PW_API void pw_account_read(struct pw_process *process, struct pw_account *account);

enum pw_account_form {
    PW_ACCOUNT_TEXT,
    PW_ACCOUNT_JSON,
    PW_ACCOUNT_XML, // as the C library's malloc_info
};

// Writes at most `size` bytes, the last of them NUL; returns how long the whole text is.
size_t pw_account_write(struct pw_process *process, enum pw_account_form form, char *text,
                        size_t size);

// The whole text, in memory that is no block. NULL: there is none.
PW_API char *pw_account_begin(struct pw_process *process, enum pw_account_form form);
PW_API void pw_account_end(char *text);

#endif
