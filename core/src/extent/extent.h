// SPDX-License-Identifier: MIT
//
// extent: page-granular address ranges. One contiguous arena, a registry from address to extent,
// and the pool of free extents: warm ones (backed by memory) and cold ones (not).
//
// Nothing here takes a lock: callers hold the heap's.
#ifndef PW_EXTENT_EXTENT_H
#define PW_EXTENT_EXTENT_H

#include "os/os.h"
#include "stats/stats.h"

enum pw_extent_state {
    PW_EXTENT_NONE,    // not an extent, or one between two states
    PW_EXTENT_USED,    // a block
    PW_EXTENT_WARM,    // free and backed by memory
    PW_EXTENT_COLD,    // free, reads zero, costs nothing
    PW_EXTENT_SEGMENT, // small blocks of one size: not found as a block
    PW_EXTENT_LOST,    // a failed system call left it in a state that must not be reused
};

// What the program has done to the mapping of a block: protection, advice, a lock, other pages.
enum pw_altered {
    PW_NOT_ALTERED,
    PW_ALTERED,
    PW_ALTERED_HEADER, // its first page too, which may not even be readable
};

struct pw_extent {
    uint32_t page, pages;    // place in the arena and length, in pages
    uint32_t next, previous; // in the list of a size bin; 0 ends it
    uint8_t state;           // enum pw_extent_state
    bool may_share;          // allocated by a module whose blocks may be shared and zero reclaimed
    uint8_t hugetlb;         // log2 of the size of its pages from the hugetlb pool; 0: none
    bool fixed;              // its pages are not shared, moved or kept: hugetlb, or locked
    bool locked;             // by us, because that is wished for
    uint8_t altered;         // enum pw_altered; until it is released, and mapped anew
    bool watched_by_file;    // altered by userfaultfd: who reads or unmaps it may wait for a thread
    bool of_file;            // of pages in the mapping of a snapshot's file, though on none
    bool untouched;          // no page from warm_pages on has been handed out before
    bool zero_young;         // not searched for zero pages yet
    bool zero_at_peak;       // may be searched before a new peak, while it is young
    uint16_t zero_wait;      // collections until its first full search
    uint8_t zero_backoff;    // log2 of the collections to skip before the next zero scan
    bool judged;             // the predictor has seen what became of this copy
    bool copied;             // its shared pages came by a copy into it, not out of it
    bool watched;            // a plain copy that the predictor watches
    bool mmapcopied;         // mmapcopy(2) has copied pages of it, from it or to it
    bool put_off;            // a block that was released, and waits for the lock
    bool lazy;               // zeros were asked for, and its pages are made when they are written
    bool sparse;          // pages in it may be absent: zeros that were never written, or given back
    uint32_t data_offset; // of the block's first byte in the extent, at most one page
    uint32_t warm_pages;  // of a block: how many leading pages were warm when it was allocated
    uint32_t huge_pages;  // pages for which huge ones were advised, from its second page on
    uint32_t generation;  // changes whenever the extent becomes another one
    uint32_t moved;       // mappings of its own in it, at most: pages that came from elsewhere
    uint32_t zero_given;  // pages that zero reclaim has given back
    uint32_t zero_given_at; // most of them at this collection
    uint32_t zero_due;      // collection at which the next zero scan is due
    uint32_t stamp;         // of a warm extent: when it was freed, in units of 256 ms
    union {
        size_t user_size;           // of a block: bytes asked for
        struct pw_segment *segment; // the general room's
    };

    // The share room's: pages [share_first, share_first + share_pages) are mapped onto `snapshot`
    // from its page share_offset on. snapshot 0: not mapped onto one; of a block with `mmapcopied`
    // the same pages may be shared all the same, with blocks of which the kernel alone keeps
    // account.
    uint32_t snapshot, share_first, share_pages, share_offset;
    uint32_t next_member, previous_member; // of the same snapshot
    // Of a copy made by mmapcopy(2), page copy_first on: which pages of which block it is a copy
    // of.
    uint32_t origin, origin_generation, copy_first, copy_pages;
    uint64_t site; // who asked for the copy
    uint64_t born; // of a copy whose lifetime is counted: when it was made, ms
};

