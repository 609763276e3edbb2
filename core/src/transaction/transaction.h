// SPDX-License-Identifier: MIT
//
// transaction: blocks that die together. The heap of pagewise.h is, from the inside out:
//
//     chunk.c    4 MB ranges from the kernel and the segments they are cut into
//     large.c    blocks of whole segments, and blocks larger than a chunk
//     inspect.c  walk and statistics: computed from the free lists when asked, never counted along
//     reclaim.c  empty segments that leave their class
//     plain.c    size classes, free-all
//     checked.c  the heap with PW_HEAP_CHECKED, around a plain one
//     heap.c     the calls of pagewise.h
//     region.c   the bump region
#ifndef PW_TRANSACTION_TRANSACTION_H
#define PW_TRANSACTION_TRANSACTION_H

#include "os/os.h"
#include "pagewise.h"
#include "pagewise_heap.h"

#define PW_GRANULES          ((unsigned)(PW_HEAP_CHUNK >> PW_HEAP_GRANULE_SHIFT))
#define PW_SMALLEST_SEGMENT  ((size_t)1 << PW_HEAP_GRANULE_SHIFT)
#define PW_DEFAULT_SEGMENT   ((size_t)32 << 10)
#define PW_LARGEST_SEGMENT   ((size_t)256 << 10)
#define PW_LARGEST_ALIGNMENT ((size_t)1 << 20)
#define PW_NATURAL_ALIGNMENT ((size_t)16)
// What a block may measure at most: beyond, sums of sizes could overflow.
#define PW_LARGEST_BLOCK ((size_t)1 << 46)

// Class notes that are no class: a block of whole segments begins here; a block larger than a
// chunk.
enum { PW_NOTE_LARGE = 0xfe, PW_NOTE_GIANT = 0xfd };

// What is known about a chunk, in its second page; the class notes are in the first. Both lie in
// segment 0, which is never handed out.
struct pw_chunk {
    uint64_t transaction;            // what follows is of this one; else all segments are free
    unsigned free_segments;          // in this chunk
    unsigned touched;                // segments from here on were never written
    unsigned index;                  // in the heap's table
    uint64_t used[PW_GRANULES / 64]; // one bit a segment
    uint16_t run[PW_GRANULES];       // segments of the large block that begins here
    uint16_t scratch[PW_GRANULES];   // inspect.c counts in it
};

// A block larger than a chunk: a mapping of its own that begins like a chunk.
struct pw_giant {
    struct pw_giant *next, *previous; // of its list
    char *block;
    uint64_t retired;    // the transaction that used it last
    size_t mapped_bytes; // from this chunk's start
};

struct pw_checker;
struct pw_heap_whole;

// What a heap does where it would fail, so that another try is worth while: a checked one does it
// with the heap inside, by its own table.
struct pw_last_resorts {
    size_t (*reclaim)(struct pw_heap_whole *heap); // segments that leave their class: bytes
    bool (*let_go)(struct pw_heap_whole *heap);    // of blocks that are held back. False: of none
    void (*count_free_blocks)(struct pw_heap_whole *heap); // of each segment (inspect.c)
    // The machine has no memory for another chunk, for a giant. Was something given up?
    bool (*refused_chunk)(struct pw_heap_whole *heap);
    bool (*refused_giant)(struct pw_heap_whole *heap);
};

// In chunks before this one there are not so many free segments side by side. Of the sizes between
// two powers of two one is known, and serves for larger ones.
struct pw_no_run {
    unsigned count, before; // 0: nothing is known
};
#define PW_RUN_KINDS 9u // up to PW_GRANULES segments

struct pw_heap_whole {
    struct pw_heap hot; // first: the public type
    unsigned segment_shift;
    unsigned chunk_segments; // in a chunk, with segment 0
    size_t largest_small;
    uint64_t transaction; // from 1
    struct pw_heap_options options;
    bool asks_nobody; // at the limit
    const struct pw_last_resorts *resorts;
    struct pw_checker *checker;  // PW_HEAP_CHECKED
    struct pw_heap_whole *outer; // the checked heap around this one

    struct pw_chunk **chunks; // tables of known chunks, in the order of their use
    unsigned chunk_count, chunk_capacity;
    unsigned first_with_room; // chunks before this one have no free segment
    struct pw_no_run no_runs[PW_RUN_KINDS];
    unsigned chunks_used;       // in this transaction
    unsigned sixteenths_wanted; // of chunks, by recent transactions
    struct pw_giant *giants;    // in use
    struct pw_giant *idle_giants;
    size_t idle_giant_bytes, giant_bytes;

