// SPDX-License-Identifier: MIT
//
// R's pages of small nodes that hold frozen ones: which of their nodes these are, and which of the
// roots are kept for them.
#ifndef PW_RUNTIME_R_FROZEN_PAGES_H
#define PW_RUNTIME_R_FROZEN_PAGES_H

#include "runtime/r/layout.h"

#define PW_R_PAGE_WORDS 3 // 142 nodes at most
#define PW_R_NO_ROOT    UINT32_MAX
#define PW_R_NO_SUM     UINT64_MAX

struct pw_r_frozen_page {
    struct pw_r_page *page;
    uint64_t nodes[PW_R_PAGE_WORDS]; // frozen
    uint64_t held[PW_R_PAGE_WORDS];  // free, and kept so: nothing new writes to the page
    uint64_t sum;                    // of what they hold, as the last look saw it
    uint32_t first_root;
    uint32_t last_look; // the last one that found it written
    uint8_t class, count, held_count;
    uint8_t streak; // looks in a row that did
};

struct pw_r_frozen_pages {
    struct pw_r_frozen_page *pages; // by address
    size_t count, room;
    unsigned per_page[PW_R_SMALL_CLASSES];
};

// An entry for each of R's pages, none of whose nodes is frozen yet. False: no memory.
bool pw_r_frozen_pages_make(struct pw_r_frozen_pages *pages, const struct pw_r_layout *layout);
void pw_r_frozen_pages_free(struct pw_r_frozen_pages *pages);

// Leave out pages without a frozen node.
void pw_r_frozen_pages_settle(struct pw_r_frozen_pages *pages);

// The first page that ends behind `address`, or `count`.
size_t pw_r_frozen_pages_find(const struct pw_r_frozen_pages *pages, uintptr_t address);

static inline struct pw_r_node *pw_r_page_node(const struct pw_r_frozen_page *page, unsigned at) {
    return (struct pw_r_node *)((char *)(page->page + 1) + at * pw_r_node_size(page->class));
}

static inline uintptr_t pw_r_page_end(const struct pw_r_frozen_pages *pages,
                                      const struct pw_r_frozen_page *page) {
    return (uintptr_t)pw_r_page_node(page, pages->per_page[page->class]);
}

// Neither R's nodes in use nor its free ones are there.
static inline bool pw_r_page_is_taken(const struct pw_r_frozen_pages *pages,
                                      const struct pw_r_frozen_page *page) {
    return (unsigned)page->count + page->held_count == pages->per_page[page->class];
}

typedef bool pw_r_visit_frozen(void *context, struct pw_r_node *node);

// Until `visit` returns false.
static inline bool pw_r_page_each_of(const struct pw_r_frozen_page *page, const uint64_t *which,
                                     pw_r_visit_frozen *visit, void *context) {
    for (unsigned word = 0; word < PW_R_PAGE_WORDS; word++) {
        for (uint64_t left = which[word]; left; left &= left - 1) {
            unsigned at = word * 64 + (unsigned)__builtin_ctzll(left);
            if (!visit(context, pw_r_page_node(page, at))) {
                return false;
            }
        }
    }
    return true;
}

static inline bool pw_r_page_each(const struct pw_r_frozen_page *page, pw_r_visit_frozen *visit,
                                  void *context) {
    return pw_r_page_each_of(page, page->nodes, visit, context);
}

#endif
