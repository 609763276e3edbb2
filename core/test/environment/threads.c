// SPDX-License-Identifier: MIT
//
// Threads: at work, forking, ending the program or outliving its main.
#include "program.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static void *thread_work(void *argument) {
    uint64_t *total = argument;
    *total = work(40, 300 << 10);
    return NULL;
}

static int case_threads(char **arguments) {
    (void)arguments;
    pthread_t threads[8];
    uint64_t totals[8];
    for (int i = 0; i < 8; i++) {
        CHECK(pthread_create(&threads[i], NULL, thread_work, &totals[i]) == 0);
    }
    for (int i = 0; i < 5; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            _exit(work(20, 300 << 10) == 0);
        }
        wait_well(child);
    }
    for (int i = 0; i < 8; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        printf("%016llx\n", (unsigned long long)totals[i]);
    }
    return 0;
}

static atomic_bool all_done;

static void *open_libraries(void *unused) {
    while (!all_done) {
        void *library = dlopen("libresolv.so.2", RTLD_NOW);
        CHECK(library && dlsym(library, "ns_parserr"));
        CHECK(dlclose(library) == 0);
    }
    return unused;
}

// Threads at work, forks, and libraries that come and go, all at once.
static int case_at_once(char **arguments) {
    pthread_t opener;
    CHECK(pthread_create(&opener, NULL, open_libraries, NULL) == 0);
    int status = case_threads(arguments);
    all_done = true;
    CHECK(pthread_join(opener, NULL) == 0);
    return status;
}

static void *fork_thread(void *unused) {
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            _exit(work(10, 300 << 10) == 0);
        }
        wait_well(child);
    }
    return unused;
}

static int case_fork_in_threads(char **arguments) {
    (void)arguments;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_create(&threads[i], NULL, fork_thread, NULL) == 0);
    }
    say_work("meanwhile");
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    return 0;
}

static void *exit_from_thread(void *unused) {
    (void)unused;
    say_work("thread");
    exit(7);
}

static int case_exit_in_thread(char **arguments) {
    (void)arguments;
    pthread_t thread;
    say_work("main");
    CHECK(pthread_create(&thread, NULL, exit_from_thread, NULL) == 0);
    for (;;) {
        work(5, 300 << 10);
    }
}

static void *outlive_main(void *unused) {
    usleep(200000);
    say_work("main has gone");
    return unused;
}

static int case_pthread_exit(char **arguments) {
    (void)arguments;
    pthread_t thread;
    say_work("main");
    CHECK(pthread_create(&thread, NULL, outlive_main, NULL) == 0);
    pthread_exit(NULL);
}

static void say_end(void) {
    volatile char deep[MEGABYTE];
    for (size_t i = 0; i < sizeof deep; i += PAGE) {
        deep[i] = 1;
    }
    printf("end, %s\n", gettid() == getpid() ? "in the first thread" : "in another thread");
}

// The last thread ends the program: without others it is the first one, which has its stack.
static int case_exit_alone(char **arguments) {
    (void)arguments;
    atexit(say_end);
    unsigned char *block = malloc(64 * MEGABYTE);
    fill(block, 64 * MEGABYTE, 1);
    free(block);
    free(malloc(100)); // under policy general a later call is it that starts a thread of ours
    pthread_exit(NULL);
}

// To join it is not enough from glibc 2.43 on: it may still be counted, and end the program.
static void wait_until_main_is_gone(void) {
    char state = 'R';
    while (state != 'Z') {
        char line[64] = "";
        int file = open("/proc/self/stat", O_RDONLY);
        CHECK(file >= 0 && read(file, line, sizeof line - 1) > 0 && close(file) == 0);
        CHECK(sscanf(line, "%*d (%*[^)]) %c", &state) == 1);
        usleep(1000);
    }
}

static void *cancel_main(void *main_thread) {
    CHECK(pthread_cancel(*(pthread_t *)main_thread) == 0);
    CHECK(pthread_join(*(pthread_t *)main_thread, NULL) == 0);
    wait_until_main_is_gone();
    return NULL;
}

// The last thread is the one that cancels the first, and not one that the program did not start.
static int case_cancelled(char **arguments) {
    (void)arguments;
    static pthread_t self;
    pthread_t thread;
    self = pthread_self();
    atexit(say_end);
    unsigned char *block = malloc(64 * MEGABYTE);
    fill(block, 64 * MEGABYTE, 1);
    free(block);
    free(malloc(100));
    CHECK(pthread_create(&thread, NULL, cancel_main, &self) == 0);
    for (;;) {
        pause();
    }
}

static int case_exit_by_number(char **arguments) {
    (void)arguments;
    unsigned char *block = malloc(64 * MEGABYTE);
    fill(block, 64 * MEGABYTE, 1);
    free(block);
    free(malloc(100));
    return (int)syscall(SYS_exit, 7);
}

static int case_small_stack(char **arguments) {
    (void)arguments;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN) == 0);
    uint64_t total;
    CHECK(pthread_create(&thread, &attributes, thread_work, &total) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    printf("%016llx\n", (unsigned long long)total);
    return 0;
}

