// SPDX-License-Identifier: MIT
//
// Fault injection for tests. In the shipped library PW_OS_FAULT is the constant 0 and costs
// nothing.
#ifndef PW_OS_FAULT_H
#define PW_OS_FAULT_H

enum pw_os_site {
    PW_SITE_MAP_NEW,
    PW_SITE_MAP_BLANK,
    PW_SITE_MAP_SNAPSHOT,
    PW_SITE_MAP_TABLE,
    PW_SITE_RESERVE,
    PW_SITE_UNMAP,
    PW_SITE_MOVE,
    PW_SITE_DISCARD,
    PW_SITE_ADVISE_HUGE,
    PW_SITE_FILE_CREATE,
    PW_SITE_FILE_SIZE,
    PW_SITE_FILE_STAT,
    PW_SITE_FILE_WRITE,
    PW_SITE_FILE_PUNCH,
    PW_SITE_STATISTICS,
    PW_SITE_PAGEMAP_OPEN,
    PW_SITE_PAGEMAP_SCAN,
    PW_SITE_PAGEMAP_READ,
    PW_SITE_FORK_MARKER,
    PW_SITE_WITNESS,
    PW_SITE_THREADS,
    PW_SITE_RESIDENT,
    PW_SITE_PRESSURE,
    PW_SITE_KEEPER,
    PW_SITE_PEEK,
    PW_SITE_ROOM, // there is none left
    PW_SITE_SPOOL_CREATE,
    PW_SITE_SPOOL_STAT,
    PW_SITE_SPOOL_ROOM,
    PW_SITE_SPOOL_MAP,
    PW_SITE_SPOOL_KEEP,
    PW_SITE_PROTECT,
    PW_SITE_HUGETLB,
    PW_SITE_COLLAPSE,
    PW_SITE_LOCK,
    PW_SITE_FILE_SEAL,
    PW_SITE_FILE_OPEN,
    PW_SITE_FILE_READ,
    PW_SITE_MMAPCOPY,
    PW_SITE_WITNESS_ASK,
    PW_SITE_MAPS,
    PW_SITE_WRITTEN,
    PW_SITE_COUNT
};

#ifdef PW_FAULT_INJECTION

// Names of the sites, in the order above.
extern const char *const pw_os_site_names[PW_SITE_COUNT];

// Which call fails: the `first`-th call (from 1) of `site` and then every `period`-th one (0: only
// that one, 1: all later ones), with `error`. A negative error makes a call that may stop half-way
// do so: a write goes on from there, others fail having done a part of their work.
void pw_os_fault_plan(enum pw_os_site site, int error, unsigned long first, unsigned long period);
void pw_os_fault_clear(void);
unsigned long pw_os_fault_calls(enum pw_os_site site);

// The errno with which this call must fail, or 0. Also reads
// PAGEWISE_FAULT=SITE:ERRNO:FIRST:PERIOD.
int pw_os_fault(enum pw_os_site site);
#define PW_OS_FAULT(site) pw_os_fault(site)

#else
#define PW_OS_FAULT(site) 0
#endif

#endif
