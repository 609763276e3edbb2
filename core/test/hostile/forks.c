// SPDX-License-Identifier: MIT
//
// Children of all kinds. Some check what they inherited and end; some live on while their parent
// frees, overwrites and copies, are asked to check again, and go their own way meanwhile.
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define LATE    4
#define DEEPEST 2

extern char **environ;

// --- handlers of forks -----------------------------------------------------------------------

// As those of a library that wants memory while a fork is going on.
static __thread unsigned char *held;

static void before_fork(void) {
    held = malloc(200 * KB);
    if (held) {
        memset(held, 33, 200 * KB);
    }
}

static void after_fork(void) {
    if (held && (held[0] != 33 || held[200 * KB - 1] != 33)) {
        fail("a block of a handler before a fork holds %02x and %02x", held[0], held[200 * KB - 1]);
    }
    free(held);
    held = NULL;
}

void forks_start(void) {
    pthread_atfork(before_fork, after_fork, after_fork);
}

// --- children ------------------------------------------------------------------------------

enum kind { BY_FORK, BY_UNDERSCORE_FORK, BY_CLONE, BY_SYSCALL, KINDS };
static const char *const kind_names[] = {"fork", "_Fork", "clone", "a raw call"};

static void begin_child(enum kind kind, pid_t parent) {
    bool consistent = kind == BY_FORK || !world.threads;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(0);
    }
    world.depth++;
    world.may_allocate = world.may_allocate && consistent;
    world.may_load = world.may_load && !world.threads;
    marks_after_fork();
    threads_after_fork();
    forks_after_fork();
    files_after_fork();
}

static pid_t make_child(enum kind kind) {
    pid_t parent = getpid(), child = -1;
    if (kind == BY_FORK && !world.may_allocate) {
        kind = BY_UNDERSCORE_FORK; // fork takes locks that nobody here may ever give back
    }
    switch (kind) {
    case BY_FORK:
        child = fork();
        break;
    case BY_UNDERSCORE_FORK:
        child = _Fork();
        break;
    case BY_CLONE:
        child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        break;
    default:
        child = (pid_t)raw_call(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
    }
    if (child == 0) {
        begin_child(kind, parent);
        return 0;
    }
    if (child < 0) {
        fail("no child by %s: errno %d", kind_names[kind], errno);
    }
    report_count(&report->forks, 1);
    say("child %d by %s", (int)child, kind_names[kind]);
    return child;
}

static void check_thoroughly(bool all) {
    for (unsigned i = 0; i < PLACES; i++) {
        if (world.blocks[i].data && all) {
            check(&world.blocks[i]);
        } else if (world.blocks[i].data) {
            check_some(&world.blocks[i]);
        }
    }
}

static void go_own_way(uint64_t seed, uint64_t steps) {
    uint64_t step = world.step, own = world.seed;
    world.seed = seed;
    run_steps(0, steps);
    report_count(&report->steps, steps);
    world.seed = own;
    world.step = step;
}

static void wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (status) {
        fail("a child ended with status %x", (unsigned)status);
    }
}

static void fork_now(void) {
    uint64_t seed = random_next(&world.random);
    bool all = random_chance(&world.random, 8), works = random_chance(&world.random, 2);
    enum kind kind = (enum kind)random_below(&world.random, KINDS + 2) % KINDS;
    if (world.depth >= DEEPEST) {
        return;
    }
    pid_t child = make_child(kind);
    if (child == 0) {
        check_thoroughly(all);
        if (works) {
            go_own_way(seed, 1 + seed % 100);
            check_thoroughly(false);
        }
        _exit(0);
    }
    wait_for(child);
}

// --- children that live on ---------------------------------------------------------------------

struct late {
    _Atomic int command, answer; // numbers of commands; END ends
    _Atomic uint32_t steps;      // to be done on its own
    pid_t pid;
};

#define END -1

static struct late *late; // shared with the children; those of a child are its own

void forks_after_fork(void) {
    late = NULL;
}

static void futex_wait(_Atomic int *word, int value) {
    struct timespec limit = {0, 50000000};
    raw_call(SYS_futex, (long)word, FUTEX_WAIT, value, (long)&limit, 0, 0);
}

static void futex_wake(_Atomic int *word) {
    raw_call(SYS_futex, (long)word, FUTEX_WAKE, 1, 0, 0, 0);
}

