// SPDX-License-Identifier: MIT
//
// The system calls on mappings that the C library's functions of the same names make, with the same
// results and errno. A preloaded library of ours has those names itself, to see what the program
// does to its blocks (entry/family_mappings.h): what we do ourselves must not come by there, and
// may be needed before the C library's functions are found.
//
// They go by the C library where something stands before its functions that must see every mapping:
// a sanitizer, or a test of ours. So they do on other processors, where our own calls are told by
// the place they come from (block/mapped.c).
#ifndef PW_OS_SYSTEM_CALL_H
#define PW_OS_SYSTEM_CALL_H

#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/types.h>

#ifdef __has_feature
#define PW_HAS_FEATURE(name) __has_feature(name)
#else
#define PW_HAS_FEATURE(name) 0
#endif

#if defined(PW_FAULT_INJECTION) || defined(__SANITIZE_ADDRESS__) ||                                \
    defined(__SANITIZE_THREAD__) || PW_HAS_FEATURE(address_sanitizer) ||                           \
    PW_HAS_FEATURE(thread_sanitizer) || PW_HAS_FEATURE(memory_sanitizer)
#define PW_BY_C_LIBRARY 1
#elif (defined(__x86_64__) && defined(__LP64__)) || (defined(__aarch64__) && defined(__LP64__))
#define PW_BY_C_LIBRARY 0
#else
#define PW_BY_C_LIBRARY 1
#endif

#if PW_BY_C_LIBRARY

#define pw_call_mmap     mmap
#define pw_call_munmap   munmap
#define pw_call_mremap   mremap
#define pw_call_mprotect mprotect
#define pw_call_madvise  madvise
#define pw_call_mlock    mlock
#define pw_call_ioctl    ioctl

#else

void *pw_call_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int pw_call_munmap(void *address, size_t size);
void *pw_call_mremap(void *address, size_t size, size_t larger, int flags, void *to);
int pw_call_mprotect(void *address, size_t size, int protection);
int pw_call_madvise(void *address, size_t size, int advice);
int pw_call_mlock(const void *address, size_t size);
int pw_call_ioctl(int fd, unsigned long request, void *argument);

#endif

#endif
