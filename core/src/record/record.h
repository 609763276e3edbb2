// SPDX-License-Identifier: MIT
//
// What the recorder's other entrances need of its malloc.
#ifndef PW_RECORD_RECORD_H
#define PW_RECORD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// As malloc or memalign (alignment other than 0), on behalf of a caller at `site`. NULL: no memory.
void *pw_record_allocate(size_t alignment, size_t size, const void *site, const void *frame);
void pw_record_free(void *block);

// Between the two, what the thread allocates further down its stack than `frame` is not the
// program's.
uintptr_t pw_record_pause(const void *frame);
void pw_record_resume(uintptr_t before);

// The C library's dlclose.
int pw_record_close(void *library);

// Does this function belong to the allocator behind us, or to the module of that name?
bool pw_record_is_behind(const void *function);
bool pw_record_is_in(const void *function, const char *module);

#endif
