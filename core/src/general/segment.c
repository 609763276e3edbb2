// SPDX-License-Identifier: MIT
//
// Segments and the bins they are in. Which blocks are free is kept in bitmaps outside of the
// blocks: free memory is not touched, the lowest free block of the fullest segments is used first
// (so that the emptiest ones become empty), and a block that is released twice is found out.
#include "general/general.h"

#include <string.h>

#define TABLE_CHUNK   ((size_t)64 << 10)
#define SEGMENT_PAGES 16u                // 64 KB, but at most 512 blocks
#define KEEP_EMPTY_OF 4u                 // of so many segments, an empty one may stay
#define CACHE_BYTES   ((size_t)32 << 10) // of one class in one cache, at most
#define CACHE_LEAST   4u
#define LINE          ((size_t)64)

// --- locks -----------------------------------------------------------------------------

void pw_bin_enter(struct pw_bin *bin) {
    if (!pw_general_thread.holds_all) {
        pthread_mutex_lock(&bin->lock);
    }
}

void pw_bin_leave(struct pw_bin *bin) {
    if (!pw_general_thread.holds_all) {
        pthread_mutex_unlock(&bin->lock);
    }
}

void pw_general_enter_tables(struct pw_general *general) {
    if (!pw_general_thread.holds_all) {
        pthread_mutex_lock(&general->tables);
    }
}

void pw_general_leave_tables(struct pw_general *general) {
    if (!pw_general_thread.holds_all) {
        pthread_mutex_unlock(&general->tables);
    }
}

void *pw_general_table(struct pw_general *general, size_t size) {
    size = (size + 63) & ~(size_t)63;
    if ((size_t)(general->table_end - general->table) < size) {
        size_t chunk = size > TABLE_CHUNK ? size : TABLE_CHUNK;
        char *got = general->arena->sealed ? NULL : pw_os_map_table(chunk);
        if (!got) {
            return NULL;
        }
        general->table = got;
        general->table_end = got + chunk;
        PW_COUNT(general->stats, bookkeeping_bytes, chunk);
    }
    void *got = general->table;
    general->table += size;
    return got;
}

// --- start -----------------------------------------------------------------------------

// 64 KB of blocks where 512 hold so much. Of the larger classes as few pages, up to 32, as leave at
// most a sixteenth over.
static unsigned pages_of(size_t size) {
    if (size * PW_SEGMENT_MOST_BLOCKS <= SEGMENT_PAGES * PW_PAGE) {
        return (unsigned)(size * PW_SEGMENT_MOST_BLOCKS / PW_PAGE);
    }
    for (unsigned pages = SEGMENT_PAGES; pages < PW_SEGMENT_MOST_PAGES; pages++) {
        if (pages * PW_PAGE % size * 16 <= pages * PW_PAGE) {
            return pages;
        }
    }
    return PW_SEGMENT_MOST_PAGES;
}

static unsigned cache_most_of(size_t size) {
    size_t most = CACHE_BYTES / size;
    return (unsigned)(most > PW_CACHE_MOST_BLOCKS ? PW_CACHE_MOST_BLOCKS : most < 2 ? 2 : most);
}

// How many blocks fill whole lines of the processor's cache; 1: they are no smaller than one.
static unsigned group_of(size_t size) {
    return size >= LINE ? 1 : size % (LINE / 2) == 0 ? 2 : 4;
}

static void describe_class(struct pw_class_info *info, size_t size) {
    unsigned pages = pages_of(size);
    unsigned blocks = (unsigned)(pages * PW_PAGE / size);
    unsigned most = cache_most_of(size);
    *info = (struct pw_class_info){
        .size = (uint32_t)size,
        .reciprocal = (uint32_t)((((uint64_t)1 << 32) + size - 1) / size),
        .blocks = (uint16_t)blocks,
        .pages = (uint16_t)pw_pages_for(blocks * size),
        .quarter = (4u << 16) / blocks,
        .group = (uint16_t)group_of(size),
        .cache_least = (uint16_t)(most < CACHE_LEAST ? most : CACHE_LEAST),
        .cache_most = (uint16_t)most,
    };
}

bool pw_general_start(struct pw_general *general, struct pw_arena *arena, struct pw_stats *stats,
                      const struct pw_general_host *host) {
    // Its classes and labels are laid out for small pages.
    if (PW_PAGE_SHIFT != 12 || !pw_arena_start_labels(arena)) {
        return false;
    }
    general->arena = arena;
    general->stats = stats;
    general->host = *host;
    uint32_t slots = 0;
    for (unsigned i = 0; i < PW_GENERAL_CLASSES; i++) {
        describe_class(&general->info[i], pw_class_size(i));
        general->info[i].slots_at = slots;
        slots += general->info[i].cache_most + 1u; // and the NULL under them
        pthread_mutex_init(&general->bins[i].lock, NULL);
    }
    general->cache_size = sizeof(struct pw_cache) + slots * sizeof(void *);
    pthread_mutex_init(&general->tables, NULL);
    general->classes = arena->labels;
    return true;
}

