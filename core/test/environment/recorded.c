// SPDX-License-Identifier: MIT
//
// Allocates known numbers of blocks of known sizes, in a hostile way that its argument names. What
// the recorder should have seen is printed as "expect SIZE ALLOCATIONS FREES".

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)sysconf(_SC_PAGESIZE)) // this is compiled by others as well

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, strerror(errno));   \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

static void expect(size_t size, int allocations, int frees) {
    printf("expect %zu %d %d\n", size, allocations, frees);
    fflush(stdout);
}

static void allocate(int count, size_t size) {
    for (int i = 0; i < count; i++) {
        CHECK(malloc(size));
    }
}

static void churn(int count, size_t size) {
    for (int i = 0; i < count; i++) {
        char *block = malloc(size);
        CHECK(block);
        block[0] = block[size - 1] = 1;
        free(block);
    }
}

// --- every function -----------------------------------------------------------

// As ctypes and FFI find the C library's functions.
static void by_handle(void) {
    void *library = RTLD_DEFAULT; // other processors
#if defined(__x86_64__) || defined(__aarch64__)
    library = dlopen("libc.so.6", RTLD_LAZY);
    CHECK(library);
#endif
    void *(*allocate_there)(size_t) = (void *(*)(size_t))dlsym(library, "malloc");
    void (*free_there)(void *) = (void (*)(void *))dlsym(library, "free");
    free_there(malloc(10016));
    expect(10016, 1, 1);
    free(allocate_there(10017));
    expect(10017, 1, 1);
}

static void every_function(bool has_pvalloc) {
    void *block;
    free(malloc(10001));
    expect(10001, 1, 1);
    free(calloc(2, 5002));
    expect(10004, 1, 1);
    block = realloc(NULL, 10005);
    block = realloc(block, 10006);
    block = realloc(block, 300007);
    free(block);
    expect(10005, 1, 1);
    expect(10006, 1, 1);
    expect(300007, 1, 1);
    block = reallocarray(malloc(10008), 3, 10009);
    CHECK(block && !reallocarray(block, SIZE_MAX / 2, 3) && errno == ENOMEM);
    expect(10008, 1, 1);
    expect(30027, 1, 1);
    CHECK(!realloc(block, SIZE_MAX / 2)); // still there, and no allocation
    free(block);
    CHECK(posix_memalign(&block, 256, 10010) == 0 && (uintptr_t)block % 256 == 0);
    free(block);
    expect(10010, 1, 1);
    CHECK(posix_memalign(&block, 3, 10010) == EINVAL);
    free(memalign(64, 10011));
    free(aligned_alloc(64, 10048));
    free(valloc(10013));
    if (has_pvalloc) {
        free(pvalloc(10014));
        expect(10014, 1, 1);
        by_handle();
    }
    expect(10011, 1, 1);
    expect(10048, 1, 1);
    expect(10013, 1, 1);
    CHECK(!calloc(SIZE_MAX / 2, 3) && !malloc(SIZE_MAX / 2));
    free(NULL);
    errno = 77;
    free(malloc(10015));
    CHECK(errno == 77);
    expect(10015, 1, 1);
    size_t huge = (size_t)5 << 30;
    block = malloc(huge); // not touched
    CHECK(block);
    free(block);
    expect(huge, 1, 1);
}

// --- processes -----------------------------------------------------------------

static void wait_for(pid_t child, int status_wanted) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == status_wanted);
}

static void forks(void) {
    allocate(100, 11001);
    void *mine = malloc(11002);
    pid_t child = fork();
    if (child == 0) {
        free(mine); // the parent's
        allocate(50, 11003);
        churn(1000, 11004);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            allocate(25, 11005);
            _exit(0);
        }
        wait_for(grandchild, 0);
        exit(0);
    }
    wait_for(child, 0);
    allocate(10, 11006);
    CHECK(system("true") == 0);
    allocate(10, 11006);
    expect(11001, 100, 0);
    expect(11002, 1, 0);
    expect(11006, 20, 0);
    printf("child 11003 50 0\nchild 11004 1000 1000\ngrandchild 11005 25 0\n");
}

static void execs(char *program) {
    allocate(30, 12001);
    printf("before 12001 30 0\n");
    fflush(stdout);
    execl(program, program, "every-function", (char *)NULL);
    CHECK(0);
}

static void dies(int signal) {
    allocate(70000, 1301);
    expect(1301, 70000, 0);
    raise(signal);
}

// --- threads -------------------------------------------------------------------

#define THREADS 8
#define PASSED  2000

static void *passed[THREADS][PASSED];

static void *work(void *number) {
    int own = (int)(intptr_t)number;
    churn(5000, 14001);
    for (int i = 0; i < PASSED; i++) {
        void *block = malloc(14002);
        CHECK(block);
        __atomic_store_n(&passed[own][i], block, __ATOMIC_RELEASE);
    }
    // The blocks of the thread beside us, as they appear.
    for (int i = 0; i < PASSED; i++) {
        void *block;
        while (!(block = __atomic_load_n(&passed[(own + 1) % THREADS][i], __ATOMIC_ACQUIRE))) {}
        free(block);
    }
    return NULL;
}