#define PW_ARENA_STEP_PAGES ((uint32_t)((16 << 20) / PW_PAGE)) // grows by 16 MB
// After so many fresh pages (8 MB) a look at what is there costs little against filling them.
#define PW_ARENA_LOOK_PAGES ((uint32_t)pw_pages_for(8 << 20))
#define PW_ARENA_STEPS      (1u << 16) // to 1 TB
#define PW_EXTENT_CHUNK     1024u      // extents in one table chunk
#define PW_EXTENT_CHUNKS    1024u      // at most about a million extents
#define PW_SIZE_BINS        256

// A free list for each size: exact below 64 pages, then eight to a doubling.
struct pw_bins {
    uint32_t head[PW_SIZE_BINS], tail[PW_SIZE_BINS];
    uint64_t occupied[PW_SIZE_BINS / 64];
};

// A program may have so many mappings that few are left under vm.max_map_count. What raises their
// number (sharing, moving pages, advice) must not take the last ones, or the program's next malloc
// fails where it would not have without us. A reserve is held before the first such step: pages of
// which every other one is protected differently, each a mapping. It is given up when a mapping
// fails and mappings are short; until it can be had again, and as many on top, those steps wait.
#define PW_MAPPINGS_RESERVE 64u

// Pages that were moved keep the number that their first place gave them, and their mapping never
// becomes one with its neighbours'. So many such mappings there may be, of which small ones leave
// most to those whose copy would be dear; beyond them pages are copied.
#define PW_MOVED_MOST        2048u
#define PW_MOVED_SMALL_MOST  512u
#define PW_MOVED_SMALL_PAGES ((uint32_t)pw_pages_for(1 << 20))

struct pw_mappings {
    char *reserve;     // NULL: no address space for it yet
    bool held;         // it consists of PW_MAPPINGS_RESERVE mappings more than one
    bool given_up;     // it was not to be had, or no longer
    uint64_t retry_ms; // if so: when to try again
    uint64_t moved;    // of all extents
};

struct pw_arena {
    char *base;          // NULL: not started
    uint32_t end;        // pages in the arena so far
    uint32_t most_steps; // it grows to so many
    struct pw_stats *stats;
    uint32_t *index[PW_ARENA_STEPS]; // page -> extent, a leaf a step
    uint8_t *labels;                 // a byte a page, before `base`; NULL: none
    uint32_t labelled_steps;
    struct pw_extent *extents[PW_EXTENT_CHUNKS];
    uint32_t extent_count, free_extent;
    struct pw_bins warm, cold;
    uint64_t warm_pages;     // pages in the warm pool
    uint64_t warm_low;       // fewest of them since the last trim
    uint32_t trimmed_at;     // on the clock
    uint64_t live_pages;     // pages of blocks
    char *table, *table_end; // what is left of the current table chunk
    struct pw_mappings mappings;
    bool sealed;      // no system calls any more (pw_arena_seal)
    const char *hole; // in the extent that is released next, and cannot be filled again; NULL: none

    // The memory rule: live + what the C library holds + the request; its highest value so far.
    uint64_t highest_pages;
    uint64_t highest_used; // the same of what was there besides warm pages
    uint64_t fresh_pages;  // handed out without memory, in all
    uint64_t fresh_then;   // of these, when what is there was last compared
    uint64_t slack_percent;
    bool has_huge;             // huge pages were advised somewhere
    uint32_t hugetlb_blocks;   // blocks with pages of the hugetlb pool
    bool return_address_space; // free steps at the end are unmapped
    uint64_t foreign_pages;    // what the C library's heap grew, told by the front
};

bool pw_arena_start(struct pw_arena *arena, struct pw_stats *stats, unsigned slack_percent);

// Give each page a byte of its own, zero at first, for the caller's use: of all pages up to `end`
// it can be read and written without a lock. The arena moves for it. False: it has pages already.
bool pw_arena_start_labels(struct pw_arena *arena);

static inline bool pw_arena_contains(const struct pw_arena *arena, const void *address) {
    uintptr_t offset = (uintptr_t)address - (uintptr_t)arena->base;
    return arena->base && offset < (uintptr_t)arena->end * PW_PAGE;
}

static inline struct pw_extent *pw_extent_at(struct pw_arena *arena, uint32_t number) {
    return &arena->extents[number / PW_EXTENT_CHUNK][number % PW_EXTENT_CHUNK];
}

