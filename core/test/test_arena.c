// SPDX-License-Identifier: MIT
//
// The arena against a shadow model: no two extents overlap, free neighbours of a kind are one,
// every address finds its block, cold pages read zero, and the memory rule holds.
#include "arena_fixture.h"
#include "os/fault.h"

#define BLOCKS 400

struct live {
    struct pw_extent *extent;
    uint32_t page, pages;
};

struct model {
    struct pw_arena arena;
    struct pw_stats stats;
    struct random random;
    struct live live[BLOCKS];
    unsigned count;
};

static void keep_rule(struct pw_arena *arena, uint64_t fresh) {
    pw_arena_keep_rule(arena, 0, fresh, &(struct pw_resident){0});
}

static uint64_t trim_surplus(struct pw_arena *arena) {
    return pw_arena_trim_surplus(arena, &(struct pw_resident){0});
}

static struct model *model_new(uint64_t seed) {
    struct model *model = model_map(sizeof *model);
    model->random = random_from(seed);
    arena_begin(&model->arena, &model->stats);
    return model;
}

static void model_delete(struct model *model) {
    arena_end(&model->arena);
    munmap(model, sizeof *model);
}

// --- the model ---------------------------------------------------------------

static void check_disjoint(const struct model *model, const struct pw_extent *taken) {
    assert_true(taken->page + taken->pages <= model->arena.end);
    for (unsigned i = 0; i < model->count; i++) {
        const struct live *other = &model->live[i];
        assert_true(taken->page >= other->page + other->pages ||
                    other->page >= taken->page + taken->pages);
    }
}

// Pages that the arena says are cold must read zero; the rest may hold anything.
static void check_cold_is_zero(struct model *model, const struct pw_extent *taken) {
    for (uint32_t page = taken->warm_pages; page < taken->pages; page++) {
        const uint64_t *words = (const uint64_t *)page_at(&model->arena, taken, page);
        assert_int_equal(words[0] | words[511], 0);
    }
}

static void mark(struct model *model, const struct pw_extent *extent) {
    for (uint32_t page = 0; page < extent->pages; page++) {
        uint64_t *words = (uint64_t *)page_at(&model->arena, extent, page);
        words[0] = words[511] = ((uint64_t)extent->page << 32) + page + 1;
    }
}

static void check_marks(struct model *model, const struct pw_extent *extent) {
    for (uint32_t page = 0; page < extent->pages; page++) {
        const uint64_t *words = (const uint64_t *)page_at(&model->arena, extent, page);
        uint64_t wanted = ((uint64_t)extent->page << 32) + page + 1;
        assert_int_equal(words[0], wanted);
        assert_int_equal(words[511], wanted);
    }
}

static struct pw_extent *take(struct model *model, uint32_t pages) {
    struct pw_arena *arena = &model->arena;
    struct pw_extent *extent = NULL;
    switch (random_below(&model->random, 5)) {
    case 0:
        extent = pw_arena_take_warm(arena, pages);
        break;
    case 1:
        extent = pw_arena_take_mixed(arena, pages);
        break;
    case 2:
        extent = pw_arena_take_cold(arena, pages, 0);
        if (extent) {
            pw_arena_gather(arena, extent);
        }
        return extent;
    case 3:
        extent = pw_arena_take_aligned(arena, pages, 16);
        assert_true(!extent || extent->page % 16 == 0);
        break;
    default:
        break;
    }
    bool huge = !extent && random_chance(&model->random, 4);
    extent = extent ? extent : pw_arena_take_cold(arena, pages, huge ? 512 : 0);
    if (huge && extent) {
        uintptr_t second = (uintptr_t)page_at(&model->arena, extent, 1);
        assert_int_equal(second & (PW_HUGE_PAGE - 1), 0);
    }
    return extent;
}

