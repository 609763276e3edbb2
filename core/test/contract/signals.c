// SPDX-License-Identifier: MIT
//
// Signals in the middle of malloc, whose handlers do what POSIX lets them do; and other stacks.
#include "contract.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static unsigned char *written; // by handlers, and by nobody else
static atomic_uint delivered;

#define WRITTEN (256 * KILOBYTE)

static void write_to_block(int number) {
    (void)number;
    unsigned at = delivered++;
    written[at * 1031 % WRITTEN] = (unsigned char)(at + 1);
}

static void set_handler(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    CHECK(sigaction(number, &action, NULL) == 0);
}

// A process that sends signals to its parent. A thread would make fork unsafe in handlers.
static pid_t start_sender(int number, unsigned pause) {
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    while (child == 0) {
        usleep(pause);
        if (getppid() != parent || kill(parent, number) != 0) {
            _exit(0);
        }
    }
    return child;
}

static void allocate_for_a_while(unsigned times) {
    struct random random = {8};
    for (unsigned i = 0; i < times; i++) {
        size_t size = random_size(&random);
        void *block = got(malloc(size), size);
        fill(block, size < 64 ? size : 64, i);
        block = got(realloc(block, size + 100), size + 100);
        CHECK(holds(block, size < 64 ? size : 64, i));
        free(block);
    }
}

static void allocate_under_signals(int number, unsigned pause, unsigned wanted) {
    delivered = 0;
    pid_t child = start_sender(number, pause);
    for (time_t end = time(NULL) + 20; delivered < wanted && time(NULL) < end;) {
        allocate_for_a_while(50);
    }
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    CHECK(delivered >= wanted);
}

static void during_malloc(void) {
    written = got(calloc(1, WRITTEN), WRITTEN);
    set_handler(SIGUSR2, write_to_block, SA_RESTART);
    allocate_under_signals(SIGUSR2, 100, 200);
    for (unsigned i = delivered < 254 ? 0 : delivered - 254; i < delivered; i++) {
        CHECK(written[i * 1031 % WRITTEN] == (unsigned char)(i + 1));
    }
    free(written);
}

static void *on_another_stack(void *argument) {
    stack_t stack = {.ss_sp = got(malloc(64 * KILOBYTE), 64 * KILOBYTE), .ss_size = 64 * KILOBYTE};
    CHECK(sigaltstack(&stack, NULL) == 0);
    while (!*(atomic_bool *)argument) {
        allocate_for_a_while(50);
    }
    stack_t none = {.ss_flags = SS_DISABLE};
    CHECK(sigaltstack(&none, NULL) == 0);
    free(stack.ss_sp);
    return NULL;
}

static void use_alternate_stack(int number) {
    char here[16 * KILOBYTE];
    int saved = errno;
    fill(here, sizeof here, (uint64_t)number);
    CHECK(holds(here, sizeof here, (uint64_t)number));
    delivered++;
    errno = saved;
}

static void alternate_stacks(void) {
    atomic_bool end = false;
    void *threads[2];
    delivered = 0;
    set_handler(SIGUSR1, use_alternate_stack, SA_ONSTACK | SA_RESTART);
    for (unsigned i = 0; i < 2; i++) {
        threads[i] = new_thread(on_another_stack, &end);
    }
    for (unsigned i = 0; i < 300; i++) {
        CHECK(pthread_kill((pthread_t)threads[i % 2], SIGUSR1) == 0);
        allocate_for_a_while(3);
    }
    end = true;
    for (unsigned i = 0; i < 2; i++) {
        join(threads[i]);
    }
    CHECK(delivered > 0);
}

// A child that does no more than to end.
static void fork_and_end(int number) {
    (void)number;
    int saved = errno;
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    if (child > 0) {
        waitpid(child, NULL, 0);
        delivered++;
    }
    errno = saved;
}

static void forks_in_handlers(void) {
    set_handler(SIGUSR2, fork_and_end, SA_RESTART);
    allocate_under_signals(SIGUSR2, 4000, 40);
}

#define FORKS 400

static pid_t first;
static void (*in_handlers_child)(void);

// One signal, at some time of the next fork. A child has no timer.
static void arm(void) {
    struct itimerval soon = {.it_value.tv_usec = 20 + delivered * 7919 % 600};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
}

static void fork_in_handler(int number) {
    (void)number;
    int saved = errno, status = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        in_handlers_child();
    } else {
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        delivered++;
        arm();
    }
    errno = saved;
}

static void allocate_once(void) {
    allocate_for_a_while(3);
    free(got(malloc(MEGABYTE), MEGABYTE));
}

// By whomever: a child may have to do without Pagewise where it was switched on later.
static void *allocate_in_child(void *unused) {
    for (size_t size = 16; size <= MEGABYTE; size *= 4) {
        unsigned char *block = malloc(size);
        CHECK(block);
        fill(block, size, size);
        block = realloc(block, size * 2);
        CHECK(block && holds(block, size, size));
        free(block);
    }
    return unused;
}

// In every process but the first this does not return.
static void fork_once(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) {
        int status = 0;
        bool has_ended = waitpid(child, &status, 0) == child && status == 0;
        CHECK(has_ended || getpid() != first); // who goes on from here has no such child
    }
    if (getpid() != first) {
        allocate_in_child(NULL);
        _exit(0);
    }
}

