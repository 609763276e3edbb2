// SPDX-License-Identifier: MIT
//
// The heap with PW_HEAP_CHECKED: a plain one (the inner), and a table beside it of every block that
// was handed out, in this transaction and in recent ones. The program's struct pw_heap has no
// blocks of its own, so that each call leaves the hot path and arrives here.
//
// A block is followed by TAIL_BYTES or more of a pattern that an overflow changes. Freed blocks,
// and at free-all all memory in use, are filled with patterns of their own, which are looked at
// when the memory is handed out again: no later, and no earlier, is a write to it found. Freed
// blocks wait in a queue before that, so that most writes to them are.
#include "transaction/transaction.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAIL_BYTES         ((size_t)16)
#define TAIL_PATTERN       0xfbu
#define FREED_PATTERN      0xdfu
#define FREE_ALL_PATTERN   0xdau
#define QUEUE_BLOCKS       1024u
#define QUEUE_BYTES        ((size_t)4 << 20)
#define FIRST_ENTRIES      1024u
#define TRANSACTIONS_KNOWN 16u // whose blocks are told from foreign ones

struct entry {
    uintptr_t address; // 0: none
    size_t size;       // as asked for
    uint64_t transaction;
    bool freed;
    bool linked;    // in a free list of the inner heap, which keeps in its first bytes
    uintptr_t link; // the block behind it there
};

struct pw_checker {
    struct pw_heap_whole *inner;
    struct entry *entries;
    size_t capacity, count;
    uintptr_t thread; // that uses the heap in this transaction
    size_t queue_bytes;
    unsigned queue_first, queue_count;
    uintptr_t queue[QUEUE_BLOCKS];
};

// --- reports -----------------------------------------------------------------------

static const char *const misuse_texts[] = {
    [PW_HEAP_FOREIGN_FREE] = "not a block of this heap was freed",
    [PW_HEAP_INNER_FREE] = "an address inside a block was freed",
    [PW_HEAP_DOUBLE_FREE] = "double free",
    [PW_HEAP_FREE_AFTER_FREE_ALL] = "free of a block that free-all had freed",
    [PW_HEAP_OVERFLOW] = "overflow: bytes behind the block were written",
    [PW_HEAP_WRITE_AFTER_FREE] = "write to a freed block",
    [PW_HEAP_WRITE_AFTER_FREE_ALL] = "write to memory of a transaction that has ended",
    [PW_HEAP_WRONG_THREAD] = "two threads used the heap in one transaction",
};

// `size` SIZE_MAX: not known.
static void report(struct pw_heap_whole *heap, enum pw_heap_misuse kind, uintptr_t block,
                   size_t size) {
    char text[200];
    if (size == SIZE_MAX) {
        snprintf(text, sizeof text, "heap %p: %s: %p", (void *)heap, misuse_texts[kind],
                 (void *)block);
    } else {
        snprintf(text, sizeof text, "heap %p: %s: block %p of %zu bytes", (void *)heap,
                 misuse_texts[kind], (void *)block, size);
    }
    if (heap->options.on_misuse) {
        heap->options.on_misuse(&heap->hot, kind, (void *)block, text, heap->options.context);
        return;
    }
    pw_os_warn(text, "");
    abort();
}

static void check_thread(struct pw_heap_whole *heap) {
    uintptr_t thread = (uintptr_t)&errno; // of this thread alone
    uintptr_t user = __atomic_exchange_n(&heap->checker->thread, thread, __ATOMIC_RELAXED);
    if (user && user != thread) {
        report(heap, PW_HEAP_WRONG_THREAD, (uintptr_t)heap, SIZE_MAX);
    }
}

// --- the table of blocks --------------------------------------------------------------

static struct entry *slot_of(const struct pw_checker *checker, uintptr_t address) {
    size_t at = (address >> 3) * 0x9e3779b97f4a7c15u >> 20;
    while (checker->entries[at & (checker->capacity - 1)].address != address &&
           checker->entries[at & (checker->capacity - 1)].address != 0) {
        at++;
    }
    return &checker->entries[at & (checker->capacity - 1)];
}

static bool is_live(const struct pw_heap_whole *heap, const struct entry *entry) {
    return entry->address && !entry->freed && entry->transaction == heap->transaction;
}