static void step_take(struct model *model) {
    uint32_t pages = 2 + (uint32_t)random_below(&model->random, 60);
    if (random_chance(&model->random, 8)) {
        pages = 2 + (uint32_t)random_below(&model->random, 5000);
    }
    struct pw_extent *extent = take(model, pages);
    assert_non_null(extent);
    assert_int_equal(extent->pages, pages);
    assert_int_equal(extent->state, PW_EXTENT_NONE);
    check_disjoint(model, extent);
    model->arena.live_pages += pages;
    if (random_chance(&model->random, 4)) { // of what lies beside it, too
        pw_arena_purge(&model->arena, random_below(&model->random, model->arena.warm_pages + 1));
    }
    keep_rule(&model->arena, 0);
    pw_arena_use(&model->arena, extent);
    check_cold_is_zero(model, extent);
    mark(model, extent);
    model->live[model->count++] = (struct live){extent, extent->page, extent->pages};
}

static void check_registry(struct model *model, const struct live *live) {
    const char *start = page_at(&model->arena, live->extent, 0);
    size_t size = (size_t)live->pages * PW_PAGE;
    assert_ptr_equal(pw_arena_find(&model->arena, start), live->extent);
    assert_ptr_equal(pw_arena_find(&model->arena, start + size - 1), live->extent);
    for (int i = 0; i < 8; i++) {
        const char *inside = start + random_below(&model->random, size);
        assert_ptr_equal(pw_arena_find(&model->arena, inside), live->extent);
    }
    assert_ptr_not_equal(pw_arena_find(&model->arena, start - 1), live->extent);
    assert_ptr_not_equal(pw_arena_find(&model->arena, start + size), live->extent);
    assert_int_equal(pw_extent_number(&model->arena, live->extent),
                     pw_extent_number(&model->arena, pw_arena_find(&model->arena, start)));
}

// The pages that it has stay as they are; more follow, warm ones first.
static void step_extend(struct model *model) {
    struct pw_arena *arena = &model->arena;
    struct live *live = &model->live[random_below(&model->random, model->count)];
    struct pw_extent *extent = live->extent;
    uint32_t before = extent->pages;
    uint32_t more =
        1 + (uint32_t)random_below(&model->random, random_chance(&model->random, 8) ? 5000 : 40);
    if (!pw_arena_has_behind(arena, extent, more)) {
        return;
    }
    uint32_t warm = pw_arena_extend(arena, extent, more);
    assert_true(warm <= more && extent->pages == before + more);
    extent->warm_pages = before + warm;
    pw_arena_use(arena, extent);
    arena->live_pages += more;
    keep_rule(arena, 0);
    extent->pages = before;
    check_marks(model, extent);
    extent->pages = live->pages = before + more;
    check_cold_is_zero(model, extent);
    mark(model, extent);
}

static void step_release(struct model *model) {
    if (model->count == 0) {
        return;
    }
    unsigned at = (unsigned)random_below(&model->random, model->count);
    struct live live = model->live[at];
    check_registry(model, &live);
    check_marks(model, live.extent);
    model->live[at] = model->live[--model->count];
    const char *start = page_at(&model->arena, live.extent, 0);
    bool cold = random_chance(&model->random, 5);
    if (cold) {
        assert_true(pw_os_map_blank((void *)(uintptr_t)start, (size_t)live.pages * PW_PAGE));
    }
    model->arena.live_pages -= live.pages;
    pw_arena_release(&model->arena, live.extent, cold ? PW_EXTENT_COLD : PW_EXTENT_WARM);
    assert_null(pw_arena_find(&model->arena, start));
    assert_null(pw_arena_find(&model->arena, start + (size_t)live.pages * PW_PAGE - 1));
}

// --- the arena as a whole ----------------------------------------------------

