// SPDX-License-Identifier: MIT
//
// What a seccomp filter says to a system call, found out without making it.
#ifndef PW_RECORD_FILTER_H
#define PW_RECORD_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>

// A filter's answer to a call. What makes no sense is killed, as by the kernel.
__u32 pw_filter_answer(const struct sock_fprog *program, const struct seccomp_data *call);

// Is the call made, and nothing else?
static inline bool pw_filter_allows(__u32 answer) {
    __u32 action = answer & SECCOMP_RET_ACTION_FULL;
    return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

#endif
