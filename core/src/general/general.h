// SPDX-License-Identifier: MIT
//
// general: blocks of up to 32 KB for any program. Segments (runs of pages with blocks of one size
// class, no headers) are shared by all threads, behind a lock for each class; a thread keeps the
// blocks that it uses most in a cache of its own, which needs no lock. docs/design/general.md says
// what was chosen over what.
//
//   malloc, free  ->  cache of the thread  ->  bin of the class  ->  segments  ->  arena of the
//   caller
//
// A block is in one of three places: with the program, in one cache, or marked free in its segment.
#ifndef PW_GENERAL_GENERAL_H
#define PW_GENERAL_GENERAL_H

#include "extent/extent.h"
#include "general/classes.h"
#include "pagewise.h"

#include <pthread.h>

// --- segments --------------------------------------------------------------------------

#define PW_SEGMENT_MOST_BLOCKS 512u
#define PW_SEGMENT_MOST_PAGES  32u
#define PW_SEGMENT_LISTS       4u   // by how full they are, in quarters
#define PW_CACHE_MOST_BLOCKS   128u // of one class in one cache

struct pw_segment {
    struct pw_segment *next, *previous; // of its bin's list
    char *start;
    struct pw_extent *extent;
    uint8_t class_number;
    uint8_t list; // which of its bin's lists; PW_SEGMENT_LISTS: none, it is full
    uint16_t blocks, free;
    uint32_t absent; // pages without memory: never touched, or given back
    uint32_t idle;   // pages that held no block at the last look, and since
    uint64_t map[PW_SEGMENT_MOST_BLOCKS / 64]; // 1: free
};

struct pw_class_info {
    uint32_t size;                    // bytes of a block
    uint32_t reciprocal;              // 2^32 / size, rounded up: divides offsets in a segment
    uint16_t blocks;                  // of a segment
    uint16_t pages;                   // of a segment
    uint32_t quarter;                 // 4 * 65536 / blocks: blocks in use to list
    uint16_t group;                   // blocks of a thread's first lines: 4, 2 or 1
    uint16_t cache_least, cache_most; // blocks in a thread's cache
    uint32_t slots_at;                // in a cache's slots
};

struct pw_bin {
    _Alignas(64) pthread_mutex_t lock;
    struct pw_segment *lists[PW_SEGMENT_LISTS];
    uint32_t segments, empties;
    int64_t free;   // blocks in its segments, read without the lock as the next one
    int64_t lowest; // of `free` since the last look
};

// --- caches ----------------------------------------------------------------------------

// A stack of blocks. Under the lowest one lies NULL, so that `top` always points to something.
struct pw_stack {
    void **top, **limit;
};

struct pw_cache {
    struct pw_stack stacks[PW_GENERAL_CLASSES];
    struct pw_cache *next;            // spare one
    uint32_t operations;              // that did not end in a cache
    uint32_t epoch;                   // of the last emptying that this thread has seen
    uint8_t busy[PW_GENERAL_CLASSES]; // stack ran empty or full since the last tick
    void *slots[];
};

// What a thread knows. `cache` is never NULL: where there is none yet, or no longer, it is one that
// is empty and full at once.
struct pw_general_thread {
    struct pw_cache *cache;
    bool inside;    // in the middle of our own work
    bool ended;     // its cache was given back at the thread's end
    bool holds_all; // all locks, for a fork
};

// What a thread has before its first block and after its end: empty, and full.
extern const struct pw_cache pw_cache_none;

PW_API extern __thread struct pw_general_thread pw_general_thread
    __attribute__((tls_model("initial-exec")));

// --- the shelf ---------------------------------------------------------------------------

// Released medium blocks. To the arena each is a block in use; the table of classes says of its
// first page which class it is, and whether it lies here.
#define PW_SHELF_STRIPES 4u
#define PW_SHELF_PLACES  16u   // of one class in one stripe
#define PW_CLASS_SHELVED 0x80u // in the table of classes

// A stripe is one thread's at a time, and nobody waits for it: who finds it taken goes elsewhere.
struct pw_shelf {
    _Alignas(64) bool taken;
    uint8_t counts[PW_MEDIUM_CLASSES]; // of places in use, the first ones
    int64_t pages;                     // of the blocks in them
    uintptr_t places[PW_MEDIUM_CLASSES][PW_SHELF_PLACES];
};

// --- the heap --------------------------------------------------------------------------

// What the room needs of its caller. All are called with no lock of ours that they could need.
struct pw_general_host {
    // Pages for a segment, in state PW_EXTENT_SEGMENT; NULL: none.
    struct pw_extent *(*take)(void *context, uint32_t pages);
    // `absent` of its pages have no memory.
    void (*release)(void *context, struct pw_extent *extent, uint32_t absent);
    // A medium block that nobody asks for.
    void (*drop)(void *context, void *block);
    // A look was made.
    void (*looked)(void *context);
    // This thread has a cache now: pw_cache_end is to be called when it ends.
    void (*thread_began)(void *context);
    // The program has released what was no live block. Does not return.
    void (*misuse)(void *context);
    void *context;
};