static void live_on(struct late *self, uint64_t seed) {
    int done = 0;
    for (;;) {
        int command = self->command;
        if (command == done) {
            futex_wait(&self->command, done);
            continue;
        }
        check_thoroughly(command == END);
        if (command == END) {
            _exit(0);
        }
        go_own_way(seed + (uint64_t)command, self->steps);
        done = command;
        self->answer = done;
        futex_wake(&self->answer);
    }
}

static void fork_late(void) {
    uint64_t seed = random_next(&world.random);
    enum kind kind = (enum kind)random_below(&world.random, KINDS + 2) % KINDS;
    if (!late) {
        late = (struct late *)raw_memory(PAGE, true);
    }
    for (unsigned i = 0; i < LATE; i++) {
        if (late[i].pid) {
            continue;
        }
        late[i] = (struct late){0};
        struct late *self = &late[i];
        pid_t child = make_child(kind);
        if (child == 0) {
            live_on(self, seed);
        }
        self->pid = child;
        return;
    }
}

static void wait_for_answer(struct late *child) {
    int status = 0;
    for (int answer; (answer = child->answer) != child->command;) {
        futex_wait(&child->answer, answer);
        if (waitpid(child->pid, &status, WNOHANG) == child->pid) {
            fail("child %d ended with status %x before its time", (int)child->pid,
                 (unsigned)status);
        }
    }
}

static struct late *some_late(void) {
    unsigned from = (unsigned)random_below(&world.random, LATE);
    for (unsigned i = 0; late && i < LATE; i++) {
        if (late[(from + i) % LATE].pid) {
            return &late[(from + i) % LATE];
        }
    }
    return NULL;
}

static void ask_late(void) {
    struct late *child = some_late();
    if (child) {
        wait_for_answer(child); // to the last question
        child->steps = (uint32_t)random_below(&world.random, 60);
        say("child %d is asked to check", (int)child->pid);
        child->command++;
        futex_wake(&child->command);
    }
}

static void end(struct late *child) {
    wait_for_answer(child);
    say("child %d ends", (int)child->pid);
    child->command = END;
    futex_wake(&child->command);
    wait_for(child->pid);
    child->pid = 0;
}

static void end_late(void) {
    struct late *child = some_late();
    if (child) {
        end(child);
    }
}

void forks_end(void) {
    for (struct late *child; (child = some_late());) {
        end(child);
    }
}

// --- other programs ----------------------------------------------------------------------------

static void start_program(void) {
    char *words[] = {"true", NULL};
    pid_t child = -1;
    switch (random_below(&world.random, 3)) {
    case 0:
        if (posix_spawn(&child, "/bin/true", NULL, NULL, words, environ) != 0) {
            fail("posix_spawn failed");
        }
        break;
    case 1:
        child = vfork();
        if (child == 0) {
            execve("/bin/true", words, environ);
            _exit(127);
        }
        break;
    default:
        child = fork();
        if (child == 0) {
            execve("/bin/true", words, environ);
            _exit(127);
        }
    }
    report_count(&report->forks, 1);
    wait_for(child);
}

// --- others who read and write our memory --------------------------------------------------------

// The next mapping of a process that only it uses, from the text of its maps file.
static const char *next_mapping(const char *text, uintptr_t *start, uintptr_t *end, bool *found) {
    uintptr_t numbers[2] = {0}, number = 0;
    int fields = 0;
    for (; *text && *text != ' ' && *text != '\n'; text++) {
        if (*text == '-') {
            numbers[0] = number, number = 0;
        } else {
            number = number * 16 + (uintptr_t)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
        }
    }
    numbers[1] = number;
    *found = text[0] && text[1] == 'r' && text[4] == 'p';
    for (; *text && *text != '\n'; text++) {
        fields += *text == ' ' && text[1] != ' ';
        *found = *found && !(fields >= 4 && *text == '/'); // of a file
    }
    *start = numbers[0], *end = numbers[1];
    return *text ? text + 1 : text;
}

