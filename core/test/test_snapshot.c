// SPDX-License-Identifier: MIT
//
// Snapshots: publish, attach, write on either side, publish again, give up, reclaim. What a block
// holds always equals its shadow copy.
#include "arena_fixture.h"
#include "os/fault.h"
#include "share/share.h"
#include "share/snapshot.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define BLOCKS 12
#define MOST   300 // pages of a block

struct block {
    struct pw_extent *extent;
    char *shadow;
};

struct model {
    struct pw_arena arena;
    struct pw_stats stats;
    struct pw_share share;
    struct random random;
    struct block blocks[BLOCKS];
};

static struct model *model_new(uint64_t seed) {
    struct model *model = model_map(sizeof *model);
    model->random = random_from(seed);
    arena_begin(&model->arena, &model->stats);
    pw_share_start(&model->share, &model->arena);
    return model;
}

static void block_new(struct model *model, struct block *block, uint32_t pages) {
    block->extent = pw_arena_take_cold(&model->arena, pages, 0);
    assert_non_null(block->extent);
    pw_arena_use(&model->arena, block->extent);
    block->extent->may_share = true;
    block->shadow = malloc((size_t)pages * PW_PAGE);
    random_fill(&model->random, block->shadow, (size_t)pages * PW_PAGE);
    memcpy(page_at(&model->arena, block->extent, 0), block->shadow, (size_t)pages * PW_PAGE);
}

static void check(struct model *model, const struct block *block) {
    assert_memory_equal(page_at(&model->arena, block->extent, 0), block->shadow,
                        (size_t)block->extent->pages * PW_PAGE);
}

static void block_delete(struct model *model, struct block *block) {
    check(model, block);
    bool shared = block->extent->snapshot != 0;
    assert_true(!shared || pw_share_drop_block(&model->share, block->extent));
    pw_arena_release(&model->arena, block->extent, shared ? PW_EXTENT_COLD : PW_EXTENT_WARM);
    free(block->shadow);
    *block = (struct block){0};
}

static void model_delete(struct model *model) {
    for (int i = 0; i < BLOCKS; i++) {
        if (model->blocks[i].extent) {
            block_delete(model, &model->blocks[i]);
        }
    }
    pw_share_settle(&model->share);
    assert_int_equal(PW_READ(&model->stats, shared_bytes), 0);
    assert_int_equal(PW_READ(&model->stats, snapshots_live), 0);
    assert_int_equal(PW_READ(&model->stats, snapshot_bytes), 0);
    for (unsigned i = 0; i < PW_SHARE_FILES; i++) {
        pw_os_close(&model->share.files[i].file);
    }
    pw_os_close(&model->share.pagemap.file);
    arena_end(&model->arena);
    munmap(model, sizeof *model);
}

static void write_bytes(struct model *model, struct block *block, size_t at, size_t size) {
    char bytes[64];
    random_fill(&model->random, bytes, size);
    memcpy(page_at(&model->arena, block->extent, 0) + at, bytes, size);
    memcpy(block->shadow + at, bytes, size);
}

// What the front does for a copy of whole pages whose source is, or becomes, shared.
static bool copy_pages(struct model *model, struct block *to, uint32_t to_page, struct block *from,
                       uint32_t from_page, uint32_t pages) {
    struct pw_extent *source = from->extent;
    uint32_t end = source->share_first + source->share_pages;
    bool inside = source->snapshot && from_page >= source->share_first && from_page + pages <= end;
    bool around =
        !source->snapshot || (from_page <= source->share_first && from_page + pages >= end);
    if (to->extent->snapshot || (!inside && !around)) {
        return false;
    }
    if (!inside || (around && random_chance(&model->random, 3))) {
        assert_int_equal(pw_share_publish(&model->share, source, from_page, pages), pages);
    }
    assert_true(pw_share_attach(&model->share, to->extent, to_page, source, from_page, pages));
    memcpy(to->shadow + (size_t)to_page * PW_PAGE, from->shadow + (size_t)from_page * PW_PAGE,
           (size_t)pages * PW_PAGE);
    return true;
}

// The end of a collection.
static uint64_t reclaim_zero(struct model *model, bool always) {
    pw_share_count_collection(&model->share);
    return pw_share_reclaim_zero(&model->share, always);
}

// Pages in which the block has left its snapshot.
static uint64_t written_pages(struct model *model, const struct block *block) {
    const struct pw_extent *extent = block->extent;
    uint64_t written = 0;
    assert_true(pw_share_count_private(&model->share, extent, extent->share_first,
                                       extent->share_pages, &written));
    return written;
}

// --- one thing at a time -----------------------------------------------------