// A collector of garbage stops another thread by a signal, wherever it is: in malloc, too. What it
// does then waits for nobody in the C library.
static sem_t stopped, resumed;

static void stop(int signal) {
    (void)signal;
    sem_post(&stopped);
    while (sem_wait(&resumed) != 0) {}
}

static void *allocate_for_ever(void *unused) {
    for (;;) {
        unsigned char *block = malloc(300 << 10);
        block[0] = block[200 << 10] = 1;
        free(block);
    }
    return unused;
}

static void collect(unsigned char *to, unsigned char *from, int round) {
    unsigned char *page = to + PAGE - ((uintptr_t)to & (PAGE - 1));
    struct rusage usage;
    from[round]++;
    memcpy(to, from, MEGABYTE);
    CHECK(memcmp(to, from, MEGABYTE) == 0);
    CHECK(mprotect(page, PAGE, PROT_READ) == 0);
    CHECK(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
    CHECK(madvise(page, PAGE, MADV_DONTNEED) == 0 && *page == 0);
    memset(to, 0, MEGABYTE);
    CHECK(to[0] == 0 && to[MEGABYTE - 1] == 0);
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
}

static int case_stopped(char **arguments) {
    (void)arguments;
    pthread_t thread;
    unsigned char *from = malloc(MEGABYTE), *to = malloc(MEGABYTE), *more = malloc(MEGABYTE);
    CHECK(from && to && more && sem_init(&stopped, 0, 0) == 0 && sem_init(&resumed, 0, 0) == 0);
    CHECK(signal(SIGUSR1, stop) != SIG_ERR);
    memset(from, 1, MEGABYTE);
    memcpy(more, from, MEGABYTE);
    CHECK(pthread_create(&thread, NULL, allocate_for_ever, NULL) == 0);
    for (int round = 0; round < 300; round++) {
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
        while (sem_wait(&stopped) != 0) {}
        collect(to, from, round);
        sem_post(&resumed);
    }
    puts("done");
    fflush(stdout);
    _exit(0);
}

// Who goes through the modules holds a lock of the dynamic loader's, and waits for a thread that
// copies.
static pthread_mutex_t modules = PTHREAD_MUTEX_INITIALIZER;

static int look_at_module(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)info, (void)size, (void)unused;
    pthread_mutex_lock(&modules);
    pthread_mutex_unlock(&modules);
    return 0;
}

static void *look_at_modules(void *unused) {
    for (int i = 0; i < 20000; i++) {
        dl_iterate_phdr(look_at_module, NULL);
    }
    return unused;
}

static int case_modules(char **arguments) {
    (void)arguments;
    pthread_t thread;
    unsigned char *from = malloc(MEGABYTE), *to = malloc(MEGABYTE);
    memset(from, 1, MEGABYTE);
    memcpy(to, from, MEGABYTE);
    CHECK(pthread_create(&thread, NULL, look_at_modules, NULL) == 0);
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&modules);
        from[i]++;
        memcpy(to, from, MEGABYTE / 8);
        CHECK(memcmp(to, from, MEGABYTE / 8) == 0);
        pthread_mutex_unlock(&modules);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    puts("done");
    return 0;
}

// A process that shares our memory, begun by the other name of clone.
extern int __clone(int (*start)(void *), void *stack, int flags, void *argument, ...);

struct tally {
    uint32_t *words;
    atomic_bool ends;
    uint32_t total;
};

static int store_for_ever(void *argument) {
    struct tally *tally = argument;
    for (; !tally->ends; tally->total++) {
        tally->words[tally->total * 1024u % (MEGABYTE / 4)]++;
    }
    return 0;
}

static int case_other_clone(char **arguments) {
    (void)arguments;
    static struct tally tally;
    unsigned char *stack = malloc(MEGABYTE), *to = malloc(MEGABYTE);
    uint32_t sum = 0;
    tally.words = malloc(MEGABYTE);
    memset(tally.words, 0, MEGABYTE);
    pid_t child = __clone(store_for_ever, stack + MEGABYTE, CLONE_VM | SIGCHLD, &tally);
    CHECK(child > 0);
    for (int i = 0; i < 500; i++) {
        memcpy(to, tally.words, MEGABYTE);
    }
    tally.ends = true;
    wait_well(child);
    for (size_t i = 0; i < MEGABYTE / 4; i += 1024) {
        sum += tally.words[i];
    }
    CHECK(sum == tally.total);
    puts("done");
    return 0;
}

// A coroutine runs on a stack that malloc gave, and copies it.
static ucontext_t outside, coroutine;
static unsigned char *own_stack;

static void copy_own_stack(void) {
    for (int i = 0; i < 20; i++) {
        unsigned char *copy = malloc(MEGABYTE);
        memcpy(copy, own_stack, MEGABYTE);
        CHECK(memcmp(copy, own_stack, MEGABYTE / 2) == 0);
        CHECK(mprotect(own_stack + PAGE - ((uintptr_t)own_stack & (PAGE - 1)), PAGE,
                       i % 2 ? PROT_READ | PROT_WRITE : PROT_READ) == 0);
        memset(own_stack + MEGABYTE / 4, 0, MEGABYTE / 4);
        free(copy);
        work(3, 300 << 10);
    }
}

