// SPDX-License-Identifier: MIT
//
// Who else owns malloc, and who comes first:  order CASE [ARGUMENT...]
// What it prints must be the same plain and under the preloaded library; order.py runs it.
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>

extern char **environ;

static void wait_well(pid_t child) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// Ends what hangs: nothing else happens for so long.
static void expect_end_within(unsigned seconds) {
    alarm(seconds);
}

// --- forks ------------------------------------------------------------------------

static atomic_bool stop;

static void *read_lines(void *path) {
    while (!stop) {
        FILE *file = fopen(path, "r");
        char *line = NULL;
        size_t size = 0;
        CHECK(file);
        while (getline(&line, &size, file) > 0) {
            free(line);
            line = NULL;
            size = 0;
        }
        free(line);
        fclose(file);
    }
    return NULL;
}

static void *flush_all(void *unused) {
    while (!stop) {
        fflush(NULL);
    }
    return unused;
}

// A stream's lock, the lock of all streams and ours.
static int case_fork_streams(char **arguments) {
    pthread_t reader, flusher;
    expect_end_within(60);
    CHECK(pthread_create(&reader, NULL, read_lines, arguments[0]) == 0);
    CHECK(pthread_create(&flusher, NULL, flush_all, NULL) == 0);
    for (int i = 0; i < 400; i++) {
        pid_t child = fork();
        if (child == 0) {
            FILE *file = fopen(arguments[0], "r"); // the child's streams work
            char line[20];
            _exit(file && fgets(line, sizeof line, file) && fclose(file) == 0 ? 0 : 1);
        }
        wait_well(child);
    }
    stop = true;
    pthread_join(reader, NULL);
    pthread_join(flusher, NULL);
    puts("400 forks");
    return 0;
}

static atomic_int flushing, forking; // thread ids

static void wait_till_asleep(atomic_int *thread) {
    char path[64], line[256];
    for (int seen = 0; seen < 3;) {
        usleep(2000);
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", *thread);
        int file = open(path, O_RDONLY | O_CLOEXEC); // a stream would need the lock of all of them
        ssize_t size = file < 0 ? 0 : read(file, line, sizeof line - 1);
        close(file);
        line[size > 0 ? size : 0] = 0;
        char *state = strrchr(line, ')');
        seen = state && state[2] == 'S' ? seen + 1 : 0;
    }
}

static void *flush_once(void *unused) {
    flushing = gettid();
    fflush(NULL);
    return unused;
}

static void *fork_once(void *unused) {
    forking = gettid();
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    wait_well(child);
    return unused;
}

// The circle of the case before, each step made certain: this thread has a stream, a second one all
// streams and waits for that one, a third one forks; then this one allocates.
static int case_fork_stream_held(char **arguments) {
    pthread_t flusher, forker;
    expect_end_within(60);
    void *block = malloc(MEGABYTE);
    FILE *stream = fopen(arguments[0], "r");
    CHECK(block && stream);
    flockfile(stream);
    CHECK(pthread_create(&flusher, NULL, flush_once, NULL) == 0);
    wait_till_asleep(&flushing);
    CHECK(pthread_create(&forker, NULL, fork_once, NULL) == 0);
    wait_till_asleep(&forking);
    for (size_t size = 16; size < 3 * MEGABYTE; size += size / 2) { // more than a thread keeps
        void **list = NULL;
        for (size_t count = 0; count < 500 && count * size < 8 * MEGABYTE; count++) {
            void **larger = malloc(size);
            CHECK(larger);
            *larger = list;
            list = larger;
        }
        while (list) {
            void **next = *list;
            free(list);
            list = next;
        }
    }
    block = realloc(block, 2 * MEGABYTE);
    free(block);
    funlockfile(stream);
    pthread_join(flusher, NULL);
    pthread_join(forker, NULL);
    fclose(stream);
    puts("done");
    return 0;
}

