// SPDX-License-Identifier: MIT
//
// What policy general promises of its blocks, and what it gives back.
#include "block/account.h"
#include "block/block.h"
#include "block/keeper.h"
#include "block/mapped.h"
#include "block/small.h"
#include "entry/switch.h"
#include "os/fault.h"
#include "pagewise.h"
#include "process/c_library.h"
#include "process/lock.h"
#include "process/state.h"
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define KB    ((size_t)1 << 10)
#define MB    ((size_t)1 << 20)
#define MANY  20000
#define PAGES (PW_PAGE - 1)

// The sizes below are constants, from which the compiler would conclude what it cannot know.
static __attribute__((noinline)) void *allocate(size_t size) {
    return pw_general_malloc(&pw_process, &pw_gate, size);
}

static struct pw_general_usage usage(void) {
    struct pw_general_usage now;
    pw_general_usage(&pw_process.general, &now);
    return now;
}

static struct pw_statistics statistics(void) {
    struct pw_statistics now;
    pw_statistics_read(&now, sizeof now);
    return now;
}

static int start(void **state) {
    (void)state;
    pw_gate.serves_all = true;
    return pw_start("policy=general") && pw_gate.general ? 0 : -1;
}

// Each test begins, and ends, without a small block.
static int nothing_is_left(void **state) {
    (void)state;
    pw_trim();
    return usage().block_bytes == 0 && usage().segment_bytes == 0 ? 0 : -1;
}

// --- sizes -------------------------------------------------------------------------------

static void every_size_has_the_smallest_class_that_holds_it(void **state) {
    (void)state;
    size_t below = 0;
    for (unsigned i = 0; i < PW_GENERAL_CLASSES; i++) {
        size_t size = pw_class_size(i);
        assert_int_equal(size % 16, 0);
        assert_true(size > below && size <= PW_GENERAL_LARGEST);
        for (size_t asked = below ? below + 1 : 0; asked <= size; asked++) {
            assert_int_equal(pw_class_of(asked), i);
        }
        below = size;
    }
    assert_int_equal(below, PW_GENERAL_LARGEST);
}

static void a_segment_wastes_little_and_divides_right(void **state) {
    (void)state;
    for (unsigned i = 0; i < PW_GENERAL_CLASSES; i++) {
        const struct pw_class_info *info = &pw_process.general.info[i];
        size_t used = (size_t)info->blocks * info->size, all = (size_t)info->pages * PW_PAGE;
        assert_true(info->blocks >= 2 && info->blocks <= PW_SEGMENT_MOST_BLOCKS);
        assert_true(info->pages <= PW_SEGMENT_MOST_PAGES && used <= all && all - used < PW_PAGE);
        for (uint64_t offset = 0; offset < all; offset++) {
            assert_int_equal(offset * info->reciprocal >> 32, offset / info->size);
        }
    }
}

static void blocks_are_aligned_and_as_large_as_asked(void **state) {
    (void)state;
    for (size_t size = 0; size < 300 * KB; size += size < 2 * KB ? 1 : 997) {
        unsigned char *block = allocate(size);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 16, 0);
        size_t usable = pw_general_usable(&pw_process, block);
        assert_true(usable >= size && usable <= size + size / 4 + 16 + PW_PAGE * (size > 32 * KB));
        memset(block, 0x5a, usable);
        pw_general_free(&pw_process, &pw_gate, block);
    }
}

static void alignments_are_kept(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 17, 100, 1000, 4096, 5000, 32768, 65536, 3 * MB};
    for (size_t alignment = 1; alignment <= 16 * MB; alignment *= 2) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            char *block = pw_general_memalign(&pw_process, alignment, sizes[i]);
            assert_non_null(block);
            assert_int_equal((uintptr_t)block % alignment, 0);
            assert_true(pw_general_usable(&pw_process, block) >= sizes[i]);
            memset(block, 1, sizes[i]);
            block = pw_general_realloc(&pw_process, &pw_gate, block, sizes[i] + 100);
            assert_non_null(block);
            for (size_t at = 0; at < sizes[i]; at += 61) {
                assert_int_equal(block[at], 1);
            }
            pw_general_free(&pw_process, &pw_gate, block);
        }
    }
}

// The rule allows as much as the program had at its peak.
static void aligned_blocks_of_warm_pages_count_in_the_peak(void **state) {
    (void)state;
    struct pw_arena *arena = &pw_process.arena;
    char *block = allocate(8 * MB);
    memset(block, 1, 8 * MB);
    pw_general_free(&pw_process, &pw_gate, block);
    assert_true(arena->warm_pages >= 8 * MB / PW_PAGE);
    arena->highest_pages = arena->live_pages; // as where the peak was lower
    block = pw_general_memalign(&pw_process, MB, 4 * MB);
    assert_non_null(block);
    assert_true(arena->highest_pages >= arena->live_pages);
    pw_general_free(&pw_process, &pw_gate, block);
}

static void what_may_not_be_read_is_made_smaller_in_place(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 100, 20000, 40000, 600000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = pw_general_memalign(&pw_process, PW_PAGE, MB);
        memset(block, 7, MB);
        const long arguments[6] = {(long)block, PW_PAGE, PROT_NONE};
        struct pw_mapping_call call =
            pw_mapping_call_begins(&pw_process, SYS_mprotect, arguments, NULL);
        assert_true(!call.refused && mprotect(block, PW_PAGE, PROT_NONE) == 0);
        pw_mapping_call_ends(&pw_process, call);
        char *smaller = pw_general_realloc(&pw_process, &pw_gate, block, sizes[i]);
        assert_ptr_equal(smaller, block);
        assert_int_equal(mprotect(block, PW_PAGE, PROT_READ | PROT_WRITE), 0);
        for (size_t at = 0; at < sizes[i]; at += 61) {
            assert_int_equal(smaller[at], 7);
        }
        pw_general_free(&pw_process, &pw_gate, smaller);
    }
}

static void zeroed_means_zero_also_where_it_was_used(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        for (size_t size = 1; size < 200 * KB; size = size * 5 / 4 + 1) {
            unsigned char *block = pw_general_calloc(&pw_process, &pw_gate, size);
            for (size_t at = 0; at < size; at++) {
                assert_int_equal(block[at], 0);
            }
            memset(block, 0xff, pw_general_usable(&pw_process, block));
            pw_general_free(&pw_process, &pw_gate, block);
        }
    }
}

static void resizing_keeps_the_contents(void **state) {
    (void)state;
    unsigned char *block = allocate(1);
    *block = 0;
    size_t size = 1;
    for (; size < 4 * MB; size = size * 9 / 8 + 1) {
        block = pw_general_realloc(&pw_process, &pw_gate, block, size * 9 / 8 + 1);
        assert_non_null(block);
        for (size_t at = size; at < size * 9 / 8 + 1; at++) {
            block[at] = (unsigned char)(at * 13);
        }
    }
    while (size > 2) {
        size = size * 2 / 3;
        block = pw_general_realloc(&pw_process, &pw_gate, block, size);
        for (size_t at = 0; at < size; at += 1 + size / 5000) {
            assert_int_equal(block[at], (unsigned char)(at * 13));
        }
    }
    assert_null(pw_general_realloc(&pw_process, &pw_gate, block, 0));
}