// --- lists -----------------------------------------------------------------------------

void pw_segment_list(struct pw_bin *bin, struct pw_segment *segment, unsigned list) {
    if (segment->list == list) {
        return;
    }
    if (segment->list < PW_SEGMENT_LISTS) {
        if (segment->next) {
            segment->next->previous = segment->previous;
        }
        if (segment->previous) {
            segment->previous->next = segment->next;
        } else {
            bin->lists[segment->list] = segment->next;
        }
    }
    segment->list = (uint8_t)list;
    if (list < PW_SEGMENT_LISTS) {
        segment->previous = NULL;
        segment->next = bin->lists[list];
        if (segment->next) {
            segment->next->previous = segment;
        }
        bin->lists[list] = segment;
    }
}

static unsigned list_for(const struct pw_class_info *info, const struct pw_segment *segment) {
    unsigned used = (unsigned)segment->blocks - segment->free;
    return used == segment->blocks ? PW_SEGMENT_LISTS : used * info->quarter >> 16;
}

static struct pw_segment *fullest(const struct pw_bin *bin) {
    for (unsigned list = PW_SEGMENT_LISTS; list-- > 0;) {
        if (bin->lists[list]) {
            return bin->lists[list];
        }
    }
    return NULL;
}

// --- making and releasing segments -------------------------------------------------------

static uint32_t first_page(const struct pw_general *general, const struct pw_segment *segment) {
    return (uint32_t)((size_t)(segment->start - general->arena->base) >> PW_PAGE_SHIFT);
}

void pw_general_seal(struct pw_general *general) {
    __atomic_store_n(&general->decay_ms, 0, __ATOMIC_RELAXED);
}

static void name_pages(struct pw_general *general, const struct pw_segment *segment,
                       unsigned value) {
    uint8_t *first = general->classes + first_page(general, segment);
    for (uint32_t i = 0; i < segment->extent->pages; i++) {
        __atomic_store_n(&first[i], (uint8_t)value, __ATOMIC_RELAXED);
    }
}

static struct pw_segment *take_spare(struct pw_general *general) {
    pw_general_enter_tables(general);
    struct pw_segment *segment = general->spare_segments;
    if (segment) {
        general->spare_segments = segment->next;
    } else {
        segment = pw_general_table(general, sizeof *segment);
    }
    pw_general_leave_tables(general);
    return segment;
}

static void put_spare(struct pw_general *general, struct pw_segment *segment) {
    pw_general_enter_tables(general);
    segment->next = general->spare_segments;
    general->spare_segments = segment;
    pw_general_leave_tables(general);
}

static uint32_t pages_from(uint32_t first) {
    return first < 32 ? ~(uint32_t)0 << first : 0;
}

static void mark_all_free(struct pw_segment *segment) {
    for (unsigned block = 0; block < segment->blocks; block += 64) {
        unsigned left = segment->blocks - block;
        segment->map[block / 64] = left >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << left) - 1;
    }
}

static struct pw_segment *new_segment(struct pw_general *general, unsigned class_number) {
    const struct pw_class_info *info = &general->info[class_number];
    struct pw_segment *segment = take_spare(general);
    struct pw_extent *extent =
        segment ? general->host.take(general->host.context, info->pages) : NULL;
    if (!extent) {
        if (segment) {
            put_spare(general, segment);
        }
        return NULL;
    }
    *segment = (struct pw_segment){
        .start = pw_extent_address(general->arena, extent),
        .extent = extent,
        .class_number = (uint8_t)class_number,
        .list = PW_SEGMENT_LISTS,
        .blocks = info->blocks,
        .free = info->blocks,
        .absent = pages_from(extent->warm_pages) & ~pages_from(info->pages),
    };
    mark_all_free(segment);
    extent->segment = segment;
    name_pages(general, segment, class_number + 1);
    return segment;
}

void pw_segment_release(struct pw_general *general, struct pw_segment *segment) {
    name_pages(general, segment, 0);
    general->host.release(general->host.context, segment->extent,
                          (uint32_t)__builtin_popcount(segment->absent));
    put_spare(general, segment);
}

// --- blocks ------------------------------------------------------------------------------

// The pages of the block, each a bit.
static uint32_t pages_of_block(const struct pw_class_info *info, unsigned block) {
    unsigned first = block * info->size >> PW_PAGE_SHIFT;
    unsigned last = ((block + 1) * info->size - 1) >> PW_PAGE_SHIFT;
    return (~(uint32_t)0 >> (31 - last)) & pages_from(first);
}

