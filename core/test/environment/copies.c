// SPDX-License-Identifier: MIT
//
// Copies of parts, copies beside blocks that somebody else resizes, and copies while somebody who
// is no thread of ours may write.
#include "program.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

extern void *__libc_realloc(void *block, size_t size); // what a library calls that is not seen

static unsigned char *block_of(size_t size, uint64_t seed) {
    unsigned char *block = malloc(size);
    CHECK(block);
    fill(block, size, seed);
    return block;
}

// --- a part is copied again -----------------------------------------------------------

// The second half was written since, and is copied alone: the first half is still what it was when
// the copy that was made of all of it goes.
static int case_part_again(char **arguments) {
    (void)arguments;
    const size_t size = 8 * MEGABYTE, half = size / 2;
    unsigned char *source = block_of(size, 1), *whole = malloc(size), *part = malloc(size);
    CHECK(whole && part);
    memcpy(whole, source, size);
    fill(source + half, half, 2);
    memcpy(part + half, source + half, half);
    free(whole);
    for (int i = 0; i < 4; i++) { // what is freed may be given back by now
        whole = malloc(size);
        CHECK(whole);
        memcpy(whole, part, size);
        free(whole);
    }
    printf("%016llx %016llx\n", (unsigned long long)sum(source, size),
           (unsigned long long)sum(part + half, half));
    free(source);
    free(part);
    return 0;
}

// --- blocks that the C library has made longer ----------------------------------------

#define ASKED  (MEGABYTE + 1000)
#define LONGER (MEGABYTE + 2500) // within the last page

static unsigned char *longer_block(uint64_t seed) {
    unsigned char *block = __libc_realloc(block_of(ASKED, seed), LONGER);
    CHECK(block);
    fill(block + ASKED, LONGER - ASKED, seed + 1);
    return block;
}

static int case_grown_unhooked(char **arguments) {
    (void)arguments;
    for (int round = 0; round < 4; round++) {
        unsigned char *from = longer_block(10), *to = longer_block(20), *copy = malloc(ASKED);
        CHECK(copy);
        memcpy(to, from, ASKED); // what follows is the program's
        printf("%016llx", (unsigned long long)sum(to + ASKED, LONGER - ASKED));
        memcpy(copy, from, ASKED);
        from = realloc(from, (size_t)(3 + round) * MEGABYTE);
        to = realloc(to, 3 * MEGABYTE / 2);
        CHECK(from && to);
        printf(" %016llx %016llx\n", (unsigned long long)sum(from + ASKED, LONGER - ASKED),
               (unsigned long long)sum(to, LONGER));
        free(from);
        free(to);
        free(copy);
    }
    return 0;
}

// --- who else may write ---------------------------------------------------------------

#define COPIED (4 * MEGABYTE)

static struct {
    _Atomic(unsigned char *) block;
    atomic_bool done;
    atomic_ulong stores, lost;
} writer;

// Stores to a word of each page, and looks whether the last store is there.
static int keep_writing(void *unused) {
    (void)unused;
    unsigned long last = 0;
    while (!writer.done) {
        unsigned char *block = writer.block;
        for (size_t at = 8; at < COPIED; at += 64 * PAGE) {
            atomic_ulong *word = (atomic_ulong *)(void *)(block + at);
            writer.lost += last && *word != last;
            *word = last + 1;
        }
        last++;
        writer.stores++;
    }
    return 0;
}

static void copy_often(unsigned char *source, int times) {
    for (int i = 0; i < times; i++) {
        unsigned char *copy = malloc(COPIED);
        CHECK(copy);
        memcpy(copy, source, COPIED);
        CHECK(copy[1] == source[1]);
        free(copy);
        memset(source + COPIED / 2, i, COPIED / 2 - COPIED / 16); // it has to be published again
    }
}

#ifdef __x86_64__
static void write_and_end(void) {
    keep_writing(NULL);
    __asm__ volatile("syscall" : : "a"(SYS_exit), "D"(0) : "rcx", "r11", "memory");
}
#endif

// By the system call itself the child returns into what lies at the top of its stack.
static int sharing_child(const char *way, char *stack) {
    int flags = CLONE_VM | SIGCHLD;
#ifdef __x86_64__
    if (!strcmp(way, "by-number")) {
        void (**top)(void) = (void (**)(void))(void *)(stack + MEGABYTE);
        top[-2] = write_and_end;
        return (int)syscall(SYS_clone, flags, &top[-2], NULL, NULL, NULL);
    }
#endif
    (void)way;
    return clone(keep_writing, stack + MEGABYTE, flags, NULL);
}

