// SPDX-License-Identifier: MIT
#include "block/small.h"
#include "block/block.h"
#include "block/keeper.h"
#include "process/c_library.h"
#include "process/lock.h"
#include "process/state.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#define NOWHERE ((uintptr_t)1 << 63) // what no program has: the middle of the address space

// --- the keeper ----------------------------------------------------------------------------

// A release only notes that the keeper is wanted (keeper.h). The free of somebody else than the C
// library starts it when all is done, or else an allocation that does not find its block in the
// cache.

static void start_wanted_keeper(struct pw_process *process) {
    bool *wanted = &process->general.keeper_wanted;
    if (PW_LIKELY(!__atomic_load_n(wanted, __ATOMIC_RELAXED)) || pw_general_thread.inside ||
        pw_general_thread.holds_all || !__atomic_exchange_n(wanted, false, __ATOMIC_RELAXED) ||
        !pw_process_enter()) {
        return;
    }
    bool is_due = pw_keeper_claim(process);
    pw_process_leave();
    if (is_due) {
        pw_keeper_start(process);
    }
}

void pw_general_freed(struct pw_process *process, const void *site) {
    bool wanted = __atomic_load_n(&process->general.keeper_wanted, __ATOMIC_RELAXED);
    if (PW_UNLIKELY(wanted) && !pw_c_library_contains(site, true)) {
        start_wanted_keeper(process);
    }
}

// --- pages for segments ------------------------------------------------------------------

static struct pw_extent *take(struct pw_process *process, uint32_t pages) {
    struct pw_arena *arena = &process->arena;
    struct pw_extent *extent = process->options.pool ? pw_arena_take_warm(arena, pages) : NULL;
    if (!extent) {
        extent = pw_arena_take_cold(arena, pages, 0);
        if (extent) {
            pw_arena_keep_rule(arena, 0, extent->pages, &(struct pw_resident){0});
        }
    }
    return extent;
}

static struct pw_extent *take_pages(void *context, uint32_t pages) {
    struct pw_process *process = context;
    if (!pw_process_enter()) {
        return NULL;
    }
    bool refused = pw_block_is_refused(process, (size_t)pages * PW_PAGE);
    struct pw_extent *extent = refused ? NULL : take(process, pages);
    if (extent) {
        pw_arena_use(&process->arena, extent);
        extent->state = PW_EXTENT_SEGMENT;
        pw_block_count_live(process, extent->pages);
        PW_COUNT(&process->stats, segments_taken, 1);
    }
    pw_process_leave();
    return extent;
}

// Most of whose pages have no memory is not warm.
static enum pw_extent_state state_of(struct pw_process *process, struct pw_extent *extent,
                                     uint32_t absent) {
    struct pw_arena *arena = &process->arena;
    bool altered = extent->altered;
    bool blank =
        (absent * 2 > extent->pages || !process->options.pool || altered) &&
        pw_arena_blank(arena, pw_extent_address(arena, extent), (size_t)extent->pages * PW_PAGE);
    extent->altered = PW_NOT_ALTERED;
    return blank ? PW_EXTENT_COLD : altered ? PW_EXTENT_LOST : PW_EXTENT_WARM;
}

// A fork has the bins' locks as well, for which everybody waits: so that it takes long is no reason
// to lose a segment.
static void release_pages(void *context, struct pw_extent *extent, uint32_t absent) {
    struct pw_process *process = context;
    if (!pw_process_wait()) {
        return; // better a leak than a broken table
    }
    pw_block_count_live(process, -(int64_t)extent->pages);
    PW_COUNT(&process->stats, segments_returned, 1);
    pw_arena_release(&process->arena, extent, state_of(process, extent, absent));
    pw_keeper_is_due(process, NULL); // noted
    pw_process_leave();
}

// --- medium blocks -------------------------------------------------------------------------

#define LEAST_SHELVED (((size_t)8 << 20) / PW_PAGE)
#define ASK_MS        100u

static void drop_block(void *context, void *block) {
    pw_block_free(context, block, NULL);
}

static bool is_medium(struct pw_process *process, size_t size) {
    return process->gate->general && size > PW_GENERAL_LARGEST && size <= PW_MEDIUM_LARGEST &&
           process->general.shelf_open;
}

