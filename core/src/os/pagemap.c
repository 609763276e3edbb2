// SPDX-License-Identifier: MIT
//
// What the kernel knows about our pages: PAGEMAP_SCAN (Linux 6.7) or, before it and where a
// container denies it, /proc/self/pagemap (Documentation/admin-guide/mm/pagemap.rst).
#include "os/fault.h"
#include "os/os.h"
#include "os/system_call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

// From linux/fs.h of 6.7: Debian 12's headers are older than its kernels.
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

#define ENTRY_PRESENT   ((uint64_t)1 << 63)
#define ENTRY_SWAPPED   ((uint64_t)1 << 62)
#define ENTRY_FILE      ((uint64_t)1 << 61)
#define ENTRY_EXCLUSIVE ((uint64_t)1 << 56)

// Ranges of one ioctl, entries of one read. They lie on the stack of whoever calls memcpy, which
// may be a thread with the smallest stack allowed.
#define BATCH 64

void pw_os_pagemap_open(struct pw_os_pagemap *pagemap) {
    int saved = errno;
    int fd =
        PW_OS_FAULT(PW_POINT_PAGEMAP_OPEN) ? -1 : open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    struct pw_os_file file = pw_os_adopt(fd);
    bool usable = file.fd >= 0;
    *pagemap = (struct pw_os_pagemap){.file = file, .scan = usable, .usable = usable};
    errno = saved;
}

static int scan(const struct pw_os_pagemap *pagemap, uintptr_t start, uintptr_t end,
                enum pw_os_pages kind, struct scan_region *ranges, uintptr_t *walked) {
    struct scan_request request = {
        .size = sizeof request,
        .start = start,
        .end = end,
        .vec = (uintptr_t)ranges,
        .vec_len = BATCH,
    };
    // With an empty return mask every region would be reported with no category and not merged by
    // what we asked for; one category is enough and keeps neighbours together.
    request.return_mask = SCAN_FILE;
    request.category_mask = request.category_inverted = SCAN_FILE;
    if (kind == PW_OS_ZERO_PAGES || kind == PW_OS_HUGE_PAGES) {
        request.category_inverted = 0;
        request.category_mask =
            SCAN_PRESENT | (kind == PW_OS_HUGE_PAGES ? SCAN_HUGE : SCAN_ZERO_PAGE);
    } else if (kind == PW_OS_PRIVATE_PAGES) {
        request.category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED;
    } else {
        request.category_mask |= SCAN_PRESENT | SCAN_ZERO_PAGE;
        request.category_inverted |= SCAN_ZERO_PAGE;
    }
    if (PW_OS_FAULT(PW_POINT_PAGEMAP_SCAN)) {
        return -1;
    }
    int count = pw_call_ioctl(pagemap->file.fd, SCAN_IOCTL, &request);
    *walked = request.walk_end;
    return count;
}

static bool is_kind(uint64_t entry, enum pw_os_pages kind) {
    if (entry & ENTRY_FILE || kind == PW_OS_ZERO_PAGES || kind == PW_OS_HUGE_PAGES) {
        return false;
    }
    if (kind == PW_OS_PRIVATE_PAGES) {
        return (entry & (ENTRY_PRESENT | ENTRY_SWAPPED)) != 0;
    }
    // The zero page is nobody's alone. Neither is a page that a forked child reads as well: giving
    // that back would save nothing yet.
    return (entry & ENTRY_PRESENT) && (entry & ENTRY_EXCLUSIVE);
}

static ssize_t read_entries(const struct pw_os_pagemap *pagemap, uintptr_t address,
                            uint64_t *entries, size_t count) {
    if (PW_OS_FAULT(PW_POINT_PAGEMAP_READ)) {
        return -1;
    }
    ssize_t got = pread(pagemap->file.fd, entries, count * sizeof *entries,
                        (off_t)(address / PW_PAGE * sizeof *entries));
    return got < 0 ? -1 : got / (ssize_t)sizeof *entries;
}

static int read_table(const struct pw_os_pagemap *pagemap, uintptr_t start, uintptr_t end,
                      enum pw_os_pages kind, struct scan_region *ranges, uintptr_t *walked) {
    uint64_t entries[BATCH];
    int count = 0;
    uintptr_t at = start;
    while (at < end) {
        size_t wanted = (end - at) / PW_PAGE;
        ssize_t got = read_entries(pagemap, at, entries, wanted < BATCH ? wanted : BATCH);
        if (got <= 0) {
            return -1;
        }
        for (ssize_t i = 0; i < got; i++, at += PW_PAGE) {
            if (!is_kind(entries[i], kind)) {
                continue;
            }
            if (count && ranges[count - 1].end == at) {
                ranges[count - 1].end += PW_PAGE;
            } else if (count == BATCH) {
                *walked = at;
                return count;
            } else {
                ranges[count++] = (struct scan_region){.start = at, .end = at + PW_PAGE};
            }
        }
    }
    *walked = end;
    return count;
}

