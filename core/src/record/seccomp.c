// SPDX-License-Identifier: MIT
//
// Programs that restrict their own system calls (seccomp(2)). The recorder must not be what ends
// them: a call that they would never have made may be one that they are killed for. So prctl and
// syscall are put before the C library's. Before a restriction comes into force, room is mapped
// ahead; afterwards the filter is asked, by running it here, about each call that the recorder
// makes. Is one of them not allowed, no further one is made: recording goes on into what is mapped,
// and ends where that is full. Calls that it can do without are given up alone.
//
// Strict mode takes the clock away as well: reading the processor's ticks then raises SIGSEGV, as
// it does after prctl(PR_SET_TSC).
//
// Restrictions by a system call instruction of the program's own are not seen, nor what was in
// force before the program began.

#include "os/dlsym.h"
#include "record/filter.h"
#include "record/log.h"
#include "record/record.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define API __attribute__((visibility("default")))

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE AUDIT_ARCH_RISCV64
#endif

#ifndef SECCOMP_SET_MODE_STRICT
#define SECCOMP_SET_MODE_STRICT 0
#define SECCOMP_SET_MODE_FILTER 1
#endif

#define AT_FD ((uint64_t)(uint32_t)pw_log.file.fd)
#define HERE  ((uint64_t)(int64_t)AT_FDCWD)
#define SIZE  ((uint64_t)PW_SPOOL_STEP)

// --- which calls are allowed --------------------------------------------------------

static bool is_allowed(const struct sock_fprog *program, struct seccomp_data call) {
    call.arch = ARCHITECTURE;
    call.instruction_pointer = (uintptr_t)pw_log_freeze;
    return pw_filter_allows(pw_filter_answer(program, &call));
}

#define ASK(name, ...)                                                                             \
    {                                                                                              \
        .nr = SYS_##name, .args = { __VA_ARGS__ }                                                  \
    }
#define COUNT(calls) (sizeof(calls) / sizeof *(calls))

// The first that is not, or -1.
static int first_denied(const struct sock_fprog *program, const struct seccomp_data *calls,
                        size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!is_allowed(program, calls[i])) {
            return calls[i].nr;
        }
    }
    return -1;
}

// What a new chunk takes, a lane of a new thread, and the time.
static int first_denied_of_chunk(const struct sock_fprog *program) {
    const uint64_t somewhere = (uintptr_t)&pw_log;
    const struct seccomp_data calls[] = {
        ASK(rt_sigprocmask, SIG_SETMASK, somewhere, somewhere, 8),
        ASK(newfstatat, AT_FD, somewhere, somewhere, AT_EMPTY_PATH),
        ASK(fstat, AT_FD, somewhere),
        ASK(prlimit64, 0, RLIMIT_FSIZE, 0, somewhere),
        ASK(fallocate, AT_FD, 0, SIZE, SIZE),
        ASK(mmap, 0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, AT_FD, SIZE),
        ASK(mmap, 0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0),
        ASK(munmap, somewhere, SIZE),
        ASK(clock_gettime, 1, somewhere),
        ASK(getpid, 0),
    };
    return first_denied(program, calls, COUNT(calls));
}

// How code that is in no module is looked at, which not many programs do themselves. The process
// that is meant is the thread itself: a filter that wants one number there does not allow it.
static bool may_look(const struct sock_fprog *program) {
    const uint64_t somewhere = (uintptr_t)&pw_log;
    const struct seccomp_data calls[] = {
        ASK(mincore, somewhere & ~(uint64_t)(PW_PAGE - 1), PW_PAGE, somewhere),
        ASK(gettid, 0),
        ASK(process_vm_readv, 0, somewhere, 1, somewhere, 1, 0),
    };
    return first_denied(program, calls, COUNT(calls)) < 0;
}

static bool may_rest(const struct sock_fprog *program) {
    return is_allowed(program, (struct seccomp_data)ASK(sched_yield, 0));
}

