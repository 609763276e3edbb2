// SPDX-License-Identifier: MIT
//
// Checked heaps tell wrong uses apart, and are silent about right ones.
#include "pagewise.h"
#include "pagewise_heap.h"
#include "support.h"

#include <pthread.h>

struct misuse_log {
    unsigned count;
    enum pw_heap_misuse kind;
    const void *block;
    char text[256];
};

static void log_misuse(struct pw_heap *heap, enum pw_heap_misuse kind, const void *block,
                       const char *text, void *context) {
    (void)heap;
    struct misuse_log *log = context;
    log->count++;
    log->kind = kind;
    log->block = block;
    snprintf(log->text, sizeof log->text, "%s", text);
}

static struct misuse_log misuses;

static struct pw_heap *checked_heap(void) {
    struct pw_heap_options options = {
        .flags = PW_HEAP_CHECKED, .on_misuse = log_misuse, .context = &misuses};
    misuses = (struct misuse_log){0};
    struct pw_heap *heap = pw_heap_new(&options);
    assert_non_null(heap);
    return heap;
}

static void expect_misuse(enum pw_heap_misuse kind, const void *block, const char *word) {
    assert_int_equal(misuses.count, 1);
    assert_int_equal(misuses.kind, kind);
    assert_ptr_equal(misuses.block, block);
    assert_non_null(strstr(misuses.text, word));
    misuses = (struct misuse_log){0};
}

static void wrong_frees_are_told_apart(void **state) {
    (void)state;
    struct pw_heap *heap = checked_heap(), *other = pw_heap_new(NULL);
    char *block = pw_heap_alloc(heap, 48), *foreign = pw_heap_alloc(other, 48);
    char on_stack[16];
    pw_heap_free(heap, foreign);
    expect_misuse(PW_HEAP_FOREIGN_FREE, foreign, "not a block of this heap");
    pw_heap_free_inline(heap, on_stack);
    expect_misuse(PW_HEAP_FOREIGN_FREE, on_stack, "not a block of this heap");
    pw_heap_free_sized_inline(heap, block + 16, 48);
    expect_misuse(PW_HEAP_INNER_FREE, block + 16, "inside a block");
    pw_heap_free(heap, block);
    assert_int_equal(misuses.count, 0);
    pw_heap_free(heap, block);
    expect_misuse(PW_HEAP_DOUBLE_FREE, block, "double free: block");
    assert_null(pw_heap_realloc(heap, block, 100));
    expect_misuse(PW_HEAP_DOUBLE_FREE, block, "48 bytes");
    block = pw_heap_alloc(heap, 100 * KB);
    pw_heap_free_all(heap);
    pw_heap_free(heap, block);
    expect_misuse(PW_HEAP_FREE_AFTER_FREE_ALL, block, "free-all");
    pw_heap_delete(heap);
    pw_heap_delete(other);
}

static void overflows_are_found_at_free_and_free_all(void **state) {
    (void)state;
    struct pw_heap *heap = checked_heap();
    static const size_t sizes[] = {1, 16, 100, 5000, 70 * KB, 5 * MB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = pw_heap_alloc(heap, sizes[i]);
        block[sizes[i]] = 0; // the byte behind it: a string without room for its end
        pw_heap_free(heap, block);
        expect_misuse(PW_HEAP_OVERFLOW, block, "overflow");
        block = pw_heap_alloc(heap, sizes[i]);
        block[sizes[i] + 7] = 0;
        pw_heap_free_all(heap);
        expect_misuse(PW_HEAP_OVERFLOW, block, "overflow");
    }
    pw_heap_delete(heap);
}