static void *brief(void *unused) {
    churn(10, 14003);
    return unused;
}

static void threads(void) {
    pthread_t all[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&all[i], NULL, work, (void *)(intptr_t)i) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(all[i], NULL);
    }
    for (int i = 0; i < 500; i++) {
        CHECK(pthread_create(&all[0], NULL, brief, NULL) == 0);
        pthread_join(all[0], NULL);
    }
    expect(14001, THREADS * 5000, THREADS * 5000);
    expect(14002, THREADS * PASSED, THREADS * PASSED);
    expect(14003, 5000, 5000);
}

static void *resize(void *unused) {
    for (int i = 0; i < 10000; i++) {
        void *block = malloc(14007);
        CHECK(block && (block = realloc(block, 28008)) && (block = realloc(block, 14009)));
        free(block);
    }
    return unused;
}

// What one thread's realloc releases is the next one's at once.
static void resizes(void) {
    pthread_t all[THREADS];
    CHECK(mallopt(M_ARENA_MAX, 1) == 1);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&all[i], NULL, resize, NULL) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(all[i], NULL);
    }
    expect(14007, THREADS * 10000, THREADS * 10000);
    expect(28008, THREADS * 10000, THREADS * 10000);
    expect(14009, THREADS * 10000, THREADS * 10000);
}

// A destructor of a key of the program's, called in every round of them, the last one included:
// after the recorder's own.
static pthread_key_t late;

static void free_late(void *rounds) {
    uintptr_t left = (uintptr_t)rounds - 1;
    churn(5, 14004);
    free(realloc(malloc(14005), 14006));
    if (left) {
        CHECK(pthread_setspecific(late, (void *)left) == 0);
    }
}

static void *end_late(void *unused) {
    CHECK(pthread_setspecific(late, (void *)(uintptr_t)PTHREAD_DESTRUCTOR_ITERATIONS) == 0);
    return unused;
}

static void late_frees(void) {
    pthread_t thread;
    CHECK(pthread_key_create(&late, free_late) == 0);
    for (int i = 0; i < 200; i++) {
        CHECK(pthread_create(&thread, NULL, end_late, NULL) == 0);
        pthread_join(thread, NULL);
    }
    int rounds = 200 * PTHREAD_DESTRUCTOR_ITERATIONS;
    expect(14004, 5 * rounds, 5 * rounds);
    expect(14005, rounds, rounds);
    expect(14006, rounds, rounds);
}

// A fork while other threads allocate: theirs are no threads of the child.
static volatile int is_over;

static void *allocate_on(void *unused) {
    while (!is_over) {
        churn(10, 15001);
    }
    return unused;
}

static void threads_and_forks(void) {
    pthread_t others[3];
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&others[i], NULL, allocate_on, NULL) == 0);
    }
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            churn(100, 15002);
            pthread_t own;
            CHECK(pthread_create(&own, NULL, brief, NULL) == 0);
            pthread_join(own, NULL);
            exit(0);
        }
        wait_for(child, 0);
    }
    is_over = 1;
    for (int i = 0; i < 3; i++) {
        pthread_join(others[i], NULL);
    }
    printf("children 20 15002 100 100\n");
}

// A child of a fork in a signal's handler returns from it, and goes on with what its parent was
// doing. It is made without the C library, as by a language that has none.
enum { FORKS_IN_HANDLERS = 60 };
static pid_t children[FORKS_IN_HANDLERS];
static volatile int forked, is_child;

static void *allocate_and_wait(void *unused) {
    churn(1000, 903);
    while (!is_over) {
        usleep(1000);
    }
    return unused;
}

static void fork_here(int signal) {
    (void)signal;
    if (is_child || forked == FORKS_IN_HANDLERS) {
        return;
    }
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        is_child = 1;
        usleep(2000); // its parent has written the record, and others behind it
        return;
    }
    CHECK(child > 0);
    children[forked++] = child;
}

