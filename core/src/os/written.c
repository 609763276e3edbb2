// SPDX-License-Identifier: MIT
//
// Which pages were written since the last look (Linux 6.7): asynchronous write protection by
// userfaultfd(2), asked and renewed by PAGEMAP_SCAN
// (Documentation/admin-guide/mm/userfaultfd.rst and pagemap.rst). The kernel's faults never reach
// the program. A child of a fork inherits none of it, and a descriptor that the program closes ends
// it: both are an error of the next look, never a page that is left out.
#include "os/fault.h"
#include "os/os.h"
#include "os/pagemap_scan.h"
#include "os/system_call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/syscall.h>
#include <unistd.h>

// From linux/userfaultfd.h of 6.7.
#define WATCH_UNPOPULATED    ((uint64_t)1 << 13)
#define WATCH_ASYNCHRONOUSLY ((uint64_t)1 << 15)
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define BATCH 64

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

static int take_some(const struct pw_os_written *written, uintptr_t start, uintptr_t end,
                     struct scan_region *regions, uintptr_t *walked) {
    struct scan_request request = {
        .size = sizeof request,
        .flags = SCAN_RENEW | SCAN_ONLY_WATCHED,
        .start = start,
        .end = end,
        .vec = (uintptr_t)regions,
        .vec_len = BATCH,
        .category_mask = SCAN_WRITTEN,
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

bool pw_os_written_take(const struct pw_os_written *written, uintptr_t start, uintptr_t end,
                        pw_os_visit *visit, void *context) {
    int saved = errno;
    struct scan_region regions[BATCH];
    bool going = true;
    while (going && start < end) {
        uintptr_t walked = start;
        int count = take_some(written, start, end, regions, &walked);
        going = count >= 0 && walked > start;
        for (int i = 0; going && i < count; i++) {
            going = visit(context, (char *)regions[i].start, regions[i].end - regions[i].start);
        }
        start = walked;
    }
    errno = saved;
    return going;
}
