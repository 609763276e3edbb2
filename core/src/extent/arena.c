// SPDX-License-Identifier: MIT
#include "extent/extent.h"

#include <string.h>

// Inside a 47-bit address space, far from where programs, libraries and stacks are put. A sanitizer
// may have other plans for it.
#ifndef PW_ARENA_LOWEST
#define PW_ARENA_LOWEST 0x100000000000
#define PW_ARENA_PLACES 32
#endif
#define ARENA_LOWEST     ((uintptr_t)PW_ARENA_LOWEST)
#define ARENA_PLACES     PW_ARENA_PLACES
#define ARENA_SPACING    ((uintptr_t)1 << 40) // as much as one arena can grow
#define TABLE_CHUNK      ((size_t)1 << 18)
#define SMALLEST_SURPLUS ((uint32_t)pw_pages_for(1 << 20))
// In units of the clock, so at least 256 ms: a page that is given back too early costs a fault, and
// so costs at most that much a quarter of a second. Tuned on gcd
// (docs/notes/experiments/warm-pages.md).
#define SHORTEST_CYCLE 2u
// Below this a purge would cost more system calls than it returns pages.
#define PURGE_EXTRA_PAGES  ((uint32_t)pw_pages_for(2 << 20))
#define FEWEST_SAVED_PAGES 16u // a move costs more than fewer are worth

// --- our own tables ----------------------------------------------------------

static void *table_allocate(struct pw_arena *arena, size_t size) {
    if ((size_t)(arena->table_end - arena->table) < size) {
        char *chunk = arena->sealed ? NULL : pw_os_map_table(TABLE_CHUNK);
        if (!chunk && pw_mappings_relieve(arena)) {
            chunk = pw_os_map_table(TABLE_CHUNK);
        }
        if (!chunk) {
            return NULL;
        }
        arena->table = chunk;
        arena->table_end = chunk + TABLE_CHUNK;
        PW_COUNT(arena->stats, bookkeeping_bytes, TABLE_CHUNK);
    }
    char *got = arena->table;
    arena->table += size;
    return got;
}

uint32_t pw_extent_number(const struct pw_arena *arena, const struct pw_extent *extent) {
    // Extents know their own number through the registry: their first page names them.
    return arena->index[extent->page / PW_ARENA_STEP_PAGES][extent->page % PW_ARENA_STEP_PAGES];
}

// A new extent's number, 0 when the table is full.
static uint32_t new_extent(struct pw_arena *arena) {
    uint32_t number = arena->free_extent;
    if (number) {
        struct pw_extent *extent = pw_extent_at(arena, number);
        arena->free_extent = extent->next;
        uint32_t generation = extent->generation;
        *extent = (struct pw_extent){.generation = generation + 1};
        return number;
    }
    uint32_t chunk = arena->extent_count / PW_EXTENT_CHUNK;
    if (chunk == PW_EXTENT_CHUNKS) {
        return 0;
    }
    if (!arena->extents[chunk]) {
        size_t size = PW_EXTENT_CHUNK * sizeof(struct pw_extent);
        arena->extents[chunk] = table_allocate(arena, size);
        if (!arena->extents[chunk]) {
            return 0;
        }
    }
    return arena->extent_count++;
}

static void delete_extent(struct pw_arena *arena, uint32_t number) {
    struct pw_extent *extent = pw_extent_at(arena, number);
    extent->state = PW_EXTENT_NONE;
    extent->generation++;
    extent->next = arena->free_extent;
    arena->free_extent = number;
}

// --- registry ----------------------------------------------------------------

static uint32_t *index_of(struct pw_arena *arena, uint32_t page) {
    return &arena->index[page / PW_ARENA_STEP_PAGES][page % PW_ARENA_STEP_PAGES];
}

// Free extents are found by their first and last page only.
static void tag(struct pw_arena *arena, uint32_t number) {
    const struct pw_extent *extent = pw_extent_at(arena, number);
    *index_of(arena, extent->page) = number;
    *index_of(arena, extent->page + extent->pages - 1) = number;
}

struct pw_extent *pw_arena_find(struct pw_arena *arena, const void *address) {
    if (!pw_arena_contains(arena, address)) {
        return NULL;
    }
    uint32_t page = (uint32_t)(((uintptr_t)address - (uintptr_t)arena->base) >> PW_PAGE_SHIFT);
    uint32_t number = *index_of(arena, page);
    struct pw_extent *extent = number ? pw_extent_at(arena, number) : NULL;
    // Entries inside free extents are left over from earlier blocks.
    bool inside = extent && extent->state == PW_EXTENT_USED && page >= extent->page &&
                  page - extent->page < extent->pages;
    return inside ? extent : NULL;
}