// The program may have closed our descriptor: open the table again, once per use.
static bool ready(struct pw_os_pagemap *pagemap) {
    if (pagemap->usable && !pw_os_is_ours(&pagemap->file)) {
        bool scans = pagemap->scan;
        pw_os_pagemap_open(pagemap);
        pagemap->scan = pagemap->scan && scans;
    }
    return pagemap->usable;
}

// One batch of ranges from `start` on; -1 when neither way of asking works.
static int find_some(struct pw_os_pagemap *pagemap, uintptr_t start, uintptr_t end,
                     enum pw_os_pages kind, struct scan_region *ranges, uintptr_t *walked) {
    int count = -1;
    if (pagemap->scan) {
        count = scan(pagemap, start, end, kind, ranges, walked);
        // From here on the table is read instead, also when only this process is denied the scan.
        pagemap->scan = count >= 0;
    }
    if (count < 0) {
        count = read_table(pagemap, start, end, kind, ranges, walked);
    }
    pagemap->usable = count >= 0;
    return count;
}

bool pw_os_pagemap_each(struct pw_os_pagemap *pagemap, char *start, char *end,
                        enum pw_os_pages kind, pw_os_visit *visit, void *context) {
    int saved = errno;
    struct scan_region ranges[BATCH];
    uintptr_t at = (uintptr_t)start, last = (uintptr_t)end;
    bool going = ready(pagemap);
    while (going && at < last) {
        uintptr_t walked = at;
        int count = find_some(pagemap, at, last, kind, ranges, &walked);
        going = count >= 0 && walked > at;
        for (int i = 0; going && i < count; i++) {
            going = visit(context, (char *)ranges[i].start, ranges[i].end - ranges[i].start);
        }
        at = walked;
    }
    errno = saved;
    return going;
}

static bool add_pages(void *context, char *start, size_t size) {
    (void)start;
    *(uint64_t *)context += size / PW_PAGE;
    return true;
}

bool pw_os_pagemap_count(struct pw_os_pagemap *pagemap, char *start, char *end,
                         enum pw_os_pages kind, uint64_t *pages) {
    *pages = 0;
    return pw_os_pagemap_each(pagemap, start, end, kind, add_pages, pages);
}

// Zero pages and huge pages, which the table does not tell apart.
static void tally_by_scan(struct pw_os_pagemap *pagemap, char *start, char *end,
                          struct pw_os_tally *tally) {
    uint64_t zero = 0;
    if (pagemap->scan && pw_os_pagemap_count(pagemap, start, end, PW_OS_ZERO_PAGES, &zero) &&
        pw_os_pagemap_count(pagemap, start, end, PW_OS_HUGE_PAGES, &tally->huge)) {
        tally->huge_known = pagemap->scan;
        tally->shared -= zero < tally->shared ? zero : tally->shared;
    }
}

bool pw_os_pagemap_tally(struct pw_os_pagemap *pagemap, char *start, char *end,
                         struct pw_os_tally *tally) {
    int saved = errno;
    uint64_t entries[BATCH];
    bool known = ready(pagemap);
    *tally = (struct pw_os_tally){0};
    for (char *at = start; known && at < end;) {
        size_t wanted = (size_t)(end - at) / PW_PAGE;
        ssize_t got =
            read_entries(pagemap, (uintptr_t)at, entries, wanted < BATCH ? wanted : BATCH);
        known = got > 0;
        for (ssize_t i = 0; i < got; i++, at += PW_PAGE) {
            bool present = entries[i] & ENTRY_PRESENT;
            bool exclusive = entries[i] & ENTRY_EXCLUSIVE;
            tally->exclusive += present && exclusive;
            tally->shared += present && !exclusive;
            tally->swapped += !present && (entries[i] & ENTRY_SWAPPED);
        }
    }
    if (known) {
        tally_by_scan(pagemap, start, end, tally);
    }
    errno = saved;
    return known;
}

bool pw_os_pagemap_exclusive(struct pw_os_pagemap *pagemap, const void *address, bool *known) {
    int saved = errno;
    uint64_t entry = 0;
    *known = ready(pagemap) && read_entries(pagemap, (uintptr_t)address, &entry, 1) == 1;
    errno = saved;
    return *known && (entry & ENTRY_PRESENT) && (entry & ENTRY_EXCLUSIVE);
}

// --- which pages were written since the last look ----------------------------------
//
// Asynchronous write protection by userfaultfd(2), asked and renewed by PAGEMAP_SCAN (Linux 6.7;
// Documentation/admin-guide/mm/userfaultfd.rst). The kernel's faults never reach
// the program. A child of a fork inherits none of it, and a descriptor that the program closes ends
// it: both are an error of the next look, never a page that is left out.

// From linux/userfaultfd.h of 6.7.
#define WATCH_UNPOPULATED    ((uint64_t)1 << 13)
#define WATCH_ASYNCHRONOUSLY ((uint64_t)1 << 15)
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

