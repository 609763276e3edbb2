// SPDX-License-Identifier: MIT
//
// Restricts its own system calls, and goes on allocating: `HOW [NUMBER]`. What the recorder should
// have seen is printed before, as "expect SIZE ALLOCATIONS FREES". Ends by the one call that is
// left.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, strerror(errno));   \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

#define FEW  30000 // and yet several chunks
#define MANY 100000
#define MOST 3200000 // 77 MB of events: more than any room that may have been made before

static void churn(int count, size_t size) {
    for (int i = 0; i < count; i++) {
        free(malloc(size));
    }
}

static void expect(size_t size, int count) {
    printf("expect %zu %d %d\n", size, count, count);
    fflush(stdout);
}

static void end(void) {
    CHECK(write(STDOUT_FILENO, "done\n", 5) == 5);
    syscall(SYS_exit, 0);
}

// --- strict mode -----------------------------------------------------------------

static void enter_strict(void) {
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
}

static void strict(int count) {
    churn(1000, 26001);
    expect(26001, count);
    enter_strict();
    churn(count - 1000, 26001);
    end();
}

static void strict_by_syscall(void) {
    expect(26002, MANY);
    churn(1, 26002);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL) == 0);
    churn(MANY - 1, 26002);
    end();
}

static void *brief(void *unused) {
    churn(MANY / 10, 26003);
    return unused;
}

// The others of its threads go on without restrictions.
static void *restricted(void *unused) {
    churn(1, 26004); // for which the C library takes memory
    enter_strict();
    churn(MANY - 1, 26004);
    syscall(SYS_exit, 0);
    return unused;
}

static void strict_thread(void) {
    pthread_t one, other;
    CHECK(pthread_create(&one, NULL, restricted, NULL) == 0);
    for (int i = 0; i < 10; i++) {
        CHECK(pthread_create(&other, NULL, brief, NULL) == 0);
        pthread_join(other, NULL);
    }
    pthread_join(one, NULL);
    expect(26003, MANY);
    expect(26004, MANY);
    puts("done");
}

// There is no such filter: refused, and nothing is as after a restriction.
static void refused(void) {
    struct sock_fprog nothing = {0, NULL};
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == -1 && errno == EFAULT);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &nothing) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (void *)4096) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (void *)4096) == -1 && errno == EFAULT);
    CHECK(prctl(PR_SET_SECCOMP, 77, 0) == -1 && prctl(-1, 0, 0, 0, 0) == -1 && errno == EINVAL);
    CHECK(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0 && syscall(SYS_getpid) == getpid());
    churn(MOST, 26005);
    expect(26005, MOST);
    puts("done");
}

// The processor's ticks cannot be read any more, and all else is as ever.
static void no_ticks(void) {
#ifdef PR_SET_TSC
    CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
    churn(MANY, 26006);
    CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0) == 0);
#endif
    expect(26006, MANY);
    puts("done");
}

// --- filters ---------------------------------------------------------------------

#define LOAD(what)    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define IF(value)     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1)
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)
#define ALLOW(number) IF(number), ANSWER(SECCOMP_RET_ALLOW)

static void apply(struct sock_filter *steps, size_t count) {
    struct sock_fprog program = {(unsigned short)count, steps};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

#define APPLY(steps) apply(steps, sizeof(steps) / sizeof *(steps))

// What a sandbox leaves to those who compute.
static void few_allowed(int count) {
    struct sock_filter steps[] = {
        LOAD(nr),         ALLOW(SYS_read),       ALLOW(SYS_write),
        ALLOW(SYS_exit),  ALLOW(SYS_exit_group), ALLOW(SYS_brk),
        ALLOW(SYS_futex), ALLOW(SYS_munmap),     ANSWER(SECCOMP_RET_ERRNO | EPERM)};
    churn(1000, 27001);
    expect(27001, count);
    APPLY(steps);
    churn(count - 1000, 27001);
    end();
}

// Who are allowed everything lose nothing, however long they run.
static void all_allowed(void) {
    struct sock_filter steps[] = {LOAD(nr), ALLOW(SYS_mmap), ANSWER(SECCOMP_RET_ALLOW)};
    for (int i = 0; i < 5; i++) {
        APPLY(steps);
        churn(MOST / 5, 27002);
    }
    expect(27002, MOST);
    puts("done");
}

static void *allocate(void *unused) {
    churn(FEW, 27003);
    return unused;
}

// Code that the program has made.
typedef void *call_for(size_t size, void *(*make)(size_t));

static call_for *generate(void) {
#ifdef __x86_64__
    static const unsigned char code[] = {0x48, 0x83, 0xec, 0x08,        // sub $8, %rsp
                                         0xff, 0xd6,                    // call *%rsi
                                         0x48, 0x83, 0xc4, 0x08, 0xc3}; // add $8, %rsp; ret
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, code, sizeof code);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    return (call_for *)page;
#else
    return NULL;
#endif
}

