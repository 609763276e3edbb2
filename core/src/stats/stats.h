// SPDX-License-Identifier: MIT
//
// stats: the statistics block (layout: pagewise.h). Rooms count into it; nobody decides by it.
#ifndef PW_STATS_STATS_H
#define PW_STATS_STATS_H

#include "pagewise.h"

#include <stdbool.h>

struct pw_stats {
    struct pw_statistics *block; // never NULL after pw_stats_start
    struct pw_statistics own;    // used where no shared memory can be had
    char directory[256];         // where blocks are left; empty: nowhere
    bool sealed;                 // no system calls any more
};

// Where our counters must go before options are known, and where they stay without `directory`.
void pw_stats_start(struct pw_stats *stats);

// Leave the block in `directory` from now on. False: it stays private to the process.
bool pw_stats_publish(struct pw_stats *stats, const char *directory, const char *policy);

// Another policy is in force from now on.
void pw_stats_name(struct pw_stats *stats, const char *policy);

// A fork's child starts its own block: gauges are inherited, counters start at zero.
void pw_stats_after_fork(struct pw_stats *stats);

// Make no system calls any more: children have no file of their own, and no number.
void pw_stats_seal(struct pw_stats *stats);

#define PW_COUNT(stats, field, amount)                                                             \
    ((void)__atomic_fetch_add(&(stats)->block->field, (uint64_t)(amount), __ATOMIC_RELAXED))
#define PW_GAUGE(stats, field, value)                                                              \
    __atomic_store_n(&(stats)->block->field, (uint64_t)(value), __ATOMIC_RELAXED)
#define PW_READ(stats, field) __atomic_load_n(&(stats)->block->field, __ATOMIC_RELAXED)

// Raise a peak to `value` if that is larger.
#define PW_PEAK(stats, field, value)                                                               \
    do {                                                                                           \
        if ((uint64_t)(value) > PW_READ(stats, field)) {                                           \
            PW_GAUGE(stats, field, value);                                                         \
        }                                                                                          \
    } while (0)

#endif
