// SPDX-License-Identifier: MIT
//
// The statistics block: its layout, its file, and whose it is after fork and exec.
#include "os/fault.h"
#include "pagewise.h"
#include "process/state.h"
#include "stats/stats.h"
#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static char folder[64];
static const char *own_path;

static char options[160];

static void start(void) {
    snprintf(options, sizeof options, "modules=all,share=always,mmapcopy=off,statistics=%s",
             folder);
    CHECK(pw_start(options));
}

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/pagewise-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        unlinkat(dirfd(directory), entry->d_name, 0);
    }
    closedir(directory);
    return rmdir(folder);
}

static struct pw_statistics *map_block(pid_t pid, const char *suffix) {
    char path[128];
    struct stat status;
    snprintf(path, sizeof path, "%s/pagewise-%d%s.stats", folder, (int)pid, suffix);
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        return NULL;
    }
    CHECK(fstat(fd, &status) == 0);
    CHECK((status.st_mode & 07777) == 0600);
    CHECK(status.st_size == (off_t)sizeof(struct pw_statistics));
    void *block = mmap(NULL, sizeof(struct pw_statistics), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return block == MAP_FAILED ? NULL : block;
}

static void the_layout_is_the_documented_one(void **state) {
    (void)state;
    assert_int_equal(offsetof(struct pw_statistics, magic), 0);
    assert_int_equal(offsetof(struct pw_statistics, version), 8);
    assert_int_equal(offsetof(struct pw_statistics, size), 12);
    assert_int_equal(offsetof(struct pw_statistics, pid), 16);
    assert_int_equal(offsetof(struct pw_statistics, policy), 24);
    size_t offset = 40;
#define CHECK_FIELD(name, meaning)                                                                 \
    assert_int_equal(offsetof(struct pw_statistics, name), offset);                                \
    assert_int_equal(sizeof(((struct pw_statistics *)0)->name), 8);                                \
    offset += 8;
    PW_STATISTICS_FIELDS(CHECK_FIELD)
#undef CHECK_FIELD
    assert_int_equal(sizeof(struct pw_statistics), offset);
}

// Readers in other languages count on these places: fields are only ever appended.
static void the_first_fields_never_move(void **state) {
    (void)state;
    assert_int_equal(offsetof(struct pw_statistics, live_bytes), 40);
    assert_int_equal(offsetof(struct pw_statistics, snapshot_bytes), 40 + 3 * 8);
    assert_int_equal(offsetof(struct pw_statistics, copies_seen), 40 + 18 * 8);
    assert_int_equal(offsetof(struct pw_statistics, copies_shared), 40 + 19 * 8);
    assert_int_equal(PW_STATISTICS_VERSION, 1);
}

static void counters_add_and_peaks_rise(void **state) {
    (void)state;
    struct pw_stats stats = {0};
    pw_stats_start(&stats);
    assert_memory_equal(stats.block->magic, "PAGEWISE", 8);
    assert_true(pw_stats_publish(&stats, "", "auto"));
    assert_int_equal(stats.block->pid, getpid());
    PW_COUNT(&stats, copies_seen, 3);
    PW_COUNT(&stats, copies_seen, 4);
    PW_COUNT(&stats, snapshot_bytes, 100);
    PW_COUNT(&stats, snapshot_bytes, -(int64_t)40);
    PW_PEAK(&stats, peak_live_bytes, 10);
    PW_PEAK(&stats, peak_live_bytes, 5);
    assert_int_equal(PW_READ(&stats, copies_seen), 7);
    assert_int_equal(PW_READ(&stats, snapshot_bytes), 60);
    assert_int_equal(PW_READ(&stats, peak_live_bytes), 10);
}

static void share_something(void) {
    size_t size = 1 << 20;
    char *one = pw_allocate(size), *other = pw_allocate(size);
    CHECK(one && other);
    memset(one, 7, size);
    pw_copy(other, one, size);
    CHECK(!memcmp(one, other, size));
}