static uint64_t pages_in_bins(struct pw_arena *arena, const struct pw_bins *bins, int state) {
    uint64_t pages = 0;
    for (unsigned bin = 0; bin < PW_SIZE_BINS; bin++) {
        bool occupied = bins->occupied[bin / 64] >> (bin % 64) & 1;
        assert_int_equal(occupied, bins->head[bin] != 0);
        uint32_t previous = 0;
        for (uint32_t number = bins->head[bin]; number;
             number = pw_extent_at(arena, number)->next) {
            const struct pw_extent *extent = pw_extent_at(arena, number);
            assert_int_equal(extent->state, state);
            assert_int_equal(extent->previous, previous);
            assert_int_equal(pw_extent_number(arena, extent), number);
            pages += extent->pages;
            previous = number;
        }
        assert_true(previous == 0 || bins->tail[bin] == previous);
    }
    return pages;
}

// Extents tile the arena, and no two free neighbours are of the same kind.
static void check_tiling(struct model *model) {
    struct pw_arena *arena = &model->arena;
    uint64_t pages[PW_EXTENT_LOST + 1] = {0};
    int last = PW_EXTENT_NONE;
    for (uint32_t page = 0; page < arena->end;) {
        uint32_t number = arena->index[page / PW_ARENA_STEP_PAGES][page % PW_ARENA_STEP_PAGES];
        assert_true(number > 0 && number < arena->extent_count);
        const struct pw_extent *extent = pw_extent_at(arena, number);
        assert_int_equal(extent->page, page);
        assert_true(extent->pages > 0);
        bool is_free = extent->state == PW_EXTENT_WARM || extent->state == PW_EXTENT_COLD;
        assert_false(is_free && extent->state == last);
        pages[extent->state] += extent->pages;
        last = extent->state;
        page += extent->pages;
    }
    assert_int_equal(pages[PW_EXTENT_USED], arena->live_pages);
    assert_int_equal(pages[PW_EXTENT_WARM], arena->warm_pages);
    assert_int_equal(pages[PW_EXTENT_WARM], pages_in_bins(arena, &arena->warm, PW_EXTENT_WARM));
    assert_int_equal(pages[PW_EXTENT_COLD], pages_in_bins(arena, &arena->cold, PW_EXTENT_COLD));
    assert_int_equal(PW_READ(&model->stats, cached_bytes), arena->warm_pages * PW_PAGE);
}

static uint64_t allowed_pages(const struct pw_arena *arena) {
    return arena->highest_pages + arena->highest_pages * arena->slack_percent / 100 + 256;
}

static void random_steps_match_the_model(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct model *model = model_new(seed);
        for (int step = 0; step < 4000; step++) {
            bool full = model->count == BLOCKS || model->arena.live_pages > 40000;
            if (!full && random_chance(&model->random, 2)) {
                step_take(model);
                // The rule was kept with this block counted.
                assert_true(model->arena.live_pages + model->arena.warm_pages <=
                            allowed_pages(&model->arena));
            } else if (!full && model->count > 0 && random_chance(&model->random, 3)) {
                step_extend(model);
            } else {
                step_release(model);
            }
            if (step % 100 == 0) {
                check_tiling(model);
            }
        }
        while (model->count) {
            step_release(model);
        }
        check_tiling(model);
        pw_arena_purge(&model->arena, model->arena.warm_pages);
        check_tiling(model);
        assert_int_equal(model->arena.warm_pages, 0);
        model_delete(model);
    }
}

static struct pw_extent *use(struct model *model, uint32_t pages) {
    struct pw_extent *extent = pw_arena_take_cold(&model->arena, pages, 0);
    assert_non_null(extent);
    pw_arena_use(&model->arena, extent);
    model->arena.live_pages += pages;
    mark(model, extent);
    return extent;
}

static void release_warm(struct model *model, struct pw_extent *extent) {
    model->arena.live_pages -= extent->pages;
    pw_arena_release(&model->arena, extent, PW_EXTENT_WARM);
}