static void forks_in_handlers(void) {
    pthread_t others[2];
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    CHECK(pthread_sigmask(SIG_BLOCK, &alarms, NULL) == 0); // the others' for good
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&others[i], NULL, allocate_and_wait, NULL) == 0);
    }
    CHECK(pthread_sigmask(SIG_UNBLOCK, &alarms, NULL) == 0);
    struct sigaction action = {.sa_handler = fork_here, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    int count = 0;
    while (forked < FORKS_IN_HANDLERS && !is_child) {
        free(malloc(901));
        count++;
    }
    if (is_child) {
        churn(100, 902);
        _exit(0);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    for (int i = 0; i < FORKS_IN_HANDLERS; i++) {
        wait_for(children[i], 0);
    }
    is_over = 1;
    for (int i = 0; i < 2; i++) {
        pthread_join(others[i], NULL);
    }
    expect(901, count, count);
    expect(903, 2000, 2000);
}

// --- descriptors and limits ------------------------------------------------------

static void closes_all(void) {
    char name[] = "/tmp/pagewise-recorded-XXXXXX";
    allocate(10, 16001);
    for (int fd = 3; fd < 1100; fd++) {
        close(fd);
    }
    // The program's own file gets the numbers that were ours.
    int own[600];
    for (int i = 0; i < 600; i++) {
        own[i] = i ? dup(own[0]) : mkstemp(name);
        CHECK(own[i] >= 0);
    }
    unlink(name);
    CHECK(write(own[0], "mine", 4) == 4);
    churn(200000, 16002);
    struct stat status;
    CHECK(fstat(own[0], &status) == 0 && status.st_size == 4);
    expect(16001, 10, 0);
    expect(16002, 200000, 200000);
}

static void meets_limit(void) {
    struct rlimit limit = {512 << 10, 512 << 10};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    churn(300000, 17001);
    printf("partial 17001\n");
}

static void loses_folder(void) {
    const char *options = getenv("PAGEWISE_RECORD");
    const char *folder = options ? strstr(options, "spool=") : NULL;
    char command[1200];
    churn(100, 18001);
    if (folder) {
        snprintf(command, sizeof command, "rm -rf %.*s", (int)strcspn(folder + 6, ","), folder + 6);
        pid_t child = fork();
        if (child == 0) {
            unsetenv("LD_PRELOAD");
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        }
        wait_for(child, 0);
    }
    churn(300000, 18001);
    printf("lost\n");
}

// The child can make its file, and nothing in it.
static void fills_disk_and_forks(void) {
    churn(300000, 18002);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            churn(300000, 18003);
            exit(0);
        }
        wait_for(child, 0);
    }
    puts("forked 3");
}

// --- signals -------------------------------------------------------------------

// A thread whose stack for signals lies above its own: what the handler allocates in the middle of
// a record is no call that comes after it. Blocks of its own size, which malloc has at hand.
enum { CALLS_BELOW = 400000 };
static volatile int interruptions;

static void allocate_above(int signal) {
    (void)signal;
    churn(1, 904);
    interruptions++;
}

static void *allocate_below(void *above) {
    stack_t stack = {.ss_sp = above, .ss_size = 256 << 10};
    struct sigaction action = {.sa_handler = allocate_above, .sa_flags = SA_ONSTACK | SA_RESTART};
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    churn(1, 904);
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &alarms, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    churn(CALLS_BELOW, 905);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    return NULL;
}

static void handlers_above(void) {
    size_t half = 1 << 20;
    char *stacks = mmap(NULL, 2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    CHECK(stacks != MAP_FAILED && pthread_sigmask(SIG_BLOCK, &alarms, NULL) == 0);
    pthread_attr_t below;
    pthread_t thread;
    CHECK(pthread_attr_init(&below) == 0 && pthread_attr_setstack(&below, stacks, half) == 0);
    CHECK(pthread_create(&thread, &below, allocate_below, stacks + half) == 0);
    CHECK(pthread_join(thread, NULL) == 0 && interruptions > 100);
    expect(905, CALLS_BELOW, CALLS_BELOW);
}

static sigjmp_buf back;

static void jump_out(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

// Where the allocation that was left seems to be still at work.
__attribute__((noinline)) static void further_down(void) {
    volatile char stack[8192];
    stack[0] = 1;
    for (int i = 0; i < 100; i++) {
        free(malloc(19004)); // one of them is the first to be recorded again
    }
    churn(1000, 19001);
    stack[8191] = stack[0];
    CHECK(stack[8191] == 1);
}

// recorded_behind.c raises the signal within malloc(19000), and calls malloc and free within
// realloc.
static void jumps_out(void) {
    struct sigaction action = {.sa_handler = jump_out};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 10; i++) {
        if (sigsetjmp(back, 1) == 0) {
            CHECK(!malloc(19000)); // does not return
        }
    }
    further_down();
    free(realloc(malloc(19002), 19003));
    expect(22002, 1, 1);
    expect(19001, 1000, 1000);
    expect(19002, 1, 1);
    expect(19003, 1, 1);
}

// --- modules -------------------------------------------------------------------

static void loads_libraries(void) {
    for (int i = 0; i < 3; i++) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        CHECK(library);
        dlclose(library);
    }
    churn(100, 20001);
    expect(20001, 100, 100);
}

// A function of a library.
static void *function_of(void *library, const char *name) {
    void *function = dlsym(library, name);
    CHECK(function);
    return function;
}

static void *load_alone(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    return library;
}

typedef void *make_block(size_t size);

// What another thread has called from a place that is another library's later on.
struct caller {
    make_block *make;
    size_t size;
    pthread_barrier_t turn;
};

static void *call_in_turns(void *context) {
    struct caller *caller = context;
    for (int turn = 0; turn < 2; turn++) {
        pthread_barrier_wait(&caller->turn);
        for (int i = 0; i < 100; i++) {
            free(caller->make(caller->size));
        }
        pthread_barrier_wait(&caller->turn);
    }
    return NULL;
}

