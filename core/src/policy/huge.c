// SPDX-License-Identifier: MIT
#include "policy/huge.h"

// Small pages in its place cost .8 ms where faults are dear, .15 ms on a bare machine, which also
// clears 2 MB in less than .2 ms.
#define DEAR_NANOSECONDS 600000u
// A page that is touched for a try may be one that would have stayed absent: 2 MB of 16 in large
// blocks, of 64 in smaller ones.
#define SMALLEST_TRY_PAGES 4096u
#define MOST_UNTRIED_PAGES ((uint64_t)16 << 10)
// Fresh pages until the next try while large pages are dear: 4 ms in a gigabyte are 1 % of touching
// it. While they are cheap a try costs nothing, and every block begins with one.
#define PAUSE_PAGES ((uint64_t)256 << 10)

static bool is_dear(const struct pw_huge_price *price) {
    return price->cost > DEAR_NANOSECONDS;
}

enum pw_huge_answer pw_huge_decide(struct pw_huge_price *price, uint64_t pages, bool filled) {
    bool waits = price->pause > pages;
    price->pause -= waits ? pages : price->pause;
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