static void two_blocks(struct model *model, uint32_t pages) {
    block_new(model, &model->blocks[0], pages);
    block_new(model, &model->blocks[1], pages);
}

static void both_sides_write_without_being_seen(void **state) {
    (void)state;
    struct model *model = model_new(1);
    two_blocks(model, 100);
    struct block *one = &model->blocks[0], *other = &model->blocks[1];
    assert_true(copy_pages(model, other, 0, one, 0, 100));
    assert_int_equal(PW_READ(&model->stats, shared_bytes), 200 * PW_PAGE);
    assert_int_equal(PW_READ(&model->stats, snapshot_bytes), 100 * PW_PAGE);
    check(model, one);
    check(model, other);
    write_bytes(model, one, 5 * PW_PAGE + 17, 40);
    write_bytes(model, other, 5 * PW_PAGE + 4000, 10);
    write_bytes(model, other, 99 * PW_PAGE, 1);
    check(model, one);
    check(model, other);
    assert_int_equal(written_pages(model, one), 1);
    assert_int_equal(written_pages(model, other), 2);
    model_delete(model);
}

static void a_part_may_land_on_another_page(void **state) {
    (void)state;
    struct model *model = model_new(2);
    two_blocks(model, 80);
    struct block *one = &model->blocks[0], *other = &model->blocks[1];
    assert_true(copy_pages(model, other, 40, one, 7, 30));
    check(model, one);
    check(model, other);
    block_new(model, &model->blocks[2], 20);
    // From the copy, further inwards, onto a third place.
    assert_true(copy_pages(model, &model->blocks[2], 3, other, 45, 10));
    for (int i = 0; i < 3; i++) {
        check(model, &model->blocks[i]);
    }
    assert_int_equal(PW_READ(&model->stats, snapshots_live), 1);
    model_delete(model);
}

static void pages_written_since_are_copied(void **state) {
    (void)state;
    struct model *model = model_new(3);
    two_blocks(model, 64);
    block_new(model, &model->blocks[2], 64);
    assert_true(copy_pages(model, &model->blocks[1], 0, &model->blocks[0], 0, 64));
    for (size_t page = 0; page < 64; page += 9) {
        write_bytes(model, &model->blocks[0], page * PW_PAGE + 100, 8);
    }
    assert_int_equal(written_pages(model, &model->blocks[0]), 8);
    assert_true(copy_pages(model, &model->blocks[2], 0, &model->blocks[0], 0, 64));
    for (int i = 0; i < 3; i++) {
        check(model, &model->blocks[i]);
    }
    model_delete(model);
}

static void a_dirty_source_can_be_published_again(void **state) {
    (void)state;
    struct model *model = model_new(4);
    two_blocks(model, 64);
    struct block *one = &model->blocks[0];
    assert_true(copy_pages(model, &model->blocks[1], 0, one, 10, 40));
    random_fill(&model->random, one->shadow, 64 * PW_PAGE);
    memcpy(page_at(&model->arena, one->extent, 0), one->shadow, 64 * PW_PAGE);
    // More pages than before, among them all that were shared.
    assert_int_equal(pw_share_publish(&model->share, one->extent, 5, 50), 50);
    assert_int_equal(PW_READ(&model->stats, snapshots_live), 2);
    check(model, one);
    check(model, &model->blocks[1]);
    assert_int_equal(written_pages(model, one), 0);
    model_delete(model);
}

#define WRITTEN_AT_ONCE ((uint32_t)((4 << 20) / PW_PAGE)) // pages

static void zero_pages_of(struct model *model, struct block *block, uint32_t first, uint32_t end) {
    size_t at = (size_t)first * PW_PAGE, size = (size_t)(end - first) * PW_PAGE;
    memset(page_at(&model->arena, block->extent, first), 0, size);
    memset(block->shadow + at, 0, size);
}

// The disk, or the promise of memory, ends in the middle: what is left on the old snapshot must not
// show its old bytes when a search gives it back as zero.
static void a_publishing_that_stops_half_way_loses_no_store(void **state) {
    (void)state;
    struct model *model = model_new(10);
    two_blocks(model, 1500);
    struct block *one = &model->blocks[0];
    assert_true(copy_pages(model, &model->blocks[1], 0, one, 0, 1500));
    random_fill(&model->random, one->shadow, 1500 * PW_PAGE);
    memcpy(page_at(&model->arena, one->extent, 0), one->shadow, 1500 * PW_PAGE);
    pw_os_fault_plan(PW_POINT_FILE_WRITE, ENOSPC, 2, 1);
    assert_int_equal(pw_share_publish(&model->share, one->extent, 0, 1500), WRITTEN_AT_ONCE);
    pw_os_fault_clear();
    check(model, one);
    zero_pages_of(model, one, 1100, 1400);
    reclaim_zero(model, true);
    check(model, one);
    assert_true(pw_share_drop(&model->share, one->extent));
    memset(one->shadow, 0, WRITTEN_AT_ONCE * PW_PAGE);
    reclaim_zero(model, true);
    check(model, one);
    check(model, &model->blocks[1]);
    model_delete(model);
}