static void *use_plugin(const char *path, int number, size_t size, struct caller *other) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    int (*number_of)(void) = (int (*)(void))function_of(library, "plugin_number");
    make_block *make = (make_block *)function_of(library, "plugin_block");
    CHECK(number_of() == number);
    for (int i = 0; i < 100; i++) {
        free(make(size));
    }
    if (other) {
        other->make = make;
        other->size = size + 100;
        pthread_barrier_wait(&other->turn);
        pthread_barrier_wait(&other->turn);
        expect(size + 100, 100, 100);
    }
    expect(size, 100, 100);
    CHECK(dlclose(library) == 0);
    return (void *)(uintptr_t)make;
}

// Libraries 1 and 2, one after the other where the first one was, and the first one again; then
// 2 under the name of 1.
static void reuses_addresses(const char *one, const char *two, const char *copy,
                             const char *other_copy) {
    pthread_t thread;
    struct caller other;
    CHECK(pthread_barrier_init(&other.turn, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, call_in_turns, &other) == 0);
    void *first = use_plugin(one, 1, 24001, &other);
    void *second = use_plugin(two, 2, 24002, &other);
    pthread_join(thread, NULL);
    CHECK(use_plugin(one, 1, 24003, NULL));
    CHECK(use_plugin(copy, 1, 24004, NULL));
    CHECK(rename(other_copy, copy) == 0);
    CHECK(use_plugin(copy, 2, 24005, NULL));
    printf("%s\n", first == second ? "reused" : "not reused");
}

static atomic_int unloading;

static void *unload(void *library) {
    while (!unloading) {}
    CHECK(dlclose(library) == 0);
    unloading = 2;
    while (unloading < 3) {}
    return NULL;
}

// Another thread unloads what this one has called, and in a child of a fork another library comes
// in its place, whose function has a larger frame.
static void forks_after_unloading(const char *one, const char *two) {
    pthread_t thread;
    // Room for what the recorder maps in the child, and none for a library.
    void *room = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *library = load_alone(one);
    make_block *make = (make_block *)function_of(library, "plugin_framed");
    CHECK(pthread_create(&thread, NULL, unload, library) == 0);
    for (int i = 0; i < 100; i++) {
        free(make(24007));
    }
    unloading = 1;
    while (unloading < 2) {}
    CHECK(room != MAP_FAILED && munmap(room, 3 * PAGE) == 0);
    pid_t child = fork();
    if (child == 0) {
        library = load_alone(two);
        make_block *other = (make_block *)function_of(library, "plugin_framed");
        if (other != make) {
            puts("not reused");
        }
        for (int i = 0; i < 100; i++) {
            free(other(24008));
        }
        _exit(fflush(stdout));
    }
    wait_for(child, 0);
    unloading = 3;
    CHECK(pthread_join(thread, NULL) == 0);
    expect(24007, 100, 100);
}

// By a name that means nothing where the program has gone to.
static void loads_by_relative_name(const char *name) {
    void *library = load_alone(name);
    make_block *make = (make_block *)function_of(library, "plugin_block");
    CHECK(chdir("/") == 0);
    for (int i = 0; i < 100; i++) {
        free(make(24006));
    }
    expect(24006, 100, 100);
}

// This program is C, so that no operator new is in its scope.
static void loads_cplusplus(const char *path) {
    void *library = load_alone(path);
    void *(*new_block)(size_t) = (void *(*)(size_t))function_of(library, "new_block");
    void (*delete_block)(void *) = (void (*)(void *))function_of(library, "delete_block");
    int (*use_each_form)(size_t) = (int (*)(size_t))function_of(library, "use_each_form");
    int (*ask_for_too_much)(size_t) = (int (*)(size_t))function_of(library, "ask_for_too_much");
    for (int i = 0; i < 100; i++) {
        delete_block(new_block(23001));
    }
    CHECK(use_each_form(23002) == 0);
    CHECK(ask_for_too_much(SIZE_MAX / 2) == 0);
    expect(23001, 100, 100);
    expect(23002, 2, 2);
    expect(23040, 1, 1);
}

// The constructor waits for a thread, which is the first that calls operator new.
static void loads_waiting(const char *path) {
    alarm(30); // else it would wait for ever
    load_alone(path);
    churn(10, 23006);
    expect(23006, 10, 10);
}

// One that has operators of its own: they are called for it, and for nobody else.
static void loads_own_operators(const char *path, const char *other) {
    void *library = load_alone(path);
    void *(*new_block)(size_t) = (void *(*)(size_t))function_of(library, "new_block");
    void (*delete_block)(void *) = (void (*)(void *))function_of(library, "delete_block");
    int (*own_calls)(void) = (int (*)(void))function_of(library, "own_calls");
    void *block = new_block(23003);
    CHECK(own_calls() == 1);
    loads_cplusplus(other);
    CHECK(own_calls() == 1);
    delete_block(block);
    CHECK(own_calls() == 2);
    expect(23003 + 32, 1, 1);
}

