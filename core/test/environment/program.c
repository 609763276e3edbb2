// SPDX-License-Identifier: MIT
//
// The program that runs in hostile environments, plain and under the preloaded library:
//     program CASE [ARGUMENT...]
// It knows nothing of Pagewise. What it prints must be the same in both runs; environment.py says
// what the statistics must show.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE     ((size_t)4096)
#define MEGABYTE ((size_t)1 << 20)
#define BLOCKS   16

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                       \
            fflush(stdout);                                                                        \
            _exit(99);                                                                             \
        }                                                                                          \
    } while (0)

extern char **environ;
static const char *own_path;

// --- the work -----------------------------------------------------------------

static void fill(unsigned char *block, size_t size, uint64_t seed) {
    uint64_t word = seed * 0x9e3779b97f4a7c15u;
    for (size_t at = 0; at + 8 <= size; at += 8) {
        memcpy(block + at, &word, 8);
        word = word * 6364136223846793005u + 1442695040888963407u;
    }
}

static uint64_t sum(const unsigned char *block, size_t size) {
    uint64_t total = size, word;
    for (size_t at = 0; at + 8 <= size; at += 8) {
        memcpy(&word, block + at, 8);
        total = (total ^ word) * 0x100000001b3u;
    }
    return total;
}

// Allocate, copy, modify, resize and free, and say what came of it.
static uint64_t work(int rounds, size_t size) {
    unsigned char *blocks[BLOCKS] = {0};
    size_t sizes[BLOCKS] = {0};
    uint64_t total = 0;
    for (int round = 0; round < rounds; round++) {
        int to = round % BLOCKS, from = (round * 7 + 3) % BLOCKS;
        free(blocks[to]);
        sizes[to] = size + (size_t)(round % 5) * 3000;
        blocks[to] = round % 6 == 5 ? calloc(1, sizes[to]) : malloc(sizes[to]);
        CHECK(blocks[to] != NULL);
        if (blocks[from] && from != to) {
            size_t common = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
            if (round % 6 != 5) {
                fill(blocks[to], sizes[to], (uint64_t)round);
            }
            memcpy(blocks[to], blocks[from], common);
            blocks[to][common / 2] ^= 1;
            blocks[from][common / 3] ^= 2;
        } else {
            fill(blocks[to], sizes[to], (uint64_t)round);
        }
        if (round % 9 == 8) {
            unsigned char *moved = realloc(blocks[from], sizes[from] + size / 2);
            CHECK(moved != NULL);
            memset(moved + sizes[from], 0, size / 2);
            blocks[from] = moved;
            sizes[from] += size / 2;
        }
        total = (total ^ sum(blocks[to], sizes[to])) * 31;
    }
    for (int i = 0; i < BLOCKS; i++) {
        total = (total ^ (blocks[i] ? sum(blocks[i], sizes[i]) : 1)) * 31;
        free(blocks[i]);
    }
    return total;
}

static void say_work(const char *when) {
    printf("%s: %016llx\n", when, (unsigned long long)work(60, MEGABYTE));
    fflush(stdout);
}

static int case_work(char **arguments) {
    (void)arguments;
    say_work("work");
    return 0;
}

// --- limits -------------------------------------------------------------------

static size_t status_kb(const char *name) {
    char line[200];
    size_t kilobytes = 0, length = strlen(name);
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (!strncmp(line, name, length) && line[length] == ':') {
            kilobytes = strtoul(line + length + 1, NULL, 10);
        }
    }
    if (file) {
        fclose(file);
    }
    return kilobytes;
}

static void limit(int resource, rlim_t value) {
    struct rlimit now;
    CHECK(getrlimit(resource, &now) == 0);
    now.rlim_cur = value;
    CHECK(setrlimit(resource, &now) == 0);
}