// The blocks that lie on these pages, at least in part, each a bit.
static void find_blocks(const struct pw_class_info *info, uint32_t pages, uint64_t *map) {
    memset(map, 0, PW_SEGMENT_MOST_BLOCKS / 8);
    for (; pages; pages &= pages - 1) {
        struct pw_block_range on = pw_blocks_on_page(info, (unsigned)__builtin_ctz(pages));
        for (unsigned word = on.first / 64; word <= on.last / 64; word++) {
            map[word] |= pw_bits_of_word(on, word);
        }
    }
}

// Of these free blocks, those that share the lines they lie on with no others.
static uint64_t alone_on_lines(uint64_t free, unsigned group) {
    if (group == 2) {
        free &= free >> 1 & 0x5555555555555555u;
    } else if (group == 4) {
        free &= free >> 1;
        free &= free >> 2 & 0x1111111111111111u;
    }
    return free * ((1u << group) - 1);
}

// The lowest free blocks that do not lie on these pages; of lines that are free as a whole, where
// `group` says how many blocks such have.
static unsigned take_beside(const struct pw_class_info *info, struct pw_segment *segment,
                            uint32_t avoided, unsigned group, void **blocks, unsigned count) {
    uint64_t hidden[PW_SEGMENT_MOST_BLOCKS / 64];
    find_blocks(info, avoided, hidden);
    uint32_t used = 0;
    unsigned got = 0;
    for (unsigned word = 0; got < count && word * 64 < segment->blocks; word++) {
        uint64_t bits = alone_on_lines(segment->map[word] & ~hidden[word], group), taken = bits;
        for (; bits && got < count; bits &= bits - 1) {
            unsigned block = word * 64 + (unsigned)__builtin_ctzll(bits);
            blocks[got++] = segment->start + (size_t)block * info->size;
            used |= pages_of_block(info, block);
        }
        segment->map[word] &= ~(taken & ~bits);
    }
    segment->absent &= ~used;
    segment->idle &= ~used;
    segment->free = (uint16_t)(segment->free - got);
    return got;
}

// Blocks on pages that hold others come first, so that pages that do not can go; then those on
// pages that still have memory. On a page lines come first that no other thread writes to.
static unsigned take_blocks(const struct pw_class_info *info, struct pw_segment *segment,
                            void **blocks, unsigned count) {
    const uint32_t avoided[] = {segment->absent | segment->idle, segment->absent, 0};
    unsigned got = 0;
    for (unsigned i = 0; got < count && i < 3; i++) {
        if (i < 2 && avoided[i] == avoided[i + 1]) {
            continue;
        }
        if (info->group > 1) {
            got += take_beside(info, segment, avoided[i], info->group, blocks + got, count - got);
        }
        if (got < count) {
            got += take_beside(info, segment, avoided[i], 1, blocks + got, count - got);
        }
    }
    return got;
}

// The lowest number tells afterwards how much was in use. What was given less what was taken would
// not: where all of a burst comes and goes between two looks, that is nothing.
static void count_free(struct pw_bin *bin, int64_t blocks) {
    int64_t free = bin->free + blocks;
    __atomic_store_n(&bin->free, free, __ATOMIC_RELAXED);
    if (free < bin->lowest) {
        __atomic_store_n(&bin->lowest, free, __ATOMIC_RELAXED);
    }
}

void pw_bin_remove(struct pw_bin *bin, struct pw_segment *segment) {
    pw_segment_list(bin, segment, PW_SEGMENT_LISTS);
    bin->segments--;
    count_free(bin, -(int64_t)segment->blocks);
}

unsigned pw_bin_take(struct pw_general *general, unsigned class_number, void **blocks,
                     unsigned count) {
    const struct pw_class_info *info = &general->info[class_number];
    struct pw_bin *bin = &general->bins[class_number];
    unsigned got = 0;
    pw_bin_enter(bin);
    while (got < count) {
        struct pw_segment *segment = fullest(bin);
        if (!segment && got > 0) {
            break; // a new segment only for who has none
        }
        if (!segment) {
            pw_bin_leave(bin);
            segment = new_segment(general, class_number);
            if (!segment) {
                return 0;
            }
            pw_bin_enter(bin);
            bin->segments++;
            count_free(bin, segment->blocks);
        } else if (segment->free == segment->blocks) {
            bin->empties--;
        }
        got += take_blocks(info, segment, blocks + got, count - got);
        pw_segment_list(bin, segment, list_for(info, segment));
    }
    count_free(bin, -(int64_t)got);
    pw_bin_leave(bin);
    return got;
}

