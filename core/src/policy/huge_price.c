// SPDX-License-Identifier: MIT
#include "policy/huge_price.h"

#include "policy/page.h"

// Small pages in its place cost .8 ms where faults are dear, .15 ms on a bare machine, which also
// clears 2 MB in less than .2 ms.
#define DEAR_NANOSECONDS 600000u
// A page that is touched for a try may be one that would have stayed absent: 2 MB of 16 in large
// blocks, of 64 in smaller ones.
#define SMALLEST_TRY_PAGES (16 * PW_MEGABYTE_PAGES)
#define MOST_UNTRIED_PAGES ((uint64_t)64 * PW_MEGABYTE_PAGES)
// Fresh pages until the next try while large pages are dear: 4 ms in a gigabyte are 1 % of touching
// it. While they are cheap a try costs nothing, and every block begins with one.
#define PAUSE_PAGES ((uint64_t)1024 * PW_MEGABYTE_PAGES)
// The second block of a size may be the first one's copy. After one that was, these are in doubt.
// Tuned on `modified-argument` and `keep-copies` (docs/notes/experiments/huge-pages.md).
#define DOUBTS_AT_FIRST 1u
#define DOUBTS          8u

static bool is_dear(const struct pw_huge_price *price) {
    return price->cost > DEAR_NANOSECONDS;
}

static struct pw_huge_size *size_entry(struct pw_huge_price *price, uint32_t pages) {
    return &price->sizes[(pages * 0x9e3779b1u >> 16) % PW_HUGE_SIZES];
}

// Of two sizes that want one entry the newer has it.
static bool is_in_doubt(struct pw_huge_price *price, uint32_t pages) {
    struct pw_huge_size *size = size_entry(price, pages);
    if (size->pages != pages) {
        *size = (struct pw_huge_size){.pages = pages, .doubt = DOUBTS_AT_FIRST};
        return false;
    }
    bool in_doubt = size->doubt > 0;
    size->doubt -= in_doubt;
    return in_doubt;
}

void pw_huge_spared(struct pw_huge_price *price, uint32_t pages) {
    struct pw_huge_size *size = size_entry(price, pages);
    if (size->pages == pages) {
        size->doubt = DOUBTS;
    }
}

enum pw_huge_answer pw_huge_decide(struct pw_huge_price *price, uint32_t pages, bool filled) {
    bool waits = price->pause > pages;
    price->pause -= waits ? pages : price->pause;
    if (filled && is_in_doubt(price, pages)) {
        return is_dear(price) ? PW_HUGE_LEAVE : PW_HUGE_ADVISE;
    }
    price->untried += pages;
    bool due = filled || pages >= SMALLEST_TRY_PAGES || price->untried >= MOST_UNTRIED_PAGES ||
               !price->cost;
    if (!waits && due) {
        price->untried = 0;
        return PW_HUGE_TRY;
    }
    return is_dear(price) ? PW_HUGE_LEAVE : PW_HUGE_ADVISE;
}

enum pw_huge_answer pw_huge_report(struct pw_huge_price *price, uint64_t nanoseconds, bool filled) {
    if (nanoseconds == 0) {
        return PW_HUGE_LEAVE;
    }
    price->cost = price->cost ? (price->cost + nanoseconds) / 2 : nanoseconds;
    price->pause = is_dear(price) ? PAUSE_PAGES : 0;
    if (is_dear(price)) {
        return PW_HUGE_LEAVE;
    }
    return filled ? PW_HUGE_TRY : PW_HUGE_ADVISE;
}