// Room for the work, but not for much more; then none at all.
static int case_address_space(char **arguments) {
    size_t room = strtoul(arguments[0], NULL, 10) * MEGABYTE;
    limit(RLIMIT_AS, status_kb("VmSize") * 1024 + room);
    say_work("limited");
    void *blocks[4096];
    int count = 0;
    while (count < 4096 && (blocks[count] = malloc(MEGABYTE)) != NULL) {
        memset(blocks[count], count, MEGABYTE);
        count++;
    }
    CHECK(count < 4096 && errno == ENOMEM && count > 4);
    for (int i = 0; i < count; i++) {
        CHECK(((unsigned char *)blocks[i])[MEGABYTE / 2] == (unsigned char)i);
    }
    while (count > 0) {
        free(blocks[--count]);
    }
    CHECK(calloc(1, SIZE_MAX / 4) == NULL && errno == ENOMEM);
    say_work("again");
    return 0;
}

static int case_descriptors(char **arguments) {
    (void)arguments;
    int lowest = dup(0);
    CHECK(lowest >= 0);
    close(lowest);
    limit(RLIMIT_NOFILE, (rlim_t)lowest);
    CHECK(dup(0) < 0 && errno == EMFILE);
    say_work("no descriptor left");
    return 0;
}

static int case_file_size_later(char **arguments) {
    (void)arguments;
    say_work("unlimited");
    limit(RLIMIT_FSIZE, 1000);
    say_work("limited");
    limit(RLIMIT_FSIZE, 0);
    say_work("nothing");
    return 0;
}

static int case_lock_everything(char **arguments) {
    (void)arguments;
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    say_work("locked");
    return 0;
}

static int case_lock_limit(char **arguments) {
    (void)arguments;
    limit(RLIMIT_MEMLOCK, 65536);
    say_work("little may be locked");
    return 0;
}

