// SPDX-License-Identifier: MIT
//
// What happened, in memory that the supervisor has mapped as well: it is there whatever becomes of
// this process and its descriptors.
#include "hostile.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct report *report;
bool say_steps;

void report_start(const char *path) {
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *got = MAP_FAILED;
    if (path && fd >= 0) {
        got = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
    } else if (!path) {
        got = raw_memory(sizeof *report, true);
    }
    if (got == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    report = got;
}

void report_count(uint64_t *counter, uint64_t by) {
    __atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
}

static void write_all(const char *text) {
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

// The first failure counts; others follow from it.
static void note(const char *text) {
    if (!__atomic_exchange_n(&report->failed, 1, __ATOMIC_SEQ_CST)) {
        snprintf(report->text, sizeof report->text, "%s", text);
    }
    if (say_steps) {
        write_all(text);
        write_all("\n");
    }
}

void fail(const char *format, ...) {
    char text[sizeof report->text];
    int used = snprintf(text, sizeof text, "step %llu (%s)%s%s: ", (unsigned long long)world.step,
                        world.doing ? world.doing : "start", world.depth ? " in a child" : "",
                        world.depth > 1 ? "'s child" : "");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof text - (size_t)used, format, arguments);
    va_end(arguments);
    note(text);
    raw_call(SYS_exit_group, 99, 0, 0, 0, 0, 0);
    __builtin_trap();
}

void say(const char *format, ...) {
    char text[400];
    if (!say_steps) {
        return;
    }
    int used = snprintf(text, sizeof text, "%*sstep %llu (%s): ", 2 * (int)world.depth, "",
                        (unsigned long long)world.step, world.doing);
    va_list arguments;
    va_start(arguments, format);
    used += vsnprintf(text + used, sizeof text - (size_t)used - 1, format, arguments);
    va_end(arguments);
    used = used < (int)sizeof text - 2 ? used : (int)sizeof text - 2;
    text[used] = '\n', text[used + 1] = 0;
    write_all(text);
}

// --- crashes -------------------------------------------------------------------------

static void crashed(int number, siginfo_t *about, void *unused) {
    char text[sizeof report->text];
    (void)unused;
    const char *near = "";
    for (unsigned i = 0; i < PLACES; i++) {
        const struct block *block = &world.blocks[i];
        size_t at = (size_t)((unsigned char *)about->si_addr - block->data);
        if (block->data && at < block->size) {
            near = " inside a block that lives";
        }
    }
    snprintf(text, sizeof text, "step %llu (%s)%s: signal %d (code %d) at address %p%s",
             (unsigned long long)world.step, world.doing ? world.doing : "start",
             world.depth ? " in a child" : "", number, about->si_code, about->si_addr, near);
    note(text);
    signal(number, SIG_DFL);
    raise(number);
    raw_call(SYS_exit_group, 99, 0, 0, 0, 0, 0);
}

void report_crashes(void) {
    static const int signals[] = {SIGSEGV, SIGBUS,  SIGABRT, SIGILL,
                                  SIGFPE,  SIGXFSZ, SIGSYS,  SIGTRAP};
    stack_t stack = {.ss_sp = raw_memory(64 * KB, false), .ss_size = 64 * KB};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        sigaction(signals[i], &action, NULL);
    }
}