bool pw_arena_is_foreign(struct pw_arena *arena, const void *address) {
    if (!pw_arena_contains(arena, address)) {
        return true;
    }
    uint32_t page = (uint32_t)(((uintptr_t)address - (uintptr_t)arena->base) >> PW_PAGE_SHIFT);
    return *index_of(arena, page) == 0;
}

static struct pw_extent *neighbour_after(struct pw_arena *arena, const struct pw_extent *extent) {
    uint32_t page = extent->page + extent->pages;
    uint32_t number = page < arena->end ? *index_of(arena, page) : 0;
    return number ? pw_extent_at(arena, number) : NULL;
}

static struct pw_extent *neighbour_before(struct pw_arena *arena, const struct pw_extent *extent) {
    uint32_t number = extent->page > 0 ? *index_of(arena, extent->page - 1) : 0;
    return number ? pw_extent_at(arena, number) : NULL;
}

// --- bins --------------------------------------------------------------------

static unsigned bin_of(uint32_t pages) {
    if (pages < 64) {
        return pages;
    }
    unsigned doubling = 31u - (unsigned)__builtin_clz(pages);
    return 64 + (doubling - 6) * 8 + ((pages >> (doubling - 3)) & 7);
}

static struct pw_bins *bins_of(struct pw_arena *arena, enum pw_extent_state state) {
    return state == PW_EXTENT_WARM ? &arena->warm : &arena->cold;
}

static void count_warm(struct pw_arena *arena, int64_t pages) {
    arena->warm_pages += (uint64_t)pages;
    PW_GAUGE(arena->stats, cached_bytes, arena->warm_pages * PW_PAGE);
}

static void bin_insert(struct pw_arena *arena, uint32_t number, enum pw_extent_state state) {
    struct pw_extent *extent = pw_extent_at(arena, number);
    struct pw_bins *bins = bins_of(arena, state);
    unsigned bin = bin_of(extent->pages);
    extent->state = (uint8_t)state;
    extent->previous = 0;
    extent->next = bins->head[bin];
    if (extent->next) {
        pw_extent_at(arena, extent->next)->previous = number;
    } else {
        bins->tail[bin] = number;
    }
    bins->head[bin] = number;
    bins->occupied[bin / 64] |= (uint64_t)1 << (bin % 64);
    tag(arena, number);
    if (state == PW_EXTENT_WARM) {
        count_warm(arena, extent->pages);
    }
}

static void bin_remove(struct pw_arena *arena, struct pw_extent *extent) {
    struct pw_bins *bins = bins_of(arena, extent->state);
    unsigned bin = bin_of(extent->pages);
    if (extent->previous) {
        pw_extent_at(arena, extent->previous)->next = extent->next;
    } else {
        bins->head[bin] = extent->next;
    }
    if (extent->next) {
        pw_extent_at(arena, extent->next)->previous = extent->previous;
    } else {
        bins->tail[bin] = extent->previous;
    }
    if (!bins->head[bin]) {
        bins->occupied[bin / 64] &= ~((uint64_t)1 << (bin % 64));
    }
    if (extent->state == PW_EXTENT_WARM) {
        count_warm(arena, -(int64_t)extent->pages);
    }
    extent->state = PW_EXTENT_NONE;
}

static int next_bin(const struct pw_bins *bins, unsigned from) {
    for (unsigned word = from / 64; word < PW_SIZE_BINS / 64; word++) {
        uint64_t occupied = bins->occupied[word];
        if (word == from / 64) {
            occupied &= ~(uint64_t)0 << (from % 64);
        }
        if (occupied) {
            return (int)(word * 64 + (unsigned)__builtin_ctzll(occupied));
        }
    }
    return -1;
}

static int largest_bin(const struct pw_bins *bins) {
    for (int word = PW_SIZE_BINS / 64 - 1; word >= 0; word--) {
        if (bins->occupied[word]) {
            return word * 64 + 63 - __builtin_clzll(bins->occupied[word]);
        }
    }
    return -1;
}

// The smallest of the first `limit` extents of a bin that has at least `pages`.
static struct pw_extent *smallest_in(struct pw_arena *arena, uint32_t number, uint32_t pages,
                                     int limit) {
    struct pw_extent *best = NULL;
    for (; number && limit > 0; limit--) {
        struct pw_extent *extent = pw_extent_at(arena, number);
        if (extent->pages >= pages && (!best || extent->pages < best->pages)) {
            best = extent;
            if (best->pages == pages) {
                break;
            }
        }
        number = extent->next;
    }
    return best;
}