// With a library that joins a thread which allocates, before each fork (order_library.c).
static int case_fork_handlers(char **arguments) {
    int forks = atoi(arguments[0]);
    expect_end_within(60);
    for (int i = 0; i < forks; i++) {
        usleep(1000);
        pid_t child = fork();
        if (child == 0) {
            char *large = malloc(MEGABYTE), *small = malloc(333);
            large[5] = small[5] = 1;
            free(large);
            free(small);
            _exit(0);
        }
        wait_well(child);
    }
    printf("%d forks\n", forks);
    return 0;
}

// --- the loader's lock --------------------------------------------------------------

static void *load_again_and_again(void *path) {
    for (int i = 0; i < 400; i++) {
        void *library = dlopen(path, RTLD_NOW);
        CHECK(library && dlclose(library) == 0);
    }
    stop = true;
    return NULL;
}

static int case_loader_lock(char **arguments) {
    pthread_t loader;
    unsigned char *one = malloc(MEGABYTE), *other = malloc(MEGABYTE);
    expect_end_within(60);
    memset(one, 1, MEGABYTE);
    CHECK(pthread_create(&loader, NULL, load_again_and_again, arguments[0]) == 0);
    while (!stop) {
        unsigned char *more = malloc(MEGABYTE);
        memcpy(other, one, MEGABYTE);
        memcpy(more, other, MEGABYTE);
        CHECK(more[5 * PAGE] == 1);
        free(more);
    }
    pthread_join(loader, NULL);
    puts("400 loads");
    return 0;
}

static sem_t constructing, made;

static void wait_for_thread(void) {
    sem_post(&constructing);
    sem_wait(&made);
}

static void *no_work(void *argument) {
    return argument;
}

static int make_thread(void *unused) {
    (void)unused;
    pthread_t thread;
    sem_wait(&constructing);
    CHECK(pthread_create(&thread, NULL, no_work, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    sem_post(&made);
    return 0;
}

// A library's constructor waits for the first call of pthread_create. The thread that makes it was
// made by another function.
static int case_constructor_waits(char **arguments) {
    thrd_t maker;
    char address[32];
    expect_end_within(60);
    CHECK(sem_init(&constructing, 0, 0) == 0 && sem_init(&made, 0, 0) == 0);
    CHECK(thrd_create(&maker, make_thread, NULL) == thrd_success);
    snprintf(address, sizeof address, "%zx", (size_t)(uintptr_t)wait_for_thread);
    CHECK(setenv("PLUGIN_CALLS", address, 1) == 0);
    CHECK(dlopen(arguments[0], RTLD_NOW) != NULL);
    CHECK(thrd_join(maker, NULL) == thrd_success);
    puts("loaded");
    return 0;
}

// --- blocks that others resize ---------------------------------------------------------

extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

// A module that we do not reach shrinks a block in place.
static int case_usable_after_shrink(char **arguments) {
    (void)arguments;
    unsigned char *block = malloc(MEGABYTE);
    memset(block, 1, MEGABYTE);
    unsigned char *shrunk = __libc_realloc(block, 300000);
    size_t usable = malloc_usable_size(shrunk);
    CHECK(usable >= 300000);
    memset(shrunk + 300000, 2, usable - 300000);
    shrunk = realloc(shrunk, usable);
    for (size_t i = 0; i < usable; i++) {
        CHECK(shrunk[i] == (i < 300000 ? 1 : 2));
    }
    free(shrunk);
    puts("well");
    return 0;
}

static void map_over(unsigned char *block) {
    unsigned char *page = (unsigned char *)(((uintptr_t)block + PAGE - 1) & ~(PAGE - 1)) + 2 * PAGE;
    CHECK(mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1,
               0) == page);
    memset(page, 7, PAGE);
    malloc_trim(0);
    unsigned char *next = calloc(1, MEGABYTE);
    CHECK(next && page[0] == 7 && page[PAGE - 1] == 7);
    free(next);
    CHECK(munmap(page, PAGE) == 0);
}

// A module that we do not reach releases blocks, and the program changes how memory is mapped.
static int case_change_after_release(char **arguments) {
    (void)arguments;
    unsigned char *blocks[3];
    for (int i = 0; i < 3; i++) {
        blocks[i] = malloc(MEGABYTE);
        memset(blocks[i], i, MEGABYTE);
    }
    __libc_free(blocks[0]);
    __libc_free(blocks[2]);
    if (mlockall(MCL_CURRENT) == 0) { // the limit may be too low for it
        CHECK(munlockall() == 0);
    }
    map_over(blocks[0]);
    CHECK(blocks[1][MEGABYTE - 1] == 1);
    free(blocks[1]);
    puts("well");
    return 0;
}

// --- another malloc (order_malloc.c) ---------------------------------------------------

static int case_other_malloc(char **arguments) {
    int (*owns)(const void *) = (int (*)(const void *))dlsym(RTLD_DEFAULT, "other_owns");
    void (*release)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "other_release");
    CHECK(owns && release);
    bool all = arguments[0] != NULL;
    void *blocks[] = {malloc(10),        malloc(MEGABYTE),     calloc(10, 10),
                      calloc(10, 30000), memalign(64, 100),    aligned_alloc(4096, MEGABYTE),
                      valloc(5000),      strdup("duplicated"), realloc(NULL, 300000)};
    void *posix = NULL;
    CHECK(posix_memalign(&posix, 64, 5000) == 0);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        CHECK(!all || owns(blocks[i]));
        CHECK(malloc_usable_size(blocks[i]) >= 10);
        memset(blocks[i], 1, malloc_usable_size(blocks[i]));
        blocks[i] = realloc(blocks[i], i % 2 ? 20 : 400000);
        blocks[i] = reallocarray(blocks[i], 2, 200000);
        CHECK(!all || owns(blocks[i]));
        if (all && i % 2) {
            release(blocks[i]); // the other one's own function
        } else {
            free(blocks[i]);
        }
    }
    free(posix);
    puts("well");
    return 0;
}

