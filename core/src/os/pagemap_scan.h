// SPDX-License-Identifier: MIT
//
// PAGEMAP_SCAN (Linux 6.7), from linux/fs.h: Debian 12's headers are older than its kernels.
#ifndef PW_OS_PAGEMAP_SCAN_H
#define PW_OS_PAGEMAP_SCAN_H

#include <stdint.h>
#include <sys/ioctl.h>

struct scan_region {
    uint64_t start, end, categories;
};
struct scan_request {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define SCAN_IOCTL _IOWR('f', 16, struct scan_request)

// flags
#define SCAN_RENEW        ((uint64_t)1 << 0) // the write protection of what matches
#define SCAN_ONLY_WATCHED ((uint64_t)1 << 1) // others are an error
// categories
#define SCAN_WRITTEN   ((uint64_t)1 << 1)
#define SCAN_FILE      ((uint64_t)1 << 2)
#define SCAN_PRESENT   ((uint64_t)1 << 3)
#define SCAN_SWAPPED   ((uint64_t)1 << 4)
#define SCAN_ZERO_PAGE ((uint64_t)1 << 5)
#define SCAN_HUGE      ((uint64_t)1 << 6)

#endif
