// SPDX-License-Identifier: MIT
//
// Threads that the program starts: those of pools that are known count themselves (quiet.h).
#ifndef PW_PROCESS_POOL_THREADS_H
#define PW_PROCESS_POOL_THREADS_H

#include "pagewise.h"

#include <pthread.h>

// pthread_create, by `site`: `create` is the C library's.
typedef int pw_create_thread(pthread_t *thread, const pthread_attr_t *attributes,
                             void *(*start)(void *), void *argument);
PW_API int pw_quiet_create(pw_create_thread *create, pthread_t *thread,
                           const pthread_attr_t *attributes, void *(*start)(void *), void *argument,
                           const void *site);

#endif