// PW_ALL_CLASSES: it is none, or one whose pages are not like any other's.
static unsigned medium_class_of(struct pw_process *process, const void *block) {
    uintptr_t offset = (uintptr_t)block - process->gate->base;
    unsigned name = pw_general_class_at(process->gate->classes, offset);
    unsigned class_number = (name & ~PW_CLASS_SHELVED) - 1;
    if (class_number < PW_GENERAL_CLASSES || class_number >= PW_ALL_CLASSES ||
        (uintptr_t)block % PW_PAGE != 0) {
        return PW_ALL_CLASSES;
    }
    const struct pw_extent *extent =
        pw_arena_extent_of_page(&process->arena, (uint32_t)(offset >> PW_PAGE_SHIFT));
    return extent->fixed || extent->altered ? PW_ALL_CLASSES : class_number;
}

static void *fresh_medium(struct pw_process *process, unsigned class_number, bool zeroed) {
    pw_shelf_allow(&process->general, pw_keeper_room(process));
    void *block = pw_block_allocate(process, pw_class_size(class_number), 1, zeroed, NULL);
    if (block) {
        pw_shelf_name(&process->general, class_number, block);
    }
    return block;
}

// The program may have changed a mapping that covers what lies on the shelf.
static void *take_shelved(struct pw_process *process, unsigned class_number) {
    for (;;) {
        void *block = pw_shelf_take(&process->general, class_number);
        if (!block || medium_class_of(process, block) == class_number) {
            return block;
        }
        pw_block_free(process, block, NULL);
    }
}

static void *allocate_medium(struct pw_process *process, size_t size, bool zeroed) {
    unsigned class_number = pw_class_of(size);
    void *block = take_shelved(process, class_number);
    if (block) {
        return zeroed ? memset(block, 0, size) : block;
    }
    return fresh_medium(process, class_number, zeroed);
}