static void writes_to_dead_blocks_are_found(void **state) {
    (void)state;
    struct pw_heap *heap = checked_heap();
    char *block = pw_heap_alloc(heap, 200);
    pw_heap_free(heap, block);
    block[150] = 1;
    pw_heap_free_all(heap);
    expect_misuse(PW_HEAP_WRITE_AFTER_FREE, block, "freed block");
    block = pw_heap_alloc(heap, 200);
    pw_heap_free_all(heap);
    block[150] = 1;
    assert_ptr_equal(pw_heap_alloc(heap, 200), block);
    expect_misuse(PW_HEAP_WRITE_AFTER_FREE_ALL, block, "has ended");
    // Long after it left the queue of freed blocks, when the memory is used again.
    block = pw_heap_alloc(heap, 200);
    pw_heap_free(heap, block);
    for (int i = 0; i < 3000; i++) {
        pw_heap_free(heap, pw_heap_alloc(heap, 3000));
    }
    block[100] = 1;
    void *again = NULL;
    for (int i = 0; i < 3000 && again != block; i++) {
        again = pw_heap_alloc(heap, 200);
    }
    assert_ptr_equal(again, block);
    expect_misuse(PW_HEAP_WRITE_AFTER_FREE, block, "freed block");
    pw_heap_delete(heap);
}

// Where the heap keeps its own link, and most programs the first field that they go on writing.
static void a_write_to_the_first_word_of_a_freed_block_is_found(void **state) {
    (void)state;
    struct pw_heap *heap = checked_heap();
    char *block = pw_heap_alloc(heap, 200), *other = pw_heap_alloc(heap, 200);
    pw_heap_free(heap, block);
    pw_heap_free(heap, other);
    for (int i = 0; i < 3000; i++) { // out of the queue
        pw_heap_free(heap, pw_heap_alloc(heap, 3000));
    }
    memset(other, 0x41, sizeof(void *)); // the heap would go there next
    for (int i = 0; i < 3000 && misuses.count == 0; i++) {
        assert_non_null(pw_heap_alloc(heap, 200));
    }
    expect_misuse(PW_HEAP_WRITE_AFTER_FREE, other, "freed block");
    bool is_back = false;
    for (int i = 0; i < 3000; i++) {
        is_back |= pw_heap_alloc(heap, 200) == block; // the list is as it was
    }
    assert_true(is_back);
    assert_int_equal(misuses.count, 0);
    pw_heap_delete(heap);
}

static void statistics_do_not_go_where_the_program_wrote(void **state) {
    (void)state;
    struct pw_heap *heap = checked_heap();
    char *block = pw_heap_alloc(heap, 200), *other = pw_heap_alloc(heap, 200);
    assert_non_null(pw_heap_alloc(heap, 200)); // lives
    pw_heap_free(heap, block);
    pw_heap_free(heap, other);
    for (int i = 0; i < 3000; i++) { // out of the queue
        pw_heap_free(heap, pw_heap_alloc(heap, 3000));
    }
    struct pw_heap_statistics before, after;
    pw_heap_statistics_read(heap, &before);
    memset(block, 0x41, sizeof(void *));
    memset(other, 0x41, sizeof(void *));
    pw_heap_statistics_read(heap, &after);
    assert_memory_equal(&after, &before, sizeof before);
    assert_true(after.live_blocks > 0 && after.free_bytes > 400);
    assert_int_equal(after.live_bytes + after.free_bytes + after.fresh_bytes + after.slack_bytes,
                     after.segment_bytes);
    pw_heap_delete(heap);
}

static void blocks_that_wait_are_given_out_at_the_limit(void **state) {
    (void)state;
    struct pw_heap_options options = {.flags = PW_HEAP_CHECKED, .limit_bytes = 1 << 20};
    struct pw_heap *heap = pw_heap_new(&options);
    static void *blocks[1 << 15];
    size_t count = 0;
    while ((blocks[count] = pw_heap_alloc(heap, 40))) {
        count++;
    }
    for (size_t i = count - 500; i < count; i++) {
        pw_heap_free(heap, blocks[i]);
    }
    for (size_t i = 0; i < 500; i++) {
        assert_non_null(pw_heap_alloc(heap, 40));
    }
    pw_heap_delete(heap);
}

