// SPDX-License-Identifier: MIT
#include "os/system_call.h"

#include <errno.h>
#include <sys/syscall.h>

#if !PW_BY_C_LIBRARY

// Returns what the kernel does: -errno on failure.
static long call_kernel(long number, long a, long b, long c, long d, long e, long f) {
#ifdef __x86_64__
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#endif
}

// The kernel's answer as the C library hands it on.
static long as_result(long answer) {
    if ((unsigned long)answer > -4096UL) {
        errno = (int)-answer;
        return -1;
    }
    return answer;
}

void *pw_call_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    return (void *)as_result(
        call_kernel(SYS_mmap, (long)address, (long)size, protection, flags, fd, offset));
}

int pw_call_munmap(void *address, size_t size) {
    return (int)as_result(call_kernel(SYS_munmap, (long)address, (long)size, 0, 0, 0, 0));
}

void *pw_call_mremap(void *address, size_t size, size_t larger, int flags, void *to) {
    return (void *)as_result(
        call_kernel(SYS_mremap, (long)address, (long)size, (long)larger, flags, (long)to, 0));
}

int pw_call_mprotect(void *address, size_t size, int protection) {
    return (int)as_result(
        call_kernel(SYS_mprotect, (long)address, (long)size, protection, 0, 0, 0));
}

int pw_call_madvise(void *address, size_t size, int advice) {
    return (int)as_result(call_kernel(SYS_madvise, (long)address, (long)size, advice, 0, 0, 0));
}

int pw_call_mlock(const void *address, size_t size) {
    return (int)as_result(call_kernel(SYS_mlock, (long)address, (long)size, 0, 0, 0, 0));
}

int pw_call_ioctl(int fd, unsigned long request, void *argument) {
    return (int)as_result(call_kernel(SYS_ioctl, fd, (long)request, (long)argument, 0, 0, 0));
}

#endif
