// SPDX-License-Identifier: MIT
//
// What a program does to its own blocks: protection, advice, locks, other pages in their place.
// Each call is made in a process of its own, by the C library's function and by syscall().
#include "calls.h"
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>

#define SIZE        MEGABYTE
#define NEXT_BLOCKS 3

// --- what the kernel says of a range ----------------------------------------------

// Of the flags in /proc/self/smaps, those that a call may have left; a new block has none.
static const char *const leftovers[] = {"lo", "lf", "wf", "dc", "dd", "sr",
                                        "rr", "mg", "nh", "um", "uw", "sl"};

static unsigned flags_of(const char *line) {
    unsigned found = 0;
    for (unsigned i = 0; i < sizeof leftovers / sizeof *leftovers; i++) {
        char flag[8];
        snprintf(flag, sizeof flag, " %s", leftovers[i]);
        found |= strstr(line, flag) ? 1u << i : 0;
    }
    return found;
}

// What is so anywhere in the range, whatever mappings it consists of.
static void say_mapping(const char *what, const void *block, size_t size) {
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[1000], protection[8] = "", seen[8] = "";
    unsigned long start = 0, end = 0, low, high, first = (unsigned long)block, last = first + size;
    unsigned found = 0;
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %7s", &low, &high, seen) == 3) {
            start = low;
            end = high;
        } else if (!strncmp(line, "VmFlags:", 8) && start < last && end > first) {
            found |= flags_of(line);
            if (strcmp(seen, "rw-p") != 0) {
                memcpy(protection, seen, sizeof seen);
            }
        }
    }
    fclose(maps);
    printf("  %s: %s", what, protection);
    for (unsigned i = 0; i < sizeof leftovers / sizeof *leftovers; i++) {
        printf("%s", found >> i & 1 ? leftovers[i] : "");
    }
    printf("\n");
}

// --- one call -----------------------------------------------------------------------

static unsigned char *new_block(uint64_t seed) {
    void *block = NULL;
    CHECK(posix_memalign(&block, PAGE, SIZE) == 0);
    if (seed) {
        fill(block, SIZE, seed);
    }
    return block;
}

static void say_sum(const char *what, const unsigned char *block, size_t size) {
    printf("  %s: %016llx\n", what, (unsigned long long)sum(block, size));
}

// As a burst of frees at the end of a collection, and the first allocation after it.
static void collect(void) {
    void *small[8];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 8; i++) {
            small[i] = malloc(200 << 10);
            memset(small[i], i, 200 << 10);
        }
        for (int i = 0; i < 8; i++) {
            free(small[i]);
        }
    }
}