// Mappings until the kernel allows no more.
static int case_mappings(char **arguments) {
    size_t spare = strtoul(arguments[0], NULL, 10), pages = 140000;
    char *area = mmap(NULL, pages * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    size_t page = 0;
    while (page < pages && mprotect(area + page * PAGE, PAGE, PROT_NONE) == 0) {
        page += 2;
    }
    CHECK(page < pages);
    for (size_t i = 0; i < spare; i++) { // two mappings fewer each
        page -= 2;
        CHECK(mprotect(area + page * PAGE, PAGE, PROT_READ) == 0);
    }
    say_work("mappings are short");
    munmap(area, pages * PAGE);
    say_work("mappings are back");
    return 0;
}

// More copies of one block than mappings are allowed.
static int case_many_copies(char **arguments) {
    (void)arguments;
    size_t size = 40 << 10;
    int count = 24000;
    unsigned char *first = malloc(size), **copies = malloc((size_t)count * sizeof *copies);
    fill(first, size, 1);
    for (int i = 0; i < count; i++) {
        copies[i] = malloc(size);
        CHECK(copies[i] != NULL);
        memcpy(copies[i], first, size);
        copies[i][i % size] ^= 1;
    }
    for (int i = 0; i < count; i++) {
        copies[i][i % size] ^= 1;
        CHECK(i % 50 || memcmp(copies[i], first, size) == 0);
        free(copies[i]);
    }
    say_work("many copies");
    return 0;
}

// What is in swap stays there when zero pages are looked for.
static int case_swap(char **arguments) {
    (void)arguments;
    size_t size = 8 * MEGABYTE;
    unsigned char *blocks[10];
    for (int i = 0; i < 10; i++) {
        blocks[i] = malloc(size);
        fill(blocks[i], size, (uint64_t)i);
        memset(blocks[i] + size / 2, 0, size / 4);
    }
    unsigned char *copy = malloc(size);
    memcpy(copy, blocks[0], size);
    size_t before = status_kb("VmSwap");
    size_t (*ended)(void) = (size_t(*)(void))dlsym(RTLD_DEFAULT, "pw_collection_ended");
    if (ended) {
        ended();
    }
    size_t after = status_kb("VmSwap");
    fprintf(stderr, "swap %zu %zu\n", before, after);
    uint64_t total = sum(copy, size);
    for (int i = 0; i < 10; i++) {
        total = (total ^ sum(blocks[i], size)) * 31;
        free(blocks[i]);
    }
    printf("swap: %016llx\n", (unsigned long long)total);
    say_work("swap");
    return 0;
}

// Every page of a vector that lies in a snapshot alone must be in the core file.
static int case_core(char **arguments) {
    (void)arguments;
    limit(RLIMIT_CORE, RLIM_INFINITY);
    size_t size = 2 * MEGABYTE;
    char *one = malloc(size), *other = malloc(size);
    for (size_t page = 0; page < size / PAGE; page++) {
        snprintf(one + page * PAGE + 64, 64, "core mark %zu of %s", page, "a shared vector");
    }
    memcpy(other, one, size);
    madvise(NULL, 0, 0);
    printf("about to abort\n");
    fflush(stdout);
    abort();
}

// --- system calls denied ------------------------------------------------------

static void deny(long number, uint32_t argument_1, int error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, argument_1, argument_1 ? 0 : 0, argument_1 ? 1 : 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

struct scan_request {
    uint64_t fields[12];
};

// Deny a call, then run `program work` under that filter.
static int case_denied(char **arguments) {
    static const struct {
        const char *name;
        long number;
        uint32_t argument_1;
    } calls[] = {
        {"memfd_create", SYS_memfd_create, 0},
        {"userfaultfd", SYS_userfaultfd, 0},
        {"mremap", SYS_mremap, 0},
        {"madvise", SYS_madvise, 0},
        {"fallocate", SYS_fallocate, 0},
        {"pwrite64", SYS_pwrite64, 0},
        {"pread64", SYS_pread64, 0},
        {"ftruncate", SYS_ftruncate, 0},
        {"mlock", SYS_mlock, 0},
        {"prlimit64", SYS_prlimit64, 0},
        {"pagemap_scan", SYS_ioctl, (uint32_t)_IOWR('f', 16, struct scan_request)},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (!strcmp(calls[i].name, arguments[0])) {
            deny(calls[i].number, calls[i].argument_1, atoi(arguments[1]));
            unsetenv("PAGEWISE_TEST_OUTER");
            execl(own_path, own_path, "work", (char *)NULL);
        }
    }
    CHECK(!"known call");
    return 1;
}

// --- processes ----------------------------------------------------------------

static void wait_well(pid_t child) {
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

static int case_spawn(char **arguments) {
    (void)arguments;
    say_work("before");
    unsigned char *block = malloc(2 * MEGABYTE), *copy = malloc(2 * MEGABYTE);
    fill(block, 2 * MEGABYTE, 5);
    memcpy(copy, block, 2 * MEGABYTE);
    for (int i = 0; i < 5; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execl("/bin/echo", "echo", "vfork", (char *)NULL);
            _exit(1);
        }
        wait_well(child);
        char *command[] = {(char *)(uintptr_t) "echo", (char *)(uintptr_t) "spawn", NULL};
        CHECK(posix_spawn(&child, "/bin/echo", NULL, NULL, command, environ) == 0);
        wait_well(child);
        CHECK(system("echo system; exit 0") == 0);
        FILE *pipe = popen("echo popen", "r");
        char line[20];
        CHECK(pipe && fgets(line, sizeof line, pipe) && pclose(pipe) == 0);
        copy[i * PAGE] ^= 1;
    }
    char *self[] = {(char *)(uintptr_t)own_path, (char *)(uintptr_t) "work", NULL};
    pid_t child;
    CHECK(posix_spawn(&child, own_path, NULL, NULL, self, environ) == 0);
    wait_well(child);
    printf("%016llx\n", (unsigned long long)sum(copy, 2 * MEGABYTE));
    say_work("after");
    return 0;
}

static void close_all(int from) {
    if (close_range((unsigned)from, ~0u, 0) != 0) {
        for (int fd = from; fd < 4096; fd++) {
            close(fd);
        }
    }
}

static int case_close_all(char **arguments) {
    (void)arguments;
    close_all(3);
    say_work("closed before");
    unsigned char *block = malloc(4 * MEGABYTE), *copy = malloc(4 * MEGABYTE);
    fill(block, 4 * MEGABYTE, 5);
    memcpy(copy, block, 4 * MEGABYTE);
    for (int i = 0; i < 10; i++) {
        close_all(3);
        unsigned char *next = malloc(4 * MEGABYTE);
        memcpy(next, copy, 4 * MEGABYTE);
        next[(size_t)i * PAGE * 10] ^= 1;
        free(copy);
        copy = next;
        say_work("closed again");
    }
    printf("%016llx %016llx\n", (unsigned long long)sum(block, 4 * MEGABYTE),
           (unsigned long long)sum(copy, 4 * MEGABYTE));
    return 0;
}

// As daemon(3) and many servers do it; the result goes to a file.
static int case_daemon(char **arguments) {
    unsigned char *block = malloc(4 * MEGABYTE), *copy = malloc(4 * MEGABYTE);
    fill(block, 4 * MEGABYTE, 5);
    memcpy(copy, block, 4 * MEGABYTE);
    int done[2];
    CHECK(pipe(done) == 0);
    if (fork() != 0) {
        char byte;
        close(done[1]);
        CHECK(read(done[0], &byte, 1) == 1);
        return 0;
    }
    CHECK(setsid() >= 0);
    if (fork() != 0) {
        _exit(0);
    }
    CHECK(dup2(done[1], 3) == 3 && chdir("/") == 0);
    close_all(4);
    close(0);
    close(1);
    close(2);
    CHECK(open("/dev/null", O_RDWR) == 0);
    CHECK(open(arguments[0], O_WRONLY | O_CREAT | O_APPEND, 0600) == 1 && dup(0) == 2);
    copy[100] ^= 1;
    free(block);
    block = malloc(4 * MEGABYTE);
    memcpy(block, copy, 4 * MEGABYTE);
    printf("%016llx\n", (unsigned long long)sum(block, 4 * MEGABYTE));
    say_work("daemon");
    CHECK(write(3, "x", 1) == 1);
    _exit(0);
}

// --- descriptors reused -------------------------------------------------------

static int descriptor_named(const char *part, int otherwise) {
    DIR *directory = opendir("/proc/self/fd");
    int found = otherwise;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char target[PATH_MAX] = "";
        if (readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1) > 0 &&
            strstr(target, part)) {
            found = atoi(entry->d_name);
        }
    }
    closedir(directory);
    return found;
}

