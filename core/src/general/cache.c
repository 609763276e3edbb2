// SPDX-License-Identifier: MIT
//
// A thread's cache: for each class a stack of blocks. It grows while the thread keeps coming back
// for more of a class, and shrinks when it does not.
#include "general/general.h"

#define TICK_OPERATIONS  512u // refills and flushes between two looks at which stacks were of use
#define CLOCK_OPERATIONS 32u  // and between two looks at the clock

// --- caches ------------------------------------------------------------------------------

static void **bottom_of(const struct pw_general *general, struct pw_cache *cache,
                        unsigned class_number) {
    return cache->slots + general->info[class_number].slots_at;
}

static void reset(const struct pw_general *general, struct pw_cache *cache) {
    for (unsigned i = 0; i < PW_GENERAL_CLASSES; i++) {
        void **bottom = bottom_of(general, cache, i);
        *bottom = NULL;
        cache->stacks[i] = (struct pw_stack){bottom, bottom}; // no room yet
        cache->busy[i] = 0;
    }
    cache->operations = 0;
    cache->epoch = __atomic_load_n(&general->epoch, __ATOMIC_RELAXED);
}

static struct pw_cache *new_cache(struct pw_general *general) {
    pw_general_enter_tables(general);
    struct pw_cache *cache = general->spare_caches;
    if (cache) {
        general->spare_caches = cache->next;
    } else {
        cache = pw_general_table(general, general->cache_size);
    }
    pw_general_leave_tables(general);
    return cache;
}

// This thread's cache; NULL: it has none.
static struct pw_cache *own_cache(struct pw_general *general) {
    if (pw_general_thread.cache != &pw_cache_none) {
        return pw_general_thread.cache;
    }
    struct pw_cache *cache = pw_general_thread.ended ? NULL : new_cache(general);
    if (cache) {
        reset(general, cache);
        pw_general_thread.cache = cache;
        general->host.thread_began(general->host.context);
    }
    return cache;
}

// Give back the `count` blocks that were put in first. They leave the stack before anybody else can
// get them: what is called on the way may allocate in this thread.
static void give_oldest(struct pw_general *general, struct pw_cache *cache, unsigned class_number,
                        unsigned count) {
    struct pw_stack *stack = &cache->stacks[class_number];
    void **bottom = bottom_of(general, cache, class_number);
    void *oldest[PW_CACHE_MOST_BLOCKS];
    unsigned left = (unsigned)(stack->top - bottom) - count;
    for (unsigned i = 0; i < count; i++) {
        oldest[i] = bottom[1 + i];
    }
    for (unsigned i = 1; i <= left; i++) {
        bottom[i] = bottom[i + count];
    }
    stack->top = bottom + left;
    pw_bin_give(general, class_number, oldest, count);
}

static void give_all(struct pw_general *general, struct pw_cache *cache) {
    for (unsigned i = 0; i < PW_GENERAL_CLASSES; i++) {
        unsigned count = (unsigned)(cache->stacks[i].top - bottom_of(general, cache, i));
        if (count > 0) {
            give_oldest(general, cache, i, count);
        }
    }
}

// A stack that ran neither empty nor full for a while keeps half of what it has.
static void shrink_idle(struct pw_general *general, struct pw_cache *cache) {
    for (unsigned i = 0; i < PW_GENERAL_CLASSES; i++) {
        struct pw_stack *stack = &cache->stacks[i];
        void **bottom = bottom_of(general, cache, i);
        unsigned room = (unsigned)(stack->limit - bottom), held = (unsigned)(stack->top - bottom);
        if (!cache->busy[i] && room > general->info[i].cache_least) {
            room =
                room / 2 > general->info[i].cache_least ? room / 2 : general->info[i].cache_least;
            if (held > room) {
                give_oldest(general, cache, i, held - room);
            }
            stack->limit = bottom + room;
        }
        cache->busy[i] = 0;
    }
}

static void look_if_due(struct pw_general *general) {
    uint64_t now = pw_os_now_ms(), last = __atomic_load_n(&general->looked_ms, __ATOMIC_RELAXED);
    unsigned decay = __atomic_load_n(&general->decay_ms, __ATOMIC_RELAXED); // a seal may come
    // Two looks in a decay time: what held no block at both was idle for half of it at least.
    if (decay == 0 || now - last < decay / 2 + 1) {
        return;
    }
    if (__atomic_compare_exchange_n(&general->looked_ms, &last, now, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED) &&
        last != 0) {
        pw_general_look(general);
        general->host.looked(general->host.context);
    }
}

