// SPDX-License-Identifier: MIT
//
// What a fork's child reads after its parent has freed the blocks that both had, whatever kind of
// fork it was, and whatever else has looked at or moved the parent's memory.
#include "program.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#endif
#define KSM "/sys/kernel/mm/ksm/"

extern char **environ;

static const size_t size = 4 * MEGABYTE;

// --- who looks at all memory, and who moves it ---------------------------------

struct mapping {
    char *start;
    size_t size;
    bool readable, is_private;
};

static size_t mappings(struct mapping *found, size_t most) {
    char line[512];
    size_t count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file) && count < most) {
        unsigned long start, end;
        char access[5];
        CHECK(sscanf(line, "%lx-%lx %4s", &start, &end, access) == 3);
        if (!strstr(line, "[v")) { // the kernel's own pages
            found[count++] =
                (struct mapping){(char *)start, end - start, access[0] == 'r', access[3] == 'p'};
        }
    }
    fclose(file);
    return count;
}

static void read_by_call(const struct mapping *mapping, int memory) {
    (void)memory;
    char byte;
    for (size_t at = 0; mapping->readable && at < mapping->size; at += PAGE) {
        struct iovec here = {&byte, 1}, there = {mapping->start + at, 1};
        if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1) {
            break;
        }
    }
}

static void read_by_file(const struct mapping *mapping, int memory) {
    char byte;
    for (size_t at = 0; at < mapping->size; at += PAGE) {
        if (pread(memory, &byte, 1, (off_t)(uintptr_t)(mapping->start + at)) != 1) {
            break;
        }
    }
}

static void page_out(const struct mapping *mapping, int memory) {
    (void)memory;
    if (mapping->is_private) {
        madvise(mapping->start, mapping->size, MADV_PAGEOUT);
    }
}

static void for_all_memory(void (*look)(const struct mapping *, int)) {
    static struct mapping found[4000];
    size_t count = mappings(found, sizeof found / sizeof *found);
    int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    CHECK(memory >= 0);
    for (size_t i = 0; i < count; i++) {
        look(&found[i], memory);
    }
    close(memory);
}

static void write_to(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static long read_number(const char *path) {
    char text[32] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    close(fd);
    return strtol(text, NULL, 10);
}

static void wait_for_merging(void) {
    long scans = read_number(KSM "full_scans");
    for (int i = 0; i < 3000 && read_number(KSM "full_scans") < scans + 5; i++) {
        usleep(10000);
    }
}

static bool is(const char *what, const char *name) {
    return strcmp(what, name) == 0;
}

static void before_fork(const char *what) {
    if (is(what, "swap")) {
        for_all_memory(page_out);
        usleep(300000);
    } else if (is(what, "ksm")) {
        wait_for_merging();
    }
}

// `gcore`, CRIU and other readers; the pages come back from swap, or are unmerged, or move.
static void disturb(const char *what) {
    if (is(what, "readv")) {
        for_all_memory(read_by_call);
    } else if (is(what, "mem") || is(what, "swap")) {
        for_all_memory(read_by_file);
    } else if (is(what, "ksm")) {
        write_to(KSM "run", "2");
    } else if (is(what, "compact")) {
        write_to("/proc/sys/vm/compact_memory", "1");
    }
}

// --- children --------------------------------------------------------------------

struct child {
    pid_t pid;
    int go;
};

static pid_t fork_by(const char *how) {
    if (is(how, "raw")) {
        return _Fork();
    }
    return is(how, "clone") ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
}

// A child that looks at the block when it is told to. It neither allocates nor prints before.
static struct child child_that_reads(const char *how, const unsigned char *block, uint64_t right) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    fflush(stdout);
    struct child child = {fork_by(how), ends[1]};
    CHECK(child.pid >= 0);
    if (child.pid == 0) {
        char byte;
        close(ends[1]);
        CHECK(read(ends[0], &byte, 1) == 1);
        _exit(sum(block, size) == right ? 0 : 1);
    }
    close(ends[0]);
    return child;
}

static void let_read(struct child child) {
    CHECK(write(child.go, "x", 1) == 1);
    close(child.go);
    wait_well(child.pid);
}

static void work_again(const char *when) {
    printf("%s: %016llx\n", when, (unsigned long long)work(15, MEGABYTE));
    fflush(stdout);
}

// Whatever is free is used again, so that what the library gives back has gone.
static void free_and_work(unsigned char *one, unsigned char *other) {
    free(one);
    free(other);
    work_again("after");
}

static void two_blocks(unsigned char **one, unsigned char **other, uint64_t *right) {
    *one = malloc(size);
    *other = malloc(size);
    CHECK(*one && *other);
    fill(*one, size, 5);
    memcpy(*other, *one, size);
    *right = sum(*one, size);
}

// disturb HOW WHAT: memory is looked at, or moved, while a child lives.
static int case_disturb(char **arguments) {
    const char *how = arguments[0], *what = arguments[1];
    unsigned char *one, *other;
    uint64_t right;
    CHECK(!is(what, "ksm") || prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0) == 0);
    two_blocks(&one, &other, &right);
    before_fork(what);
    struct child child = child_that_reads(how, other, right);
    usleep(50000);
    disturb(what);
    free_and_work(one, other);
    disturb(what);
    work_again("again");
    let_read(child);
    work_again("at last");
    return 0;
}