// --- a dlsym that another library wraps (order_dlsym.c) --------------------------------------

// Who comes before us asks the C library itself, so that its free stays the C library's.
static int case_wrapped_dlsym(char **arguments) {
    void *library = dlopen("libc.so.6", RTLD_LAZY);
    const char *answer = library ? dlsym(library, "pagewise_of_the_wrapper") : NULL;
    void (*release)(void *) = (void (*)(void *))dlsym(library, "free");
    CHECK(release);
    if (strcmp(arguments[0], "behind") == 0) {
        release(strdup("text"));
        release(malloc(MEGABYTE));
    }
    free(malloc(50));
    puts(answer ? answer : "of nobody");
    return 0;
}

// --- libraries with a scope of their own --------------------------------------------------

// Blocks go to and fro between the program and a plugin (order_plugin.c).
static int exchange_blocks(void *library) {
    void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(library, "plugin_allocate");
    char *(*copy)(const char *) = (char *(*)(const char *))dlsym(library, "plugin_copy");
    void (*release)(void *) = (void (*)(void *))dlsym(library, "plugin_release");
    int (*work)(void) = (int (*)(void))dlsym(library, "plugin_work");
    CHECK(allocate && copy && release && work);
    for (int i = 0; i < 200; i++) {
        size_t size = (size_t)1 << (i % 22);
        char *theirs = allocate(size), *ours = malloc(size), *text = copy("some text");
        memset(theirs, 1, size);
        memset(ours, 2, size);
        theirs = realloc(theirs, 2 * size);
        CHECK(theirs[size - 1] == 1 && strcmp(text, "some text") == 0);
        free(theirs);
        release(ours);
        release(text);
        CHECK(work() == 1);
    }
    puts("exchanged");
    return 0;
}

static int case_deepbind(char **arguments) {
    void *library = dlopen(arguments[0], RTLD_NOW | RTLD_DEEPBIND);
    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    return exchange_blocks(library);
}

// Found by the search path of the library that calls dlopen, and of no other.
static int case_search_path(char **arguments) {
    void *library = dlopen(arguments[0], RTLD_NOW);
    void *(*load)(const char *, int) =
        library ? (void *(*)(const char *, int))dlsym(library, "plugin_load") : NULL;
    CHECK(load);
    for (int flags = 0; flags <= RTLD_DEEPBIND; flags += RTLD_DEEPBIND) {
        printf("%s, %s\n", dlopen(arguments[1], RTLD_NOW | flags) ? "found" : "not found",
               load(arguments[1], RTLD_NOW | flags) ? "found" : "not found");
    }
    return 0;
}

