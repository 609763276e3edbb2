// SPDX-License-Identifier: MIT
//
// What the C library's heap holds, for the memory rule.
#ifndef PW_BLOCK_FOREIGN_H
#define PW_BLOCK_FOREIGN_H

#include "pagewise.h"

struct pw_process;

// It may have grown.
PW_API void pw_foreign_changed(struct pw_process *process);

#endif
