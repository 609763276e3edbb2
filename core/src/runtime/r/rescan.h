// SPDX-License-Identifier: MIT
//
// The barrier: before each collection, every frozen node that may have been written since the last
// look is looked at again, and its children that are not frozen become roots.
#ifndef PW_RUNTIME_R_RESCAN_H
#define PW_RUNTIME_R_RESCAN_H

#include "os/os.h"
#include "runtime/r/frozen_pages.h"
#include "runtime/r/node_set.h"
#include "runtime/r/roots.h"

struct pw_r_span { // of pages with frozen nodes, whole pages of memory
    uintptr_t start, end;
};

struct pw_r_rescan {
    struct pw_r_frozen_pages *pages;
    const struct pw_r_set *frozen;
    struct pw_r_roots *roots;
    struct pw_r_node *nothing, *global; // which need no root
    struct pw_os_written written;
    struct pw_r_span *spans;
    size_t span_count, span_room;
    uint32_t *marker; // reads zero in a child, which watches nothing; NULL: not known
    bool watches;     // the kernel tells of written pages; otherwise all nodes are looked at
    bool begins;      // nothing was looked at yet
};

// Does the kernel tell of written pages?
bool pw_r_rescan_can_watch(void);

// Prepare to be told of written pages, if `watch` and the kernel does. All count as written.
void pw_r_rescan_start(struct pw_r_rescan *rescan, bool watch);
void pw_r_rescan_stop(struct pw_r_rescan *rescan, bool may_call);

// False: the roots are full. With `may_call` false no system call is made.
bool pw_r_rescan_look(struct pw_r_rescan *rescan, bool may_call);

// A collection has ended, and the program has not run since the look at its start.
void pw_r_rescan_collected(struct pw_r_rescan *rescan, bool may_call);

#endif