// Pages that it had not written lie on the old snapshot alone, and are read when that has gone.
static void what_it_had_not_written_outlives_the_old_snapshot(void **state) {
    (void)state;
    struct model *model = model_new(11);
    two_blocks(model, 1500);
    struct block *one = &model->blocks[0];
    assert_true(copy_pages(model, &model->blocks[1], 0, one, 0, 1500));
    for (size_t page = 0; page < WRITTEN_AT_ONCE; page++) {
        write_bytes(model, one, page * PW_PAGE, 8);
    }
    pw_os_fault_plan(PW_POINT_FILE_WRITE, ENOSPC, 2, 1);
    assert_int_equal(pw_share_publish(&model->share, one->extent, 0, 1500), WRITTEN_AT_ONCE);
    pw_os_fault_clear();
    uint64_t before = PW_READ(&model->stats, punched_bytes);
    block_delete(model, &model->blocks[1]);
    pw_share_settle(&model->share);
    assert_true(PW_READ(&model->stats, punched_bytes) > before);
    check(model, one);
    model_delete(model);
}

static int snapshot_descriptor(struct model *model) {
    for (unsigned i = 0; i < PW_SHARE_FILES; i++) {
        if (model->share.files[i].file.fd >= 0) {
            return model->share.files[i].file.fd;
        }
    }
    return -1;
}

static uint64_t file_bytes(struct model *model) {
    struct stat status;
    assert_int_equal(fstat(snapshot_descriptor(model), &status), 0);
    return (uint64_t)status.st_blocks * 512;
}

static void the_last_owner_punches(void **state) {
    (void)state;
    struct model *model = model_new(5);
    two_blocks(model, 100);
    assert_true(copy_pages(model, &model->blocks[1], 0, &model->blocks[0], 0, 100));
    assert_int_equal(file_bytes(model), 100 * PW_PAGE);
    block_delete(model, &model->blocks[0]);
    assert_int_equal(file_bytes(model), 100 * PW_PAGE);
    check(model, &model->blocks[1]);
    block_delete(model, &model->blocks[1]);
    assert_int_equal(file_bytes(model), 0);
    assert_int_equal(PW_READ(&model->stats, punched_bytes), 100 * PW_PAGE);
    model_delete(model);
}

static void nobody_else_can_open_or_inherit_the_file(void **state) {
    (void)state;
    struct model *model = model_new(6);
    two_blocks(model, 10);
    assert_true(copy_pages(model, &model->blocks[1], 0, &model->blocks[0], 0, 10));
    int fd = snapshot_descriptor(model);
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(model->share.pagemap.file.fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fd > 100); // out of the program's way
    model_delete(model);
}

static void a_sole_owner_gives_up_what_it_replaced(void **state) {
    (void)state;
    struct model *model = model_new(7);
    two_blocks(model, 100);
    assert_true(copy_pages(model, &model->blocks[1], 0, &model->blocks[0], 0, 100));
    block_delete(model, &model->blocks[0]);
    for (size_t page = 0; page < 30; page++) {
        write_bytes(model, &model->blocks[1], page * PW_PAGE, 8);
    }
    model->share.collections += 1000;
    assert_int_equal(pw_share_reclaim_sole(&model->share), 30 * PW_PAGE);
    assert_int_equal(file_bytes(model), 70 * PW_PAGE);
    assert_int_equal(PW_READ(&model->stats, snapshot_bytes), 70 * PW_PAGE);
    check(model, &model->blocks[1]);
    model->share.collections += 1000;
    assert_int_equal(pw_share_reclaim_sole(&model->share), 0);
    check(model, &model->blocks[1]);
    // Copies from it must not read what was punched.
    block_new(model, &model->blocks[2], 100);
    assert_true(copy_pages(model, &model->blocks[2], 0, &model->blocks[1], 0, 100));
    check(model, &model->blocks[2]);
    model_delete(model);
}