static void check_file(int fd, size_t size, uint64_t seed) {
    unsigned char *expected = malloc(size), *got = malloc(size);
    fill(expected, size, seed);
    CHECK(pread(fd, got, size, 0) == (ssize_t)size);
    CHECK(memcmp(expected, got, size) == 0);
    free(expected);
    free(got);
}

// The program closes a descriptor it does not know and gets its number for a file of its own.
static int case_reuse(char **arguments) {
    size_t size = 4 * MEGABYTE;
    unsigned char *blocks[6];
    for (int i = 0; i < 6; i++) {
        blocks[i] = malloc(size);
    }
    fill(blocks[0], size, 7);
    for (int i = 1; i < 6; i++) {
        memcpy(blocks[i], blocks[0], size);
    }
    int number = descriptor_named(arguments[0], 700);
    close(number);
    int own = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(own >= 0 && dup2(own, number) == number);
    unsigned char *data = malloc(size);
    fill(data, size, 99);
    CHECK(write(number, data, size) == (ssize_t)size);
    for (int i = 1; i < 6; i++) {
        blocks[i][(size_t)i * PAGE] ^= 1;
        CHECK(memcmp(blocks[i] + 10 * PAGE, blocks[0] + 10 * PAGE, size - 10 * PAGE) == 0);
        check_file(number, size, 99);
        free(blocks[i]); // would punch
        blocks[i] = malloc(size);
        memcpy(blocks[i], blocks[0], size);
    }
    say_work("reused");
    check_file(number, size, 99);
    struct stat status;
    CHECK(fstat(number, &status) == 0 && status.st_size == (off_t)size);
    CHECK((size_t)status.st_blocks * 512 >= size);
    for (int i = 0; i < 6; i++) {
        printf("%016llx\n", (unsigned long long)sum(blocks[i], size));
        free(blocks[i]);
    }
    check_file(own, size, 99);
    return 0;
}

// --- signals ------------------------------------------------------------------

static unsigned char *signal_from, *signal_to;
static volatile sig_atomic_t signals_seen;
static sigjmp_buf jump;

static void start_timer(void (*handler)(int), int flags, int microseconds) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void stop_timer(void) {
    struct itimerval timer = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
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
    errno = saved;
}

static int case_fork_in_handler(char **arguments) {
    (void)arguments;
    return signals_with(fork_in_handler, 0, 20000);
}