__attribute__((noinline)) static void *third(void) {
    void *block = malloc(21001);
    __asm__ volatile("" ::: "memory");
    return block;
}

__attribute__((noinline)) static void *second(void) {
    void *block = third();
    __asm__ volatile("" ::: "memory");
    return block;
}

__attribute__((noinline)) static void *first(void) {
    void *block = second();
    __asm__ volatile("" ::: "memory");
    return block;
}

static void on_own_stack(int signal) {
    (void)signal;
    free(first());
}

static void stacks(void) {
    for (int i = 0; i < 100; i++) {
        free(first());
    }
    // Another stack than the thread's.
    static char other[64 << 10] __attribute__((aligned(16)));
    stack_t alternative = {.ss_sp = other, .ss_size = sizeof other};
    struct sigaction action = {.sa_handler = on_own_stack, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&alternative, NULL) == 0 && sigaction(SIGUSR2, &action, NULL) == 0);
    raise(SIGUSR2);
    expect(21001, 101, 101);
}

// --- stacks that differ in some callers ------------------------------------------

#define DEEPEST 90
#define SHOWN   60 // of a stack's callers

static struct {
    const void *returns[3 * DEEPEST];
    int count;
    size_t size;     // of the next block: no two are the same
    uint64_t random; // ways at each level
} way;

static unsigned random_below(unsigned limit) {
    way.random = way.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(way.random >> 33) % limit;
}

// Prints "stack SIZE CALLER CALLER ...", innermost first.
__attribute__((noinline)) static void allocate_here(void) {
    way.returns[way.count] = __builtin_return_address(0);
    free(malloc(++way.size));
    printf("stack %zu", way.size);
    for (int i = way.count; i >= 0 && i > way.count - SHOWN; i--) {
        printf(" %lx", (unsigned long)way.returns[i]);
    }
    printf("\n");
}

// One bit of `turns` a level says by which of two functions, whose frames are alike.
static void go_deeper(uint64_t turns, int level, int deepest);

#define GO(name, word)                                                                             \
    __attribute__((noinline)) static void name(uint64_t turns, int level, int deepest) {           \
        way.returns[way.count++] = __builtin_return_address(0);                                    \
        if (level % 8 == (word) || level == deepest) {                                             \
            allocate_here();                                                                       \
        }                                                                                          \
        if (level < deepest) {                                                                     \
            go_deeper(turns, level + 1, deepest);                                                  \
        }                                                                                          \
        way.count--;                                                                               \
        __asm__ volatile("" ::: "memory");                                                         \
    }
GO(go_left, 3)
GO(go_right, 5)

__attribute__((noinline)) static void go_deeper(uint64_t turns, int level, int deepest) {
    way.returns[way.count++] = __builtin_return_address(0);
    if (turns >> level % 64 & 1) {
        go_left(turns, level, deepest);
    } else {
        go_right(turns, level, deepest);
    }
    way.count--;
    __asm__ volatile("" ::: "memory");
}

// Each way down is the last one but for a level or two, or the same and deeper or less deep.
static void ways(void) {
    uint64_t turns = 0;
    way.size = 100000;
    way.random = 1;
    for (int i = 0; i < 300; i++) {
        turns ^= UINT64_C(1) << random_below(64);
        turns ^= random_below(2) ? UINT64_C(1) << random_below(64) : 0;
        go_deeper(turns, 0, 1 + (int)random_below(DEEPEST - 2));
    }
    expect(100001, 1, 1);
}

// --- stacks that lie ------------------------------------------------------------

// Allocates while the frame of its own caller has `back` for its return address and `pointer` for
// the frame pointer behind it. Both are right again when it goes on: plain, nothing happens.
__attribute__((noinline)) static void lie(size_t size, uintptr_t back, uintptr_t pointer) {
    volatile uintptr_t *frame = __builtin_frame_address(0);
    uintptr_t true_pointer = frame[0], true_back = frame[1];
    frame[0] = pointer ? pointer : true_pointer;
    frame[1] = back ? back : true_back;
    void *volatile block = malloc(size);
    frame[0] = true_pointer;
    frame[1] = true_back;
    free(block);
}

// A caller whose frame is found by its frame pointer, as its size is known at run time alone.
__attribute__((noinline)) static void lie_to(size_t size, uintptr_t back, uintptr_t pointer) {
    volatile char room[size % 64 + 1];
    room[0] = 1;
    lie(size, back, pointer);
    CHECK(room[0] == 1);
}

// Frames that lead to themselves and to each other, behind calls that tables know.
__attribute__((noinline)) static int lie_about_frames(size_t size) {
    const uintptr_t code = (uintptr_t)lie_to;
    volatile uintptr_t frames[1024];
    const uintptr_t low = (uintptr_t)frames, word = sizeof low;
    unsigned times = 0;
    for (unsigned step = 0; step < 8; step++) {
        for (unsigned i = 0; i + 1 < 1024; i += 2) {
            frames[i] = low + (i + step) % 1024 * word;
            frames[i + 1] = code + 16 + step;
        }
        lie_to(size, 0, low);
        lie_to(size, code + 16 + step, low);
        times += 2;
    }
    return (int)times;
}