// A sole owner replaced pages, they were punched, and then a copy attached: the copy holds those
// pages itself and becomes the sole owner in turn.
static void punched_pages_stay_with_every_later_owner(void **state) {
    (void)state;
    struct model *model = model_new(8);
    two_blocks(model, 60);
    assert_true(copy_pages(model, &model->blocks[1], 0, &model->blocks[0], 0, 60));
    block_delete(model, &model->blocks[0]);
    write_bytes(model, &model->blocks[1], 3 * PW_PAGE, 8);
    model->share.collections += 1000;
    assert_int_equal(pw_share_reclaim_sole(&model->share), PW_PAGE);
    block_new(model, &model->blocks[2], 60);
    assert_true(copy_pages(model, &model->blocks[2], 0, &model->blocks[1], 0, 60));
    block_delete(model, &model->blocks[1]);
    check(model, &model->blocks[2]);
    write_bytes(model, &model->blocks[2], 9 * PW_PAGE, 8);
    model->share.collections += 1000;
    pw_share_reclaim_sole(&model->share);
    check(model, &model->blocks[2]);
    model_delete(model);
}

// A copy of a part of a vector outlives the vector and its whole copy.
static void a_copy_of_a_part_does_not_keep_the_rest(void **state) {
    (void)state;
    struct model *model = model_new(11);
    two_blocks(model, 100);
    struct block *part = &model->blocks[2], *later = &model->blocks[3];
    block_new(model, part, 30);
    block_new(model, later, 10);
    assert_true(copy_pages(model, &model->blocks[1], 0, &model->blocks[0], 0, 100));
    assert_true(copy_pages(model, part, 5, &model->blocks[1], 60, 20));
    block_delete(model, &model->blocks[0]);
    pw_share_count_collection(&model->share);
    assert_int_equal(pw_share_reclaim_sole(&model->share), 0); // two are left
    block_delete(model, &model->blocks[1]);
    write_bytes(model, part, 7 * PW_PAGE, 8);
    model->share.collections += 1000;
    assert_int_equal(pw_share_reclaim_sole(&model->share), 81 * PW_PAGE);
    assert_int_equal(file_bytes(model), 19 * PW_PAGE);
    assert_int_equal(PW_READ(&model->stats, snapshot_bytes), 19 * PW_PAGE);
    check(model, part);
    // A part of the part: nothing is counted twice.
    assert_true(copy_pages(model, later, 0, part, 6, 10));
    block_delete(model, part);
    model->share.collections += 1000;
    assert_int_equal(pw_share_reclaim_sole(&model->share), 10 * PW_PAGE);
    assert_int_equal(file_bytes(model), 9 * PW_PAGE);
    check(model, later);
    model_delete(model);
}

static void zero_range(struct model *model, struct block *block, uint32_t first, uint32_t pages) {
    memset(page_at(&model->arena, block->extent, first), 0, (size_t)pages * PW_PAGE);
    memset(block->shadow + (size_t)first * PW_PAGE, 0, (size_t)pages * PW_PAGE);
}

static void zero_pages_are_given_back(void **state) {
    (void)state;
    struct model *model = model_new(9);
    block_new(model, &model->blocks[0], 100);
    struct block *block = &model->blocks[0];
    for (uint32_t page = 20; page < 50; page++) {
        memset(page_at(&model->arena, block->extent, page), 0, PW_PAGE);
        memset(block->shadow + (size_t)page * PW_PAGE, 0, PW_PAGE);
    }
    page_at(&model->arena, block->extent, 30)[PW_PAGE - 1] = 1; // all but the last byte
    block->shadow[31 * PW_PAGE - 1] = 1;
    assert_int_equal(reclaim_zero(model, true), 29 * PW_PAGE);
    check(model, block);
    assert_int_equal(reclaim_zero(model, true), 0);
    write_bytes(model, block, 25 * PW_PAGE + 8, 8);
    check(model, block);
    model_delete(model);
}

// The kernels before 6.7 have no PAGEMAP_SCAN. What was given back and read since is the kernel's
// zero page, which must not be found again and again.
static void without_a_scan_zero_pages_are_given_back_once(void **state) {
    (void)state;
    struct model *model = model_new(24);
    block_new(model, &model->blocks[0], 100);
    model->share.pagemap.scan = false;
    zero_range(model, &model->blocks[0], 20, 30);
    assert_int_equal(reclaim_zero(model, true), 30 * PW_PAGE);
    check(model, &model->blocks[0]); // reads them
    assert_int_equal(reclaim_zero(model, true), 0);
    zero_range(model, &model->blocks[0], 25, 2);
    assert_int_equal(reclaim_zero(model, true), 2 * PW_PAGE);
    assert_false(model->share.pagemap.scan);
    model_delete(model);
}

