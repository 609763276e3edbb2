// SPDX-License-Identifier: MIT
//
// Shared objects that this process has open, and its views of their parts. A view belongs to an
// external pointer, and ends with it.
#ifndef PAGEWISE_R_SHARE_VIEW_H
#define PAGEWISE_R_SHARE_VIEW_H

#include "calls.h"

#include <pagewise.h>
#include <R_ext/Altrep.h>

#include <stdbool.h>
#include <sys/types.h>

// Below it a vector travels by value: a view takes a page at least.
#define SHARE_SMALLEST 4096u

// Below it a copy of a shared vector is an ordinary vector: cheaper than a mapping.
#define SHARE_SMALLEST_REMAP ((size_t)64 << 10)

struct snapshot { // one object, however many views
    struct pw_shared shared;
    unsigned references;
    pid_t process; // that opened or made it: a forked child has it as well
    struct snapshot *next;
};

struct view {
    struct snapshot *snapshot;
    struct pw_shared_part part;
    uint32_t index;
    char *data;
};

// What can read our parts: R of the same series (4.2.x), by code that writes them the same way.
uint32_t share_runtime(void);

// Whose parts a handle may be of. Numbers are alike in all series of R, and Python writes them in
// the same way; where R serialises, what is around the handle is for its own series.
enum share_makers { SHARE_OWN, SHARE_OWN_AND_PYTHON, SHARE_ALL };

// Called once, when the package's library is loaded.
void share_view_start(void);

// Raise the R error that explains a result. `name` may be NULL.
void share_fail(enum pw_shared_result result, const struct pw_shared_name *name);

// A new object to write parts of about so many bytes into, kept by the external pointer returned.
SEXP snapshot_begin(struct snapshot **snapshot, uint64_t bytes);

// A view of a part, as an external pointer. NULL: no room for a mapping.
SEXP view_open(struct snapshot *snapshot, uint32_t index);

// The same, of what a handle names. *snapshot and *part are filled in, and valid as long as the
// external pointer returned, which is a view unless there is no room for one (*mapped).
SEXP view_of_handle(SEXP handle, enum share_makers makers, struct snapshot **snapshot,
                    struct pw_shared_part *part, bool *mapped);

// One more view with the same content. NULL: no room.
SEXP view_again(const struct view *view);

// A raw vector that names the view's part to other processes. NULL: the content must travel by
// value, because no other process could find it.
SEXP view_handle(const struct view *view);

static inline struct view *view_at(SEXP pointer) {
    return (struct view *)R_ExternalPtrAddr(pointer);
}

#endif