static void writes_to_segments_that_leave_are_found(void **state) {
    (void)state;
    for (size_t at = 0; at <= 30; at += 30) { // the first word is a link of the heap's
        struct pw_heap *heap = checked_heap();
        static char *blocks[20000];
        for (int i = 0; i < 20000; i++) {
            blocks[i] = pw_heap_alloc(heap, 50);
        }
        for (int i = 0; i < 20000; i++) {
            pw_heap_free(heap, blocks[i]);
        }
        blocks[300][at] = 0x41;
        assert_true(pw_heap_reclaim(heap, true) > 1 * MB);
        expect_misuse(PW_HEAP_WRITE_AFTER_FREE, blocks[300], "50 bytes");
        for (int i = 0; i < 40; i++) { // over all of it: nothing is found twice
            memset(pw_heap_alloc(heap, 30 * KB), 1, 30 * KB);
            memset(pw_heap_alloc(heap, 3 * KB), 1, 3 * KB);
        }
        assert_int_equal(misuses.count, 0);
        pw_heap_free(heap, blocks[300]);
        assert_int_equal(misuses.count, 1);
        pw_heap_delete(heap);
    }
}

static void writes_to_blocks_that_stay_are_found_after_a_reclaim(void **state) {
    (void)state;
    struct pw_heap *heap = checked_heap();
    static char *blocks[20000];
    for (int i = 0; i < 20000; i++) {
        blocks[i] = pw_heap_alloc(heap, 50);
    }
    for (int i = 0; i < 20000; i++) {
        if (i % 300) { // one stays in each segment
            pw_heap_free(heap, blocks[i]);
        }
    }
    pw_heap_reclaim(heap, true);
    blocks[301][0] = 0x41;
    blocks[302][30] = 0x41;
    for (int i = 0; i < 20000; i++) {
        pw_heap_alloc(heap, 50);
    }
    assert_int_equal(misuses.count, 2);
    misuses.count = 0;
    pw_heap_delete(heap);
    assert_int_equal(misuses.count, 0);
}

static void *allocate_one(void *heap) {
    return pw_heap_alloc(heap, 10);
}

static void a_second_thread_in_a_transaction_is_found(void **state) {
    (void)state;
    struct pw_heap *heap = checked_heap();
    pw_heap_alloc(heap, 10);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, allocate_one, heap), 0);
    pthread_join(thread, NULL);
    expect_misuse(PW_HEAP_WRONG_THREAD, heap, "two threads");
    pw_heap_delete(heap);
}

static void free_twice(void *argument) {
    (void)argument;
    freopen("/dev/null", "w", stderr);
    struct pw_heap *heap = pw_heap_new(&(struct pw_heap_options){.flags = PW_HEAP_CHECKED});
    void *block = pw_heap_alloc(heap, 10);
    pw_heap_free(heap, block);
    pw_heap_free(heap, block);
}

static void misuse_without_a_function_aborts(void **state) {
    (void)state;
    int status = run_in_child(free_twice, NULL);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void right_use_of_a_checked_heap_is_silent(void **state) {
    (void)state;
    struct pw_heap *heap = checked_heap();
    struct random noise = random_from(5);
    char *blocks[300] = {0};
    for (int i = 0; i < 60000; i++) {
        char **block = &blocks[random_below(&noise, 300)];
        size_t size = random_below(&noise, random_chance(&noise, 50) ? 200000 : 600);
        if (*block && random_chance(&noise, 3)) {
            *block = pw_heap_realloc(heap, *block, size);
        } else {
            pw_heap_free(heap, *block);
            *block = pw_heap_alloc(heap, size);
        }
        memset(*block, i, size);
        if (random_chance(&noise, 5000)) {
            pw_heap_free_all(heap);
            memset(blocks, 0, sizeof blocks);
        }
        if (random_chance(&noise, 500)) {
            pw_heap_reclaim(heap, true);
        }
    }
    pw_heap_delete(heap);
    assert_int_equal(misuses.count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_frees_are_told_apart),
        cmocka_unit_test(overflows_are_found_at_free_and_free_all),
        cmocka_unit_test(writes_to_dead_blocks_are_found),
        cmocka_unit_test(a_write_to_the_first_word_of_a_freed_block_is_found),
        cmocka_unit_test(statistics_do_not_go_where_the_program_wrote),
        cmocka_unit_test(blocks_that_wait_are_given_out_at_the_limit),
        cmocka_unit_test(writes_to_segments_that_leave_are_found),
        cmocka_unit_test(writes_to_blocks_that_stay_are_found_after_a_reclaim),
        cmocka_unit_test(a_second_thread_in_a_transaction_is_found),
        cmocka_unit_test(misuse_without_a_function_aborts),
        cmocka_unit_test(right_use_of_a_checked_heap_is_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
