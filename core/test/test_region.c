// SPDX-License-Identifier: MIT
//
// What pagewise.h promises of regions.
#include "os/fault.h"
#include "pagewise.h"
#include "pagewise_heap.h"
#include "support.h"

static uint64_t used_bytes(struct pw_region *region) {
    struct pw_heap_statistics now;
    pw_region_statistics_read(region, &now);
    return now.live_bytes;
}

static unsigned region_limits;

static bool at_region_limit(struct pw_heap *heap, size_t needed, void *context) {
    assert_null(heap);
    assert_true(needed > 0);
    region_limits++;
    struct pw_region **region = context;
    if (region_limits == 2) {
        pw_region_set_limit(*region, 0);
        return true;
    }
    return false;
}

static void a_region_keeps_its_limit_and_gives_memory_back(void **state) {
    (void)state;
    struct pw_region *region;
    struct pw_heap_options options = {.limit_bytes = 1 * MB,
                                      .on_limit = at_region_limit,
                                      .context = &region,
                                      .keep_bytes = 64 * KB,
                                      .flags = PW_HEAP_RETURN_EMPTY};
    region = pw_region_new(&options);
    size_t got = 0;
    char *last = NULL, *block;
    while ((block = pw_region_alloc(region, 1000))) {
        got++;
        last = memset(block, 1, 1000);
    }
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(got, 1 * MB / 1008);
    assert_int_equal(region_limits, 1);
    assert_non_null(pw_region_alloc(region, 300 * MB)); // the limit goes
    assert_int_equal(region_limits, 2);
    pw_region_free_all(region);
    assert_false(in_memory(last));
    struct pw_heap_statistics now;
    pw_region_statistics_read(region, &now);
    assert_true(now.peak_segment_bytes > 300 * MB && now.mapped_bytes == 256 * MB);
    assert_int_equal(now.transactions, 1);
    assert_int_equal(pw_region_usable_size(region, last), 0);
    pw_region_delete(region);
    options.segment_bytes = 32 * KB;
    assert_null(pw_region_new(&options));
    assert_int_equal(errno, EINVAL);
}

static void a_chunk_that_cannot_be_unmapped_is_kept_without_its_pages(void **state) {
    (void)state;
    struct pw_heap_options options = {.flags = PW_HEAP_RETURN_EMPTY};
    struct pw_region *region = pw_region_new(&options);
    char *blocks[3];
    for (int i = 0; i < 3; i++) {
        blocks[i] = pw_region_alloc(region, 200 * MB); // each in a chunk of its own
        memset(blocks[i] + MB, 1, 4096);
    }
    pw_os_fault_plan(PW_POINT_UNMAP, ENOMEM, 1, 0);
    pw_region_free_all(region);
    pw_os_fault_clear();
    assert_false(in_memory(blocks[1] + MB));
    struct pw_heap_statistics now;
    pw_region_statistics_read(region, &now);
    assert_int_equal(now.mapped_bytes, 512 * MB);
    assert_ptr_equal(pw_region_alloc(region, 200 * MB), blocks[0]);
    assert_ptr_equal(pw_region_alloc(region, 200 * MB), blocks[1]);
    pw_region_delete(region);
}