// A child of a fork reads what the parent has, but where that said otherwise.
static void say_in_child(const char *what, const unsigned char *block, size_t size) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        say_sum(what, block, size);
        fflush(stdout);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    printf("  child: %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

// The next blocks in this place are as good as new, also for a child.
static void say_next_blocks(void) {
    unsigned char *blocks[NEXT_BLOCKS];
    for (int i = 0; i < NEXT_BLOCKS; i++) {
        blocks[i] = new_block((uint64_t)i + 100);
        say_mapping("next", blocks[i], SIZE);
    }
    for (int i = 0; i < NEXT_BLOCKS; i++) {
        say_in_child("in child", blocks[i], SIZE);
        free(blocks[i]);
    }
}

static bool is_one_of(const char *name, const char *const *list) {
    while (*list && strcmp(name, *list) != 0) {
        list++;
    }
    return *list;
}

static const char *const unreadable[] = {"no-access", "unmap", "move", NULL};

// May the kernel refuse it, whoever asks? Then only what follows from it is said.
static const char *const optional[] = {"mergeable",     "bind", "seal",          "register",
                                       "process-empty", "lock", "lock-on-fault", NULL};

// On a block that copies have shared, also with a child of a fork, or that nobody has copied.
enum variant { COPIED, COPIED_AND_FORKED, ALONE, VARIANTS };

static void run_call(const struct call *call, call_function *by, int variant) {
    unsigned char *block = new_block(7);
    unsigned char *copy = new_block(variant == ALONE), *other = new_block(variant == ALONE);
    bool readable = !is_one_of(call->name, unreadable);
    if (variant != ALONE) {
        memcpy(copy, block, SIZE);
        memcpy(other, block, SIZE);
    }
    if (variant == COPIED_AND_FORKED) {
        say_in_child("early", copy, SIZE);
    }
    unsigned char *part = block + SIZE / 4;
    long result = make_call(call, by, part, SIZE / 2);
    bool failed = result == -1;
    if (!failed || !is_one_of(call->name, optional)) {
        printf("  failed: %d\n", failed);
    }
    if (call->number == SYS_mremap && !failed) {
        say_sum("moved", (unsigned char *)result, SIZE / 2);
    }
    if (call->number == SYS_mprotect) {
        say_mapping("protected", part, SIZE / 2);
    }
    say_sum("copy", copy, SIZE);
    say_sum("other copy", other, SIZE);
    collect();
    say_sum("before", block, SIZE / 4);
    say_sum("after", block + SIZE / 4 * 3, SIZE / 4);
    if (strcmp(call->name, "free") != 0 && readable) {
        say_sum("part", part, SIZE / 2);
        say_in_child("part in child", part, SIZE / 2);
        memcpy(other, block, SIZE);
        say_sum("copied", other, SIZE);
        say_in_child("copied in child", other, SIZE);
    }
    block[0] ^= 1;
    say_sum("copy after all", copy, SIZE);
    free(block);
    say_next_blocks();
}

static void run_alone(const struct call *call, call_function *by, int variant,
                      void (*run)(const struct call *, call_function *, int)) {
    printf("%s, %d\n", call->name, variant);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run(call, by, variant);
        fflush(stdout);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    printf("%s: %d\n", call->name, status);
}

static call_function *function_named(const char *name) {
    return strcmp(name, "syscall") == 0  ? by_number
           : strcmp(name, "handle") == 0 ? by_handle
                                         : by_function;
}

// advice syscall|function|handle [CALL]
static int case_advice(char **arguments) {
    for (size_t i = 0; i < CALLS; i++) {
        if (!arguments[1] || !strcmp(arguments[1], calls[i].name)) {
            for (int variant = 0; variant < VARIANTS; variant++) {
                run_alone(&calls[i], function_named(arguments[0]), variant, run_call);
            }
        }
    }
    return 0;
}

// --- with a thread that may write ----------------------------------------------------

static atomic_bool stop;
static atomic_ulong turns;

static void *turn(void *block) {
    while (!stop) {
        ((volatile unsigned char *)block)[turns++ % PAGE]++;
    }
    return NULL;
}

// Pages whose faults the program is told of are still such when they were emptied. Where it cannot
// be so, the program is told that it is not.
static void say_watched(unsigned char *part, bool registered) {
    if (registered) {
        CHECK(madvise(part, SIZE / 4, MADV_DONTNEED) == 0);
        say_mapping("watched", part, PAGE);
    } else {
        printf("  watched: um\n");
    }
}

// A thread stores into a shared block while its pages are emptied or moved.
static void run_beside_thread(const struct call *call, call_function *by, int variant) {
    static unsigned char own[PAGE];
    unsigned char *block = new_block(7), *copy = new_block(0);
    pthread_t thread;
    memcpy(copy, block, SIZE);
    memcpy(copy, block, SIZE);
    CHECK(pthread_create(&thread, NULL, turn, variant ? block : own) == 0);
    while (turns == 0) {}
    unsigned char *part = block + SIZE / 4;
    long result = make_call(call, by, part, SIZE / 2);
    if (call->number == SYS_mremap && result != -1) {
        memset(copy, 0, SIZE);
        CHECK(sum((unsigned char *)result, 8 * PAGE) != sum(copy, 8 * PAGE));
    }
    if (call->number == SYS_madvise && call->more[0] == MADV_DONTNEED) {
        say_sum("emptied", part, SIZE / 2);
    }
    if (call->number == SYS_ioctl) {
        say_watched(part, result != -1);
    }
    if (call->number == SYS_mlock) { // what is locked is not emptied
        printf("  emptied: %d\n", madvise(part, SIZE / 4, MADV_DONTNEED));
        say_sum("locked", part, SIZE / 2);
    }
    say_sum("after", block + SIZE / 4 * 3, SIZE / 4);
    stop = true;
    CHECK(pthread_join(thread, NULL) == 0);
    if (call->number == SYS_madvise && call->more[0] == MADV_DONTNEED) {
        memcpy(copy, block, SIZE);
        say_sum("copied", copy + SIZE / 4, SIZE / 4 * 3);
        part[5] = 3;
        CHECK(madvise(part, SIZE / 4, MADV_DONTNEED) == 0);
        say_sum("emptied again", part, SIZE / 2);
    }
    say_sum("after", block + SIZE / 4 * 3, SIZE / 4);
    free(block);
    say_next_blocks();
}

// A block that shares half of its pages cannot be wiped in children: then not in part either.
static void wipe_half_shared(const struct call *call, call_function *by, int variant) {
    static unsigned char own[PAGE];
    unsigned char *block = new_block(7), *copy = new_block(0);
    pthread_t thread;
    memcpy(copy + SIZE / 2, block + SIZE / 2, SIZE / 2);
    memcpy(copy + SIZE / 2, block + SIZE / 2, SIZE / 2);
    CHECK(pthread_create(&thread, NULL, turn, own) == 0);
    while (turns == 0) {}
    bool wiped = make_call(call, by, block + SIZE / 4, SIZE / 2) != -1;
    pid_t child = fork();
    if (child == 0) {
        unsigned char *expected = new_block(7);
        memset(expected + SIZE / 4, 0, wiped ? SIZE / 2 : 0);
        CHECK(memcmp(block, expected, SIZE) == 0);
        _exit(0);
    }
    wait_well(child);
    stop = true;
    CHECK(pthread_join(thread, NULL) == 0);
    printf("  as it was said, %d\n", variant);
}

static int case_advice_threads(char **arguments) {
    static const char *const names[] = {"empty", "free",  "lock",     "dont-fork", "no-access",
                                        "move",  "unmap", "map-over", "register",  NULL};
    for (size_t i = 0; i < CALLS; i++) {
        if (is_one_of(calls[i].name, names)) {
            run_alone(&calls[i], function_named(arguments[0]), 0, run_beside_thread);
            run_alone(&calls[i], function_named(arguments[0]), 1, run_beside_thread);
        }
        if (!strcmp(calls[i].name, "wipe-on-fork")) {
            run_alone(&calls[i], function_named(arguments[0]), 0, wipe_half_shared);
        }
    }
    return 0;
}

// --- headers, resizing, everything locked ----------------------------------------------

// The first page, with what malloc keeps before the block, is protected as well.
static void protect_all(void) {
    unsigned char *block = malloc(SIZE), *copy = malloc(SIZE);
    fill(block, SIZE, 3);
    memcpy(copy, block, SIZE);
    unsigned char *start = block - (uintptr_t)block % PAGE;
    CHECK(mprotect(start, SIZE + PAGE, PROT_READ) == 0);
    collect();
    say_sum("read-only", block, SIZE);
    free(block);
    say_sum("copy", copy, SIZE);
    say_next_blocks();
}

static void resize_guarded(void) {
    unsigned char *block = malloc(SIZE), *guard = NULL;
    fill(block, SIZE, 3);
    guard = block + SIZE / 4 * 3 - (uintptr_t)block % PAGE;
    CHECK(mprotect(guard, PAGE, PROT_NONE) == 0);
    collect();
    block = realloc(block, SIZE / 4);
    CHECK(block != NULL);
    say_sum("smaller", block, SIZE / 4);
    free(block);
    block = malloc(SIZE);
    fill(block, SIZE, 4);
    guard = block + SIZE / 4 * 3 - (uintptr_t)block % PAGE;
    CHECK(mprotect(guard, PAGE, PROT_READ) == 0);
    block = realloc(block, SIZE * 2);
    CHECK(block != NULL);
    say_sum("larger", block, SIZE);
    fill(block, SIZE * 2, 5);
    say_in_child("larger in child", block, SIZE * 2);
    free(block);
    say_next_blocks();
}

// A buffer that is emptied by its owner and filled again stays one that can be shared.
static void empty_and_copy(void) {
    unsigned char *block = new_block(1), *copy = new_block(0);
    for (uint64_t round = 0; round < 6; round++) {
        memcpy(copy, block, SIZE);
        memcpy(copy, block, SIZE);
        CHECK(madvise(round % 2 ? copy : block, SIZE, MADV_DONTNEED) == 0);
        say_sum("block", block, SIZE);
        say_sum("copy", copy, SIZE);
        fill(block, SIZE, round + 2);
    }
    free(copy);
    free(block);
}

// A range that covers what has been freed between two blocks.
static void advise_around(void) {
    unsigned char *low = new_block(1), *middle = new_block(2), *high = new_block(3);
    if (low > high) {
        unsigned char *swapped = low;
        low = high;
        high = swapped;
    }
    free(middle);
    size_t range = (size_t)(high - low) + SIZE;
    if (range <= 3 * (SIZE + 4 * PAGE)) { // nothing else lies between them
        madvise(low, range, MADV_WIPEONFORK);
    }
    for (int i = 0; i < 4; i++) {
        unsigned char *next = new_block((uint64_t)i + 4);
        say_in_child("in child", next, SIZE);
    }
    free(low);
    free(high);
    say_next_blocks();
}

#ifdef __x86_64__
static void end_child(void) {
    _exit(42);
}
#endif

// A child in its parent's memory returns from syscall() on a stack of its own.
static void clone_by_number(void) {
#ifdef __x86_64__
    static _Alignas(16) char stack[16384];
    void (**top)(void) = (void (**)(void))(stack + sizeof stack - 64);
    *top = end_child;
    fflush(stdout);
    long child = syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, top, NULL, NULL, NULL);
    int status = -1;
    CHECK(child > 0 && waitpid((pid_t)child, &status, 0) == child);
    printf("  ended with %d\n", WEXITSTATUS(status));
#endif
    errno = 0;
    CHECK(syscall(SYS_madvise, 1, 1, 1, 0, 0, 0) == -1 && errno == EINVAL);
    CHECK(syscall(-1) == -1 && errno == ENOSYS);
    printf("  %d\n", syscall(SYS_getpid) == getpid());
}

