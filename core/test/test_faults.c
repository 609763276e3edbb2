// SPDX-License-Identifier: MIT
//
// Every system call of ours fails, the first, the n-th and every time, with each errno its manual
// lists, while a fixed scenario runs against shadow copies. The program must go on with the right
// contents, and the statistics must name the fall-back.
//     test_faults [--only SITE] [--options STRING] [--brief 1]
#include "block/mapped.h"
#include "os/fault.h"
#include "pagewise.h"
#include "support.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE   ((size_t)1 << PW_PAGE_SHIFT)
#define LARGE  ((size_t)6 << 20) // published in two chunks
#define MEDIUM ((size_t)600 << 10)
#define BLOCKS 24
#define SECOND 1000000

// --- blocks and their shadows -------------------------------------------------

struct block {
    unsigned char *data, *shadow;
    size_t size;
};

static struct block blocks[BLOCKS];
static struct random noise;

static void verify(const struct block *block) {
    CHECK(memcmp(block->data, block->shadow, block->size) == 0);
}

static void verify_all(void) {
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].data) {
            verify(&blocks[i]);
        }
    }
}

static void drop(int at) {
    struct block *block = &blocks[at];
    if (block->data) {
        verify(block);
        pw_free(block->data);
        free(block->shadow);
    }
    *block = (struct block){0};
}

static void fill(int at, size_t from, size_t size) {
    random_fill(&noise, blocks[at].shadow + from, size);
    memcpy(blocks[at].data + from, blocks[at].shadow + from, size);
}

static void allocate(int at, size_t size) {
    drop(at);
    blocks[at] = (struct block){pw_allocate(size), malloc(size), size};
    CHECK(blocks[at].data && blocks[at].shadow);
    fill(at, 0, size);
}

static void allocate_zeroed(int at, size_t size) {
    drop(at);
    blocks[at] = (struct block){pw_allocate_zeroed(1, size), calloc(1, size), size};
    CHECK(blocks[at].data && blocks[at].shadow);
    verify(&blocks[at]);
}

static void copy_part(int to, size_t to_at, int from, size_t from_at, size_t size) {
    pw_copy(blocks[to].data + to_at, blocks[from].data + from_at, size);
    memcpy(blocks[to].shadow + to_at, blocks[from].shadow + from_at, size);
    verify(&blocks[to]);
    verify(&blocks[from]);
}

static void duplicate(int to, int from) {
    drop(to);
    size_t size = blocks[from].size;
    blocks[to] = (struct block){pw_allocate(size), malloc(size), size};
    CHECK(blocks[to].data && blocks[to].shadow);
    copy_part(to, 0, from, 0, size);
}

static void zero(int at, size_t from, size_t size) {
    pw_zero(blocks[at].data + from, size);
    memset(blocks[at].shadow + from, 0, size);
    verify(&blocks[at]);
}

static void resize(int at, size_t size) {
    size_t old = blocks[at].size;
    blocks[at].data = pw_resize(blocks[at].data, size);
    blocks[at].shadow = realloc(blocks[at].shadow, size);
    CHECK(blocks[at].data && blocks[at].shadow);
    blocks[at].size = size;
    if (size > old) {
        fill(at, old, size - old);
    }
    verify(&blocks[at]);
}

static void scatter(int at, int count) {
    for (int i = 0; i < count; i++) {
        size_t place = random_below(&noise, blocks[at].size);
        blocks[at].data[place] = blocks[at].shadow[place] = (unsigned char)i;
    }
}

// --- the scenario -------------------------------------------------------------

static void large_copies(void) {
    allocate(0, LARGE);
    duplicate(1, 0); // publishes
    duplicate(2, 1); // attaches
    scatter(0, 20);
    scatter(1, 20);
    duplicate(3, 0); // copies what was written since
    fill(1, 0, LARGE * 3 / 4);
    duplicate(2, 1); // publishes again, over what it shared
    copy_part(3, 100 * PAGE, 1, 7 * PAGE, 1000 * PAGE);
    drop(0);
    verify_all();
    scatter(2, 400);
    pw_collection_ended(); // a sole owner among them
    verify_all();
}