    size_t segment_bytes; // in use
    size_t peak_segment_bytes;
    uint64_t returned_bytes;
    size_t mapping_bytes; // of this struct's own mapping
    void *mapping;
};

static inline struct pw_heap_whole *pw_whole(struct pw_heap *heap) {
    return (struct pw_heap_whole *)heap;
}

static inline size_t pw_segment_size(const struct pw_heap_whole *heap) {
    return (size_t)1 << heap->segment_shift;
}

// The class of any size, packed ones left out; PW_HEAP_EVEN_CLASSES and more: none.
static inline unsigned pw_class_of(size_t size) {
    if (size <= PW_HEAP_TABLE_BYTES) {
        return pw_heap_class_table[(size + 7) >> 3];
    }
    return 21 + 64 - (unsigned)__builtin_clzl((size - 1) >> 10);
}

static inline size_t pw_round_up(size_t size, size_t multiple) {
    return (size + multiple - 1) & ~(multiple - 1);
}

// --- chunk.c -------------------------------------------------------------------

static inline char *pw_chunk_start(const void *inside) {
    return (char *)((uintptr_t)inside & ~(PW_HEAP_CHUNK - 1));
}

// In the first segment, whatever the size of pages; blocks begin with the second one.
#define PW_CHUNK_TABLE_AT ((size_t)4096)
_Static_assert(PW_CHUNK_TABLE_AT + sizeof(struct pw_chunk) <= PW_SMALLEST_SEGMENT,
               "the table must not reach into the second segment");

static inline struct pw_chunk *pw_chunk_of(const void *inside) {
    return (struct pw_chunk *)(pw_chunk_start(inside) + PW_CHUNK_TABLE_AT);
}

static inline unsigned pw_segment_of(const struct pw_heap_whole *heap, const void *inside) {
    return (unsigned)(((uintptr_t)inside & (PW_HEAP_CHUNK - 1)) >> heap->segment_shift);
}

// Does the chunk hold anything of the present transaction?
static inline bool pw_chunk_is_used(const struct pw_heap_whole *heap,
                                    const struct pw_chunk *chunk) {
    return chunk->transaction == heap->transaction;
}

// May `bytes` more be in use?
bool pw_limit_allows(const struct pw_heap_whole *heap, size_t bytes);
// Is another try worth while: have segments left their class, or does the program's own function
// want it, which may use the heap?
bool pw_limit_asks(struct pw_heap_whole *heap, size_t bytes);
// Both, until one has an answer.
bool pw_within_limit(struct pw_heap_whole *heap, size_t bytes);
void pw_count_segments(struct pw_heap_whole *heap, size_t bytes);

// `count` neighbouring free segments at a multiple of `alignment`, marked used; NULL without errno.
// *zero: they were never written.
char *pw_segments_take(struct pw_heap_whole *heap, unsigned count, size_t alignment, bool *zero);
// The same where there is room to grow in the chunks that are in use; NULL: there is not enough.
char *pw_segments_take_with_room(struct pw_heap_whole *heap, unsigned count, bool *zero);
void pw_segments_release(struct pw_heap_whole *heap, const void *first, unsigned count);
// Grow a run in place by `more` segments, if they are free.
bool pw_segments_extend(struct pw_heap_whole *heap, const void *first, unsigned count,
                        unsigned more);

// Unmap the chunks without a block, all but one. False: there were none.
bool pw_chunks_unmap_free(struct pw_heap_whole *heap);
// After free-all: give back what the options say.
void pw_chunks_return(struct pw_heap_whole *heap);
void pw_chunks_unmap(struct pw_heap_whole *heap);

// --- large.c -------------------------------------------------------------------

void *pw_large_take(struct pw_heap_whole *heap, size_t size, size_t alignment, bool *zero);
// The same for a block that has grown, and so will again: with room behind it.
void *pw_large_take_growing(struct pw_heap_whole *heap, size_t size);
void pw_large_release(struct pw_heap_whole *heap, void *block);
size_t pw_large_size(const struct pw_heap_whole *heap, const void *block);
// Make the block `size` bytes large where it is. False: it is as before.
bool pw_large_resize(struct pw_heap_whole *heap, void *block, size_t size);
// Give back the end of a block that is not needed: it stays where it is.
void pw_large_trim(struct pw_heap_whole *heap, void *block, size_t size);
// A block larger than a chunk, made larger without a copy: its new address. NULL: it is as before.
// Programs that append to a large string ask for little more at a time, and often.
void *pw_giant_grow(struct pw_heap_whole *heap, void *block, size_t size);
void pw_giants_free_all(struct pw_heap_whole *heap);
// After free-all: unmap one that has been idle for long, if there is such a one.
void pw_giants_age(struct pw_heap_whole *heap);
// Unmap those that are kept for later ones. False: there were none.
bool pw_giants_drop_idle(struct pw_heap_whole *heap);
void pw_giants_unmap(struct pw_heap_whole *heap);

