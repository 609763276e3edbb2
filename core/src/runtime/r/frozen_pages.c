// SPDX-License-Identifier: MIT
#include "runtime/r/frozen_pages.h"

#include "os/os.h"

#include <stdlib.h>

static size_t table_size(size_t room) {
    return pw_pages_for(room * sizeof(struct pw_r_frozen_page)) * PW_PAGE;
}

static void swap(struct pw_r_frozen_page *one, struct pw_r_frozen_page *two) {
    struct pw_r_frozen_page kept = *one;
    *one = *two;
    *two = kept;
}

static void sift_down(struct pw_r_frozen_page *pages, size_t at, size_t count) {
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && pages[child].page < pages[child + 1].page) {
            child++;
        }
        if (pages[at].page >= pages[child].page) {
            return;
        }
        swap(&pages[at], &pages[child]);
        at = child;
    }
}

// The C library's qsort may allocate.
static void sort(struct pw_r_frozen_page *pages, size_t count) {
    for (size_t at = count / 2; at-- > 0;) {
        sift_down(pages, at, count);
    }
    for (size_t left = count; left > 1;) {
        swap(&pages[0], &pages[--left]);
        sift_down(pages, 0, left);
    }
}

bool pw_r_frozen_pages_make(struct pw_r_frozen_pages *pages, const struct pw_r_layout *layout) {
    *pages = (struct pw_r_frozen_pages){0};
    for (unsigned c = 0; c < PW_R_SMALL_CLASSES; c++) {
        pages->room += (size_t)layout->classes[c].page_count;
        pages->per_page[c] = layout->per_page[c];
    }
    pages->pages = pw_os_map_table(table_size(pages->room + 1));
    if (!pages->pages) {
        return false;
    }
    for (unsigned c = 0; c < PW_R_SMALL_CLASSES; c++) {
        for (struct pw_r_page *page = layout->classes[c].pages; page; page = page->next) {
            pages->pages[pages->count++] = (struct pw_r_frozen_page){
                .page = page, .class = (uint8_t)c, .first_root = PW_R_NO_ROOT, .sum = PW_R_NO_SUM};
        }
    }
    sort(pages->pages, pages->count);
    return true;
}

void pw_r_frozen_pages_free(struct pw_r_frozen_pages *pages) {
    if (pages->pages) {
        pw_os_unmap(pages->pages, table_size(pages->room + 1));
    }
    *pages = (struct pw_r_frozen_pages){0};
}

void pw_r_frozen_pages_settle(struct pw_r_frozen_pages *pages) {
    size_t kept = 0;
    for (size_t i = 0; i < pages->count; i++) {
        if (pages->pages[i].count > 0) {
            pages->pages[kept++] = pages->pages[i];
        }
    }
    pages->count = kept;
}

size_t pw_r_frozen_pages_find(const struct pw_r_frozen_pages *pages, uintptr_t address) {
    size_t low = 0, high = pages->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pw_r_page_end(pages, &pages->pages[middle]) <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