static void medium_copies(void) {
    allocate(4, MEDIUM + 123);
    for (int i = 5; i < 12; i++) {
        duplicate(i, i - 1);
        scatter(i, i);
    }
    zero(6, 5000, MEDIUM / 2);
    zero(7, 0, blocks[7].size);
    memset(blocks[8].data + 3 * PAGE, 0, MEDIUM / 2);
    memset(blocks[8].shadow + 3 * PAGE, 0, MEDIUM / 2);
    allocate(12, MEDIUM);
    memset(blocks[12].data, 0, MEDIUM);
    memset(blocks[12].shadow, 0, MEDIUM);
    for (int i = 0; i < 6; i++) {
        pw_collection_ended(); // zero pages, given back once the block is old enough
    }
    verify_all();
    for (int i = 4; i < 9; i++) {
        drop(i);
    }
    allocate_zeroed(4, MEDIUM); // after a burst of frees
    zero(4, 10, MEDIUM - 20);
    resize(10, 2 * MEDIUM);
    resize(11, 30000);
    resize(12, 3 * MEDIUM);
    verify_all();
}

// Warm pages: gathered for a larger block, moved aside by a copy, given back.
static void pool(void) {
    for (int i = 13; i < 21; i++) {
        allocate(i, 3 * MEDIUM);
    }
    for (int i = 13; i < 21; i += 2) {
        drop(i);
    }
    allocate_zeroed(13, 10 * MEDIUM);
    allocate(15, 6 * MEDIUM);
    drop(15);
    duplicate(15, 14); // into warm pages
    verify_all();
    pw_trim();
    verify_all();
}

// The program is about to make a call on its own block, and makes it.
static bool advise(int at, size_t from, size_t size, int advice) {
    char *start = (char *)(((uintptr_t)blocks[at].data + from + PAGE - 1) & ~(PAGE - 1));
    long arguments[6] = {(long)start, (long)size, advice};
    struct pw_mapping_call call = pw_mapping_call_begins(&pw_process, SYS_madvise, arguments, NULL);
    bool made = !call.refused && madvise(start, size, advice) == 0;
    pw_mapping_call_ends(&pw_process, call);
    if (made && advice == MADV_DONTNEED) {
        memset(blocks[at].shadow + (start - (char *)blocks[at].data), 0, size);
    }
    return made;
}

static void read_wiped(void *at) {
    const struct block *block = at;
    for (size_t i = MEDIUM; i < MEDIUM + PAGE; i++) {
        CHECK(block->data[i] == 0);
    }
}

// Blocks that are on a snapshot, and not.
static void changes_of_mappings(void) {
    allocate(0, LARGE);
    duplicate(1, 0);
    duplicate(2, 0);
    advise(0, MEDIUM / 2, MEDIUM, MADV_DONTNEED);
    verify_all();
    duplicate(3, 0);
    advise(1, 0, LARGE - 2 * PAGE, MADV_DONTNEED);
    verify_all();
    if (advise(2, MEDIUM - PAGE, MEDIUM, MADV_WIPEONFORK)) {
        CHECK(run_in_child(read_wiped, &blocks[2]) == 0);
    }
    verify_all();
    duplicate(1, 2);
    advise(1, MEDIUM, MEDIUM, MADV_DONTFORK);
    drop(1);
    drop(2);
    allocate(1, LARGE);
    pw_collection_ended();
    verify_all();
}

static void child_work(void) {
    verify_all();
    duplicate(20, 1);
    scatter(20, 50);
    scatter(1, 50);
    allocate(21, MEDIUM);
    duplicate(22, 21);
    drop(1);
    pw_collection_ended();
    verify_all();
    for (int i = 0; i < BLOCKS; i++) {
        drop(i);
    }
    _exit(0);
}

