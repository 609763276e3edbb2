// SPDX-License-Identifier: MIT
//
// Signals in the middle of memcpy, memmove, memset, of a collector's look at the time and of the
// malloc family. They may be left by a jump (but not malloc), or for a handler that copies, stores
// to the source, empties pages of another block, or forks.
#include "hostile.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum work { COPIES, FILLS, COLLECTIONS, ALLOCATIONS };
enum deed { JUMP, STORE, COPY, COPY_AND_JUMP, FORK, EMPTY, DEEDS };

static sigjmp_buf back;
static volatile sig_atomic_t armed, happened;
static struct {
    enum deed deed;
    struct block *from, *to;             // of the interrupted copy
    struct block *other_from, *other_to; // of the handler's; NULL: none
    size_t size, at;
    unsigned char value;
    struct block *emptied; // whole pages of it
    size_t empty_from, empty_size;
    int empty_error; // 0: they are zeros now
} plan;

static void copy_in_handler(void) {
    if (plan.other_from) {
        size_t size = plan.other_from->size < plan.other_to->size ? plan.other_from->size
                                                                  : plan.other_to->size;
        memcpy(plan.other_to->data, plan.other_from->data, size);
        plain_copy(plan.other_to->shadow, plan.other_from->shadow, size);
    }
}

