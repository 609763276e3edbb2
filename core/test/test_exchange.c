// SPDX-License-Identifier: MIT
//
// Objects shared between processes: what a reader sees, who may read, and what is refused.
#include "support.h"

#include "os/fault.h"
#include "os/os.h"
#include "share/exchange.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define RUNTIME 42u
#define SIZE    (5 * PW_PAGE + 100)

static unsigned char data[SIZE];

// An object of one part, which holds `data`.
static struct pw_shared make(void) {
    struct pw_shared shared;
    struct random random = random_from(7);
    random_fill(&random, data, SIZE);
    CHECK(pw_shared_begin(&shared, RUNTIME) == PW_SHARED_OK);
    struct pw_shared_part part = {.offset = pw_shared_next_page(&shared), .size = SIZE, .kind = 3};
    CHECK(pw_shared_write(&shared, data, SIZE) == PW_SHARED_OK);
    CHECK(pw_shared_finish(&shared, &part, 1) == PW_SHARED_OK);
    return shared;
}

static struct pw_shared_part first_part(const struct pw_shared *shared) {
    struct pw_shared_part part;
    CHECK(pw_shared_describe(shared, 0, &part));
    return part;
}

static uint64_t check_of(const struct pw_exchange_handle *handle) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < offsetof(struct pw_exchange_handle, check); i++) {
        sum = (sum ^ ((const unsigned char *)handle)[i]) * 0x100000001b3u;
    }
    return sum;
}

static enum pw_shared_result opened(const void *handle) {
    struct pw_shared shared;
    enum pw_shared_result result = pw_shared_open(handle, PW_SHARED_HANDLE_SIZE, RUNTIME, &shared);
    CHECK((shared.fd >= 0) == (result == PW_SHARED_OK));
    pw_shared_close(&shared);
    return result;
}

// Of 6 pages so many are the view's own, and the others count as shared, whoever has mapped them.
static void costs(const struct pw_shared_part *part, const char *view, uint64_t own) {
    struct pw_page_cost cost;
    uint64_t published;
    if (pw_shared_cost(part, view, &cost, &published)) {
        assert_int_equal(cost.own, own * PW_PAGE);
        assert_int_equal(cost.shared, (6 - own) * PW_PAGE);
        assert_int_equal(published, cost.shared);
        assert_int_equal(cost.swapped + cost.absent, 0);
    } else {
        assert_true(pw_shared_private(part, view) == PW_SHARED_UNKNOWN);
    }
}

static void views_are_private(void **state) {
    (void)state;
    struct pw_shared shared = make(), other;
    char handle[PW_SHARED_HANDLE_SIZE];
    pw_shared_handle(&shared, 0, handle);
    assert_int_equal(pw_shared_open(handle, sizeof handle, RUNTIME, &other), PW_SHARED_OK);
    struct pw_shared_part part = first_part(&other);
    assert_int_equal(part.kind, 3);
    char *one = pw_shared_map(&shared, &part), *two = pw_shared_map(&other, &part);
    costs(&part, one, 0);
    assert_memory_equal(one, data, SIZE);
    costs(&part, one, 0); // its pages are mapped here now, and nowhere else
    assert_memory_equal(two, data, SIZE);
    assert_false(pw_shared_changed(&shared, &part, one));

    one[PW_PAGE] ^= 1;
    assert_memory_equal(two, data, SIZE);
    assert_true(pw_shared_changed(&shared, &part, one));
    assert_false(pw_shared_changed(&other, &part, two));
    uint64_t own = pw_shared_private(&part, one);
    assert_true(own == PW_PAGE || own == PW_SHARED_UNKNOWN);
    costs(&part, one, 1);
    costs(&part, two, 0);

    // One more view of what was written.
    char *three = pw_shared_map_again(&shared, &part, one);
    assert_memory_equal(three, one, SIZE);
    assert_int_equal(pw_shared_private(&part, three), own);
    three[0] ^= 1;
    assert_int_equal((unsigned char)one[0], data[0]);

    // Written and put back: a page of its own that reads the same.
    one[PW_PAGE] ^= 1;
    assert_false(pw_shared_changed(&shared, &part, one));
    // What lies behind the part in its last page is nobody's.
    one[SIZE] = 1;
    assert_false(pw_shared_changed(&shared, &part, one));

    unsigned char *copy = malloc(SIZE);
    assert_true(pw_shared_read(&other, &part, copy));
    assert_memory_equal(copy, data, SIZE);
    free(copy);
    pw_shared_close(&shared);
    pw_shared_close(&other);
    assert_memory_equal(two, data, SIZE); // a view outlives its object
    pw_shared_unmap(one, &part);
    pw_shared_unmap(two, &part);
    pw_shared_unmap(three, &part);
}