static int case_advice_more(char **arguments) {
    (void)arguments;
    void (*const all[])(void) = {protect_all, resize_guarded, empty_and_copy, advise_around,
                                 clone_by_number};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        printf("%zu\n", i);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            all[i]();
            fflush(stdout);
            _exit(0);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child);
        printf("%zu: %d\n", i, status);
    }
    return 0;
}

// advice-all-locked syscall|function
static int case_advice_all_locked(char **arguments) {
    call_function *by = function_named(arguments[0]);
    unsigned char *block = new_block(1), *copy = new_block(0);
    memcpy(copy, block, SIZE);
    CHECK(by(SYS_mlockall, MCL_CURRENT, 0, 0, 0, 0, 0) == 0);
    memcpy(copy, block, SIZE);
    memcpy(copy, block, SIZE);
    say_mapping("block", block, SIZE);
    say_mapping("copy", copy, SIZE);
    say_sum("copy", copy, SIZE);
    CHECK(by(SYS_mlockall, MCL_CURRENT | MCL_FUTURE, 0, 0, 0, 0, 0) == 0);
    CHECK(by(SYS_mlockall, 64, 0, 0, 0, 0, 0) == -1);
    unsigned char *next = new_block(2), *second = new_block(0);
    memcpy(second, next, SIZE);
    memcpy(second, next, SIZE);
    say_mapping("next", next, SIZE);
    say_mapping("second", second, SIZE);
    say_sum("second", second, SIZE);
    CHECK(by(SYS_munlockall, 0, 0, 0, 0, 0, 0) == 0);
    free(block);
    free(next);
    say_next_blocks();
    return 0;
}