// Beside `disturb ksm`: memory like that program's, until standard input ends.
static int case_twin(char **arguments) {
    (void)arguments;
    unsigned char *one, *other;
    uint64_t right;
    char byte;
    CHECK(prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0) == 0);
    two_blocks(&one, &other, &right);
    printf("ready\n");
    fflush(stdout);
    CHECK(read(0, &byte, 1) == 0);
    return 0;
}

// siblings HOW: several children, the first of which end before the block is freed, and while it
// waits to be given back.
static int case_siblings(char **arguments) {
    const char *how = arguments[0];
    unsigned char *one, *other;
    uint64_t right;
    two_blocks(&one, &other, &right);
    struct child first = child_that_reads(how, other, right);
    work_again("one child");
    struct child second = child_that_reads(how, other, right);
    let_read(first);
    struct child third = child_that_reads(how, other, right);
    free_and_work(one, other);
    let_read(second);
    work_again("one child left");
    two_blocks(&one, &other, &right);
    free_and_work(one, other);
    let_read(third);
    work_again("none left");
    return 0;
}

// A child that ends, or becomes another program, when it has a child of its own.
static int case_grandchild(char **arguments) {
    const char *how = arguments[0];
    bool by_exec = is(arguments[1], "exec");
    unsigned char *one, *other;
    uint64_t right;
    int told[2];
    two_blocks(&one, &other, &right);
    CHECK(pipe(told) == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    fflush(stdout);
    pid_t child = fork_by(how);
    if (child == 0) {
        close(told[1]);
        if (fork_by(how) == 0) {
            char byte;
            CHECK(read(told[0], &byte, 1) == 0);
            printf("grandchild: %016llx\n", (unsigned long long)sum(other, size));
            fflush(stdout);
            _exit(0);
        }
        if (by_exec) {
            execl("/bin/true", "true", (char *)NULL);
        }
        _exit(0);
    }
    wait_well(child);
    free_and_work(one, other);
    fflush(stdout);
    close(told[1]);
    while (wait(NULL) > 0) {}
    work_again("after the grandchild");
    return 0;
}

static void spawn_one(void) {
    char *command[] = {(char *)(uintptr_t) "true", NULL};
    pid_t child = -1;
    CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, command, environ) == 0);
    wait_well(child);
}

static void kill_one(void) {
    pid_t child = fork();
    if (child == 0) {
        pause();
    }
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
}

static void vfork_one(void) {
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    wait_well(child);
}

// Children that do not have our memory, or have given it up, hold nothing back.
static int case_short_lived(char **arguments) {
    static void (*const begin_and_end[])(void) = {spawn_one, kill_one, vfork_one};
    (void)arguments;
    for (size_t i = 0; i < 6; i++) {
        unsigned char *one, *other;
        uint64_t right;
        two_blocks(&one, &other, &right);
        begin_and_end[i % 3]();
        free_and_work(one, other);
    }
    return 0;
}

// A child that lives, as a server's worker does, while its parent makes versions of a table.
static int case_worker(char **arguments) {
    (void)arguments;
    unsigned char *one, *other;
    uint64_t right;
    two_blocks(&one, &other, &right);
    struct child worker = child_that_reads("fork", other, right);
    for (int i = 0; i < 40; i++) {
        free(one);
        one = malloc(size);
        fill(one, size, (uint64_t)i);
        free(other);
        other = malloc(size);
        memcpy(other, one, size);
        other[(size_t)i * PAGE + 5] ^= 1;
    }
    printf("%016llx\n", (unsigned long long)sum(other, size));
    let_read(worker);
    return 0;
}

static int open_descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder);
    while (readdir(folder)) {
        count++;
    }
    closedir(folder);
    return count;
}

// Many forks in a program that goes on copying: what is open afterwards.
static int case_many_forks(char **arguments) {
    int forks = atoi(arguments[0]);
    int open_then = 0, open_now = 0;
    size_t small = MEGABYTE;
    unsigned char *block = malloc(small);
    fill(block, small, 3);
    struct child late[24];
    int count = 0;
    uint64_t total = 0;
    for (int i = 0; i < forks; i++) {
        unsigned char *next = malloc(small);
        memcpy(next, block, small);
        next[(size_t)i * PAGE % small] ^= 1;
        if (i < 24) {
            static unsigned char *kept;
            uint64_t right;
            unsigned char *unused;
            two_blocks(&unused, &kept, &right);
            late[count++] = child_that_reads("clone", kept, right);
            free(unused);
            free(kept);
        } else {
            pid_t child = fork();
            if (child == 0) {
                _exit(0);
            }
            wait_well(child);
        }
        free(block);
        block = next;
        if (i == 30) {
            open_then = open_descriptors();
        }
    }
    for (int i = 0; i < count; i++) {
        let_read(late[i]);
    }
    open_now = open_descriptors() + count; // the pipes
    total = sum(block, small);
    printf("%016llx, more are open: %d\n", (unsigned long long)total, open_now > open_then);
    work_again("after the forks");
    return 0;
}

const struct program_case child_cases[] = {
    {"disturb", case_disturb},         {"twin", case_twin},
    {"siblings", case_siblings},       {"grandchild", case_grandchild},
    {"short-lived", case_short_lived}, {"worker", case_worker},
    {"many-forks", case_many_forks},   {NULL, NULL},
};