static uintptr_t pages_at(int protection, int count) {
    char *pages =
        mmap(NULL, (size_t)(count + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK(mprotect(pages + PAGE, (size_t)count * PAGE, protection) == 0);
    CHECK(munmap(pages + PAGE + (size_t)count * PAGE, PAGE) == 0);
    return (uintptr_t)pages + PAGE;
}

static void lies(void) {
    static uintptr_t data[64];
    uintptr_t unmapped = pages_at(PROT_READ, 1), on_stack[64] = {0};
    CHECK(munmap((void *)(unmapped - PAGE), 2 * PAGE) == 0);
    uintptr_t page = pages_at(PROT_READ | PROT_WRITE, 1),
              executable = pages_at(PROT_READ | PROT_EXEC, 1);
    Dl_info info;
    CHECK(dladdr((void *)puts, &info) != 0);
    uintptr_t wrong[] = {
        1,
        8,
        4095,
        4096,
        65537, // low
        unmapped,
        unmapped + 7,
        unmapped + PAGE, // nothing is there
        page,
        page + 100,
        page + PAGE - 1,
        page + PAGE, // no code
        page - 1,
        page - PAGE,
        page - 2048, // PROT_NONE
        executable,
        executable + PAGE - 6,
        executable + PAGE - 1, // no function
        executable + PAGE,     // behind its end
        (uintptr_t)data,
        (uintptr_t)(data + 64),
        (uintptr_t)on_stack, // of the program
        (uintptr_t)info.dli_fbase,
        (uintptr_t)info.dli_fbase + 100, // a library's head
        (uintptr_t)stdout,
        (uintptr_t)environ, //
        0x7ffffffff000,
        0x7fffffffffff,
        0x800000000000, // the end of addresses
        0x8000000000000000,
        0xffff800000000000,
        0xffffffff81000000, // the kernel's
        0xffffffffff600000,
        0xffffffffff600400,
        (uintptr_t)-4096, //
        (uintptr_t)-16,
        (uintptr_t)-8,
        (uintptr_t)-1, //
    };
    int count = sizeof wrong / sizeof *wrong, times = 0;
    for (int i = 0; i < count; i++) {
        lie_to(24001, wrong[i], 0);
        lie_to(24001, 0, wrong[i]);
        lie_to(24001, 0, wrong[i] & ~(uintptr_t)7);
        lie_to(24001, wrong[i], wrong[count - 1 - i]);
        times += 4;
    }
    times += lie_about_frames(24001);
    expect(24001, times, times);
}

// The program's own headers, of which the loader needs nothing any more.
static void overwrites_headers(void) {
    Dl_info info;
    CHECK(dladdr((void *)overwrites_headers, &info) != 0);
    ElfW(Ehdr) *head = info.dli_fbase, before = *head;
    CHECK(mprotect(head, PAGE, PROT_READ | PROT_WRITE) == 0);
    for (int turn = 0; turn < 2; turn++) {
        if (turn == 0) {
            head->e_phoff = (uint64_t)-64;
            head->e_phnum = 2;
        } else {
            memset(head, 0, sizeof *head);
        }
        CHECK(dlclose(load_alone("libm.so.6")) == 0); // nothing counts that was known before
        free(first());
        *head = before;
    }
    expect(21001, 2, 2);
}

// --- pages that come and go -------------------------------------------------------

static int has_ended;

static void *take_away(void *page) {
    while (!__atomic_load_n(&has_ended, __ATOMIC_RELAXED)) {
        CHECK(mprotect(page, PAGE, PROT_NONE) == 0);
        CHECK(mprotect(page, PAGE, PROT_READ) == 0);
    }
    return NULL;
}

// Return addresses lie in a page that another thread takes away and brings back.
static void page_comes_and_goes(void) {
    enum { TIMES = 100000 };
    uintptr_t page = pages_at(PROT_READ | PROT_WRITE, 1);
    memset((void *)page, 0xc3, PAGE);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, take_away, (void *)page) == 0);
    for (int i = 0; i < TIMES; i++) {
        lie_to(24005, page + (uintptr_t)(i % PAGE), 0);
    }
    __atomic_store_n(&has_ended, 1, __ATOMIC_RELAXED);
    CHECK(pthread_join(thread, NULL) == 0);
    expect(24005, TIMES, TIMES);
}

// A page that the program fills itself when somebody reads it: here nobody does.
static void page_to_be_filled(void) {
    uintptr_t page = pages_at(PROT_READ | PROT_WRITE, 1);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.range = {page, PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (fd < 0) {
        puts("cannot fill");
    } else {
        CHECK(ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &range) == 0);
        alarm(20); // else it would wait for ever
        lie_to(24006, page + 100, 0);
        alarm(0);
        expect(24006, 1, 1);
    }
}