// TSan has a thread of its own, beside which nothing is shared.
static void skip_beside_a_thread(void) {
#ifdef __SANITIZE_THREAD__
    skip();
#endif
}

static void wait_for(int fd) {
    char byte;
    CHECK(read(fd, &byte, 1) == 1);
}

static void tell(int fd) {
    CHECK(write(fd, "x", 1) == 1);
}

// The child works between two messages, and its figures are read before it ends.
static void a_running_program_can_be_read(void **state) {
    (void)state;
    skip_beside_a_thread();
    int to_child[2], to_parent[2];
    assert_int_equal(pipe(to_child) | pipe(to_parent), 0);
    pid_t child = fork();
    if (child == 0) {
        start();
        tell(to_parent[1]);
        wait_for(to_child[0]);
        share_something();
        tell(to_parent[1]);
        wait_for(to_child[0]);
        _exit(0);
    }
    close(to_parent[1]); // a child that dies ends the waiting
    wait_for(to_parent[0]);
    struct pw_statistics *block = map_block(child, "");
    assert_non_null(block);
    assert_memory_equal(block->magic, PW_STATISTICS_MAGIC, 8);
    assert_int_equal(block->version, PW_STATISTICS_VERSION);
    assert_int_equal(block->size, sizeof *block);
    assert_int_equal(block->pid, child);
    assert_string_equal(block->policy, "auto");
    assert_int_equal(block->copies_shared, 0);
    tell(to_child[1]);
    wait_for(to_parent[0]);
    assert_int_equal(block->copies_shared, 1);
    assert_int_equal(block->blocks_allocated, 2);
    assert_true(block->live_bytes >= 2 << 20);
    assert_true(block->snapshot_bytes >= (1 << 20) - 2 * PW_PAGE);
    tell(to_child[1]);
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(block->copies_shared, 1); // and after it has ended
    munmap(block, sizeof *block);
}

static void fork_with_work(void *unused) {
    (void)unused;
    start();
    share_something();
    PW_GAUGE(&pw_process.stats, hugetlb_bytes, 4 << 20); // a pool may not be there
    pid_t child = fork();
    if (child == 0) {
        share_something();
        struct pw_statistics *mine = map_block(getpid(), "");
        CHECK(mine && mine->pid == (uint64_t)getpid() && mine->forks_seen == 1);
        CHECK(mine->copies_shared == 1);    // counters start again
        CHECK(mine->live_bytes >= 4 << 20); // memory is what it is
        CHECK(mine->hugetlb_bytes == 4 << 20);
        CHECK(!strcmp(mine->policy, "auto"));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    struct pw_statistics *mine = map_block(getpid(), ""), *its = map_block(child, "");
    CHECK(mine && mine->pid == (uint64_t)getpid() && mine->copies_shared == 1);
    CHECK(mine->forks_seen == 0);
    CHECK(its && its->pid == (uint64_t)child);
}

static void a_forked_child_has_its_own(void **state) {
    (void)state;
    skip_beside_a_thread();
    assert_int_equal(run_in_child(fork_with_work, NULL), 0);
}

// An emulator may say that the page is wiped in children, and not do so.
static void so_has_one_whose_marker_is_not_wiped(void **state) {
    (void)state;
    skip_beside_a_thread();
    pw_os_fault_plan(PW_POINT_FORK_MARKER, -1, 1, 1);
    int result = run_in_child(fork_with_work, NULL);
    pw_os_fault_clear();
    assert_int_equal(result, 0);
}

static void exec_twice(void *unused) {
    (void)unused;
    start();
    share_something();
    execl(own_path, own_path, "--after-exec", folder, (char *)NULL);
    abort();
}

static int after_exec(const char *the_folder) {
    snprintf(folder, sizeof folder, "%s", the_folder);
    start();
    share_something();
    struct pw_statistics *before = map_block(getpid(), ""), *now = map_block(getpid(), ".1");
    CHECK(before && now);
    CHECK(before->copies_shared == 1 && now->copies_shared == 1);
    CHECK(before->pid == (uint64_t)getpid() && now->pid == (uint64_t)getpid());
    return 0;
}

static void an_exec_leaves_the_first_block(void **state) {
    (void)state;
    skip_beside_a_thread();
    assert_int_equal(run_in_child(exec_twice, NULL), 0);
}

static void no_folder(void *unused) {
    (void)unused;
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 2);
    CHECK(pw_start("modules=all,share=always,statistics=/nonexistent/folder"));
    share_something();
    struct pw_statistics block;
    CHECK(pw_statistics_read(&block, sizeof block) == sizeof block);
    CHECK(block.copies_shared == 1);
    CHECK(pw_statistics_read(&block, 16) == 16);
}