// Writes what is new of a buffer that grows to 16 MB, and counts the places that it had.
static int grow_to_16_mb(void) {
    unsigned char *block = NULL, *before;
    int places = 0;
    for (size_t size = 40 * KB, filled = 0; size < 16 * MB; size += size / 8) {
        before = block;
        block = pw_general_realloc(&pw_process, &pw_gate, block, size);
        assert_true(filled == 0 || block[filled - 1] == (unsigned char)(filled - 1));
        for (; filled < size; filled++) {
            block[filled] = (unsigned char)filled;
        }
        places += block != before;
    }
    for (size_t at = 0; at < 12 * MB; at += 999) {
        assert_int_equal(block[at], (unsigned char)at);
    }
    pw_general_free(&pw_process, &pw_gate, block);
    return places;
}

static void a_buffer_grows_into_what_is_free_behind_it(void **state) {
    (void)state;
    pw_trim();
    grow_to_16_mb();
    bool takes_those_of_the_last =
        false; // unless they were given back meanwhile, on a busy machine
    for (int i = 0; i < 3 && !takes_those_of_the_last; i++) {
        uint64_t fresh = pw_process.arena.fresh_pages;
        assert_true(grow_to_16_mb() <= 6);
        takes_those_of_the_last = (pw_process.arena.fresh_pages - fresh) * PW_PAGE < 4 * MB;
    }
    assert_true(takes_those_of_the_last);
}

// It may not take from what follows, nor may what follows lose a byte.
static void a_buffer_without_room_behind_it_moves(void **state) {
    (void)state;
    volatile size_t larger = 500 * KB;
    unsigned char *block = memset(allocate(2 * MB), 1, 2 * MB);
    unsigned char *next = memset(allocate(2 * MB), 2, 2 * MB);
    unsigned char *after = memset(allocate(2 * MB), 3, 2 * MB);
    block = pw_general_realloc(&pw_process, &pw_gate, block, 2 * MB + larger);
    memset(block + 2 * MB, 4, larger);
    next = pw_general_realloc(&pw_process, &pw_gate, next, 2 * MB + larger);
    memset(next + 2 * MB, 5, larger);
    for (size_t at = 0; at < 2 * MB; at++) {
        assert_int_equal(block[at] + 10 * next[at] + 100 * after[at], 321);
    }
    assert_int_equal(block[2 * MB] + 10 * next[2 * MB + larger - 1], 54);
    pw_general_free(&pw_process, &pw_gate, block);
    pw_general_free(&pw_process, &pw_gate, next);
    pw_general_free(&pw_process, &pw_gate, after);
}

static unsigned char pattern(size_t at) {
    return (unsigned char)(at * 7 + at / PW_PAGE + 1);
}

// Where no extent can be had for what is left behind a block, the block has it all, and grows there
// whatever size its class says.
static void a_block_with_room_to_spare_keeps_what_it_holds(void **state) {
    (void)state;
    enum { COUNT = 2 * PW_EXTENT_CHUNK };
    static unsigned char *blocks[COUNT];
    static const volatile size_t grown = 5 * MB;
    pw_os_fault_plan(PW_POINT_MAP_TABLE, ENOMEM, 1, 1);
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = allocate(40000);
    }
    unsigned char *found = NULL;
    for (int i = COUNT - 1; i >= 0 && !found; i--) {
        unsigned char *block = pw_gate_contains(blocks[i]) ? blocks[i] : NULL;
        if (block && pw_block_extend(&pw_process, block, grown)) {
            found = block;
            blocks[i] = pw_general_realloc(&pw_process, &pw_gate, block, grown);
            assert_ptr_equal(blocks[i], found);
        }
    }
    pw_os_fault_clear();
    assert_non_null(found);
    assert_true(pw_general_usable(&pw_process, found) >= grown);
    for (size_t at = 0; at < grown; at++) {
        found[at] = pattern(at);
    }
    for (int i = 0; i < COUNT; i++) {
        if (blocks[i] == found) {
            blocks[i] = pw_general_realloc(&pw_process, &pw_gate, found, 256 * MB);
            assert_non_null(blocks[i]);
            for (size_t at = 0; at < grown; at++) {
                assert_int_equal(blocks[i][at], pattern(at));
            }
        }
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
}

static void what_cannot_be_had_is_refused_and_changes_nothing(void **state) {
    (void)state;
    static const volatile size_t sizes[] = {SIZE_MAX, SIZE_MAX - PW_PAGE, PTRDIFF_MAX,
                                            (size_t)1 << 47};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        errno = 0;
        assert_null(allocate(sizes[i]));
        assert_int_equal(errno, ENOMEM);
        assert_null(pw_general_calloc(&pw_process, &pw_gate, sizes[i]));
        char *block = strcpy(allocate(100), "still here");
        assert_null(pw_general_realloc(&pw_process, &pw_gate, block, sizes[i]));
        assert_string_equal(block, "still here");
        char *large = strcpy(allocate(100 * KB), "this as well");
        assert_null(pw_general_realloc(&pw_process, &pw_gate, large, sizes[i]));
        assert_string_equal(large, "this as well");
        pw_general_free(&pw_process, &pw_gate, block);
        pw_general_free(&pw_process, &pw_gate, large);
    }
}

