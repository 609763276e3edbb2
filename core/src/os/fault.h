// SPDX-License-Identifier: MIT
//
// Fault injection for tests. In the shipped library PW_OS_FAULT is the constant 0 and costs
// nothing.
#ifndef PW_OS_FAULT_H
#define PW_OS_FAULT_H

enum pw_os_point {
    PW_POINT_MAP_NEW,
    PW_POINT_MAP_BLANK,
    PW_POINT_MAP_SNAPSHOT,
    PW_POINT_MAP_TABLE,
    PW_POINT_RESERVE,
    PW_POINT_UNMAP,
    PW_POINT_MOVE,
    PW_POINT_DISCARD,
    PW_POINT_ADVISE_HUGE,
    PW_POINT_FILE_CREATE,
    PW_POINT_FILE_SIZE,
    PW_POINT_FILE_STAT,
    PW_POINT_FILE_WRITE,
    PW_POINT_FILE_PUNCH,
    PW_POINT_STATISTICS,
    PW_POINT_PAGEMAP_OPEN,
    PW_POINT_PAGEMAP_SCAN,
    PW_POINT_PAGEMAP_READ,
    PW_POINT_FORK_MARKER,
    PW_POINT_WITNESS,
    PW_POINT_THREADS,
    PW_POINT_RESIDENT,
    PW_POINT_PRESSURE,
    PW_POINT_KEEPER,
    PW_POINT_PEEK,
    PW_POINT_ROOM, // there is none left
    PW_POINT_SPOOL_CREATE,
    PW_POINT_SPOOL_STAT,
    PW_POINT_SPOOL_ROOM,
    PW_POINT_SPOOL_MAP,
    PW_POINT_PROTECT,
    PW_POINT_HUGETLB,
    PW_POINT_COLLAPSE,
    PW_POINT_LOCK,
    PW_POINT_FILE_SEAL,
    PW_POINT_FILE_OPEN,
    PW_POINT_FILE_READ,
    PW_POINT_MMAPCOPY,
    PW_POINT_WITNESS_ASK,
    PW_POINT_MAPS,
    PW_POINT_WRITTEN,
    PW_POINT_PAGE_SIZE, // the kernel has pages of another
    PW_POINT_COUNT
};

#ifdef PW_FAULT_INJECTION

// Names of the points, in the order above.
extern const char *const pw_os_point_names[PW_POINT_COUNT];

// Which call fails: the `first`-th call (from 1) of `point` and then every `period`-th one (0: only
// that one, 1: all later ones), with `error`. A negative error makes a call that may stop half-way
// do so: a write goes on from there, others fail having done a part of their work. PAGEMAP_SCAN of
// written pages goes on with -1 and fails with -2.
void pw_os_fault_plan(enum pw_os_point point, int error, unsigned long first, unsigned long period);
void pw_os_fault_clear(void);
unsigned long pw_os_fault_calls(enum pw_os_point point);

// The errno with which this call must fail, or 0. Also reads
// PAGEWISE_FAULT=POINT:ERRNO:FIRST:PERIOD.
int pw_os_fault(enum pw_os_point point);
#define PW_OS_FAULT(point) pw_os_fault(point)

#else
#define PW_OS_FAULT(point) 0
#endif

#endif
