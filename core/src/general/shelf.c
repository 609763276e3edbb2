// SPDX-License-Identifier: MIT
//
// Blocks of 33 KB to 4 MB that were released, and wait for the next request of their class: a few
// stacks of them for each of a few stripes. A stripe is taken by one atomic exchange, and by none
// in a process of one thread; there is no system call, and whoever looks for idle memory can take
// what a sleeping thread has put there.
#include "general/general.h"

// Blocks begin at a page. This bit of a place says that its block lay there at the last look.
#define WAS_SEEN ((uintptr_t)1)

#define MOST_TRIES 1000u // to enter a stripe, where it matters

// Of the C library since 2.32: it has started no thread yet. Its own malloc does without atomic
// operations then.
extern char __libc_single_threaded __attribute__((weak));

static bool is_alone(const struct pw_general *general) {
    return &__libc_single_threaded && __libc_single_threaded && !general->other_libraries;
}

// --- stripes -----------------------------------------------------------------------------

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

// False: another thread is at work there.
static bool enter_stripe(const struct pw_general *general, struct pw_shelf *shelf) {
    if (__atomic_load_n(&shelf->taken, __ATOMIC_RELAXED)) {
        return false;
    }
    if (is_alone(general)) {
        __atomic_store_n(&shelf->taken, true, __ATOMIC_RELAXED);
        return true;
    }
    return !__atomic_exchange_n(&shelf->taken, true, __ATOMIC_ACQUIRE);
}

// For who would lose what lies there: a thread that is at work in it soon leaves, unless the
// processor was taken from it.
static bool enter_stripe_patiently(const struct pw_general *general, struct pw_shelf *shelf) {
    bool entered = false;
    for (unsigned i = 0; !entered && i < MOST_TRIES; i++) {
        entered = enter_stripe(general, shelf);
    }
    return entered;
}

static void leave_stripe(struct pw_shelf *shelf) {
    __atomic_store_n(&shelf->taken, false, __ATOMIC_RELEASE);
}

// Whoever is in the stripe may write these; others read them for a hint.
static uint8_t *count_of(struct pw_shelf *shelf, unsigned class_number) {
    return &shelf->counts[class_number - PW_GENERAL_CLASSES];
}

static void recount(struct pw_shelf *shelf, unsigned class_number, unsigned count) {
    uint8_t *counted = count_of(shelf, class_number);
    int64_t pages = ((int64_t)count - *counted) * pages_of(class_number);
    __atomic_store_n(counted, (uint8_t)count, __ATOMIC_RELAXED);
    __atomic_store_n(&shelf->pages, shelf->pages + pages, __ATOMIC_RELAXED);
}

// NULL: there is none. The newest comes first.
static void *take_from(const struct pw_general *general, struct pw_shelf *shelf,
                       unsigned class_number) {
    if (__atomic_load_n(count_of(shelf, class_number), __ATOMIC_RELAXED) == 0 ||
        !enter_stripe(general, shelf)) {
        return NULL;
    }
    void *block = NULL;
    unsigned count = *count_of(shelf, class_number);
    if (count > 0) {
        block = (void *)(places_of(shelf, class_number)[count - 1] & ~WAS_SEEN);
        recount(shelf, class_number, count - 1);
    }
    leave_stripe(shelf);
    return block;
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

// Not for other libraries' handlers of a fork, in a child whose shelf is not cleared yet.
static bool is_open(const struct pw_general *general) {
    return general->shelf_open && !pw_general_thread.holds_all;
}

void *pw_shelf_take(struct pw_general *general, unsigned class_number) {
    if (!is_open(general) || !pw_general_enter(general)) {
        return NULL;
    }
    void *block = NULL;
    unsigned own = own_stripe();
    for (unsigned i = 0; !block && i < PW_SHELF_STRIPES; i++) {
        block = take_from(general, &general->shelves[(own + i) % PW_SHELF_STRIPES], class_number);
    }
    if (block) {
        __atomic_store_n(name_of(general, block), (uint8_t)(class_number + 1), __ATOMIC_RELAXED);
    }
    pw_general_leave();
    return block;
}

static bool put(struct pw_general *general, unsigned class_number, void *block) {
    struct pw_shelf *shelf = &general->shelves[own_stripe()];
    if (!enter_stripe(general, shelf)) {
        return false;
    }
    unsigned count = *count_of(shelf, class_number);
    bool fits =
        count < PW_SHELF_PLACES && shelf->pages + pages_of(class_number) <=
                                       __atomic_load_n(&general->shelf_most, __ATOMIC_RELAXED);
    if (fits) {
        places_of(shelf, class_number)[count] = (uintptr_t)block;
        recount(shelf, class_number, count + 1);
    }
    leave_stripe(shelf);
    return fits;
}

// The name says that the block lies here before it does: a second release is found out.
static bool mark(struct pw_general *general, unsigned class_number, void *block) {
    uint8_t live = (uint8_t)(class_number + 1), shelved = live | PW_CLASS_SHELVED;
    uint8_t *name = name_of(general, block);
    if (is_alone(general)) {
        bool is_live = __atomic_load_n(name, __ATOMIC_RELAXED) == live;
        __atomic_store_n(name, is_live ? shelved : *name, __ATOMIC_RELAXED);
        return is_live;
    }
    return __atomic_compare_exchange_n(name, &live, shelved, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

bool pw_shelf_put(struct pw_general *general, unsigned class_number, void *block) {
    if (!is_open(general) || !pw_general_enter(general)) {
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
        for (unsigned j = 0; j < PW_MEDIUM_CLASSES; j++) {
            blocks += __atomic_load_n(&general->shelves[i].counts[j], __ATOMIC_RELAXED);
        }
    }
    return blocks;
}

// Moves what goes to `gone`, and returns how many that are. The caller is in the stripe.
static unsigned sort_out(struct pw_shelf *shelf, unsigned class_number, bool all, uintptr_t *gone) {
    uintptr_t *places = places_of(shelf, class_number);
    unsigned count = *count_of(shelf, class_number), stay = 0, went = 0;
    for (unsigned i = 0; i < count; i++) {
        if (all || (places[i] & WAS_SEEN)) {
            gone[went++] = places[i] & ~WAS_SEEN;
        } else {
            places[stay++] = places[i] | WAS_SEEN;
        }
    }
    recount(shelf, class_number, stay);
    return went;
}

// What has lain there since the last look goes; `all`: everything. A stripe that is taken is in
// use, and can wait for the next look.
static void look_at(struct pw_general *general, struct pw_shelf *shelf, unsigned class_number,
                    bool all) {
    uintptr_t gone[PW_SHELF_PLACES];
    if (!(all ? enter_stripe_patiently(general, shelf) : enter_stripe(general, shelf))) {
        return;
    }
    unsigned went = sort_out(shelf, class_number, all, gone);
    leave_stripe(shelf);
    for (unsigned i = 0; i < went; i++) {
        general->host.drop(general->host.context, (void *)gone[i]);
    }
}

void pw_shelf_look(struct pw_general *general, bool all) {
    for (unsigned stripe = 0; general->shelf_open && stripe < PW_SHELF_STRIPES; stripe++) {
        struct pw_shelf *shelf = &general->shelves[stripe];
        for (unsigned i = PW_GENERAL_CLASSES; i < PW_ALL_CLASSES; i++) {
            if (__atomic_load_n(count_of(shelf, i), __ATOMIC_RELAXED) > 0) {
                look_at(general, shelf, i, all);
            }
        }
    }
}