static void churn_by(call_for *call, int count) {
    for (int i = 0; i < count; i++) {
        free(call ? call(27003, malloc) : malloc(27003));
    }
}

// By ever other ways, so that none is known.
__attribute__((noinline)) static void descend(unsigned way) {
    volatile char room[way % 7 * 16 + 1];
    room[0] = 1;
    if (way > 1) {
        descend(way / 2);
    } else {
        free(malloc(27005));
    }
    CHECK(room[0] == 1);
}

static int has_ended;

static void *descend_for_ever(void *unused) {
    for (unsigned way = 1; !__atomic_load_n(&has_ended, __ATOMIC_RELAXED); way += 7) {
        descend(way % 4096);
    }
    return unused;
}

// One thread unloads what another one may be looking at.
static void unload_while_another_walks(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, descend_for_ever, NULL) == 0);
    for (int i = 0; i < 300; i++) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        CHECK(library && dlclose(library) == 0);
    }
    __atomic_store_n(&has_ended, 1, __ATOMIC_RELAXED);
    CHECK(pthread_join(thread, NULL) == 0);
}

// One call is death. `more` says what the program does besides allocating.
static void kill_one(unsigned number, const char *more) {
    struct sock_filter steps[] = {LOAD(nr), IF(number), ANSWER(SECCOMP_RET_KILL_PROCESS),
                                  ANSWER(SECCOMP_RET_ALLOW)};
    call_for *call = strcmp(more, "generated") == 0 ? generate() : NULL;
    churn_by(call, 1000);
    if (strcmp(more, "by-syscall") == 0) {
        struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
    } else {
        APPLY(steps);
    }
    churn_by(call, FEW);
    if (strcmp(more, "unloads") == 0) {
        unload_while_another_walks();
    } else if (strcmp(more, "threads") == 0) {
        pthread_t thread;
        for (int i = 0; i < 3; i++) {
            CHECK(pthread_create(&thread, NULL, allocate, NULL) == 0);
            pthread_join(thread, NULL);
        }
    } else if (strcmp(more, "forks") == 0) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            churn(FEW, 27004);
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    } else if (strcmp(more, "closed") == 0) {
        close_range(3, ~0U, 0);
        churn(FEW, 27003);
    }
    churn(FEW, 27003);
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "";
    const char *number = count > 2 ? words[2] : "0";
    // What the C library opens at the first use is none of the cases.
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    if (strcmp(how, "strict") == 0) {
        strict(MANY);
    } else if (strcmp(how, "strict-long") == 0) {
        strict(MOST);
    } else if (strcmp(how, "strict-by-syscall") == 0) {
        strict_by_syscall();
    } else if (strcmp(how, "strict-thread") == 0) {
        strict_thread();
    } else if (strcmp(how, "refused") == 0) {
        refused();
    } else if (strcmp(how, "no-ticks") == 0) {
        no_ticks();
    } else if (strcmp(how, "few-allowed") == 0) {
        few_allowed(MANY);
    } else if (strcmp(how, "few-allowed-long") == 0) {
        few_allowed(MOST);
    } else if (strcmp(how, "all-allowed") == 0) {
        all_allowed();
    } else if (strcmp(how, "kill-one") == 0) {
        kill_one((unsigned)atoi(number), count > 3 ? words[3] : "");
    } else {
        return 2;
    }
    return 0;
}
