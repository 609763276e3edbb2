// SPDX-License-Identifier: MIT
//
// Pages of the hugetlb pool belong to one process alone: blocks leave them before somebody else
// could write to them (pw_huge_before_fork says why).
#ifndef PW_PROCESS_LARGE_PAGES_H
#define PW_PROCESS_LARGE_PAGES_H

#include "extent/extent.h"
#include "process/caller.h"

// Look for who may write, before the lock is taken, where there are such blocks.
void pw_process_look_at_hugetlb(struct pw_caller *caller);

// Under the lock, after that look. Where somebody may be writing, blocks stay where they are; so
// does a single one where there is no memory for a copy.
void pw_process_leave_hugetlb(const struct pw_caller *caller);
void pw_process_leave_hugetlb_of(struct pw_extent *extent, const struct pw_caller *caller);

#endif