struct pw_general {
    struct pw_arena *arena;
    struct pw_general_host host;
    struct pw_stats *stats;
    uint8_t *classes;      // page of the arena -> class + 1; 0: no segment's. The arena's labels
    uint32_t *fork_marker; // PW_FORK_*; zero in a child that has not noticed yet. May be NULL
    bool other_libraries;  // C libraries: theirs may have started threads that ours does not know
    unsigned decay_ms;     // 0: idle pages are never given back
    bool orphaned;         // a lock is held by a thread that this process does not have
    bool keeper_wanted;    // the host's: pages are warm, and no thread gives them back yet
    uint32_t epoch;        // raised to have all threads empty their caches
    uint64_t asked_ms;     // the host's: when it last cared for what lies on the shelf
    uint64_t idle_pages;   // without a block at the last look, and not given back by it
    uint64_t looked_ms;    // when idle pages were last looked for
    struct pw_class_info info[PW_GENERAL_CLASSES];
    struct pw_bin bins[PW_GENERAL_CLASSES];
    bool shelf_open;
    int64_t shelf_most; // pages in a stripe
    struct pw_shelf shelves[PW_SHELF_STRIPES];

    pthread_mutex_t tables; // guards what follows
    struct pw_segment *spare_segments;
    struct pw_cache *spare_caches;
    char *table, *table_end;
    size_t cache_size; // bytes
};

// The arena must have been started. False: it has pages already.
bool pw_general_start(struct pw_general *general, struct pw_arena *arena, struct pw_stats *stats,
                      const struct pw_general_host *host);

// The slow halves of allocation and release, for a thread whose cache is empty or full. NULL: there
// are no pages, or this thread is in the middle of our own work.
void *pw_cache_refill(struct pw_general *general, unsigned class_number);
void pw_cache_flush(struct pw_general *general, unsigned class_number, void *block);

// Give the thread's cache back, at its end.
void pw_cache_end(struct pw_general *general);

// Keep medium blocks from now on, at most so many pages of them.
void pw_shelf_open(struct pw_general *general);
void pw_shelf_allow(struct pw_general *general, uint64_t pages);
uint64_t pw_shelf_pages(const struct pw_general *general);
size_t pw_shelf_blocks(const struct pw_general *general);

// A block of the class; NULL: there is none.
void *pw_shelf_take(struct pw_general *general, unsigned class_number);

// False: it was not kept, and the caller has it. One that was released before is misuse.
bool pw_shelf_put(struct pw_general *general, unsigned class_number, void *block);

// A block of the arena is one of the class from now on, and can be put here.
void pw_shelf_name(struct pw_general *general, unsigned class_number, void *block);
// It is released, whether it had a name or not.
void pw_shelf_forget(struct pw_general *general, const void *block);

// Drop what was here at the last look and still is; or all.
void pw_shelf_look(struct pw_general *general, bool all);

// In a child: what is here is not to be used.
void pw_shelf_clear(struct pw_general *general);

// Give back what holds no block: this thread's cache at once, other threads' when they next come
// here; pages inside segments; empty segments (to the arena). Returns bytes of pages given back to
// the kernel.
size_t pw_general_trim(struct pw_general *general);

// For who has reached the program's limit: drop what lies on the shelf, and where there is `time`
// do as pw_general_trim.
void pw_general_make_room(struct pw_general *general, bool time);

// The same for pages and segments that held no block at the last look either.
size_t pw_general_look(struct pw_general *general);

// Two in a row: all that holds no block goes at once.
void pw_general_look_twice(struct pw_general *general);

// Pages that further looks may give back, about.
uint64_t pw_general_idle_pages(const struct pw_general *general);

// Is much more of the class free than at some time since the last look?
bool pw_general_has_shrunk(const struct pw_general *general, unsigned class_number);

// The arena is about to be sealed: make no system calls from now on. What pages the arena has can
// still become segments.
void pw_general_seal(struct pw_general *general);

// After that: wait for other threads' looks that had begun. For who holds no lock of ours.
void pw_general_wait_for_looks(struct pw_general *general);

// A look, if the last one was half a decay time ago and the locks of this process are not lost. For
// who is not at work here and holds no lock.
void pw_general_look_when_due(struct pw_general *general);

// Around a fork: take all locks, but in a thread that was interrupted in the middle of our own
// work. `goes_on`: the child was forked out of a signal handler in the middle of another fork,
// which goes on in it when the handler returns, and gives the locks back. `had_others`: threads may
// have gone on meanwhile, where no lock was taken.
void pw_general_before_fork(struct pw_general *general);
void pw_general_after_fork_parent(struct pw_general *general);
void pw_general_after_fork_child(struct pw_general *general, bool goes_on, bool had_others);

// Bytes of segments, and of their blocks that are with the program or in a cache.
struct pw_general_usage {
    size_t segment_bytes, block_bytes, free_blocks;
};
void pw_general_usage(const struct pw_general *general, struct pw_general_usage *usage);

