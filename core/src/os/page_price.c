// SPDX-License-Identifier: MIT
#include "os/os.h"

uint64_t pw_os_page_price(void) {
    enum { TRIES = 4, PAGES = 16 };
    const size_t size = (size_t)(1 + TRIES * PAGES) * PW_PAGE;
    char *first = pw_os_map_table(size), *page = first;
    uint64_t least = 0;
    if (!first) {
        return 0;
    }
    *first = 1;
    for (int i = 0; i < TRIES; i++) {
        uint64_t start = pw_os_monotonic_ns();
        for (int k = 0; k < PAGES; k++) {
            page += PW_PAGE;
            pw_os_copy(page, first, PW_PAGE);
        }
        uint64_t took = pw_os_monotonic_ns() - start;
        least = i == 0 || took < least ? took : least;
    }
    pw_os_unmap(first, size);
    return least / PAGES;
}