static void jump_out(int number) {
    (void)number;
    signals_seen++;
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
    start_timer(jump_out, 0, 700);
    while (signals_seen < 1500) {
        if (sigsetjmp(jump, 1) == 0) {
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

// --- threads ------------------------------------------------------------------

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

// Our memory outlives whoever loaded a library that uses it.
static int case_dlclose(char **arguments) {
    void *library = dlopen(arguments[0], RTLD_NOW);
    CHECK(library != NULL);
    bool (*start)(const char *) = (bool (*)(const char *))dlsym(library, "pw_start");
    void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(library, "pw_allocate");
    void (*release)(void *) = (void (*)(void *))dlsym(library, "pw_free");
    void *(*copy)(void *, const void *, size_t) =
        (void *(*)(void *, const void *, size_t))dlsym(library, "pw_copy");
    CHECK(start && allocate && release && copy && start("modules=all,share=always,decay=1"));
    unsigned char *one = allocate(20 * MEGABYTE), *other = allocate(20 * MEGABYTE);
    fill(one, 20 * MEGABYTE, 1);
    copy(other, one, 20 * MEGABYTE);
    unsigned char *warm = allocate(20 * MEGABYTE);
    fill(warm, 20 * MEGABYTE, 2);
    release(warm); // and now a thread waits to give it back
    CHECK(dlclose(library) == 0);
    other[5] ^= 1;
    CHECK(memcmp(one + PAGE, other + PAGE, 20 * MEGABYTE - PAGE) == 0);
    usleep(2500000);
    say_work("closed");
    return 0;
}

// --- the library's own functions ----------------------------------------------

// Ten copies that are answered by a plain one: each must be looked at once.
static int case_ten_copies(char **arguments) {
    (void)arguments;
    void *(*copy)(void *, const void *, size_t) =
        (void *(*)(void *, const void *, size_t))dlsym(RTLD_DEFAULT, "pw_copy");
    unsigned char *from = malloc(MEGABYTE), *to = malloc(MEGABYTE);
    fill(from, MEGABYTE, 4);
    for (int i = 0; i < 10; i++) {
        (copy ? copy : memmove)(to, from, MEGABYTE);
    }
    CHECK(memcmp(from, to, MEGABYTE) == 0);
    return 0;
}

// --- idle ---------------------------------------------------------------------

// Free a large block and do nothing more, until standard input ends.
static int case_idle(char **arguments) {
    (void)arguments;
    unsigned char *block = malloc(64 * MEGABYTE);
    CHECK(block != NULL);
    fill(block, 64 * MEGABYTE, 1);
    printf("%016llx\n", (unsigned long long)sum(block, 64 * MEGABYTE));
    fflush(stdout);
    free(block);
    char byte;
    return read(STDIN_FILENO, &byte, 1) == 0 ? 0 : 1;
}

// --- main ---------------------------------------------------------------------

static const struct {
    const char *name;
    int (*function)(char **arguments);
} cases[] = {
    {"work", case_work},
    {"address-space", case_address_space},
    {"descriptors", case_descriptors},
    {"file-size-later", case_file_size_later},
    {"lock-everything", case_lock_everything},
    {"lock-limit", case_lock_limit},
    {"mappings", case_mappings},
    {"many-copies", case_many_copies},
    {"swap", case_swap},
    {"core", case_core},
    {"denied", case_denied},
    {"spawn", case_spawn},
    {"close-all", case_close_all},
    {"daemon", case_daemon},
    {"reuse", case_reuse},
    {"signals", case_signals},
    {"small-signal-stack", case_small_signal_stack},
    {"fork-in-handler", case_fork_in_handler},
    {"jump-out", case_jump_out},
    {"threads", case_threads},
    {"fork-in-threads", case_fork_in_threads},
    {"exit-in-thread", case_exit_in_thread},
    {"pthread-exit", case_pthread_exit},
    {"small-stack", case_small_stack},
    {"dlclose", case_dlclose},
    {"ten-copies", case_ten_copies},
    {"idle", case_idle},
};

int main(int count, char **arguments) {
    own_path = arguments[0];
    for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (!strcmp(cases[i].name, arguments[1])) {
            return cases[i].function(arguments + 2);
        }
    }
    fprintf(stderr, "program: no such case\n");
    return 2;
}