static struct entry *find(const struct pw_checker *checker, const void *block) {
    struct entry *entry = slot_of(checker, (uintptr_t)block);
    return entry->address ? entry : NULL;
}

// A table with room for one more, without the blocks of long ago.
static bool make_room(struct pw_heap_whole *heap) {
    struct pw_checker *checker = heap->checker;
    if (checker->count < checker->capacity / 2) {
        return true;
    }
    size_t kept = 0;
    for (size_t i = 0; i < checker->capacity; i++) {
        const struct entry *entry = &checker->entries[i];
        kept += entry->address && entry->transaction + TRANSACTIONS_KNOWN > heap->transaction;
    }
    struct pw_checker old = *checker;
    size_t capacity = kept >= checker->capacity / 4 ? 2 * checker->capacity : checker->capacity;
    struct entry *entries = pw_os_map_table(capacity * sizeof *entries);
    if (!entries) {
        return false;
    }
    checker->entries = entries;
    checker->capacity = capacity;
    checker->count = kept;
    for (size_t i = 0; i < old.capacity; i++) {
        const struct entry *entry = &old.entries[i];
        if (entry->address && entry->transaction + TRANSACTIONS_KNOWN > heap->transaction) {
            *slot_of(checker, entry->address) = *entry;
        }
    }
    pw_os_unmap(old.entries, old.capacity * sizeof *old.entries);
    return true;
}

static void remember(struct pw_heap_whole *heap, uintptr_t address, size_t size) {
    struct entry *entry = slot_of(heap->checker, address);
    heap->checker->count += entry->address == 0;
    *entry = (struct entry){.address = address, .size = size, .transaction = heap->transaction};
}

// --- patterns ----------------------------------------------------------------------------