static int case_own_stack(char **arguments) {
    (void)arguments;
    say_work("before");
    for (int shared = 0; shared < 2; shared++) {
        own_stack = malloc(MEGABYTE);
        unsigned char *copy = malloc(MEGABYTE);
        memset(own_stack, 1, MEGABYTE);
        if (shared) {
            memcpy(copy, own_stack, MEGABYTE);
        }
        CHECK(getcontext(&coroutine) == 0);
        coroutine.uc_stack.ss_sp = own_stack;
        coroutine.uc_stack.ss_size = MEGABYTE;
        coroutine.uc_link = &outside;
        makecontext(&coroutine, copy_own_stack, 0);
        CHECK(swapcontext(&outside, &coroutine) == 0);
        free(own_stack);
        free(copy);
    }
    puts("done");
    return 0;
}

// A signal handler on a stack of SIGSTKSZ as it is in older programs gives advice about a block
// that shares pages, beside another thread. What lies below the stack is the program's.
#define HANDLERS_STACK 8192

static unsigned char *advised;

static void discard_part(int signal) {
    (void)signal;
    CHECK(madvise(advised, MEGABYTE, MADV_DONTNEED) == 0);
}

static void *sleep_for_ever(void *unused) {
    for (;;) {
        pause();
    }
    return unused;
}

static int case_handlers_stack(char **arguments) {
    (void)arguments;
    static unsigned char below[2 * HANDLERS_STACK];
    stack_t stack = {.ss_sp = below + HANDLERS_STACK, .ss_size = HANDLERS_STACK};
    struct sigaction action = {.sa_handler = discard_part, .sa_flags = SA_ONSTACK};
    pthread_t thread;
    unsigned char *from = malloc(8 * MEGABYTE), *to = malloc(8 * MEGABYTE);
    say_work("before");
    for (size_t i = 0; i < 8 * MEGABYTE; i++) {
        from[i] = (unsigned char)(i / PAGE + 1);
    }
    memcpy(to, from, 8 * MEGABYTE);
    advised = to + MEGABYTE - ((uintptr_t)to & (PAGE - 1));
    CHECK(madvise(from - ((uintptr_t)from & (PAGE - 1)), PAGE, MADV_NORMAL) == 0); // found by now
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, sleep_for_ever, NULL) == 0);
    memset(below, 0x5a, HANDLERS_STACK);
    raise(SIGUSR1);
    for (size_t i = 0; i < HANDLERS_STACK; i++) {
        CHECK(below[i] == 0x5a);
    }
    CHECK(advised[0] == 0 && advised[MEGABYTE - 1] == 0 && to[0] == 1);
    puts("done");
    return 0;
}

// A thread with a small stack starts a program that is preloaded with a sanitizer, in a long
// environment.
static void *start_program(void *unused) {
    char *const arguments[] = {"true", NULL};
    pid_t child = 0;
    CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0);
    wait_well(child);
    return unused;
}

static int case_many_variables(char **arguments) {
    (void)arguments;
    pthread_attr_t attributes;
    pthread_t thread;
    char text[4096];
    const char *preload = getenv("LD_PRELOAD");
    say_work("before");
    snprintf(text, sizeof text, "%s:libasan.so.99", preload ? preload : "");
    CHECK(setenv("LD_PRELOAD", text, 1) == 0);
    for (int i = 0; i < 6000; i++) {
        snprintf(text, sizeof text, "VARIABLE_%d", i);
        CHECK(setenv(text, "1", 1) == 0);
    }
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN) == 0);
    CHECK(pthread_create(&thread, &attributes, start_program, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    // An environment that cannot be read is refused by the kernel.
    char **volatile nowhere = (char **)16;
    char *words[] = {"true", NULL}, *unreadable[] = {"A=1", (char *)nowhere, NULL};
    CHECK(execve("/bin/true", words, nowhere) == -1 && errno == EFAULT);
    CHECK(execve("/bin/true", words, unreadable) == -1 && errno == EFAULT);
    puts("done");
    return 0;
}

const struct program_case thread_cases[] = {
    {"many-variables", case_many_variables},
    {"threads", case_threads},
    {"at-once", case_at_once},
    {"fork-in-threads", case_fork_in_threads},
    {"exit-in-thread", case_exit_in_thread},
    {"pthread-exit", case_pthread_exit},
    {"exit-alone", case_exit_alone},
    {"exit-by-number", case_exit_by_number},
    {"cancelled", case_cancelled},
    {"small-stack", case_small_stack},
    {"stopped", case_stopped},
    {"modules", case_modules},
    {"own-stack", case_own_stack},
    {"handlers-stack", case_handlers_stack},
    {"other-clone", case_other_clone},
    {NULL, NULL},
};
