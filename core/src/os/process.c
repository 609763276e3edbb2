// SPDX-License-Identifier: MIT
#include "os/fault.h"
#include "os/numbers.h"
#include "os/os.h"
#include "os/system_call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint32_t *pw_os_fork_marker(void) {
    int saved = errno;
    int fault = PW_OS_FAULT(PW_POINT_FORK_MARKER); // below 0: the advice is taken, and not followed
    void *page = fault > 0 ? NULL : pw_os_map_table(PW_PAGE);
    if (page && fault == 0 && pw_call_madvise(page, PW_PAGE, MADV_WIPEONFORK) != 0) {
        pw_call_munmap(page, PW_PAGE);
        page = NULL;
    }
    errno = saved;
    return page;
}

// What follows `name` in the text, or NULL.
static const char *after(const char *text, const char *name) {
    const char *found = strstr(text, name);
    return found ? found + strlen(name) : NULL;
}

unsigned pw_os_filter_count(void) {
    // prctl(PR_GET_SECCOMP) would be shorter, and is itself a call that a filter may punish.
    int saved = errno;
    char text[4096];
    ssize_t length = pw_os_read_text("/proc/self/status", text, sizeof text);
    errno = saved;
    if (length <= 0) {
        return PW_OS_FILTERS_UNKNOWN;
    }
    const char *mode = after(text, "\nSeccomp:\t");
    const char *number = after(text, "\nSeccomp_filters:\t"); // since Linux 5.9
    if (!mode) { // a kernel without filters says nothing about them
        return length == (ssize_t)sizeof text - 1 ? PW_OS_FILTERS_UNKNOWN : 0;
    }
    if (*mode == '0') {
        return 0;
    }
    unsigned count = 0;
    for (; number && *number >= '0' && *number <= '9' && count < 100000; number++) {
        count = count * 10 + (unsigned)(*number - '0');
    }
    return *mode == '2' && count > 0 ? count : PW_OS_FILTERS_UNKNOWN;
}

bool pw_os_is_filtered(void) {
    return pw_os_filter_count() > 0;
}

#define MOST_WAITS 2000u // of a millisecond

