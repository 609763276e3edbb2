// SPDX-License-Identifier: MIT
//
// What the programs of the environment suite share: they know nothing of Pagewise, nor of cmocka.
#ifndef PW_TEST_CHECK_H
#define PW_TEST_CHECK_H

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#define PAGE     ((size_t)1 << PW_PAGE_SHIFT)
#define MEGABYTE ((size_t)1 << 20)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                       \
            fflush(stdout);                                                                        \
            _exit(99);                                                                             \
        }                                                                                          \
    } while (0)

#endif