// The segment of a block of this class; NULL: it is none.
static struct pw_segment *segment_of(struct pw_general *general, unsigned class_number,
                                     const void *block) {
    uintptr_t offset = (uintptr_t)block - (uintptr_t)general->arena->base;
    return pw_general_class_at(general->classes, offset) == class_number + 1
               ? pw_arena_extent_of_page(general->arena, (uint32_t)(offset >> PW_PAGE_SHIFT))
                     ->segment
               : NULL;
}

// Blocks that are given together often are of one segment.
static bool is_inside(const struct pw_class_info *info, const struct pw_segment *segment,
                      const void *block) {
    return segment &&
           (uintptr_t)block - (uintptr_t)segment->start < (uintptr_t)segment->blocks * info->size;
}

// False: it was no block, or is free already.
static bool mark_free(const struct pw_class_info *info, struct pw_segment *segment,
                      const void *block) {
    uint32_t inside = (uint32_t)((const char *)block - segment->start);
    unsigned index = (unsigned)((uint64_t)inside * info->reciprocal >> 32);
    uint64_t bit = (uint64_t)1 << (index % 64);
    if (index >= segment->blocks || index * info->size != inside ||
        segment->map[index / 64] & bit) {
        return false;
    }
    segment->map[index / 64] |= bit;
    segment->free++;
    return true;
}

// Of several empty segments one stays, so that a program does not take and release one in turn.
static bool may_stay_empty(const struct pw_bin *bin) {
    return bin->empties == 0 && bin->segments >= KEEP_EMPTY_OF;
}

// Is the segment, which got a block back, the bin's no more?
static bool leaves_bin(struct pw_bin *bin, const struct pw_class_info *info,
                       struct pw_segment *segment) {
    if (segment->free < segment->blocks || may_stay_empty(bin)) {
        bin->empties += segment->free == segment->blocks;
        pw_segment_list(bin, segment, list_for(info, segment));
        return false;
    }
    pw_bin_remove(bin, segment);
    return true;
}

// How many were blocks in use: all of them, or those before one that was not. `emptied`: the
// segments to release.
static unsigned give_blocks(struct pw_general *general, unsigned class_number, void **blocks,
                            unsigned count, struct pw_segment **emptied) {
    const struct pw_class_info *info = &general->info[class_number];
    struct pw_bin *bin = &general->bins[class_number];
    struct pw_segment *segment = NULL;
    unsigned given = 0;
    for (; given < count; given++) {
        if (!is_inside(info, segment, blocks[given])) {
            segment = segment_of(general, class_number, blocks[given]);
        }
        if (!segment || !mark_free(info, segment, blocks[given])) {
            break;
        }
        if (leaves_bin(bin, info, segment)) {
            segment->next = *emptied;
            *emptied = segment;
            segment = NULL;
        }
    }
    return given;
}

void pw_bin_give(struct pw_general *general, unsigned class_number, void **blocks, unsigned count) {
    struct pw_bin *bin = &general->bins[class_number];
    struct pw_segment *emptied = NULL;
    pw_bin_enter(bin);
    count_free(bin, count); // before a segment leaves, or the lowest number would be too low
    unsigned given = give_blocks(general, class_number, blocks, count, &emptied);
    pw_bin_leave(bin);
    if (given < count) {
        general->host.misuse(general->host.context);
    }
    while (emptied) {
        struct pw_segment *next = emptied->next;
        pw_segment_release(general, emptied);
        emptied = next;
    }
}

// --- statistics --------------------------------------------------------------------------

// Without the locks, which may be lost in a child: of a class in use two numbers may be a moment
// apart.
PW_UNLOCKED void pw_general_class_usage(const struct pw_general *general, unsigned class_number,
                                        struct pw_class_usage *usage) {
    const struct pw_bin *bin = &general->bins[class_number];
    size_t blocks = (size_t)bin->segments * general->info[class_number].blocks;
    size_t free = bin->free > 0 ? (size_t)bin->free : 0;
    *usage = (struct pw_class_usage){
        .size = general->info[class_number].size,
        .segments = bin->segments,
        .segment_bytes = (size_t)bin->segments * general->info[class_number].pages * PW_PAGE,
        .free = free < blocks ? free : blocks,
        .used = free < blocks ? blocks - free : 0,
    };
}

void pw_general_usage(const struct pw_general *general, struct pw_general_usage *usage) {
    *usage = (struct pw_general_usage){0};
    for (unsigned i = 0; i < PW_GENERAL_CLASSES; i++) {
        struct pw_class_usage of_class;
        pw_general_class_usage(general, i, &of_class);
        usage->segment_bytes += of_class.segment_bytes;
        usage->block_bytes += of_class.used * of_class.size;
        usage->free_blocks += of_class.free;
    }
}