static void releasing_keeps_errno(void **state) {
    (void)state;
    static void *blocks[MANY];
    for (int i = 0; i < MANY; i++) {
        blocks[i] = allocate(100);
    }
    void *large = allocate(MB);
    errno = 77;
    for (int i = 0; i < MANY; i++) {
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
    pw_general_free(&pw_process, &pw_gate, large);
    pw_general_free(&pw_process, &pw_gate, NULL);
    assert_int_equal(errno, 77);
}

static void blocks_of_the_c_library_are_taken_over(void **state) {
    (void)state;
    char *block = strcpy(__libc_malloc(100), "from before our start");
    assert_int_equal(pw_general_usable(&pw_process, block), pw_os_c_usable_size(block));
    block = pw_general_realloc(&pw_process, &pw_gate, block, 200);
    assert_string_equal(block, "from before our start");
    assert_true(pw_owns(block));
    pw_general_free(&pw_process, &pw_gate, block);
    pw_general_free(&pw_process, &pw_gate, __libc_malloc(100));
}

// --- giving back ---------------------------------------------------------------------------

static void whole_segments_go_back(void **state) {
    (void)state;
    static void *blocks[MANY];
    uint64_t live = statistics().live_bytes;
    for (int i = 0; i < MANY; i++) {
        blocks[i] = memset(allocate(1000), 1, 1000);
    }
    assert_true(statistics().live_bytes - live >= MANY * KB);
    for (int i = 0; i < MANY; i++) {
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
    // Before anything is asked for: all but what the cache and one segment hold.
    assert_true(statistics().live_bytes - live <= 256 * KB);
}

// One block in 16 lives: no segment is empty, and most pages are.
static void pages_without_blocks_go_back_and_come_again(void **state) {
    (void)state;
    static unsigned char *blocks[MANY];
    for (int i = 0; i < MANY; i++) {
        blocks[i] = memset(allocate(1024), i, 1024);
    }
    for (int i = 0; i < MANY; i++) {
        if (i % 16) {
            pw_general_free(&pw_process, &pw_gate, blocks[i]);
        }
    }
    assert_true(pw_trim() >= MANY * KB / 2);
    int gone = 0;
    for (int i = 0; i < MANY; i++) {
        gone += i % 16 && !in_memory(blocks[i]);
    }
    assert_true(gone > MANY / 2);
    for (int i = 0; i < MANY; i++) {
        if (i % 16) {
            blocks[i] = memset(allocate(1024), i, 1024);
        }
    }
    for (int i = 0; i < MANY; i++) {
        for (int at = 0; at < 1024; at += 73) {
            assert_int_equal(blocks[i][at], (unsigned char)i);
        }
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
}

static void a_page_with_a_part_of_a_block_stays(void **state) {
    (void)state;
    enum { SIZE = 3072, COUNT = 400 }; // most pages hold parts of two
    static unsigned char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = memset(allocate(SIZE), i + 1, SIZE);
    }
    for (int i = 0; i < COUNT; i++) {
        if (i % 5) {
            pw_general_free(&pw_process, &pw_gate, blocks[i]);
        }
    }
    assert_true(pw_trim() > 0);
    for (int i = 0; i < COUNT; i += 5) {
        for (int at = 0; at < SIZE; at++) {
            assert_int_equal(blocks[i][at], (unsigned char)(i + 1));
        }
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
}

static void a_page_that_was_used_since_the_last_look_stays(void **state) {
    (void)state;
    struct pw_general *general = &pw_process.general;
    unsigned class_number = pw_class_of(PW_PAGE);
    void *blocks[16], *used;
    assert_int_equal(pw_bin_take(general, class_number, blocks, 1), 1); // of a new segment
    assert_int_equal(pw_bin_take(general, class_number, blocks + 1, 15), 15);
    for (int i = 0; i < 16; i++) {
        memset(blocks[i], 1, PW_PAGE);
    }
    pw_bin_give(general, class_number, blocks + 1, 15);
    pw_general_look(general);
    assert_int_equal(pw_bin_take(general, class_number, &used, 1), 1);
    assert_ptr_equal(used, blocks[1]); // the lowest
    pw_bin_give(general, class_number, &used, 1);
    pw_general_look(general);
    assert_true(in_memory(blocks[0]) && in_memory(blocks[1]) && !in_memory(blocks[2]));
    pw_general_look(general);
    assert_true(in_memory(blocks[0]) && !in_memory(blocks[1]));
    pw_bin_give(general, class_number, blocks, 1);
}

static void pages_that_hold_blocks_are_filled_first(void **state) {
    (void)state;
    struct pw_general *general = &pw_process.general;
    unsigned class_number = pw_class_of(PW_PAGE / 4);
    void *blocks[64], *got[2];
    assert_int_equal(pw_bin_take(general, class_number, blocks, 1), 1); // of a new segment
    assert_int_equal(pw_bin_take(general, class_number, blocks + 1, 63), 63);
    for (int i = 0; i < 64; i++) {
        memset(blocks[i], 1, PW_PAGE / 4);
    }
    pw_bin_give(general, class_number, blocks + 4, 4); // the second page
    pw_bin_give(general, class_number, blocks + 2, 1);
    pw_bin_give(general, class_number, blocks + 41, 1);
    pw_general_look(general);
    pw_general_look(general);
    assert_false(in_memory(blocks[4]));
    assert_int_equal(pw_bin_take(general, class_number, got, 2), 2);
    assert_ptr_equal(got[0], blocks[2]);
    assert_ptr_equal(got[1], blocks[41]);
    assert_false(in_memory(blocks[4]));
    pw_bin_give(general, class_number, blocks + 20, 4); // the sixth page, which has memory
    pw_bin_give(general, class_number, blocks + 41, 1);
    pw_general_look(general);
    assert_int_equal(pw_bin_take(general, class_number, got, 2), 2);
    assert_ptr_equal(got[0], blocks[41]);
    assert_ptr_equal(got[1], blocks[20]);
    pw_bin_give(general, class_number, got + 1, 1);
    pw_bin_give(general, class_number, blocks, 4);
    pw_bin_give(general, class_number, blocks + 8, 12);
    pw_bin_give(general, class_number, blocks + 24, 40);
}

static void idle_pages_go_back_by_themselves(void **state) {
    (void)state;
    static void *blocks[MANY];
    __atomic_store_n(&pw_process.general.decay_ms, 20, __ATOMIC_RELAXED);
    for (int i = 0; i < MANY; i++) {
        blocks[i] = memset(allocate(1024), 1, 1024);
    }
    for (int i = 0; i < MANY; i++) {
        if (i % 64) {
            pw_general_free(&pw_process, &pw_gate, blocks[i]);
        }
    }
    uint64_t before = statistics().segment_idle_bytes;
    uint64_t idle = 0;
    for (int round = 0; round < 2000 && idle <= 5 * MB; round++) { // other work, of another size
        static void *others[2000];
        for (int i = 0; i < 2000; i++) {
            others[i] = allocate(64);
        }
        for (int i = 0; i < 2000; i++) {
            pw_general_free(&pw_process, &pw_gate, others[i]);
        }
        usleep(2000);
        idle = statistics().segment_idle_bytes - before;
    }
    assert_true(idle > 5 * MB);
    for (int i = 0; i < MANY; i += 64) {
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
    __atomic_store_n(&pw_process.general.decay_ms, pw_process.options.decay_seconds * 1000,
                     __ATOMIC_RELAXED);
}

static void a_trim_tells_of_both_its_looks(void **state) {
    (void)state;
    enum { COUNT = 400 };
    static void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = memset(allocate(PW_PAGE), 1, PW_PAGE);
    }
    __atomic_store_n(&pw_process.general.decay_ms, 0, __ATOMIC_RELAXED); // nobody else looks
    for (int i = 0; i < COUNT; i++) {
        if (i % 4) {
            pw_general_free(&pw_process, &pw_gate, blocks[i]);
        }
    }
    pw_cache_end(&pw_process.general); // what this thread has of them
    pw_general_thread.ended = false;
    pw_general_look(&pw_process.general);
    uint64_t before = statistics().segment_idle_bytes;
    size_t said = pw_general_trim(&pw_process.general); // the first look finds them idle again
    assert_true(said > COUNT / 2 * PW_PAGE);
    assert_int_equal(said, statistics().segment_idle_bytes - before);
    __atomic_store_n(&pw_process.general.decay_ms, pw_process.options.decay_seconds * 1000,
                     __ATOMIC_RELAXED);
    for (int i = 0; i < COUNT; i += 4) {
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
}

// What the room calls while a segment goes may itself allocate, and must not get a block of it.
static void (*usual_release)(void *context, struct pw_extent *extent, uint32_t absent);
static unsigned released, handed_out;

static void release_and_allocate(void *context, struct pw_extent *extent, uint32_t absent) {
    released++;
    handed_out += pw_cache_pop(pw_class_of(20 * KB)) != NULL;
    usual_release(context, extent, absent);
}

static void blocks_that_are_given_back_are_no_longer_in_the_cache(void **state) {
    (void)state;
    struct pw_general_host *host = &pw_process.general.host;
    usual_release = host->release;
    host->release = release_and_allocate;
    pw_general_free(&pw_process, &pw_gate, allocate(20 * KB));
    pw_general_trim(&pw_process.general);
    host->release = usual_release;
    assert_int_equal(released, 1);
    assert_int_equal(handed_out, 0);
}

static pid_t raw_fork(void) {
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

// --- medium blocks -------------------------------------------------------------------------

static unsigned mappings_of_this_process(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    unsigned count = 0;
    for (int c = getc(file); c != EOF; c = getc(file)) {
        count += c == '\n';
    }
    fclose(file);
    return count;
}

static void every_medium_size_has_the_smallest_class_that_holds_it(void **state) {
    (void)state;
    size_t below = PW_GENERAL_LARGEST;
    for (unsigned i = PW_GENERAL_CLASSES; i < PW_ALL_CLASSES; i++) {
        size_t size = pw_class_size(i);
        assert_true(size > below && size % PW_PAGE == 0);
        assert_int_equal(pw_class_of(below + 1), i);
        assert_int_equal(pw_class_of(size), i);
        below = size;
    }
    assert_int_equal(below, PW_MEDIUM_LARGEST);
}

// Somebody else has the process's lock: whoever needed it would wait for ever.
static void medium_blocks_come_and_go_without_the_lock(void **state) {
    (void)state;
    volatile size_t larger = 101 * KB; // or gcc takes it for a small block's size, and warns
    char *block = allocate(100 * KB);
    pw_general_free(&pw_process, &pw_gate, block);
    pthread_mutex_lock(&pw_process.lock);
    alarm(20);
    for (int i = 0; i < 1000; i++) {
        char *again = allocate(99 * KB);
        assert_ptr_equal(again, block);
        memset(again, 1, 99 * KB);
        assert_ptr_equal(pw_general_realloc(&pw_process, &pw_gate, again, larger), block);
        assert_true(pw_general_usable(&pw_process, again) >= 101 * KB);
        pw_general_free(&pw_process, &pw_gate, again);
    }
    alarm(0);
    pthread_mutex_unlock(&pw_process.lock);
}

static void set_stripes(bool taken) {
    for (unsigned i = 0; i < PW_SHELF_STRIPES; i++) {
        pw_process.general.shelves[i].taken = taken;
    }
}

// The thread that is at work in a stripe may have been stopped there.
static void nobody_waits_for_a_stripe(void **state) {
    (void)state;
    char *block = memset(allocate(500 * KB), 1, 500 * KB);
    char *kept = memset(allocate(500 * KB), 2, 500 * KB);
    pw_general_free(&pw_process, &pw_gate, kept);
    set_stripes(true);
    alarm(20);
    pw_general_free(&pw_process, &pw_gate, block);
    char *other = allocate(500 * KB);
    assert_ptr_not_equal(other, kept);
    pw_trim();
    assert_true(in_memory(kept));
    set_stripes(false);
    alarm(0);
    assert_ptr_equal(allocate(500 * KB), kept);
    pw_general_free(&pw_process, &pw_gate, kept);
    pw_general_free(&pw_process, &pw_gate, other);
}

static void medium_blocks_that_nobody_wants_go_back(void **state) {
    (void)state;
    char *used = memset(allocate(100 * KB), 1, 100 * KB);
    char *unused = memset(allocate(300 * KB), 1, 300 * KB);
    uint64_t live = statistics().live_bytes;
    pw_general_free(&pw_process, &pw_gate, used);
    pw_general_free(&pw_process, &pw_gate, unused);
    pw_general_look(&pw_process.general);
    assert_ptr_equal(allocate(100 * KB), used);
    pw_general_free(&pw_process, &pw_gate, used);
    pw_general_look(&pw_process.general);
    assert_int_equal(live - statistics().live_bytes, 320 * KB); // its class
    assert_ptr_equal(allocate(100 * KB), used);
    pw_general_free(&pw_process, &pw_gate, used);
    assert_true(pw_trim() >= 400 * KB);
    assert_false(in_memory(used));
    assert_false(in_memory(unused));
}

// A program that asks for no memory any more gets rid of it all the same.
static void the_keeper_takes_medium_blocks_from_the_shelf(void **state) {
    (void)state;
    enum { COUNT = 16 };
    char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = memset(allocate(128 * KB), 1, 128 * KB);
    }
    pw_process.general.asked_ms = 0;
    bool called = false;
    for (int i = COUNT; i-- > 0;) {
        pw_process.general.asked_ms = 0; // longer ago than it was
        called |= !pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
    assert_true(called);
}

static void what_the_program_altered_is_not_kept(void **state) {
    (void)state;
    char *block = allocate(100 * KB);
    struct pw_extent *extent = pw_arena_find(&pw_process.arena, block);
    mprotect(block, PW_PAGE, PROT_READ);
    pw_extent_alter(extent, true);
    pw_general_free(&pw_process, &pw_gate, block);
    for (int i = 0; i < 20; i++) {
        char *again = allocate(100 * KB);
        memset(again, 1, 100 * KB);
        pw_general_free(&pw_process, &pw_gate, again);
    }
}

static void buffers_that_grow_leave_no_mappings(void **state) {
    (void)state;
    enum { COUNT = 400 };
    static unsigned char *blocks[COUNT];
    unsigned before = mappings_of_this_process();
    for (size_t size = 1000; size < 400 * KB; size += size / 8) {
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = pw_general_realloc(&pw_process, &pw_gate, blocks[i], size);
            blocks[i][0] = blocks[i][size - 1] = (unsigned char)i;
        }
    }
    assert_true(mappings_of_this_process() < before + 20);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(blocks[i][0], (unsigned char)i);
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
}

// What another thread put there while the kernel copied may be in two places, or in somebody's
// hands.
static void a_child_does_not_use_what_lay_on_the_shelf(void **state) {
    (void)state;
#ifdef PW_TEST_SANITIZED
    skip(); // neither sanitizer supports raw clone
#endif
    char *block = allocate(500 * KB);
    pw_general_free(&pw_process, &pw_gate, block);
    pid_t child = raw_fork();
    if (child == 0) {
        alarm(20);
        CHECK(allocate(500 * KB) != block);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ptr_equal(allocate(500 * KB), block);
    pw_general_free(&pw_process, &pw_gate, block);
}

// One thread of a child finds out that it is one. Until it has cleared the shelf, others do
// without.
static void nobody_comes_in_while_a_child_clears_the_shelf(void **state) {
    (void)state;
    uint32_t *marker = pw_process.general.fork_marker;
    if (!marker) {
        skip(); // the kernel has none
    }
    char *block = allocate(500 * KB), *small = allocate(100);
    pw_general_free(&pw_process, &pw_gate, block);
    __atomic_store_n(marker, PW_FORK_BEING_NOTICED, __ATOMIC_RELAXED); // the keeper reads it
    char *other = allocate(500 * KB);
    __atomic_store_n(marker, PW_FORK_NOTICED, __ATOMIC_RELAXED);
    assert_ptr_not_equal(other, block);
    assert_ptr_equal(allocate(500 * KB), block);
    pw_general_free(&pw_process, &pw_gate, other);
    pw_general_free(&pw_process, &pw_gate, block);
    pw_general_free(&pw_process, &pw_gate, small);
}

static void a_fork_leaves_the_child_no_medium_block_to_lose(void **state) {
    (void)state;
    uint64_t live = statistics().live_bytes;
    pw_general_free(&pw_process, &pw_gate, allocate(500 * KB));
    assert_true(statistics().live_bytes > live);
    pid_t child = fork();
    if (child == 0) {
        _exit(pw_process.arena.live_pages * PW_PAGE == live ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

// --- the keeper ----------------------------------------------------------------------------

static bool keeper_runs(void) {
    pw_process_enter();
    bool runs = pw_process.keeper_runs;
    pw_process_leave();
    return runs;
}

// A free may come out of the C library's own locks, which starting a thread takes.
static void check_start_of_keeper(int count, size_t size, bool by_a_free) {
    static void *blocks[MANY];
    pw_trim();
    for (int wait = 0; keeper_runs() && wait < 1000; wait++) {
        usleep(10000); // until it finds nothing to keep
    }
    assert_false(keeper_runs());
    for (int i = 0; i < count; i++) {
        blocks[i] = memset(allocate(size), 1, size);
    }
    pw_os_fault_plan(PW_POINT_KEEPER, 0, 0, 0); // only counts
    for (int i = 0; i < count; i++) {
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
    assert_true(pw_process.arena.warm_pages * PW_PAGE > 8 * MB);
    pw_general_freed(&pw_process, (const void *)(uintptr_t)pthread_create);
    assert_int_equal(pw_os_fault_calls(PW_POINT_KEEPER), 0);
    assert_false(keeper_runs());
    if (by_a_free) {
        pw_general_freed(&pw_process, (const void *)(uintptr_t)keeper_runs);
    }
    for (int i = 0; !by_a_free && i < 200; i++) { // more than the cache has
        blocks[i] = allocate(1024);
    }
    assert_int_equal(pw_os_fault_calls(PW_POINT_KEEPER), 1);
    assert_true(keeper_runs());
    for (int i = 0; !by_a_free && i < 200; i++) {
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
}

static void a_large_block_that_shrinks_stays_ours(void **state) {
    (void)state;
    for (size_t smaller = 33 * KB; smaller < MB / 2; smaller *= 2) {
        char *block = memset(pw_allocate(MB), 3, MB);
        size_t threshold = pw_gate.threshold;
        pw_gate.threshold = SIZE_MAX; // switched off: what is served goes on being served
        block = pw_resize(block, smaller);
        pw_gate.threshold = threshold;
        assert_true(pw_gate_contains(block));
        assert_int_equal(block[0] + block[smaller - 1], 6);
        pw_free(block);
    }
}

static void an_alignment_that_is_none_is_refused(void **state) {
    (void)state;
    for (size_t size = 100; size < 4 * MB; size *= 50) {
        errno = 0;
        assert_null(pw_allocate_aligned(24, size));
        assert_int_equal(errno, EINVAL);
        assert_null(pw_allocate_aligned(0, size));
    }
}

// Blocks of the arena would reach a free that asks tables that were never made.
static void what_left_all_to_the_c_library_is_not_switched_on(void **state) {
    (void)state;
    bool general = pw_gate.general, serves_all = pw_gate.serves_all;
    pw_gate.general = false;
    pw_gate.serves_all = true;
    const char *said = pw_heap_switch_on("policy=auto");
    pw_gate.general = general;
    pw_gate.serves_all = serves_all;
    assert_non_null(said);
    assert_non_null(strstr(said, "policy=plain"));
}

// One block in 512 lives: no segment is empty, and the program does nothing more. All of it came
// and went between two looks, and in the second round from pages that had been given back.
static void check_that_the_keeper_comes(void) {
    enum { SIZE = 128, COUNT = 300000 };
    static char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = memset(allocate(SIZE), i, SIZE);
    }
    uint64_t before = statistics().segment_idle_bytes;
    for (int i = 0; i < COUNT; i++) {
        if (i % 512 && !pw_general_free(&pw_process, &pw_gate, blocks[i])) {
            pw_general_freed(&pw_process, (const void *)(uintptr_t)keeper_runs);
        }
    }
    for (int wait = 0; statistics().segment_idle_bytes - before < 28 * MB && wait < 2000; wait++) {
        usleep(10000);
    }
    assert_true(statistics().segment_idle_bytes - before >= 28 * MB);
    for (int i = 0; i < COUNT; i += 512) {
        assert_int_equal(blocks[i][SIZE - 1], (char)i);
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
}

static void the_keeper_comes_for_pages_between_blocks(void **state) {
    (void)state;
    pw_trim();
    for (int round = 0; round < 2; round++) {
        for (int wait = 0; keeper_runs() && wait < 1000; wait++) {
            usleep(10000);
        }
        check_that_the_keeper_comes();
    }
}

static void the_keeper_is_started_by_an_allocation(void **state) {
    (void)state;
    check_start_of_keeper(MANY, 1024, false);
    check_start_of_keeper(1, 32 * MB, false);
}

static void the_keeper_is_started_by_a_free(void **state) {
    (void)state;
    check_start_of_keeper(MANY, 1024, true);
    check_start_of_keeper(1, 32 * MB, true);
}

// The program's memory comes back without a thread of ours, by the releases themselves.
static void without_a_keeper_releases_give_back(void **state) {
    (void)state;
    enum { SIZE = 128, COUNT = 300000 };
    static char *blocks[COUNT];
    pw_trim();
    pw_process.options.keeper = false;
    pw_keeper_end(&pw_process); // an earlier one
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = memset(allocate(SIZE), i, SIZE);
    }
    uint64_t before = statistics().segment_idle_bytes;
    for (int i = 0; i < COUNT; i++) {
        if (i % 512 && !pw_general_free(&pw_process, &pw_gate, blocks[i])) {
            pw_general_freed(&pw_process, (const void *)(uintptr_t)keeper_runs);
        }
    }
    assert_true(statistics().segment_idle_bytes - before >= 24 * MB); // all but 8 MB
    for (int i = 0; i < COUNT; i += 512) {
        assert_int_equal(blocks[i][SIZE - 1], (char)i);
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
    void *large = memset(allocate(64 * MB), 1, 64 * MB);
    pw_general_free(&pw_process, &pw_gate, large);
    assert_true(pw_process.arena.warm_pages * PW_PAGE <= 9 * MB);
    assert_false(keeper_runs());
    pw_process.options.keeper = true;
}

// --- limits --------------------------------------------------------------------------------

// Blocks of `size` until there are no more; releases them again. Returns how many there were.
static size_t fill_up(size_t size) {
    void **last = NULL;
    size_t count = 0;
    errno = 0;
    for (void **block; (block = allocate(size)); count++) {
        assert_true(pw_gate_contains(block)); // and not the C library's
        *block = last;
        last = block;
    }
    assert_int_equal(errno, ENOMEM);
    assert_null(pw_general_calloc(&pw_process, &pw_gate, size));
    assert_null(pw_general_memalign(&pw_process, 64, size));
    assert_true(!last || !pw_general_realloc(&pw_process, &pw_gate, last, 64 * MB));
    while (last) {
        void **next = *last;
        pw_general_free(&pw_process, &pw_gate, last);
        last = next;
    }
    return count;
}

static void beyond_the_limit_there_is_no_memory(void **state) {
    (void)state;
    static const size_t sizes[] = {48, 1000, 20000, 100 * KB, 3 * MB, 10 * MB};
    pw_trim();
    uint64_t live = pw_process.arena.live_pages * PW_PAGE;
    pw_process.options.limit = live + 32 * MB;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = fill_up(sizes[i]) * sizes[i];
        assert_true(bytes <= 32 * MB && bytes >= 32 * MB * 3 / 4);
        assert_true(statistics().live_bytes <= live + 32 * MB);
    }
    assert_null(allocate(SIZE_MAX / 2));
    pw_process.options.limit = 0;
}

// Returns how many requests were refused.
static void *fill_again_and_again(void *number) {
    void *held[400] = {0};
    uintptr_t refused = 0;
    for (unsigned i = 0; i < 40000; i++) {
        unsigned at = i * 7919 % 400;
        size_t size = (size_t)16 << (i * 31 + (uintptr_t)number) % 16;
        pw_general_free(&pw_process, &pw_gate, held[at]);
        held[at] = allocate(size);
        refused += !held[at];
        if (held[at]) {
            memset(held[at], 1, size < 64 ? size : 64);
        }
    }
    for (unsigned i = 0; i < 400; i++) {
        pw_general_free(&pw_process, &pw_gate, held[i]);
    }
    return (void *)refused;
}

static void fill_in_a_child(void *unused) {
    (void)unused;
    _exit(fill_again_and_again(NULL) ? 0 : 1);
}

static void threads_and_children_stay_within_the_limit(void **state) {
    (void)state;
    pthread_t threads[4];
    pw_trim();
    uint64_t limit = pw_process.arena.live_pages * PW_PAGE + 8 * MB;
    uint64_t peak = pw_process.stats.block->peak_live_bytes;
    pw_process.options.limit = limit;
    pw_process.stats.block->peak_live_bytes = 0;
    for (uintptr_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, fill_again_and_again, (void *)i), 0);
    }
    int status = run_in_child(fill_in_a_child, NULL);
    uintptr_t refused = 0;
    for (int i = 0; i < 4; i++) {
        void *one = NULL;
        pthread_join(threads[i], &one);
        refused += (uintptr_t)one;
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(refused > 0);
    assert_true(statistics().peak_live_bytes <= limit);
    pw_process.options.limit = 0;
    pw_process.stats.block->peak_live_bytes = peak;
}

// What was released is in use to the arena while it lies on the shelf.
static void a_full_shelf_is_no_reason_to_refuse(void **state) {
    (void)state;
    enum { COUNT = 16 };
    void *blocks[COUNT];
    pw_trim();
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = allocate(128 * KB);
    }
    pw_process.options.limit = pw_process.arena.live_pages * PW_PAGE + 64 * KB;
    for (int i = 0; i < COUNT; i++) {
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
    void *other = allocate(MB);
    assert_non_null(other);
    pw_general_free(&pw_process, &pw_gate, other);
    pw_process.options.limit = 0;
}

static void a_block_grows_by_what_lies_on_the_shelf(void **state) {
    (void)state;
    static const struct { size_t before, after; } sizes[] = {{MB, 7 * MB / 4}, {6 * MB, 7 * MB}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pw_trim();
        char *block = allocate(sizes[i].before), *other = allocate(3 * MB / 2);
        memset(block, 7, sizes[i].before);
        pw_process.options.limit = pw_process.arena.live_pages * PW_PAGE;
        pw_general_free(&pw_process, &pw_gate, other);
        assert_true(pw_shelf_pages(&pw_process.general) >= 3 * MB / 2 / PW_PAGE);
        char *larger = pw_general_realloc(&pw_process, &pw_gate, block, sizes[i].after);
        assert_non_null(larger);
        assert_true(pw_gate_contains(larger) && larger[sizes[i].before - 1] == 7);
        assert_true(pw_process.arena.live_pages * PW_PAGE <= pw_process.options.limit);
        assert_null(pw_general_realloc(&pw_process, &pw_gate, larger, 16 * MB));
        pw_process.options.limit = 0;
        pw_general_free(&pw_process, &pw_gate, larger);
    }
}

// --- what operators ask ----------------------------------------------------------------------

static struct pw_account account(void) {
    struct pw_account now;
    pw_account_read(&pw_process, &now);
    return now;
}

static void what_is_in_use_is_told(void **state) {
    (void)state;
    enum { COUNT = 1000 };
    static void *small[COUNT];
    struct pw_account before = account();
    for (int i = 0; i < COUNT; i++) {
        small[i] = allocate(1000);
    }
    void *medium = allocate(100 * KB), *large = allocate(8 * MB);
    struct pw_account full = account();
    assert_true(full.small.block_bytes - before.small.block_bytes >= COUNT * 1000);
    assert_true(full.small.block_bytes - before.small.block_bytes <= COUNT * 1024 + 64 * KB);
    assert_int_equal(full.larger_blocks, before.larger_blocks + 2);
    assert_true(full.larger_bytes - before.larger_bytes >= 8 * MB + 100 * KB);
    pw_general_free(&pw_process, &pw_gate, medium);
    pw_general_free(&pw_process, &pw_gate, large);
    struct pw_account shelved = account();
    assert_int_equal(shelved.larger_blocks, before.larger_blocks);
    assert_int_equal(shelved.larger_bytes, before.larger_bytes);
    assert_true(shelved.shelf_bytes >= 100 * KB);
    for (int i = 0; i < COUNT; i++) {
        pw_general_free(&pw_process, &pw_gate, small[i]);
    }
}

static void texts_are_complete_or_cut(void **state) {
    (void)state;
    void *blocks[PW_GENERAL_CLASSES];
    for (unsigned i = 0; i < PW_GENERAL_CLASSES; i++) {
        blocks[i] = allocate(pw_class_size(i));
    }
    for (int form = PW_ACCOUNT_TEXT; form <= PW_ACCOUNT_XML; form++) {
        char *text = pw_account_begin(&pw_process, form), cut[100];
        assert_non_null(text);
        size_t length = strlen(text);
        assert_true(length > 1000 &&
                    length == pw_account_write(&pw_process, form, cut, sizeof cut));
        assert_int_equal(strlen(cut), sizeof cut - 1);
        assert_memory_equal(cut, text, 20);
        assert_int_equal(text[length - 1], '\n');
        pw_account_end(text);
    }
    for (unsigned i = 0; i < PW_GENERAL_CLASSES; i++) {
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
}

// A byte for each page of what the arena has, and not of what it may have.
static void tables_take_address_space_as_they_are_needed(void **state) {
    (void)state;
    struct pw_os_mapping mapping;
    const uint8_t *labels = pw_process.arena.labels;
    assert_true(pw_os_mapping_from(labels, &mapping));
    assert_int_equal(mapping.start, (uintptr_t)labels);
    assert_int_equal(mapping.end - mapping.start, pw_process.arena.end);
}

// --- threads -----------------------------------------------------------------------------

static void *handed_over[MANY];

static void *allocate_many(void *unused) {
    for (int i = 0; i < MANY; i++) {
        handed_over[i] = memset(allocate(16 + (size_t)i % 500), i, 16);
    }
    return unused;
}

static void *free_many(void *unused) {
    for (int i = 0; i < MANY; i++) {
        pw_general_free(&pw_process, &pw_gate, handed_over[i]);
    }
    return unused;
}

static void in_thread(void *(*function)(void *)) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, function, NULL), 0);
    pthread_join(thread, NULL);
}

static void blocks_may_be_released_by_other_threads(void **state) {
    (void)state;
    for (int round = 0; round < 5; round++) {
        in_thread(allocate_many);
        in_thread(free_many);
        pw_trim();
        assert_int_equal(usage().block_bytes, 0);
    }
    allocate_many(NULL);
    in_thread(free_many);
    in_thread(allocate_many);
    free_many(NULL);
}

static void *hold_a_little(void *unused) {
    for (size_t size = 1; size < 32 * KB; size *= 2) {
        pw_general_free(&pw_process, &pw_gate, allocate(size));
    }
    return unused;
}

static void a_thread_leaves_nothing_behind(void **state) {
    (void)state;
    in_thread(hold_a_little);
    uint64_t tables = statistics().bookkeeping_bytes;
    for (int i = 0; i < 300; i++) {
        in_thread(hold_a_little);
    }
    pw_trim();
    assert_int_equal(usage().block_bytes, 0);
    assert_int_equal(statistics().bookkeeping_bytes, tables);
}

#define LINE ((uintptr_t)64)

static bool share_a_line(const void *one, const void *other) {
    return (uintptr_t)one / LINE == (uintptr_t)other / LINE;
}

struct handed {
    size_t size;
    void *given; // to the thread, which releases it
    void *got;
};

static void *release_and_ask(void *own) {
    struct handed *handed = own;
    pw_general_free(&pw_process, &pw_gate, handed->given);
    handed->got = allocate(handed->size);
    return NULL;
}

// Two threads that write to one line of the processor's cache wait for each other all the time.
static void first_blocks_of_threads_share_no_line(void **state) {
    (void)state;
    for (size_t size = 8; size <= 48; size += 8) {
        pthread_t threads[2];
        struct handed handed[2] = {{.size = size}, {.size = size}};
        void *own = allocate(size);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, release_and_ask, &handed[i]), 0);
        }
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
            assert_false(share_a_line(own, handed[i].got));
        }
        for (int i = 0; i < 2; i++) {
            pw_general_free(&pw_process, &pw_gate, handed[i].got);
        }
        pw_general_free(&pw_process, &pw_gate, own);
    }
}

static void a_thread_does_not_write_where_its_block_came_from(void **state) {
    (void)state;
    enum { COUNT = 4 };
    for (size_t size = 8; size <= 48; size += 8) {
        void *own[COUNT];
        for (int i = 0; i < COUNT; i++) {
            own[i] = allocate(size);
        }
        for (int i = 1; i < COUNT; i++) {
            pthread_t thread;
            struct handed handed = {.size = size, .given = own[i]};
            assert_int_equal(pthread_create(&thread, NULL, release_and_ask, &handed), 0);
            pthread_join(thread, NULL);
            assert_false(share_a_line(own[0], handed.got));
            pw_general_free(&pw_process, &pw_gate, handed.got);
        }
        pw_general_free(&pw_process, &pw_gate, own[0]);
    }
}

static pthread_key_t late_key;

static void late_destructor(void *block) {
    pw_general_free(&pw_process, &pw_gate, block);
    pw_general_free(&pw_process, &pw_gate, allocate(100)); // after our own destructor, perhaps
}

static void *with_late_destructor(void *unused) {
    pthread_setspecific(late_key, allocate(50));
    return unused;
}

static void destructors_that_run_late_may_use_the_heap(void **state) {
    (void)state;
    assert_int_equal(pthread_key_create(&late_key, late_destructor), 0);
    for (int i = 0; i < 50; i++) {
        in_thread(with_late_destructor);
    }
    pthread_key_delete(late_key);
}

// --- forks -------------------------------------------------------------------------------

static atomic_bool stop;
static atomic_int churning;

static void *churn(void *unused) {
    struct random noise = random_from((uintptr_t)&noise);
    void *blocks[100] = {0};
    atomic_fetch_add(&churning, 1);
    while (!stop) {
        size_t at = random_below(&noise, 100);
        pw_general_free(&pw_process, &pw_gate, blocks[at]);
        blocks[at] = allocate(random_below(&noise, 5000));
    }
    for (int i = 0; i < 100; i++) {
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
    return unused;
}

static void child_of_threads(void *unused) {
    (void)unused;
    alarm(60);
    for (int i = 0; i < MANY; i++) {
        CHECK(*(unsigned char *)handed_over[i] == (unsigned char)i);
    }
    free_many(NULL);
    allocate_many(NULL);
    free_many(NULL);
#ifndef PW_TEST_SANITIZED // TSan still counts the parent's threads
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, hold_a_little, NULL) == 0);
    pthread_join(thread, NULL);
#endif
}

static void forks_beside_busy_threads_work(void **state) {
    (void)state;
    pthread_t threads[3];
    stop = false;
    for (int i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, churn, NULL);
    }
    while (churning < 3) {
        sched_yield();
    }
    allocate_many(NULL);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(run_in_child(child_of_threads, NULL), 0);
    }
    free_many(NULL);
    stop = true;
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
}