// A program that becomes a daemon closes all its descriptors: nobody can open the object any more,
// and so its handle must not be sent in place of what is in the view.
static void without_its_file_a_view_counts_as_changed(void **state) {
    (void)state;
    struct pw_shared shared = make();
    struct pw_shared_part part = first_part(&shared);
    char *one = pw_shared_map(&shared, &part);
    assert_false(pw_shared_changed(&shared, &part, one));
    close(shared.fd);
    assert_true(pw_shared_changed(&shared, &part, one));
    assert_memory_equal(one, data, SIZE);
    pw_shared_unmap(one, &part);
    pw_shared_close(&shared);
}

static void views_without_page_tables(void **state) {
    struct pw_shared shared = make();
    struct pw_shared_part part = first_part(&shared);
    char *one = pw_shared_map(&shared, &part);
    (void)state;
    one[3 * PW_PAGE] ^= 1;
    pw_os_fault_plan(PW_POINT_PAGEMAP_OPEN, EACCES, 1, 1);
    assert_true(pw_shared_changed(&shared, &part, one));
    assert_true(pw_shared_private(&part, one) == PW_SHARED_UNKNOWN);
    costs(&part, one, 1);
    char *two = pw_shared_map_again(&shared, &part, one);
    one[3 * PW_PAGE] ^= 1;
    assert_false(pw_shared_changed(&shared, &part, one));
    pw_os_fault_clear();
    one[3 * PW_PAGE] ^= 1;
    assert_memory_equal(one, two, SIZE);
    uint64_t own = pw_shared_private(&part, two);
    assert_true(own == PW_PAGE || own == PW_SHARED_UNKNOWN);
    pw_shared_unmap(one, &part);
    pw_shared_unmap(two, &part);
    pw_shared_close(&shared);
}

// Each part is there, wherever the table of parts ends: that of 128 ends with a page.
static void objects_of_many_parts(void **state) {
    (void)state;
    enum { MOST = 257 };
    for (uint32_t count = 127; count <= MOST; count++) {
        struct pw_shared shared, other;
        struct pw_shared_part parts[MOST] = {{.size = 0}}, part;
        char handle[PW_SHARED_HANDLE_SIZE];
        CHECK(pw_shared_begin(&shared, RUNTIME) == PW_SHARED_OK);
        for (uint32_t i = 0; i < count; i++) {
            parts[i].offset = pw_shared_next_page(&shared);
            parts[i].size = sizeof i;
            CHECK(pw_shared_write(&shared, &i, sizeof i) == PW_SHARED_OK);
        }
        CHECK(pw_shared_finish(&shared, parts, count) == PW_SHARED_OK);
        pw_shared_handle(&shared, count - 1, handle);
        assert_int_equal(pw_shared_open(handle, sizeof handle, RUNTIME, &other), PW_SHARED_OK);
        for (uint32_t i = 0, read; i < count; i++) {
            assert_true(pw_shared_describe(&other, i, &part));
            assert_true(pw_shared_read(&other, &part, &read) && read == i);
        }
        assert_false(pw_shared_describe(&other, count, &part));
        pw_shared_close(&other);
        pw_shared_close(&shared);
    }
}

