// SPDX-License-Identifier: MIT
//
// The calls by which a program changes how its memory is mapped, as the program makes them
// (mapped.h). Compiled wherever the malloc family is; whoever includes it defines FAMILY and
// FAMILY_API as for family.h, and FIND_CALL(name), which finds the C library's function.
//
// An address that is not ours costs a comparison. `syscall` costs a look at the number, and jumps
// to the C library's with everything as it was: what returns twice (vfork, clone) must not return
// through a function of ours.

#include "block/mapped.h"
#include "entry/sandbox.h"
#include "os/numbers.h"
#include "process/quiet.h"
#include "process/state.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// The C library's functions. Those that it does not have stay NULL, and no program calls them.
#define OLD_CALLS(X)                                                                               \
    X(void *, mmap, (void *, size_t, int, int, int, off_t))                                        \
    X(void *, mmap64, (void *, size_t, int, int, int, off_t))                                      \
    X(void *, mremap, (void *, size_t, size_t, int, ...))                                          \
    X(int, munmap, (void *, size_t))                                                               \
    X(int, mprotect, (void *, size_t, int))                                                        \
    X(int, pkey_mprotect, (void *, size_t, int, int))                                              \
    X(int, madvise, (void *, size_t, int))                                                         \
    X(int, posix_madvise, (void *, size_t, int))                                                   \
    X(int, mlock, (const void *, size_t))                                                          \
    X(int, mlock2, (const void *, size_t, unsigned))                                               \
    X(int, mlockall, (int))                                                                        \
    X(int, munlockall, (void))                                                                     \
    X(void *, shmat, (int, const void *, int))                                                     \
    X(int, ioctl, (int, unsigned long, ...))

// Those of a C library after 2.28.
#define NEW_CALLS(X)                                                                               \
    X(ssize_t, process_madvise, (int, const struct iovec *, size_t, int, unsigned))                \
    X(int, mseal, (void *, size_t, unsigned long))

#define MAPPING_CALLS(X) OLD_CALLS(X) NEW_CALLS(X)

#define DECLARE_CALL(result, name, parameters) result(*name) parameters;
static struct { MAPPING_CALLS(DECLARE_CALL) } next_call;

static long (*next_syscall)(long, ...) __asm__("pw_next_syscall") __attribute__((used));

// Once at the start. A constructor that runs before ours may be earlier. New ones when they are
// called: after a search in vain the text of its error waits to be freed, in the next call of
// dlsym. A wrapper of free does not survive that which makes this call to find the next free.
static void find_mapping_calls(void) {
#define FIND_ONE(result, name, parameters) next_call.name = (result(*) parameters)FIND_CALL(#name);
    OLD_CALLS(FIND_ONE)
    next_syscall = (long (*)(long, ...))FIND_CALL("syscall");
}

