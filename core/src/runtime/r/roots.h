// SPDX-License-Identifier: MIT
//
// What frozen nodes hold and no collection would find: their children that are not frozen. They
// stand in a vector of R's that is preserved; those of them that young collections must keep alive
// stand in a second one as well, which is short, as every collection goes through it.
#ifndef PW_RUNTIME_R_ROOTS_H
#define PW_RUNTIME_R_ROOTS_H

#include "runtime/r/frozen_pages.h"

struct pw_r_roots {
    struct pw_r_node *all, *young; // R's vectors
    uint32_t room, used, young_room, young_count, young_written;
    uint32_t first_free; // places that were given back
    uint32_t *next;      // of the same page, or free
    bool *is_young;      // a place that stands in young_places
    uint32_t *young_places;
};

// Allocates the vectors: to be called where R code may run. False: no memory.
bool pw_r_roots_make(struct pw_r_roots *roots, const struct pw_r_api *api);

// Keep `child` alive for this page; give up all that is kept for it. False: the vector is full.
bool pw_r_roots_add(struct pw_r_roots *roots, struct pw_r_frozen_page *page,
                    struct pw_r_node *child);
void pw_r_roots_drop(struct pw_r_roots *roots, struct pw_r_frozen_page *page,
                     struct pw_r_node *nothing);

// Before a collection: the young ones are put before it. False: that vector is full.
bool pw_r_roots_settle(struct pw_r_roots *roots, const struct pw_r_layout *layout,
                       struct pw_r_node *nothing);

// Keep nothing alive any more.
void pw_r_roots_clear(struct pw_r_roots *roots, struct pw_r_node *nothing);

#endif