// --- code of one's own ------------------------------------------------------------

#ifdef __x86_64__

typedef void *call_for(size_t size, make_block *make);

// Without tables, and without a frame pointer.
static call_for *generate(void) {
    static const unsigned char code[] = {0x48, 0x83, 0xec, 0x08,        // sub $8, %rsp
                                         0xff, 0xd6,                    // call *%rsi
                                         0x48, 0x83, 0xc4, 0x08, 0xc3}; // add $8, %rsp; ret
    uintptr_t page = pages_at(PROT_READ | PROT_WRITE, 1);
    memcpy((void *)page, code, sizeof code);
    CHECK(mprotect((void *)page, PAGE, PROT_READ | PROT_EXEC) == 0);
    return (call_for *)page;
}

__attribute__((noinline)) static void call_generated(size_t size, call_for *call) {
    for (int i = 0; i < 1000; i++) {
        free(call(size, malloc));
    }
}

static pthread_t first_thread;

static void *outlive_first(void *call) {
    CHECK(pthread_join(first_thread, NULL) == 0);
    call_generated(24008, (call_for *)(uintptr_t)call);
    expect(24007, 1000, 1000);
    expect(24008, 1000, 1000);
    expect(22001, 1, 1);
    puts("done");
    exit(0);
}

// The process goes on without its first thread.
static void first_thread_ends(void) {
    call_for *call = generate();
    pthread_t other;
    call_generated(24007, call);
    first_thread = pthread_self();
    CHECK(pthread_create(&other, NULL, outlive_first, (void *)call) == 0);
    pthread_exit(NULL);
}

// Code of the program that no table knows, alone in its pages.
__asm__(".pushsection .text.alone, \"ax\", @progbits\n"
        ".balign 4096\n"
        ".globl call_alone\n"
        ".type call_alone, @function\n"
        "call_alone:\n"
        "    pushq %rbp\n"
        "    movq %rsp, %rbp\n"
        "    call *%rsi\n"
        "    popq %rbp\n"
        "    ret\n"
        ".balign 4096\n"
        ".popsection\n");
extern call_for call_alone;

// Pages that may be run and not read, where the processor can.
static void may_not_be_read(void) {
    call_for *call = generate();
    CHECK(mprotect((void *)call, PAGE, PROT_EXEC) == 0);
    CHECK(mprotect((void *)call_alone, PAGE, PROT_EXEC) == 0);
    call_generated(24009, call);
    call_generated(24010, call_alone);
    expect(24009, 1000, 1000);
    expect(24010, 1000, 1000);
}

#endif

// --- small stacks -----------------------------------------------------------------

// Enough for the C library's malloc.
#define LEFT 4096

__attribute__((noinline)) static void allocate_twice(int number) {
    free(malloc(24011));
    free(malloc(24012));
    (void)number;
}

static void *allocate_with_little_left(void *low) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    volatile char room[here - (uintptr_t)low - LEFT];
    room[0] = 1;
    allocate_twice(room[0]);
    return NULL;
}

// The thread's first allocations are its handler's, on a stack of its own.
static void *allocate_in_handler(void *low) {
    stack_t own = {.ss_sp = low, .ss_size = (size_t)sysconf(_SC_MINSIGSTKSZ) + LEFT};
    CHECK(sigaltstack(&own, NULL) == 0);
    CHECK(pthread_kill(pthread_self(), SIGUSR2) == 0);
    return NULL;
}