static bool is_time_to_ask(struct pw_general *general) {
    uint64_t now = pw_os_now_ms(), asked = __atomic_load_n(&general->asked_ms, __ATOMIC_RELAXED);
    return now - asked >= ASK_MS &&
           __atomic_compare_exchange_n(&general->asked_ms, &asked, now, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

// Who frees medium blocks alone comes by here: looks are made, and the keeper is called for what
// lies on the shelf when the program does nothing more. Little is not worth reading the clock.
static bool note_shelved(struct pw_process *process) {
    struct pw_general *general = &process->general;
    if (pw_shelf_pages(general) < LEAST_SHELVED / 4 || !is_time_to_ask(general)) {
        return true;
    }
    pw_general_look_when_due(general);
    __atomic_store_n(&general->keeper_wanted, true, __ATOMIC_RELAXED);
    return false;
}

// --- threads -----------------------------------------------------------------------------

static void looked(void *context) {
    pw_keeper_stand_in(context);
}

static void thread_ends(void *own) {
    struct pw_process *process = own;
    pw_cache_end(&process->general);
}

static void thread_began(void *context) {
    struct pw_process *process = context;
    // Without it the thread's cache is lost when it ends, and nothing else.
    pthread_setspecific(process->thread_end, process);
}

static void misuse(void *unused) {
    (void)unused;
    pw_block_reject("free");
}

// --- start -------------------------------------------------------------------------------

// The process goes on with the C library alone: no address may be taken for one of ours, whose
// class there is no table to tell.
static void close_gate(struct pw_process *process) {
    process->gate->threshold = process->gate->copy_threshold = SIZE_MAX;
    process->gate->base = NOWHERE;
    PW_COUNT(&process->stats, fallback_general, 1);
}

bool pw_general_open(struct pw_process *process, const struct pw_options *options) {
    struct pw_general *general = &process->general;
    const struct pw_general_host host = {take_pages,   release_pages, drop_block, looked,
                                         thread_began, misuse,        process};
    general->decay_ms = options->decay_seconds * 1000;
    if (process->fork_marker) {
        general->fork_marker = &process->fork_marker[2];
        *general->fork_marker = 1;
    }
    if (pthread_key_create(&process->thread_end, thread_ends) != 0) {
        close_gate(process);
        return false;
    }
    if (!pw_general_start(general, &process->arena, &process->stats, &host)) {
        pthread_key_delete(process->thread_end);
        close_gate(process);
        return false;
    }
    if (options->pool) {
        pw_shelf_open(general);
    }
    process->gate->classes = general->classes;
    process->gate->base = (uintptr_t)process->arena.base; // it has moved
    process->gate->largest_small =
        options->threshold <= PW_GENERAL_LARGEST ? options->threshold - 1 : PW_GENERAL_LARGEST;
    __atomic_store_n(&process->gate->general, true, __ATOMIC_RELEASE);
    return true;
}

// --- what the usual way does not serve -----------------------------------------------------

// The program's limit is reached: what nobody uses is not to be the reason. True: there may be room
// now.
static bool make_room(struct pw_process *process, size_t size) {
    if (!process->gate->general || pw_general_thread.inside ||
        !pw_block_is_refused(process, size)) {
        return false;
    }
    int saved = errno;
    pw_general_make_room(&process->general, is_time_to_ask(&process->general));
    bool room = !pw_block_is_refused(process, size);
    errno = room ? saved : ENOMEM;
    return room;
}

// Blocks that are asked for in the middle of our own work are few, and served in any case.
static bool is_refused(struct pw_process *process, size_t size) {
    return process->gate->general && !pw_general_thread.inside &&
           pw_block_is_refused(process, size);
}

static bool is_refused_small(struct pw_process *process, unsigned class_number) {
    return is_refused(process, (size_t)process->general.info[class_number].pages * PW_PAGE);
}

static void *refill(struct pw_process *process, unsigned class_number) {
    void *block = pw_cache_refill(&process->general, class_number);
    size_t segment = (size_t)process->general.info[class_number].pages * PW_PAGE;
    if (PW_UNLIKELY(!block) && make_room(process, segment)) {
        block = pw_cache_refill(&process->general, class_number);
    }
    return block;
}

void *pw_general_refill(struct pw_process *process, unsigned class_number) {
    start_wanted_keeper(process);
    // To start a thread may have allocated a block of this class, and filled the cache with others.
    void *block = process->gate->general ? pw_cache_pop(class_number) : NULL;
    if (!block && process->gate->general) {
        block = refill(process, class_number);
    }
    if (block) {
        return block;
    }
    if (is_refused_small(process, class_number)) {
        return NULL;
    }
    if (process->gate->general && !pw_general_thread.inside) {
        PW_COUNT(&process->stats, fallback_general, 1);
    }
    return pw_c_malloc(pw_class_size(class_number));
}

// A keeper that runs stays for as long as anything is idle, so nobody needs to call it again.
PW_UNLOCKED static bool keeper_could_come(const struct pw_process *process) {
    return process->options.keeper && !process->keeper_runs && !process->keeper_failed &&
           process->options.decay_seconds > 0;
}

// Without a keeper the release that made so much idle gives it back: a look costs as much as is in
// use, so an eighth of that must have become idle.
PW_UNLOCKED static bool is_on_its_own(const struct pw_process *process) {
    return !process->options.keeper && process->options.decay_seconds > 0;
}

static void call_for_holes(struct pw_process *process) {
    struct pw_general *general = &process->general;
    if (keeper_could_come(process) && pw_general_idle_pages(general) >= LEAST_SHELVED) {
        __atomic_store_n(&general->keeper_wanted, true, __ATOMIC_RELAXED);
    } else if (is_on_its_own(process) &&
               pw_general_idle_pages(general) >= pw_keeper_room(process)) {
        pw_general_look_twice(general);
    }
}

void pw_general_flush(struct pw_process *process, unsigned class_number, void *block) {
    struct pw_general *general = &process->general;
    if (pw_cache_is_last(class_number, block)) {
        pw_block_reject("free");
    }
    pw_cache_flush(general, class_number, block);
    // It may be the last that the program does for long, and holes stay where nobody looks.
    if (PW_UNLIKELY(pw_general_has_shrunk(general, class_number))) {
        call_for_holes(process);
    }
}

static void *allocate_large(struct pw_process *process, size_t size, size_t alignment,
                            bool zeroed) {
    void *block = alignment <= PW_PAGE && is_medium(process, size)
                      ? allocate_medium(process, size, zeroed)
                      : NULL;
    if (!block && process->gate->general) {
        block = pw_block_allocate(process, size, alignment, zeroed, NULL);
    }
    return block;
}

void *pw_general_allocate_large(struct pw_process *process, size_t size, size_t alignment,
                                bool zeroed) {
    start_wanted_keeper(process);
    void *block = allocate_large(process, size, alignment, zeroed);
    if (PW_UNLIKELY(!block) && make_room(process, size)) {
        block = allocate_large(process, size, alignment, zeroed);
    }
    if (block || is_refused(process, size)) {
        return block;
    }
    if (alignment > 1) {
        block = pw_c_memalign(alignment, size);
        return block && zeroed ? memset(block, 0, size) : block;
    }
    return zeroed ? pw_c_calloc(1, size) : pw_c_malloc(size);
}

bool pw_general_free_large(struct pw_process *process, void *block) {
    unsigned class_number = medium_class_of(process, block);
    if (class_number < PW_ALL_CLASSES && pw_shelf_put(&process->general, class_number, block)) {
        return note_shelved(process);
    }
    if (!pw_block_free(process, block, NULL)) {
        pw_c_free(block);
    }
    if (PW_UNLIKELY(is_on_its_own(process))) {
        pw_general_look_when_due(&process->general);
    }
    return true;
}

// The first class whose blocks hold `size` bytes and are multiples of the alignment: segments start
// at a page. PW_GENERAL_CLASSES: none.
static unsigned aligned_class(struct pw_process *process, size_t alignment, size_t size) {
    if (alignment > PW_PAGE || size > process->gate->largest_small) {
        return PW_GENERAL_CLASSES;
    }
    unsigned class_number = pw_class_of(size);
    while (class_number < PW_GENERAL_CLASSES && pw_class_size(class_number) % alignment != 0) {
        class_number++;
    }
    return class_number;
}

void *pw_general_memalign(struct pw_process *process, size_t alignment, size_t size) {
    if (alignment <= PW_CLASS_GRAIN) {
        return pw_general_malloc(process, process->gate, size);
    }
    if (!process->gate->general) {
        return pw_c_memalign(alignment, size);
    }
    unsigned class_number = aligned_class(process, alignment, size);
    if (class_number == PW_GENERAL_CLASSES) {
        return pw_general_allocate_large(process, size, alignment, false);
    }
    void *block = pw_cache_pop(class_number);
    block = block ? block : refill(process, class_number);
    return block || is_refused_small(process, class_number) ? block
                                                            : pw_c_memalign(alignment, size);
}

// A block of the C library: one from before our start, or that we could not serve.
static void *resize_foreign(struct pw_process *process, void *block, size_t size) {
    if (size == 0 || !process->gate->general) {
        return pw_c_realloc(block, size);
    }
    void *moved = pw_general_malloc(process, process->gate, size);
    if (!moved || !pw_gate_contains(moved)) {
        pw_general_free(process, process->gate, moved);
        bool refused = size > pw_c_usable_size(block) && is_refused(process, size);
        return refused ? NULL : pw_c_realloc(block, size);
    }
    size_t held = pw_c_usable_size(block);
    memcpy(moved, block, held < size ? held : size);
    pw_c_free(block);
    return moved;
}

// Bytes of a large block; 0: it is none of ours. The process's lock may be lost (_Fork), or this
// thread in the middle of what it guards: what is known of a block in use stays as it is, and can
// be read without.
static size_t capacity_of(struct pw_process *process, const void *block) {
    size_t capacity = pw_block_usable(process, block);
    const struct pw_extent *extent = capacity == 0 ? pw_arena_find(&process->arena, block) : NULL;
    if (extent && pw_extent_address(&process->arena, extent) + extent->data_offset == block) {
        capacity = (size_t)extent->pages * PW_PAGE - extent->data_offset;
    }
    return capacity;
}

// It may not be readable: it is made smaller where it is.
static bool is_altered(struct pw_process *process, const void *block) {
    if (!pw_process_enter()) {
        return false;
    }
    const struct pw_extent *extent = pw_arena_find(&process->arena, block);
    bool altered = extent && extent->altered;
    pw_process_leave();
    return altered;
}

// A copy of less costs little more than moving its pages, which leaves a mapping behind.
#define LEAST_MOVED ((size_t)1 << 20)

static bool is_shelved(const struct pw_process *process, const void *block) {
    uintptr_t offset = (uintptr_t)block - process->gate->base;
    return pw_general_class_at(process->gate->classes, offset) & PW_CLASS_SHELVED;
}

// A block that grows may need far less room than a new one of its size.
static void *resize_with_room(struct pw_process *process, void *block, size_t size) {
    int saved = errno;
    void *moved = pw_block_resize(process, block, size, NULL);
    if (PW_UNLIKELY(!moved) && is_refused(process, size)) {
        pw_general_make_room(&process->general, is_time_to_ask(&process->general));
        moved = pw_block_resize(process, block, size, NULL);
        errno = moved ? saved : ENOMEM;
    }
    return moved;
}

// Its name says how many bytes are the program's. One that had more room than its class says (there
// was no memory for an extent of the rest) grows without losing its name: it has another one now.
static void rename_medium(struct pw_process *process, void *block, unsigned class_number) {
    if (class_number < PW_ALL_CLASSES) {
        pw_shelf_name(&process->general, class_number, block);
    } else {
        pw_shelf_forget(&process->general, block);
    }
}

// Where it is, or by moving its pages; NULL: it is to be copied, or there is no memory.
static void *grow_medium(struct pw_process *process, void *block, size_t size, size_t held) {
    bool medium = size <= PW_MEDIUM_LARGEST;
    size_t wanted = medium ? pw_class_size(pw_class_of(size)) : size;
    void *grown = pw_block_extend(process, block, wanted) ? block : NULL;
    if (!grown && held >= LEAST_MOVED) {
        grown = resize_with_room(process, block, wanted);
    }
    if (grown && pw_gate_contains(grown)) {
        rename_medium(process, grown, medium ? pw_class_of(size) : PW_ALL_CLASSES);
    }
    return grown;
}

// Medium blocks stay where they are while they fit and are not too large by half.
static void *resize_medium(struct pw_process *process, void *block, size_t size, size_t held) {
    if (is_shelved(process, block)) {
        pw_block_reject("realloc");
    }
    if (size <= held && size > held / 2) {
        return block;
    }
    void *grown = size > held ? grow_medium(process, block, size, held) : NULL;
    if (grown || (size > held && held >= LEAST_MOVED)) {
        return grown;
    }
    void *moved = pw_general_malloc(process, process->gate, size);
    if (!moved) {
        return size <= held ? block : NULL; // to make a block smaller needs no memory
    }
    memcpy(moved, block, held < size ? held : size);
    pw_general_free_large(process, block);
    return moved;
}

void *pw_general_resize(struct pw_process *process, void *block, size_t size) {
    if (!pw_gate_contains(block)) {
        return resize_foreign(process, block, size);
    }
    if (size == 0) {
        pw_general_free_large(process, block);
        return NULL;
    }
    unsigned class_number = medium_class_of(process, block);
    if (class_number < PW_ALL_CLASSES) {
        return resize_medium(process, block, size, pw_class_size(class_number));
    }
    bool stays = size > process->gate->largest_small || is_altered(process, block);
    void *moved = stays ? resize_with_room(process, block, size) : NULL;
    if (moved) {
        return moved;
    }
    pw_block_reject_dead(process, block, "realloc");
    size_t held = capacity_of(process, block);
    if (held == 0) {
        return resize_foreign(process, block,
                              size); // it lies where the program had mapped something
    }
    moved = pw_general_malloc(process, process->gate, size);
    if (!moved) {
        return size <= held ? block : NULL; // to make a block smaller needs no memory
    }
    memcpy(moved, block, held < size ? held : size);
    pw_block_free(process, block, NULL);
    return moved;
}

size_t pw_general_usable(struct pw_process *process, const void *block) {
    if (!block) {
        return 0;
    }
    size_t size = pw_general_small_size(process->gate, block);
    if (size) {
        return size;
    }
    if (!pw_gate_contains(block)) {
        return pw_c_usable_size(block);
    }
    unsigned class_number = medium_class_of(process, block);
    if (class_number < PW_ALL_CLASSES) {
        return pw_class_size(class_number);
    }
    bool foreign = pw_arena_is_foreign(&process->arena, block);
    return foreign ? pw_c_usable_size(block) : capacity_of(process, block);
}