// A discarded page of a private file mapping would show the snapshot again.
static void zero_reclaim_leaves_shared_pages_alone(void **state) {
    (void)state;
    struct model *model = model_new(10);
    two_blocks(model, 100);
    struct block *block = &model->blocks[0];
    assert_true(copy_pages(model, &model->blocks[1], 0, block, 20, 50));
    for (uint32_t page = 10; page < 80; page++) {
        memset(page_at(&model->arena, block->extent, page), 0, PW_PAGE);
        memset(block->shadow + (size_t)page * PW_PAGE, 0, PW_PAGE);
    }
    assert_int_equal(reclaim_zero(model, true), 20 * PW_PAGE);
    check(model, block);
    check(model, &model->blocks[1]);
    model_delete(model);
}

static void zero_reclaim_backs_off(void **state) {
    (void)state;
    struct model *model = model_new(11);
    block_new(model, &model->blocks[0], 50);
    for (int i = 0; i < 200; i++) {
        reclaim_zero(model, false);
    }
    assert_true(PW_READ(&model->stats, zero_pages_checked) < 50 * 15);
    for (uint32_t page = 10; page < 20; page++) {
        memset(page_at(&model->arena, model->blocks[0].extent, page), 0, PW_PAGE);
        memset(model->blocks[0].shadow + (size_t)page * PW_PAGE, 0, PW_PAGE);
    }
    uint64_t freed = 0;
    for (int i = 0; i < 65; i++) {
        freed += reclaim_zero(model, false);
    }
    assert_int_equal(freed, 10 * PW_PAGE);
    model_delete(model);
}

// Of a block that was never searched only long runs are taken; the rest when it has lived on.
static void young_blocks_give_back_long_runs_only(void **state) {
    (void)state;
    const uint32_t run = (128 << 10) / PW_PAGE;
    struct model *model = model_new(12);
    struct block *block = &model->blocks[0];
    block_new(model, block, 300);
    block->extent->zero_young = true;
    block->extent->zero_wait = 4;
    zero_range(model, block, 10, run - 1);                             // a page short
    zero_range(model, block, 100, run);                                // long enough
    assert_int_equal(pw_share_reclaim_young(&model->share, false), 0); // to be left alone
    block->extent->zero_at_peak = true;
    assert_int_equal(pw_share_reclaim_young(&model->share, false), run * PW_PAGE);
    assert_int_equal(pw_share_reclaim_young(&model->share, true), 0); // it is young no more
    check(model, block);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(reclaim_zero(model, false), 0);
    }
    assert_int_equal(reclaim_zero(model, false), (run - 1) * PW_PAGE);
    check(model, block);
    model_delete(model);
}

static void all_young_blocks_are_searched_where_that_is_wanted(void **state) {
    (void)state;
    struct model *model = model_new(14);
    struct block *block = &model->blocks[0];
    block_new(model, block, 300);
    block->extent->zero_young = true;
    zero_range(model, block, 100, 32);
    assert_int_equal(pw_share_reclaim_young(&model->share, true), 32 * PW_PAGE);
    check(model, block);
    model_delete(model);
}

// A few more pages, found just before the block is freed, say nothing of the many before.
static void most_of_the_pages_tell_when_they_were_given_back(void **state) {
    (void)state;
    struct model *model = model_new(13);
    struct block *block = &model->blocks[0];
    block_new(model, block, 300);
    zero_range(model, block, 10, 100);
    reclaim_zero(model, true);
    uint32_t then = block->extent->zero_given_at;
    zero_range(model, block, 200, 10);
    reclaim_zero(model, true);
    assert_int_equal(block->extent->zero_given, 110);
    assert_int_equal(block->extent->zero_given_at, then);
    zero_range(model, block, 10, 110);
    reclaim_zero(model, true);
    assert_int_equal(block->extent->zero_given_at, model->share.collections);
    model_delete(model);
}

// --- children ------------------------------------------------------------------

struct child {
    pid_t pid;
    int go;
};

static pid_t raw_fork(void) {
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

// A child that does nothing but look at a block when it is told to.
static struct child child_begin(struct model *model, const struct block *block) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct child child = {raw_fork(), ends[1]};
    assert_true(child.pid >= 0);
    if (child.pid == 0) {
        char byte;
        prctl(PR_SET_PDEATHSIG, SIGKILL); // a test that failed waits for nobody
        CHECK(read(ends[0], &byte, 1) == 1);
        _exit(memcmp(page_at(&model->arena, block->extent, 0), block->shadow,
                     (size_t)block->extent->pages * PW_PAGE) != 0);
    }
    close(ends[0]);
    return child;
}

static void child_reads(struct child child) {
    int status = -1;
    assert_int_equal(write(child.go, "x", 1), 1);
    close(child.go);
    assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
    assert_int_equal(status, 0);
}

// Something else is shared and given up, so that the witness is asked.
// Few enough not to be asked about at once, whatever the size of pages.
#define RELEASED ((uint32_t)((2400 << 10) / PW_PAGE))