#define NEXT_CALL(name)                                                                            \
    (__builtin_expect(next_call.name != NULL, 1) || find_missing((void **)&next_call.name, #name)  \
         ? next_call.name                                                                          \
         : (__typeof__(next_call.name))(void (*)(void))no_call)

static bool find_missing(void **call, const char *name) {
    *call = FIND_CALL(name);
    return *call != NULL;
}

static long no_call(void) {
    errno = ENOSYS;
    return -1;
}

// --- around a call ------------------------------------------------------------------

#define CALL_SITE __builtin_return_address(0)

// The call by its number, with its arguments, if the condition says that it may be about our range.
#define BEGIN(condition, number, ...)                                                              \
    struct pw_mapping_call call = {0};                                                             \
    if (__builtin_expect(condition, 0)) {                                                          \
        call =                                                                                     \
            pw_mapping_call_begins(&pw_process, number, (const long[6]){__VA_ARGS__}, CALL_SITE);  \
    }                                                                                              \
    if (call.refused) {                                                                            \
        errno = ENOMEM;                                                                            \
        return REFUSED;                                                                            \
    }

#define END(result)                                                                                \
    if (call.aside) {                                                                              \
        pw_mapping_call_ends(&pw_process, call);                                                   \
    }                                                                                              \
    return result

#define REFUSED MAP_FAILED

FAMILY_API void *FAMILY(mmap)(void *address, size_t size, int protection, int flags, int fd,
                              off_t offset) {
    BEGIN(flags & MAP_FIXED && pw_gate_overlaps(address, size), SYS_mmap, (long)address, (long)size,
          protection, flags, fd, offset)
    void *result = NEXT_CALL(mmap)(address, size, protection, flags, fd, offset);
    END(result);
}

FAMILY_API void *FAMILY(mmap64)(void *address, size_t size, int protection, int flags, int fd,
                                off_t offset) {
    BEGIN(flags & MAP_FIXED && pw_gate_overlaps(address, size), SYS_mmap, (long)address, (long)size,
          protection, flags, fd, offset)
    void *result = NEXT_CALL(mmap64)(address, size, protection, flags, fd, offset);
    END(result);
}

FAMILY_API void *FAMILY(mremap)(void *address, size_t size, size_t larger, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    void *to = va_arg(rest, void *); // there or not, as the C library reads it
    va_end(rest);
    BEGIN(pw_gate_overlaps(address, size) || (flags & MREMAP_FIXED && pw_gate_overlaps(to, larger)),
          SYS_mremap, (long)address, (long)size, (long)larger, flags, (long)to)
    void *result = NEXT_CALL(mremap)(address, size, larger, flags, to);
    END(result);
}

FAMILY_API void *FAMILY(shmat)(int segment, const void *address, int flags) {
    BEGIN(flags & SHM_REMAP && address, SYS_shmat, segment, (long)address, flags)
    void *result = NEXT_CALL(shmat)(segment, address, flags);
    END(result);
}

#undef REFUSED
#define REFUSED -1

FAMILY_API int FAMILY(munmap)(void *address, size_t size) {
    BEGIN(pw_gate_overlaps(address, size), SYS_munmap, (long)address, (long)size)
    int result = NEXT_CALL(munmap)(address, size);
    END(result);
}

FAMILY_API int FAMILY(mprotect)(void *address, size_t size, int protection) {
    BEGIN(pw_gate_overlaps(address, size), SYS_mprotect, (long)address, (long)size, protection)
    int result = NEXT_CALL(mprotect)(address, size, protection);
    END(result);
}

FAMILY_API int FAMILY(pkey_mprotect)(void *address, size_t size, int protection, int key) {
    BEGIN(pw_gate_overlaps(address, size), SYS_pkey_mprotect, (long)address, (long)size, protection,
          key)
    int result = NEXT_CALL(pkey_mprotect)(address, size, protection, key);
    END(result);
}

// Of glibc 2.43. A program that looks for it finds this one under an older glibc as well. It is not
// looked for at each call: a search in vain would be told by the program's next dlerror().
FAMILY_API int FAMILY(mseal)(void *address, size_t size, unsigned long flags) {
    BEGIN(pw_gate_overlaps(address, size), SYS_mseal, (long)address, (long)size, (long)flags)
    int result = next_call.mseal ? next_call.mseal(address, size, flags)
                                 : (int)syscall(SYS_mseal, address, size, flags);
    END(result);
}

FAMILY_API int FAMILY(madvise)(void *address, size_t size, int advice) {
    BEGIN(pw_gate_overlaps(address, size), SYS_madvise, (long)address, (long)size, advice)
    int result = NEXT_CALL(madvise)(address, size, advice);
    END(result);
}

// POSIX's advice to discard pages must keep their contents, and the C library does nothing then.
FAMILY_API int FAMILY(posix_madvise)(void *address, size_t size, int advice) {
#undef REFUSED
#define REFUSED ENOMEM
    BEGIN(advice != POSIX_MADV_DONTNEED && pw_gate_overlaps(address, size), SYS_madvise,
          (long)address, (long)size, advice)
    int result = NEXT_CALL(posix_madvise)(address, size, advice);
    END(result);
#undef REFUSED
#define REFUSED -1
}

FAMILY_API ssize_t FAMILY(process_madvise)(int process, const struct iovec *ranges, size_t count,
                                           int advice, unsigned flags) {
    BEGIN(pw_gate.base, SYS_process_madvise, process, (long)ranges, (long)count, advice, flags)
    ssize_t result = NEXT_CALL(process_madvise)(process, ranges, count, advice, flags);
    END(result);
}

FAMILY_API int FAMILY(mlock)(const void *address, size_t size) {
    BEGIN(pw_gate_overlaps(address, size), SYS_mlock, (long)address, (long)size)
    int result = NEXT_CALL(mlock)(address, size);
    END(result);
}

FAMILY_API int FAMILY(mlock2)(const void *address, size_t size, unsigned flags) {
    BEGIN(pw_gate_overlaps(address, size), SYS_mlock2, (long)address, (long)size, flags)
    int result = NEXT_CALL(mlock2)(address, size, flags);
    END(result);
}

FAMILY_API int FAMILY(mlockall)(int flags) {
    BEGIN(pw_gate.base, SYS_mlockall, flags)
    int result = NEXT_CALL(mlockall)(flags);
    END(result);
}

FAMILY_API int FAMILY(munlockall)(void) {
    BEGIN(pw_gate.base, SYS_munlockall, 0)
    int result = NEXT_CALL(munlockall)();
    END(result);
}

FAMILY_API int FAMILY(ioctl)(int fd, unsigned long request, ...) {
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    const unsigned number = (unsigned)request; // as the kernel reads it
    BEGIN(number == UFFDIO_REGISTER || number == PW_OS_UFFDIO_MOVE, SYS_ioctl, fd, (long)request,
          (long)argument)
    int result = NEXT_CALL(ioctl)(fd, request, argument);
    END(result);
}

#undef REFUSED
#undef BEGIN
#undef END

// --- syscall() ------------------------------------------------------------------------

#if (defined(__x86_64__) && defined(__LP64__)) || defined(__aarch64__)
#define HAS_SYSCALL 1

// Every number of a call that mapped.c looks at, or sandbox.c or quiet.c, a bit.
#define SEEN_CALLS    512
#define BIT(word, of) ((of) / 64 == (word) ? (uint64_t)1 << ((of) % 64) : 0)
#define WORD(at)                                                                                   \
    (BIT(at, SYS_mmap) | BIT(at, SYS_munmap) | BIT(at, SYS_mremap) | BIT(at, SYS_mprotect) |       \
     BIT(at, SYS_pkey_mprotect) | BIT(at, SYS_madvise) | BIT(at, SYS_process_madvise) |            \
     BIT(at, SYS_mlock) | BIT(at, SYS_mlock2) | BIT(at, SYS_mlockall) | BIT(at, SYS_munlockall) |  \
     BIT(at, SYS_shmat) | BIT(at, SYS_ioctl) | BIT(at, SYS_mbind) | BIT(at, SYS_mseal) |           \
     BIT(at, SYS_set_mempolicy_home_node) | BIT(at, SYS_io_setup) | BIT(at, SYS_io_uring_setup) |  \
     BIT(at, SYS_io_uring_enter) | BIT(at, SYS_seccomp) | BIT(at, SYS_prctl) |                     \
     BIT(at, SYS_unshare) | BIT(at, SYS_setns) | BIT(at, SYS_exit) | BIT(at, SYS_clone) |          \
     BIT(at, SYS_clone3))

static const uint64_t seen_calls[SEEN_CALLS / 64] __asm__("pw_seen_calls") __attribute__((used)) = {
    WORD(0), WORD(1), WORD(2), WORD(3), WORD(4), WORD(5), WORD(6), WORD(7)};

static long seen_syscall(long number, long a, long b, long c, long d, long e,
                         long f) __asm__("pw_seen_syscall") __attribute__((used));

static long seen_syscall(long number, long a, long b, long c, long d, long e, long f) {
    const long arguments[6] = {a, b, c, d, e, f};
    if (!next_syscall && !find_missing((void **)&next_syscall, "syscall")) {
        return no_call();
    }
    // A ring may be another process's, which handed it on.
    if (number == SYS_io_setup || number == SYS_io_uring_setup || number == SYS_io_uring_enter) {
        pw_quiet_others_write();
    }
    pw_sandbox_before_syscall(number, (unsigned long)a, (unsigned long)b, (unsigned long)c);
    struct pw_mapping_call call = pw_mapping_call_begins(&pw_process, number, arguments, CALL_SITE);
    if (call.refused) {
        errno = ENOMEM;
        return -1;
    }
    long result = next_syscall(number, a, b, c, d, e, f);
    if (call.aside) {
        pw_mapping_call_ends(&pw_process, call);
    }
    return result;
}

// A child may return on a stack of its own, so that these are looked at first, and then jumped to.
// Where the flags of clone3 lie may not be readable: whatever they are, it may be such a child.
static void seen_clone(long number, unsigned long flags) __asm__("pw_seen_clone")
    __attribute__((used));

static void seen_clone(long number, unsigned long flags) {
    if (!next_syscall) {
        find_missing((void **)&next_syscall, "syscall"); // a constructor before ours calls it
    }
    pw_quiet_clones(number == SYS_clone3 ? CLONE_VM : flags);
}

#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)

#ifdef __x86_64__
#define JUMP                                                                                       \
    "    endbr64\n"                                                                                \
    "    cmpq $512, %rdi\n"                                                                        \
    "    jae 1f\n"                                                                                 \
    "    btq %rdi, pw_seen_calls(%rip)\n"                                                          \
    "    jc 2f\n"                                                                                  \
    "1:  movq pw_next_syscall(%rip), %rax\n"                                                       \
    "    testq %rax, %rax\n"                                                                       \
    "    jz pw_seen_syscall\n"                                                                     \
    "    jmp *%rax\n"                                                                              \
    "2:  cmpq $" NAME_OF(SYS_clone) ", %rdi\n"                                                     \
                                    "    je 3f\n"                                                  \
                                    "    cmpq $" NAME_OF(                                          \
                                        SYS_clone3) ", %rdi\n"                                     \
                                                    "    jne pw_seen_syscall\n"                    \
                                                    "3:  pushq %rdi\n"                             \
                                                    "    pushq %rsi\n"                             \
                                                    "    pushq %rdx\n"                             \
                                                    "    pushq %rcx\n"                             \
                                                    "    pushq %r8\n"                              \
                                                    "    pushq %r9\n"                              \
                                                    "    subq $8, %rsp\n"                          \
                                                    "    .cfi_adjust_cfa_offset 56\n"              \
                                                    "    call pw_seen_clone\n"                     \
                                                    "    addq $8, %rsp\n"                          \
                                                    "    popq %r9\n"                               \
                                                    "    popq %r8\n"                               \
                                                    "    popq %rcx\n"                              \
                                                    "    popq %rdx\n"                              \
                                                    "    popq %rsi\n"                              \
                                                    "    popq %rdi\n"                              \
                                                    "    .cfi_adjust_cfa_offset -56\n"             \
                                                    "    jmp 1b\n"
#else
#define JUMP                                                                                       \
    "    hint #34\n" /* bti c */                                                                   \
    "    cmp x0, #512\n"                                                                           \
    "    b.hs 1f\n"                                                                                \
    "    adrp x16, pw_seen_calls\n"                                                                \
    "    add x16, x16, :lo12:pw_seen_calls\n"                                                      \
    "    lsr x17, x0, #6\n"                                                                        \
    "    ldr x16, [x16, x17, lsl #3]\n"                                                            \
    "    lsr x16, x16, x0\n"                                                                       \
    "    tbnz x16, #0, 2f\n"                                                                       \
    "1:  adrp x16, pw_next_syscall\n"                                                              \
    "    ldr x16, [x16, :lo12:pw_next_syscall]\n"                                                  \
    "    cbz x16, 4f\n"                                                                            \
    "    br x16\n"                                                                                 \
    "2:  cmp x0, #" NAME_OF(SYS_clone) "\n"                                                        \
                                       "    b.eq 3f\n"                                             \
                                       "    cmp x0, #" NAME_OF(                                    \
                                           SYS_clone3) "\n"                                        \
                                                       "    b.eq 3f\n"                             \
                                                       "4:  b pw_seen_syscall\n"                   \
                                                       "3:  stp x0, x1, [sp, #-64]!\n"             \
                                                       "    stp x2, x3, [sp, #16]\n"               \
                                                       "    stp x4, x5, [sp, #32]\n"               \
                                                       "    stp x6, x30, [sp, #48]\n"              \
                                                       "    .cfi_adjust_cfa_offset 64\n"           \
                                                       "    .cfi_rel_offset x30, 56\n"             \
                                                       "    bl pw_seen_clone\n"                    \
                                                       "    ldp x6, x30, [sp, #48]\n"              \
                                                       "    ldp x4, x5, [sp, #32]\n"               \
                                                       "    ldp x2, x3, [sp, #16]\n"               \
                                                       "    ldp x0, x1, [sp], #64\n"               \
                                                       "    .cfi_adjust_cfa_offset -64\n"          \
                                                       "    .cfi_restore x30\n"                    \
                                                       "    b 1b\n"
#endif

__asm__("    .pushsection .text\n"
        "    .p2align 4\n"
        "    " FAMILY_SYMBOL " " NAME_OF(
            FAMILY(syscall)) "\n"
                             "    .type " NAME_OF(FAMILY(syscall)) ", %function\n" NAME_OF(FAMILY(
                                 syscall)) ":\n"
                                           "    .cfi_startproc\n" JUMP "    .cfi_endproc\n"
                                           "    .size " NAME_OF(FAMILY(syscall)) ", . - " NAME_OF(
                                               FAMILY(syscall)) "\n"
                                                                "    .popsection\n");

#undef JUMP
#undef NAME_OF
#undef TEXT_OF
#undef WORD
#undef BIT
#endif