// --- calls that no library sees ---------------------------------------------------------

// A guard page, or another mapping, inside a block that is copied and searched for zeros.
static void run_raw(const struct call *call, call_function *by, int variant) {
    static const struct call shared = {
        "shared",
        SYS_mmap,
        {PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0}};
    unsigned char *block = new_block(7), *copy = new_block(0);
    call = variant == ALONE ? &shared : call;
    memset(block + SIZE / 2, 0, SIZE / 4);
    CHECK(make_call(call, by, block + SIZE / 2, 8 * PAGE) != -1);
    collect();
    collect();
    memcpy(copy, block, SIZE / 2);
    memcpy(copy, block, SIZE / 2);
    if (variant == ALONE) {
        memcpy(copy, block, SIZE);
        memcpy(copy, block, SIZE);
        pid_t child = fork();
        if (child == 0) {
            block[SIZE / 2 + 1] = 5;
            _exit(0);
        }
        wait_well(child);
        printf("  of the child: %d\n", block[SIZE / 2 + 1]);
    }
    say_sum("copy", copy, SIZE / 2);
    say_sum("block", block, SIZE / 2);
    say_sum("after", block + SIZE / 4 * 3, SIZE / 4);
    say_mapping("mapped", block + SIZE / 2, 8 * PAGE);
    free(block);
    say_next_blocks();
}

