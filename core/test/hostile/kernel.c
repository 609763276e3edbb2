// SPDX-License-Identifier: MIT
//
// What the kernel does to pages on the program's request and later than the request: faults that
// the program handles (userfaultfd), protection keys, and I/O that is on its way into a block
// (io_uring). KSM and swap work on all steps while `run --machine` has them on.
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

// PAGEMAP_SCAN, which <linux/fs.h> has since Linux 6.7.
struct scanned {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t size, flags, start, end, walked, found, room, most, inverted, all, any, told;
};
#define SCAN         _IOWR('f', 16, struct scan)
#define PAGE_WRITTEN ((uint64_t)1 << 1)

// --- userfaultfd ---------------------------------------------------------------------------

static int open_userfault(uint64_t features) {
    int file = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API, .features = features};
    if (file >= 0 && ioctl(file, UFFDIO_API, &api) != 0) {
        close(file);
        return -1;
    }
    return file;
}

static bool control(int file, unsigned long request, void *argument) {
    return some_call(SYS_ioctl, file, (long)request, (long)argument, 0, 0, 0) == 0;
}

static bool watch(int file, const struct block *block, size_t from, size_t size, uint64_t mode) {
    struct uffdio_register wanted = {.range = {(uintptr_t)block->data + from, size}, .mode = mode};
    if (control(file, UFFDIO_REGISTER, &wanted)) {
        return true;
    }
    if (!refused_where_others_write()) {
        fail("userfaultfd does not take %zu+%zu of %zu bytes at %p (errno %d)", from, size,
             block->size, (void *)block->data, errno);
    }
    return false;
}

// A page that is missing must be missing for the kernel too, until the program brings it.
static void bring_page(int file, struct block *block, size_t at, int pipe_end) {
    _Alignas(4096) static unsigned char page[4096];
    struct uffdio_copy copy = {(uintptr_t)block->data + at, (uintptr_t)page, PAGE, 0, 0};
    if (write(pipe_end, block->data + at, 1) != -1 || errno != EFAULT) {
        fail("a missing page at %p was there", (void *)(block->data + at));
    }
    plain_fill(page, (int)random_below(&world.random, 256), PAGE);
    if (ioctl(file, UFFDIO_COPY, &copy) != 0) {
        fail("a page was not brought to %p (errno %d)", (void *)(block->data + at), errno);
    }
    plain_copy(block->shadow + at, page, PAGE);
}

// Pages that are fetched by the program when they are asked for.
static void fetch_pages(void) {
    size_t from, size;
    int ends[2], file = -1;
    struct block *block = some_unmarked(&from, &size);
    if (!block || pipe2(ends, O_CLOEXEC) != 0) {
        return;
    }
    size = size > 8 * PAGE ? 8 * PAGE : size;
    file = open_userfault(UFFD_FEATURE_SIGBUS);
    if (file >= 0 && watch(file, block, from, size, UFFDIO_REGISTER_MODE_MISSING)) {
        say("%zu+%zu of %zu bytes at %p are fetched", from, size, block->size, (void *)block->data);
        if (some_call(SYS_madvise, (long)(block->data + from), (long)size, MADV_DONTNEED, 0, 0,
                      0) != 0) {
            fail("pages at %p are not given away (errno %d)", (void *)(block->data + from), errno);
        }
        for (size_t at = from; at < from + size; at += PAGE) {
            bring_page(file, block, at, ends[1]);
        }
        copy_to_another(block);
    }
    close(file);
    close(ends[0]);
    close(ends[1]);
    check_range(block, from, size);
}

static void must_be_written(const unsigned char *page) {
    struct scanned found;
    struct scan scan = {.size = sizeof scan,
                        .start = (uintptr_t)page,
                        .end = (uintptr_t)page + PAGE,
                        .found = (uintptr_t)&found,
                        .room = 1,
                        .all = PAGE_WRITTEN,
                        .told = PAGE_WRITTEN};
    int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (file >= 0 && ioctl(file, (unsigned long)SCAN, &scan) == 0) {
        fail("a page at %p was written, and the kernel does not tell", (const void *)page);
    }
    close(file);
}

// Pages that were written since the program asked to be told must be told.
static void watch_writes(void) {
    size_t from, size;
    struct block *block = some_unmarked(&from, &size);
    int file = block ? open_userfault(UFFD_FEATURE_WP_ASYNC) : -1;
    if (file >= 0 && watch(file, block, from, size, UFFDIO_REGISTER_MODE_WP)) {
        struct uffdio_writeprotect protect = {{(uintptr_t)block->data + from, size},
                                              UFFDIO_WRITEPROTECT_MODE_WP};
        say("writes to %zu+%zu of %zu bytes at %p are watched", from, size, block->size,
            (void *)block->data);
        if (ioctl(file, UFFDIO_WRITEPROTECT, &protect) != 0) {
            fail("writes to %p are not watched (errno %d)", (void *)(block->data + from), errno);
        }
        copy_to_another(block);
        fill(block, from, PAGE);
        must_be_written(block->data + from);
    }
    close(file);
    if (block) {
        check_range(block, from, size < 8 * PAGE ? size : 8 * PAGE);
    }
}