void pw_general_look_when_due(struct pw_general *general) {
    if (pw_general_enter(general)) {
        look_if_due(general);
        pw_general_leave();
    }
}

// What is done now and then, where a few hundred instructions more do not matter.
static void tick(struct pw_general *general, struct pw_cache *cache) {
    uint32_t epoch = __atomic_load_n(&general->epoch, __ATOMIC_RELAXED);
    if (cache->epoch != epoch) {
        cache->epoch = epoch;
        give_all(general, cache);
    }
    cache->operations++;
    if (cache->operations % TICK_OPERATIONS == 0) {
        shrink_idle(general, cache);
    }
    if (cache->operations % CLOCK_OPERATIONS == 0) {
        look_if_due(general);
    }
}

// A stack that runs empty or full again and again is given more room, every second time. So what a
// thread releases first, without having asked for such blocks, it does not keep: another thread has
// handed it over, and writes to the rest of its cache line.
static void grow(const struct pw_general *general, struct pw_cache *cache, unsigned class_number) {
    void **bottom = bottom_of(general, cache, class_number);
    struct pw_stack *stack = &cache->stacks[class_number];
    unsigned room = (unsigned)(stack->limit - bottom);
    const struct pw_class_info *info = &general->info[class_number];
    unsigned more = room ? room * 2 : info->cache_least;
    uint8_t *busy = &cache->busy[class_number];
    *busy = (uint8_t)(*busy < UINT8_MAX ? *busy + 1 : 1);
    if (*busy % 2 == 0) {
        stack->limit = bottom + (more < info->cache_most ? more : info->cache_most);
    }
}

// Blocks are popped from the end, and should come in rising order.
static void reverse(void **blocks, unsigned count) {
    for (unsigned i = 0; i < count / 2; i++) {
        void *block = blocks[i];
        blocks[i] = blocks[count - 1 - i];
        blocks[count - 1 - i] = block;
    }
}

static void *refill(struct pw_general *general, struct pw_cache *cache, unsigned class_number) {
    void **bottom = bottom_of(general, cache, class_number);
    struct pw_stack *stack = &cache->stacks[class_number];
    const struct pw_class_info *info = &general->info[class_number];
    if (stack->limit == bottom) {
        stack->limit = bottom + info->cache_least;
    } else {
        grow(general, cache, class_number);
    }
    unsigned half = (unsigned)(stack->limit - bottom + 1) / 2;
    unsigned count = (half + info->group - 1) / info->group * info->group; // whole lines
    unsigned got = pw_bin_take(general, class_number, bottom + 1, count);
    reverse(bottom + 1, got);
    if (got == 0) {
        return NULL;
    }
    stack->top = bottom + got - 1;
    return bottom[got];
}

void *pw_cache_refill(struct pw_general *general, unsigned class_number) {
    if (!pw_general_enter(general)) {
        return NULL;
    }
    struct pw_cache *cache = own_cache(general);
    void *block = NULL;
    if (cache) {
        tick(general, cache);
        block = refill(general, cache, class_number);
    } else if (pw_bin_take(general, class_number, &block, 1) == 0) {
        block = NULL;
    }
    pw_general_leave();
    return block;
}

static void flush(struct pw_general *general, struct pw_cache *cache, unsigned class_number,
                  void *block) {
    void **bottom = bottom_of(general, cache, class_number);
    struct pw_stack *stack = &cache->stacks[class_number];
    if (stack->top == stack->limit) {
        grow(general, cache, class_number);
    }
    if (stack->limit == bottom) {
        pw_bin_give(general, class_number, &block, 1);
        return;
    }
    if (stack->top == stack->limit) {
        give_oldest(general, cache, class_number, (unsigned)(stack->top - bottom + 1) / 2);
    }
    stack->top[1] = block;
    stack->top++;
}

void pw_cache_flush(struct pw_general *general, unsigned class_number, void *block) {
    if (!pw_general_enter(general)) {
        return; // better a leak than a broken table
    }
    struct pw_cache *cache = own_cache(general);
    if (cache) {
        tick(general, cache);
        flush(general, cache, class_number, block);
    } else {
        pw_bin_give(general, class_number, &block, 1);
    }
    pw_general_leave();
}

