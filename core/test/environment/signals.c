// SPDX-License-Identifier: MIT
//
// Signal handlers that copy, fork, or jump out of a copy.
#include "program.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char *signal_from, *signal_to;
static volatile sig_atomic_t signals_seen;
static sigjmp_buf jump;

static volatile int interval; // microseconds; 0: no more

static bool set_timer(int microseconds) {
    struct itimerval timer = {{0, 0}, {0, microseconds}};
    return setitimer(ITIMER_REAL, &timer, NULL) == 0;
}

static void start_timer(void (*handler)(int), int flags, int microseconds) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    interval = microseconds;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && set_timer(interval));
}

// At the end of a handler, which takes longer than the interval on a busy machine: were the timer a
// periodic one, the program would then do nothing else.
static void next_signal(void) {
    if (!set_timer(interval)) {
        _exit(96);
    }
}

static void stop_timer(void) {
    interval = 0; // a handler may run before the call below ends
    CHECK(set_timer(0));
}

static void copy_in_handler(int number) {
    (void)number;
    int saved = errno;
    size_t size = 300 << 10;
    memcpy(signal_to, signal_from, size);
    memmove(signal_to + PAGE, signal_to, size);
    memset(signal_to + 100, 0, size);
    memcpy(signal_to, signal_from, size);
    if (memcmp(signal_from, signal_to, size) != 0) {
        _exit(98);
    }
    signals_seen++;
    next_signal();
    errno = saved;
}

static int signals_with(void (*handler)(int), int flags, int microseconds) {
    signal_from = malloc(400 << 10);
    signal_to = malloc(400 << 10);
    fill(signal_from, 400 << 10, 1);
    start_timer(handler, flags | SA_RESTART, microseconds);
    for (int i = 0; i < 10 || signals_seen < 200; i++) {
        uint64_t total = work(60, MEGABYTE);
        if (i < 3) {
            printf("%016llx\n", (unsigned long long)total);
        }
    }
    stop_timer();
    return 0;
}

static int case_signals(char **arguments) {
    (void)arguments;
    return signals_with(copy_in_handler, 0, 700);
}

static int case_small_signal_stack(char **arguments) {
    (void)arguments;
    stack_t stack = {.ss_size = 16384};
    stack.ss_sp = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(sigaltstack(&stack, NULL) == 0);
    return signals_with(copy_in_handler, SA_ONSTACK, 700);
}

static void fork_in_handler(int number) {
    (void)number;
    int saved = errno;
    pid_t child = fork();
    if (child == 0) {
        copy_in_handler(0);
        _exit(0);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        _exit(97);
    }
    signals_seen += 10;
    next_signal();
    errno = saved;
}

static int case_fork_in_handler(char **arguments) {
    (void)arguments;
    return signals_with(fork_in_handler, 0, 20000);
}

static void jump_out(int number) {
    (void)number;
    signals_seen++;
    next_signal();
    siglongjmp(jump, 1);
}

static void *use_memory(void *unused) {
    printf("thread: %016llx\n", (unsigned long long)work(20, MEGABYTE));
    return unused;
}

