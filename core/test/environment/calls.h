// SPDX-License-Identifier: MIT
//
// The calls by which a program changes how its memory is mapped: each by the C library's function
// and by syscall(). Of what is in this list, (address, size) are the first two arguments.
#ifndef PW_TEST_CALLS_H
#define PW_TEST_CALLS_H

#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif

struct call {
    const char *name;
    long number;
    long more[4]; // arguments behind address and size
};

static const struct call calls[] = {
    {"read-only", SYS_mprotect, {PROT_READ}},
    {"no-access", SYS_mprotect, {PROT_NONE}},
    {"key", SYS_pkey_mprotect, {PROT_READ, -1}},
    {"wipe-on-fork", SYS_madvise, {MADV_WIPEONFORK}},
    {"dont-fork", SYS_madvise, {MADV_DONTFORK}},
    {"dont-dump", SYS_madvise, {MADV_DONTDUMP}},
    {"sequential", SYS_madvise, {MADV_SEQUENTIAL}},
    {"random", SYS_madvise, {MADV_RANDOM}},
    {"mergeable", SYS_madvise, {MADV_MERGEABLE}},
    {"huge-pages", SYS_madvise, {MADV_HUGEPAGE}},
    {"no-huge-pages", SYS_madvise, {MADV_NOHUGEPAGE}},
    {"empty", SYS_madvise, {MADV_DONTNEED}},
    {"empty-locked", SYS_madvise, {MADV_DONTNEED_LOCKED}},
    {"free", SYS_madvise, {MADV_FREE}},
    {"cold", SYS_madvise, {MADV_COLD}},
    {"lock", SYS_mlock, {0}},
    {"lock-on-fault", SYS_mlock2, {MLOCK_ONFAULT}},
    {"unmap", SYS_munmap, {0}},
    {"map-over", SYS_mmap, {PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0}},
    {"move", SYS_mremap, {0, MREMAP_MAYMOVE, 0}}, // to the same size
    {"bind", SYS_mbind, {4, 0, 0, 0}},            // MPOL_LOCAL
    {"seal", SYS_mseal, {0}},
    {"register", SYS_ioctl, {0}},
    {"process-empty", SYS_process_madvise, {MADV_DONTNEED}},
};

#define CALLS (sizeof calls / sizeof *calls)

// Seven longs, as the kernel's interface has them.
static long by_number(long number, long a, long b, long c, long d, long e, long f) {
    return syscall(number, a, b, c, d, e, f);
}

// As a library with system calls of its own makes them.
#ifdef __x86_64__
static inline long raw(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#else
#define raw by_number
#endif

// Of glibc 2.43. Before that, what it would do, unless a preloaded library has it.
extern int mseal(void *address, size_t size, unsigned long flags) __attribute__((weak));

static long seal(void *address, size_t size) {
    return mseal ? mseal(address, size, 0) : raw(SYS_mseal, (long)address, (long)size, 0, 0, 0, 0);
}

static long by_function(long number, long a, long b, long c, long d, long e, long f) {
    void *address = (void *)a;
    size_t size = (size_t)b;
    switch (number) {
    case SYS_mprotect:
        return mprotect(address, size, (int)c);
    case SYS_pkey_mprotect:
        return pkey_mprotect(address, size, (int)c, (int)d);
    case SYS_madvise:
        return madvise(address, size, (int)c);
    case SYS_mlock:
        return mlock(address, size);
    case SYS_mlock2:
        return mlock2(address, size, (unsigned)c);
    case SYS_mlockall:
        return mlockall((int)a);
    case SYS_munlockall:
        return munlockall();
    case SYS_munmap:
        return munmap(address, size);
    case SYS_mmap:
        return (long)mmap(address, size, (int)c, (int)d, (int)e, f);
    case SYS_mremap:
        return (long)mremap(address, size, (size_t)c, (int)d, (void *)e);
    case SYS_ioctl:
        return ioctl((int)a, (unsigned long)b, (void *)c);
    case SYS_mseal:
        return seal(address, size);
    case SYS_process_madvise:
        return process_madvise((int)a, (const struct iovec *)b, (size_t)c, (int)d, (unsigned)e);
    default: // the C library has no function for it
        return by_number(number, a, b, c, d, e, f);
    }
}

// By the C library's own function, which a handle of the C library finds: as from ctypes or FFI.
static inline long by_handle(long number, long a, long b, long c, long d, long e, long f) {
    static const struct {
        long number;
        const char *name;
    } names[] = {{SYS_mprotect, "mprotect"}, {SYS_pkey_mprotect, "pkey_mprotect"},
                 {SYS_madvise, "madvise"},   {SYS_mlock, "mlock"},
                 {SYS_mlock2, "mlock2"},     {SYS_mlockall, "mlockall"},
                 {SYS_munmap, "munmap"},     {SYS_munlockall, "munlockall"},
                 {SYS_mmap, "mmap"},         {SYS_mremap, "mremap"},
                 {SYS_ioctl, "ioctl"},       {SYS_process_madvise, "process_madvise"}};
    void *library = dlopen(LIBC_SO, RTLD_LAZY);
    for (size_t i = 0; library && i < sizeof names / sizeof *names; i++) {
        if (names[i].number == number) {
            long (*function)(long, long, long, long, long, long) =
                (long (*)(long, long, long, long, long, long))dlsym(library, names[i].name);
            long result = function ? function(a, b, c, d, e, f) : -1;
            return number == SYS_mmap || number == SYS_mremap ? result : (int)result;
        }
    }
    return by_number(number, a, b, c, d, e, f);
}

typedef long call_function(long number, long a, long b, long c, long d, long e, long f);

// -1: the kernel has no such file, or not for us.
static int open_userfaults(void) {
    int fd = (int)syscall(SYS_userfaultfd, 0);
    struct uffdio_api api = {.api = UFFD_API};
    return fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 ? fd : -1;
}

// What is at `address` changes as the call says. For `move`, the new address is the result.
static long make_call(const struct call *call, call_function *by, void *address, size_t size) {
    const long *more = call->more;
    struct iovec range = {address, size};
    struct uffdio_register missing = {{(uintptr_t)address, size}, UFFDIO_REGISTER_MODE_MISSING, 0};
    switch (call->number) {
    case SYS_mremap:
        return by(call->number, (long)address, (long)size, (long)size, more[1], more[2], 0);
    case SYS_ioctl:
        return by(SYS_ioctl, open_userfaults(), UFFDIO_REGISTER, (long)&missing, 0, 0, 0);
    case SYS_process_madvise:
        return by(SYS_process_madvise, (long)syscall(SYS_pidfd_open, getpid(), 0), (long)&range, 1,
                  more[0], 0, 0);
    default:
        return by(call->number, (long)address, (long)size, more[0], more[1], more[2], more[3]);
    }
}

#endif