// LIFO best fit: the newest of the tightest, within a bounded search.
static struct pw_extent *best_fit(struct pw_arena *arena, enum pw_extent_state state,
                                  uint32_t pages) {
    struct pw_bins *bins = bins_of(arena, state);
    unsigned bin = bin_of(pages);
    struct pw_extent *best = smallest_in(arena, bins->head[bin], pages, 256);
    int larger = best ? -1 : next_bin(bins, bin + 1);
    return larger < 0 ? best : smallest_in(arena, bins->head[larger], pages, 16);
}

// --- splitting, coalescing ---------------------------------------------------

// Nobody knows which of them lie where.
static void split_moved(struct pw_extent *extent, struct pw_extent *rest, uint32_t pages) {
    uint32_t first = (uint32_t)((uint64_t)extent->moved * pages / extent->pages);
    rest->moved = extent->moved - first;
    extent->moved = first;
}

// Cut `extent` (in no bin) to its first `pages`; the rest goes to the pool as `state`. Without a
// table entry for the rest, the extent keeps it: it is a little longer, nothing is lost.
static void cut_tail(struct pw_arena *arena, struct pw_extent *extent, uint32_t pages,
                     enum pw_extent_state state) {
    uint32_t number = extent->pages > pages ? new_extent(arena) : 0;
    if (!number) {
        return;
    }
    struct pw_extent *rest = pw_extent_at(arena, number);
    rest->page = extent->page + pages;
    rest->pages = extent->pages - pages;
    rest->stamp = extent->stamp;
    split_moved(extent, rest, pages);
    extent->pages = pages;
    tag(arena, pw_extent_number(arena, extent)); // the rest may be given back before it is used
    bin_insert(arena, number, state);
}

static void absorb(struct pw_arena *arena, struct pw_extent *extent, struct pw_extent *neighbour) {
    uint32_t number = pw_extent_number(arena, neighbour);
    if (neighbour->page < extent->page) {
        extent->page = neighbour->page;
    }
    extent->pages += neighbour->pages;
    extent->moved += neighbour->moved;
    if (neighbour->stamp > extent->stamp) {
        extent->stamp = neighbour->stamp;
    }
    delete_extent(arena, number);
}

// Take the extent's number from the registry before its first page changes owner.
static void coalesce_into_pool(struct pw_arena *arena, struct pw_extent *extent,
                               enum pw_extent_state state) {
    uint32_t number = pw_extent_number(arena, extent);
    struct pw_extent *after = neighbour_after(arena, extent);
    struct pw_extent *before = neighbour_before(arena, extent);
    if (after && after->state == state) {
        bin_remove(arena, after);
        absorb(arena, extent, after);
    }
    if (before && before->state == state) {
        bin_remove(arena, before);
        absorb(arena, extent, before);
    }
    bin_insert(arena, number, state);
}

// Unmap whole free steps at the end of the arena, where address space is limited.
static void return_end(struct pw_arena *arena) {
    uint32_t number = arena->end > 0 ? *index_of(arena, arena->end - 1) : 0;
    struct pw_extent *last = number ? pw_extent_at(arena, number) : NULL;
    if (!last || last->state != PW_EXTENT_COLD || last->pages < PW_ARENA_STEP_PAGES) {
        return;
    }
    uint32_t pages = last->pages / PW_ARENA_STEP_PAGES * PW_ARENA_STEP_PAGES;
    char *address = arena->base + (size_t)(arena->end - pages) * PW_PAGE;
    if (!pw_os_unmap(address, (size_t)pages * PW_PAGE)) {
        return;
    }
    bin_remove(arena, last);
    arena->end -= pages;
    last->pages -= pages;
    if (last->pages > 0) {
        bin_insert(arena, number, PW_EXTENT_COLD);
    } else {
        delete_extent(arena, number);
    }
}

bool pw_arena_has_hole(const struct pw_arena *arena, const struct pw_extent *extent) {
    const char *address = pw_extent_address(arena, extent);
    return arena->hole >= address && arena->hole < address + (size_t)extent->pages * PW_PAGE;
}

// What is blank anew is one mapping with its neighbours again.
static void forget_moved(struct pw_arena *arena, struct pw_extent *extent,
                         enum pw_extent_state state) {
    bool gone = state == PW_EXTENT_LOST;
    if (extent->moved && state == PW_EXTENT_COLD) {
        gone = pw_arena_blank(arena, pw_extent_address(arena, extent),
                              (size_t)extent->pages * PW_PAGE);
    }
    if (gone) {
        arena->mappings.moved -= extent->moved;
        extent->moved = 0;
    }
}

void pw_arena_release(struct pw_arena *arena, struct pw_extent *extent,
                      enum pw_extent_state state) {
    extent->generation++;
    forget_moved(arena, extent, state);
    if (pw_arena_has_hole(arena, extent)) {
        arena->hole = NULL;
        state = PW_EXTENT_LOST;
        forget_moved(arena, extent, state);
    }
    if (state == PW_EXTENT_LOST) {
        extent->state = PW_EXTENT_LOST;
        tag(arena, pw_extent_number(arena, extent));
        return;
    }
    extent->stamp = pw_arena_clock();
    coalesce_into_pool(arena, extent, state);
    if (arena->return_address_space && state == PW_EXTENT_COLD) {
        return_end(arena);
    }
}