static void fork_under_signals(void (*work)(void), void (*in_child)(void)) {
    first = getpid();
    delivered = 0;
    in_handlers_child = in_child;
    set_handler(SIGALRM, fork_in_handler, SA_RESTART);
    arm();
    for (time_t end = time(NULL) + 20; delivered < FORKS && time(NULL) < end;) {
        fork_once();
        work();
    }
    set_handler(SIGALRM, SIG_IGN, 0);
    if (getpid() != first) {
        _exit(0); // a child of the handler's
    }
    CHECK(delivered >= 20);
}

static void do_nothing(void) {
}

// The child returns from the handler, often into the middle of a fork.
static void forks_in_forks(void) {
    fork_under_signals(allocate_once, do_nothing);
}

static void end_with_a_thread(void) {
    join(new_thread(allocate_in_child, NULL));
    _exit(0);
}

// The child has locks for itself, which another thread of it may want. The handler comes while its
// parent is in fork or waits, and not in malloc, which a new thread needs.
static void threads_in_forks(void) {
    free(got(malloc(MEGABYTE), MEGABYTE));
    fork_under_signals(do_nothing, end_with_a_thread);
}

// --- forks while threads are at work -------------------------------------------------

#define WORKERS 10
#define BLOCKS  200
#define BLOCK   (256 * KILOBYTE)

static atomic_bool ends;

// By whomever, here and below: where the fork holds the locks, threads have to do without us.
static void *allocate_until_the_end(void *unused) {
    struct random random = {9};
    while (!ends) {
        size_t size = random_below(&random, 8) == 0 ? random_below(&random, 600000) : 3000;
        unsigned char *block = malloc(size + 1);
        CHECK(block);
        block[0] = 1;
        free(block);
    }
    return unused;
}

static void fill_all(unsigned char *blocks[BLOCKS]) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK);
        CHECK(blocks[i]);
        memset(blocks[i], (int)i, BLOCK);
    }
}

// What it inherits is whole, and is used again when it was freed.
static void work_and_end(unsigned char *blocks[BLOCKS]) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK(blocks[i][0] == i && memcmp(blocks[i], blocks[i] + 1, BLOCK - 1) == 0);
        free(blocks[i]);
    }
    fill_all(blocks);
    size_t size = 0, here = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%zu %zu", &size, &here) == 2);
    CHECK(here * (size_t)sysconf(_SC_PAGESIZE) < BLOCKS * BLOCK * 8 / 5);
    _exit(0);
}

static void serve(void) {
    static unsigned char *blocks[BLOCKS];
    set_handler(SIGALRM, SIG_IGN, 0);
    void *threads[2] = {new_thread(allocate_until_the_end, NULL),
                        new_thread(allocate_until_the_end, NULL)};
    fill_all(blocks);
    for (unsigned i = 0; i < WORKERS; i++) {
        int status = 0;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            work_and_end(blocks);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    ends = true;
    join(threads[0]);
    join(threads[1]);
    _exit(0);
}

// Its parent is in fork, or waits. The handler does not return in the child.
static void servers_in_forks(void) {
    first = getpid();
    delivered = 0;
    ends = false;
    in_handlers_child = serve;
    free(got(malloc(MEGABYTE), MEGABYTE));
    set_handler(SIGALRM, fork_in_handler, SA_RESTART);
    arm();
    while (delivered < 4) {
        fork_once();
    }
    set_handler(SIGALRM, SIG_IGN, 0);
}

// --- other stacks of one thread ------------------------------------------------------

#define FIBERS 4
#define STACK  (256 * KILOBYTE)

static ucontext_t back, fibers[FIBERS];
static void *passed_on;

static void run_fiber(int which) {
    for (unsigned i = 0; i < 50; i++) {
        size_t size = 100 + i * 3000;
        if (passed_on) {
            CHECK(*(unsigned char *)passed_on == 5);
        }
        free(passed_on);
        passed_on = got(malloc(size), size);
        memset(passed_on, 5, size);
        swapcontext(&fibers[which], which + 1 < FIBERS ? &fibers[which + 1] : &fibers[0]);
    }
    setcontext(&back);
}

static void contexts(void) {
    void *stacks[FIBERS];
    passed_on = NULL;
    for (volatile int i = 0; i < FIBERS;
         i++) { // getcontext returns once, which gcc 16 does not know
        stacks[i] = got(malloc(STACK), STACK);
        CHECK(getcontext(&fibers[i]) == 0);
        fibers[i].uc_stack.ss_sp = stacks[i];
        fibers[i].uc_stack.ss_size = STACK;
        fibers[i].uc_link = &back;
        makecontext(&fibers[i], (void (*)(void))run_fiber, 1, i);
    }
    CHECK(swapcontext(&back, &fibers[0]) == 0);
    free(passed_on);
    for (unsigned i = 0; i < FIBERS; i++) {
        free(stacks[i]);
    }
}

const struct promise signal_promises[] = {
    {"during-malloc", "a handler may write to blocks in the middle of malloc", during_malloc,
     ALONE},
    {"alternate-stacks", "handlers on stacks that are blocks, beside threads that allocate",
     alternate_stacks, ALONE | UNSERVED},
    {"forks-in-handlers", "a handler may fork a child that ends at once", forks_in_handlers, ALONE},
    {"forks-in-forks", "and a child that goes on, in the middle of a fork", forks_in_forks, ALONE},
    {"threads-in-forks", "or one that starts a thread there", threads_in_forks, ALONE},
    {"servers-in-forks", "or one that forks workers ever after", servers_in_forks, ALONE},
    {"contexts", "a thread may change its stack between two calls", contexts, 0},
    {0},
};