static void fork_in_handler(void) {
    int status = 0;
    pid_t child = _Fork();
    if (child == 0) {
        int own = plan.from->data != NULL;
        if (plan.other_from) {
            check(plan.other_from);
            copy_in_handler();
            check(plan.other_to);
        }
        check(plan.from);
        _exit(own ? 0 : 1);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (status) {
        fail("a child of a handler ended with status %x", (unsigned)status);
    }
    report_count(&report->forks, 1);
}

static void on_alarm(int number) {
    (void)number;
    int saved = errno;
    marks_take_key();
    if (armed) {
        armed = 0;
        happened = 1;
        if (plan.deed == STORE) {
            *(volatile unsigned char *)(plan.from->data + plan.at) = plan.value;
        }
        if (plan.deed == COPY || plan.deed == COPY_AND_JUMP) {
            copy_in_handler();
        }
        if (plan.deed == EMPTY) {
            void *pages = plan.emptied->data + plan.empty_from;
            plan.empty_error = madvise(pages, plan.empty_size, MADV_DONTNEED) ? errno : 0;
        }
        if (plan.deed == FORK) {
            fork_in_handler();
        }
        if (plan.deed == JUMP || plan.deed == COPY_AND_JUMP) {
            errno = saved;
            siglongjmp(back, 1);
        }
    }
    errno = saved;
}

static struct block *some_plain(size_t smallest, const struct block *other) {
    struct block *block = some_block_of(smallest);
    bool usable = block && block != other && !block->mark.kind && !block->raced;
    return usable ? block : NULL;
}

// As some_plain: a block that a handler may empty. NULL: not found.
static struct block *some_other(void) {
    struct block *block = some_plain(2 * PAGE, plan.from);
    bool usable = block && block != plan.to && block != plan.other_from && block != plan.other_to;
    return usable && some_pages(block, &plan.empty_from, &plan.empty_size) ? block : NULL;
}

static void allocate_and_free(void) {
    size_t size = 32 * KB + random_below(&world.random, 512 * KB);
    unsigned char *block = malloc(size);
    if (!block) {
        fail("no memory for %zu bytes", size);
    }
    block[0] = block[size - 1] = 99;
    unsigned char *larger = realloc(block, 2 * size);
    if (!larger || larger[0] != 99 || larger[size - 1] != 99) {
        fail("a block of %zu bytes at %p was made longer and is wrong", size, (void *)larger);
    }
    free(larger);
}

// Until the signal comes.
static void repeat(enum work work) {
    struct rusage usage;
    void *(*volatile move)(void *, const void *, size_t) =
        random_chance(&world.random, 2) ? memcpy : memmove;
    for (int i = 0; i < 3000 && armed; i++) {
        if (work == FILLS) {
            memset(plan.to->data, 0, plan.size);
        } else if (work == COLLECTIONS) {
            getrusage(RUSAGE_SELF, &usage);
        } else if (work == ALLOCATIONS) {
            allocate_and_free();
        } else {
            move(plan.to->data, plan.from->data, plan.size);
        }
    }
}

static void settle_emptied(void) {
    if (plan.deed != EMPTY || !happened) {
        return;
    }
    errno = plan.empty_error;
    if (!plan.empty_error) {
        plain_fill(plan.emptied->shadow + plan.empty_from, 0, plan.empty_size);
    } else if (!refused_where_others_write()) {
        fail("a handler could not empty %zu+%zu of %zu bytes at %p (errno %d)", plan.empty_from,
             plan.empty_size, plan.emptied->size, (void *)plan.emptied->data, errno);
    }
    check(plan.emptied);
}

static void settle_mixture(enum work work) {
    struct block *from = plan.from, *to = plan.to;
    bool fills = work == FILLS;
    settle_emptied();
    if (plan.deed == STORE && happened) {
        from->shadow[plan.at] = plan.value;
    }
    if (work == COLLECTIONS || work == ALLOCATIONS) {
        check(from);
        check(to);
        return;
    }
    for (size_t i = 0; i < plan.size; i++) {
        unsigned char copied = fills ? 0 : from->shadow[i];
        if (to->data[i] != copied && to->data[i] != to->shadow[i] && !(!fills && i == plan.at)) {
            fail(
                "byte %zu of an interrupted copy of %zu bytes to %p is %02x, neither %02x nor %02x",
                i, plan.size, (void *)to->data, to->data[i], copied, to->shadow[i]);
        }
        to->shadow[i] = to->data[i];
    }
    check(from);
    check(to);
    if (plan.other_from) {
        check(plan.other_from);
        check(plan.other_to);
    }
}

static void interrupt(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, before;
    struct itimerval delay = {.it_value.tv_usec = 20 + (long)random_below(&world.random, 400)};
    struct itimerval none = {0};
    static const enum work works[] = {COPIES,      COPIES,      COPIES,     FILLS,
                                      COLLECTIONS, ALLOCATIONS, ALLOCATIONS};
    volatile enum work work = works[random_below(&world.random, world.may_allocate ? 7 : 5)];
    plan.from = some_plain(64 * KB, NULL);
    plan.to = plan.from ? some_plain(64 * KB, plan.from) : NULL;
    if (!plan.to) {
        return;
    }
    plan.deed = (enum deed)random_below(&world.random, DEEDS);
    plan.size = plan.from->size < plan.to->size ? plan.from->size : plan.to->size;
    plan.at = random_below(&world.random, plan.size);
    plan.value = (unsigned char)random_next(&world.random);
    if (work == COLLECTIONS) { // which look for pages of zeros
        plan.deed = STORE;
        memset(plan.from->data, 0, plan.from->size);
        plain_fill(plan.from->shadow, 0, plan.from->size);
    }
    plan.other_from = some_plain(PAGE, plan.from);
    plan.other_to = some_plain(PAGE, plan.from);
    if (!plan.other_from || !plan.other_to || plan.other_from == plan.other_to ||
        plan.other_from == plan.to || plan.other_to == plan.to) {
        plan.other_from = NULL;
    }
    plan.emptied = some_other();
    if (plan.deed == EMPTY && !plan.emptied) {
        plan.deed = STORE;
    }
    if (work == ALLOCATIONS && (plan.deed == JUMP || plan.deed == COPY_AND_JUMP)) {
        plan.deed = COPY; // malloc may not be left
    }
    say("copies of %zu bytes from %p to %p are interrupted for deed %d", plan.size,
        (void *)plan.from->data, (void *)plan.to->data, (int)plan.deed);
    sigaction(SIGALRM, &action, &before);
    happened = 0;
    if (sigsetjmp(back, 1) == 0) {
        armed = 1;
        setitimer(ITIMER_REAL, &delay, NULL);
        repeat(work);
    }
    armed = 0;
    setitimer(ITIMER_REAL, &none, NULL);
    settle_mixture(work);
}

const struct operation signal_operations[] = {
    {"signal", interrupt, 800, IN_CHILDREN},
    {0},
};
