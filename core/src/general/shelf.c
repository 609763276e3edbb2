// SPDX-License-Identifier: MIT
//
// Blocks of 33 KB to 4 MB that were released, and wait for the next request of their class. Each
// place is one word, taken and filled by one atomic exchange: no lock, no system call, and whoever
// looks for idle memory can take what a sleeping thread has put there.
#include "general/general.h"

// Blocks begin at a page. This bit of a place says that its block lay there at the last look.
#define WAS_SEEN ((uintptr_t)1)

// --- places ------------------------------------------------------------------------------

// Stacks of threads, and so what is theirs alone, are some pages apart.
static unsigned own_stripe(void) {
    uint64_t place = (uintptr_t)&pw_general_thread >> PW_PAGE_SHIFT;
    return (unsigned)(place * 0x9e3779b97f4a7c15u >> 61) % PW_SHELF_STRIPES;
}

static uint8_t *name_of(struct pw_general *general, const void *block) {
    return &general->classes[((uintptr_t)block - (uintptr_t)general->arena->base) >> PW_PAGE_SHIFT];
}

static int64_t pages_of(unsigned class_number) {
    return (int64_t)(pw_class_size(class_number) >> PW_PAGE_SHIFT);
}

static uintptr_t *places_of(struct pw_shelf *shelf, unsigned class_number) {
    return shelf->places[class_number - PW_GENERAL_CLASSES];
}

// NULL: there is none. The newest lie at the front, where they were put while it was empty.
static void *take_from(struct pw_shelf *shelf, unsigned class_number) {
    uintptr_t *places = places_of(shelf, class_number);
    for (unsigned i = PW_SHELF_PLACES; i-- > 0;) {
        uintptr_t found = __atomic_load_n(&places[i], __ATOMIC_RELAXED);
        found = found ? __atomic_exchange_n(&places[i], 0, __ATOMIC_ACQUIRE) : 0;
        if (found) {
            __atomic_sub_fetch(&shelf->pages, pages_of(class_number), __ATOMIC_RELAXED);
            return (void *)(found & ~WAS_SEEN);
        }
    }
    return NULL;
}