// The same of one class: blocks that are free in its segments, and others.
struct pw_class_usage {
    size_t size, segments, segment_bytes, used, free;
};
void pw_general_class_usage(const struct pw_general *general, unsigned class_number,
                            struct pw_class_usage *usage);

// --- the fast halves -------------------------------------------------------------------

// The class of the page at `offset` bytes from the arena's base, plus one; 0: no segment's.
static inline unsigned pw_general_class_at(const uint8_t *classes, uintptr_t offset) {
    return __atomic_load_n(&classes[offset >> PW_PAGE_SHIFT], __ATOMIC_RELAXED);
}

// NULL: the cache is empty.
static inline void *pw_cache_pop(unsigned class_number) {
    struct pw_stack *stack = &pw_general_thread.cache->stacks[class_number];
    void *block = *stack->top;
    if (__builtin_expect(block != NULL, 1)) {
        stack->top--;
    }
    return block;
}

// False: the cache is full, or the block is the one that was put in last: released twice.
static inline bool pw_cache_push(unsigned class_number, void *block) {
    struct pw_stack *stack = &pw_general_thread.cache->stacks[class_number];
    void **top = stack->top;
    if (__builtin_expect(top >= stack->limit || *top == block, 0)) {
        return false;
    }
    top[1] = block;
    stack->top = top + 1;
    return true;
}

// Was the block put in last, and not taken since?
static inline bool pw_cache_is_last(unsigned class_number, const void *block) {
    return *pw_general_thread.cache->stacks[class_number].top == block;
}

// --- between the files of this room ------------------------------------------------------

// Of a segment, first and last included.
struct pw_block_range {
    unsigned first, last;
};

// The blocks that lie on the page, at least in part.
static inline struct pw_block_range pw_blocks_on_page(const struct pw_class_info *info,
                                                      unsigned page) {
    uint32_t start = page * (uint32_t)PW_PAGE, end = start + (uint32_t)PW_PAGE - 1;
    unsigned last = end / info->size;
    return (struct pw_block_range){start / info->size,
                                   last < info->blocks ? last : info->blocks - 1u};
}

// Which bits of a map's word (one that the range touches) are the range's.
static inline uint64_t pw_bits_of_word(struct pw_block_range blocks, unsigned word) {
    uint64_t bits = ~(uint64_t)0;
    if (word == blocks.first / 64) {
        bits &= ~(uint64_t)0 << (blocks.first % 64);
    }
    if (word == blocks.last / 64) {
        bits &= ~(uint64_t)0 >> (63 - blocks.last % 64);
    }
    return bits;
}

// Up to `count` blocks, in rising order where they are next to each other; returns how many.
unsigned pw_bin_take(struct pw_general *general, unsigned class_number, void **blocks,
                     unsigned count);
void pw_bin_give(struct pw_general *general, unsigned class_number, void **blocks, unsigned count);

// Have no other thread in the bin.
void pw_bin_enter(struct pw_bin *bin);
void pw_bin_leave(struct pw_bin *bin);

// Put the segment into the list it belongs to, or out of all.
void pw_segment_list(struct pw_bin *bin, struct pw_segment *segment, unsigned list);

// An empty segment is the bin's no more.
void pw_bin_remove(struct pw_bin *bin, struct pw_segment *segment);

// Give an empty segment that is in no list back to the arena.
void pw_segment_release(struct pw_general *general, struct pw_segment *segment);

// Zeroed bytes for tables that are never given back; the caller holds `tables`. NULL: none.
void *pw_general_table(struct pw_general *general, size_t size);
void pw_general_enter_tables(struct pw_general *general);
void pw_general_leave_tables(struct pw_general *general);

// For who holds none: no lock is held by a thread that this process does not have.
bool pw_general_finds_locks_free(struct pw_general *general);

// In a child, once: is there a lock that nobody gives back?
void pw_general_notice_fork(struct pw_general *general);

// What the marker of forks reads: in a child that has not noticed yet, while one of its threads
// clears what others left in between, and from then on.
#define PW_FORK_UNNOTICED     0u
#define PW_FORK_NOTICED       1u
#define PW_FORK_BEING_NOTICED 2u

static inline bool pw_general_knows_process(const struct pw_general *general) {
    return !general->fork_marker ||
           __atomic_load_n(general->fork_marker, __ATOMIC_ACQUIRE) == PW_FORK_NOTICED;
}

// Begin and end work of ours in this thread. False: it is in the middle of some already, the locks
// of this process are lost, or another thread is noticing that it is a fork's child.
static inline bool pw_general_enter(struct pw_general *general) {
    if (pw_general_thread.inside) {
        return false;
    }
    pw_general_thread.inside = true;
    if (!pw_general_knows_process(general) && !pw_general_thread.holds_all) {
        pw_general_notice_fork(general);
    }
    bool is_known = pw_general_knows_process(general) || pw_general_thread.holds_all;
    if (!is_known || __atomic_load_n(&general->orphaned, __ATOMIC_RELAXED)) {
        pw_general_thread.inside = false;
        return false;
    }
    return true;
}

static inline void pw_general_leave(void) {
    pw_general_thread.inside = false;
}

#endif
