// SPDX-License-Identifier: MIT
//
// The reader of /proc/self/maps, with lines that are longer than what it may hold.
#include "os/fault.h"
#include "os/mapping.h"
#include "os/os.h"
#include "support.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MOST 2000

// Its later parts look like lines themselves.
#define PART "0-ffffffffffff rwxp 00000000 00:00 0 \n1000-2000 rwxp "

static struct pw_os_line expected[MOST];
static char names[MOST][64];
static size_t count;

static bool expect(void *context, const struct pw_os_line *line) {
    (void)context;
    CHECK(count < MOST);
    strncpy(names[count], line->name, sizeof *names - 1);
    expected[count++] = *line;
    return false;
}

static bool compare(void *context, const struct pw_os_line *line) {
    size_t *at = context;
    CHECK(*at < count && line->start == expected[*at].start && line->end == expected[*at].end);
    CHECK(line->protection == expected[*at].protection);
    CHECK(strncmp(line->name, names[*at], strlen(names[*at]) < 40 ? 41 : 40) == 0);
    ++*at;
    return false;
}

static void *map_file_with_long_path(void) {
    char path[2000] = "/tmp/pagewise-maps-XXXXXX";
    CHECK(mkdtemp(path));
    size_t own = strlen(path);
    for (int depth = 0; depth < 12; depth++) {
        snprintf(path + strlen(path), sizeof path - strlen(path), "/%d%s", depth, PART);
        CHECK(depth == 11 || mkdir(path, 0700) == 0);
    }
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, PW_PAGE) == 0);
    void *mapped = mmap(NULL, PW_PAGE, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(mapped != MAP_FAILED);
    close(fd);
    char command[100];
    snprintf(command, sizeof command, "rm -r %.*s", (int)own, path);
    CHECK(system(command) == 0);
    return mapped;
}

static void a_small_buffer_sees_the_same_lines(void **state) {
    (void)state;
    void *mapped = map_file_with_long_path();
    char text[PW_OS_LONGEST_LINE + 1];
    count = 0;
    assert_false(pw_os_each_line(expect, NULL, text, sizeof text));
    assert_true(count > 10);
    for (size_t size = 150; size < sizeof text; size += size < 500 ? 1 : size / 8) {
        size_t at = 0;
        assert_false(pw_os_each_line(compare, &at, text, size));
        assert_int_equal(at, count);
    }
    munmap(mapped, PW_PAGE);
}

static void a_mapping_is_the_same_from_the_call_and_from_the_lines(void **state) {
    (void)state;
    char text[PW_OS_LONGEST_LINE + 1];
    count = 0;
    assert_false(pw_os_each_line(expect, NULL, text, sizeof text));
    for (size_t i = 0; i + 3 < count; i++) { // those at the end are the kernel's
        const void *below = (const void *)(i > 0 ? expected[i - 1].end : 0);
        struct pw_os_mapping called, read;
        assert_true(pw_os_mapping_from(below, &called));
        pw_os_fault_plan(PW_POINT_MAPS, EACCES, 1, 0);
        assert_true(pw_os_mapping_from(below, &read));
        pw_os_fault_clear();
        assert_true(called.start == expected[i].start && called.end == expected[i].end);
        assert_true(read.start == called.start && read.end == called.end);
        assert_int_equal(read.protection, called.protection);
        if (strlen(read.name) < sizeof read.name - 1) {
            assert_string_equal(read.name, called.name);
        }
    }
}

// Looking at a page neither brings it into memory nor takes a fault.
static void what_lies_at_an_address_is_told(void **state) {
    (void)state;
    char *pages =
        mmap(NULL, 3 * PW_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(munmap(pages + 2 * PW_PAGE, PW_PAGE), 0);
    memset(pages, 7, PW_PAGE);
    char bytes[6] = {0};
    errno = 77;
    for (size_t at = 0; at < PW_PAGE; at += 5) {
        assert_int_equal(pw_os_page_at(pages + at), PW_OS_PAGE_HERE);
        assert_int_equal(pw_os_page_at(pages + PW_PAGE + at), PW_OS_PAGE_UNKNOWN);
        assert_int_equal(pw_os_page_at(pages + 2 * PW_PAGE + at), PW_OS_PAGE_NONE);
    }
    assert_int_equal(pw_os_page_at((void *)0xffffffff81000000), PW_OS_PAGE_NONE);
    assert_true(pw_os_peek(pages + 5, bytes, sizeof bytes) && bytes[0] == 7 && bytes[5] == 7);
    assert_int_equal(mprotect(pages, PW_PAGE, PROT_NONE), 0);
    assert_false(pw_os_peek(pages + 5, bytes, sizeof bytes));
    assert_false(pw_os_peek(pages + 2 * PW_PAGE, bytes, sizeof bytes));
    assert_int_equal(errno, 77);
    assert_int_equal(munmap(pages, 2 * PW_PAGE), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_buffer_sees_the_same_lines),
        cmocka_unit_test(a_mapping_is_the_same_from_the_call_and_from_the_lines),
        cmocka_unit_test(what_lies_at_an_address_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