// --- io_uring ------------------------------------------------------------------------------

struct ring {
    int file;
    struct io_uring_params params;
    unsigned char *queues;
    struct io_uring_sqe *requests;
    size_t size;
};

static unsigned *ring_word(const struct ring *ring, unsigned at) {
    return (unsigned *)(void *)(ring->queues + at);
}

static bool ring_open(struct ring *ring) {
    *ring = (struct ring){.file = (int)syscall(SYS_io_uring_setup, 1, &ring->params)};
    if (ring->file < 0 || !(ring->params.features & IORING_FEAT_SINGLE_MMAP)) {
        close(ring->file);
        return false;
    }
    ring->size = ring->params.cq_off.cqes + ring->params.cq_entries * sizeof(struct io_uring_cqe);
    int rights = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
    void *queues = mmap(NULL, ring->size, rights, flags, ring->file, IORING_OFF_SQ_RING);
    void *requests = mmap(NULL, PAGE, rights, flags, ring->file, (off_t)IORING_OFF_SQES);
    if (queues == MAP_FAILED || requests == MAP_FAILED) {
        fail("a ring is not mapped (errno %d)", errno);
    }
    ring->queues = queues, ring->requests = requests;
    return true;
}

static void ring_close(struct ring *ring) {
    munmap(ring->queues, ring->size);
    munmap(ring->requests, PAGE);
    close(ring->file);
}

// Asks for a read that waits for its bytes. `fixed`: into pages that the ring holds.
static void ring_ask(struct ring *ring, int from, unsigned char *to, unsigned size, bool fixed) {
    struct iovec whole = {to, size};
    if (fixed && syscall(SYS_io_uring_register, ring->file, IORING_REGISTER_BUFFERS, &whole, 1)) {
        fixed = false; // the limit of locked memory
    }
    ring->requests[0] =
        (struct io_uring_sqe){.opcode = fixed ? IORING_OP_READ_FIXED : IORING_OP_READ,
                              .fd = from,
                              .addr = (uintptr_t)to,
                              .len = size,
                              .off = UINT64_MAX};
    unsigned *tail = ring_word(ring, ring->params.sq_off.tail);
    *ring_word(ring, ring->params.sq_off.array) = 0;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring->file, 1, 0, 0, NULL, 0) != 1) {
        fail("a ring takes no request (errno %d)", errno);
    }
}

static void ring_wait(struct ring *ring, unsigned size) {
    unsigned *head = ring_word(ring, ring->params.cq_off.head);
    const unsigned *tail = ring_word(ring, ring->params.cq_off.tail);
    while (__atomic_load_n(tail, __ATOMIC_ACQUIRE) == *head) {
        syscall(SYS_io_uring_enter, ring->file, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    }
    const struct io_uring_cqe *done = (void *)(ring->queues + ring->params.cq_off.cqes);
    if (done->res != (int)size) {
        fail("a ring read %d bytes of %u", done->res, size);
    }
}

// A read is on its way into a block while the block is copied.
static void read_by_ring(void) {
    size_t from, size;
    int ends[2];
    struct ring ring;
    unsigned char bytes[512];
    struct block *block = some_unmarked(&from, &size);
    if (!block || !ring_open(&ring)) {
        return;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fail("no pipe (errno %d)", errno);
    }
    bool fixed = random_chance(&world.random, 2);
    say("a ring reads into %zu of %zu bytes at %p, fixed %d", from, block->size,
        (void *)block->data, fixed);
    ring_ask(&ring, ends[0], block->data + from, sizeof bytes, fixed);
    copy_to_another(block);
    plain_fill(bytes, (int)random_below(&world.random, 256), sizeof bytes);
    if (write(ends[1], bytes, sizeof bytes) != (ssize_t)sizeof bytes) {
        fail("a pipe takes no bytes (errno %d)", errno);
    }
    ring_wait(&ring, sizeof bytes);
    plain_copy(block->shadow + from, bytes, sizeof bytes);
    ring_close(&ring);
    close(ends[0]);
    close(ends[1]);
    check(block);
}

const struct operation kernel_operations[] = {
    {"fetch-pages", fetch_pages, 60, IN_CHILDREN},
    {"watch-writes", watch_writes, 60, IN_CHILDREN},
    {"ring", read_by_ring, 20, IN_CHILDREN},
    {0},
};