static bool may_ask_for_stack(const struct sock_fprog *program) {
    const uint64_t somewhere = (uintptr_t)&pw_log;
    return is_allowed(program, (struct seccomp_data)ASK(sigaltstack, 0, somewhere));
}

// What a new process takes, a new thread's number, and a file that is opened once more.
static bool may_begin(const struct sock_fprog *program) {
    const uint64_t somewhere = (uintptr_t)&pw_log;
    const struct seccomp_data calls[] = {
        ASK(mmap, somewhere, SIZE, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, (uint64_t)-1, 0),
        ASK(openat, HERE, somewhere, O_RDONLY | O_CLOEXEC, 0),
        ASK(openat, HERE, somewhere, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0),
        ASK(openat, HERE, somewhere, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600),
        ASK(fcntl, 3, F_DUPFD_CLOEXEC, 512),
        ASK(read, 3, somewhere, 4096),
        ASK(close, 3),
        ASK(gettid, 0),
        ASK(getppid, 0),
#ifdef SYS_readlink
        ASK(readlink, somewhere, somewhere, 1023),
#else
        ASK(readlinkat, HERE, somewhere, somewhere, 1023),
#endif
    };
    return first_denied(program, calls, COUNT(calls)) < 0;
}

// --- restrictions ----------------------------------------------------------------

typedef long make_call(const unsigned long words[7]);

// What is allocated meanwhile is not the program's.
static struct pw_log_frozen freeze(enum pw_spool_stop reason, bool has_clock) {
    uintptr_t before = pw_record_pause(__builtin_frame_address(0));
    struct pw_log_frozen frozen = pw_log_freeze(reason, has_clock);
    pw_record_resume(before);
    return frozen;
}

static long enter_strict(make_call *call, const unsigned long words[7]) {
    struct pw_log_frozen before = freeze(PW_STOP_STRICT, false);
    long result = call(words);
    if (result != 0) {
        pw_log_unfreeze(&before);
    }
    return result;
}

// The filter is read when the kernel has read it: it is there.
static long add_filter(make_call *call, const unsigned long words[7],
                       const struct sock_fprog *program, bool returns_thread) {
    struct pw_log_frozen before = freeze(PW_STOP_FILTER, true);
    long result = call(words);
    bool in_force = result == 0 || (returns_thread && result > 0);
    if (in_force && before.is_here) {
        pw_log.is_blind |= !may_look(program);
        pw_log.is_restless |= !may_rest(program);
        pw_log.is_unaware |= !may_ask_for_stack(program);
    }
    int denied = in_force && before.is_here ? first_denied_of_chunk(program) : -1;
    if (denied >= 0) {
        pw_log_stay_frozen(&before, denied);
    } else {
        pw_log_unfreeze(&before);
    }
    if (in_force && before.is_here && !may_begin(program)) {
        pw_log.is_closed = true;
    }
    return result;
}

static long lose_clock(make_call *call, const unsigned long words[7]) {
    struct pw_log_frozen before = freeze(PW_STOP_NONE, false);
    long result = call(words);
    if (result != 0) {
        pw_log_unfreeze(&before);
    } else if (before.is_here) {
        pw_log.is_frozen = before.was_frozen; // system calls are as ever
    }
    return result;
}

static long see_prctl(make_call *call, const unsigned long words[7], int option,
                      const unsigned long *rest) {
    const struct sock_fprog *program = (const struct sock_fprog *)rest[1];
    if (option == PR_SET_SECCOMP && rest[0] == SECCOMP_MODE_STRICT) {
        return enter_strict(call, words);
    }
    if (option == PR_SET_SECCOMP && rest[0] == SECCOMP_MODE_FILTER && program) {
        return add_filter(call, words, program, false);
    }
#ifdef PR_SET_TSC
    if (option == PR_SET_TSC && rest[0] == PR_TSC_SIGSEGV) {
        return lose_clock(call, words);
    }
#endif
    return call(words);
}