static void a_region_allocates_moves_and_starts_over(void **state) {
    (void)state;
    struct pw_region *region = pw_region_new(NULL);
    char *one = pw_region_alloc(region, 10), *two = pw_region_alloc(region, 100);
    assert_ptr_equal(two, one + 16);
    assert_int_equal(used_bytes(region), 16 + 112);
    memset(one, 1, 10);
    pw_region_free(region, one);
    assert_ptr_not_equal(pw_region_alloc(region, 10), one);
    char *moved = pw_region_realloc(region, one, 1000);
    assert_int_equal(moved[9], 1);
    assert_int_equal((uintptr_t)pw_region_aligned(region, 4096, 5) % 4096, 0);
    // Beyond the first chunk, twice: the second chunk is found again.
    for (int round = 0; round < 2; round++) {
        char *large = pw_region_alloc(region, 200 * MB),
             *larger = pw_region_alloc(region, 300 * MB);
        large[200 * MB - 1] = larger[300 * MB - 1] = 1;
        pw_region_free_all(region);
        assert_int_equal(used_bytes(region), 0);
        assert_ptr_equal(pw_region_alloc(region, 10), one);
    }
    unsigned char *zero = pw_region_zalloc(region, 10, 100);
    for (int at = 0; at < 1000; at++) {
        assert_int_equal(zero[at], 0);
    }
    assert_non_null(pw_region_alloc(region, 0));
    assert_non_null(pw_region_realloc(region, NULL, 7));
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX / 2};
    for (size_t i = 0; i < 3; i++) {
        assert_null(pw_region_alloc(region, sizes[i]));
        assert_null(pw_region_realloc(region, one, sizes[i]));
        assert_null(pw_region_zalloc(region, sizes[i], 2));
    }
    pw_region_delete(region);
    pw_region_delete(NULL);
}

struct piece {
    unsigned char *data;
    size_t size;
    unsigned char seed;
};

static void fill_piece(struct piece *piece, void *data, size_t size, unsigned char seed) {
    *piece = (struct piece){data, size, seed};
    for (size_t at = 0; at < size; at++) {
        piece->data[at] = (unsigned char)(seed + at * 7);
    }
}

static void check_piece(const struct piece *piece, size_t size) {
    for (size_t at = 0; at < size; at++) {
        assert_int_equal(piece->data[at], (unsigned char)(piece->seed + at * 7));
    }
}

static void *some_piece(struct pw_region *region, struct random *random, size_t size) {
    switch (random_below(random, 4)) {
    case 0: {
        unsigned char *zeros = pw_region_zalloc(region, 1, size);
        for (size_t at = 0; at < size; at++) {
            assert_int_equal(zeros[at], 0);
        }
        return zeros;
    }
    case 1: {
        size_t alignment = (size_t)1 << random_below(random, 14);
        void *aligned = pw_region_aligned(region, alignment, size);
        assert_int_equal((uintptr_t)aligned % alignment, 0);
        return aligned;
    }
    default:
        return pw_region_alloc(region, size);
    }
}

static void a_region_keeps_every_byte_until_free_all(void **state) {
    (void)state;
    static struct piece pieces[400];
    struct pw_heap_options options = {.keep_bytes = 1 * MB};
    struct pw_region *region = pw_region_new(&options);
    struct random random = random_from(7);
    for (int transaction = 0; transaction < 100; transaction++) {
        size_t count = 1 + random_below(&random, 400);
        for (size_t i = 0; i < count; i++) {
            size_t most = random_chance(&random, 20) ? 100 * KB : 600;
            size_t size = 1 + random_below(&random, most);
            fill_piece(&pieces[i], some_piece(region, &random, size), size, (unsigned char)i);
            struct piece *other = &pieces[random_below(&random, i + 1)];
            if (random_chance(&random, 5)) {
                size_t resized = 1 + random_below(&random, 2 * other->size);
                other->data = pw_region_realloc(region, other->data, resized);
                check_piece(other, resized < other->size ? resized : other->size);
                fill_piece(other, other->data, resized, other->seed);
            }
        }
        for (size_t i = 0; i < count; i++) {
            assert_true(pw_region_contains(region, pieces[i].data));
            check_piece(&pieces[i], pieces[i].size);
        }
        pw_region_free_all(region);
    }
    pw_region_delete(region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_region_keeps_its_limit_and_gives_memory_back),
        cmocka_unit_test(a_chunk_that_cannot_be_unmapped_is_kept_without_its_pages),
        cmocka_unit_test(a_region_keeps_every_byte_until_free_all),
        cmocka_unit_test(a_region_allocates_moves_and_starts_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