void pw_arena_withdraw(struct pw_arena *arena, struct pw_extent *extent) {
    bin_remove(arena, extent);
}

// --- growth ------------------------------------------------------------------

bool pw_arena_start(struct pw_arena *arena, struct pw_stats *stats, unsigned slack_percent) {
    arena->stats = stats;
    arena->slack_percent = slack_percent;
    arena->extent_count = 1; // 0 means none
    arena->most_steps = PW_ARENA_STEPS;
    arena->return_address_space = pw_os_address_space_is_limited();
    uint64_t place = pw_os_layout_seed() % ARENA_PLACES;
    arena->base = (char *)(ARENA_LOWEST + place * ARENA_SPACING);
    return true;
}

// A whole number of the largest alignments, and room for a byte a page of the arena.
#define LABELS_SIZE ((size_t)PW_ARENA_STEPS * PW_ARENA_STEP_PAGES)

bool pw_arena_start_labels(struct pw_arena *arena) {
    if (arena->end > 0) {
        return false;
    }
    arena->labels = (uint8_t *)arena->base;
    arena->base += LABELS_SIZE;
    arena->most_steps -=
        LABELS_SIZE / (PW_ARENA_STEP_PAGES * PW_PAGE); // its end stays where it was
    return true;
}

// Mapped as the arena grows, next to each other: address space that is only reserved would count in
// RLIMIT_AS, in RLIMIT_MEMLOCK, and in the size of core dumps.
static bool ensure_labels(struct pw_arena *arena, uint32_t step) {
    while (arena->labels && arena->labelled_steps <= step) {
        uint8_t *part = arena->labels + (size_t)arena->labelled_steps * PW_ARENA_STEP_PAGES;
        bool occupied;
        if (!pw_os_map_new(part, PW_ARENA_STEP_PAGES, &occupied) &&
            !(pw_mappings_relieve(arena) && pw_os_map_new(part, PW_ARENA_STEP_PAGES, &occupied))) {
            return false;
        }
        pw_os_leave_out_of_core(part, PW_ARENA_STEP_PAGES);
        PW_COUNT(arena->stats, bookkeeping_bytes, PW_ARENA_STEP_PAGES);
        arena->labelled_steps++;
    }
    return true;
}

static uint32_t *ensure_leaf(struct pw_arena *arena, uint32_t step) {
    if (!arena->index[step] && ensure_labels(arena, step)) {
        arena->index[step] = table_allocate(arena, PW_ARENA_STEP_PAGES * sizeof(uint32_t));
    }
    return arena->index[step];
}

static void skip_steps(struct pw_arena *arena, uint32_t steps);

// Append at least `pages` cold pages. A range that the program has mapped itself is skipped.
static bool grow(struct pw_arena *arena, uint32_t pages) {
    uint32_t steps = (pages + PW_ARENA_STEP_PAGES - 1) / PW_ARENA_STEP_PAGES;
    for (int attempt = 0; attempt < 8; attempt++) {
        uint32_t first = arena->end / PW_ARENA_STEP_PAGES;
        if (steps > arena->most_steps || first > arena->most_steps - steps) {
            return false;
        }
        for (uint32_t i = 0; i < steps; i++) {
            if (!ensure_leaf(arena, first + i)) {
                return false;
            }
        }
        uint32_t number = new_extent(arena);
        if (!number) {
            return false;
        }
        char *address = arena->base + (size_t)arena->end * PW_PAGE;
        size_t size = (size_t)steps * PW_ARENA_STEP_PAGES * PW_PAGE;
        bool occupied;
        if (pw_os_map_new(address, size, &occupied)) {
            struct pw_extent *extent = pw_extent_at(arena, number);
            extent->page = arena->end;
            extent->pages = steps * PW_ARENA_STEP_PAGES;
            arena->end += extent->pages;
            tag(arena, number);
            coalesce_into_pool(arena, extent, PW_EXTENT_COLD);
            return true;
        }
        delete_extent(arena, number);
        if (occupied) {
            skip_steps(arena, 1); // a neighbour is in the way
        } else if (!pw_mappings_relieve(arena)) {
            return false;
        }
    }
    return false;
}

