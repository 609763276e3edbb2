// SPDX-License-Identifier: MIT
//
// Blocks on pages of the hugetlb pool, of 2 MB and of 1 GB, where the pool has some: what the
// kernel says of them, forks, and that the pool has all of them back. Where the pool is empty the
// block is there all the same, on other pages.
#include "entry/switch.h"
#include "process/state.h"
#include "support.h"

struct source {
    const char *options;
    const char *free_pages;
    size_t page, size;
};

static const struct source sources[] = {
    {"policy=huge,huge=always,pages=hugetlb",
     "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", 2 * MB, 9 * MB},
    {"policy=huge,huge=always,huge-max=8G,pages=hugetlb-1g",
     "/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", 1024 * MB, 1029 * MB},
};

static long free_pages(const struct source *source) {
    long count = 0;
    FILE *file = fopen(source->free_pages, "r");
    if (file) {
        if (fscanf(file, "%ld", &count) != 1) {
            count = 0;
        }
        fclose(file);
    }
    return count;
}

// Bytes of the pages that hold `address`, as the kernel tells.
static size_t kernel_page_size(const void *address) {
    FILE *file = fopen("/proc/self/smaps", "r");
    assert_non_null(file);
    char line[512];
    unsigned long start, end, kb = 0;
    bool here = false;
    while (kb == 0 && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
            here = start <= (uintptr_t)address && (uintptr_t)address < end;
        } else if (here && sscanf(line, "KernelPageSize: %lu", &kb) != 1) {
            kb = 0;
        }
    }
    fclose(file);
    return kb << 10;
}

// One byte in each 4 KB page, and all different enough to tell pages apart.
static void write_pages(char *block, size_t size, unsigned salt) {
    for (size_t at = 0; at < size; at += PW_PAGE) {
        block[at] = (char)((at / PW_PAGE * 31 + salt) % 251);
    }
}

static bool has_pages(const char *block, size_t size, unsigned salt) {
    for (size_t at = 0; at < size; at += PW_PAGE) {
        if (block[at] != (char)((at / PW_PAGE * 31 + salt) % 251)) {
            return false;
        }
    }
    return true;
}

static bool is_on(const struct source *source, const struct pw_block_info *info) {
    return info->from_hugetlb && (size_t)1 << info->huge_shift == source->page;
}

static char *block_on(const struct source *source, struct pw_block_info *info) {
    assert_null(pw_heap_switch_on(source->options));
    char *block = pw_allocate(source->size);
    assert_non_null(block);
    assert_true(pw_block_describe(block, info));
    return block;
}

static void check_forks(char *block, size_t size) {
    pid_t child = fork();
    if (child == 0) {
        bool inherited = has_pages(block, size, 1);
        write_pages(block, size, 2); // SIGBUS where the child would need another page of the pool
        _exit(inherited && has_pages(block, size, 2) ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(has_pages(block, size, 1));
    write_pages(block, size, 3);
    assert_true(has_pages(block, size, 3));
}

static void check(const struct source *source) {
    long before = free_pages(source);
    long whole = (long)(source->size / source->page);
    struct pw_block_info info;
    char *block = block_on(source, &info);
    print_message("%ld free pages of %zu MB: %s\n", before, source->page / MB,
                  is_on(source, &info) ? "the block is on them" : "the block is on other pages");
    assert_int_equal(is_on(source, &info), before >= whole);
    write_pages(block, source->size, 1);
    if (is_on(source, &info)) {
        assert_int_equal(kernel_page_size(block + PW_PAGE), source->page);
        assert_int_equal(free_pages(source), before - whole);
    }
    check_forks(block, source->size);
    pw_free(block);
    assert_int_equal(free_pages(source), before); // moved to other pages before the fork
    block = block_on(source, &info);
    assert_int_equal(is_on(source, &info), before >= whole);
    pw_free(block);
    assert_int_equal(free_pages(source), before); // and given back by its release
}

static void pages_of_2_mb(void **state) {
    (void)state;
    check(&sources[0]);
}

static void pages_of_1_gb(void **state) {
    (void)state;
    check(&sources[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_of_2_mb),
        cmocka_unit_test(pages_of_1_gb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
