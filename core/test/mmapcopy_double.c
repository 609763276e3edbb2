// SPDX-License-Identifier: MIT
//
// A test double of mmapcopy(2), for kernels that lack it: a syscall() before the C library's that
// answers the call's number itself. Everything above the kernel then works as on a kernel that has
// the call, except that pages are copied and not shared. Linked into the core's tests, and
// preloaded before the real library. PAGEWISE_TEST_MMAPCOPY says what kernel to be:
//
//     emulated   one that has the call
//     hole       one whose every second copy fails with ENOMEM, the destination unmapped by then
//     denied     one that denies the call (EPERM) after the first copies, as a filter would
//     absent     one that does not have it, whatever the real one has
//     success    one on which the number is another call, which succeeds and does nothing
//     refuses    another call, which always says EINVAL
//     deep       another call, which also knows its EINVAL from EACCES and EFAULT, but copies
//     nothing aliases    one whose copies are not private: a write to one side shows on the other
//
// Unset: the kernel itself is asked.
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define NUMBER               600
#define PAGE                 ((uintptr_t)4096)
#define COPIES_BEFORE_DENIAL 3 // the probe's is one of them

static long make(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result; // -errno on failure
}

// Without the C library's memcpy, before which the library under test may stand.
static void copy_page(char *to, const char *from) {
    size_t count = PAGE;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory");
}

static bool is_zero(const char *page) {
    const uint64_t *words = (const uint64_t *)page;
    for (size_t i = 0; i < PAGE / sizeof *words; i++) {
        if (words[i]) {
            return false;
        }
    }
    return true;
}

static bool is_mapped(uintptr_t start, size_t size) {
    return make(SYS_msync, (long)start, (long)size, MS_ASYNC, 0, 0, 0) == 0;
}

static bool is_readable(uintptr_t page) {
    // As the name of a file it is too long, empty, or of none; unreadable, it is no name at all.
    return make(SYS_access, (long)page, 0, 0, 0, 0, 0) != -EFAULT;
}

// What the real call finds wrong with its arguments: mmapcopy(2), ERRORS.
static long refusal(uintptr_t to, uintptr_t from, size_t size, unsigned long flags) {
    size_t rounded = (size + PAGE - 1) & ~(PAGE - 1);
    bool overlap = to < from + rounded && from < to + rounded;
    if (flags || to % PAGE || from % PAGE || rounded == 0 || overlap) {
        return -EINVAL;
    }
    if (!is_mapped(from, rounded)) {
        return -EFAULT;
    }
    return is_readable(from) ? 0 : -EACCES; // blocks are readable everywhere or nowhere
}

// Pages that hold zeros only are left absent, as they mostly are in the source.
static long copy(uintptr_t to, uintptr_t from, size_t size) {
    long got = make(SYS_mmap, (long)to, (long)size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    for (size_t at = 0; got == (long)to && at < size; at += PAGE) {
        if (!is_zero((const char *)from + at)) {
            copy_page((char *)to + at, (const char *)from + at);
        }
    }
    return got;
}

// The same pages at both places.
static long alias(uintptr_t to, uintptr_t from, size_t size) {
    char kept[PAGE];
    copy_page(kept, (const char *)from);
    make(SYS_mmap, (long)from, (long)size, PROT_READ | PROT_WRITE,
         MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    copy_page((char *)from, kept);
    return make(SYS_mremap, (long)from, 0, (long)size, MREMAP_MAYMOVE | MREMAP_FIXED, (long)to, 0);
}

static long answer(const char *kernel, uintptr_t to, uintptr_t from, size_t size,
                   unsigned long flags) {
    static atomic_uint copies;
    long refused = refusal(to, from, size, flags);
    if (!strcmp(kernel, "absent")) {
        return -ENOSYS;
    } else if (!strcmp(kernel, "success")) {
        return 0;
    } else if (!strcmp(kernel, "refuses") || refused) {
        return !strcmp(kernel, "refuses") ? -EINVAL : refused;
    } else if (!strcmp(kernel, "deep")) {
        return (long)to;
    } else if (!strcmp(kernel, "aliases")) {
        return alias(to, from, size);
    }
    unsigned count = ++copies;
    if (!strcmp(kernel, "denied") && count > COPIES_BEFORE_DENIAL) {
        return -EPERM;
    }
    if (!strcmp(kernel, "hole") && count % 2 == 0) {
        make(SYS_munmap, (long)to, (long)size, 0, 0, 0, 0);
        return -ENOMEM;
    }
    return copy(to, from, (size + PAGE - 1) & ~(PAGE - 1));
}

__attribute__((visibility("default"))) long syscall(long number, ...) {
    long words[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        words[i] = va_arg(list, long);
    }
    va_end(list);
    const char *kernel = number == NUMBER ? getenv("PAGEWISE_TEST_MMAPCOPY") : NULL;
    long result = kernel ? answer(kernel, (uintptr_t)words[0], (uintptr_t)words[1],
                                  (size_t)words[2], (unsigned long)(unsigned)words[3])
                         : make(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}