// Leave out steps that belong to somebody else: their pages stay owned by no extent.
static void skip_steps(struct pw_arena *arena, uint32_t steps) {
    for (uint32_t i = 0; i < steps; i++) { // they may have been ours before
        memset(arena->index[arena->end / PW_ARENA_STEP_PAGES + i], 0,
               PW_ARENA_STEP_PAGES * sizeof(uint32_t));
    }
    arena->end += steps * PW_ARENA_STEP_PAGES;
}

// --- taking pages ------------------------------------------------------------

struct pw_extent *pw_arena_take_warm(struct pw_arena *arena, uint32_t pages) {
    struct pw_extent *extent = best_fit(arena, PW_EXTENT_WARM, pages);
    if (!extent) {
        return NULL;
    }
    bin_remove(arena, extent);
    cut_tail(arena, extent, pages, PW_EXTENT_WARM);
    extent->warm_pages = extent->pages;
    return extent;
}

// A warm extent of at least half the size whose right neighbour is cold and supplies the rest.
static struct pw_extent *find_mixed(struct pw_arena *arena, uint32_t pages) {
    int bin = next_bin(&arena->warm, bin_of(pages / 2 + 1));
    int limit = 64;
    for (; bin >= 0; bin = next_bin(&arena->warm, (unsigned)bin + 1)) {
        uint32_t number = arena->warm.head[bin];
        for (; number && limit > 0; limit--) {
            struct pw_extent *warm = pw_extent_at(arena, number);
            struct pw_extent *after = neighbour_after(arena, warm);
            if (warm->pages < pages && after && after->state == PW_EXTENT_COLD &&
                warm->pages + after->pages >= pages) {
                return warm;
            }
            number = warm->next;
        }
    }
    return NULL;
}

struct pw_extent *pw_arena_take_mixed(struct pw_arena *arena, uint32_t pages) {
    struct pw_extent *extent = find_mixed(arena, pages);
    if (!extent) {
        return NULL;
    }
    struct pw_extent *after = neighbour_after(arena, extent);
    uint32_t warm_pages = extent->pages;
    bin_remove(arena, extent);
    bin_remove(arena, after);
    absorb(arena, extent, after);
    tag(arena, pw_extent_number(arena, extent));
    cut_tail(arena, extent, pages, PW_EXTENT_COLD);
    extent->warm_pages = warm_pages;
    return extent;
}

// Free extents behind a block: a warm one, a cold one, or a cold one behind a warm one.
struct behind {
    struct pw_extent *warm, *cold;
    uint32_t pages;
};

static struct behind find_behind(struct pw_arena *arena, const struct pw_extent *extent) {
    struct behind found = {0};
    struct pw_extent *after = neighbour_after(arena, extent);
    if (after && after->state == PW_EXTENT_WARM) {
        found.warm = after;
        found.pages = after->pages;
        after = neighbour_after(arena, after);
    }
    if (after && after->state == PW_EXTENT_COLD) {
        found.cold = after;
        found.pages += after->pages;
    }
    return found;
}

bool pw_arena_has_behind(struct pw_arena *arena, const struct pw_extent *extent, uint32_t pages) {
    uint32_t there = find_behind(arena, extent).pages;
    bool is_last = extent->page + extent->pages + there == arena->end;
    return there >= pages ||
           (is_last && grow(arena, pages - there) && find_behind(arena, extent).pages >= pages);
}

// What is cut off again has a table entry: that of what was absorbed.
uint32_t pw_arena_extend(struct pw_arena *arena, struct pw_extent *extent, uint32_t pages) {
    struct behind behind = find_behind(arena, extent);
    uint32_t wanted = extent->pages + pages, warm = 0;
    if (behind.warm) {
        warm = behind.warm->pages;
        bin_remove(arena, behind.warm);
        absorb(arena, extent, behind.warm);
    }
    if (warm > pages) {
        cut_tail(arena, extent, wanted, PW_EXTENT_WARM);
        warm = pages;
    } else if (warm < pages) {
        bin_remove(arena, behind.cold);
        absorb(arena, extent, behind.cold);
        cut_tail(arena, extent, wanted, PW_EXTENT_COLD);
    }
    return warm;
}

// Split off the first `lead` pages (into the pool as `state`), where there is a table entry for the
// rest.
static struct pw_extent *cut_head(struct pw_arena *arena, struct pw_extent *extent, uint32_t lead,
                                  enum pw_extent_state state) {
    if (lead == 0) {
        return extent;
    }
    uint32_t number = new_extent(arena);
    if (!number) {
        return extent;
    }
    uint32_t lead_number = pw_extent_number(arena, extent);
    struct pw_extent *aligned = pw_extent_at(arena, number);
    aligned->page = extent->page + lead;
    aligned->pages = extent->pages - lead;
    split_moved(extent, aligned, lead);
    extent->pages = lead;
    tag(arena, number);
    aligned->stamp = extent->stamp;
    bin_insert(arena, lead_number, state);
    return aligned;
}