static bool is_all(const unsigned char *bytes, size_t size, unsigned char value) {
    return size == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static size_t whole_size(const struct pw_heap_whole *heap, const void *block) {
    return pw_plain_usable_size(heap->checker->inner, block);
}

static void check_tail(struct pw_heap_whole *heap, const struct entry *entry) {
    const unsigned char *block = (const unsigned char *)entry->address;
    size_t tail = whole_size(heap, block) - entry->size;
    if (!is_all(block + entry->size, tail, TAIL_PATTERN)) {
        report(heap, PW_HEAP_OVERFLOW, entry->address, entry->size);
    }
}

// The block was the first of a free list: what it said was behind it is the first one now. The heap
// must not follow what the program wrote there.
static bool is_link_whole(struct pw_heap_whole *inner, const void *block, uintptr_t link) {
    struct pw_heap_class *of = &inner->hot.classes[*pw_heap_class_note(block)];
    bool whole = (uintptr_t)of->free == link;
    of->free = (void *)link;
    return whole;
}

// Memory that was never used reads zero, other memory as it was filled; within a segment all the
// same. The heap itself keeps a link in a freed block's first bytes.
static void check_unwritten(struct pw_heap_whole *heap, const unsigned char *block, size_t size,
                            const struct entry *known) {
    bool linked = known && known->linked && known->transaction == heap->transaction;
    size_t segment = pw_segment_size(heap->checker->inner);
    if (linked && !is_link_whole(heap->checker->inner, block, known->link)) {
        report(heap, PW_HEAP_WRITE_AFTER_FREE, (uintptr_t)block, known->size);
    }
    for (size_t at = linked ? sizeof(void *) : 0; at < size;) {
        size_t here = segment - ((uintptr_t)(block + at) & (segment - 1));
        here = here < size - at ? here : size - at;
        unsigned char value = block[at];
        bool ours = value == 0 || value == FREED_PATTERN || value == FREE_ALL_PATTERN;
        if (!ours || !is_all(block + at, here, value)) {
            bool freed = value == FREED_PATTERN || (linked && !ours);
            report(heap, freed ? PW_HEAP_WRITE_AFTER_FREE : PW_HEAP_WRITE_AFTER_FREE_ALL,
                   (uintptr_t)block, known ? known->size : SIZE_MAX);
            return;
        }
        at += here;
    }
}

// --- the queue of freed blocks ---------------------------------------------------------------

static void check_queued(struct pw_heap_whole *heap, const void *block) {
    if (!is_all(block, whole_size(heap, block), FREED_PATTERN)) {
        report(heap, PW_HEAP_WRITE_AFTER_FREE, (uintptr_t)block, find(heap->checker, block)->size);
        memset((void *)(uintptr_t)block, FREED_PATTERN, whole_size(heap, block));
    }
}

static void release_oldest(struct pw_heap_whole *heap) {
    struct pw_checker *checker = heap->checker;
    void *block = (void *)checker->queue[checker->queue_first];
    check_queued(heap, block);
    checker->queue_first = (checker->queue_first + 1) % QUEUE_BLOCKS;
    checker->queue_count--;
    checker->queue_bytes -= whole_size(heap, block);
    struct entry *entry = find(checker, block);
    entry->linked = *pw_heap_class_note(block) < PW_HEAP_CLASSES;
    pw_plain_free(checker->inner, block);
    if (entry->linked) {
        memcpy(&entry->link, block, sizeof entry->link);
    }
}

static bool release_queue(struct pw_heap_whole *inner) {
    struct pw_heap_whole *heap = inner->outer;
    bool there_were = heap->checker->queue_count > 0;
    while (heap->checker->queue_count) {
        release_oldest(heap);
    }
    return there_were;
}

static void enqueue(struct pw_heap_whole *heap, void *block) {
    struct pw_checker *checker = heap->checker;
    size_t size = whole_size(heap, block);
    memset(block, FREED_PATTERN, size);
    while (checker->queue_count == QUEUE_BLOCKS ||
           (checker->queue_count && checker->queue_bytes + size > QUEUE_BYTES)) {
        release_oldest(heap);
    }
    checker->queue[(checker->queue_first + checker->queue_count) % QUEUE_BLOCKS] = (uintptr_t)block;
    checker->queue_count++;
    checker->queue_bytes += size;
}

// --- the calls ---------------------------------------------------------------------------------

void *pw_checker_alloc(struct pw_heap_whole *heap, size_t size, size_t alignment, bool zero) {
    check_thread(heap);
    if (size > PW_LARGEST_BLOCK || !make_room(heap)) {
        errno = ENOMEM;
        return NULL;
    }
    struct pw_heap_whole *inner = heap->checker->inner;
    bool is_zero;
    unsigned char *block = alignment > PW_NATURAL_ALIGNMENT
                               ? pw_plain_aligned(inner, alignment, size + TAIL_BYTES)
                               : pw_plain_alloc(inner, size + TAIL_BYTES, &is_zero);
    if (!block) {
        return NULL;
    }
    size_t whole = whole_size(heap, block);
    check_unwritten(heap, block, whole, find(heap->checker, block));
    remember(heap, (uintptr_t)block, size);
    if (zero) {
        memset(block, 0, size);
    }
    memset(block + size, TAIL_PATTERN, whole - size);
    return block;
}

static void report_unknown(struct pw_heap_whole *heap, const void *block) {
    const struct pw_checker *checker = heap->checker;
    for (size_t i = 0; i < checker->capacity; i++) {
        const struct entry *entry = &checker->entries[i];
        if (is_live(heap, entry) && (uintptr_t)block - entry->address < entry->size) {
            report(heap, PW_HEAP_INNER_FREE, (uintptr_t)block, SIZE_MAX);
            return;
        }
    }
    report(heap, PW_HEAP_FOREIGN_FREE, (uintptr_t)block, SIZE_MAX);
}

// The block's entry, if it is live; a report of what it is else.
static struct entry *live_entry(struct pw_heap_whole *heap, const void *block) {
    struct entry *entry = find(heap->checker, block);
    if (!entry) {
        report_unknown(heap, block);
    } else if (entry->transaction != heap->transaction) {
        report(heap, PW_HEAP_FREE_AFTER_FREE_ALL, entry->address, entry->size);
    } else if (entry->freed) {
        report(heap, PW_HEAP_DOUBLE_FREE, entry->address, entry->size);
    } else {
        return entry;
    }
    return NULL;
}

void pw_checker_free(struct pw_heap_whole *heap, void *block) {
    check_thread(heap);
    struct entry *entry = live_entry(heap, block);
    if (entry) {
        check_tail(heap, entry);
        entry->freed = true;
        enqueue(heap, block);
    }
}

// Where it is: a block that shrinks needs no memory.
static void *shrink(struct pw_heap_whole *heap, void *block, size_t size) {
    struct entry *entry = find(heap->checker, block);
    check_tail(heap, entry);
    entry->size = size;
    memset((char *)block + size, TAIL_PATTERN, whole_size(heap, block) - size);
    return block;
}

void *pw_checker_realloc(struct pw_heap_whole *heap, void *block, size_t size) {
    check_thread(heap);
    const struct entry *entry = live_entry(heap, block);
    if (!entry) {
        errno = EINVAL;
        return NULL;
    }
    // Moves wherever it can: whoever still uses the old address is found out.
    int saved = errno;
    size_t before = entry->size;
    heap->checker->inner->asks_nobody = size <= before;
    void *moved = pw_checker_alloc(heap, size, PW_NATURAL_ALIGNMENT, false);
    heap->checker->inner->asks_nobody = false;
    if (moved) {
        memcpy(moved, block, before < size ? before : size);
        pw_checker_free(heap, block);
    }
    if (!moved && size <= before) {
        errno = saved;
        return shrink(heap, block, size);
    }
    return moved;
}

size_t pw_checker_usable_size(struct pw_heap_whole *heap, const void *block) {
    const struct entry *entry = live_entry(heap, block);
    return entry ? entry->size : 0;
}

static void check_all(struct pw_heap_whole *heap) {
    struct pw_checker *checker = heap->checker;
    for (size_t i = 0; i < checker->capacity; i++) {
        if (is_live(heap, &checker->entries[i])) {
            check_tail(heap, &checker->entries[i]);
        }
    }
    for (; checker->queue_count; checker->queue_count--) {
        check_queued(heap, (void *)checker->queue[checker->queue_first]);
        checker->queue_first = (checker->queue_first + 1) % QUEUE_BLOCKS;
    }
    checker->queue_bytes = 0;
}

static void fill_memory(struct pw_heap_whole *inner) {
    size_t segment = pw_segment_size(inner);
    for (unsigned i = 0; i < inner->chunk_count; i++) {
        struct pw_chunk *chunk = inner->chunks[i];
        if (pw_chunk_is_used(inner, chunk)) {
            memset(pw_chunk_start(chunk) + segment, FREE_ALL_PATTERN,
                   (chunk->touched - 1) * segment);
        }
    }
    for (struct pw_giant *giant = inner->giants; giant; giant = giant->next) {
        memset(giant->block, FREE_ALL_PATTERN, pw_large_size(inner, giant->block));
    }
}

void pw_checker_free_all(struct pw_heap_whole *heap) {
    struct pw_checker *checker = heap->checker;
    check_thread(heap);
    check_all(heap);
    fill_memory(checker->inner);
    pw_plain_free_all(checker->inner);
    checker->thread = 0; // the next transaction may be another thread's
}

bool pw_checker_walk(struct pw_heap_whole *heap, pw_heap_visitor *visit, void *context) {
    for (size_t i = 0; i < heap->checker->capacity; i++) {
        const struct entry *entry = &heap->checker->entries[i];
        if (is_live(heap, entry) && !visit((void *)entry->address, entry->size, context)) {
            return false;
        }
    }
    return true;
}

// Links are not followed: this heap is there to find out that they were written over.
static void count_free_blocks(struct pw_heap_whole *inner) {
    const struct pw_heap_whole *heap = inner->outer;
    pw_count_no_blocks(inner);
    for (size_t i = 0; i < heap->checker->capacity; i++) {
        const struct entry *entry = &heap->checker->entries[i];
        if (entry->linked && entry->transaction == heap->transaction) {
            pw_count_free_block(inner, (const void *)entry->address);
        }
    }
}

// --- segments that change their class ----------------------------------------------------------
//
// What is done in reclaim.c, by the table: links that the program may have written over are not
// followed. Lists are made anew, and segments that leave are filled with one pattern, since blocks
// of other sizes will lie across what were their blocks.

static void check_link(struct pw_heap_whole *heap, const struct entry *entry) {
    if (memcmp((const void *)entry->address, &entry->link, sizeof entry->link) != 0) {
        report(heap, PW_HEAP_WRITE_AFTER_FREE, entry->address, entry->size);
    }
}

static void check_leaving(struct pw_heap_whole *heap, struct entry *entry) {
    void *block = (void *)entry->address;
    check_link(heap, entry);
    memset(block, FREED_PATTERN, sizeof entry->link);
    entry->linked = false;
    check_unwritten(heap, block, whole_size(heap, block), entry);
}

static void link_again(struct pw_heap_whole *inner, struct entry *entry) {
    void *block = (void *)entry->address;
    struct pw_heap_class *of = &inner->hot.classes[*pw_heap_class_note(block)];
    entry->link = (uintptr_t)of->free;
    pw_heap_put(of, block);
}

static bool fill_leaving(struct pw_heap_whole *inner, struct pw_chunk *chunk, unsigned segment,
                         char *start, void *context) {
    (void)chunk;
    (void)segment;
    (void)context;
    if (pw_class_in(inner, start) && pw_segment_leaves(inner, start)) {
        memset(start, FREED_PATTERN, pw_segment_size(inner));
    }
    return true;
}

static size_t reclaim(struct pw_heap_whole *inner) {
    struct pw_heap_whole *heap = inner->outer;
    struct pw_checker *checker = heap->checker;
    size_t before = inner->segment_bytes;
    count_free_blocks(inner);
    if (!pw_segments_leave(inner)) {
        return 0;
    }
    for (unsigned i = 0; i < PW_HEAP_CLASSES; i++) {
        inner->hot.classes[i].free = NULL;
    }
    for (size_t i = 0; i < checker->capacity; i++) {
        struct entry *entry = &checker->entries[i];
        if (!entry->linked || entry->transaction != heap->transaction) {
            continue;
        }
        if (pw_segment_leaves(inner, (const void *)entry->address)) {
            check_leaving(heap, entry);
        } else {
            check_link(heap, entry);
            link_again(inner, entry);
        }
    }
    pw_each_segment(inner, fill_leaving, NULL);
    pw_segments_release_leaving(inner);
    return before - inner->segment_bytes;
}

static const struct pw_last_resorts resorts = {
    .reclaim = reclaim,
    .let_go = release_queue,
    .count_free_blocks = count_free_blocks,
    .refused_chunk = pw_refused_chunk,
    .refused_giant = pw_refused_giant,
};

struct pw_heap_whole *pw_checker_inner(struct pw_heap_whole *heap) {
    return heap->checker->inner;
}

// --- birth and death -----------------------------------------------------------------------

// The inner heap is at its limit. What waits in the queue goes first, to a class or as segments,
// then the program is asked.
static bool outer_limit(struct pw_heap *inner, size_t needed_bytes, void *context) {
    struct pw_heap_whole *heap = context;
    return release_queue(pw_whole(inner)) ||
           (heap->options.on_limit &&
            heap->options.on_limit(&heap->hot, needed_bytes, heap->options.context));
}

bool pw_checker_new(struct pw_heap_whole *heap) {
    struct pw_heap_options options = heap->options;
    options.flags &= ~PW_HEAP_CHECKED;
    options.on_limit = outer_limit;
    options.context = heap;
    struct pw_checker *checker = pw_os_map_table(sizeof *checker);
    struct entry *entries = pw_os_map_table(FIRST_ENTRIES * sizeof *entries);
    struct pw_heap_whole *inner = checker && entries ? pw_plain_new(&options) : NULL;
    if (!inner) {
        if (entries) {
            pw_os_unmap(entries, FIRST_ENTRIES * sizeof *entries);
        }
        if (checker) {
            pw_os_unmap(checker, sizeof *checker);
        }
        return false;
    }
    *checker = (struct pw_checker){.inner = inner, .entries = entries, .capacity = FIRST_ENTRIES};
    heap->checker = checker;
    inner->outer = heap;
    inner->resorts = &resorts;
    heap->hot.slow_below = UINTPTR_MAX; // no free for the hot path
    return true;
}

void pw_checker_delete(struct pw_heap_whole *heap) {
    struct pw_checker *checker = heap->checker;
    if (checker) {
        check_all(heap);
        pw_plain_delete(checker->inner);
        pw_os_unmap(checker->entries, checker->capacity * sizeof *checker->entries);
        pw_os_unmap(checker, sizeof *checker);
    }
}