// Pages that were never touched need no filling, but for those that are somebody else's by now.
static void fill_over_file(void) {
    int file = memfd_create("others", MFD_CLOEXEC);
    unsigned char *block = malloc(4 * SIZE), *page = block + 2 * SIZE;
    page += PAGE - (uintptr_t)page % PAGE;
    CHECK(block && file >= 0 && ftruncate(file, 8 * PAGE) == 0);
    unsigned char *view = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memset(view, 5, 8 * PAGE);
    CHECK(raw(SYS_mmap, (long)page, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
              0) == (long)page);
    memset(block, 0, 4 * SIZE);
    printf("filled: %d %d\n", page[PAGE + 1], view[PAGE + 1]);
    free(block);
}

static int case_advice_raw(char **arguments) {
    static const char *const names[] = {"read-only", "no-access", NULL};
    (void)arguments;
    for (size_t i = 0; i < CALLS; i++) {
        for (int variant = 0; variant < VARIANTS && is_one_of(calls[i].name, names); variant++) {
            run_alone(&calls[i], raw, variant, run_raw);
        }
    }
    // Last: after so large a block the C library no longer gives each of the others pages of its
    // own.
    fill_over_file();
    return 0;
}

// --- calls that the kernel refuses -----------------------------------------------------

// Advice for what malloc returned, which is seldom the address of a page, or for no process or
// with unknown flags: nothing is emptied.
static int case_advice_refused(char **arguments) {
    call_function *by = function_named(arguments[0]);
    for (int i = 0; i < 5; i++) {
        unsigned char *block = new_block(7), *copy = new_block(0);
        unsigned char *page = block - (uintptr_t)block % PAGE;
        struct iovec range = {page, SIZE};
        long process = i == 4 ? -1 : syscall(SYS_pidfd_open, getpid(), 0);
        memcpy(copy, block, SIZE);
        const long results[4] = {
            i == 0 ? by(SYS_madvise, (long)block + 16, SIZE - PAGE, MADV_DONTNEED, 0, 0, 0) : 0,
            i == 1 ? by(SYS_madvise, (long)block + 16, SIZE - PAGE, MADV_FREE, 0, 0, 0) : 0,
            i == 2 ? by(SYS_madvise, (long)page, -2 * (long)PAGE + 1, MADV_DONTNEED, 0, 0, 0) : 0,
            i >= 3 ? by(SYS_process_madvise, process, (long)&range, 1, MADV_DONTNEED,
                        i == 3 ? 7 : 0, 0)
                   : 0,
        };
        printf("%d: %ld %ld %ld %ld\n", i, results[0], results[1], results[2], results[3]);
        say_sum("block", block, SIZE);
        say_sum("copy", copy, SIZE);
        free(block);
        free(copy);
    }
    return 0;
}

// --- blocks that are locked, or of the hugetlb pool ---------------------------------------

#define UNIT       (2 * MEGABYTE)
#define LARGE_SIZE (4 * UNIT + MEGABYTE)

static const struct call more_calls[] = {
    {"page-out", SYS_madvise, {MADV_PAGEOUT}},
    {"guard", SYS_madvise, {102}}, // MADV_GUARD_INSTALL of Linux 6.13
    {"will-need", SYS_madvise, {MADV_WILLNEED}},
    {"make", SYS_madvise, {23}}, // MADV_POPULATE_WRITE
};

// What the program knows nothing of: the call does to the block what it does to any other.
static void run_large(const struct call *call, call_function *by, size_t offset, size_t size) {
    unsigned char *block = malloc(LARGE_SIZE);
    CHECK(block != NULL);
    unsigned char *unit = block + UNIT - (uintptr_t)block % UNIT, *part = unit + offset;
    fill(unit, 3 * UNIT, 7);
    long result = make_call(call, by, part, size);
    bool moved = call->number == SYS_mremap && result != -1;
    bool readable = !is_one_of(call->name, unreadable) && strcmp(call->name, "guard") != 0;
    // Pages of the pool are as large as they can be, and never reclaimed: such advice does not take
    // a block from it.
    static const char *const not_taken[] = {"huge-pages", "cold", "page-out", NULL};
    if (!is_one_of(call->name, optional) && !is_one_of(call->name, not_taken)) {
        printf("  failed: %d\n", result == -1);
    }
    say_sum("before", unit, offset);
    say_sum("after", part + size, PAGE);
    if (readable && strcmp(call->name, "free") != 0) {
        say_sum("part", part, size);
        say_in_child("in child", part, size);
    }
    if (moved) {
        say_sum("moved", (unsigned char *)result, size);
    }
    free(block);
    block = malloc(LARGE_SIZE);
    fill(block, UNIT, 8);
    say_in_child("next", block, UNIT);
    free(block);
}