static void share_and_release(struct model *model) {
    struct block *one = &model->blocks[BLOCKS - 2], *other = &model->blocks[BLOCKS - 1];
    block_new(model, one, RELEASED);
    block_new(model, other, RELEASED);
    assert_true(copy_pages(model, other, 0, one, 0, RELEASED));
    block_delete(model, one);
    block_delete(model, other);
}

// The parent's blocks go; their bytes are kept for the child to compare.
static void forget(struct model *model, struct block *block) {
    assert_true(pw_share_drop_block(&model->share, block->extent));
    pw_arena_release(&model->arena, block->extent, PW_EXTENT_COLD);
    block->extent = NULL;
}

static uint64_t punched(struct model *model) {
    return PW_READ(&model->stats, punched_bytes) / PW_PAGE;
}

static void a_child_keeps_what_it_reads(void **state) {
    (void)state;
    struct model *model = model_new(30);
    two_blocks(model, 600);
    struct block *one = &model->blocks[0], *other = &model->blocks[1];
    assert_true(copy_pages(model, other, 0, one, 0, 600));
    struct child child = child_begin(model, other);
    forget(model, one);
    forget(model, other);
    assert_int_equal(punched(model), 0);
    share_and_release(model); // came after the child
    assert_int_equal(punched(model), RELEASED);
    child_reads(child);
    free(one->shadow);
    free(other->shadow);
    model_delete(model);
}

// The second child's witness is free before the first one's, and the other way round.
static void children_end_in_any_order(void **state) {
    (void)state;
    const uint32_t pages = RELEASED;
    for (int first = 0; first < 2; first++) {
        struct model *model = model_new(31);
        struct block *one = &model->blocks[0], *other = &model->blocks[1];
        two_blocks(model, pages);
        block_new(model, &model->blocks[2], pages); // keeps the file open
        block_new(model, &model->blocks[3], pages);
        assert_true(copy_pages(model, &model->blocks[3], 0, &model->blocks[2], 0, pages));
        assert_true(copy_pages(model, other, 0, one, 0, pages));
        struct child children[2];
        children[0] = child_begin(model, other);
        share_and_release(model);
        share_and_release(model);
        children[1] = child_begin(model, other);
        uint64_t before = punched(model);
        forget(model, one);
        forget(model, other);
        assert_int_equal(punched(model), before);
        child_reads(children[first]);
        pw_share_settle(&model->share);
        share_and_release(model);
        // The first child may also see what was published before it was found out about.
        assert_int_equal(file_bytes(model), (first ? 3 : 2) * pages * PW_PAGE);
        child_reads(children[!first]);
        pw_share_settle(&model->share);
        assert_int_equal(file_bytes(model), pages * PW_PAGE);
        assert_int_equal(model->share.refused_count, 0);
        free(one->shadow);
        free(other->shadow);
        model_delete(model);
    }
}

static void a_sole_owner_keeps_what_a_child_reads(void **state) {
    (void)state;
    struct model *model = model_new(32);
    two_blocks(model, 100);
    struct block *one = &model->blocks[0], *other = &model->blocks[1];
    assert_true(copy_pages(model, other, 0, one, 0, 100));
    block_delete(model, one);
    struct child child = child_begin(model, other); // its shadow is that of now as well
    for (size_t page = 0; page < 30; page++) {
        write_bytes(model, other, page * PW_PAGE, 8);
    }
    for (int i = 0; i < 3; i++) {
        model->share.collections += 1000;
        assert_int_equal(pw_share_reclaim_sole(&model->share), 0);
    }
    child_reads(child);
    model->share.collections += 1000;
    assert_int_equal(pw_share_reclaim_sole(&model->share), 30 * PW_PAGE);
    check(model, other);
    model_delete(model);
}

// Found in more ranges than are punched at once.
static void a_sole_owner_may_have_written_every_other_page(void **state) {
    (void)state;
    struct model *model = model_new(33);
    uint32_t pages = 5 * PW_SHARE_RANGES;
    two_blocks(model, pages);
    struct block *other = &model->blocks[1];
    assert_true(copy_pages(model, other, 0, &model->blocks[0], 0, pages));
    block_delete(model, &model->blocks[0]);
    for (size_t page = 0; page < pages; page += 2) {
        write_bytes(model, other, page * PW_PAGE, 8);
    }
    model->share.collections += 1000;
    assert_int_equal(pw_share_reclaim_sole(&model->share), pages / 2 * PW_PAGE);
    assert_int_equal(file_bytes(model), pages / 2 * PW_PAGE);
    assert_int_equal(PW_READ(&model->stats, snapshot_bytes), pages / 2 * PW_PAGE);
    check(model, other);
    model_delete(model);
}

