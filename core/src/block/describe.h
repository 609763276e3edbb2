// SPDX-License-Identifier: MIT
//
// What a block says of itself, and what memory costs: pagewise.h says what each of these answers.
#ifndef PW_BLOCK_DESCRIBE_H
#define PW_BLOCK_DESCRIBE_H

#include "pagewise.h"

struct pw_process;

bool pw_describe_block(struct pw_process *process, const void *address, struct pw_block_info *info);
size_t pw_describe_blocks(struct pw_process *process, struct pw_block_info *blocks, size_t room);
bool pw_describe_cost(struct pw_process *process, const void *address, size_t size,
                      struct pw_page_cost *cost);
size_t pw_describe_collapse(struct pw_process *process, const void *address, size_t size);

#endif
