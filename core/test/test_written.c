// SPDX-License-Identifier: MIT
//
// Which pages were written: told once, to this process alone, and an error where anything is lost.
#include "os/fault.h"
#include "os/os.h"
#include "support.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGES = 600 };

static struct pw_os_written written;
static char *area;
static bool told[PAGES];

static bool note(void *context, char *start, size_t size) {
    (void)context;
    for (size_t at = 0; at < size; at += PW_PAGE) {
        size_t page = (size_t)(start + at - area) / PW_PAGE;
        CHECK(page < PAGES && !told[page]);
        told[page] = true;
    }
    return true;
}

static bool take(void) {
    memset(told, 0, sizeof told);
    uintptr_t start = (uintptr_t)area;
    return pw_os_written_take(&written, start, start + PAGES * PW_PAGE, note, NULL);
}

static unsigned count(void) {
    unsigned found = 0;
    for (unsigned page = 0; page < PAGES; page++) {
        found += told[page];
    }
    return found;
}

static int begin(void **state) {
    (void)state;
    area = mmap(NULL, PAGES * PW_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    memset(area, 1, PAGES * PW_PAGE);
    return 0;
}

static int end(void **state) {
    (void)state;
    pw_os_fault_clear();
    pw_os_written_close(&written);
    munmap(area, PAGES * PW_PAGE);
    return 0;
}

static void watch(void) {
    if (!pw_os_written_open(&written)) {
        skip(); // before Linux 6.7, or denied
    }
    uintptr_t start = (uintptr_t)area;
    assert_true(pw_os_written_watch(&written, start, start + PAGES * PW_PAGE));
    assert_true(take());
}

static void each_written_page_is_told_once(void **state) {
    (void)state;
    watch();
    assert_true(take());
    assert_int_equal(count(), 0);
    for (unsigned page = 0; page < PAGES; page += 2) { // more ranges than one call tells
        area[page * PW_PAGE + 5] = 2;
    }
    assert_true(take());
    assert_int_equal(count(), PAGES / 2);
    assert_true(told[0] && !told[1] && told[PAGES - 2]);
    assert_true(take());
    assert_int_equal(count(), 0);
}

static void what_is_listed_is_told_again(void **state) {
    (void)state;
    watch();
    assert_true(take());
    area[7 * PW_PAGE] = 2;
    for (int call = 0; call < 2; call++) {
        memset(told, 0, sizeof told);
        uintptr_t start = (uintptr_t)area;
        assert_true(pw_os_written_list(&written, start, start + PAGES * PW_PAGE, note, NULL));
        assert_true(count() == 1 && told[7]);
    }
    assert_true(take());
    assert_true(count() == 1 && told[7]);
    assert_true(take());
    assert_int_equal(count(), 0);
}

// A child has the descriptor as well, so that closing it here ends nothing.
static void what_is_unwatched_may_be_watched_by_another(void **state) {
    (void)state;
    watch();
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        char byte;
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ends[0]);
    uintptr_t start = (uintptr_t)area;
    pw_os_written_unwatch(&written, start, start + PAGES * PW_PAGE);
    pw_os_written_close(&written);
    watch();
    close(ends[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

// Its pages are not watched, and the file is its parent's.
static void a_child_is_told_of_its_parents_pages_alone(void **state) {
    (void)state;
    watch();
    pid_t child = fork();
    if (child == 0) {
        area[0] = 3;
        _exit(pw_os_is_ours(&written.table) && take() && !told[0] ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0); // so a child must not rest on it: rescan.c asks the fork marker
    area[PW_PAGE] = 3;
    assert_true(take());
    assert_true(told[1]);
}

static void what_is_not_watched_is_an_error(void **state) {
    (void)state;
    watch();
    mmap(area + 7 * PW_PAGE, PW_PAGE, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    area[7 * PW_PAGE] = 4;
    assert_false(take());
}

static void a_closed_watch_is_an_error(void **state) {
    (void)state;
    watch();
    close(written.watch.fd);
    area[0] = 5;
    assert_false(take());
}

static void what_is_refused_is_false(void **state) {
    (void)state;
    watch();
    pw_os_fault_plan(PW_POINT_WRITTEN, EPERM, 1, 1);
    assert_false(take());
    assert_false(pw_os_written_watch(&written, (uintptr_t)area, (uintptr_t)area + PW_PAGE));
}

static void no_descriptor_is_left_by_an_open_that_fails(void **state) {
    (void)state;
    watch();
    int next = dup(0);
    close(next);
    for (unsigned long call = 1; call <= 3; call++) {
        struct pw_os_written other;
        pw_os_fault_plan(PW_POINT_WRITTEN, EMFILE, call, 0);
        assert_false(pw_os_written_open(&other));
        assert_true(other.watch.fd < 0 && other.table.fd < 0);
        int now = dup(0);
        assert_int_equal(now, next);
        close(now);
    }
}

static void write_every_other_page(void) {
    for (unsigned page = 0; page < PAGES; page += 2) {
        area[page * PW_PAGE]++;
    }
}

static void a_scan_that_stops_early_is_gone_on_with(void **state) {
    (void)state;
    watch();
    write_every_other_page();
    pw_os_fault_plan(PW_POINT_WRITTEN, -1, 1, 1);
    assert_true(take());
    assert_int_equal(count(), PAGES / 2);
    assert_int_equal(pw_os_fault_calls(PW_POINT_WRITTEN), PAGES / 2);
}

// What it took is not told again, so that nobody may take the rest for all.
static void a_scan_that_fails_half_way_is_an_error(void **state) {
    (void)state;
    watch();
    write_every_other_page();
    pw_os_fault_plan(PW_POINT_WRITTEN, -2, 3, 0);
    assert_false(take());
    assert_true(take());
    assert_true(count() < PAGES / 2);
}

static void a_watch_of_a_part_is_an_error(void **state) {
    (void)state;
    if (!pw_os_written_open(&written)) {
        skip();
    }
    pw_os_fault_plan(PW_POINT_WRITTEN, -1, 1, 0);
    assert_false(
        pw_os_written_watch(&written, (uintptr_t)area, (uintptr_t)(area + PAGES * PW_PAGE)));
    assert_false(take()); // the other part is not watched
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(each_written_page_is_told_once),
        CASE(what_is_listed_is_told_again),
        CASE(what_is_unwatched_may_be_watched_by_another),
        CASE(a_child_is_told_of_its_parents_pages_alone),
        CASE(what_is_not_watched_is_an_error),
        CASE(a_closed_watch_is_an_error),
        CASE(what_is_refused_is_false),
        CASE(no_descriptor_is_left_by_an_open_that_fails),
        CASE(a_scan_that_stops_early_is_gone_on_with),
        CASE(a_scan_that_fails_half_way_is_an_error),
        CASE(a_watch_of_a_part_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