// Do pages of it cost nothing until they are written? Then they are not warm when it is freed.
static inline bool pw_extent_is_shared(const struct pw_extent *extent) {
    return extent->snapshot || extent->mmapcopied;
}

uint32_t pw_extent_number(const struct pw_arena *arena, const struct pw_extent *extent);

static inline char *pw_extent_address(const struct pw_arena *arena,
                                      const struct pw_extent *extent) {
    return arena->base + (size_t)extent->page * PW_PAGE;
}

// Does the stack of the caller lie in it, a coroutine's? Then its pages are not replaced, nor any
// given back: between the look and the change we write to them ourselves.
static inline bool pw_extent_holds_stack(const struct pw_arena *arena,
                                         const struct pw_extent *extent) {
    const char *here = __builtin_frame_address(0);
    return (uintptr_t)here - (uintptr_t)pw_extent_address(arena, extent) <
           (size_t)extent->pages * PW_PAGE;
}

// The program has changed how the block is mapped: from now on its pages stay as they are, and when
// it is released they are replaced.
static inline void pw_extent_alter(struct pw_extent *extent, bool header) {
    enum pw_altered altered = header ? PW_ALTERED_HEADER : PW_ALTERED;
    extent->altered = extent->altered > altered ? extent->altered : (uint8_t)altered;
    extent->fixed = true;
    extent->may_share = extent->untouched = false;
}

// The extent of a page that is in use and stays so meanwhile. Needs no lock.
static inline struct pw_extent *pw_arena_extent_of_page(struct pw_arena *arena, uint32_t page) {
    uint32_t *leaf = arena->index[page / PW_ARENA_STEP_PAGES];
    return pw_extent_at(arena, leaf[page % PW_ARENA_STEP_PAGES]);
}

// The block that contains `address` in any of its pages; NULL when there is none.
struct pw_extent *pw_arena_find(struct pw_arena *arena, const void *address);

// Is `address` in a part of the arena's range that the program had mapped itself?
bool pw_arena_is_foreign(struct pw_arena *arena, const void *address);

// Take pages for a block. Each returns an extent of exactly `pages` with warm_pages set, in state
// NONE, or NULL; pw_arena_use then makes it a block.
struct pw_extent *pw_arena_take_warm(struct pw_arena *arena, uint32_t pages);
struct pw_extent *pw_arena_take_mixed(struct pw_arena *arena, uint32_t pages);
// `unit`: the extent's second page starts at a multiple of so many pages, for huge pages behind the
// header page; 0: anywhere.
struct pw_extent *pw_arena_take_cold(struct pw_arena *arena, uint32_t pages, uint32_t unit);

// An extent whose first page is at a multiple of `unit` pages, a power of two; warm rather than
// cold.
struct pw_extent *pw_arena_take_aligned(struct pw_arena *arena, uint32_t pages, uint32_t unit);

// Call `visit` with each block, in no order.
typedef void pw_arena_visit(void *context, struct pw_arena *arena, struct pw_extent *extent);
void pw_arena_each(struct pw_arena *arena, pw_arena_visit *visit, void *context);
// Fill a cold extent from the largest warm pieces, leaving those cold. False: it is of no use any
// more, and was put aside.
bool pw_arena_gather(struct pw_arena *arena, struct pw_extent *extent);

// Are `pages` free pages behind a block, warm ones first, or can the arena be made longer there? If
// so, pw_arena_extend makes exactly so many the block's, which pw_arena_use then has to make known;
// it returns how many of them are warm, the first ones.
bool pw_arena_has_behind(struct pw_arena *arena, const struct pw_extent *extent, uint32_t pages);
uint32_t pw_arena_extend(struct pw_arena *arena, struct pw_extent *extent, uint32_t pages);

// Make a taken extent a block: from now on every address in it is found.
void pw_arena_use(struct pw_arena *arena, struct pw_extent *extent);

// Pages [first, end) of a block are about to be replaced: those that were warm when it was
// allocated go back to the pool, if there are some. What is left there is undefined.
void pw_arena_save_warm(struct pw_arena *arena, struct pw_extent *extent, uint32_t first,
                        uint32_t end);

// Return an extent to the pool, WARM or COLD, or put it aside as LOST.
void pw_arena_release(struct pw_arena *arena, struct pw_extent *extent, enum pw_extent_state state);