static void run_parts(const struct call *call, call_function *by, int variant) {
    static const struct { size_t offset, size; } parts[] = {{0, PAGE}, {PAGE, PAGE}, {UNIT, UNIT}};
    run_large(call, by, parts[variant].offset, parts[variant].size);
}

// advice-large syscall|function
static int case_advice_large(char **arguments) {
    const size_t more = sizeof more_calls / sizeof *more_calls;
    for (size_t i = 0; i < CALLS + more; i++) {
        const struct call *call = i < CALLS ? &calls[i] : &more_calls[i - CALLS];
        for (int variant = 0; variant < 3; variant++) {
            run_alone(call, function_named(arguments[0]), variant, run_parts);
        }
    }
    return 0;
}

// Pages that a program moves out of a block into one whose faults it answers itself, by
// UFFDIO_MOVE of Linux 6.8.
static void move_out(unsigned char *to, unsigned char *block, int faults, call_function *by) {
    struct {
        uint64_t to, from, size, mode;
        int64_t moved;
    } wanted = {(uintptr_t)to, (uintptr_t)block + SIZE / 4, SIZE / 4, 0, 0};
    long result = by(SYS_ioctl, faults, (long)_IOWR(0xAA, 5, wanted), (long)&wanted, 0, 0, 0);
    printf("  moved: %ld %lld\n", result, (long long)wanted.moved);
    say_sum("there", to, result == 0 ? SIZE / 4 : 0);
    say_sum("here", block, SIZE);
}

// advice-moved-out syscall|function. The kernel moves no page that a child has as well.
static int case_advice_moved_out(char **arguments) {
    call_function *by = function_named(arguments[0]);
    unsigned char *block = new_block(1), *copy = new_block(2), *second = new_block(3);
    memcpy(copy, block, SIZE);
    memcpy(second, block, SIZE);
    const int faults = open_userfaults();
    unsigned char *to =
        mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register there = {{(uintptr_t)to, SIZE}, UFFDIO_REGISTER_MODE_MISSING, 0};
    CHECK(faults >= 0 && to != MAP_FAILED && ioctl(faults, UFFDIO_REGISTER, &there) == 0);
    move_out(to, block, faults, by);
    move_out(to + SIZE / 4, copy, faults, by);
    say_sum("second", second, SIZE);
    memcpy(second, block, SIZE);
    say_sum("copied", second, SIZE);
    free(block);
    free(copy);
    block = new_block(4);
    say_in_child("next in child", block, SIZE);
    return 0;
}

// What is locked by the program itself keeps its bytes, whoever else has locked it.
static int case_advice_locked_twice(char **arguments) {
    call_function *by = function_named(arguments[0]);
    unsigned char *block = malloc(LARGE_SIZE);
    CHECK(block != NULL);
    unsigned char *unit = block + UNIT - (uintptr_t)block % UNIT;
    fill(unit, UNIT, 7);
    CHECK(by(SYS_mlock, (long)unit, UNIT / 2, 0, 0, 0, 0) == 0);
    const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_LOCKED;
    unsigned char *mapped = unit + UNIT / 2 + PAGE;
    CHECK(mmap(mapped, 2 * PAGE, PROT_READ | PROT_WRITE, how, -1, 0) == mapped);
    fill(mapped, 2 * PAGE, 8);
    for (size_t at = 0; at < UNIT; at += UNIT / 8) {
        printf("%ld ", by(SYS_madvise, (long)unit + (long)at, PAGE, MADV_DONTNEED, 0, 0, 0));
    }
    printf("%ld\n", by(SYS_madvise, (long)mapped, PAGE, MADV_DONTNEED, 0, 0, 0));
    say_sum("locked", unit, UNIT);
    free(block);
    return 0;
}