// seccomp(2) returns a descriptor where a filter has a listener.
static long see_seccomp(make_call *call, const unsigned long words[7]) {
    const struct sock_fprog *program = (const struct sock_fprog *)words[3];
    if (words[1] == SECCOMP_SET_MODE_STRICT) {
        return enter_strict(call, words);
    }
    if (words[1] == SECCOMP_SET_MODE_FILTER && program) {
        return add_filter(call, words, program, words[2] & SECCOMP_FILTER_FLAG_NEW_LISTENER);
    }
    return call(words);
}

// --- in front of the C library's ----------------------------------------------------

typedef int any_prctl(int, ...);
typedef long any_syscall(long, ...);

static any_prctl *next_prctl;
// Read by the code below.
__attribute__((used)) any_syscall *pw_record_next_syscall;

// Not between pause and resume: the loader may release what it has allocated for the program.
static void find_next(void) {
    next_prctl = (any_prctl *)pw_os_find_next("prctl");
    pw_record_next_syscall = (any_syscall *)pw_os_find_next("syscall");
}

__attribute__((constructor)) static void start_seccomp(void) {
    find_next();
}

static long call_prctl(const unsigned long w[7]) {
    return next_prctl((int)w[0], w[1], w[2], w[3], w[4]);
}

static long call_syscall(const unsigned long w[7]) {
    return pw_record_next_syscall((long)w[0], w[1], w[2], w[3], w[4], w[5], w[6]);
}

API int prctl(int option, ...) {
    unsigned long words[7] = {(unsigned)option};
    va_list rest;
    va_start(rest, option);
    for (int i = 1; i < 5; i++) {
        words[i] = va_arg(rest, unsigned long);
    }
    va_end(rest);
    if (!next_prctl) {
        find_next();
    }
    return (int)see_prctl(call_prctl, words, option, words + 1);
}

__attribute__((used)) long pw_record_syscall(long number, unsigned long a, unsigned long b,
                                             unsigned long c, unsigned long d, unsigned long e,
                                             unsigned long f) {
    const unsigned long words[7] = {(unsigned long)number, a, b, c, d, e, f};
    if (!pw_record_next_syscall) {
        find_next();
    }
    if (number == SYS_prctl) {
        return see_prctl(call_syscall, words, (int)a, words + 2);
    }
    return number == SYS_seccomp ? see_seccomp(call_syscall, words) : call_syscall(words);
}

#if defined(__x86_64__)
// A jump for all others: who makes a clone or a vfork in this way returns from it twice, and must
// find the stack as the C library leaves it.
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "    endbr64\n"
        "    cmpq $157, %rdi\n" // prctl
        "    je pw_record_syscall\n"
        "    cmpq $317, %rdi\n" // seccomp
        "    je pw_record_syscall\n"
        "    movq pw_record_next_syscall(%rip), %rax\n"
        "    testq %rax, %rax\n"
        "    je pw_record_syscall\n"
        "    jmp *%rax\n"
        ".size syscall, . - syscall\n");
_Static_assert(SYS_prctl == 157 && SYS_seccomp == 317, "as above");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, %function\n"
        "syscall:\n"
        "    hint #34\n"     // bti c
        "    cmp x0, #167\n" // prctl
        "    b.eq 1f\n"
        "    cmp x0, #277\n" // seccomp
        "    b.eq 1f\n"
        "    adrp x16, pw_record_next_syscall\n"
        "    ldr x16, [x16, :lo12:pw_record_next_syscall]\n"
        "    cbz x16, 1f\n"
        "    br x16\n"
        "1:  b pw_record_syscall\n"
        ".size syscall, . - syscall\n");
_Static_assert(SYS_prctl == 167 && SYS_seccomp == 277, "as above");
#else
API long syscall(long number, ...) {
    unsigned long words[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) {
        words[i] = va_arg(rest, unsigned long);
    }
    va_end(rest);
    return pw_record_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
#endif