// memcpy and memset may be left by a jump at any moment; what follows must not hang or differ.
static int case_jump_out(char **arguments) {
    (void)arguments;
    size_t size = 3 * MEGABYTE;
    unsigned char *volatile from = malloc(size), *volatile to = malloc(size);
    unsigned char *volatile zeros = calloc(1, size);
    fill(from, size, 3);
    volatile int round = 0;
    sigset_t alarm_only;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    volatile bool started = false;
    while (signals_seen < 1500) {
        if (sigsetjmp(jump, 1) == 0) {
            if (!started) { // there is a place to jump to only now
                started = true;
                start_timer(jump_out, 0, 700);
            }
            for (;; round++) {
                memcpy(to, from, size);
                from[(size_t)(round % 500) * PAGE] ^= 0; // dirty again
                memset(zeros, 0, size);
                memmove(zeros, to, size - (size_t)(round % 7) * PAGE);
            }
        }
    }
    stop_timer();
    signal(SIGALRM, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
    alarm(60);
    memcpy(to, from, size);
    printf("%016llx\n", (unsigned long long)sum(from, size));
    printf("%016llx\n", (unsigned long long)sum(to, size));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use_memory, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    bool (*owns)(const void *) = (bool (*)(const void *))dlsym(RTLD_DEFAULT, "pw_owns");
    void *block = malloc(MEGABYTE);
    CHECK(!owns || owns(block)); // still served
    say_work("after the jumps");
    return 0;
}

// Until 1500 handlers have jumped out of calls that change mappings, or ask for the time used.
static void jump_out_of_calls(unsigned char *volatile block) {
    volatile bool started = false;
    while (signals_seen < 1500) {
        if (sigsetjmp(jump, 1) == 0) {
            if (!started) {
                started = true;
                start_timer(jump_out, 0, 300);
            }
            for (;;) {
                struct rusage usage;
                CHECK(mprotect(block, PAGE, PROT_READ) == 0);
                CHECK(mprotect(block, PAGE, PROT_READ | PROT_WRITE) == 0);
                CHECK(madvise(block + PAGE, PAGE, MADV_DONTNEED) == 0);
                CHECK(munlock(block + 2 * PAGE, PAGE) == 0);
                CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
            }
        }
    }
    stop_timer();
}

static int case_jump_out_of_calls(char **arguments) {
    (void)arguments;
    jump_out_of_calls(aligned_alloc(PAGE, MEGABYTE));
    alarm(60);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use_memory, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    int cancel = -1;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
    printf("may be cancelled: %d\n", cancel == PTHREAD_CANCEL_ENABLE);
    say_work("after the jumps");
    return 0;
}

// A signal that the program has blocked stays blocked, of whatever kind, during our own work too.
static int case_blocked(char **arguments) {
    (void)arguments;
    size_t size = 3 * MEGABYTE;
    unsigned char *from = aligned_alloc(PAGE, size), *to = aligned_alloc(PAGE, size);
    sigset_t all;
    sigfillset(&all);
    CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
    CHECK(kill(getpid(), SIGFPE) == 0 && kill(getpid(), SIGALRM) == 0);
    fill(from, size, 3);
    memcpy(to, from, size);
    memset(to, 0, size);
    memcpy(to, from, size);
    CHECK(mprotect(to, PAGE, PROT_READ) == 0 && madvise(from, PAGE, MADV_DONTNEED) == 0);
    for (int i = 0; i < 2; i++) {
        int number = 0;
        CHECK(sigwait(&all, &number) == 0);
        printf("%d waited\n", number);
    }
    return 0;
}

static sem_t asked, answered;

static void *allocate_when_asked(void *unused) {
    for (;;) {
        if (sem_wait(&asked) == 0) {
            free(malloc(MEGABYTE));
            sem_post(&answered);
        }
    }
    return unused;
}

static void wait_for_thread(int number) {
    (void)number;
    sem_post(&asked);
    while (sem_wait(&answered) != 0) {}
    signals_seen++;
    next_signal();
}

// A handler that interrupted such a call waits for a thread that allocates.
static int case_wait_in_handler(char **arguments) {
    (void)arguments;
    unsigned char *block = aligned_alloc(PAGE, MEGABYTE);
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    CHECK(sem_init(&asked, 0, 0) == 0 && sem_init(&answered, 0, 0) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    CHECK(pthread_create(&thread, NULL, allocate_when_asked, NULL) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    start_timer(wait_for_thread, SA_RESTART, 300);
    while (signals_seen < 500) {
        CHECK(mprotect(block, PAGE, PROT_READ) == 0);
        CHECK(mprotect(block, PAGE, PROT_READ | PROT_WRITE) == 0);
    }
    stop_timer();
    puts("each was answered");
    return 0;
}

static unsigned char *volatile emptied;
static volatile size_t wrong;
#define EMPTIED MEGABYTE

static void empty_a_copy(int unused) {
    (void)unused;
    if (emptied) {
        madvise(emptied, EMPTIED, MADV_DONTNEED);
        for (size_t at = 0; at < EMPTIED; at += PAGE) {
            wrong += emptied[at] != 0;
        }
    }
    signals_seen = signals_seen + 1;
    next_signal();
}

// A handler empties pages of a copy, in the middle of malloc and free as well: they read zero.
static int case_empty_in_handler(char **arguments) {
    (void)arguments;
    unsigned char *from = aligned_alloc(PAGE, 2 * EMPTIED);
    fill(from, 2 * EMPTIED, 3);
    start_timer(empty_a_copy, 0, 200);
    while (signals_seen < 1500) {
        unsigned char *to = aligned_alloc(PAGE, 2 * EMPTIED);
        memcpy(to, from, 2 * EMPTIED);
        emptied = to;
        sig_atomic_t seen = signals_seen;
        for (int i = 0; i < 2000 && seen == signals_seen; i++) {
            free(malloc(300000));
        }
        emptied = NULL;
        free(to);
    }
    stop_timer();
    printf("%zu pages were not empty\n", (size_t)wrong);
    return 0;
}

const struct program_case signal_cases[] = {
    {"signals", case_signals},
    {"small-signal-stack", case_small_signal_stack},
    {"fork-in-handler", case_fork_in_handler},
    {"jump-out", case_jump_out},
    {"jump-out-of-calls", case_jump_out_of_calls},
    {"wait-in-handler", case_wait_in_handler},
    {"blocked", case_blocked},
    {"empty-in-handler", case_empty_in_handler},
    {NULL, NULL},
};
