// SPDX-License-Identifier: MIT
//
// Keeps libraries loaded while what lies in them is read: dlclose waits for such readers, and while
// one is at work nobody begins to read.

#include "record/log.h"

#include <sched.h>

#define OWN_THREAD __thread __attribute__((tls_model("initial-exec")))

// How often this thread is in dlclose: its last functions may close others.
static OWN_THREAD uint32_t own_closing;

static OWN_THREAD uint32_t own_reading;

static bool is_closing(void) {
    return __atomic_load_n(&pw_log.closing, __ATOMIC_SEQ_CST) != own_closing;
}

// What a signal's handler has left by a jump ends here. One that is counted and not noted is waited
// for in vain; one that was noted and not counted would not be waited for.
bool pw_hold_libraries(void) {
    uint32_t left = own_reading;
    if (left == 0 && is_closing()) {
        return false; // which is not kept waiting by many who try
    }
    __atomic_fetch_add(&pw_log.reading, 1 - left, __ATOMIC_SEQ_CST);
    own_reading = 1;
    if (is_closing()) {
        pw_hold_release();
        return false;
    }
    return true;
}

void pw_hold_release(void) {
    uint32_t left = own_reading;
    own_reading = 0;
    __atomic_fetch_sub(&pw_log.reading, left, __ATOMIC_SEQ_CST);
}

void pw_hold_begin_child(void) {
    __atomic_store_n(&pw_log.closing, own_closing, __ATOMIC_RELEASE);
    __atomic_store_n(&pw_log.reading, own_reading, __ATOMIC_RELEASE);
}

#define MOST_ROUNDS 100000

// They take microseconds. A signal's handler may have left one by a jump, which then seems to read
// for ever.
static void wait_for_readers(void) {
    for (int round = 0; round < MOST_ROUNDS; round++) {
        if (__atomic_load_n(&pw_log.reading, __ATOMIC_SEQ_CST) <= own_reading) {
            return;
        }
        if (!pw_log.is_frozen && !pw_log.is_restless) {
            sched_yield();
        }
    }
}

void pw_hold_closing_begins(void) {
    own_closing++;
    __atomic_fetch_add(&pw_log.closing, 1, __ATOMIC_SEQ_CST);
    wait_for_readers();
}

void pw_hold_closing_ends(void) {
    __atomic_fetch_sub(&pw_log.closing, 1, __ATOMIC_SEQ_CST);
    own_closing--;
}