static void small_stacks(void) {
    enum { PAGES = 32 }; // the least that a C library takes, on aarch64
    struct sigaction action = {.sa_handler = allocate_twice, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        uintptr_t pages = pages_at(PROT_READ | PROT_WRITE, PAGES);
        pthread_attr_t attributes;
        pthread_t thread;
        CHECK(pthread_attr_init(&attributes) == 0);
        CHECK(i == 1 || pthread_attr_setstack(&attributes, (void *)pages, PAGES * PAGE) == 0);
        void *(*run)(void *) = i == 0 ? allocate_with_little_left : allocate_in_handler;
        CHECK(pthread_create(&thread, &attributes, run, (void *)pages) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    expect(24011, 2, 2);
    expect(24012, 2, 2);
}

// --- forks while others walk --------------------------------------------------------

// By ever other ways, so that none is known.
__attribute__((noinline)) static void descend(unsigned way, size_t size) {
    volatile char room[way % 7 * 16 + 1];
    room[0] = 1;
    if (way > 1) {
        descend(way / 2, size);
    } else {
        free(malloc(size));
    }
    CHECK(room[0] == 1);
}

static void *descend_for_ever(void *number) {
    for (unsigned way = (unsigned)(uintptr_t)number; !__atomic_load_n(&has_ended, __ATOMIC_RELAXED);
         way += 7) {
        descend(way % 4096, 24003);
    }
    return NULL;
}

static void forks_while_others_walk(void) {
    enum { WALKERS = 3, FORKS = 400, OF_CHILD = 50 };
    // Somebody's tables, as of a compiler to memory: from then on libgcc looks under a lock.
    static uint32_t tables[] = {20, 0, 0x78010001, 0x08070c10, 0x00000190, 0,          28, 28,
                                0,  0, 16,         0,          0x0286100e, 0x00060d43, 0,  0};
    uint64_t start = (uintptr_t)tables;
    memcpy(tables + 8, &start, sizeof start);
    void (*volatile add)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "__register_frame");
    if (!add) {
        void *library = dlopen("libgcc_s.so.1", RTLD_NOW);
        add = library ? (void (*)(void *))dlsym(library, "__register_frame") : NULL;
    }
    if (add) {
        add(tables);
    }
    pthread_t walkers[WALKERS];
    for (uintptr_t i = 0; i < WALKERS; i++) {
        CHECK(pthread_create(&walkers[i], NULL, descend_for_ever, (void *)(i * 100)) == 0);
    }
    for (unsigned i = 0; i < FORKS; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(30); // else it would wait for ever
            for (unsigned way = 0; way < OF_CHILD; way++) {
                descend(1000 + way * i, 24002);
            }
            _exit(0);
        }
        wait_for(child, 0);
    }
    __atomic_store_n(&has_ended, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < WALKERS; i++) {
        CHECK(pthread_join(walkers[i], NULL) == 0);
    }
    churn(10, 24004);
    expect(24004, 10, 10);
}

__attribute__((constructor(101))) static void early(void) {
    free(malloc(22001));
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "";
    if (strcmp(mode, "every-function") == 0) {
        every_function(true);
    } else if (strcmp(mode, "other-allocator") == 0) {
        every_function(false); // jemalloc has no pvalloc, and cannot free the C library's
    } else if (strcmp(mode, "fork") == 0) {
        forks();
    } else if (strcmp(mode, "forks-in-handlers") == 0) {
        forks_in_handlers();
    } else if (strcmp(mode, "handlers-above") == 0) {
        handlers_above();
    } else if (strcmp(mode, "exec") == 0) {
        execs(words[0]);
    } else if (strcmp(mode, "crash") == 0) {
        dies(SIGSEGV);
    } else if (strcmp(mode, "kill") == 0) {
        dies(SIGKILL);
    } else if (strcmp(mode, "threads") == 0) {
        threads();
    } else if (strcmp(mode, "threads-and-forks") == 0) {
        threads_and_forks();
    } else if (strcmp(mode, "close-all") == 0) {
        closes_all();
    } else if (strcmp(mode, "file-size") == 0) {
        meets_limit();
    } else if (strcmp(mode, "lost-folder") == 0) {
        loses_folder();
    } else if (strcmp(mode, "jump-out") == 0) {
        jumps_out();
    } else if (strcmp(mode, "dlopen") == 0) {
        loads_libraries();
    } else if (strcmp(mode, "cplusplus") == 0 && count > 2) {
        loads_cplusplus(words[2]);
    } else if (strcmp(mode, "waiting-constructor") == 0 && count > 2) {
        loads_waiting(words[2]);
    } else if (strcmp(mode, "own-operators") == 0 && count > 3) {
        loads_own_operators(words[2], words[3]);
    } else if (strcmp(mode, "reuses-addresses") == 0 && count > 5) {
        reuses_addresses(words[2], words[3], words[4], words[5]);
    } else if (strcmp(mode, "relative-name") == 0 && count > 2) {
        loads_by_relative_name(words[2]);
    } else if (strcmp(mode, "no-room-for-child") == 0) {
        fills_disk_and_forks();
    } else if (strcmp(mode, "resizes") == 0) {
        resizes();
    } else if (strcmp(mode, "late-frees") == 0) {
        late_frees();
    } else if (strcmp(mode, "lies") == 0) {
        lies();
    } else if (strcmp(mode, "forks-while-others-walk") == 0) {
        forks_while_others_walk();
    } else if (strcmp(mode, "overwrites-headers") == 0) {
        overwrites_headers();
    } else if (strcmp(mode, "page-comes-and-goes") == 0) {
        page_comes_and_goes();
    } else if (strcmp(mode, "page-to-be-filled") == 0) {
        page_to_be_filled();
#ifdef __x86_64__
    } else if (strcmp(mode, "first-thread-ends") == 0) {
        first_thread_ends();
    } else if (strcmp(mode, "may-not-be-read") == 0) {
        may_not_be_read();
#endif
    } else if (strcmp(mode, "small-stacks") == 0) {
        small_stacks();
    } else if (strcmp(mode, "fork-after-unloading") == 0 && count > 3) {
        forks_after_unloading(words[2], words[3]);
    } else if (strcmp(mode, "ways") == 0) {
        ways();
    } else if (strcmp(mode, "stacks") == 0) {
        stacks();
    } else {
        return 2;
    }
    expect(22001, 1, 1);
    puts("done");
    return 0;
}