// The pages before the first one that is right before a multiple of `unit`.
static uint32_t lead_for_huge(const struct pw_extent *extent, uint32_t unit) {
    return (unit - 1 - extent->page % unit) % unit;
}

struct pw_extent *pw_arena_take_cold(struct pw_arena *arena, uint32_t pages, uint32_t unit) {
    uint32_t needed = pages + unit;
    struct pw_extent *extent = best_fit(arena, PW_EXTENT_COLD, needed);
    if (!extent && grow(arena, needed)) {
        extent = best_fit(arena, PW_EXTENT_COLD, needed);
    }
    if (!extent) {
        return NULL;
    }
    bin_remove(arena, extent);
    if (unit) {
        extent = cut_head(arena, extent, lead_for_huge(extent, unit), PW_EXTENT_COLD);
    }
    cut_tail(arena, extent, pages, PW_EXTENT_COLD);
    extent->warm_pages = 0;
    return extent;
}

struct pw_extent *pw_arena_take_aligned(struct pw_arena *arena, uint32_t pages, uint32_t unit) {
    if (pages > UINT32_MAX / 2 || unit > UINT32_MAX / 2) {
        return NULL;
    }
    uint32_t needed = pages + unit - 1;
    enum pw_extent_state state = PW_EXTENT_WARM;
    struct pw_extent *extent = best_fit(arena, state, needed);
    if (!extent) {
        state = PW_EXTENT_COLD;
        extent = best_fit(arena, state, needed);
    }
    if (!extent && grow(arena, needed)) {
        extent = best_fit(arena, state, needed);
    }
    if (!extent) {
        return NULL;
    }
    bin_remove(arena, extent);
    // The arena starts at a multiple of more than any unit.
    uint32_t lead = (unit - extent->page % unit) % unit;
    extent = cut_head(arena, extent, lead, state);
    if (extent->page % unit != 0) { // the table is full
        bin_insert(arena, pw_extent_number(arena, extent), state);
        return NULL;
    }
    cut_tail(arena, extent, pages, state);
    extent->warm_pages = state == PW_EXTENT_WARM ? extent->pages : 0;
    return extent;
}

bool pw_arena_gather(struct pw_arena *arena, struct pw_extent *extent) {
    uint32_t done = 0;
    while (done < extent->pages && arena->warm_pages > 0 &&
           pw_arena_may_move(arena, extent->pages)) {
        int bin = largest_bin(&arena->warm);
        struct pw_extent *piece = bin < 0 ? NULL : pw_extent_at(arena, arena->warm.head[bin]);
        if (!piece || piece->pages < 16) {
            break;
        }
        uint32_t pages = extent->pages - done;
        bin_remove(arena, piece);
        cut_tail(arena, piece, pages, PW_EXTENT_WARM);
        if (piece->pages > pages) { // the table is full
            pw_arena_release(arena, piece, PW_EXTENT_WARM);
            break;
        }
        pages = piece->pages;
        char *from = pw_extent_address(arena, piece);
        char *to = pw_extent_address(arena, extent) + (size_t)done * PW_PAGE;
        tag(arena, pw_extent_number(arena, piece));
        if (!pw_arena_move(arena, from, (size_t)pages * PW_PAGE, to)) {
            coalesce_into_pool(arena, piece, PW_EXTENT_WARM);
            break;
        }
        pw_arena_count_moved(arena, extent, piece->moved + 1);
        pw_arena_release(arena, piece, PW_EXTENT_COLD);
        done += pages;
    }
    if (pw_arena_has_hole(arena, extent)) {
        pw_os_discard(pw_extent_address(arena, extent), (size_t)done * PW_PAGE);
        pw_arena_release(arena, extent, PW_EXTENT_LOST);
        return false;
    }
    extent->warm_pages = done;
    PW_COUNT(arena->stats, gathered_bytes, (uint64_t)done * PW_PAGE);
    return true;
}

void pw_arena_use(struct pw_arena *arena, struct pw_extent *extent) {
    // Here, not where extents are joined and cut: pages leave the pool for a moment there.
    if (arena->warm_pages < arena->warm_low) {
        arena->warm_low = arena->warm_pages;
    }
    uint32_t number = pw_extent_number(arena, extent);
    extent->state = PW_EXTENT_USED;
    extent->generation++;
    for (uint32_t i = 0; i < extent->pages; i++) {
        *index_of(arena, extent->page + i) = number;
    }
}

