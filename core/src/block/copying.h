// SPDX-License-Identifier: MIT
//
// Copies and fills of whole pages. True when the whole copy or fill was done; otherwise nothing
// was, and the caller does it.
#ifndef PW_BLOCK_COPYING_H
#define PW_BLOCK_COPYING_H

#include "pagewise.h"

struct pw_process;

// Ranges may not overlap unless they lie in one block (which is never shared with itself).
PW_API bool pw_block_copy(struct pw_process *process, void *to, const void *from, size_t size,
                          const void *site);

PW_API bool pw_block_zero(struct pw_process *process, void *to, size_t size);

#endif