// Take a free extent out of the pool, to be released again.
void pw_arena_withdraw(struct pw_arena *arena, struct pw_extent *extent);

// The process's resident pages by the kernel's count, read at most once at a look and handed to
// whoever needs it. Zeroed: not read yet.
struct pw_resident {
    uint64_t pages; // 0: not known
    bool is_read;
};

// Opens a file at the first call: some microseconds.
uint64_t pw_resident_pages(struct pw_resident *resident);

// So many pages were given back since.
void pw_resident_less(struct pw_resident *resident, uint64_t pages);

// Return to the kernel what the memory rule does not allow, with `fresh` pages about to be used and
// `taken` ones that were warm. Neither count as live yet.
void pw_arena_keep_rule(struct pw_arena *arena, uint64_t taken, uint64_t fresh,
                        struct pw_resident *resident);

// So many pages of the process were seen to be there, warm ones among them. 0: not known.
void pw_arena_note_resident(struct pw_arena *arena, uint64_t resident);

// May a step be taken that raises the number of mappings? Takes the reserve if it is not held. When
// false, the reason has been counted.
bool pw_mappings_may_rise(struct pw_arena *arena);

// May so many pages be moved? Likewise.
bool pw_arena_may_move(struct pw_arena *arena, uint32_t pages);

// Pages of an extent have become those of another one.
void pw_arena_count_moved(struct pw_arena *arena, struct pw_extent *extent, uint32_t moved);

// Something failed that may have needed a mapping. True when mappings were short and the reserve
// has been given up: it is worth trying again.
bool pw_mappings_relieve(struct pw_arena *arena);

// Give the reserve up for good.
void pw_mappings_end(struct pw_arena *arena);

// New zero pages in place of what is mapped at `address`, with the reserve's help if need be.
// False: what was there is there still, or nothing is, and cannot be: then pw_arena_release puts
// the extent aside in which it lies.
bool pw_arena_blank(struct pw_arena *arena, char *address, size_t size);

// After a failed call that may have left a hole there: make the place memory again that reads zero
// (but for what a file shows). False: it cannot be (a limit was lowered since, RLIMIT_DATA or
// RLIMIT_AS); a hole is kept from others as far as it can be, and nobody may be handed the place.
bool pw_arena_mend(struct pw_arena *arena, char *address, size_t size);

// Give the memory of dead pages back where they cannot be made blank: the place is LOST then.
bool pw_arena_abandon(char *address, size_t size);

// Move pages to a place in the arena whose contents are dead. False: they are where they were, and
// the fall-back has been counted. The place is blank, or cannot be made memory any more: then
// pw_arena_release puts the extent aside in which it lies.
bool pw_arena_move(struct pw_arena *arena, char *from, size_t size, char *to);
bool pw_arena_has_hole(const struct pw_arena *arena, const struct pw_extent *extent);

// The same of one mapping that becomes larger, and keeps all that the program did to it. Nothing is
// mapped where it was.
bool pw_arena_move_larger(struct pw_arena *arena, char *from, size_t size, char *to, size_t larger);

// Make such a place memory again. False: it is not, and somebody else may have it.
bool pw_arena_map_again(struct pw_arena *arena, char *address, size_t size);

// Give back warm pages: at least `pages` of them / those idle since before `stamp`, `most` and the
// rest of an extent. Returns pages.
uint64_t pw_arena_purge(struct pw_arena *arena, uint64_t pages);
uint64_t pw_arena_decay(struct pw_arena *arena, uint32_t stamp, uint64_t most);

// The program was refused address space: give back all warm pages, and unmap the free steps at the
// end. Returns pages that were unmapped.
uint64_t pw_arena_shrink(struct pw_arena *arena);

// A collection ended: give back as many warm pages as were not needed since the last one that was
// at least a quarter of a second ago. Returns pages.
uint64_t pw_arena_trim_surplus(struct pw_arena *arena, struct pw_resident *resident);

// From now on make no system calls: what pages there are can be handed out and taken back, and
// nothing else happens to them.
void pw_arena_seal(struct pw_arena *arena);

// An extent was unmapped by the caller, and the range is anybody's.
void pw_arena_disown(struct pw_arena *arena, struct pw_extent *extent);

// Clock of pw_extent.stamp.
static inline uint32_t pw_arena_clock(void) {
    return (uint32_t)(pw_os_now_ms() >> 8);
}

#endif