// Blocks that are filled, and such that the program expects to be zero.
static int case_large_blocks(char **arguments) {
    (void)arguments;
    for (uint64_t i = 0; i < 3; i++) {
        unsigned char *block = malloc(LARGE_SIZE), *zeros = calloc(1, LARGE_SIZE);
        CHECK(block && zeros);
        fill(block, LARGE_SIZE, i);
        zeros[UNIT] = 1;
        say_sum("block", block, LARGE_SIZE);
        say_sum("zeros", zeros, LARGE_SIZE);
        free(block);
        free(zeros);
    }
    return 0;
}

// A block of 80 MB, and calls on one page of it: what is there afterwards.
static int case_page_of_large_block(char **arguments) {
    call_function *by = function_named(arguments[0]);
    unsigned char *block = malloc(40 * UNIT);
    CHECK(block != NULL);
    fill(block, 40 * UNIT, 5);
    long page = (long)(block + UNIT - (uintptr_t)block % UNIT + PAGE);
    printf("%ld ", by(SYS_mlock, page, PAGE, 0, 0, 0, 0));
    printf("%ld\n", by(SYS_madvise, page, PAGE, MADV_DONTNEED, 0, 0, 0));
    say_sum("block", block, 40 * UNIT);
    return 0; // with the block: the statistics tell where its pages are
}

static ucontext_t outside, inside;

static void fork_here(void) {
    volatile unsigned char mine[2 * UNIT + MEGABYTE];
    memset((void *)mine, 1, sizeof mine);
    fflush(stdout);
    pid_t child = fork();
    memset((void *)mine, child == 0 ? 2 : 3, sizeof mine);
    if (child == 0) {
        _exit(mine[UNIT] != 2);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    printf("child: %d\n", status);
    say_sum("stack", (const unsigned char *)mine, sizeof mine);
}

// A coroutine forks whose stack lies in a block of large pages, which it writes as its child does.
static int case_fork_on_large_stack(char **arguments) {
    (void)arguments;
    char *stack = malloc(4 * UNIT);
    CHECK(stack && getcontext(&inside) == 0);
    inside.uc_stack = (stack_t){.ss_sp = stack, .ss_size = 4 * UNIT};
    inside.uc_link = &outside;
    makecontext(&inside, fork_here, 0);
    CHECK(swapcontext(&outside, &inside) == 0);
    free(stack);
    return 0;
}

// --- what is altered as a whole, and made longer --------------------------------------

#define ADVICE_GUARD 102 // MADV_GUARD_INSTALL, of Linux 6.13

static unsigned char *whole_pages_of(unsigned char *block, size_t *size) {
    unsigned char *start = (unsigned char *)((uintptr_t)block & ~(uintptr_t)(PAGE - 1));
    *size = ((size_t)(block - start) + MEGABYTE + PAGE - 1) & ~(size_t)(PAGE - 1);
    return start;
}

static unsigned char *new_whole(unsigned char **start, size_t *size) {
    unsigned char *block = malloc(MEGABYTE);
    fill(block, MEGABYTE, 7);
    *start = whole_pages_of(block, size);
    return block;
}

static unsigned char *longer(unsigned char *block, size_t size) {
    unsigned char *moved = realloc(block, size);
    CHECK(moved);
    say_sum("the bytes", moved, PAGE);
    return moved;
}

static long locked_kilobytes(void) {
    char line[200];
    long locked = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        sscanf(line, "VmLck: %ld", &locked);
    }
    CHECK(status && fclose(status) == 0);
    return locked;
}

static void say_locked(void) {
    unsigned char *start;
    size_t size;
    unsigned char *block = new_whole(&start, &size);
    printf("lock: %d\n", mlock(start, size));
    block = longer(block, 3 * MEGABYTE);
    printf("  locked: %d\n", locked_kilobytes() >= 3 * 1024);
    free(block);
}