void pw_arena_save_warm(struct pw_arena *arena, struct pw_extent *extent, uint32_t first,
                        uint32_t end) {
    uint32_t warm_end = extent->warm_pages < end ? extent->warm_pages : end;
    if (warm_end < first + FEWEST_SAVED_PAGES || !pw_arena_may_move(arena, warm_end - first)) {
        return;
    }
    uint32_t pages = warm_end - first;
    struct pw_extent *saved = pw_arena_take_cold(arena, pages, 0);
    if (!saved) {
        return;
    }
    char *from = pw_extent_address(arena, extent) + (size_t)first * PW_PAGE;
    if (saved->pages == pages &&
        pw_arena_move(arena, from, (size_t)pages * PW_PAGE, pw_extent_address(arena, saved))) {
        pw_arena_count_moved(arena, saved, extent->moved + 1);
        pw_arena_release(arena, saved, PW_EXTENT_WARM);
        extent->warm_pages = first;
    } else {
        pw_arena_release(arena, saved, PW_EXTENT_COLD);
    }
}

void pw_arena_each(struct pw_arena *arena, pw_arena_visit *visit, void *context) {
    for (uint32_t number = 1; number < arena->extent_count; number++) {
        struct pw_extent *extent = pw_extent_at(arena, number);
        if (extent->state == PW_EXTENT_USED) {
            visit(context, arena, extent);
        }
    }
}

// --- giving back -------------------------------------------------------------

// The oldest extent of a bin: the pool is filled at the head.
static struct pw_extent *oldest_in(struct pw_arena *arena, int bin) {
    return pw_extent_at(arena, arena->warm.tail[bin]);
}

// Make a warm extent cold. False: the kernel would not take its pages and it stays warm.
static bool give_back(struct pw_arena *arena, struct pw_extent *extent) {
    bin_remove(arena, extent);
    size_t size = (size_t)extent->pages * PW_PAGE;
    char *address = pw_extent_address(arena, extent);
    if (arena->has_huge) {
        pw_os_split_huge(address, size);
    }
    // A new mapping also drops advice and lets neighbours merge, so that the mapping count falls.
    if (pw_arena_blank(arena, address, size)) {
        arena->mappings.moved -= extent->moved;
        extent->moved = 0;
    } else if (pw_arena_has_hole(arena, extent)) {
        pw_arena_release(arena, extent, PW_EXTENT_LOST);
        return true;
    } else if (!pw_os_discard(address, size)) {
        PW_COUNT(arena->stats, fallback_discard, 1);
        coalesce_into_pool(arena, extent, PW_EXTENT_WARM);
        return false;
    }
    extent->generation++;
    coalesce_into_pool(arena, extent, PW_EXTENT_COLD);
    return true;
}

uint64_t pw_arena_purge(struct pw_arena *arena, uint64_t pages) {
    uint64_t done = 0;
    if (arena->sealed) {
        return 0;
    }
    while (done < pages && arena->warm_pages > 0) {
        int bin = largest_bin(&arena->warm);
        if (bin < 0) {
            break;
        }
        struct pw_extent *extent = oldest_in(arena, bin);
        uint64_t wanted = pages - done;
        // Of a much larger extent only the tail goes: whole 2 MB units stay together.
        if (extent->pages > wanted + PURGE_EXTRA_PAGES && extent->pages > 2 * PURGE_EXTRA_PAGES) {
            uint64_t end = extent->page + extent->pages - wanted;
            uint32_t kept =
                (uint32_t)(end & ~(uint64_t)(PW_HUGE_PAGE / PW_PAGE - 1)) - extent->page;
            uint32_t number = pw_extent_number(arena, extent);
            bin_remove(arena, extent);
            cut_tail(arena, extent, kept, PW_EXTENT_WARM);
            bool cut = extent->pages == kept;
            bin_insert(arena, number, PW_EXTENT_WARM);
            extent = cut ? neighbour_after(arena, extent) : extent;
        }
        uint32_t size = extent->pages;
        if (!give_back(arena, extent)) {
            break;
        }
        done += size;
    }
    return done;
}

uint64_t pw_resident_pages(struct pw_resident *resident) {
    if (!resident->is_read) {
        resident->pages = pw_os_resident_pages();
        resident->is_read = true;
    }
    return resident->pages;
}

void pw_resident_less(struct pw_resident *resident, uint64_t pages) {
    resident->pages = resident->pages > pages ? resident->pages - pages : 0;
}

void pw_arena_note_resident(struct pw_arena *arena, uint64_t resident) {
    // The program had most when the pool had least, be it between two looks.
    uint64_t used = resident > arena->warm_low ? resident - arena->warm_low : 0;
    if (used > arena->highest_used) {
        arena->highest_used = used;
    }
}