static void forks(void) {
    int ends[2], status = -1;
    CHECK(pipe(ends) == 0);
    fflush(stderr);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(ends[1]);
        char byte;
        while (read(ends[0], &byte, 1) < 0 && errno == EINTR) {}
        child_work();
    }
    close(ends[0]);
    drop(3); // released while the child still sees it
    scatter(2, 30);
    duplicate(3, 2);
    close(ends[1]);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    duplicate(20, 3);
    verify_all();
}

static void scenario(void) {
    changes_of_mappings();
    large_copies();
    medium_copies();
    pool();
    forks();
    usleep(SECOND / 100);
    for (int i = 0; i < BLOCKS; i++) {
        drop(i);
    }
}

// --- pages written since the last look ------------------------------------------

#define WATCHED 300

static unsigned char *watched; // WATCHED pages
static bool was_written[WATCHED], was_told[WATCHED];

static bool tell(void *context, char *start, size_t size) {
    (void)context;
    for (char *at = start; at < start + size; at += PAGE) {
        was_told[((unsigned char *)at - watched) / PAGE] = true;
    }
    return true;
}

static bool take_written(struct pw_os_written *written) {
    memset(was_told, 0, sizeof was_told);
    return pw_os_written_take(written, (uintptr_t)watched, (uintptr_t)watched + WATCHED * PAGE,
                              tell, NULL);
}

// As rescan.c does: where anything fails nothing is watched, and all pages count as written.
static bool watch_anew(struct pw_os_written *written) {
    memset(was_written, 0, sizeof was_written);
    if (!pw_os_written_open(written)) {
        return false;
    }
    uintptr_t start = (uintptr_t)watched;
    if (pw_os_written_watch(written, start, start + WATCHED * PAGE) && take_written(written)) {
        return true;
    }
    pw_os_written_close(written);
    return false;
}

