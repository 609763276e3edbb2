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

// Raise the R error that explains a result. `name` may be NULL.
void share_fail(enum pw_shared_result result, const struct pw_shared_name *name);

// A new object to write parts of about so many bytes into, kept by the external pointer returned.
SEXP snapshot_begin(struct snapshot **snapshot, uint64_t bytes);

// A view of a part, as an external pointer. NULL: no room for a mapping.
SEXP view_open(struct snapshot *snapshot, uint32_t index);

// The same, of what a handle names. *snapshot and *part are filled in, and valid as long as the
// external pointer returned, which is a view unless there is no room for one (*mapped).
SEXP view_of_handle(SEXP handle, struct snapshot **snapshot, struct pw_shared_part *part,
                    bool *mapped);

// One more view with the same content. NULL: no room.
SEXP view_again(const struct view *view);

// A raw vector that names the view's part to other processes. NULL: the content must travel by
// value, because no other process could find it.
SEXP view_handle(const struct view *view);

static inline struct view *view_at(SEXP pointer) {
    return (struct view *)R_ExternalPtrAddr(pointer);
}

// --- vectors of views (share_vector.c) and of strings (share_string.c) ---------------------------

bool share_is_atomic(SEXPTYPE type); // a type whose elements lie in memory as they are
size_t share_element_size(SEXPTYPE type);

// An R vector of a view.
SEXP share_vector(SEXP pointer);
SEXP share_string(SEXP pointer);

// The vector of ours that x is, or that R has put a wrapper around to change the attributes of; or
// NULL. And its view.
SEXP share_inner(SEXP x);
const struct view *share_view_of(SEXP x);

// Does the vector read otherwise than the part that it is a view of?
bool share_is_changed(SEXP x);

// Make the classes, once in a process. They belong to no library: R takes the methods from the
// classes of one that is unloaded, and vectors of ours live on (-z nodelete in Makevars.in keeps
// the code).
void share_vector_start(void);
void share_string_start(void);
bool share_string_owns(SEXP x);
bool share_string_is_changed(SEXP x);

// The tables that R's strings of a shared character vector are in; R_NilValue: none yet.
SEXP share_string_made(SEXP x);
SEXP share_string_expanded(SEXP x);

// Write a character vector as a part: `length` elements in *part.
enum pw_shared_result share_string_write(struct pw_shared *shared, SEXP x,
                                         struct pw_shared_part *part);

// The R vector of an unserialised handle.
SEXP share_unserialize(SEXP handle, SEXPTYPE type);
SEXP share_string_copy(const struct snapshot *snapshot, const struct pw_shared_part *part);

// --- sending (share_send.c)
// -----------------------------------------------------------------------

// Called for each new class, and for each new vector in place of R_new_altrep().
void share_hide_type(R_altrep_class_t class, SEXPTYPE type);
SEXP share_new(R_altrep_class_t class, SEXPTYPE type, SEXP data1, SEXP data2);

// What R is to write of a vector of ours: a handle, or NULL: its data.
SEXP share_state(R_altrep_class_t class, SEXP x);

// --- costs (memory.c)
// -----------------------------------------------------------------------------

// Bytes that this process has for itself because of one shared vector. NA: the kernel does not
// tell.
double share_own_bytes(SEXP x);

// --- addresses to numbers (share_map.c)
// -----------------------------------------------------------

struct share_map { // open addressing; its memory is R_alloc's, and so ends with the .Call
    const void **keys;
    uint32_t *values;
    size_t size, used;
};

// `expected`: keys, at most.
void share_map_start(struct share_map *map, uint64_t expected);

// The value of a key; where there is none, `fresh` is put in, and returned.
uint32_t share_map_put(struct share_map *map, const void *key, uint32_t fresh);

// The value of a key, or `otherwise`.
uint32_t share_map_get(const struct share_map *map, const void *key, uint32_t otherwise);

#endif