static void touch(unsigned char *byte) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        _exit(*(volatile unsigned char *)byte == 0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    printf("  a child that reads it: %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void say_not_inherited(void) {
    unsigned char *start;
    size_t size;
    unsigned char *block = new_whole(&start, &size);
    printf("dont-fork: %d\n", madvise(start, size, MADV_DONTFORK));
    block = longer(block, 3 * MEGABYTE);
    touch(block);
    touch(block + 2 * MEGABYTE);
    free(block);
}

static void say_guarded(void) {
    unsigned char *start;
    size_t size;
    unsigned char *block = new_whole(&start, &size);
    size_t guard = (size_t)(start + size / 2 / PAGE * PAGE - block);
    printf("guard: %d\n", madvise(block + guard, PAGE, ADVICE_GUARD));
    block = longer(block, 3 * MEGABYTE);
    touch(block + guard);
    touch(block + guard + PAGE);
    block = longer(block, MEGABYTE / 2);
    free(block);
}

// Of what is not the program's own memory, or may not be written, a longer block is a copy.
static void say_copied(const char *what, int protection, int flags, int file) {
    unsigned char *block = aligned_alloc(PAGE, MEGABYTE);
    fill(block, MEGABYTE, 7);
    if (flags) {
        CHECK(mmap(block, MEGABYTE, protection, flags | MAP_FIXED, file, 0) == (void *)block);
        fill(block, MEGABYTE, 7);
    } else {
        CHECK(mprotect(block, MEGABYTE, protection) == 0);
    }
    printf("%s:\n", what);
    block = longer(block, 3 * MEGABYTE);
    block[5] = block[2 * MEGABYTE] = 1;
    say_sum("written", block, PAGE);
    free(block);
}

// What a program did to a whole block goes with it when it becomes longer.
static int case_advice_grown(char **arguments) {
    (void)arguments;
    mallopt(M_MMAP_THRESHOLD, (int)MEGABYTE / 2); // or later blocks are no mappings without us
    int file = open("a-file-whose-name-is-longer-than-what-is-asked-for-of-the-name-of-a-mapping",
                    O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(file >= 0 && ftruncate(file, (off_t)MEGABYTE) == 0);
    for (int i = 0; i < 3; i++) {
        say_locked();
        say_not_inherited();
        say_guarded();
        say_copied("read-only", PROT_READ, 0, -1);
        say_copied("shared", PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
        say_copied("of a file", PROT_READ | PROT_WRITE, MAP_PRIVATE, file);
    }
    say_next_blocks();
    return 0;
}

static int watch_file;

// Takes memory before it answers: whoever waits for it must not hold what it needs.
static void *answer_faults(void *unused) {
    struct uffd_msg message;
    for (;;) {
        struct pollfd wait = {watch_file, POLLIN, 0};
        CHECK(poll(&wait, 1, -1) == 1);
        free(malloc(MEGABYTE));
        if (read(watch_file, &message, sizeof message) == (ssize_t)sizeof message &&
            message.event == UFFD_EVENT_PAGEFAULT) {
            struct uffdio_zeropage zero = {
                .range = {message.arg.pagefault.address & ~(PAGE - 1), PAGE}};
            ioctl(watch_file, UFFDIO_ZEROPAGE, &zero);
        }
    }
    return unused;
}

// A thread is told when pages of a block go, and is waited for.
static int case_advice_watched(char **arguments) {
    (void)arguments;
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_EVENT_UNMAP};
    watch_file = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (watch_file < 0 || ioctl(watch_file, UFFDIO_API, &api) != 0) {
        return 7;
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, answer_faults, NULL) == 0);
    for (int i = 0; i < 6; i++) {
        unsigned char *block = aligned_alloc(PAGE, 2 * MEGABYTE);
        struct uffdio_register all = {.range = {(uintptr_t)block, 2 * MEGABYTE},
                                      .mode = UFFDIO_REGISTER_MODE_MISSING};
        CHECK(ioctl(watch_file, UFFDIO_REGISTER, &all) == 0);
        fill(block, 2 * MEGABYTE, 7);
        block = i % 2 ? realloc(block, 3 * MEGABYTE) : block;
        say_sum("watched", block, 2 * MEGABYTE);
        free(block);
    }
    return 0;
}

const struct program_case advice_cases[] = {
    {"advice", case_advice},
    {"advice-threads", case_advice_threads},
    {"advice-more", case_advice_more},
    {"advice-all-locked", case_advice_all_locked},
    {"advice-grown", case_advice_grown},
    {"advice-watched", case_advice_watched},
    {"advice-raw", case_advice_raw},
    {"advice-refused", case_advice_refused},
    {"advice-large", case_advice_large},
    {"advice-moved-out", case_advice_moved_out},
    {"advice-locked-twice", case_advice_locked_twice},
    {"large-blocks", case_large_blocks},
    {"page-of-large-block", case_page_of_large_block},
    {"fork-on-large-stack", case_fork_on_large_stack},
    {NULL, NULL},
};