// Every page that was written is told, or the look fails.
static void look_for_written_pages(void) {
    watched =
        mmap(NULL, WATCHED * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(watched != MAP_FAILED);
    struct pw_os_written written;
    bool watches = watch_anew(&written);
    for (int round = 0; round < 40; round++) {
        for (size_t i = random_below(&noise, 100); i > 0; i--) {
            size_t page = random_below(&noise, WATCHED);
            watched[page * PAGE + i]++;
            was_written[page] = true;
        }
        if (watches && take_written(&written)) {
            CHECK(memcmp(was_written, was_told, sizeof was_told) == 0);
            memset(was_written, 0, sizeof was_written);
        } else {
            if (watches) {
                pw_os_written_close(&written);
            }
            watches = watch_anew(&written);
        }
    }
    if (watches) {
        pw_os_written_close(&written);
    }
    CHECK(munmap(watched, WATCHED * PAGE) == 0);
}

// --- points --------------------------------------------------------------------

enum fallback {
    NOT_COUNTED, // nothing is lost that would be worth a counter
    ARENA = 1 << 0,
    MEMFD = 1 << 1,
    WRITE = 1 << 2,
    MAP = 1 << 3,
    PAGEMAP = 1 << 4,
    SCAN = 1 << 5,
    EPOCHS = 1 << 6,
    DESCRIPTOR = 1 << 7,
    THREADS = 1 << 8,
    MOVE = 1 << 9,
    DISCARD = 1 << 10,
    TABLE = 1 << 11,
    KEEPER = 1 << 12,
    MAP_COUNT = 1 << 13,
    POOL = 1 << 14,
    LOCK = 1 << 15,
    CALL = 1 << 16,
};

struct point {
    enum pw_os_point point;
    int fallbacks;  // one of these is counted when every call fails
    int errors[12]; // mmap(2), mremap(2), madvise(2), memfd_create(2), ..., 0 ends the list
};

static const struct point points[] = {
    {PW_POINT_MAP_NEW, ARENA, {ENOMEM, EEXIST, EAGAIN, EPERM}},
    {PW_POINT_MAP_BLANK, MAP | DISCARD, {ENOMEM, EAGAIN, EINVAL}},
    {PW_POINT_MAP_SNAPSHOT, MAP, {ENOMEM, EACCES, EAGAIN, EBADF, ENFILE, ENODEV, EPERM}},
    {PW_POINT_MAP_TABLE, ARENA | TABLE, {ENOMEM, EAGAIN}},
    {PW_POINT_RESERVE, MAP | MAP_COUNT, {ENOMEM, EAGAIN, EACCES}},
    {PW_POINT_UNMAP, NOT_COUNTED, {ENOMEM, EINVAL}},
    {PW_POINT_MOVE, MOVE, {ENOMEM, EAGAIN, EFAULT, EINVAL}},
    {PW_POINT_DISCARD, DISCARD, {EINVAL, ENOMEM, EAGAIN}},
    {PW_POINT_ADVISE_HUGE, NOT_COUNTED, {EINVAL, ENOMEM, EAGAIN}},
    {PW_POINT_FILE_CREATE, MEMFD, {EMFILE, ENFILE, ENOMEM, EINVAL, EPERM, ENOSYS}},
    {PW_POINT_FILE_SIZE, MEMFD, {EFBIG, EINVAL, EPERM, EINTR, EIO, ENOMEM}},
    {PW_POINT_FILE_STAT, MEMFD | PAGEMAP | DESCRIPTOR, {EBADF, ENOMEM, EOVERFLOW, EIO}},
    {PW_POINT_FILE_WRITE,
     WRITE,
     {ENOSPC, EIO, EFBIG, EDQUOT, EBADF, EFAULT, EINVAL, EAGAIN, EPERM}},
    {PW_POINT_FILE_PUNCH, DISCARD, {EIO, ENOSPC, EINTR, ENOSYS, EOPNOTSUPP, EPERM, EBADF, EFBIG}},
    {PW_POINT_STATISTICS, NOT_COUNTED, {EACCES, ENOSPC, EMFILE, EROFS}},
    {PW_POINT_PAGEMAP_OPEN, PAGEMAP, {EACCES, EPERM, ENOENT, EMFILE, ENFILE, ENOMEM}},
    {PW_POINT_PAGEMAP_SCAN, SCAN, {ENOTTY, EINVAL, EFAULT, EPERM, EBADF, EINTR, ENOMEM}},
    {PW_POINT_PAGEMAP_READ, NOT_COUNTED, {EIO, EINTR, EBADF, ENOMEM}},
    {PW_POINT_FORK_MARKER, NOT_COUNTED, {EINVAL, ENOMEM}},
    {PW_POINT_WITNESS, MAP, {ENOMEM, EAGAIN}},
    {PW_POINT_THREADS, THREADS, {EACCES, ENOENT, ENOMEM}},
    {PW_POINT_RESIDENT, NOT_COUNTED, {EACCES, ENOENT, EMFILE, ENFILE}},
    {PW_POINT_PRESSURE, NOT_COUNTED, {EACCES, ENOENT, EMFILE, EINVAL, EBUSY}},
    {PW_POINT_KEEPER, KEEPER, {EAGAIN, EPERM}},
    {PW_POINT_PEEK, NOT_COUNTED, {EPERM, ENOSYS, EFAULT, ESRCH}},
    {PW_POINT_HUGETLB, POOL, {ENOMEM, EINVAL, EPERM}},
    {PW_POINT_LOCK, LOCK, {ENOMEM, EPERM, EAGAIN}},
    {PW_POINT_WITNESS_ASK, DISCARD, {EPERM, ENOSYS, EINVAL, EINTR}},
    {PW_POINT_MAPS, NOT_COUNTED, {EACCES, ENOENT, EMFILE, ENFILE}},
    {PW_POINT_MMAPCOPY, CALL, {ENOMEM, ENOSYS, EPERM, EINVAL, EFAULT, EBUSY, EINTR, EHWPOISON}},
    {PW_POINT_WRITTEN,
     NOT_COUNTED,
     {EPERM, ENOSYS, EMFILE, ENOMEM, EINVAL, EFAULT, EBUSY, ENOTTY, -1, -2}},
};

static int fallbacks_counted(void) {
    struct pw_statistics now;
    pw_statistics_read(&now, sizeof now);
    return (now.fallback_arena ? ARENA : 0) | (now.fallback_memfd ? MEMFD : 0) |
           (now.fallback_write ? WRITE : 0) | (now.fallback_map ? MAP : 0) |
           (now.fallback_pagemap ? PAGEMAP : 0) | (now.fallback_pagemap_scan ? SCAN : 0) |
           (now.fallback_epochs ? EPOCHS : 0) | (now.fallback_descriptor ? DESCRIPTOR : 0) |
           (now.fallback_threads ? THREADS : 0) | (now.fallback_move ? MOVE : 0) |
           (now.fallback_discard ? DISCARD : 0) | (now.fallback_table ? TABLE : 0) |
           (now.fallback_keeper ? KEEPER : 0) | (now.fallback_map_count ? MAP_COUNT : 0) |
           (now.fallback_hugetlb ? POOL : 0) | (now.fallback_lock ? LOCK : 0) |
           (now.fallback_mmapcopy ? CALL : 0);
}

// --- running it ---------------------------------------------------------------

static const char *options =
    "modules=all,share=always,zero=always,threshold=8K,collect=burst,mmapcopy=off";
static char folder[] = "/tmp/pagewise-faults-XXXXXX";
static unsigned runs, failures;
static bool brief;

#ifdef PW_TEST_SANITIZED
#define LONGEST_RUN 1000 // seconds, on a busy machine
#else
#define LONGEST_RUN 100
#endif

struct plan {
    const struct point *point, *other; // the other one fails every time
    int error;
    unsigned long first, period;
    int fallbacks; // one of them must be counted when the point was reached
    void (*body)(void);
};

// Calls of each point, told by the child.
static atomic_ulong *calls;

static void start(void) {
    char text[200];
    snprintf(text, sizeof text, "%s,statistics=%s", options, folder);
    noise = random_from(5);
    CHECK(pw_start(text));
}

static void run_plan(void *argument) {
    const struct plan *plan = argument;
    alarm(LONGEST_RUN);
    if (plan->point) {
        pw_os_fault_plan(plan->point->point, plan->error, plan->first, plan->period);
    }
    if (plan->other) {
        pw_os_fault_plan(plan->other->point, plan->other->errors[0], 1, 1);
    }
    start();
    plan->body();
    for (int point = 0; point < PW_POINT_COUNT; point++) {
        calls[point] = pw_os_fault_calls((enum pw_os_point)point);
    }
    int counted = fallbacks_counted(), wanted = plan->fallbacks;
    struct pw_statistics now;
    pw_statistics_read(&now, sizeof now);
    wanted &= now.mmapcopy_used ? ~SCAN : ~0; // it is found out before a page is published
    // Beside a thread that is not known (TSan's own) nothing is published, and that is counted.
    if (wanted && calls[plan->point->point] && !(counted & (wanted | THREADS))) {
        fprintf(stderr, "no fall-back is named (counted: %x)\n", (unsigned)counted);
        abort();
    }
}

static void run(struct plan plan) {
    const char *name = plan.point ? pw_os_point_names[plan.point->point] : "nothing";
    plan.body = plan.body ? plan.body : scenario;
    runs++;
    int status = run_in_child(run_plan, &plan);
    if (status != 0) {
        failures++;
        fprintf(stderr, "faults: %s%s%s, error %d, first %lu, period %lu, options %s: status %x\n",
                name, plan.other ? " with " : "",
                plan.other ? pw_os_point_names[plan.other->point] : "", plan.error, plan.first,
                plan.period, options, (unsigned)status);
    }
}

static void fail_point(const struct point *point) {
    static const unsigned long shapes[][2] = {{1, 0}, {2, 0}, {3, 1}, {5, 0}, {2, 3},
                                              {9, 0}, {1, 2}, {4, 1}, {20, 1}};
    void (*body)(void) = point->point == PW_POINT_WRITTEN ? look_for_written_pages : scenario;
    size_t count = brief ? 3 : sizeof shapes / sizeof *shapes;
    int error = point->errors[0];
    for (size_t i = 0; i < count; i++) {
        run((struct plan){point, NULL, error, shapes[i][0], shapes[i][1], 0, body});
    }
    for (int i = 0; point->errors[i] && (i < 1 || !brief); i++) {
        run((struct plan){point, NULL, point->errors[i], 1, 1, point->fallbacks, body});
    }
}

// Pages of R's objects: each call by itself, and a part of it.
static void fail_written(void) {
    static const struct point written = {PW_POINT_WRITTEN, NOT_COUNTED, {EPERM}};
    for (unsigned long first = 1; first < 40; first++) {
        for (int error = 1; error >= -2; error--) {
            run((struct plan){&written, NULL, error ? error : ENOMEM, first, first % 3 * 7, 0,
                              look_for_written_pages});
        }
    }
}

// A block of 64 MB is published in sixteen chunks: stop after each of them.
static void publish_64_megabytes(void) {
    allocate(0, (size_t)64 << 20);
    duplicate(1, 0);
    scatter(0, 40);
    scatter(1, 40);
    verify_all();
    duplicate(2, 1);
    scatter(2, 40);
    drop(0);
    verify_all();
    duplicate(3, 1);
    drop(1);
    verify_all();
}

static void fail_within_a_publish(void) {
    static const struct point write = {PW_POINT_FILE_WRITE, WRITE, {ENOSPC}},
                              map = {PW_POINT_MAP_SNAPSHOT, MAP, {ENOMEM}},
                              stat = {PW_POINT_FILE_STAT, DESCRIPTOR, {EBADF}};
    for (unsigned long chunk = 1; chunk <= 18; chunk += chunk < 3 ? 1 : 7) {
        run((struct plan){&write, NULL, ENOSPC, chunk, 0, 0, publish_64_megabytes});
        run((struct plan){&write, NULL, EIO, chunk, 1, 0, publish_64_megabytes});
        run((struct plan){&map, NULL, ENOMEM, chunk, 0, 0, publish_64_megabytes});
        run((struct plan){&map, NULL, ENOMEM, chunk, 1, 0, publish_64_megabytes});
        run((struct plan){&stat, NULL, EBADF, 2 * chunk + 3, 0, 0, publish_64_megabytes});
    }
}

// A call that did a part of its work and then failed.
static void fail_half_way(void) {
    static const struct point move = {PW_POINT_MOVE, MOVE, {ENOMEM}},
                              punch = {PW_POINT_FILE_PUNCH, DISCARD, {EIO}},
                              discard = {PW_POINT_DISCARD, DISCARD, {EINVAL}},
                              snapshot = {PW_POINT_MAP_SNAPSHOT, MAP, {ENOMEM}};
    const struct point *stopping[] = {&move, &punch, &discard, &snapshot};
    for (size_t i = 0; i < sizeof stopping / sizeof *stopping; i++) {
        run((struct plan){stopping[i], NULL, -1, 1, 1, 0, NULL});
        for (unsigned long first = 1; first < 20; first += first) {
            run((struct plan){stopping[i], NULL, -1, first, 0, 0, NULL});
            run((struct plan){stopping[i], NULL, -1, first, 3, 0, NULL});
        }
    }
}

static void short_writes(void) {
    static const struct point write = {PW_POINT_FILE_WRITE, WRITE, {ENOSPC}};
    run((struct plan){&write, NULL, -1, 1, 0, 0, NULL});
    run((struct plan){&write, NULL, -1, 1, 1, 0, NULL});
    run((struct plan){&write, NULL, -1, 2, 2, 0, NULL});
    run((struct plan){&write, NULL, EINTR, 1, 2, 0, NULL}); // tried again
}

// Two things at once, where one is the other's fall-back.
static void fail_pairs(void) {
    static const struct point scan = {PW_POINT_PAGEMAP_SCAN, SCAN, {ENOTTY}},
                              read = {PW_POINT_PAGEMAP_READ, PAGEMAP, {EIO}},
                              blank = {PW_POINT_MAP_BLANK, MAP, {ENOMEM}},
                              discard = {PW_POINT_DISCARD, DISCARD, {EINVAL}},
                              move = {PW_POINT_MOVE, MOVE, {ENOMEM}},
                              marker = {PW_POINT_FORK_MARKER, 0, {EINVAL}},
                              snapshot = {PW_POINT_MAP_SNAPSHOT, MAP, {ENOMEM}},
                              punch = {PW_POINT_FILE_PUNCH, DISCARD, {EIO}};
    for (unsigned long first = 1; first < 40; first = first * 2 + 1) {
        run((struct plan){&scan, &read, ENOTTY, first, 1, PAGEMAP | DESCRIPTOR, NULL});
        run((struct plan){&blank, &discard, ENOMEM, first, 1, 0, NULL});
        run((struct plan){&blank, &snapshot, ENOMEM, first, 1, 0, NULL});
        run((struct plan){&snapshot, &blank, ENOMEM, first, 3, 0, NULL});
        run((struct plan){&snapshot, &move, ENOMEM, first, 2, 0, NULL});
        run((struct plan){&punch, &marker, EIO, first, 2, 0, NULL});
    }
}

// The keeper's thread begins when a busy machine lets it, which may be after the scenario.
static void every_scenario(void) {
    scenario();
    look_for_written_pages();
    for (int i = 0; i < 5000 && pw_os_fault_calls(PW_POINT_PRESSURE) == 0; i++) {
        usleep(SECOND / 1000);
    }
}

// Without a fault the scenario reaches every point, or it tests nothing.
static void reach_every_site(void) {
    run((struct plan){.body = every_scenario});
    for (size_t i = 0; i < sizeof points / sizeof *points && !brief; i++) {
        enum pw_os_point point = points[i].point;
        // Only a fall-back, or another set of options, comes to these.
        bool elsewhere = point == PW_POINT_PAGEMAP_READ || point == PW_POINT_ADVISE_HUGE ||
                         point == PW_POINT_UNMAP || point == PW_POINT_PEEK ||
                         point == PW_POINT_HUGETLB || point == PW_POINT_LOCK ||
                         point == PW_POINT_MMAPCOPY;
        if (calls[point] == 0 && !elsewhere) {
            fprintf(stderr, "faults: %s is never reached\n", pw_os_point_names[point]);
            failures++;
        }
    }
}

int main(int count, char **arguments) {
    const char *only = NULL;
    for (int i = 1; i + 1 < count; i += 2) {
        if (!strcmp(arguments[i], "--only")) {
            only = arguments[i + 1];
        } else if (!strcmp(arguments[i], "--brief")) {
            brief = true;
        } else if (!strcmp(arguments[i], "--options")) {
            options = arguments[i + 1];
        }
    }
    calls = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(calls != MAP_FAILED && mkdtemp(folder));
    reach_every_site();
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        if (!only || !strcmp(only, pw_os_point_names[points[i].point])) {
            fail_point(&points[i]);
        }
    }
    if (only && !strcmp(only, "half-way")) {
        fail_half_way();
        fail_written();
    }
    if (!only && !brief) {
        fail_half_way();
        short_writes();
        fail_within_a_publish();
        fail_pairs();
        fail_written();
    }
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(system(command) == 0);
    printf("faults: %u runs, %u failed\n", runs, failures);
    return failures != 0;
}