static void read_pages(pid_t pid, uintptr_t start, uintptr_t end, unsigned most) {
    struct iovec local, remote[16];
    char bytes[16];
    size_t step = ((end - start) / PAGE / most + 1) * PAGE;
    unsigned count = 0;
    for (uintptr_t at = start; at < end && count < 16; at += step) {
        remote[count++] = (struct iovec){(void *)at, 1};
    }
    local = (struct iovec){bytes, count};
    process_vm_readv(pid, &local, 1, remote, count, 0);
}

// What is mapped where is the same in a child as in its parent. As a debugger, gcore or CRIU does:
// the kernel may give us another copy of a page for it.
static void read_all(pid_t pid) {
    static char text[256 * KB];
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    for (ssize_t got = 1; file >= 0 && got > 0 && used < sizeof text - 1; used += (size_t)got) {
        got = read(file, text + used, sizeof text - 1 - used);
        got = got < 0 ? 0 : got;
    }
    text[used] = 0;
    if (file >= 0) {
        close(file);
    }
    for (const char *at = text; *at;) {
        uintptr_t start, end;
        bool found;
        at = next_mapping(at, &start, &end, &found);
        if (found) {
            read_pages(pid, start, end, end - start <= 64 * KB ? 16 : 4);
        }
    }
}

static void read_ourselves(void) {
    read_all(getpid());
}

static void be_read_by_child(void) {
    pid_t parent = getpid();
    if (world.depth >= DEEPEST) {
        return;
    }
    pid_t child = make_child(BY_FORK);
    if (child == 0) {
        read_all(parent);
        _exit(0);
    }
    wait_for(child);
}

// A child stores into its parent's block through the kernel, one page after the other, while the
// parent takes copies.
static void write_to_parent(pid_t parent, const struct block *block, unsigned char value) {
    unsigned char bytes[16];
    plain_fill(bytes, value, sizeof bytes);
    for (size_t at = 0; at + sizeof bytes <= block->size; at += PAGE / 2) {
        struct iovec local = {bytes, sizeof bytes}, remote = {block->data + at, sizeof bytes};
        if (process_vm_writev(parent, &local, 1, &remote, 1, 0) != sizeof bytes) {
            fail("process_vm_writev: errno %d", errno);
        }
    }
}

static void take_written(const struct block *from, struct block *to, unsigned char value) {
    for (size_t at = 0; at + 16 <= from->size; at += PAGE / 2) {
        for (size_t i = at; i < at + 16; i++) {
            if (to->data[i] != value && to->data[i] != from->shadow[i]) {
                fail("a byte that was written meanwhile was copied as something else");
            }
            to->shadow[i] = to->data[i];
            from->shadow[i] = value;
        }
    }
}

static void be_written_by_child(void) {
    static _Atomic uint32_t *ended;
    struct block *from = some_block_of(64 * KB);
    struct block *to = from && !from->raced && !from->mark.kind ? place_like(from) : NULL;
    if (!to || world.depth >= DEEPEST) {
        return;
    }
    void *data = malloc(from->size);
    if (!data) {
        fail("no memory for %zu bytes", from->size);
    }
    if (!ended) {
        ended = (_Atomic uint32_t *)raw_memory(PAGE, true);
    }
    *ended = 0;
    adopt(to, data, from->size);
    unsigned char value = (unsigned char)random_next(&world.random);
    pid_t parent = getpid(), child = make_child(BY_FORK);
    if (child == 0) {
        write_to_parent(parent, from, value);
        *ended = 1;
        _exit(0);
    }
    for (int i = 0; i < 20 && !*ended; i++) {
        memcpy(to->data, from->data, from->size);
    }
    memcpy(to->data, from->data, from->size);
    wait_for(child);
    plain_copy(to->shadow, from->shadow, from->size);
    take_written(from, to, value);
    check(from);
    check(to);
}

const struct operation fork_operations[] = {
    {"fork", fork_now, 700, ANYWHERE | NO_MALLOC},
    {"fork-late", fork_late, 500, ANYWHERE | NO_MALLOC},
    {"ask-late", ask_late, 1200, ANYWHERE | NO_MALLOC},
    {"end-late", end_late, 400, ANYWHERE | NO_MALLOC},
    {"exec", start_program, 40, ANYWHERE},
    {"read-all", read_ourselves, 200, ANYWHERE | NO_MALLOC},
    {"read-by-child", be_read_by_child, 60, ANYWHERE},
    {"written-by-child", be_written_by_child, 60, IN_CHILDREN},
    {0},
};
