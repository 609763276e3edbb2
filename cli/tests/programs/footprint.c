// A program whose physical memory is known by construction: footprint SHAPE MEGABYTES.
//
// It takes the shape, stays in it for a moment so that it is sampled, and ends.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUGE_PAGE (2ul << 20)

static size_t size;

static void stay(void) {
    usleep(500 * 1000);
}

static void require(int condition, const char *what) {
    if (!condition) {
        perror(what);
        exit(99);
    }
}

static char *map(int protection, int flags, int file) {
    char *start = mmap(NULL, size, protection, flags, file, 0);
    require(start != MAP_FAILED, "mmap");
    return start;
}

// Small pages only: a huge page would hold more than was written.
static char *anonymous(void) {
    char *start = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    madvise(start, size, MADV_NOHUGEPAGE);
    return start;
}

static void touch(char *start, size_t length) {
    for (size_t at = 0; at < length; at += 4096)
        start[at] = (char)(at / 4096 + 1);
}

static void look(const volatile char *start, size_t length) {
    for (size_t at = 0; at < length; at += 4096)
        (void)start[at];
}

static int snapshot(void) {
    int file = memfd_create("pagewise-snapshots", MFD_CLOEXEC);
    require(file >= 0 && ftruncate(file, (off_t)size) == 0, "memfd");
    return file;
}

static int filled_snapshot(void) {
    int file = snapshot();
    char *start = map(PROT_READ | PROT_WRITE, MAP_SHARED, file);
    touch(start, size);
    munmap(start, size);
    return file;
}

// All of it in memory that nobody maps.
static void snapshot_unmapped(void) {
    filled_snapshot();
    stay();
}

// Copies share every page: the file's pages count once, however often they are mapped.
static void snapshot_shared(void) {
    int file = filled_snapshot();
    for (int copy = 0; copy < 4; copy++)
        look(map(PROT_READ, MAP_PRIVATE, file), size);
    stay();
}

// A quarter mapped, three quarters not: still the whole file.
static void snapshot_partly(void) {
    look(map(PROT_READ, MAP_PRIVATE, filled_snapshot()), size / 4);
    stay();
}

// Half of the pages are private copies; the file's pages stay. One and a half times the size.
static void snapshot_written(void) {
    char *start = map(PROT_READ | PROT_WRITE, MAP_PRIVATE, filled_snapshot());
    look(start, size);
    for (size_t at = 0; at < size; at += 2 * 4096)
        start[at]++;
    stay();
}

// The descriptor is gone and only the first page is in the page table.
static void snapshot_closed(void) {
    int file = filled_snapshot();
    char *start = map(PROT_READ, MAP_PRIVATE, file);
    madvise(start, size, MADV_RANDOM);
    look(start, 1);
    close(file);
    stay();
}

// A quarter is given back before a half is written: never more than that half.
static void snapshot_punched(void) {
    int file = snapshot();
    char *start = map(PROT_READ | PROT_WRITE, MAP_SHARED, file);
    touch(start, size / 4);
    int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    require(fallocate(file, mode, 0, (off_t)(size / 4)) == 0, "fallocate");
    touch(start + size / 2, size / 2);
    munmap(start, size);
    stay();
}

static void mapped_twice(void) {
    int file = memfd_create("something-else", 0);
    require(file >= 0 && ftruncate(file, (off_t)size) == 0, "memfd");
    touch(map(PROT_READ | PROT_WRITE, MAP_SHARED, file), size);
    look(map(PROT_READ, MAP_SHARED, file), size);
    stay();
}

static void zeros_read(void) {
    look(anonymous(), size);
    stay();
}

static void huge(void) {
    size += HUGE_PAGE;
    char *start = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    size -= HUGE_PAGE;
    start = (char *)(((uintptr_t)start + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
    madvise(start, size, MADV_HUGEPAGE);
    touch(start, size);
    stay();
}

static void pool(void) {
    touch(map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1), size);
    stay();
}

// A large reservation that is never touched must cost neither memory nor time.
static void reserved(void) {
    void *start =
        mmap(NULL, 1ul << 44, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(start != MAP_FAILED, "mmap");
    touch(anonymous(), size);
    stay();
}

// Three children share the parent's pages, and one of them writes to half of them.
static void forked(void) {
    char *start = anonymous();
    touch(start, size);
    for (int child = 0; child < 3; child++) {
        if (fork() == 0) {
            if (child == 0)
                touch(start, size / 2);
            stay();
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {}
}

// The memory is in a daemon: its parent is gone before it touches anything.
static void orphaned(void) {
    if (fork() == 0) {
        if (fork() == 0) {
            usleep(50 * 1000);
            setsid();
            touch(anonymous(), size);
            stay();
            _exit(0);
        }
        _exit(0);
    }
    wait(NULL);
    stay();
}

// Between vfork and exec, parent and child are one memory.
static void vforked(void) {
    touch(anonymous(), size);
    if (vfork() == 0) {
        usleep(500 * 1000);
        _exit(0);
    }
}

// Gone before it is looked at a second time.
static void brief(void) {
    char *start = anonymous();
    touch(start, size);
    munmap(start, size);
    stay();
}

// Less than a megabyte of a file, and gone before all is looked at again.
static void mapped_late(void) {
    static const char file[768 << 10] = {1};
    usleep(220 * 1000);
    look(file, sizeof file);
    usleep(150 * 1000);
}

static void anonymous_touched(void) {
    touch(anonymous(), size);
    stay();
}

static const struct {
    const char *name;
    void (*take)(void);
} shapes[] = {
    {"nothing", stay},
    {"anonymous", anonymous_touched},
    {"brief", brief},
    {"mapped-late", mapped_late},
    {"snapshot-unmapped", snapshot_unmapped},
    {"snapshot-shared", snapshot_shared},
    {"snapshot-partly", snapshot_partly},
    {"snapshot-written", snapshot_written},
    {"snapshot-closed", snapshot_closed},
    {"snapshot-punched", snapshot_punched},
    {"mapped-twice", mapped_twice},
    {"zeros-read", zeros_read},
    {"huge", huge},
    {"pool", pool},
    {"reserved", reserved},
    {"forked", forked},
    {"orphaned", orphaned},
    {"vforked", vforked},
};

int main(int count, char **arguments) {
    if (count == 3) {
        size = strtoul(arguments[2], NULL, 10) << 20;
        for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
            if (strcmp(arguments[1], shapes[shape].name) == 0) {
                shapes[shape].take();
                return 0;
            }
        }
    }
    fprintf(stderr, "usage: footprint SHAPE MEGABYTES\n");
    return 98;
}