// Whatever the program maps in the way of the arena, at any place of its next step, stays.
static void a_neighbour_in_the_way_is_passed_by(void **state) {
    (void)state;
    for (uint32_t at = 0; at < PW_ARENA_STEP_PAGES; at += PW_ARENA_STEP_PAGES / 2) {
        struct model *model = model_new(1);
        assert_non_null(use(model, 10));
        char *behind = model->arena.base + (model->arena.end + (size_t)at) * PW_PAGE;
        char *theirs = mmap(behind, PW_PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        assert_ptr_equal(theirs, behind);
        *theirs = 7;
        for (int i = 0; i < 20; i++) {
            struct pw_extent *extent = use(model, PW_ARENA_STEP_PAGES / 2);
            assert_non_null(extent);
            char *start = pw_extent_address(&model->arena, extent);
            assert_true(theirs < start || theirs >= start + (size_t)extent->pages * PW_PAGE);
            memset(start, 1, 2 * PW_PAGE);
        }
        assert_int_equal(*theirs, 7);
        model_delete(model);
        munmap(theirs, PW_PAGE);
    }
}

static void neighbours_become_one(void **state) {
    (void)state;
    struct model *model = model_new(1);
    struct pw_extent *blocks[5];
    for (int i = 0; i < 5; i++) {
        blocks[i] = use(model, 10);
    }
    release_warm(model, blocks[0]);
    release_warm(model, blocks[2]);
    release_warm(model, blocks[1]); // joins both
    struct pw_extent *joined = pw_arena_take_warm(&model->arena, 30);
    assert_non_null(joined);
    assert_int_equal(joined->warm_pages, 30);
    assert_null(pw_arena_take_warm(&model->arena, 1));
    model_delete(model);
}

static void the_newest_of_the_tightest_is_taken(void **state) {
    (void)state;
    struct model *model = model_new(1);
    struct pw_extent *blocks[6];
    uint32_t sizes[6] = {30, 2, 20, 2, 20, 2}; // the small ones keep the others apart
    for (int i = 0; i < 6; i++) {
        blocks[i] = use(model, sizes[i]);
    }
    uint32_t newest = blocks[4]->page;
    release_warm(model, blocks[2]);
    release_warm(model, blocks[4]);
    release_warm(model, blocks[0]);
    struct pw_extent *taken = pw_arena_take_warm(&model->arena, 20);
    assert_int_equal(taken->page, newest);
    model_delete(model);
}

static void idle_pages_decay_and_fresh_ones_stay(void **state) {
    (void)state;
    struct model *model = model_new(1);
    struct pw_extent *old = use(model, 100), *between = use(model, 2), *recent = use(model, 200);
    (void)between;
    release_warm(model, old);
    release_warm(model, recent);
    uint32_t now = pw_arena_clock();
    pw_extent_at(&model->arena, pw_extent_number(&model->arena, old))->stamp = now - 40;
    assert_int_equal(pw_arena_decay(&model->arena, now - 41, UINT64_MAX), 0);
    assert_int_equal(pw_arena_decay(&model->arena, now - 20, UINT64_MAX), 100);
    assert_int_equal(model->arena.warm_pages, 200);
    assert_int_equal(PW_READ(&model->stats, decayed_bytes), 100 * PW_PAGE);
    assert_int_equal(pw_arena_decay(&model->arena, now + 10, UINT64_MAX), 200);
    struct pw_extent *again = use(model, 100);
    check_marks(model, again);
    check_tiling(model);
    model_delete(model);
}

// Between two batches the program goes on.
static void idle_pages_go_in_batches(void **state) {
    (void)state;
    struct model *model = model_new(1);
    struct pw_extent *blocks[20];
    for (int i = 0; i < 20; i++) {
        blocks[i] = use(model, 50);
        use(model, 2);
    }
    for (int i = 0; i < 20; i++) {
        release_warm(model, blocks[i]);
    }
    uint32_t later = pw_arena_clock() + 10;
    assert_int_equal(pw_arena_decay(&model->arena, later, 120), 150);
    assert_int_equal(model->arena.warm_pages, 850);
    check_tiling(model);
    assert_int_equal(pw_arena_decay(&model->arena, later, 10000), 850);
    check_tiling(model);
    model_delete(model);
}

static struct pw_extent *reuse(struct model *model, uint32_t pages) {
    struct pw_extent *extent = pw_arena_take_warm(&model->arena, pages);
    assert_non_null(extent);
    pw_arena_use(&model->arena, extent);
    model->arena.live_pages += pages;
    mark(model, extent);
    return extent;
}

// As much goes as was never needed since the last trim, and nothing within a quarter of a second.
static void warm_pages_that_a_cycle_did_not_need_go(void **state) {
    (void)state;
    struct model *model = model_new(1);
    struct pw_arena *arena = &model->arena;
    struct pw_extent *one = use(model, 4000), *between = use(model, 2), *other = use(model, 6000);
    (void)between;
    release_warm(model, one);
    release_warm(model, other);
    assert_int_equal(trim_surplus(arena), 0); // they were freed in this cycle
    assert_int_equal(arena->warm_pages, 10000);
    struct pw_extent *used = reuse(model, 4000);
    release_warm(model, used);
    assert_int_equal(trim_surplus(arena), 0); // too early
    arena->trimmed_at -= 2;
    assert_int_equal(trim_surplus(arena), 6000);
    assert_int_equal(arena->warm_pages, 4000);
    assert_int_equal(PW_READ(&model->stats, decayed_bytes), 6000 * PW_PAGE);
    used = reuse(model, 4000);
    arena->trimmed_at -= 2;
    assert_int_equal(trim_surplus(arena), 0); // all of them were needed
    check_marks(model, used);
    check_tiling(model);
    model_delete(model);
}

static void what_decayed_is_no_surplus_of_the_next_cycle(void **state) {
    (void)state;
    struct model *model = model_new(1);
    struct pw_arena *arena = &model->arena;
    struct pw_extent *one = use(model, 4000), *between = use(model, 2), *other = use(model, 3000);
    (void)between;
    release_warm(model, one);
    arena->trimmed_at -= 2;
    trim_surplus(arena);
    one = arena->warm_pages ? reuse(model, 4000) : use(model, 4000);
    release_warm(model, one);
    arena->trimmed_at -= 2;
    trim_surplus(arena); // all of it was needed, and is there
    arena->warm_low = arena->warm_pages;
    pw_arena_decay(arena, pw_arena_clock() + 10, UINT64_MAX);
    release_warm(model, other); // the collection that now ends frees these
    arena->trimmed_at -= 2;
    assert_int_equal(trim_surplus(arena), 0);
    assert_int_equal(arena->warm_pages, 3000);
    check_tiling(model);
    model_delete(model);
}

static void the_memory_rule_purges_before_it_grows(void **state) {
    (void)state;
    struct model *model = model_new(1);
    struct pw_arena *arena = &model->arena;
    struct pw_extent *blocks[20];
    for (int i = 0; i < 20; i++) {
        keep_rule(arena, 1000);
        blocks[i] = use(model, 1000);
    }
    pw_arena_note_resident(arena, pw_os_resident_pages());
    assert_int_equal(arena->highest_pages, 20000);
    for (int i = 0; i < 20; i += 2) {
        release_warm(model, blocks[i]);
    }
    keep_rule(arena, 0);
    assert_int_equal(arena->warm_pages, 10000); // still within what was live before
    keep_rule(arena, 5000);
    assert_true(10000 + 5000 + arena->warm_pages <= allowed_pages(arena));
    assert_true(arena->warm_pages >= 4000); // and no more than needed, but for whole extents
    assert_int_equal(arena->highest_pages, 20000);
    check_tiling(model);
    arena->foreign_pages = 10000; // what the C library grew counts as well
    keep_rule(arena, 0);
    assert_true(10000 + 10000 + arena->warm_pages <= allowed_pages(arena));
    assert_true(PW_READ(&model->stats, purges) >= 2);
    check_tiling(model);
    model_delete(model);
}

static void a_purge_of_a_part_keeps_the_rest(void **state) {
    (void)state;
    struct model *model = model_new(1);
    struct pw_extent *large = use(model, 8000);
    release_warm(model, large);
    uint64_t purged = pw_arena_purge(&model->arena, 1000);
    assert_true(purged >= 1000 && purged < 1000 + 1024);
    assert_int_equal(model->arena.warm_pages, 8000 - purged);
    check_tiling(model);
    model_delete(model);
}

// The program may have mapped something where the arena wants to grow.
static void foreign_mappings_are_stepped_over(void **state) {
    (void)state;
    struct model *model = model_new(1);
    char *step = model->arena.base + (size_t)PW_ARENA_STEP_PAGES * PW_PAGE;
    char *theirs = mmap(step, PW_PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(theirs, step);
    *theirs = 42;
    for (int i = 0; i < 3; i++) {
        struct pw_extent *extent = use(model, PW_ARENA_STEP_PAGES - PW_ARENA_STEP_PAGES / 40);
        check_disjoint(model, extent);
        model->live[model->count++] = (struct live){extent, extent->page, extent->pages};
        check_registry(model, &model->live[model->count - 1]);
        char *start = page_at(&model->arena, extent, 0);
        assert_true(theirs < start || theirs >= start + (size_t)extent->pages * PW_PAGE);
    }
    assert_int_equal(*theirs, 42);
    assert_true(pw_arena_is_foreign(&model->arena, theirs));
    assert_false(pw_arena_is_foreign(&model->arena, model->arena.base));
    assert_null(pw_arena_find(&model->arena, theirs));
    model_delete(model);
}

static void failures_leave_the_arena_whole(void **state) {
    (void)state;
    static const struct {
        enum pw_os_point point;
        int error; // -1: a part of it was done
        unsigned period;
    } plans[] = {{PW_POINT_MAP_NEW, ENOMEM, 3}, {PW_POINT_MAP_TABLE, ENOMEM, 3},
                 {PW_POINT_MOVE, ENOMEM, 3},    {PW_POINT_MAP_BLANK, ENOMEM, 3},
                 {PW_POINT_MAP_BLANK, -1, 3},   {PW_POINT_MAP_BLANK, -1, 1},
                 {PW_POINT_DISCARD, ENOMEM, 3}};
    for (unsigned i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct model *model = model_new(i + 100);
        pw_os_fault_plan(plans[i].point, plans[i].error, plans[i].period, plans[i].period);
        for (int step = 0; step < 1000; step++) {
            uint32_t pages = 2 + (uint32_t)random_below(&model->random, 300);
            struct pw_extent *extent = model->count < 100 ? take(model, pages) : NULL;
            if (extent) {
                check_disjoint(model, extent);
                pw_arena_use(&model->arena, extent);
                model->arena.live_pages += extent->pages;
                check_cold_is_zero(model, extent);
                mark(model, extent);
                model->live[model->count++] = (struct live){extent, extent->page, extent->pages};
                keep_rule(&model->arena, 0);
            } else if (model->count) {
                struct live live = model->live[--model->count];
                check_marks(model, live.extent);
                release_warm(model, live.extent);
            }
        }
        pw_os_fault_clear();
        check_tiling(model);
        model_delete(model);
    }
}

// The kernel has moved some of a block's mappings and refuses the next: every byte is where it was.
static void a_move_that_stops_half_way_loses_no_byte(void **state) {
    (void)state;
    struct model *model = model_new(7);
    struct pw_extent *from = take(model, 64), *to = pw_arena_take_cold(&model->arena, 64, 0);
    assert_true(from && to);
    char *bytes = pw_extent_address(&model->arena, from), *copy = malloc(64 * PW_PAGE);
    random_fill(&model->random, copy, 64 * PW_PAGE);
    memset(copy + 5 * PW_PAGE, 0, PW_PAGE);
    memcpy(bytes, copy, 64 * PW_PAGE);
    pw_os_fault_plan(PW_POINT_MOVE, -1, 1, 0);
    assert_false(
        pw_arena_move(&model->arena, bytes, 64 * PW_PAGE, pw_extent_address(&model->arena, to)));
    pw_os_fault_clear();
    assert_memory_equal(bytes, copy, 64 * PW_PAGE);
    free(copy);
    arena_end(&model->arena);
    munmap(model, sizeof *model);
}

// --- mappings ----------------------------------------------------------------

static unsigned mappings_of_this_process(void) {
    unsigned lines = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    for (int character; (character = getc(file)) != EOF;) {
        lines += character == '\n';
    }
    fclose(file);
    return lines;
}

static void a_reserve_of_mappings_is_held_and_given_up(void **state) {
    (void)state;
    struct model *model = model_new(1);
    struct pw_mappings *mappings = &model->arena.mappings;
    unsigned before = mappings_of_this_process();
    assert_true(pw_mappings_may_rise(&model->arena));
    unsigned held = mappings_of_this_process();
    assert_in_range(held - before, PW_MAPPINGS_RESERVE, PW_MAPPINGS_RESERVE + 2);
    // What failed did not fail for want of mappings.
    assert_false(pw_mappings_relieve(&model->arena));
    assert_int_equal(mappings_of_this_process(), held);
    pw_os_fault_plan(PW_POINT_RESERVE, ENOMEM, 1, 1); // as if there were none
    assert_true(pw_mappings_relieve(&model->arena));
    assert_true(mappings_of_this_process() <= before + 2);
    assert_false(pw_mappings_relieve(&model->arena)); // nothing is left to give up
    assert_false(pw_mappings_may_rise(&model->arena));
    // A second later, and mappings are still short; then there are some again.
    mappings->retry_ms = 0;
    assert_false(pw_mappings_may_rise(&model->arena));
    pw_os_fault_clear();
    assert_false(pw_mappings_may_rise(&model->arena));
    mappings->retry_ms = 0;
    assert_true(pw_mappings_may_rise(&model->arena));
    assert_int_equal(mappings_of_this_process(), held);
    assert_int_equal(PW_READ(&model->stats, fallback_map_count), 4);
    model_delete(model);
}

// Half of what is asked for on a second try is not enough, and is not kept.
static void a_reserve_that_cannot_be_had_leaves_no_mappings(void **state) {
    (void)state;
    struct model *model = model_new(1);
    unsigned before = mappings_of_this_process();
    pw_os_fault_plan(PW_POINT_RESERVE, ENOMEM, 20, 0);
    assert_false(pw_mappings_may_rise(&model->arena));
    assert_true(mappings_of_this_process() <= before + 2);
    model->arena.mappings.retry_ms = 0;
    pw_os_fault_plan(PW_POINT_RESERVE, ENOMEM, PW_MAPPINGS_RESERVE / 2 + 5, 0);
    assert_false(pw_mappings_may_rise(&model->arena));
    assert_true(mappings_of_this_process() <= before + 2);
    pw_os_fault_clear();
    model_delete(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_steps_match_the_model),
        cmocka_unit_test(a_neighbour_in_the_way_is_passed_by),
        cmocka_unit_test(neighbours_become_one),
        cmocka_unit_test(the_newest_of_the_tightest_is_taken),
        cmocka_unit_test(idle_pages_decay_and_fresh_ones_stay),
        cmocka_unit_test(idle_pages_go_in_batches),
        cmocka_unit_test(what_decayed_is_no_surplus_of_the_next_cycle),
        cmocka_unit_test(warm_pages_that_a_cycle_did_not_need_go),
        cmocka_unit_test(the_memory_rule_purges_before_it_grows),
        cmocka_unit_test(a_purge_of_a_part_keeps_the_rest),
        cmocka_unit_test(foreign_mappings_are_stepped_over),
        cmocka_unit_test(failures_leave_the_arena_whole),
        cmocka_unit_test(a_move_that_stops_half_way_loses_no_byte),
        cmocka_unit_test(a_reserve_of_mappings_is_held_and_given_up),
        cmocka_unit_test(a_reserve_that_cannot_be_had_leaves_no_mappings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