static bool set_up(int fd) {
    if (PW_OS_FAULT(PW_POINT_WRITTEN)) {
        return false;
    }
    struct uffdio_api wanted = {.api = UFFD_API,
                                .features = WATCH_UNPOPULATED | WATCH_ASYNCHRONOUSLY};
    return pw_call_ioctl(fd, UFFDIO_API, &wanted) == 0 &&
           (wanted.features & WATCH_ASYNCHRONOUSLY) == WATCH_ASYNCHRONOUSLY;
}

bool pw_os_written_open(struct pw_os_written *written) {
    int saved = errno;
    *written = (struct pw_os_written){.watch = PW_OS_NO_FILE, .table = PW_OS_NO_FILE};
    int flags = O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY;
    if (!PW_OS_FAULT(PW_POINT_WRITTEN)) {
        written->watch = pw_os_adopt((int)syscall(SYS_userfaultfd, flags));
    }
    if (written->watch.fd >= 0 && set_up(written->watch.fd) && !PW_OS_FAULT(PW_POINT_WRITTEN)) {
        written->table = pw_os_adopt(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    }
    bool works = written->table.fd >= 0;
    if (!works) {
        pw_os_written_close(written);
    }
    errno = saved;
    return works;
}

void pw_os_written_close(struct pw_os_written *written) {
    pw_os_close(&written->watch);
    pw_os_close(&written->table);
    *written = (struct pw_os_written){.watch = PW_OS_NO_FILE, .table = PW_OS_NO_FILE};
}

bool pw_os_written_watch(struct pw_os_written *written, uintptr_t start, uintptr_t end) {
    int saved = errno, fault = PW_OS_FAULT(PW_POINT_WRITTEN);
    // It may fail with some of several mappings watched already.
    uintptr_t length = fault < 0 ? (end - start) / 2 & ~(PW_PAGE - 1) : end - start;
    struct uffdio_register range = {.range = {.start = start, .len = length},
                                    .mode = UFFDIO_REGISTER_MODE_WP};
    bool done = fault <= 0 && pw_os_is_ours(&written->watch) &&
                pw_call_ioctl(written->watch.fd, UFFDIO_REGISTER, &range) == 0 && !fault;
    errno = saved;
    return done;
}

void pw_os_written_unwatch(struct pw_os_written *written, uintptr_t start, uintptr_t end) {
    int saved = errno;
    struct uffdio_range range = {.start = start, .len = end - start};
    if (!PW_OS_FAULT(PW_POINT_WRITTEN) && pw_os_is_ours(&written->watch)) {
        pw_call_ioctl(written->watch.fd, UFFDIO_UNREGISTER, &range);
    }
    errno = saved;
}

static int scan_some(const struct pw_os_written *written, uint64_t flags, uintptr_t start,
                     uintptr_t end, struct scan_region *regions, uintptr_t *walked) {
    struct scan_request request = {
        .size = sizeof request,
        .flags = flags | SCAN_ONLY_WATCHED,
        .start = start,
        .end = end,
        .vec = (uintptr_t)regions,
        .vec_len = BATCH,
        .category_mask = SCAN_WRITTEN,
        // Asked for by this alone, 6.7 and the first of 6.8 tell of no page that is being moved or
        // is in swap (their 2c7ad9a590d1 mends it).
        .category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
        .return_mask = SCAN_WRITTEN,
    };
    int fault = PW_OS_FAULT(PW_POINT_WRITTEN);
    if (fault > 0) {
        return -1;
    }
    request.vec_len = fault < 0 ? 1 : BATCH; // tests: it takes a part, and may then fail
    int count = pw_call_ioctl(written->table.fd, SCAN_IOCTL, &request);
    *walked = request.walk_end;
    return fault < -1 ? -1 : count;
}

static bool scan_written(const struct pw_os_written *written, uint64_t flags, uintptr_t start,
                         uintptr_t end, pw_os_visit *visit, void *context) {
    int saved = errno;
    struct scan_region regions[BATCH];
    bool going = true;
    while (going && start < end) {
        uintptr_t walked = start;
        int count = scan_some(written, flags, start, end, regions, &walked);
        going = count >= 0 && walked > start;
        for (int i = 0; going && i < count; i++) {
            going = visit(context, (char *)regions[i].start, regions[i].end - regions[i].start);
        }
        start = walked;
    }
    errno = saved;
    return going;
}

bool pw_os_written_take(const struct pw_os_written *written, uintptr_t start, uintptr_t end,
                        pw_os_visit *visit, void *context) {
    return scan_written(written, SCAN_RENEW, start, end, visit, context);
}

bool pw_os_written_list(const struct pw_os_written *written, uintptr_t start, uintptr_t end,
                        pw_os_visit *visit, void *context) {
    return scan_written(written, 0, start, end, visit, context);
}
