// SPDX-License-Identifier: MIT
//
// mmapcopy(2), which the kernels of kernel/ have and released ones do not.
//
// Its number is one that no released kernel uses, but nobody has reserved it: a kernel may have
// another call there. So it is asked for in steps, each of which only a kernel that passed the one
// before is asked, and none of which can do harm whatever the number means:
//
// 1. Nothing is asked where a seccomp filter is in force. Some end the process for a call that they
//    do not know; those of containers would deny it anyway.
// 2. A call whose every argument is wrong. ENOSYS: there is no such call, which is all that a stock
//    kernel is asked. Only EINVAL goes on. The arguments are no descriptors, process numbers or
//    signals (see SCRATCH), and as pointers they lead to nothing.
// 3. Calls that mmapcopy refuses, each for a reason of its own: unknown flags (EINVAL), a source
//    that overlaps its destination (EINVAL), may not be read (EACCES), or is not mapped (EFAULT).
//    They name pages that were mapped for this and hold nothing. A call that answers all of this
//    alike and is not mmapcopy does not exist by chance.
// 4. A real copy of such a page, whose two sides are then written and compared.
#include "os/fault.h"
#include "os/os.h"
#include "os/system_call.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#if defined __x86_64__ && !defined __ILP32__
#define NUMBER 600
#endif

// Where the probe's pages are. Taken for a number of 32 bits the address is positive and larger
// than any descriptor (2^30, fs.nr_open's limit) or process number (2^22) can be, and as an address
// it lies where Linux places nothing by itself.
#define SCRATCH       ((char *)0x5a5a5a5a5000)
#define SCRATCH_PAGES 4
#define NO_FLAG       0x5a5a5a5au

#ifdef NUMBER

static long call(void *to, const void *from, size_t size, unsigned flags) {
    return syscall(NUMBER, to, from, size, flags);
}

static bool refuses(int error, void *to, const void *from, size_t size, unsigned flags) {
    return call(to, from, size, flags) == -1 && errno == error;
}

// A pattern that differs from page to page and from side to side.
static void write_pattern(volatile char *page, char first) {
    for (size_t i = 0; i < PW_PAGE; i++) {
        page[i] = (char)(first + (char)i);
    }
}

static bool has_pattern(const volatile char *page, char first) {
    for (size_t i = 0; i < PW_PAGE; i++) {
        if (page[i] != (char)(first + (char)i)) {
            return false;
        }
    }
    return true;
}

// Volatile: two pages that turned out to be one are not what a compiler expects.
static bool copies(volatile char *to, volatile char *from) {
    write_pattern(from, 3);
    write_pattern(to, 70);
    if (call((char *)to, (char *)from, PW_PAGE, 0) != (long)(uintptr_t)to || !has_pattern(to, 3)) {
        return false;
    }
    to[1] = 99;
    from[2] = 98;
    bool apart = from[1] == 4 && to[2] == 5;
    to[1] = 4;
    from[2] = 5;
    return apart && has_pattern(to, 3) && has_pattern(from, 3);
}

static bool refuses_as_it_should(char *to, char *from, const char *unreadable, const char *hole) {
    return refuses(EINVAL, to, from, PW_PAGE, NO_FLAG) &&
           refuses(EINVAL, to + 1, from, PW_PAGE, 0) && refuses(EINVAL, from, from, PW_PAGE, 0) &&
           refuses(EACCES, to, unreadable, PW_PAGE, 0) && refuses(EFAULT, to, hole, PW_PAGE, 0);
}

static bool try_on_scratch(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    char *scratch =
        pw_call_mmap(SCRATCH, SCRATCH_PAGES * PW_PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (scratch == MAP_FAILED) {
        return false;
    }
    char *from = scratch, *to = from + PW_PAGE, *unreadable = to + PW_PAGE;
    char *hole = unreadable + PW_PAGE;
    bool works = scratch == SCRATCH && pw_call_mprotect(unreadable, PW_PAGE, PROT_NONE) == 0 &&
                 pw_call_munmap(hole, PW_PAGE) == 0 &&
                 refuses_as_it_should(to, from, unreadable, hole) && copies(to, from);
    pw_call_munmap(scratch, SCRATCH_PAGES * PW_PAGE);
    return works;
}

bool pw_os_has_mmapcopy(void) {
    int saved = errno;
    bool has = !pw_os_is_filtered() && refuses(EINVAL, SCRATCH + 1, SCRATCH + 1, 0, NO_FLAG) &&
               try_on_scratch();
    errno = saved;
    return has;
}

enum pw_os_copied pw_os_mmapcopy(void *to, const void *from, size_t size) {
    int saved = errno, error = PW_OS_FAULT(PW_POINT_MMAPCOPY);
    if (!error) {
        error = call(to, from, size, 0) == (long)(uintptr_t)to ? 0 : errno;
    }
    errno = saved;
    bool denied = error == ENOSYS || error == EPERM;
    return !error ? PW_OS_COPIED : denied ? PW_OS_COPY_DENIED : PW_OS_COPY_FAILED;
}

#else

bool pw_os_has_mmapcopy(void) {
    return false;
}

enum pw_os_copied pw_os_mmapcopy(void *to, const void *from, size_t size) {
    (void)to;
    (void)from;
    (void)size;
    return PW_OS_COPY_DENIED;
}

#endif