static int case_namespace(char **arguments) {
    void *library = dlmopen(LM_ID_NEWLM, arguments[0], RTLD_NOW);
    int (*work)(void) = library ? (int (*)(void))dlsym(library, "plugin_work") : NULL;
    CHECK(work);
    for (int i = 0; i < 100; i++) {
        char *own = malloc(MEGABYTE);
        CHECK(work() == 1);
        own[5] = 1;
        free(own);
    }
    puts("well");
    return 0;
}

// --- before the start and after the end ----------------------------------------------------

static char *early_large, *early_small;

__attribute__((constructor)) static void allocate_early(void) {
    early_large = malloc(300000);
    early_small = malloc(30);
    memset(early_large, 5, 300000);
    memset(early_small, 5, 30);
}

__attribute__((destructor)) static void free_late(void) {
    free(early_large);
    free(early_small);
}

#define KEYS 40

static pthread_key_t keys[KEYS];

// Allocates and frees when other destructors have run already, and once more after that.
static void end_of_thread(void *block) {
    char *large = malloc(500000), *small = malloc(40);
    CHECK(large && small);
    large[1] = small[1] = 1;
    bool again = *(char *)block < 3;
    if (again) {
        ++*(char *)block;
        for (int i = 0; i < KEYS; i += 7) {
            if (!pthread_getspecific(keys[i])) {
                pthread_setspecific(keys[i], block);
                block = NULL;
                break;
            }
        }
    }
    free(block);
    free(large);
    free(small);
}

static void *short_thread(void *unused) {
    for (int i = 0; i < KEYS; i++) {
        char *block = calloc(1, i % 2 ? 50 : 200000);
        CHECK(pthread_setspecific(keys[i], block) == 0);
    }
    return unused;
}

static int case_ends(char **arguments) {
    (void)arguments;
    for (int i = 0; i < KEYS; i++) {
        CHECK(pthread_key_create(&keys[i], end_of_thread) == 0);
    }
    for (int i = 0; i < 200; i++) {
        pthread_t threads[3];
        for (int j = 0; j < 3; j++) {
            CHECK(pthread_create(&threads[j], NULL, short_thread, NULL) == 0);
        }
        for (int j = 0; j < 3; j++) {
            CHECK(pthread_join(threads[j], NULL) == 0);
        }
    }
    early_large = realloc(early_large, 900000);
    early_small = realloc(early_small, 700000);
    CHECK(early_large[299999] == 5 && early_small[29] == 5);
    early_large = realloc(early_large, 100);
    CHECK(early_large[99] == 5);
    puts("well");
    return 0;
}

// --- other programs ------------------------------------------------------------------------

static char **command;

static void start_by(const char *how) {
    const char *path = command[0];
    if (!strcmp(how, "execve")) {
        execve(path, command, environ);
    } else if (!strcmp(how, "execv")) {
        execv(path, command);
    } else if (!strcmp(how, "execvp")) {
        execvp(path, command);
    } else if (!strcmp(how, "execvpe")) {
        execvpe(path, command, environ);
    } else if (!strcmp(how, "execl")) {
        execl(path, path, "one", (char *)NULL);
    } else if (!strcmp(how, "execlp")) {
        execlp(path, path, "one", (char *)NULL);
    } else if (!strcmp(how, "execle")) {
        execle(path, path, "one", (char *)NULL, environ);
    } else if (!strcmp(how, "fexecve")) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        fexecve(fd, command, environ);
    } else if (!strcmp(how, "execveat")) {
        execveat(AT_FDCWD, path, command, environ, 0);
    } else if (!strcmp(how, "execveat-file")) {
        int fd = open(path, O_PATH | O_CLOEXEC);
        execveat(fd, "", command, environ, AT_EMPTY_PATH);
    }
}

