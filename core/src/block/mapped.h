// SPDX-License-Identifier: MIT
//
// What the program does to the memory of its own blocks: protection, advice, locks, other pages in
// their place. Whoever sees such a call (family_mappings.h) asks here before it is made, and says
// so when it has been. A block that the program has altered is not shared, not searched for zeros,
// and not kept warm when it is freed: the next block in its place is ordinary memory again.
#ifndef PW_BLOCK_MAPPED_H
#define PW_BLOCK_MAPPED_H

#include "process/state.h"

struct pw_mapping_call {
    bool refused;   // it cannot be made as for memory that is not shared: ENOMEM
    uint32_t aside; // free pages that it covers, out of the pool meanwhile; 0: none
};

// The program is about to make a system call, by its number and arguments, from `site`. Only those
// that change a mapping do anything here, and of those only what is in our range.
PW_API struct pw_mapping_call pw_mapping_call_begins(struct pw_process *process, long number,
                                                     const long arguments[6], const void *site);
PW_API void pw_mapping_call_ends(struct pw_process *process, struct pw_mapping_call call);

// Is the block mapped as memory that the program has not touched? Asks the kernel where it can be
// asked (Linux 6.11), for calls that nobody saw. If not, the block counts as altered from now on.
bool pw_block_is_ordinary(struct pw_process *process, struct pw_extent *extent);

#endif