static void nobody_can_change_it(void **state) {
    (void)state;
    struct pw_shared shared = make();
    struct stat status;
    char path[64];
    assert_int_equal(fstat(shared.fd, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0400);
    snprintf(path, sizeof path, "/proc/self/fd/%d", shared.fd);
    fchmod(shared.fd, 0600); // the owner may; it does not help
    int fd = open(path, O_RDWR);
    if (fd >= 0) {
        assert_true(ftruncate(fd, 0) < 0);
        assert_true(ftruncate(fd, 1 << 30) < 0);
        assert_true(pwrite(fd, "x", 1, 0) < 0);
        assert_true(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PW_PAGE) < 0);
        assert_true(mmap(NULL, PW_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
        assert_true(fcntl(fd, F_ADD_SEALS, 0) < 0);
        close(fd);
    }
    pw_shared_close(&shared);
}

static void damaged_handles_are_refused(void **state) {
    (void)state;
    struct pw_shared shared = make(), other;
    unsigned char handle[PW_SHARED_HANDLE_SIZE + 1] = {0};
    pw_shared_handle(&shared, 0, handle);
    for (size_t size = 0; size <= sizeof handle; size++) {
        if (size != PW_SHARED_HANDLE_SIZE) {
            assert_int_equal(pw_shared_open(handle, size, RUNTIME, &other), PW_SHARED_DAMAGED);
        }
    }
    for (size_t bit = 0; bit < PW_SHARED_HANDLE_SIZE * 8; bit++) {
        handle[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_equal(opened(handle), PW_SHARED_DAMAGED);
        handle[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_int_equal(opened(handle), PW_SHARED_OK);
    assert_int_equal(pw_shared_open(handle, PW_SHARED_HANDLE_SIZE, RUNTIME + 1, &other),
                     PW_SHARED_RUNTIME);
    pw_shared_close(&shared);
}

static void forged_handles_are_refused(void **state) {
    (void)state;
    struct pw_shared shared = make(), other;
    struct pw_exchange_handle good, bad;
    pw_shared_handle(&shared, 0, &good);
#define FORGED(change, result)                                                                     \
    bad = good;                                                                                    \
    change;                                                                                        \
    bad.check = check_of(&bad);                                                                    \
    assert_int_equal(opened(&bad), result)
    FORGED(bad.layout++, PW_SHARED_LAYOUT);
    FORGED(bad.order = __builtin_bswap32(bad.order), PW_SHARED_LAYOUT);
    FORGED(bad.runtime++, PW_SHARED_RUNTIME);
    FORGED(bad.boot++, PW_SHARED_MACHINE);
    FORGED(bad.user++, PW_SHARED_USER);
    FORGED(bad.size += PW_PAGE, PW_SHARED_FORGED);
    FORGED(bad.token[3] ^= 1, PW_SHARED_GONE);
    FORGED(bad.sender_fd = bad.maker_fd = 0, PW_SHARED_OK); // found by its name
    FORGED((bad.sender_pid = bad.maker_pid = 1, bad.sender_fd = -5), PW_SHARED_OK);
    bad = good;
    bad.part = 1;
    bad.check = check_of(&bad);
    struct pw_shared_part part;
    assert_int_equal(pw_shared_open(&bad, sizeof bad, RUNTIME, &other), PW_SHARED_OK);
    assert_false(pw_shared_describe(&other, 1, &part));
    assert_false(pw_shared_describe(&other, UINT32_MAX, &part));
    pw_shared_close(&other);
    pw_shared_close(&shared);
    assert_int_equal(opened(&good), PW_SHARED_GONE);
}

// A file of the right name, which its maker can still change, or which holds something else.
static void forged_files_are_refused(void **state) {
    (void)state;
    struct pw_shared shared = make();
    struct pw_exchange_handle handle;
    char name[64] = "pagewise-shared-";
    pw_shared_handle(&shared, 0, &handle);
    unsigned char *content = malloc(shared.size);
    assert_int_equal(pread(shared.fd, content, shared.size, 0), shared.size);
    pw_shared_close(&shared);
    for (int i = 0; i < 16; i++) {
        sprintf(name + 16 + i * 2, "%02x", handle.token[i]);
    }
    for (int kind = 0; kind < 4; kind++) {
        int fd = memfd_create(name, MFD_ALLOW_SEALING);
        size_t size = kind == 3 ? PW_PAGE / 2 : shared.size;
        assert_int_equal(pwrite(fd, content, size, 0), size);
        if (kind == 1) {
            assert_int_equal(pwrite(fd, "PWSHAREE", 8, 0), 8);
        }
        if (kind == 2) {
            assert_int_equal(pwrite(fd, "x", 1, 40), 1); // in the header
        }
        if (kind > 0) {
            assert_int_equal(
                fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE),
                0);
        }
        assert_int_equal(opened(&handle), PW_SHARED_FORGED);
        close(fd);
    }
    free(content);
}

// Sealed all the same, but who maps it needs pages of the pool.
static void files_of_the_hugetlb_pool_are_refused(void **state) {
    (void)state;
    int fd = memfd_create("pagewise-shared-hugetlb", MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (fd < 0 || ftruncate(fd, 2 * MB) != 0) {
        skip(); // a kernel without them
    }
    struct pw_os_file file = {.fd = fd};
    assert_int_equal(
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
    assert_int_equal(pw_os_sealed_size(&file), 0);
    close(fd);
}

static void a_process_is_one_holder_however_often_it_has_it(void **state) {
    (void)state;
    struct pw_shared shared = make();
    uint32_t pids[2];
    int more[] = {dup(shared.fd), dup(shared.fd)};
    assert_int_equal(pw_shared_holders(&shared, pids, 2), 1);
    assert_int_equal(pw_shared_holders(&shared, NULL, 0), 1);
    close(more[0]);
    close(more[1]);
    pw_shared_close(&shared);
}

// A child that makes an object, sends its handle, and waits to be killed.
static pid_t make_in_child(void *handle) {
    int tube[2];
    CHECK(pipe(tube) == 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // a test that fails does not leave it behind
        struct pw_shared shared = make();
        pw_shared_handle(&shared, 0, handle);
        CHECK(write(tube[1], handle, PW_SHARED_HANDLE_SIZE) == PW_SHARED_HANDLE_SIZE);
        for (;;) {
            pause();
        }
    }
    CHECK(read(tube[0], handle, PW_SHARED_HANDLE_SIZE) == PW_SHARED_HANDLE_SIZE);
    close(tube[0]);
    close(tube[1]);
    return child;
}

static void end(pid_t child) {
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
}

static void objects_outlive_their_makers(void **state) {
    (void)state;
    char handle[PW_SHARED_HANDLE_SIZE], later[PW_SHARED_HANDLE_SIZE];
    struct pw_shared shared;
    uint32_t pids[4];
    pid_t child = make_in_child(handle);
    assert_int_equal(pw_shared_open(handle, sizeof handle, RUNTIME, &shared), PW_SHARED_OK);
    assert_int_equal(pw_shared_holders(&shared, pids, 4), 2);
    end(child);
    assert_int_equal(pw_shared_holders(&shared, pids, 4), 1);
    assert_int_equal(pids[0], getpid());
    struct pw_shared_part part = first_part(&shared);
    char *view = pw_shared_map(&shared, &part);
    struct pw_shared same = make(); // fills `data` as the child did
    pw_shared_close(&same);
    assert_memory_equal(view, data, SIZE);
    // Both the maker's handle and ours now lead to us.
    pw_shared_handle(&shared, 0, later);
    assert_int_equal(opened(handle), PW_SHARED_OK);
    assert_int_equal(opened(later), PW_SHARED_OK);
    pw_shared_close(&shared);
    assert_int_equal(opened(handle), PW_SHARED_GONE);
    assert_int_equal(opened(later), PW_SHARED_GONE);
    pw_shared_unmap(view, &part);
}

static void forked_children_have_it(void **state) {
    (void)state;
    struct pw_shared shared = make();
    struct pw_shared_part part = first_part(&shared);
    char *view = pw_shared_map(&shared, &part);
    pid_t child = fork();
    if (child == 0) {
        CHECK(memcmp(view, data, SIZE) == 0);
        view[0] ^= 1;
        CHECK(pw_shared_changed(&shared, &part, view));
        char handle[PW_SHARED_HANDLE_SIZE];
        pw_shared_handle(&shared, 0, handle);
        CHECK(opened(handle) == PW_SHARED_OK);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_memory_equal(view, data, SIZE);
    pw_shared_unmap(view, &part);
    pw_shared_close(&shared);
}

static void descriptors_of_the_program_are_left_alone(void **state) {
    (void)state;
    struct pw_shared shared = make();
    struct pw_shared_part part = first_part(&shared);
    int number = shared.fd;
    close(number);
    assert_int_equal(dup2(0, number), number); // the program's own file now has our number
    assert_null(pw_shared_map(&shared, &part));
    assert_false(pw_shared_describe(&shared, 0, &part));
    pw_shared_close(&shared);
    assert_true(fcntl(number, F_GETFD) >= 0);
    close(number);
}

static void failures_are_results(void **state) {
    (void)state;
    static const enum pw_os_point points[] = {PW_POINT_FILE_CREATE, PW_POINT_FILE_SIZE,
                                              PW_POINT_FILE_STAT, PW_POINT_FILE_WRITE,
                                              PW_POINT_FILE_SEAL};
    struct pw_shared_part part = {.offset = PW_PAGE, .size = SIZE};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        struct pw_shared shared;
        pw_os_fault_plan(points[i], ENOMEM, 1, 1);
        enum pw_shared_result result = pw_shared_begin(&shared, RUNTIME);
        if (result == PW_SHARED_OK) {
            result = pw_shared_write(&shared, data, SIZE);
        }
        if (result == PW_SHARED_OK) {
            result = pw_shared_finish(&shared, &part, 1);
        }
        pw_os_fault_clear();
        pw_shared_close(&shared);
        assert_true(result == PW_SHARED_LIMIT || result == PW_SHARED_MEMORY);
    }
    struct pw_shared shared = make(), other;
    char handle[PW_SHARED_HANDLE_SIZE];
    pw_shared_handle(&shared, 0, handle);
    pw_os_fault_plan(PW_POINT_FILE_OPEN, EMFILE, 1, 1);
    assert_int_equal(opened(handle), PW_SHARED_LIMIT);
    pw_os_fault_plan(PW_POINT_FILE_OPEN, EACCES, 1, 1);
    assert_int_equal(opened(handle), PW_SHARED_DENIED);
    pw_os_fault_clear();
    pw_os_fault_plan(PW_POINT_FILE_READ, EIO, 1, 1);
    assert_int_equal(pw_shared_open(handle, sizeof handle, RUNTIME, &other), PW_SHARED_FORGED);
    pw_os_fault_clear();
    pw_os_fault_plan(PW_POINT_MAP_SNAPSHOT, ENOMEM, 1, 1);
    part = first_part(&shared);
    assert_null(pw_shared_map(&shared, &part));
    pw_os_fault_clear();
    pw_shared_close(&shared);
}

static void limits_are_results(void **state) {
    (void)state;
    struct pw_shared made = make();
    struct pw_exchange_handle handle, short_of_descriptors;
    pw_shared_handle(&made, 0, &handle);
    handle.sender_fd = handle.maker_fd = 0; // to be found by its name
    handle.check = check_of(&handle);
    pid_t child = fork();
    if (child == 0) {
        struct pw_shared shared;
        struct rlimit none = {PW_PAGE, PW_PAGE};
        CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0); // a write beyond it would raise SIGXFSZ
        CHECK(pw_shared_begin(&shared, RUNTIME) == PW_SHARED_OK);
        CHECK(pw_shared_write(&shared, data, SIZE) == PW_SHARED_MEMORY);
        close(3);
        struct rlimit one_more = {4, 4}; // enough to begin to look for who has it
        CHECK(setrlimit(RLIMIT_NOFILE, &one_more) == 0);
        CHECK(opened(&handle) == PW_SHARED_LIMIT);
        struct rlimit few = {3, 3};
        CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
        CHECK(pw_shared_begin(&shared, RUNTIME) == PW_SHARED_LIMIT);
        CHECK(opened(&handle) == PW_SHARED_LIMIT); // and not that it is of another machine
        pw_shared_handle(&made, 0, &short_of_descriptors);
        CHECK(short_of_descriptors.boot == handle.boot);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    pw_shared_close(&made);
}

// Most of all descriptors, but those above the program's own first, and never its last.
static void objects_leave_descriptors_to_the_program(void **state) {
    (void)state;
    struct pw_shared made = make();
    char handle[PW_SHARED_HANDLE_SIZE];
    pw_shared_handle(&made, 0, handle);
    pid_t child = fork();
    if (child == 0) {
        enum { LIMIT = 128, MANY = 100, LEFT = LIMIT / 2 / 4 };
        struct pw_shared shared[LIMIT];
        struct rlimit few = {LIMIT, LIMIT};
        int count = 0;
        CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
        while (pw_shared_begin(&shared[count], RUNTIME) == PW_SHARED_OK) {
            count++;
        }
        CHECK(count >= MANY);
        CHECK(opened(handle) == PW_SHARED_LIMIT);
        for (int i = 0; i < LEFT; i++) {
            CHECK(open("/dev/null", O_RDONLY) >= 0);
        }
        pw_shared_close(&shared[0]);
        CHECK(opened(handle) == PW_SHARED_OK);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    pw_shared_close(&made);
}

static void other_users_cannot_read(void **state) {
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    struct pw_shared shared = make();
    struct pw_exchange_handle handle;
    pw_shared_handle(&shared, 0, &handle);
    pid_t child = fork();
    if (child == 0) {
        pw_shared_close(&shared);
        CHECK(setgid(65534) == 0 && setuid(65534) == 0);
        CHECK(opened(&handle) == PW_SHARED_USER);
        handle.user = 65534;
        handle.check = check_of(&handle);
        enum pw_shared_result result = opened(&handle);
        CHECK(result == PW_SHARED_DENIED || result == PW_SHARED_GONE);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    pw_shared_close(&shared);
}

static bool go_on(void *context, uint32_t process, int32_t descriptor) {
    (void)context;
    (void)process;
    (void)descriptor;
    return true;
}

#define NOBODY_ELSE 4000000000u // no process has this user

#define MANY 64

static void *wait_for_ever(void *nothing) {
    while (true) {
        pause();
    }
    return nothing;
}

// A child with many threads, which the caller ends: where its first one has ended it leads nowhere.
static pid_t child_of_many_threads(bool first_ends) {
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        for (int i = 0; i < MANY; i++) {
            CHECK(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0);
        }
        CHECK(write(ends[1], "", 1) == 1);
        if (first_ends) {
            pthread_exit(NULL);
        }
        wait_for_ever(NULL);
    }
    CHECK(read(ends[0], &byte, 1) == 1);
    close(ends[0]);
    close(ends[1]);
    return child;
}

// Its first thread is gone before the others are.
static bool first_has_ended(pid_t process) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "r");
    bool known = file && fgets(text, sizeof text, file);
    if (file) {
        fclose(file);
    }
    const char *end = strrchr(text, ')');
    return !known || (end && end[2] == 'Z');
}

static void kill_one_of_many_threads(void) {
    pid_t process = child_of_many_threads(false);
    kill(process, SIGKILL);
    while (!first_has_ended(process)) {}
    CHECK(!pw_os_may_hold((uint32_t)process));
    CHECK(waitpid(process, NULL, 0) == process);
}

static bool one_whose_first_thread_has_ended_may_hold(void) {
    pid_t process = child_of_many_threads(true);
    while (!first_has_ended(process)) {
        usleep(1000);
    }
    bool may = pw_os_may_hold((uint32_t)process);
    kill(process, SIGKILL);
    CHECK(waitpid(process, NULL, 0) == process);
    return may;
}

// What a program has that does not wait for its children. Root may list a zombie's descriptors.
static void processes_that_have_ended_hide_nothing(void **state) {
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    pid_t child = fork();
    if (child == 0) {
        siginfo_t ended;
        CHECK(setresuid(NOBODY_ELSE, NOBODY_ELSE, NOBODY_ELSE) == 0);
        CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
        CHECK(!pw_os_each_holder("nothing", go_on, NULL));
        int ends[2];
        char handle[PW_SHARED_HANDLE_SIZE];
        CHECK(pipe(ends) == 0);
        pid_t zombie = fork();
        if (zombie == 0) {
            struct pw_shared shared = make();
            pw_shared_handle(&shared, 0, handle);
            CHECK(write(ends[1], handle, sizeof handle) == sizeof handle);
            _exit(0);
        }
        CHECK(read(ends[0], handle, sizeof handle) == sizeof handle);
        CHECK(waitid(P_PID, (id_t)zombie, &ended, WEXITED | WNOWAIT) == 0);
        CHECK(!pw_os_each_holder("nothing", go_on, NULL));
        CHECK(opened(handle) == PW_SHARED_GONE); // it is its handle that names the zombie
        for (int i = 0; i < 50; i++) {
            kill_one_of_many_threads();
        }
        CHECK(one_whose_first_thread_has_ended_may_hold());
        pid_t hidden = fork();
        if (hidden == 0) {
            prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
            pause();
        }
        for (int i = 0; i < 1000 && !pw_os_each_holder("nothing", go_on, NULL); i++) {
            usleep(10000);
        }
        CHECK(pw_os_each_holder("nothing", go_on, NULL));
        kill(hidden, SIGKILL);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_are_private),
        cmocka_unit_test(without_its_file_a_view_counts_as_changed),
        cmocka_unit_test(views_without_page_tables),
        cmocka_unit_test(objects_of_many_parts),
        cmocka_unit_test(nobody_can_change_it),
        cmocka_unit_test(damaged_handles_are_refused),
        cmocka_unit_test(forged_handles_are_refused),
        cmocka_unit_test(forged_files_are_refused),
        cmocka_unit_test(files_of_the_hugetlb_pool_are_refused),
        cmocka_unit_test(a_process_is_one_holder_however_often_it_has_it),
        cmocka_unit_test(objects_outlive_their_makers),
        cmocka_unit_test(forked_children_have_it),
        cmocka_unit_test(descriptors_of_the_program_are_left_alone),
        cmocka_unit_test(failures_are_results),
        cmocka_unit_test(limits_are_results),
        cmocka_unit_test(objects_leave_descriptors_to_the_program),
        cmocka_unit_test(other_users_cannot_read),
        cmocka_unit_test(processes_that_have_ended_hide_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