// clone runs no handlers: whoever held a lock is not there any more.
static void a_child_without_handlers_goes_on_with_the_c_library(void **state) {
    (void)state;
#ifdef PW_TEST_SANITIZED
    skip(); // neither sanitizer supports raw clone
#endif
    struct pw_bin *bin = &pw_process.general.bins[pw_class_of(100)];
    for (int held = 0; held < 2; held++) {
        if (held) {
            pthread_mutex_lock(&bin->lock);
        }
        pid_t child = raw_fork();
        if (child == 0) {
            alarm(20);
            for (int i = 0; i < 2000; i++) {
                char *block = allocate(100);
                CHECK(block);
                memset(block, 1, 100);
                if (i % 2) {
                    pw_general_free(&pw_process, &pw_gate, block);
                }
            }
            pw_process.general.looked_ms = 1; // as the keeper does, to which a look is due
            pw_general_look_when_due(&pw_process.general);
            _exit(pw_process.general.orphaned == (held == 1) ? 0 : 1);
        }
        if (held) {
            pthread_mutex_unlock(&bin->lock);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

// The process's lock as well: what is known of a large block is then read without it.
static void a_child_without_the_lock_resizes_large_blocks(void **state) {
    (void)state;
#ifdef PW_TEST_SANITIZED
    skip(); // neither sanitizer supports raw clone
#endif
    unsigned char *blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = allocate(300 * KB);
        memset(blocks[i], i + 1, 300 * KB);
    }
    pthread_mutex_lock(&pw_process.lock);
    pid_t child = raw_fork();
    if (child == 0) {
        static const size_t sizes[] = {900 * KB, 200 * KB, 100};
        alarm(20);
        for (int i = 0; i < 3; i++) {
            CHECK(pw_general_usable(&pw_process, blocks[i]) >= 300 * KB);
            unsigned char *moved = pw_general_realloc(&pw_process, &pw_gate, blocks[i], sizes[i]);
            CHECK(moved);
            for (size_t at = 0; at < sizes[i] && at < 300 * KB; at++) {
                CHECK(moved[at] == i + 1);
            }
            memset(moved, 7, sizes[i]);
        }
        CHECK(!pw_general_realloc(&pw_process, &pw_gate, blocks[3], SIZE_MAX / 2));
        CHECK(blocks[3][0] == 4);
        _exit(pw_process.orphaned ? 0 : 1);
    }
    pthread_mutex_unlock(&pw_process.lock);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (int i = 0; i < 4; i++) {
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
}

static void child_of_a_handler(void *unused) {
    alarm(60);
    hold_a_little(unused);
}

static void a_handler_in_the_middle_of_our_work_gets_other_blocks(void **state) {
    (void)state;
    void *ours = allocate(100);
    pw_general_thread.inside = true;
    void *blocks[300];
    for (int i = 0; i < 300; i++) {
        blocks[i] = allocate(100);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, 100);
    }
    int status = run_in_child(child_of_a_handler, NULL);
    assert_int_equal(status, 0); // a fork out of the handler neither hangs nor breaks
    pw_general_thread.inside = false;
    for (int i = 0; i < 300; i++) {
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
    pw_general_free(&pw_process, &pw_gate, ours);
}

// --- misuse ------------------------------------------------------------------------------

static void quiet_abort(void) {
    close(STDERR_FILENO);
}

static void release_twice(void *unused) {
    (void)unused;
    quiet_abort();
    void *block = allocate(200);
    pw_general_free(&pw_process, &pw_gate, block);
    pw_general_free(&pw_process, &pw_gate, block);
}

static void release_twice_with_another_between(void *unused) {
    (void)unused;
    quiet_abort();
    void *block = allocate(200), *other = allocate(200);
    pw_general_free(&pw_process, &pw_gate, block);
    pw_general_free(&pw_process, &pw_gate, other);
    pw_general_free(&pw_process, &pw_gate, block);
    pw_trim();
}

static void release_inside(void *unused) {
    (void)unused;
    quiet_abort();
    char *block = allocate(200);
    volatile size_t inside = 16; // or the compiler refuses
    pw_general_free(&pw_process, &pw_gate, block + inside);
    pw_trim();
}

static void release_after_all_is_gone(void *unused) {
    (void)unused;
    quiet_abort();
    void *block = allocate(200);
    pw_general_free(&pw_process, &pw_gate, block);
    pw_trim();
    pw_general_free(&pw_process, &pw_gate, block);
}

static void release_large_twice(void *unused) {
    (void)unused;
    quiet_abort();
    void *block = allocate(MB);
    pw_general_free(&pw_process, &pw_gate, block);
    pw_general_free(&pw_process, &pw_gate, block);
}

static void *stay(void *unused) {
    pause();
    return unused;
}

static void release_large_twice_beside_a_thread(void *unused) {
    pthread_t thread;
    pthread_create(&thread, NULL, stay, NULL);
    release_large_twice(unused);
}

static void release_inside_medium(void *unused) {
    (void)unused;
    quiet_abort();
    char *block = allocate(100 * KB);
    volatile size_t inside = 16;
    pw_general_free(&pw_process, &pw_gate, block + inside);
}

static void resize_released_medium(void *unused) {
    (void)unused;
    quiet_abort();
    void *block = allocate(100 * KB);
    pw_general_free(&pw_process, &pw_gate, block);
    pw_general_realloc(&pw_process, &pw_gate, block, 90 * KB);
}

static void *trim_once(void *unused) {
    pw_trim();
    return unused;
}

// As another thread's fork that has had the lock for longer than anybody waits.
static void what_is_idle_goes_though_a_fork_takes_long(void **state) {
    (void)state;
    static void *blocks[MANY];
    for (size_t i = 0; i < MANY; i++) {
        assert_non_null(blocks[i] = allocate(1000));
    }
    for (size_t i = 0; i < MANY; i++) {
        pw_general_free(&pw_process, &pw_gate, blocks[i]);
    }
    pw_cache_end(&pw_process.general); // no other thread empties this one's cache
    pw_general_thread.ended = false;
    assert_true(pw_process_enter());
    pw_process.fork_epoch++;
    pw_process.fork_stalled = pw_process.fork_epoch;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, trim_once, NULL), 0);
    const struct timespec moment = {0, 200000000};
    nanosleep(&moment, NULL);
    pw_process.fork_epoch++;
    pw_process_leave();
    pthread_join(thread, NULL);
    assert_int_equal(statistics().segments_taken, statistics().segments_returned);
}

static void misuse_ends_the_program(void **state) {
    (void)state;
    void (*const misuses[])(void *) = {release_twice,          release_twice_with_another_between,
                                       release_inside,         release_after_all_is_gone,
                                       release_large_twice,    release_inside_medium,
                                       resize_released_medium, release_large_twice_beside_a_thread};
    size_t count = sizeof misuses / sizeof *misuses;
#ifdef __SANITIZE_THREAD__
    count--; // a child of a process of several threads starts none under TSan
#endif
    for (size_t i = 0; i < count; i++) {
        int status = run_in_child(misuses[i], NULL);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, NULL, nothing_is_left)
    const struct CMUnitTest tests[] = {
        // Twice: as long as this program has had one thread, nothing is taken by atomic operations.
        TEST(misuse_ends_the_program),
        TEST(nobody_waits_for_a_stripe),
        TEST(every_size_has_the_smallest_class_that_holds_it),
        TEST(a_segment_wastes_little_and_divides_right),
        TEST(blocks_are_aligned_and_as_large_as_asked),
        TEST(alignments_are_kept),
        TEST(aligned_blocks_of_warm_pages_count_in_the_peak),
        TEST(what_may_not_be_read_is_made_smaller_in_place),
        TEST(zeroed_means_zero_also_where_it_was_used),
        TEST(resizing_keeps_the_contents),
        TEST(a_buffer_grows_into_what_is_free_behind_it),
        TEST(a_buffer_without_room_behind_it_moves),
        TEST(a_block_with_room_to_spare_keeps_what_it_holds),
        TEST(what_cannot_be_had_is_refused_and_changes_nothing),
        TEST(releasing_keeps_errno),
        TEST(blocks_of_the_c_library_are_taken_over),
        TEST(whole_segments_go_back),
        TEST(pages_without_blocks_go_back_and_come_again),
        TEST(a_page_with_a_part_of_a_block_stays),
        TEST(a_page_that_was_used_since_the_last_look_stays),
        TEST(pages_that_hold_blocks_are_filled_first),
        TEST(idle_pages_go_back_by_themselves),
        TEST(a_trim_tells_of_both_its_looks),
        TEST(blocks_that_are_given_back_are_no_longer_in_the_cache),
        TEST(every_medium_size_has_the_smallest_class_that_holds_it),
        TEST(medium_blocks_come_and_go_without_the_lock),
        TEST(nobody_waits_for_a_stripe),
        TEST(medium_blocks_that_nobody_wants_go_back),
        TEST(the_keeper_takes_medium_blocks_from_the_shelf),
        TEST(what_the_program_altered_is_not_kept),
        TEST(buffers_that_grow_leave_no_mappings),
        TEST(a_child_does_not_use_what_lay_on_the_shelf),
        TEST(nobody_comes_in_while_a_child_clears_the_shelf),
        TEST(a_fork_leaves_the_child_no_medium_block_to_lose),
        TEST(a_large_block_that_shrinks_stays_ours),
        TEST(an_alignment_that_is_none_is_refused),
        TEST(what_left_all_to_the_c_library_is_not_switched_on),
        TEST(the_keeper_comes_for_pages_between_blocks),
        TEST(the_keeper_is_started_by_an_allocation),
        TEST(the_keeper_is_started_by_a_free),
        TEST(without_a_keeper_releases_give_back),
        TEST(beyond_the_limit_there_is_no_memory),
        TEST(threads_and_children_stay_within_the_limit),
        TEST(a_block_grows_by_what_lies_on_the_shelf),
        TEST(a_full_shelf_is_no_reason_to_refuse),
        TEST(what_is_in_use_is_told),
        TEST(texts_are_complete_or_cut),
        TEST(tables_take_address_space_as_they_are_needed),
        TEST(blocks_may_be_released_by_other_threads),
        TEST(a_thread_leaves_nothing_behind),
        TEST(first_blocks_of_threads_share_no_line),
        TEST(a_thread_does_not_write_where_its_block_came_from),
        TEST(destructors_that_run_late_may_use_the_heap),
        TEST(forks_beside_busy_threads_work),
        TEST(a_child_without_handlers_goes_on_with_the_c_library),
        TEST(a_child_without_the_lock_resizes_large_blocks),
        TEST(what_is_idle_goes_though_a_fork_takes_long),
        TEST(a_handler_in_the_middle_of_our_work_gets_other_blocks),
        TEST(misuse_ends_the_program),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