// A child that shares our memory is none of our threads.
static int case_sharing_child(char **arguments) {
    char *stack = mmap(NULL, MEGABYTE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    unsigned char *block = malloc(COPIED), *source = malloc(COPIED);
    CHECK(block && source);
    memset(block, 0, COPIED);
    memset(source, 1, COPIED);
    writer.block = block;
    int child = sharing_child(arguments[0], stack);
    CHECK(child > 0);
    while (writer.stores < 2) {}
    for (int i = 0; i < 60; i++) {
        unsigned char *copy = malloc(COPIED);
        CHECK(copy);
        memcpy(copy, block, COPIED);
        free(copy);
    }
    writer.done = true;
    wait_well(child);
    printf("%lu stores were lost\n", (unsigned long)writer.lost);
    free(block);
    free(source);
    return 0;
}

// The kernel writes to what is handed to it, when it likes. Nothing is, here: that there could be
// is enough for nothing to be published (the statistics tell).
static int case_kernel_writes(char **arguments) {
    unsigned char *source = block_of(COPIED, 5);
    if (!strcmp(arguments[0], "aio")) {
        aio_context_t context = 0;
        if (syscall(SYS_io_setup, 1, &context) != 0) {
            printf("no contexts: %d\n", errno);
        }
    } else {
        char parameters[120] = {0};
        if (syscall(SYS_io_uring_setup, 1, parameters) < 0) {
            printf("no rings: %d\n", errno);
        }
    }
    copy_often(source, 5);
    printf("%016llx\n", (unsigned long long)sum(source, COPIED));
    free(source);
    return 0;
}

#define REGISTERED (16 * MEGABYTE)

// A ring that knows the block's pages by their frames; false where the kernel refuses one.
static bool knows_block(int *ring, struct io_uring_params *parameters, void *block) {
    struct iovec whole = {block, REGISTERED};
    *ring = (int)syscall(SYS_io_uring_setup, 4, parameters);
    return *ring >= 0 &&
           syscall(SYS_io_uring_register, *ring, IORING_REGISTER_BUFFERS, &whole, 1) == 0;
}

// Have the kernel read a file into the block that the ring knows.
static void read_by_ring(int ring, const struct io_uring_params *parameters, void *block,
                         int file) {
    size_t queue_size = parameters->sq_off.array + parameters->sq_entries * sizeof(unsigned);
    size_t entries_size = parameters->sq_entries * sizeof(struct io_uring_sqe);
    char *queue =
        mmap(NULL, queue_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entry =
        mmap(NULL, entries_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    CHECK(queue != MAP_FAILED && entry != MAP_FAILED);
    *entry = (struct io_uring_sqe){
        .opcode = IORING_OP_READ_FIXED, .fd = file, .addr = (uintptr_t)block, .len = REGISTERED};
    *(unsigned *)(void *)(queue + parameters->sq_off.array) = 0;
    __atomic_store_n((unsigned *)(void *)(queue + parameters->sq_off.tail), 1, __ATOMIC_RELEASE);
    CHECK(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
    munmap(entry, entries_size);
    munmap(queue, queue_size);
}

static int file_of(unsigned char *bytes, size_t size) {
    int file = memfd_create("bytes", MFD_CLOEXEC);
    CHECK(file >= 0 && pwrite(file, bytes, size, 0) == (ssize_t)size);
    return file;
}

// A block is registered with a ring, then cleared, or copied into: what the kernel reads into it
// afterwards must be found there.
static int case_registered(char **arguments) {
    struct io_uring_params parameters = {0};
    unsigned char *source = block_of(REGISTERED, 6), *block = malloc(REGISTERED);
    int file = file_of(source, REGISTERED), ring;
    CHECK(block);
    fill(source, REGISTERED, 7);
    for (int i = 0; i < 8; i++) { // by then it is published
        unsigned char *copy = malloc(REGISTERED);
        CHECK(copy);
        memcpy(copy, source, REGISTERED);
        usleep(60000); // such copies are not brief
        free(copy);
    }
    for (size_t at = 0; at < REGISTERED; at += PAGE) {
        block[at] = 1;
    }
    if (!knows_block(&ring, &parameters, block)) {
        printf("no rings: %d\n", errno);
        return 0;
    }
    if (!strcmp(arguments[0], "cleared")) {
        memset(block, 0, REGISTERED);
    } else {
        memcpy(block, source, REGISTERED);
    }
    printf("%016llx", (unsigned long long)sum(block, REGISTERED));
    read_by_ring(ring, &parameters, block, file);
    printf(" %016llx\n", (unsigned long long)sum(block, REGISTERED));
    close(ring);
    close(file);
    free(block);
    free(source);
    return 0;
}

static void *wait_for_ever(void *unused) {
    (void)unused;
    while (!writer.done) {
        pause();
    }
    return NULL;
}

// Beside a thread that may write a block stays on its snapshot, also where all memory is locked.
static int case_emptied_locked(char **arguments) {
    (void)arguments;
    unsigned char *blocks[4] = {block_of(COPIED, 5)};
    for (int i = 1; i < 4; i++) {
        blocks[i] = malloc(COPIED);
        CHECK(blocks[i]);
        memcpy(blocks[i], blocks[0], COPIED);
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0);
    CHECK(mlockall(MCL_CURRENT) == 0);
    for (int i = 0; i < 4; i++) {
        unsigned char *part = blocks[i] + PAGE - (uintptr_t)blocks[i] % PAGE;
        int result = madvise(part, 16 * PAGE, MADV_DONTNEED_LOCKED);
        printf("%d: %d, then", i, result);
        for (size_t at = 0; at < 16 * PAGE; at += 5 * PAGE) {
            printf(" %d", part[at]);
        }
        printf(" and %d\n", part[16 * PAGE]);
    }
    return 0;
}

const struct program_case copy_cases[] = {
    {"part-again", case_part_again},
    {"grown-unhooked", case_grown_unhooked},
    {"sharing-child", case_sharing_child},
    {"kernel-writes", case_kernel_writes},
    {"registered", case_registered},
    {"emptied-locked", case_emptied_locked},
    {NULL, NULL},
};
