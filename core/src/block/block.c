// SPDX-License-Identifier: MIT
//
// Blocks: what malloc returns for large sizes. A block is an extent whose first page begins with
// the C library's own header of a mapped chunk, so that a free or realloc that reaches the C
// library without us still does the right thing (it unmaps the pages).

#include "block/block.h"
#include "block/fate.h"
#include "block/keeper.h"
#include "process/c_library.h"
#include "process/lock.h"
#include "process/quiet.h"
#include "process/state.h"
#include "runtime/collection.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_HEADER    (2 * sizeof(size_t))
#define CHUNK_IS_MAPPED ((size_t)2)
#define LARGEST_PAGES   (PW_ARENA_STEPS * (PW_ARENA_STEP_PAGES - 1u))

// --- header ------------------------------------------------------------------

// Where every block of the program is ours, none can be released without us: no header is needed.
static uint32_t data_offset_for(struct pw_process *process, size_t alignment) {
    if (process->gate->general) {
        return 0;
    }
    if (alignment <= CHUNK_HEADER) {
        return CHUNK_HEADER;
    }
    // The C library requires the offset within a page to be a power of two, or zero.
    return (uint32_t)(alignment < PW_PAGE ? alignment : PW_PAGE);
}

static char *data_of(struct pw_process *process, const struct pw_extent *extent) {
    return pw_extent_address(&process->arena, extent) + extent->data_offset;
}

static bool has_header(const struct pw_extent *extent) {
    return extent->data_offset != 0;
}

// What of an extent is not the program's: the header before the block, and behind it what the C
// library does not copy where it has to move a block whose header it does not count (realloc of
// 2.43, after a mremap that failed).
static size_t around(const struct pw_process *process, uint32_t data_offset) {
    return data_offset ? data_offset + process->uncounted_header : 0;
}

// How many bytes from the extent's start on are the block's, as the C library left it: see
// pw_block_repair.
static size_t held_by(struct pw_process *process, const struct pw_extent *extent) {
    size_t all = (size_t)extent->pages * PW_PAGE;
    const char *end = pw_extent_address(&process->arena, extent) + all;
    if (!has_header(extent) || extent->watched_by_file) {
        return all;
    }
    const size_t *place = (const size_t *)(data_of(process, extent) - CHUNK_HEADER) + 1;
    size_t word = all;
    if (extent->altered != PW_ALTERED_HEADER) {
        word = *place;
    } else if (process->sealed || !pw_os_peek(place, &word, sizeof word)) { // may not be readable
        return all;
    }
    size_t held =
        (word & ~(size_t)7) + extent->data_offset - CHUNK_HEADER + process->uncounted_header;
    if (held == 0 || held % PW_PAGE != 0) {
        return all;
    }
    return held <= all || pw_os_is_mapped(end, held - all) ? held : all;
}

static size_t capacity_of(struct pw_process *process, const struct pw_extent *extent) {
    return held_by(process, extent) - around(process, extent->data_offset);
}

static void write_header(struct pw_process *process, const struct pw_extent *extent) {
    if (!has_header(extent)) {
        return;
    }
    size_t *chunk = (size_t *)(data_of(process, extent) - CHUNK_HEADER);
    size_t lead = extent->data_offset - CHUNK_HEADER;
    chunk[0] = lead;
    chunk[1] =
        ((size_t)extent->pages * PW_PAGE - lead - process->uncounted_header) | CHUNK_IS_MAPPED;
}

// Modules that are not hooked release and resize our blocks through the C library, which unmaps
// pages (and so a released block stays in the table, without memory), or moves them away, or
// changes the header where a block shrinks or grows in place. One that shrank lost its tail, which
// is made memory again before anything else is done with it. One that grew has pages behind its
// extent, in what another one left or behind the arena: it keeps them until it is freed.
void pw_block_repair(struct pw_process *process, struct pw_extent *extent) {
    size_t held = held_by(process, extent), all = (size_t)extent->pages * PW_PAGE;
    char *start = pw_extent_address(&process->arena, extent);
    if (held == all) {
        return;
    }
    extent->user_size = held - around(process, extent->data_offset);
    if (held > all || extent->altered == PW_ALTERED_HEADER || // which may not be writable
        !pw_arena_mend(&process->arena, start + held, all - held)) {
        extent->fixed = true; // it ends there for good: nobody else gets these pages
        extent->may_share = false;
        return;
    }
    write_header(process, extent);
    extent->sparse = true;
}

