// SPDX-License-Identifier: MIT
//
// System calls denied by a seccomp filter.
#include "program.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void deny(long number, uint32_t argument_1, int error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, argument_1, argument_1 ? 0 : 0, argument_1 ? 1 : 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

struct scan_request {
    uint64_t fields[12];
};

static const struct {
    const char *name;
    long number;
    uint32_t argument_1;
} calls[] = {
    {"memfd_create", SYS_memfd_create, 0},
    {"userfaultfd", SYS_userfaultfd, 0},
    {"mremap", SYS_mremap, 0},
    {"madvise", SYS_madvise, 0},
    {"fallocate", SYS_fallocate, 0},
    {"pwrite64", SYS_pwrite64, 0},
    {"pread64", SYS_pread64, 0},
    {"ftruncate", SYS_ftruncate, 0},
    {"mlock", SYS_mlock, 0},
    {"sysinfo", SYS_sysinfo, 0},
    {"prlimit64", SYS_prlimit64, 0},
    {"add_seals", SYS_fcntl, F_ADD_SEALS},
    {"pagemap_scan", SYS_ioctl, (uint32_t)_IOWR('f', 16, struct scan_request)},
};

static void deny_named(const char *name, int error) {
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (!strcmp(calls[i].name, name)) {
            deny(calls[i].number, calls[i].argument_1, error);
            return;
        }
    }
    CHECK(!"known call");
}

// Deny a call, then run `program work` under that filter.
static int case_denied(char **arguments) {
    deny_named(arguments[0], atoi(arguments[1]));
    execl(own_path, own_path, "work", (char *)NULL);
    return 1;
}

// The same without a new program, for a call that starting one needs.
static int case_denied_here(char **arguments) {
    deny_named(arguments[0], atoi(arguments[1]));
    say_work("denied here");
    return 0;
}

const struct program_case denied_cases[] = {
    {"denied", case_denied},
    {"denied-here", case_denied_here},
    {NULL, NULL},
};
