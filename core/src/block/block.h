// SPDX-License-Identifier: MIT
//
// Blocks: what malloc returns for large sizes. `site` is the caller's return address: it decides
// whether the block's pages may be shared and zero reclaimed. Sizes are bytes. Safe in any thread.
#ifndef PW_BLOCK_BLOCK_H
#define PW_BLOCK_BLOCK_H

#include "pagewise.h"
#include "process/state.h"

struct pw_process;

// NULL when we have no pages: the C library may still have some.
PW_API void *pw_block_allocate(struct pw_process *process, size_t size, size_t alignment,
                               bool zeroed, const void *site);

// The same for malloc. NULL and `refused`: the request is to fail, for a collection of garbage to
// come first (runtime/r/ask.h).
PW_API void *pw_block_malloc(struct pw_process *process, size_t size, const void *site,
                             bool *refused);

// True when `block` was ours and is released; ends the program when it points into our pages but is
// no live block. Starts the keeper where it is wanted, unless `site` is the C library's.
PW_API bool pw_block_free(struct pw_process *process, void *block, const void *site);

// Blocks that the C library has released without us (it unmaps them): make their pages ours again.
void pw_block_recover(struct pw_process *process);

// Such a block's place is the program's from now on. Under the lock.
struct pw_extent;
void pw_block_give_up(struct pw_process *process, struct pw_extent *extent);

// The block's size, where the C library has changed it without us. Under the lock.
void pw_block_repair(struct pw_process *process, struct pw_extent *extent);

// Would a block of `size` bytes more pass the program's limit? Then nobody serves it, and errno
// says that there is no memory. A guess where the lock is not held.
PW_API bool pw_block_is_refused(const struct pw_process *process, size_t size);

// So many pages more are in use, or fewer.
void pw_block_count_live(struct pw_process *process, int64_t pages);

// Say that `function` was handed what is no live block, and end the program.
void pw_block_reject(const char *function) __attribute__((noreturn));

// End the program when `block` points into our pages: it is no live block then, and the C library
// must not have it.
PW_API void pw_block_reject_dead(struct pw_process *process, const void *block,
                                 const char *function);

// NULL when there is no memory; `block` is unchanged then.
PW_API void *pw_block_resize(struct pw_process *process, void *block, size_t size,
                             const void *site);

// Make a block at least so long where it is: true when it is. Nothing is copied.
PW_API bool pw_block_extend(struct pw_process *process, void *block, size_t size);

PW_API size_t pw_block_usable(struct pw_process *process, const void *block);

#endif
