// SPDX-License-Identifier: MIT
#include "runtime/r/roots.h"

#include "os/os.h"

#define ROOM       (1u << 18)
#define YOUNG_ROOM (1u << 15)

static bool make_tables(struct pw_r_roots *roots) {
    size_t size = pw_pages_for(ROOM * (2 * sizeof(uint32_t) + sizeof(bool))) * PW_PAGE;
    char *table = pw_os_map_table(size);
    if (!table) {
        return false;
    }
    *roots =
        (struct pw_r_roots){.room = ROOM, .young_room = YOUNG_ROOM, .first_free = PW_R_NO_ROOT};
    roots->next = (uint32_t *)table;
    roots->young_places = roots->next + ROOM;
    roots->is_young = (bool *)(roots->young_places + ROOM);
    return true;
}

bool pw_r_roots_make(struct pw_r_roots *roots, const struct pw_r_api *api) {
    if (roots->all) {
        return true;
    }
    if (!roots->next && !make_tables(roots)) {
        return false;
    }
    // R may go past us from any of these calls: both are there, and preserved by one, or neither.
    struct pw_r_node *all = api->protect(api->allocate_vector(PW_R_LIST, ROOM));
    struct pw_r_node *young = api->protect(api->allocate_vector(PW_R_LIST, YOUNG_ROOM));
    struct pw_r_node *both = api->protect(api->allocate_vector(PW_R_LIST, 2));
    pw_r_as_vector(both)->elements[0] = all; // made before it
    pw_r_as_vector(both)->elements[1] = young;
    api->preserve(both);
    api->unprotect(3);
    roots->all = all;
    roots->young = young;
    return true;
}

static struct pw_r_node **place_of(struct pw_r_roots *roots, uint32_t at) {
    return &pw_r_as_vector(roots->all)->elements[at];
}

static uint32_t take_place(struct pw_r_roots *roots) {
    uint32_t at = roots->first_free;
    if (at != PW_R_NO_ROOT) {
        roots->first_free = roots->next[at];
        return at;
    }
    return roots->used < roots->room ? roots->used++ : PW_R_NO_ROOT;
}

bool pw_r_roots_add(struct pw_r_roots *roots, struct pw_r_frozen_page *page,
                    struct pw_r_node *child) {
    uint32_t at = take_place(roots);
    if (at == PW_R_NO_ROOT) {
        return false;
    }
    *place_of(roots, at) = child;
    roots->next[at] = page->first_root;
    page->first_root = at;
    if (!roots->is_young[at] && !pw_r_is_oldest(child)) {
        roots->is_young[at] = true;
        roots->young_places[roots->young_count++] = at;
    }
    return true;
}

void pw_r_roots_drop(struct pw_r_roots *roots, struct pw_r_frozen_page *page,
                     struct pw_r_node *nothing) {
    while (page->first_root != PW_R_NO_ROOT) {
        uint32_t at = page->first_root;
        page->first_root = roots->next[at];
        *place_of(roots, at) = nothing;
        roots->next[at] = roots->first_free;
        roots->first_free = at;
    }
}

// What is of the oldest generation now stays so, and is found by full collections in `all`.
static void forget_old(struct pw_r_roots *roots) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < roots->young_count; i++) {
        uint32_t at = roots->young_places[i];
        if (pw_r_is_oldest(*place_of(roots, at))) {
            roots->is_young[at] = false;
        } else {
            roots->young_places[kept++] = at;
        }
    }
    roots->young_count = kept;
}

static void write_young(struct pw_r_roots *roots, struct pw_r_node *nothing) {
    struct pw_r_node **young = pw_r_as_vector(roots->young)->elements;
    for (uint32_t i = 0; i < roots->young_count; i++) {
        young[i] = *place_of(roots, roots->young_places[i]);
    }
    for (uint32_t i = roots->young_count; i < roots->young_written; i++) {
        young[i] = nothing;
    }
    roots->young_written = roots->young_count;
}

// As R's barrier does when an old node is made to hold a younger one.
static void announce(struct pw_r_node *node, const struct pw_r_layout *layout) {
    if (pw_r_is_marked(node)) {
        pw_r_unlink(node);
        pw_r_link_before(node, layout->classes[pw_r_class(node)].old_to_new[pw_r_generation(node)]);
    }
}

bool pw_r_roots_settle(struct pw_r_roots *roots, const struct pw_r_layout *layout,
                       struct pw_r_node *nothing) {
    forget_old(roots);
    if (roots->young_count > roots->young_room) {
        return false;
    }
    write_young(roots, nothing);
    pw_r_as_vector(roots->all)->length = roots->used; // R goes through no more of it
    if (roots->young_count > 0) {
        announce(roots->young, layout);
    }
    return true;
}

void pw_r_roots_clear(struct pw_r_roots *roots, struct pw_r_node *nothing) {
    for (uint32_t at = 0; at < roots->used; at++) {
        *place_of(roots, at) = nothing;
        roots->is_young[at] = false;
    }
    roots->used = roots->young_count = 0;
    roots->first_free = PW_R_NO_ROOT;
    write_young(roots, nothing);
}