static const char *how_in_handler;

static void start_in_handler(int signal) {
    (void)signal;
    pid_t child = fork();
    if (child == 0) {
        start_by(how_in_handler);
        _exit(98);
    }
    int status;
    waitpid(child, &status, 0);
}

static void start_on_small_stack(const char *how) {
    static char stack[16 << 10];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = start_in_handler, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&other, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    how_in_handler = how;
    raise(SIGUSR1);
}

static void start_out_of_vfork(const char *how) {
    printf("%s\n", how);
    fflush(stdout);
    pid_t child = vfork();
    if (child == 0) {
        start_by(how);
        _exit(98);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    printf("status %x\n", status);
    fflush(stdout);
}

// start PATH ARGUMENT: in every way, out of vfork and out of a signal handler.
static int case_start(char **arguments) {
    static const char *const ways[] = {"execve", "execv",  "execvp",  "execvpe",  "execl",
                                       "execlp", "execle", "fexecve", "execveat", "execveat-file"};
    command = arguments;
    bool is_path = strchr(command[0], '/') != NULL;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        bool searches = strchr(ways[i] + 4, 'p') != NULL;
        if (!is_path && !searches) {
            continue;
        }
        start_out_of_vfork(ways[i]);
        start_on_small_stack(ways[i]);
    }
    pid_t child;
    int status = -1;
    if (is_path) {
        CHECK(posix_spawn(&child, command[0], NULL, NULL, command, environ) == 0);
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    }
    CHECK(posix_spawnp(&child, command[0], NULL, NULL, command, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child);
    printf("spawned: %x\n", status);
    return 0;
}

// What exec answers where there is nothing to start.
static int case_start_nothing(char **arguments) {
    (void)arguments;
    char *words[] = {(char *)(uintptr_t) "x", NULL};
    static const char *const paths[] = {"/nowhere/x", "/", "", "/dev/null", "/etc/passwd"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        pid_t child;
        int by_path = execve(paths[i], words, environ) == -1 ? errno : 0;
        int by_name = execvpe(paths[i], words, environ) == -1 ? errno : 0;
        int spawned = posix_spawn(&child, paths[i], NULL, NULL, words, environ);
        printf("%d %d %d\n", by_path, by_name, spawned);
    }
    const char *nowhere = (const char *)(uintptr_t)16; // the kernel says so
    pid_t child;
    int by_path = execve(nowhere, words, environ) == -1 ? errno : 0;
    int at = execveat(AT_FDCWD, nowhere, words, environ, 0) == -1 ? errno : 0;
    printf("%d %d %d\n", by_path, at, posix_spawn(&child, nowhere, NULL, NULL, words, environ));
    return 0;
}

static int case_say(char **arguments) {
    const char *preload = getenv("LD_PRELOAD");
    char *block = malloc(MEGABYTE);
    block[5] = 1;
    printf("%s %s\n", arguments[0], preload ? preload : "nothing");
    free(block);
    return 0;
}

// --- all ---------------------------------------------------------------------------------

static const struct {
    const char *name;
    int (*function)(char **arguments);
} cases[] = {
    {"fork-streams", case_fork_streams},
    {"fork-stream-held", case_fork_stream_held},
    {"fork-handlers", case_fork_handlers},
    {"loader-lock", case_loader_lock},
    {"constructor-waits", case_constructor_waits},
    {"usable-after-shrink", case_usable_after_shrink},
    {"change-after-release", case_change_after_release},
    {"other-malloc", case_other_malloc},
    {"wrapped-dlsym", case_wrapped_dlsym},
    {"deepbind", case_deepbind},
    {"search-path", case_search_path},
    {"namespace", case_namespace},
    {"ends", case_ends},
    {"start", case_start},
    {"start-nothing", case_start_nothing},
    {"say", case_say},
};

int main(int count, char **arguments) {
    for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (!strcmp(cases[i].name, arguments[1])) {
            return cases[i].function(arguments + 2);
        }
    }
    fprintf(stderr, "order: no such case\n");
    return 2;
}