// --- inspect.c -----------------------------------------------------------------

// The class of the segment's blocks; NULL: a large block begins here.
struct pw_heap_class *pw_class_in(struct pw_heap_whole *heap, const char *segment);
// Places of a segment that were ever blocks: all up to the fresh range, if that lies in it.
size_t pw_places_carved(const struct pw_heap_whole *heap, const struct pw_heap_class *of,
                        const char *start);
// Call `visit` with each segment of small blocks, and with the first of each large block. The
// visitor may release it.
typedef bool pw_segment_visitor(struct pw_heap_whole *heap, struct pw_chunk *chunk,
                                unsigned segment, char *start, void *context);
bool pw_each_segment(struct pw_heap_whole *heap, pw_segment_visitor *visit, void *context);
// Count the freed blocks of each segment, in the chunks' scratch space: by the free lists; or from
// none on, block by block.
void pw_count_free_blocks(struct pw_heap_whole *heap);
void pw_count_no_blocks(struct pw_heap_whole *heap);
void pw_count_free_block(struct pw_heap_whole *heap, const void *block);
bool pw_plain_walk(struct pw_heap_whole *heap, pw_heap_visitor *visit, void *context);
// Free blocks were counted.
void pw_plain_statistics(struct pw_heap_whole *heap, struct pw_heap_statistics *out);
bool pw_plain_contains(const struct pw_heap_whole *heap, const void *address);

// --- reclaim.c -----------------------------------------------------------------

// Segments without a live block leave their class. Returns their bytes.
size_t pw_segments_reclaim(struct pw_heap_whole *heap);
// Its two halves, for who unlinks the blocks otherwise: after pw_count_free_blocks, decide which
// segments leave (false: none does); and release them, once no list has blocks of them.
bool pw_segments_leave(struct pw_heap_whole *heap);
bool pw_segment_leaves(const struct pw_heap_whole *heap, const void *inside);
void pw_segments_release_leaving(struct pw_heap_whole *heap);
bool pw_refused_chunk(struct pw_heap_whole *heap);
bool pw_refused_giant(struct pw_heap_whole *heap);
extern const struct pw_last_resorts pw_plain_resorts;

// --- plain.c -------------------------------------------------------------------

bool pw_options_make_sense(const struct pw_heap_options *options);
// NULL: there is no memory. The options make sense.
struct pw_heap_whole *pw_plain_new(const struct pw_heap_options *options);
void pw_plain_delete(struct pw_heap_whole *heap);
// *zero: the block's bytes are known to be zero. NULL: ENOMEM, here and below.
void *pw_plain_alloc(struct pw_heap_whole *heap, size_t size, bool *zero);
void *pw_plain_alloc_small(struct pw_heap_whole *heap, unsigned class_number);
void *pw_plain_zalloc(struct pw_heap_whole *heap, size_t size);
void *pw_plain_aligned(struct pw_heap_whole *heap, size_t alignment, size_t size);
void pw_plain_free(struct pw_heap_whole *heap, void *block);
size_t pw_plain_usable_size(const struct pw_heap_whole *heap, const void *block);
void *pw_plain_realloc(struct pw_heap_whole *heap, void *block, size_t size);
void pw_plain_free_all(struct pw_heap_whole *heap);

// --- checked.c -----------------------------------------------------------------

bool pw_checker_new(struct pw_heap_whole *heap);
void pw_checker_delete(struct pw_heap_whole *heap);
void *pw_checker_alloc(struct pw_heap_whole *heap, size_t size, size_t alignment, bool zero);
void pw_checker_free(struct pw_heap_whole *heap, void *block);
void *pw_checker_realloc(struct pw_heap_whole *heap, void *block, size_t size);
size_t pw_checker_usable_size(struct pw_heap_whole *heap, const void *block);
void pw_checker_free_all(struct pw_heap_whole *heap);
bool pw_checker_walk(struct pw_heap_whole *heap, pw_heap_visitor *visit, void *context);
struct pw_heap_whole *pw_checker_inner(struct pw_heap_whole *heap);

#endif
