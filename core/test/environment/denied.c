// SPDX-License-Identifier: MIT
//
// System calls denied by a seccomp filter.
#include "program.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/lib-names.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
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

// --- filters that kill --------------------------------------------------------

#define SMALL_BLOCKS 200

// By the C library's prctl, by its syscall, or by a prctl that a handle of it finds.
static int set_filter(const char *how, struct sock_fprog *program) {
    if (strcmp(how, "syscall") == 0) {
        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program);
    }
    void *library = strcmp(how, "handle") == 0 ? dlopen(LIBC_SO, RTLD_LAZY) : RTLD_DEFAULT;
    int (*call)(int, ...) = (int (*)(int, ...))dlsym(library, "prctl");
    return call(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program);
}

// The filter ends the process for one call.
static void kill_for(long number, const char *how) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    // Only asked whether the kernel knows it, as programs do.
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == -1);
    CHECK(set_filter(how, &program) == 0);
}

// Blocks of many sizes, allocated, copied, resized and freed: with no more system calls than the C
// library's allocator makes. Nothing is said meanwhile, and files are not opened.
static void work_silently(void) {
    static unsigned char *blocks[SMALL_BLOCKS];
    for (int i = 0; i < SMALL_BLOCKS; i++) {
        size_t size = 100 + (size_t)(i % 20) * 20000, next = 1 + (size_t)(i % 20) * 30000;
        unsigned char *block = i % 3 ? malloc(size) : calloc(1, size);
        CHECK(block != NULL);
        memset(block, i, size);
        if (i > 0) {
            memcpy(block, blocks[i - 1], i % 20 > 1 ? 1000 : 1);
        }
        block[0] = (unsigned char)i;
        blocks[i] = realloc(block, next);
        CHECK(blocks[i] != NULL && blocks[i][0] == (unsigned char)i);
        memset(blocks[i], i, next);
    }
    for (int i = 0; i < SMALL_BLOCKS; i++) {
        CHECK(blocks[i][0] == (unsigned char)i);
        free(blocks[i]);
    }
}

// What there is to drop when the filter comes: shared copies, warm pages, a thread that keeps them,
// descriptors, blocks of all sizes.
static unsigned char *prepared[40];

static void prepare(void) {
    for (int i = 0; i < 40; i++) {
        size_t size = i % 2 ? MEGABYTE : 3000 + (size_t)i * 2000;
        prepared[i] = malloc(size);
        CHECK(prepared[i] != NULL);
        fill(prepared[i], size, 3);
        if (i > 2 && i % 2) {
            memcpy(prepared[i], prepared[1], size);
            prepared[i][5000] ^= 1;
        }
    }
    unsigned char *spare = malloc(30 * MEGABYTE);
    fill(spare, 30 * MEGABYTE, 1);
    free(spare);
    work_silently();
}

static void finish(void) {
    uint64_t copy = sum(prepared[3], MEGABYTE);
    for (int i = 5; i < 40; i += 2) {
        CHECK(sum(prepared[i], MEGABYTE) == copy);
    }
    for (int i = 0; i < 40; i++) {
        size_t size = i % 2 ? MEGABYTE : 3000 + (size_t)i * 2000;
        unsigned char middle = prepared[i][size / 2];
        unsigned char *moved = i % 3 ? prepared[i] : realloc(prepared[i], size + 200000);
        CHECK(moved != NULL && moved[size / 2] == middle);
        free(moved);
    }
}

static int under_filter(void) {
    for (int round = 0; round < 3; round++) {
        work_silently();
        struct timespec pause = {0, 150000000};
        nanosleep(&pause, NULL);
    }
    return 0;
}

// In force before the program starts: for the calls that a start needs, plain ends as well.
static int case_killed_at_start(char **arguments) {
    kill_for(atol(arguments[0]), "prctl");
    execl(own_path, own_path, "under-filter", (char *)NULL);
    return 1;
}

static int case_under_filter(char **arguments) {
    (void)arguments;
    return under_filter();
}

// What the program changes of a block is looked at, where that may be.
static void change_mapping_but(long killed) {
    uintptr_t page = ((uintptr_t)prepared[1] + PAGE - 1) & ~(PAGE - 1);
    if (killed != SYS_mprotect) {
        CHECK(mprotect((void *)page, 4 * PAGE, PROT_READ | PROT_WRITE) == 0);
    }
}

