// SPDX-License-Identifier: MIT
//
// Pages of the hugetlb pool belong to one process alone: blocks leave them before somebody else
// could write to them (pw_huge_before_fork says why).
#ifndef PW_PROCESS_LARGE_PAGES_H
#define PW_PROCESS_LARGE_PAGES_H

// Under the lock. Where somebody may be writing, blocks stay where they are.
void pw_process_leave_hugetlb(void);

#endif