// What the C library gave a block that grew.
static void leave_pages_behind(struct pw_process *process, const struct pw_extent *extent) {
    size_t held = held_by(process, extent), all = (size_t)extent->pages * PW_PAGE;
    if (held > all) {
        pw_os_unmap(pw_extent_address(&process->arena, extent) + all, held - all);
    }
}

// The block that starts at `data`; anything else that points into the arena is the program's error.
static struct pw_extent *block_at(struct pw_process *process, const void *data) {
    struct pw_extent *extent = pw_arena_find(&process->arena, data);
    return extent && data_of(process, extent) == (const char *)data ? extent : NULL;
}

void pw_block_reject(const char *function) {
    pw_os_warn(function, ": the address is not that of a live block (freed twice, or never "
                         "allocated); the program is stopped as the C library would");
    abort();
}

// --- blocks to release later ---------------------------------------------------

// In the middle of our own work, or while a fork waits for this thread, a block cannot be released.
// The next one who can does it. A block in use is in no list of the pool, so that any number of
// them make a list by the same field; it is read without the lock, as what is known of them stays.
// False: the block is none of ours.
static bool put_off(struct pw_process *process, void *block) {
    struct pw_arena *arena = &process->arena;
    if (__atomic_load_n(&process->orphaned, __ATOMIC_RELAXED)) {
        return true; // better a leak than a broken table
    }
    struct pw_extent *extent = block_at(process, block);
    if (!extent && pw_arena_is_foreign(arena, block)) {
        return false;
    }
    if (!extent || __atomic_exchange_n(&extent->put_off, true, __ATOMIC_RELAXED)) {
        pw_block_reject("free");
    }
    if (process->gate->general) {
        pw_shelf_forget(&process->general, pw_extent_address(arena, extent));
    }
    uint32_t number = pw_extent_number(arena, extent);
    extent->next = __atomic_load_n(&process->put_off, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&process->put_off, &extent->next, number, true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
    PW_COUNT(&process->stats, fallback_fork, 1);
    return true;
}

static void release_block(struct pw_process *process, struct pw_extent *extent);

static void release_put_off(struct pw_process *process) {
    if (!__atomic_load_n(&process->put_off, __ATOMIC_RELAXED)) {
        return;
    }
    uint32_t number = __atomic_exchange_n(&process->put_off, 0, __ATOMIC_ACQUIRE);
    while (number) {
        struct pw_extent *extent = pw_extent_at(&process->arena, number);
        number = extent->next;
        __atomic_store_n(&extent->put_off, false, __ATOMIC_RELAXED);
        release_block(process, extent);
    }
}

static bool is_put_off(const struct pw_extent *extent) {
    return __atomic_load_n(&extent->put_off, __ATOMIC_RELAXED);
}

// Under the lock: the block, unless it was released and waits.
static struct pw_extent *live_at(struct pw_process *process, const void *block) {
    struct pw_extent *extent = block_at(process, block);
    return extent && !is_put_off(extent) ? extent : NULL;
}

// --- allocation --------------------------------------------------------------

struct need {
    uint32_t pages;
    bool zeroed;
    bool filled; // will be written from end to end, soon
    bool lazy;   // its pages are to be made when they are written
    struct pw_resident *resident;
};

static bool wants_huge(struct pw_process *process, struct need need) {
    return pw_huge_wanted(&process->huge, need.pages) && (!need.zeroed || process->huge.always);
}

// Large pages by mere advice must be worth their price. Who wishes for them (`always`), for pages
// of the pool, or for locked ones gets what was asked for.
static void back_with_large_pages(struct pw_process *process, struct pw_extent *extent,
                                  bool filled) {
    struct pw_huge_price *price = &process->huge_price;
    const struct pw_huge *huge = &process->huge;
    bool wished = huge->always || huge->hugetlb || huge->lock || huge->ordinary;
    enum pw_huge_answer answer =
        wished ? PW_HUGE_ADVISE : pw_huge_decide(price, extent->pages, filled);
    while (answer == PW_HUGE_TRY) {
        uint64_t cost = pw_huge_touch_next(&process->arena, extent);
        answer = pw_huge_report(price, cost, filled);
    }
    if (answer == PW_HUGE_ADVISE) {
        pw_huge_back(&process->huge, &process->arena, extent);
    }
}

// Each piece that is moved stays a mapping of its own. Of a smaller block that costs more than to
// have its pages made anew, where a program has many such blocks.
#define LEAST_GATHERED (((size_t)4 << 20) / PW_PAGE)

static bool may_gather(const struct pw_process *process, uint32_t pages) {
    return process->arena.warm_pages >= pages &&
           (!process->gate->general || pages > LEAST_GATHERED);
}

static struct pw_extent *take_fresh(struct pw_process *process, struct need need) {
    struct pw_arena *arena = &process->arena;
    uint32_t pages = need.pages;
    bool huge = wants_huge(process, need) && pw_mappings_may_rise(arena);
    bool pool = process->options.pool && !(huge && process->huge.always) && !need.lazy;
    struct pw_extent *extent = NULL;
    if (pool && (!huge || arena->warm_pages >= pages / 2)) {
        extent = pw_arena_take_mixed(arena, pages);
        if (extent) {
            PW_COUNT(&process->stats, allocated_mixed, 1);
        }
    }
    if (!extent) {
        extent = pw_arena_take_cold(arena, pages, huge ? pw_huge_unit(&process->huge, pages) : 0);
        if (!extent) {
            return NULL;
        }
        if (pool && may_gather(process, pages) && !pw_arena_gather(arena, extent)) {
            return NULL;
        }
        PW_COUNT(&process->stats, allocated_fresh, 1);
    }
    // Before large pages are touched.
    uint64_t warm = extent->warm_pages;
    pw_arena_keep_rule(arena, warm, extent->pages - warm, need.resident);
    if (huge && extent->warm_pages == 0) {
        back_with_large_pages(process, extent, need.filled);
    }
    if (pw_arena_has_hole(arena, extent)) {
        pw_arena_release(arena, extent, PW_EXTENT_LOST);
        return NULL;
    }
    return extent;
}

static struct pw_extent *take(struct pw_process *process, struct need need) {
    if (process->options.pool && !need.lazy) {
        struct pw_extent *extent = pw_arena_take_warm(&process->arena, need.pages);
        if (extent && !pw_huge_suits(&process->huge, extent)) {
            pw_arena_release(&process->arena, extent, PW_EXTENT_WARM);
            extent = NULL;
        }
        if (extent) {
            if (process->huge.always && wants_huge(process, need)) {
                pw_huge_back(&process->huge, &process->arena, extent); // counts it
            }
            PW_COUNT(&process->stats, allocated_warm, 1);
            return extent;
        }
    }
    return take_fresh(process, need);
}

PW_UNLOCKED static bool is_beyond_limit(const struct pw_process *process, uint64_t pages) {
    uint64_t limit = process->options.limit;
    return limit > 0 && process->gate->general &&
           process->arena.live_pages + pages > limit / PW_PAGE;
}

bool pw_block_is_refused(const struct pw_process *process, size_t size) {
    bool refused = is_beyond_limit(process, size / PW_PAGE + (size % PW_PAGE > 0));
    if (refused) {
        errno = ENOMEM;
    }
    return refused;
}

void pw_block_count_live(struct pw_process *process, int64_t pages) {
    process->arena.live_pages += (uint64_t)pages;
    uint64_t bytes = process->arena.live_pages * PW_PAGE;
    PW_GAUGE(&process->stats, live_bytes, bytes);
    PW_PEAK(&process->stats, peak_live_bytes, bytes);
}

static void reset(struct pw_process *process, struct pw_extent *extent, size_t size,
                  uint32_t data_offset, bool may_share) {
    extent->fixed |= process->locks_all;
    extent->may_share = may_share && !extent->fixed;
    extent->untouched = extent->warm_pages < extent->pages && !extent->hugetlb;
    extent->lazy = extent->sparse = false;
    extent->zero_backoff = 0;
    extent->zero_given = 0;
    extent->zero_young = true;
    struct pw_zero_plan plan = pw_zero_plan(&process->zero_learner, extent->pages);
    extent->zero_at_peak = plan.at_peak;
    extent->zero_wait = plan.wait;
    extent->zero_due = process->share.collections + plan.first_wait;
    extent->judged = false;
    extent->copied = false;
    extent->watched = false;
    extent->born = 0;
    extent->data_offset = data_offset;
    extent->user_size = size;
}

// Only without headers: a block at a multiple of more than a page.
static struct pw_extent *take_aligned(struct pw_process *process, struct need need,
                                      size_t alignment) {
    size_t unit = alignment >> PW_PAGE_SHIFT;
    struct pw_extent *extent = NULL;
    if (process->gate->general && unit <= PW_ARENA_STEP_PAGES) {
        extent = pw_arena_take_aligned(&process->arena, need.pages, (uint32_t)unit);
    }
    if (extent) {
        PW_COUNT(&process->stats, allocated_warm, extent->warm_pages > 0);
        PW_COUNT(&process->stats, allocated_fresh, extent->warm_pages == 0);
        uint64_t warm = extent->warm_pages;
        pw_arena_keep_rule(&process->arena, warm, extent->pages - warm, need.resident);
    }
    return extent;
}

// R's allocator of vectors asks for what R then fills.
static bool is_filled(struct pw_process *process, enum pw_module module, bool zeroed) {
    return module == PW_MODULE_RUNTIME && process->serves_r && !zeroed;
}

// NumPy's zeros() takes no memory until somebody writes to it, and often comes before the array
// whose name it takes has gone. With warm pages both would be there at once.
static bool is_lazy(struct pw_process *process, bool zeroed) {
    return zeroed && process->serves_python && !process->gate->general;
}

// The arena's pages come without a promise. A block that the C library would not get must not be
// had from there either: R's "cannot allocate vector" is better than to be killed.
static bool is_promised(const struct pw_process *process, size_t pages) {
    return pages < PW_ARENA_STEP_PAGES || process->sealed || pw_os_would_promise(pages * PW_PAGE);
}

// What the C library maps it serves as well by itself.
static bool is_for_c_library(struct pw_process *process, size_t size) {
    return process->arena.sealed && size > pw_c_largest_unmapped(process->largest_freed);
}

static struct pw_extent *allocate(struct pw_process *process, size_t size, size_t alignment,
                                  bool zeroed, enum pw_module module,
                                  struct pw_resident *resident) {
    uint32_t offset = data_offset_for(process, alignment);
    size_t all = size + around(process, offset), pages = all > 0 ? pw_pages_for(all) : 1;
    if (size > PTRDIFF_MAX - PW_PAGE || pages > LARGEST_PAGES || is_for_c_library(process, size) ||
        !is_promised(process, pages) || is_beyond_limit(process, pages)) {
        return NULL;
    }
    struct need need = {(uint32_t)pages, zeroed, is_filled(process, module, zeroed),
                        is_lazy(process, zeroed), resident};
    struct pw_extent *extent =
        alignment > PW_PAGE ? take_aligned(process, need, alignment) : take(process, need);
    if (!extent) {
        PW_COUNT(&process->stats, fallback_arena, 1);
        return NULL;
    }
    pw_arena_use(&process->arena, extent);
    reset(process, extent, size, offset, module != PW_MODULE_OTHER);
    extent->lazy = need.lazy;
    pw_block_count_live(process, extent->pages);
    write_header(process, extent);
    PW_COUNT(&process->stats, blocks_allocated, 1);
    return extent;
}

// Cold pages read zero; warm ones must be cleaned by hand. How many bytes of the block is that?
static size_t stale_bytes(const struct pw_extent *extent, size_t size) {
    size_t warm = (size_t)extent->warm_pages * PW_PAGE;
    size_t stale = warm > extent->data_offset ? warm - extent->data_offset : 0;
    return stale < size ? stale : size;
}

// `refused`: a collection is to come first.
static void *serve(struct pw_process *process, struct pw_request request, size_t alignment,
                   bool zeroed, bool *refused) {
    struct pw_caller caller = pw_collection_who_asks(process, request);
    if (!pw_process_enter()) {
        return NULL;
    }
    release_put_off(process);
    struct pw_resident resident = {0};
    *refused =
        !process->arena.sealed && !pw_collection_before_block(process, request, &caller, &resident);
    if (*refused) {
        pw_process_leave();
        return NULL;
    }
    enum pw_module module = process->gate->general ? PW_MODULE_EXTENSION : caller.module;
    struct pw_extent *extent =
        allocate(process, request.size, alignment, zeroed, module, &resident);
    char *data = extent ? data_of(process, extent) : NULL;
    size_t stale = extent && zeroed ? stale_bytes(extent, request.size) : 0;
    pw_process_leave();
    if (stale) {
        pw_os_fill_zero(data, stale);
    }
    return data;
}

void *pw_block_allocate(struct pw_process *process, size_t size, size_t alignment, bool zeroed,
                        const void *site) {
    bool refused = false;
    return serve(process, (struct pw_request){size, site, false}, alignment, zeroed, &refused);
}

void *pw_block_malloc(struct pw_process *process, size_t size, const void *site, bool *refused) {
    *refused = false;
    return serve(process, (struct pw_request){size, site, true}, 1, false, refused);
}

// --- release -----------------------------------------------------------------

static bool may_be_warm(struct pw_process *process, const struct pw_extent *extent) {
    return process->options.pool && !extent->fixed && !extent->lazy && !pw_extent_is_shared(extent);
}

// How many of a block's pages are not there, by the page map: read once, where anybody asks. A
// block on a snapshot does not tell.
static bool count_absent(struct pw_process *process, const struct pw_extent *extent,
                         uint64_t *absent) {
    uint64_t there = 0;
    bool asked = extent->zero_given || (extent->sparse && may_be_warm(process, extent));
    bool known = asked && !extent->snapshot &&
                 pw_share_count_private(&process->share, extent, 0, extent->pages, &there);
    *absent = known ? extent->pages - there : 0;
    return known;
}

// Tell the policy what became of pages that were given back.
static void report_zero_pages(struct pw_process *process, const struct pw_extent *extent,
                              bool known, uint64_t absent) {
    struct pw_zero_learner *learner = &process->zero_learner;
    if (!extent->zero_given && !extent->zero_young) {
        pw_zero_report_nothing(learner, extent->pages);
    }
    if (extent->zero_given && known) {
        pw_zero_report(learner, extent->pages, extent->zero_given,
                       process->share.collections - extent->zero_given_at, absent);
    }
}

static enum pw_extent_state release_state(struct pw_process *process, struct pw_extent *extent) {
    uint64_t absent = 0;
    pw_fate_ends(process, extent);
    bool known = count_absent(process, extent, &absent);
    report_zero_pages(process, extent, known, absent);
    if (pw_extent_is_shared(extent)) {
        return pw_share_drop_block(&process->share, extent) ? PW_EXTENT_COLD : PW_EXTENT_LOST;
    }
    // Most of a block that was filled lazily may never have been backed: such pages are not warm.
    bool is_mostly_absent = extent->sparse && absent * 2 > extent->pages;
    if (may_be_warm(process, extent) && !is_mostly_absent) {
        return PW_EXTENT_WARM;
    }
    struct pw_arena *arena = &process->arena;
    char *address = pw_extent_address(arena, extent);
    size_t size = (size_t)extent->pages * PW_PAGE;
    bool blank = pw_arena_blank(arena, address, size);
    // What is fixed may be pages of a pool, or of a snapshot's mapping: not for another block.
    if (!blank && extent->fixed) {
        pw_arena_abandon(address, size);
        return PW_EXTENT_LOST;
    }
    return blank ? PW_EXTENT_COLD : PW_EXTENT_WARM;
}

// Without a system call, but for the one by which the C library gives a mapped block back.
static void release_sealed(struct pw_process *process, struct pw_extent *extent) {
    struct pw_arena *arena = &process->arena;
    size_t size = (size_t)extent->pages * PW_PAGE;
    bool unmapped = size > pw_c_largest_unmapped(process->largest_freed) &&
                    pw_os_unmap(pw_extent_address(arena, extent), size);
    bool reusable = !unmapped && !pw_extent_is_shared(extent) && !extent->fixed;
    pw_huge_forget(arena, extent);
    if (unmapped) {
        pw_share_forget(&process->share, extent);
        pw_arena_disown(arena, extent);
    } else {
        pw_arena_release(arena, extent, reusable ? PW_EXTENT_WARM : PW_EXTENT_LOST);
    }
}

// The C library maps no blocks of sizes that it has once unmapped.
static void note_size(struct pw_process *process, size_t size) {
    if (size > process->largest_freed && size <= PW_C_ALWAYS_MAPPED) {
        process->largest_freed = size;
    }
}

// What the next block there is not to inherit.
static void make_ordinary(struct pw_extent *extent) {
    extent->fixed = extent->of_file = extent->watched_by_file = false;
    extent->altered = PW_NOT_ALTERED;
}

static void release(struct pw_process *process, struct pw_extent *extent) {
    if (process->gate->general) {
        pw_shelf_forget(&process->general, pw_extent_address(&process->arena, extent));
    }
    pw_block_count_live(process, -(int64_t)extent->pages);
    PW_COUNT(&process->stats, blocks_freed, 1);
    if (process->arena.sealed) {
        release_sealed(process, extent);
        return;
    }
    note_size(process, (size_t)extent->pages * PW_PAGE);
    leave_pages_behind(process, extent);
    pw_huge_forget(&process->arena, extent);
    enum pw_extent_state state = release_state(process, extent);
    make_ordinary(extent);
    pw_arena_release(&process->arena, extent, state);
}

static void release_block(struct pw_process *process, struct pw_extent *extent) {
    pw_block_repair(process, extent);
    release(process, extent);
    pw_collection_block_freed(process);
}

// A thread that reads from a userfaultfd is told that pages go, is waited for, and may allocate
// before it answers: they go without the lock. The block is still its owner's. False: the lock is
// not to be had any more.
static bool end_watch(struct pw_process *process, struct pw_extent *extent) {
    char *address = pw_extent_address(&process->arena, extent);
    pw_process_leave();
    bool blank = pw_os_map_blank(address, (size_t)extent->pages * PW_PAGE);
    if (!pw_process_enter()) {
        return false;
    }
    if (blank) {
        write_header(process, extent);
        extent->watched_by_file = false;
    }
    return true;
}

bool pw_block_free(struct pw_process *process, void *block, const void *site) {
    if (!pw_process_enter()) {
        return put_off(process, block);
    }
    release_put_off(process);
    struct pw_extent *extent = live_at(process, block); // else it may be released twice
    bool is_watched =
        extent && extent->watched_by_file && !pw_extent_is_shared(extent) && !process->arena.sealed;
    if (is_watched && !end_watch(process, extent)) {
        return put_off(process, block);
    }
    bool foreign = !extent && pw_arena_is_foreign(&process->arena, block);
    if (extent) {
        release_block(process, extent);
    }
    bool keeper_is_due = pw_keeper_is_due(process, site);
    pw_process_leave();
    if (!extent && !foreign) {
        pw_block_reject("free");
    }
    if (keeper_is_due) {
        pw_keeper_start(process);
    }
    return extent != NULL;
}

static void recover(void *context, struct pw_arena *arena, struct pw_extent *extent) {
    struct pw_process *process = context;
    char *start = pw_extent_address(arena, extent);
    if (is_put_off(extent) || pw_os_is_mapped(start, PW_PAGE)) {
        return;
    }
    extent->fixed = true; // not warm: blank, or what is left of a snapshot given up
    if (!pw_arena_blank(arena, start, (size_t)extent->pages * PW_PAGE)) {
        PW_COUNT(arena->stats, fallback_map, 1);
        return;
    }
    release(process, extent);
}

void pw_block_give_up(struct pw_process *process, struct pw_extent *extent) {
    pw_block_count_live(process, -(int64_t)extent->pages);
    PW_COUNT(&process->stats, blocks_freed, 1);
    pw_fate_ends(process, extent);
    pw_huge_forget(&process->arena, extent);
    pw_share_forget(&process->share, extent);
    pw_arena_release(&process->arena, extent, PW_EXTENT_LOST);
}

void pw_block_recover(struct pw_process *process) {
    if (process->arena.base && !process->arena.sealed && pw_process_enter()) {
        release_put_off(process);
        pw_arena_each(&process->arena, recover, process);
        pw_process_leave();
    }
}

void pw_block_reject_dead(struct pw_process *process, const void *block, const char *function) {
    if (!pw_process_enter()) {
        return;
    }
    bool dead =
        !pw_arena_is_foreign(&process->arena, block) && !pw_arena_find(&process->arena, block);
    pw_process_leave();
    if (dead) {
        pw_block_reject(function);
    }
}

// --- resizing ----------------------------------------------------------------

static bool is_header_writable(struct pw_process *process, const struct pw_extent *extent) {
    char *header = data_of(process, extent) - CHUNK_HEADER, bytes[CHUNK_HEADER];
    return pw_os_peek(header, bytes, sizeof bytes) && pw_os_poke(header, bytes, sizeof bytes);
}

// What the program did to a whole block (mlock, MADV_DONTFORK, guard pages, a protection) goes with
// its pages, as by the C library's realloc: where it is one mapping of memory that can be written,
// with its header.
static bool may_grow_altered(struct pw_process *process, struct pw_extent *extent) {
    char *address = pw_extent_address(&process->arena, extent);
    size_t size = (size_t)extent->pages * PW_PAGE;
    return !extent->hugetlb && !extent->locked && !extent->of_file && !extent->watched_by_file &&
           !process->sealed && held_by(process, extent) == size &&
           pw_os_is_one_mapping_of_own(address, size) &&
           (!has_header(extent) || is_header_writable(process, extent));
}

// May an unshared block get so many pages without a copy?
static bool may_grow(struct pw_process *process, struct pw_extent *extent, size_t size) {
    size_t more = around(process, extent->data_offset);
    size_t pages = size <= PTRDIFF_MAX - PW_PAGE ? pw_pages_for(size + more) : 0;
    return pages > extent->pages && pages <= LARGEST_PAGES && !pw_extent_is_shared(extent) &&
           is_promised(process, pages) && !is_beyond_limit(process, pages - extent->pages) &&
           (extent->altered ? may_grow_altered(process, extent) : !extent->fixed);
}

// Into free pages behind it: no byte is touched, and no page moves. Large pages are advised for
// whole blocks, so a block that is to have them is moved.
static struct pw_extent *grow_in_place(struct pw_process *process, struct pw_extent *extent,
                                       size_t size) {
    struct pw_arena *arena = &process->arena;
    uint32_t before = extent->pages;
    uint32_t all = (uint32_t)pw_pages_for(size + around(process, extent->data_offset));
    bool sparse = extent->sparse || extent->lazy;
    if (extent->altered || extent->huge_pages || pw_huge_wanted(&process->huge, all) ||
        !process->options.pool || !pw_arena_has_behind(arena, extent, all - before)) {
        return NULL;
    }
    pw_fate_ends(process, extent);
    uint32_t warm = pw_arena_extend(arena, extent, all - before);
    pw_arena_use(arena, extent);
    extent->warm_pages = before + warm;
    pw_arena_keep_rule(arena, warm, extent->pages - before - warm, &(struct pw_resident){0});
    if (process->gate->general) {
        pw_shelf_forget(&process->general, pw_extent_address(arena, extent));
    }
    reset(process, extent, size, extent->data_offset, extent->may_share);
    extent->sparse = sparse;
    write_header(process, extent);
    pw_block_count_live(process, (int64_t)extent->pages - before);
    return extent;
}

// Where a block was that has moved. With what was altered its mapping is gone, and somebody else
// may have mapped something there since.
static void release_place(struct pw_arena *arena, struct pw_extent *extent) {
    char *address = pw_extent_address(arena, extent);
    if (extent->altered && !pw_arena_map_again(arena, address, (size_t)extent->pages * PW_PAGE)) {
        pw_arena_disown(arena, extent);
        return;
    }
    if (extent->altered) {
        make_ordinary(extent);
    }
    pw_arena_release(arena, extent, PW_EXTENT_COLD);
}

// Move the pages of an unshared block instead of copying them: no byte is touched, and the peak
// never holds both.
static struct pw_extent *grow_by_moving(struct pw_process *process, struct pw_extent *extent,
                                        size_t size) {
    struct pw_arena *arena = &process->arena;
    size_t pages = pw_pages_for(size + around(process, extent->data_offset));
    if (!pw_arena_may_move(arena, extent->pages)) {
        return NULL;
    }
    struct pw_extent *larger = pw_arena_take_cold(arena, (uint32_t)pages, 0);
    if (!larger) {
        return NULL;
    }
    char *from = pw_extent_address(arena, extent), *to = pw_extent_address(arena, larger);
    size_t moved = (size_t)extent->pages * PW_PAGE;
    pw_arena_keep_rule(arena, 0, larger->pages - extent->pages, &(struct pw_resident){0});
    pw_fate_ends(process, extent);
    bool is_moved = extent->altered ? pw_arena_move_larger(arena, from, moved, to, pages * PW_PAGE)
                                    : pw_arena_move(arena, from, moved, to);
    if (!is_moved) {
        pw_arena_release(arena, larger, PW_EXTENT_COLD);
        return NULL;
    }
    pw_arena_count_moved(arena, larger, extent->moved + 1);
    pw_arena_use(arena, larger);
    larger->warm_pages = extent->pages;
    reset(process, larger, size, extent->data_offset, extent->may_share);
    if (extent->altered) {
        pw_extent_alter(larger, extent->altered == PW_ALTERED_HEADER);
    }
    write_header(process, larger);
    pw_block_count_live(process, (int64_t)larger->pages - extent->pages);
    pw_huge_forget(arena, extent);
    if (process->gate->general) {
        pw_shelf_forget(&process->general, from);
    }
    release_place(arena, extent);
    return larger;
}

static struct pw_extent *grow(struct pw_process *process, struct pw_extent *extent, size_t size,
                              bool may_move) {
    if (!may_grow(process, extent, size)) {
        return NULL;
    }
    struct pw_extent *grown = grow_in_place(process, extent, size);
    return grown || !may_move ? grown : grow_by_moving(process, extent, size);
}

// The block after resizing, where it can stay or move by pages; NULL: copy it to a new one.
static struct pw_extent *resize_pages(struct pw_process *process, struct pw_extent *extent,
                                      size_t size) {
    size_t capacity = capacity_of(process, extent);
    if (size > capacity) {
        return grow(process, extent, size, true);
    }
    // Pages that may not be readable are not copied to save memory.
    if (size >= capacity / 2 || extent->altered) {
        extent->user_size = size;
        return extent;
    }
    return NULL;
}

// Where the lock cannot be had: what is known of a block in use stays as it is, and can be read
// without. 0: it is none of ours.
static size_t capacity_without_lock(struct pw_process *process, const void *block) {
    const struct pw_extent *extent = block_at(process, block);
    if (!extent || !has_header(extent)) {
        return extent ? capacity_of(process, extent) : 0;
    }
    const size_t *chunk = (const size_t *)((const char *)block - CHUNK_HEADER);
    return (chunk[1] & ~(size_t)7) - CHUNK_HEADER;
}

static void *resize_without_lock(struct pw_process *process, void *block, size_t size,
                                 const void *site) {
    if (pw_arena_is_foreign(&process->arena, block)) {
        return pw_c_realloc(block, size);
    }
    size_t held = capacity_without_lock(process, block);
    void *moved = held ? pw_c_malloc(size) : NULL;
    if (moved) {
        pw_os_copy(moved, block, held < size ? held : size);
        pw_block_free(process, block, site);
    } else if (size <= held) {
        moved = block;
    }
    return moved;
}

void *pw_block_resize(struct pw_process *process, void *block, size_t size, const void *site) {
    if (!pw_process_enter()) {
        return resize_without_lock(process, block, size, site);
    }
    struct pw_extent *extent = live_at(process, block);
    bool foreign = !extent && pw_arena_is_foreign(&process->arena, block);
    if (extent) {
        pw_block_repair(process, extent);
    }
    struct pw_extent *resized = extent ? resize_pages(process, extent, size) : NULL;
    // All of it: the C library may have made it longer where we do not see it.
    size_t capacity = extent ? capacity_of(process, extent) : 0;
    char *data = resized ? data_of(process, resized) : NULL;
    pw_process_leave();
    if (foreign) { // the C library's, in a mapping that the arena has grown around
        return pw_c_realloc(block, size);
    }
    if (!extent) {
        pw_block_reject("realloc");
    }
    if (data) {
        return data;
    }
    void *moved = process->gate->general || size >= process->gate->threshold
                      ? pw_block_allocate(process, size, 1, false, site)
                      : NULL;
    if (!moved && !pw_block_is_refused(process, size)) {
        moved = pw_c_malloc(size);
    }
    if (moved) {
        pw_os_copy(moved, block, capacity < size ? capacity : size);
        pw_block_free(process, block, site);
    } else if (size <= capacity) {
        moved = block; // to make a block smaller needs no memory
    }
    return moved;
}

bool pw_block_extend(struct pw_process *process, void *block, size_t size) {
    if (!pw_process_enter()) {
        return false;
    }
    struct pw_extent *extent = live_at(process, block);
    if (extent) {
        pw_block_repair(process, extent);
    }
    bool fits = extent && (size <= capacity_of(process, extent) ||
                           grow(process, extent, size, false) != NULL);
    pw_process_leave();
    return fits;
}

size_t pw_block_usable(struct pw_process *process, const void *block) {
    bool entered = pw_process_enter();
    struct pw_extent *extent = block_at(process, block);
    if (extent && entered) {
        pw_block_repair(process, extent);
    }
    size_t usable = entered ? (extent ? capacity_of(process, extent) : 0)
                            : capacity_without_lock(process, block);
    if (extent) {
        // The program may use all of it from now on, and resizing must keep all of it.
        extent->user_size = usable;
    }
    if (entered) {
        pw_process_leave();
    }
    return usable;
}