static bool put_into(struct pw_shelf *shelf, unsigned class_number, void *block) {
    uintptr_t *places = places_of(shelf, class_number);
    for (unsigned i = 0; i < PW_SHELF_PLACES; i++) {
        uintptr_t none = 0;
        if (!__atomic_load_n(&places[i], __ATOMIC_RELAXED) &&
            __atomic_compare_exchange_n(&places[i], &none, (uintptr_t)block, false,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
            return true;
        }
    }
    return false;
}

// --- names -------------------------------------------------------------------------------

void pw_shelf_name(struct pw_general *general, unsigned class_number, void *block) {
    if (general->shelf_open) {
        __atomic_store_n(name_of(general, block), (uint8_t)(class_number + 1), __ATOMIC_RELAXED);
    }
}

void pw_shelf_forget(struct pw_general *general, const void *block) {
    __atomic_store_n(name_of(general, block), 0, __ATOMIC_RELAXED);
}

// --- taking and putting --------------------------------------------------------------------

void *pw_shelf_take(struct pw_general *general, unsigned class_number) {
    if (!general->shelf_open || !pw_general_enter(general)) {
        return NULL;
    }
    void *block = NULL;
    unsigned own = own_stripe();
    for (unsigned i = 0; !block && i < PW_SHELF_STRIPES; i++) {
        block = take_from(&general->shelves[(own + i) % PW_SHELF_STRIPES], class_number);
    }
    if (block) {
        __atomic_store_n(name_of(general, block), (uint8_t)(class_number + 1), __ATOMIC_RELAXED);
    }
    pw_general_leave();
    return block;
}

static bool has_room(struct pw_general *general, const struct pw_shelf *shelf, int64_t pages) {
    return __atomic_load_n(&shelf->pages, __ATOMIC_RELAXED) + pages <=
           __atomic_load_n(&general->shelf_most, __ATOMIC_RELAXED);
}

static bool put(struct pw_general *general, unsigned class_number, void *block) {
    struct pw_shelf *shelf = &general->shelves[own_stripe()];
    if (!has_room(general, shelf, pages_of(class_number))) {
        return false;
    }
    // Counted first: who takes it at once counts it off.
    __atomic_add_fetch(&shelf->pages, pages_of(class_number), __ATOMIC_RELAXED);
    if (put_into(shelf, class_number, block)) {
        return true;
    }
    __atomic_sub_fetch(&shelf->pages, pages_of(class_number), __ATOMIC_RELAXED);
    return false;
}

// The name says that the block lies here before it does: a second release is found out.
static bool mark(struct pw_general *general, unsigned class_number, void *block) {
    uint8_t live = (uint8_t)(class_number + 1);
    return __atomic_compare_exchange_n(name_of(general, block), &live, live | PW_CLASS_SHELVED,
                                       false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

bool pw_shelf_put(struct pw_general *general, unsigned class_number, void *block) {
    if (!general->shelf_open || !pw_general_enter(general)) {
        return false;
    }
    bool live = mark(general, class_number, block);
    bool kept = live && put(general, class_number, block);
    if (live && !kept) {
        __atomic_store_n(name_of(general, block), (uint8_t)(class_number + 1), __ATOMIC_RELAXED);
    }
    pw_general_leave();
    if (!live) {
        general->host.misuse(general->host.context);
    }
    return kept;
}

// --- what lies there -----------------------------------------------------------------------

void pw_shelf_open(struct pw_general *general) {
    // Without the marker a child of _Fork could not tell that others were at work here.
    general->shelf_open = general->fork_marker != NULL;
}

void pw_shelf_allow(struct pw_general *general, uint64_t pages) {
    __atomic_store_n(&general->shelf_most, (int64_t)(pages / PW_SHELF_STRIPES), __ATOMIC_RELAXED);
}

uint64_t pw_shelf_pages(const struct pw_general *general) {
    int64_t pages = 0;
    for (unsigned i = 0; i < PW_SHELF_STRIPES; i++) {
        pages += __atomic_load_n(&general->shelves[i].pages, __ATOMIC_RELAXED);
    }
    return pages > 0 ? (uint64_t)pages : 0;
}

size_t pw_shelf_blocks(const struct pw_general *general) {
    size_t blocks = 0;
    for (unsigned i = 0; i < PW_SHELF_STRIPES; i++) {
        const uintptr_t *places = general->shelves[i].places[0];
        for (unsigned j = 0; j < PW_MEDIUM_CLASSES * PW_SHELF_PLACES; j++) {
            blocks += __atomic_load_n(&places[j], __ATOMIC_RELAXED) != 0;
        }
    }
    return blocks;
}

static void drop(struct pw_general *general, unsigned class_number, struct pw_shelf *shelf,
                 uintptr_t found) {
    __atomic_sub_fetch(&shelf->pages, pages_of(class_number), __ATOMIC_RELAXED);
    general->host.drop(general->host.context, (void *)(found & ~WAS_SEEN));
}

// What has lain there since the last look goes; `all`: everything.
static void look_at(struct pw_general *general, struct pw_shelf *shelf, unsigned class_number,
                    bool all) {
    uintptr_t *places = places_of(shelf, class_number);
    for (unsigned i = 0; i < PW_SHELF_PLACES; i++) {
        uintptr_t found = __atomic_load_n(&places[i], __ATOMIC_RELAXED);
        bool goes = found && (all || (found & WAS_SEEN));
        uintptr_t next = goes ? 0 : found | WAS_SEEN;
        if (found &&
            __atomic_compare_exchange_n(&places[i], &found, next, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED) &&
            goes) {
            drop(general, class_number, shelf, found);
        }
    }
}

void pw_shelf_look(struct pw_general *general, bool all) {
    for (unsigned stripe = 0; general->shelf_open && stripe < PW_SHELF_STRIPES; stripe++) {
        struct pw_shelf *shelf = &general->shelves[stripe];
        for (unsigned i = PW_GENERAL_CLASSES;
             __atomic_load_n(&shelf->pages, __ATOMIC_RELAXED) > 0 && i < PW_ALL_CLASSES; i++) {
            look_at(general, shelf, i, all);
        }
    }
}
