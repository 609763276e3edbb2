// SPDX-License-Identifier: MIT
//
// From the options of php.ini to those of the core's heap, and why there is none.
#include "php_pagewise.h"

struct pw_heap_options pw_php_heap_options(void) {
    return (struct pw_heap_options){
        .segment_bytes = (size_t)pw_php.segment_size,
        .on_limit = pw_php_on_limit,
        .flags = (pw_php.huge_pages ? PW_HEAP_HUGE_PAGES : 0) |
                 (pw_php.return_memory ? PW_HEAP_RETURN_EMPTY : 0) |
                 (pw_php.checked ? PW_HEAP_CHECKED : 0),
    };
}

void pw_php_log_none(const char *what) {
    if (errno == ENOSYS) {
        pw_php_log("the kernel's pages are not of 4 KB, for which %ss are made. PHP keeps its own "
                   "allocator",
                   what);
    } else {
        pw_php_log("no memory for a %s. PHP keeps its own allocator", what);
    }
}
