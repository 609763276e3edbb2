// SPDX-License-Identifier: MIT
#include "process/earlier.h"

#include "os/module.h"
#include "os/os.h"
#include "process/pools.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool pw_earlier_runs(const struct pw_earlier *thread) {
    int number = 0;
    uintptr_t start = 0;
    // The kernel clears the number when the thread ends.
    return thread->number && pw_os_peek((const void *)thread->number_at, &number, sizeof number) &&
           pw_os_peek((const void *)thread->start_at, &start, sizeof start) &&
           number == thread->number && start == thread->start;
}

#ifdef __x86_64__

#define RECORD_SIZE 4096u // more than any C library's; pages above a stack are there
#define ABOVE_STACK (64u << 10)

struct layout {
    size_t number, start; // offsets in a record
};

// --- where things are in a record ---------------------------------------------

// The offset of the only such value in the record; 0: there is none, or another one.
static size_t find_value(const char *record, size_t from, const void *value, size_t size) {
    size_t found = 0;
    for (size_t at = from; at + size <= from + RECORD_SIZE / 2; at += size) {
        if (memcmp(record + at, value, size) == 0) {
            if (found) {
                return 0;
            }
            found = at;
        }
    }
    return found;
}

static void *find_layout(void *context) {
    struct layout *layout = context;
    const char *record = (const char *)pthread_self();
    int number = pw_os_thread_id();
    uintptr_t start = (uintptr_t)find_layout;
    layout->number = find_value(record, 64, &number, sizeof number);
    layout->start = find_value(record, 64, &start, sizeof start);
    return NULL;
}

static bool learn(struct layout *layout) {
    pthread_t thread;
    int number = 0;
    if (pthread_create(&thread, NULL, find_layout, layout) != 0) {
        return false;
    }
    pthread_join(thread, NULL);
    if (!layout->number || !layout->start) {
        return false;
    }
    memcpy(&number, (const char *)pthread_self() + layout->number, sizeof number);
    return number == pw_os_thread_id();
}

// --- another thread's record ----------------------------------------------------

// A record begins with its own address, and has it once more two words on.
static uintptr_t find_record(uintptr_t stack, int number, const struct layout *layout) {
    for (uintptr_t at = stack & ~(uintptr_t)7; at < stack + ABOVE_STACK; at += 512) {
        uintptr_t words[64 + 2];
        if (!pw_os_peek((const void *)at, words, sizeof words)) {
            return 0;
        }
        for (size_t i = 0; i < 64; i++) {
            uintptr_t record = at + i * sizeof *words;
            int its_number = 0;
            if (words[i] == record && words[i + 2] == record &&
                pw_os_peek((const void *)(record + layout->number), &its_number,
                           sizeof its_number) &&
                its_number == number) {
                return record;
            }
        }
    }
    return 0;
}

// proc_pid_syscall(5): the number, six arguments, the stack pointer. 0: it is running just now.
static uintptr_t stack_of(int number) {
    char path[64], text[256];
    unsigned long stack = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", number);
    bool known = pw_os_read_text(path, text, sizeof text) > 0 &&
                 sscanf(text, "%*s %*s %*s %*s %*s %*s %*s %lx", &stack) == 1;
    return known ? stack : 0;
}

// All that can wait, but for the two that the C library keeps for itself.
static bool blocks_signals(int number) {
    static const int others[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE,
                                 SIGILL,  SIGTRAP, SIGSYS,  32,     33};
    char path[64], text[4096];
    unsigned long blocked = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", number);
    const char *line =
        pw_os_read_text(path, text, sizeof text) > 0 ? strstr(text, "\nSigBlk:\t") : NULL;
    if (!line || sscanf(line, "\nSigBlk:\t%lx", &blocked) != 1) {
        return false;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        blocked |= 1UL << (others[i] - 1);
    }
    return ~blocked == 0;
}

// jemalloc's thread in pyarrow's library, which has others as well: by the name that it gives
// itself, too.
static bool is_jemallocs(int number, const void *start) {
    static const char name[] = "jemalloc_bg_thd\n", library[] = "libarrow.so";
    const char *module = pw_os_module_path(start);
    char path[64], text[32] = "";
    if (!module || strncmp(pw_os_base_name(module), library, sizeof library - 1) != 0) {
        return false;
    }
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", number);
    return pw_os_read_text(path, text, sizeof text) > 0 && strcmp(text, name) == 0;
}

static bool is_harmless(int number, const struct layout *layout, struct pw_earlier *thread) {
    uintptr_t stack = stack_of(number), start = 0;
    uintptr_t record = stack ? find_record(stack, number, layout) : 0;
    if (!record || !pw_os_peek((const void *)(record + layout->start), &start, sizeof start) ||
        (pw_pool_at((const void *)start) != PW_POOL_TIMER &&
         !is_jemallocs(number, (const void *)start)) ||
        !blocks_signals(number)) {
        return false;
    }
    *thread = (struct pw_earlier){record + layout->number, record + layout->start, number, start};
    return pw_earlier_runs(thread);
}

void pw_earlier_find(struct pw_earlier found[PW_EARLIER_THREADS]) {
    struct layout layout = {0};
    unsigned count = 0;
    memset(found, 0, PW_EARLIER_THREADS * sizeof *found);
    if (pw_os_thread_count() <= 1 || !learn(&layout)) {
        return;
    }
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *entry;
    while (threads && count < PW_EARLIER_THREADS && (entry = readdir(threads))) {
        int number = atoi(entry->d_name);
        if (number > 0 && number != pw_os_thread_id()) {
            count += is_harmless(number, &layout, &found[count]);
        }
    }
    if (threads) {
        closedir(threads);
    }
}

#else

void pw_earlier_find(struct pw_earlier found[PW_EARLIER_THREADS]) {
    memset(found, 0, PW_EARLIER_THREADS * sizeof *found);
}

#endif