void pw_cache_end(struct pw_general *general) {
    struct pw_cache *cache = pw_general_thread.cache;
    if (cache == &pw_cache_none || !pw_general_enter(general)) {
        return;
    }
    pw_general_thread.ended = true;
    give_all(general, cache);
    pw_general_thread.cache = (struct pw_cache *)&pw_cache_none;
    pw_general_enter_tables(general);
    cache->next = general->spare_caches;
    general->spare_caches = cache;
    pw_general_leave_tables(general);
    pw_general_leave();
}

size_t pw_general_trim(struct pw_general *general) {
    if (!pw_general_enter(general)) {
        return 0;
    }
    // Other threads see it when they next come for blocks, or bring some.
    uint32_t epoch = __atomic_add_fetch(&general->epoch, 1, __ATOMIC_RELAXED);
    struct pw_cache *cache = pw_general_thread.cache;
    if (cache != &pw_cache_none) {
        cache->epoch = epoch;
        give_all(general, cache);
    }
    pw_shelf_look(general, true);
    size_t given = pw_general_look(general); // what was idle at the look before
    given += pw_general_look(general);
    pw_general_leave();
    return given;
}

void pw_general_look_twice(struct pw_general *general) {
    if (pw_general_enter(general)) {
        pw_general_look(general);
        pw_general_look(general);
        pw_general_leave();
    }
}

void pw_general_make_room(struct pw_general *general, bool time) {
    if (time) {
        pw_general_trim(general);
    } else if (pw_general_enter(general)) {
        pw_shelf_look(general, true);
        pw_general_leave();
    }
}

// --- forks -------------------------------------------------------------------------------
//
// The caches of threads that a child does not have are left as they are. Their stacks cannot be
// read there: other threads go on while the kernel copies page after page, so that a stack's top
// and its slots may be of different moments. What they hold is lost to the child, and costs it
// nothing while nobody writes to it.

// A handler of a signal does without us until the locks are known to be held, or no longer held.
static void begin_locks(void) {
    pw_general_thread.inside = true;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void end_locks(void) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    pw_general_thread.inside = false;
}

void pw_general_before_fork(struct pw_general *general) {
    if (pw_general_thread.inside) {
        return; // a fork out of a signal handler: waiting would be for ever
    }
    begin_locks(); // what is dropped is not shelved again
    if (!pw_general_knows_process(general)) {
        pw_general_notice_fork(general);
    }
    if (pw_general_knows_process(general) &&
        !__atomic_load_n(&general->orphaned, __ATOMIC_RELAXED)) {
        pw_shelf_look(general, true); // or the child would lose it
        for (unsigned i = 0; i < PW_GENERAL_CLASSES; i++) {
            pthread_mutex_lock(&general->bins[i].lock);
        }
        pthread_mutex_lock(&general->tables);
        pw_general_thread.holds_all = true;
    }
    end_locks();
}

void pw_general_after_fork_parent(struct pw_general *general) {
    if (!pw_general_thread.holds_all) {
        return;
    }
    begin_locks();
    pw_general_thread.holds_all = false;
    pthread_mutex_unlock(&general->tables);
    for (unsigned i = 0; i < PW_GENERAL_CLASSES; i++) {
        pthread_mutex_unlock(&general->bins[i].lock);
    }
    end_locks();
}

static void make_locks(struct pw_general *general) {
    pthread_mutex_init(&general->tables, NULL);
    for (unsigned i = 0; i < PW_GENERAL_CLASSES; i++) {
        pthread_mutex_init(&general->bins[i].lock, NULL);
    }
}

static bool finds_locks_free(struct pw_general *general) {
    begin_locks();
    bool free = pw_general_finds_locks_free(general);
    end_locks();
    return free;
}

void pw_general_after_fork_child(struct pw_general *general, bool goes_on, bool had_others) {
    bool held = pw_general_thread.holds_all;
    pw_shelf_clear(general);
    if (general->fork_marker) {
        __atomic_store_n(general->fork_marker, PW_FORK_NOTICED, __ATOMIC_RELEASE);
    }
    if (held && !goes_on) {
        begin_locks();
        pw_general_thread.holds_all = false;
        make_locks(general);
        end_locks();
    } else if (!held && (pw_general_thread.inside || had_others || !finds_locks_free(general))) {
        general->orphaned = true; // this thread finishes what it was doing; nobody else comes in
        if (goes_on) {
            make_locks(general); // which the outer fork may be waiting for
        }
    }
}