static int case_killed_later(char **arguments) {
    prepare();
    kill_for(atol(arguments[0]), arguments[1]);
    change_mapping_but(atol(arguments[0]));
    under_filter();
    finish();
    return 0;
}

// --- a filter for all threads ----------------------------------------------------

#define CHURNED 1500000

static atomic_bool is_ready, may_end;

// Frees so much that idle pages are to be given back, and goes on.
static void *allocate_on(void *unused) {
    (void)unused;
    static char *blocks[CHURNED], *others[4096];
    for (int i = 0; i < CHURNED; i++) {
        blocks[i] = memset(malloc(128), 1, 128);
    }
    is_ready = true;
    for (int i = 0; i < CHURNED; i++) {
        if (i / 32 % 2) {
            free(blocks[i]);
        }
    }
    for (unsigned x = 1; !may_end; x = x * 1664525 + 1013904223) {
        char **other = &others[x >> 8 & 4095];
        free(*other);
        *other = *other ? NULL : malloc((x >> 20) % 1000 + 1);
    }
    return NULL;
}

// madvise kills from then on, in the other thread too.
static void kill_all_for_madvise(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
}

// At a time of its own in each of some children: those that are killed are counted.
static int case_filtered_beside(char **arguments) {
    (void)arguments;
    int killed = 0;
    for (int i = 0; i < 12; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, allocate_on, NULL) == 0);
            while (!is_ready) {
                usleep(1000);
            }
            usleep(300000 + (unsigned)i * 70000);
            kill_all_for_madvise();
            usleep(150000);
            _exit(0);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child);
        killed += status != 0;
    }
    printf("killed: %d\n", killed);
    return 0;
}

// --- doors for a process of one thread ------------------------------------------

static int in_child(int (*what)(void)) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prepare(); // children start without the threads of their parent, and make their own
        usleep(20000);
        int result = what();
        finish();
        work_silently();
        _exit(result);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int enter_user_namespace(void) {
    return unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
}

static int enter_mount_namespace(void) {
    int fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    return setns(fd, CLONE_NEWNS) == 0 ? 0 : errno;
}

static int unshare_memory(void) {
    return unshare(CLONE_VM) == 0 ? 0 : errno; // refused if there is another thread
}

static int case_one_thread(char **arguments) {
    (void)arguments;
    printf("%d %d %d\n", in_child(enter_user_namespace), in_child(enter_mount_namespace),
           in_child(unshare_memory));
    return 0;
}

// An emulator of another system has every system call sent to its handler, but for those that it
// allows itself. memcpy and memset make none.
static void dispatched(int signal) {
    (void)signal;
    _exit(98);
}

static int case_dispatched(char **arguments) {
    (void)arguments;
    static volatile char selector;
    unsigned char *from = malloc(MEGABYTE), *to = malloc(MEGABYTE);
    fill(from, MEGABYTE, 1);
    memcpy(to, from, MEGABYTE);
    from[5] = 1;
    CHECK(signal(SIGSYS, dispatched) != SIG_ERR);
    CHECK(prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0x1000, 0x1000, &selector) == 0);
    selector = SYSCALL_DISPATCH_FILTER_BLOCK;
    memcpy(to, from, MEGABYTE);
    memset(from, 0, MEGABYTE);
    selector = SYSCALL_DISPATCH_FILTER_ALLOW;
    printf("%016llx %016llx\n", (unsigned long long)sum(to, MEGABYTE),
           (unsigned long long)sum(from, MEGABYTE));
    return 0;
}

// A ring of io_uring that another process made and handed on: its first use is all that is seen.
static int case_ring(char **arguments) {
    (void)arguments;
    printf("%ld\n", syscall(SYS_io_uring_enter, -1, 0, 0, 0, NULL, 0));
    say_work("beside a ring");
    return 0;
}

const struct program_case denied_cases[] = {
    {"ring", case_ring},
    {"dispatched", case_dispatched},
    {"one-thread", case_one_thread},
    {"killed-at-start", case_killed_at_start},
    {"under-filter", case_under_filter},
    {"killed-later", case_killed_later},
    {"filtered-beside", case_filtered_beside},
    {"denied", case_denied},
    {"denied-here", case_denied_here},
    {NULL, NULL},
};
