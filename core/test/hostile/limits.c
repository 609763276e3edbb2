// SPDX-License-Identifier: MIT
//
// Limits that are lowered while the program runs, and mappings that run out. Memory may be refused
// then, and nothing else may happen.
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

// --- what may be refused -------------------------------------------------------------------

static void note_refusal(const char *what, size_t size) {
    if (errno != ENOMEM) {
        fail("%s of %zu bytes was refused with errno %d", what, size, errno);
    }
    say("%s of %zu bytes is refused", what, size);
    report_count(&report->refused, 1);
}

static void try_allocate(void) {
    struct block *place = some_place();
    bool zeroed = random_chance(&world.random, 4);
    size_t size = place->room - random_below(&world.random, place->room - place->smallest + 1);
    errno = 0;
    unsigned char *got = zeroed ? calloc(1, size) : malloc(size);
    if (!got) {
        note_refusal(zeroed ? "calloc" : "malloc", size);
        return;
    }
    adopt(place, got, size);
    if (zeroed) {
        plain_fill(place->shadow, 0, size);
        check(place);
    } else {
        settle(place, 0, size);
    }
}

static void try_resize(void) {
    struct block *block = some_block_of(random_chance(&world.random, 2) ? 64 * KB : 1);
    if (!block || block->raced || block->mark.kind) {
        return;
    }
    size_t old = block->size;
    size_t size =
        random_chance(&world.random, 2) ? old * 2 : 1 + random_below(&world.random, block->room);
    size = size < block->room ? size : block->room;
    errno = 0;
    unsigned char *got = realloc(block->data, size);
    say("realloc of %zu bytes at %p to %zu: %p", old, (void *)block->data, size, (void *)got);
    if (!got) {
        note_refusal("realloc", size);
        check(block);
        return;
    }
    adopt(block, got, size);
    check_range(block, 0, old < size ? old : size);
    if (size > old) {
        settle(block, old, size - old);
    }
}

static void try_copy(void) {
    struct block *from = some_block_of(64 * KB);
    struct block *to = from ? &world.blocks[(from - world.blocks + 1) % PLACES] : NULL;
    if (!to || !to->data || from->raced || to->raced) {
        return;
    }
    size_t size = from->size < to->size ? from->size : to->size;
    if (may_read(from, 0, size) && may_write(to, 0, size)) {
        memcpy(to->data, from->data, size);
        plain_copy(to->shadow, from->shadow, size);
        check(to);
        check(from);
    }
}

static void try_things(unsigned count) {
    struct rusage usage;
    for (unsigned i = 0; i < count; i++) {
        switch (random_below(&world.random, 6)) {
        case 0:
        case 1:
            try_allocate();
            break;
        case 2:
        case 3:
            try_resize();
            break;
        case 4:
            try_copy();
            break;
        default:
            getrusage(RUSAGE_SELF, &usage);
            getrusage(RUSAGE_SELF, &usage);
        }
    }
}

// --- limits --------------------------------------------------------------------------------

// Bytes that this process has mapped: all, or what may be written.
static size_t mapped(bool data) {
    char text[200] = "";
    unsigned long all = 0, writable = 0;
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0 ||
        sscanf(text, "%lu %*u %*u %*u %*u %lu", &all, &writable) != 2) {
        fail("/proc/self/statm cannot be read");
    }
    close(file);
    return (data ? writable : all) * PAGE;
}

static void with_limit(__rlimit_resource_t resource, const char *name, size_t limit) {
    struct rlimit before, lowered;
    getrlimit(resource, &before);
    lowered = before;
    lowered.rlim_cur = limit < before.rlim_max ? limit : before.rlim_max;
    say("RLIMIT_%s is lowered to %zu", name, limit);
    if (setrlimit(resource, &lowered) != 0) {
        return;
    }
    try_things(1 + (unsigned)random_below(&world.random, 8));
    setrlimit(resource, &before);
    try_things(2);
}

// Below the limit the kernel refuses to make pages writable again, to any program.
static void undo_all_marks(void) {
    for (size_t i = 0; i < PLACES; i++) {
        if (world.blocks[i].data) {
            mark_undo(&world.blocks[i]);
        }
    }
}

static void limit_data(void) {
    undo_all_marks();
    size_t now = mapped(true),
           more = random_below(&world.random, random_chance(&world.random, 2) ? 8 * MB : 256 * KB);
    with_limit(RLIMIT_DATA, "DATA", random_chance(&world.random, 3) ? now - more : now + more);
}

static void limit_space(void) {
    size_t now = mapped(false),
           more = random_below(&world.random, random_chance(&world.random, 2) ? 8 * MB : 256 * KB);
    with_limit(RLIMIT_AS, "AS", random_chance(&world.random, 3) ? now - more : now + more);
}

static void limit_files(void) {
    with_limit(RLIMIT_NOFILE, "NOFILE", random_below(&world.random, 12));
}

static void limit_file_size(void) {
    with_limit(RLIMIT_FSIZE, "FSIZE",
               random_below(&world.random, 2) * random_below(&world.random, MB));
}

static void limit_locks(void) {
    with_limit(RLIMIT_MEMLOCK, "MEMLOCK", random_below(&world.random, 64 * KB));
}

// --- mappings ------------------------------------------------------------------------------

// Every other page of a range gets another protection, until the kernel refuses; then some are
// joined again. mremap and others that work on several mappings may stop half-way then.
static void few_mappings(void) {
    size_t size = 70000 * 2 * PAGE, splits = 0, left = random_below(&world.random, 16);
    char *area = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED) {
        return;
    }
    while (splits < 70000 && mprotect(area + (2 * splits + 1) * PAGE, PAGE, PROT_READ) == 0) {
        splits++;
    }
    if (splits < 70000) {
        for (size_t i = 0; i < left / 2 && splits; i++) {
            mprotect(area + (2 * --splits + 1) * PAGE, PAGE, PROT_NONE);
        }
        say("about %zu mappings are left", left);
        try_things(4 + (unsigned)random_below(&world.random, 12));
    }
    munmap(area, size);
    try_things(2);
}

const struct operation limit_operations[] = {
    {"limit-data", limit_data, 120, IN_CHILDREN},
    {"limit-as", limit_space, 120, IN_CHILDREN},
    {"limit-nofile", limit_files, 60, IN_CHILDREN},
    {"limit-fsize", limit_file_size, 80, IN_CHILDREN},
    {"limit-memlock", limit_locks, 60, IN_CHILDREN},
    {"few-mappings", few_mappings, 5, 0},
    {0},
};