// What is said on standard error under `options`.
static size_t said_under(const char *options, char *said, size_t size) {
    int ends[2], saved = dup(2);
    CHECK(pipe(ends) == 0);
    dup2(ends[1], 2);
    CHECK(pw_start(options));
    dup2(saved, 2);
    close(saved);
    close(ends[1]);
    ssize_t length = read(ends[0], said, size - 1);
    close(ends[0]);
    said[length > 0 ? length : 0] = 0;
    return strlen(said);
}

static void start_after_a_run(void *unused) {
    (void)unused;
    char options[256], said[512];
    snprintf(options, sizeof options, "modules=all,statistics=%s/pagewise-aB3dE6", folder);
    CHECK(said_under(options, said, sizeof said) == 0);
}

static void start_with_a_mistake(void *unused) {
    (void)unused;
    char options[256], said[512];
    snprintf(options, sizeof options, "modules=all,statistics=%s/mistyped", folder);
    CHECK(said_under(options, said, sizeof said) > 0);
    CHECK(strstr(said, "statistics stay in the process"));
}

// A daemon starts programs for ever after the run has ended, whose folder has gone.
static void nothing_is_said_of_a_run_that_has_ended(void **state) {
    (void)state;
    assert_int_equal(run_in_child(start_after_a_run, NULL), 0);
    assert_int_equal(run_in_child(start_with_a_mistake, NULL), 0);
}

static void without_a_folder_it_stays_private(void **state) {
    (void)state;
    skip_beside_a_thread();
    assert_int_equal(run_in_child(no_folder, NULL), 0);
}

// A link that somebody else put there is not followed.
static void planted_link(void *unused) {
    (void)unused;
    char path[128], target[128];
    snprintf(target, sizeof target, "%s/victim", folder);
    snprintf(path, sizeof path, "%s/pagewise-%d.stats", folder, (int)getpid());
    CHECK(symlink(target, path) == 0);
    start();
    share_something();
    CHECK(access(target, F_OK) != 0);
    CHECK(map_block(getpid(), ".1") != NULL);
}

static void a_planted_link_is_not_followed(void **state) {
    (void)state;
    assert_int_equal(run_in_child(planted_link, NULL), 0);
}

int main(int argc, char **argv) {
    own_path = argv[0];
    if (argc == 3 && !strcmp(argv[1], "--after-exec")) {
        return after_exec(argv[2]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_is_the_documented_one),
        cmocka_unit_test(the_first_fields_never_move),
        cmocka_unit_test(counters_add_and_peaks_rise),
        cmocka_unit_test(a_running_program_can_be_read),
        cmocka_unit_test(a_forked_child_has_its_own),
        cmocka_unit_test(so_has_one_whose_marker_is_not_wiped),
        cmocka_unit_test(an_exec_leaves_the_first_block),
        cmocka_unit_test(without_a_folder_it_stays_private),
        cmocka_unit_test(nothing_is_said_of_a_run_that_has_ended),
        cmocka_unit_test(a_planted_link_is_not_followed),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