// A library's handler may wait in the child for a thread that it does not have. Nobody waits for
// that: the child is killed. Where the program has its children reaped by the kernel, it is gone.
static void wait_for_end(pid_t child) {
    for (unsigned wait = 0; wait < MOST_WAITS; wait++) {
        if (waitpid(child, NULL, WNOHANG) != 0) {
            return;
        }
        pw_os_sleep_ns(1000000);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

// The handlers have run where the fork itself is refused, as well. A program's handler of SIGCHLD
// finds no child of ours: it has been waited for by then.
void pw_os_fork_for_handlers(void) {
    int saved = errno;
    struct pw_os_signals signals;
    pw_os_signals_block(&signals);
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    if (child > 0) {
        wait_for_end(child);
    }
    pw_os_signals_restore(&signals);
    errno = saved;
}

int pw_os_thread_id(void) {
    return (int)syscall(SYS_gettid); // gettid() is of 2.30
}

bool pw_os_thread_lives(int thread) {
    int saved = errno;
    bool lives = syscall(SYS_tgkill, getpid(), thread, 0) == 0;
    errno = saved;
    return lives;
}

void pw_os_sleep_ns(long nanoseconds) {
    int saved = errno;
    struct timespec time = {0, nanoseconds};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    errno = saved;
}

unsigned pw_os_thread_count(void) {
    int saved = errno;
    struct stat status;
    // proc(5): the link count of the directory is two plus one for each thread.
    bool known = !PW_OS_FAULT(PW_POINT_THREADS) && stat("/proc/self/task", &status) == 0;
    errno = saved;
    return known && status.st_nlink > 2 ? (unsigned)status.st_nlink - 2 : 0;
}

uint64_t pw_os_resident_pages(void) {
    int saved = errno;
    char text[128];
    unsigned long resident = 0;
    // proc_pid_statm(5): the second number.
    bool known = !PW_OS_FAULT(PW_POINT_RESIDENT) &&
                 pw_os_read_text("/proc/self/statm", text, sizeof text) > 0 &&
                 sscanf(text, "%*u %lu", &resident) == 1;
    errno = saved;
    return known ? resident : 0;
}

uint64_t pw_os_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t nanoseconds(clockid_t clock) {
    struct timespec now = {0};
    int saved = errno;
    clock_gettime(clock, &now);
    errno = saved;
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

uint64_t pw_os_monotonic_ns(void) {
    return nanoseconds(CLOCK_MONOTONIC);
}

uint64_t pw_os_thread_cpu_ns(void) {
    return nanoseconds(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t pw_os_real_ns(void) {
    return nanoseconds(CLOCK_REALTIME);
}

uint64_t pw_os_random(void) {
    uint64_t value = 0;
    const void *bytes = (const void *)getauxval(AT_RANDOM);
    if (bytes) {
        memcpy(&value, bytes, sizeof value);
    }
    return value;
}

// A program that is started without randomization (setarch -R, gdb) is to have the same addresses
// each time.
uint64_t pw_os_layout_seed(void) {
    return (uint64_t)getauxval(AT_RANDOM) / 16 * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

// core(5): bit of coredump_filter for private mappings of files, off by default.
#define CORE_FILE_PRIVATE 0x4u

ssize_t pw_os_read_text(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t got = read(fd, text, size - 1);
    close(fd);
    text[got < 0 ? 0 : got] = 0;
    return got;
}

bool pw_os_random_bytes(void *to, size_t size) {
    int saved = errno;
    bool done = getentropy(to, size) == 0;
    errno = saved;
    return done;
}

// The last name is good as long as there is no descriptor to read it with. A process that was
// checkpointed may go on after a restart: it is read anew where that can be.
uint64_t pw_os_boot_name(void) {
    static _Atomic uint64_t last;
    int saved = errno;
    char text[64];
    uint64_t name = UINT64_C(0xcbf29ce484222325); // FNV-1a
    ssize_t length = pw_os_read_text("/proc/sys/kernel/random/boot_id", text, sizeof text);
    bool limited = length < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
    for (ssize_t i = 0; i < length; i++) {
        name = (name ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    }
    if (limited) {
        name = atomic_load_explicit(&last, memory_order_relaxed);
    } else {
        atomic_store_explicit(&last, name, memory_order_relaxed);
    }
    errno = saved;
    return name;
}

uint32_t pw_os_user(void) {
    return (uint32_t)geteuid();
}

static bool is_limited(__rlimit_resource_t resource) {
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

bool pw_os_address_space_is_limited(void) {
    int saved = errno;
    char text[8];
    bool limited = is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA) ||
                   (pw_os_read_text("/proc/sys/vm/overcommit_memory", text, sizeof text) > 0 &&
                    text[0] == '2');
    errno = saved;
    return limited;
}

void pw_os_include_files_in_core(void) {
    int saved = errno;
    struct rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur > 0) {
        char text[32];
        unsigned filter = 0;
        if (pw_os_read_text("/proc/self/coredump_filter", text, sizeof text) > 0 &&
            sscanf(text, "%x", &filter) == 1) {
            int fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);
            if (fd >= 0) {
                int length = snprintf(text, sizeof text, "0x%x", filter | CORE_FILE_PRIVATE);
                ssize_t ignored = write(fd, text, (size_t)length);
                (void)ignored;
                close(fd);
            }
        }
    }
    errno = saved;
}

uint64_t pw_os_max_map_count(void) {
    int saved = errno;
    char text[32];
    uint64_t count = 65530; // the kernel's default
    if (pw_os_read_text("/proc/sys/vm/max_map_count", text, sizeof text) > 0) {
        unsigned long long read = 0;
        if (sscanf(text, "%llu", &read) == 1 && read > 0) {
            count = read;
        }
    }
    errno = saved;
    return count;
}

size_t pw_os_program_break(void) {
    return (size_t)sbrk(0);
}

int pw_os_pid(void) {
    return (int)getpid();
}

// No control character whatever a text holds that comes from the environment: neither one of ASCII
// nor U+0080 to U+009F, which begin with 0xc2 in UTF-8.
static void keep_one_line(char *line, size_t size) {
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)line[i], before = i ? (unsigned char)line[i - 1] : 0;
        if (byte < ' ' || byte == 127 || (before == 0xc2 && byte >= 0x80 && byte < 0xa0)) {
            line[i] = '?';
        }
    }
}

void pw_os_warn(const char *text, const char *detail) {
    int saved = errno;
    char line[512];
    int length = snprintf(line, sizeof line - 1, "pagewise: %s%s", text, detail ? detail : "");
    if (length > 0) {
        size_t size = (size_t)length < sizeof line - 1 ? (size_t)length : sizeof line - 2;
        keep_one_line(line, size);
        line[size++] = '\n';
        pw_os_write_harmlessly(STDERR_FILENO, line, size);
    }
    errno = saved;
}

// Documentation/accounting/psi.rst: stalled 150 ms within 2 s; unprivileged windows are whole 2 s.
static const char trigger[] = "some 150000 2000000";

// The cgroup's own pressure where there is one (v2), else the machine's.
static int open_pressure(void) {
    char text[1024], path[1200];
    if (pw_os_read_text("/proc/self/cgroup", text, sizeof text) > 0) {
        char *unified = strstr(text, "0::/");
        if (unified) {
            unified[strcspn(unified, "\n")] = 0;
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.pressure", unified + 3);
            int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
            if (fd >= 0) {
                return fd;
            }
        }
    }
    return open("/proc/pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC);
}

struct pw_os_file pw_os_pressure_open(void) {
    int saved = errno;
    int fd = PW_OS_FAULT(PW_POINT_PRESSURE) ? -1 : open_pressure();
    if (fd >= 0 && write(fd, trigger, sizeof trigger) < 0) {
        close(fd);
        fd = -1;
    }
    struct pw_os_file file = pw_os_adopt(fd);
    errno = saved;
    return file;
}

bool pw_os_pressure_wait(struct pw_os_file *pressure, int milliseconds) {
    int saved = errno;
    struct pollfd watched = {.fd = pressure->fd, .events = POLLPRI};
    bool watching = pw_os_is_ours(pressure);
    int ready = poll(&watched, watching ? 1 : 0, milliseconds);
    bool pressed = ready > 0 && (watched.revents & (POLLPRI | POLLERR)) == POLLPRI;
    if (ready > 0 && !pressed) {
        // The cgroup is gone: without it there is only the clock.
        pw_os_close(pressure);
        poll(NULL, 0, milliseconds);
    }
    errno = saved;
    return pressed;
}

int pw_os_cancel_hold(void) {
    int saved = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved);
    return saved;
}

void pw_os_cancel_restore(int saved) {
    pthread_setcancelstate(saved, NULL);
}

unsigned long pw_os_signals_blocked(void) {
    struct pw_os_signals now = {0};
    pthread_sigmask(SIG_SETMASK, NULL, (sigset_t *)now.mask);
    return now.mask[0];
}

void pw_os_signals_block(struct pw_os_signals *saved) {
    // What an instruction raises cannot wait: blocked, it would end the program.
    static const int immediate[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t most;
    _Static_assert(sizeof(sigset_t) <= sizeof saved->mask, "a signal set must fit");
    sigfillset(&most);
    for (size_t i = 0; i < sizeof immediate / sizeof *immediate; i++) {
        sigdelset(&most, immediate[i]);
    }
    pthread_sigmask(SIG_BLOCK, &most, (sigset_t *)saved->mask);
    saved->cancel = pw_os_cancel_hold();
}

// The signals last: the handler of one that came meanwhile may jump.
void pw_os_signals_restore(const struct pw_os_signals *saved) {
    pw_os_cancel_restore(saved->cancel);
    pthread_sigmask(SIG_SETMASK, (const sigset_t *)saved->mask, NULL);
}

#define USER_SIGNALS 2

static struct {
    int number;
    volatile sig_atomic_t came;
    bool put_off;
    struct sigaction before;
} user_signals[USER_SIGNALS] = {{.number = SIGUSR1}, {.number = SIGUSR2}};

static void note_user_signal(int number) {
    user_signals[number == SIGUSR2].came = 1;
}

static bool has_handler(const struct sigaction *action) {
    return (action->sa_flags & SA_SIGINFO) ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

void pw_os_user_signals_put_off(void) {
    for (size_t i = 0; i < USER_SIGNALS; i++) {
        struct sigaction *before = &user_signals[i].before;
        struct sigaction noting = {.sa_handler = note_user_signal};
        user_signals[i].came = 0;
        user_signals[i].put_off = false;
        if (sigaction(user_signals[i].number, NULL, before) == 0 && has_handler(before)) {
            noting.sa_flags = before->sa_flags & (SA_RESTART | SA_ONSTACK);
            user_signals[i].put_off = sigaction(user_signals[i].number, &noting, NULL) == 0;
        }
    }
}

// What the program has set meanwhile stays.
static void take_handler_back(size_t i) {
    struct sigaction now;
    bool is_ours = sigaction(user_signals[i].number, NULL, &now) == 0 &&
                   !(now.sa_flags & SA_SIGINFO) && now.sa_handler == note_user_signal;
    if (user_signals[i].put_off && is_ours) {
        sigaction(user_signals[i].number, &user_signals[i].before, NULL);
    }
}

void pw_os_user_signals_take(void) {
    for (size_t i = 0; i < USER_SIGNALS; i++) {
        take_handler_back(i);
    }
    for (size_t i = 0; i < USER_SIGNALS; i++) {
        if (user_signals[i].came) {
            user_signals[i].came = 0;
            raise(user_signals[i].number);
        }
    }
}