static int open_descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 1200; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

// As many children live as there is room for their witnesses, and more: sharing pauses, and goes on
// when they have ended. Nothing is left open.
static void more_children_live_than_can_be_told_apart(void **state) {
    (void)state;
    struct model *model = model_new(34);
    struct child children[PW_SHARE_WITNESSES + 8];
    size_t count = sizeof children / sizeof *children;
    two_blocks(model, 1200);
    struct block *one = &model->blocks[0], *other = &model->blocks[1];
    int before = open_descriptors();
    bool paused = false;
    for (size_t i = 0; i < 3 * count && !(paused && i >= count); i++) {
        if (i < count) {
            children[i] = child_begin(model, one);
        }
        if (!pw_share_publish(&model->share, one->extent, 0, 1200)) {
            assert_true(PW_READ(&model->stats, fallback_epochs) > 0);
            paused = true;
        } else if (!other->extent->snapshot) {
            assert_true(pw_share_attach(&model->share, other->extent, 0, one->extent, 0, 1200));
            memcpy(other->shadow, one->shadow, 1200 * PW_PAGE);
        }
    }
    assert_true(paused);
    assert_true(open_descriptors() <= before + (int)(count + PW_SHARE_WITNESSES) + 2);
    for (size_t i = 0; i < count; i++) {
        child_reads(children[i]);
    }
    assert_int_equal(pw_share_publish(&model->share, one->extent, 0, 1200), 1200);
    pw_share_settle(&model->share);
    assert_int_equal(model->share.refused_count, 0);
    assert_int_equal(open_descriptors(), before + 2); // a file and a witness
    assert_int_equal(PW_READ(&model->stats, snapshot_bytes), 2 * 1200 * PW_PAGE);
    check(model, one);
    check(model, other);
    model_delete(model);
}

static void nothing_is_given_back_that_a_lost_witness_saw(bool by_descriptor) {
    struct model *model = model_new(35);
    two_blocks(model, 600);
    struct block *one = &model->blocks[0], *other = &model->blocks[1];
    assert_true(copy_pages(model, other, 0, one, 0, 600));
    struct child child = child_begin(model, other);
    struct pw_os_witness *witness = &model->share.witness.at;
    if (by_descriptor) {
        int own = memfd_create("own", MFD_ALLOW_SEALING);
        assert_int_equal(dup2(own, witness->file.fd), witness->file.fd);
        close(own);
        own = witness->file.fd;
        share_and_release(model);
        assert_int_equal(fcntl(own, F_GET_SEALS), 0);
        close(own);
    } else {
        // The child has it still, so that only the next one, which nobody has, shows the loss.
        share_and_release(model);
        munmap(witness->page, PW_PAGE);
        share_and_release(model);
        assert_true(model->share.lost > 0);
    }
    uint64_t before = punched(model);
    forget(model, one);
    forget(model, other);
    assert_int_equal(punched(model), before);
    child_reads(child);
    pw_share_settle(&model->share);
    share_and_release(model); // in a new file
    assert_true(punched(model) > before);
    free(one->shadow);
    free(other->shadow);
    model_delete(model);
}

static void the_program_takes_the_witness_number(void **state) {
    (void)state;
    nothing_is_given_back_that_a_lost_witness_saw(true);
}

static void the_program_unmaps_the_witness(void **state) {
    (void)state;
    nothing_is_given_back_that_a_lost_witness_saw(false);
}

#ifndef PW_TEST_SANITIZED // whose own locks a raw fork leaves as they were
static struct {
    struct model *model;
    _Atomic bool done;
    int wrong;
} race;

static void *fork_all_the_time(void *unused) {
    (void)unused;
    const struct block *block = &race.model->blocks[0];
    for (int i = 0; i < 400; i++) {
        pid_t child = raw_fork();
        CHECK(child >= 0);
        if (child == 0) {
            struct timespec pause = {.tv_nsec = 3000000};
            nanosleep(&pause, NULL);
            _exit(memcmp(page_at(&race.model->arena, block->extent, 0), block->shadow,
                         (size_t)block->extent->pages * PW_PAGE) != 0);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child);
        race.wrong += status != 0;
    }
    race.done = true;
    return NULL;
}

// Another thread forks while this one publishes a block again and again and gives back what the
// child has mapped.
static void children_of_any_moment_read_their_bytes(void **state) {
    (void)state;
    race.model = model_new(36);
    block_new(race.model, &race.model->blocks[0], 40);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fork_all_the_time, NULL), 0);
    while (!race.done) {
        pw_share_publish(&race.model->share, race.model->blocks[0].extent, 0, 40);
        pw_share_settle(&race.model->share);
    }
    pthread_join(thread, NULL);
    assert_int_equal(race.wrong, 0);
    assert_true(punched(race.model) > 0);
    model_delete(race.model);
}
#endif