uint64_t pw_arena_trim_surplus(struct pw_arena *arena, struct pw_resident *resident) {
    uint32_t now = pw_arena_clock();
    if (arena->sealed || now - arena->trimmed_at < SHORTEST_CYCLE) {
        return 0;
    }
    pw_arena_note_resident(arena, pw_resident_pages(resident)); // its low mark is forgotten below
    uint64_t unused = arena->warm_low;
    uint64_t done = unused >= SMALLEST_SURPLUS ? pw_arena_purge(arena, unused) : 0;
    pw_resident_less(resident, done);
    arena->trimmed_at = now;
    arena->warm_low = arena->warm_pages;
    PW_COUNT(arena->stats, decayed_bytes, done * PW_PAGE);
    return done;
}

// Of one bin, at most so many pages and the rest of an extent. False: the kernel took no more.
static bool decay_bin(struct pw_arena *arena, unsigned bin, uint32_t stamp, uint64_t most,
                      uint64_t *done) {
    uint32_t number = arena->warm.head[bin];
    while (number && *done < most) {
        struct pw_extent *extent = pw_extent_at(arena, number);
        number = extent->next;
        uint32_t size = extent->pages;
        if ((int32_t)(stamp - extent->stamp) > 0) {
            if (!give_back(arena, extent)) {
                return false;
            }
            *done += size;
        }
    }
    return true;
}

uint64_t pw_arena_decay(struct pw_arena *arena, uint32_t stamp, uint64_t most) {
    uint64_t done = 0;
    for (unsigned bin = 0; !arena->sealed && bin < PW_SIZE_BINS; bin++) {
        if (!decay_bin(arena, bin, stamp, most, &done)) {
            break;
        }
    }
    // Fewer cannot have been needed: a collection must not take the next ones for surplus.
    if (arena->warm_low > arena->warm_pages) {
        arena->warm_low = arena->warm_pages;
    }
    PW_COUNT(arena->stats, decayed_bytes, done * PW_PAGE);
    return done;
}

// `pages`, warm ones among them, are to be hardly more than the `highest` that was needed.
static void keep_below(struct pw_arena *arena, uint64_t highest, uint64_t pages,
                       struct pw_resident *resident) {
    uint64_t allowed = highest + highest * arena->slack_percent / 100 + ((size_t)1 << 20) / PW_PAGE;
    if (arena->warm_pages > 0 && pages > allowed) {
        uint64_t purged = pw_arena_purge(arena, pages - allowed);
        pw_resident_less(resident, purged);
        if (purged) {
            PW_COUNT(arena->stats, purges, 1);
            PW_COUNT(arena->stats, purged_bytes, purged * PW_PAGE);
        }
    }
}

static void keep_live_rule(struct pw_arena *arena, uint64_t used, struct pw_resident *resident) {
    uint64_t live = arena->live_pages + arena->foreign_pages + used;
    if (live > arena->highest_pages) {
        arena->highest_pages = live;
    }
    keep_below(arena, arena->highest_pages, live + arena->warm_pages, resident);
}

// Blocks that are live may never have been written, and zeros in them may have been given back.
static void keep_resident_rule(struct pw_arena *arena, uint64_t fresh,
                               struct pw_resident *resident) {
    if (arena->warm_pages == 0 || arena->fresh_pages < arena->fresh_then + PW_ARENA_LOOK_PAGES) {
        return;
    }
    arena->fresh_then = arena->fresh_pages;
    uint64_t there = pw_resident_pages(resident);
    if (there > arena->warm_pages) { // known, and the pool counts none that never were
        pw_arena_note_resident(arena, there);
        uint64_t used = there - arena->warm_pages + fresh;
        keep_below(arena, used > arena->highest_used ? used : arena->highest_used, there + fresh,
                   resident);
    }
}

void pw_arena_keep_rule(struct pw_arena *arena, uint64_t taken, uint64_t fresh,
                        struct pw_resident *resident) {
    arena->fresh_pages += fresh;
    if (arena->sealed) {
        return;
    }
    keep_live_rule(arena, taken + fresh, resident);
    keep_resident_rule(arena, fresh, resident);
}

// --- where memory is refused ---------------------------------------------------

uint64_t pw_arena_shrink(struct pw_arena *arena) {
    uint32_t end = arena->end;
    if (!arena->sealed) {
        pw_arena_purge(arena, arena->warm_pages);
        return_end(arena);
    }
    return end - arena->end;
}

// --- without system calls ----------------------------------------------------

void pw_arena_seal(struct pw_arena *arena) {
    pw_mappings_end(arena);
    arena->sealed = true;
    arena->return_address_space = false;
    arena->most_steps = 0; // it does not grow
}

void pw_arena_disown(struct pw_arena *arena, struct pw_extent *extent) {
    uint32_t number = pw_extent_number(arena, extent);
    arena->mappings.moved -= extent->moved;
    for (uint32_t i = 0; i < extent->pages; i++) {
        *index_of(arena, extent->page + i) = 0;
    }
    delete_extent(arena, number);
}
