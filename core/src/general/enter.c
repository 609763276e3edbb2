// SPDX-License-Identifier: MIT
//
// Beginning and ending work of ours in a thread, and what a child finds that ran no handlers.
#include "general/general.h"

// While the kernel copied page after page, other threads went on: a block may have been taken from
// a page that was copied before, and put on one that was copied after. So none of them is used.
void pw_shelf_clear(struct pw_general *general) {
    for (unsigned stripe = 0; stripe < PW_SHELF_STRIPES; stripe++) {
        struct pw_shelf *shelf = &general->shelves[stripe];
        for (unsigned i = 0; i < PW_MEDIUM_CLASSES; i++) {
            __atomic_store_n(&shelf->counts[i], 0, __ATOMIC_RELAXED);
        }
        __atomic_store_n(&shelf->pages, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&shelf->taken, false, __ATOMIC_RELEASE);
    }
}

bool pw_general_finds_locks_free(struct pw_general *general) {
    bool free = pthread_mutex_trylock(&general->tables) == 0;
    if (free) {
        pthread_mutex_unlock(&general->tables);
    }
    for (unsigned i = 0; free && i < PW_GENERAL_CLASSES; i++) {
        free = pthread_mutex_trylock(&general->bins[i].lock) == 0;
        if (free) {
            pthread_mutex_unlock(&general->bins[i].lock);
        }
    }
    return free;
}

// After _Fork or clone, which run no handlers, a thread that the child does not have may hold a
// lock for ever. Such a child does without these segments: their blocks stay what they are. Other
// threads come in when this one has looked: one of them in a bin would be taken for such a thread.
void pw_general_notice_fork(struct pw_general *general) {
    uint32_t unnoticed = 0;
    if (!__atomic_compare_exchange_n(general->fork_marker, &unnoticed, PW_FORK_BEING_NOTICED, false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        return; // another thread does, and nobody comes in before it is done
    }
    pw_shelf_clear(general);
    if (!pw_general_finds_locks_free(general)) {
        __atomic_store_n(&general->orphaned, true, __ATOMIC_RELAXED);
    }
    __atomic_store_n(general->fork_marker, PW_FORK_NOTICED, __ATOMIC_RELEASE);
}