// --- everything at random ----------------------------------------------------

static void random_step(struct model *model) {
    struct random *random = &model->random;
    struct block *one = &model->blocks[random_below(random, BLOCKS)];
    struct block *other = &model->blocks[random_below(random, BLOCKS)];
    if (!one->extent) {
        block_new(model, one, 1 + (uint32_t)random_below(random, MOST));
        return;
    }
    size_t size = (size_t)one->extent->pages * PW_PAGE;
    switch (random_below(random, 8)) {
    case 0:
        block_delete(model, one);
        break;
    case 1:
    case 2:
        write_bytes(model, one, random_below(random, size - 64), 1 + random_below(random, 64));
        break;
    case 3: {
        uint32_t first = (uint32_t)random_below(random, one->extent->pages);
        size_t at = (size_t)first * PW_PAGE, length = 1 + random_below(random, size - at);
        memset(one->shadow + at, 0, length);
        memset(page_at(&model->arena, one->extent, first), 0, length);
        break;
    }
    case 4:
        reclaim_zero(model, random_chance(random, 2));
        pw_share_reclaim_sole(&model->share);
        check(model, one);
        break;
    default:
        if (other->extent && other != one) {
            uint32_t smaller = one->extent->pages < other->extent->pages ? one->extent->pages
                                                                         : other->extent->pages;
            uint32_t pages = 1 + (uint32_t)random_below(random, smaller);
            uint32_t to = (uint32_t)random_below(random, other->extent->pages - pages + 1);
            uint32_t from = (uint32_t)random_below(random, one->extent->pages - pages + 1);
            copy_pages(model, other, to, one, from, pages);
            check(model, one);
            check(model, other);
        }
    }
}

static void random_steps_match_the_shadows(void **state) {
    (void)state;
    for (uint64_t seed = 20; seed < 23; seed++) {
        struct model *model = model_new(seed);
        for (int step = 0; step < 3000; step++) {
            random_step(model);
            for (int i = 0; step % 200 == 0 && i < BLOCKS; i++) {
                if (model->blocks[i].extent) {
                    check(model, &model->blocks[i]);
                }
            }
        }
        assert_true(PW_READ(&model->stats, publishes) > 20);
        assert_true(PW_READ(&model->stats, sole_owner_bytes) > 0);
        assert_true(PW_READ(&model->stats, zero_reclaimed_bytes) > 0);
        model_delete(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_write_without_being_seen),
        cmocka_unit_test(a_part_may_land_on_another_page),
        cmocka_unit_test(pages_written_since_are_copied),
        cmocka_unit_test(a_dirty_source_can_be_published_again),
        cmocka_unit_test(a_publishing_that_stops_half_way_loses_no_store),
        cmocka_unit_test(what_it_had_not_written_outlives_the_old_snapshot),
        cmocka_unit_test(the_last_owner_punches),
        cmocka_unit_test(nobody_else_can_open_or_inherit_the_file),
        cmocka_unit_test(a_sole_owner_gives_up_what_it_replaced),
        cmocka_unit_test(punched_pages_stay_with_every_later_owner),
        cmocka_unit_test(a_copy_of_a_part_does_not_keep_the_rest),
        cmocka_unit_test(zero_pages_are_given_back),
        cmocka_unit_test(without_a_scan_zero_pages_are_given_back_once),
        cmocka_unit_test(zero_reclaim_leaves_shared_pages_alone),
        cmocka_unit_test(zero_reclaim_backs_off),
        cmocka_unit_test(young_blocks_give_back_long_runs_only),
        cmocka_unit_test(all_young_blocks_are_searched_where_that_is_wanted),
        cmocka_unit_test(most_of_the_pages_tell_when_they_were_given_back),
        cmocka_unit_test(a_child_keeps_what_it_reads),
        cmocka_unit_test(children_end_in_any_order),
        cmocka_unit_test(a_sole_owner_keeps_what_a_child_reads),
        cmocka_unit_test(a_sole_owner_may_have_written_every_other_page),
        cmocka_unit_test(more_children_live_than_can_be_told_apart),
        cmocka_unit_test(the_program_takes_the_witness_number),
        cmocka_unit_test(the_program_unmaps_the_witness),
#ifndef PW_TEST_SANITIZED
        cmocka_unit_test(children_of_any_moment_read_their_bytes),
#endif
        cmocka_unit_test(random_steps_match_the_shadows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
