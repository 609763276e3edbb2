// SPDX-License-Identifier: MIT
//
// The C library's own allocator, under the names that a preloaded malloc does not replace.
#ifndef PW_FRONT_C_LIBRARY_H
#define PW_FRONT_C_LIBRARY_H

#include <stddef.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

#endif
