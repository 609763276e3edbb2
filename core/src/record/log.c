// SPDX-License-Identifier: MIT
#include "record/log.h"
#include "record/clock.h"
#include "record/spool_chunk.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define OWN_THREAD          __thread __attribute__((tls_model("initial-exec")))

#define LONGEST_ALLOCATION 4 // words: time, allocation with its size beside it
#define LONGEST_FREE       3
#define ADDRESS_BITS       48
#define ALIGNMENT_AT       58
#define ALLOCATION_BITS    30 // of a stamp's difference
#define FREE_BITS          14
#define NAMELESS           (UINT64_C(1) << 31)
#define LARGEST_RESERVE    (64 << 20)
#define CLOCK_MARGIN       (1 << 22)  // ticks: stamps that are being taken are smaller
#define IN_THE_MAKING      UINT32_MAX // pw_log.epoch while a process begins to record

static OWN_THREAD struct pw_lane *own_lane;
static OWN_THREAD bool has_ended; // what comes after has no lane for longer than a record
static pthread_key_t thread_end;
static bool has_thread_end;

// --- stamps -------------------------------------------------------------------

// No clock may be read any more: what happens is counted.
__attribute__((noinline)) static uint64_t count_on(void) {
    return __atomic_add_fetch(&pw_log.counted, 1, __ATOMIC_SEQ_CST);
}

static inline uint64_t stamp_now(void) {
    return UNLIKELY(pw_log.has_no_clock) ? count_on() : pw_clock();
}

static inline uint64_t stamp_after_loads(void) {
    return UNLIKELY(pw_log.has_no_clock) ? count_on() : pw_clock_after_loads();
}

// --- options ------------------------------------------------------------------

// The value of `name` in "name=value,name=value". False: it is not there.
static bool option(const char *options, const char *name, char *value, size_t size) {
    size_t length = strlen(name);
    for (const char *at = options; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            size_t end = strcspn(at + length + 1, ",");
            if (end >= size) {
                return false;
            }
            memcpy(value, at + length + 1, end);
            value[end] = '\0';
            return true;
        }
    }
    return false;
}

static uint64_t number_option(const char *options, const char *name, uint64_t otherwise) {
    char value[32];
    return option(options, name, value, sizeof value) ? strtoull(value, NULL, 10) : otherwise;
}

static bool read_options(void) {
    const char *options = secure_getenv("PAGEWISE_RECORD");
    if (!options || !option(options, "spool", pw_log.folder, sizeof pw_log.folder)) {
        return false;
    }
    uint64_t stacks = number_option(options, "stacks", PW_STACKS_NONE);
    pw_log.stacks = stacks > PW_STACKS_BY_TABLES ? PW_STACKS_BY_TABLES : (unsigned)stacks;
    pw_log.has_children = number_option(options, "children", 1) != 0;
    pw_log.sample_bytes = number_option(options, "sample", 0);
    uint64_t parent = number_option(options, "parent", 0);
    return pw_log.has_children || parent == 0 || parent == (uint64_t)pw_os_parent_pid();
}

// --- a process ----------------------------------------------------------------

static bool create_file(void) {
    for (int program = 0; program < 1000; program++) {
        snprintf(pw_log.path, sizeof pw_log.path, "%s/%d.%d", pw_log.folder, pw_os_pid(), program);
        pw_log.file = pw_os_create(pw_log.path);
        if (pw_log.file.fd >= 0) {
            return true;
        }
        char probe;
        // Taken by the program that this process executed before, or a sign that there is no way
        // in?
        if (pw_os_read_file(pw_log.path, &probe, 1) == 0) {
            return false;
        }
    }
    return false;
}

// Started by the loader's name, the program is what the loader has loaded first.
static void find_program(char *path, size_t size) {
    const struct link_map *first = _r_debug.r_map;
    bool is_loaded_by_name = getauxval(AT_BASE) == 0;
    if (!is_loaded_by_name || !first || !pw_os_mapped_file(first->l_ld, path, size)) {
        pw_os_read_link("/proc/self/exe", path, size);
    }
}

// The variables that allocators read, one after the other, each ended by NUL; no half of one.
static void find_settings(char *settings, size_t size) {
    static const char *const names[] = {
        "MALLOC_", "GLIBC_TUNABLES=", "PAGEWISE_OPTIONS=", "MIMALLOC_", "TCMALLOC_"};
    size_t used = 0;
    for (char **variable = environ; *variable; variable++) {
        size_t length = strlen(*variable) + 1;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (strncmp(*variable, names[i], strlen(names[i])) == 0 && length < size - used) {
                memcpy(settings + used, *variable, length);
                used += length;
            }
        }
    }
}

// Once: its children have the same, and may be unable to ask.
static void find_allocator(void) {
    if (!*pw_log.allocator && pw_log.behind && environ) {
        pw_os_mapped_file((const void *)pw_log.behind, pw_log.allocator, sizeof pw_log.allocator);
        find_settings(pw_log.settings, sizeof pw_log.settings);
    }
}

static void fill_header(void) {
    struct pw_spool_header *header = pw_log.header;
    header->version = PW_SPOOL_VERSION;
    header->pid = (uint32_t)pw_os_pid();
    header->parent = (uint32_t)pw_os_parent_pid();
    header->sample_bytes = pw_log.sample_bytes;
    header->stacks = pw_log.stacks;
    header->start_stamp = stamp_now();
    if (!pw_log.has_no_clock) {
        header->start_ns = pw_os_monotonic_ns();
        header->start_real_ns = pw_os_real_ns();
    }
    find_program(header->program, sizeof header->program);
    pw_os_read_link("/proc/self/cwd", pw_log.working_folder, sizeof pw_log.working_folder);
    pw_os_read_file("/proc/self/cmdline", header->command, sizeof header->command - 1);
    find_allocator();
    memcpy(header->allocator, pw_log.allocator, sizeof header->allocator);
    memcpy(header->settings, pw_log.settings, sizeof header->settings);
    header->magic = PW_SPOOL_MAGIC;
}

// Files are made anew in a child: its parent's mappings have gone, and it has no place in the file.
static bool begin_process(void) {
    int error = 0;
    pw_log.header = NULL;
    pw_log.lanes = 0;
    pw_log.lock = 0;
    if (pw_log.loads) {
        memset(pw_log.modules, 0, sizeof pw_log.modules);
        pw_log.loads = 0;
    }
    pw_log.reserve = NULL;
    if (pw_log.is_closed || pw_log.is_frozen) {
        return false;
    }
    pw_os_close(&pw_log.file); // the parent's
    if (!create_file()) {
        return false;
    }
    pw_log.size = PW_SPOOL_STEP;
    pw_log.header = pw_os_map_spool(&pw_log.file, pw_log.path, 0, PW_PAGE, &error);
    if (!pw_log.header) {
        return false;
    }
    fill_header();
    return true;
}

static void end_thread(void *lane);

void pw_log_start(void) {
    if (pw_log.is_started || !environ) {
        return;
    }
    pw_log.is_started = true;
    pw_log.first_thread = (uintptr_t)__builtin_thread_pointer();
    if (!read_options() || (pw_log.sample_bytes && !pw_sample_start())) {
        return;
    }
    pw_log.is_blind = true; // until it is asked
    has_thread_end = pthread_key_create(&thread_end, end_thread) == 0;
    pw_log.epoch = pw_os_fork_marker();
    if (pw_log.epoch && begin_process()) {
        pw_log.last_epoch = 1;
        *pw_log.epoch = 1;
        pw_log.is_on = true;
    }
}

// Not at the first event, which may come from within the loader.
void pw_log_start_unwinder(void) {
    if (pw_log.stacks != PW_STACKS_BY_TABLES) {
        return;
    }
    pw_log.is_blind = pw_os_is_filtered(); // what that allows cannot be known
    if (!pw_unwind_start()) {
        pw_log.stacks = PW_STACKS_BY_FRAME_POINTERS;
        if (pw_log.header) {
            pw_log.header->stacks = pw_log.stacks;
        }
    }
}

void pw_log_end(void) {
    if (pw_log.epoch && *pw_log.epoch != 0 && pw_log.header) {
        pw_log_note_time();
        pw_log.header->ended = 1;
    }
}

// Where a child cannot record, its parent's header says so: it is the only thing of the parent's
// recording that a child has.
static void begin_child(void) {
    struct pw_spool_header *parents = pw_log.header;
    pw_log.header = NULL;
    pw_hold_begin_child();
    pw_log_leave_parents(own_lane);
    pw_log.is_on = pw_log.has_children && begin_process();
    if (pw_log.has_children && !pw_log.is_on && parents) {
        __atomic_fetch_add(&parents->lost_children, 1, __ATOMIC_RELAXED);
    }
    if (parents && !pw_log.is_frozen) {
        pw_os_unmap(parents, PW_PAGE);
    }
}

// The first event in a child of a fork. With several threads, one of them does it.
static bool enter_process(void) {
    uint32_t none = 0;
    if (__atomic_compare_exchange_n(pw_log.epoch, &none, IN_THE_MAKING, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        // The lanes in the list were those of the parent's other threads.
        pw_log.spare = NULL;
        begin_child();
        pw_log.last_epoch++;
        __atomic_store_n(pw_log.epoch, pw_log.last_epoch, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(pw_log.epoch, __ATOMIC_ACQUIRE) == IN_THE_MAKING) {}
    return pw_log.is_on;
}

// --- a thread -----------------------------------------------------------------

// A signal's handler that allocates must not find its own thread holding the lock; where signals
// cannot be held back, it goes without. False: not locked.
static bool lock_lanes(struct pw_os_signals *signals, bool hold) {
    if (UNLIKELY(!hold)) {
        return __atomic_exchange_n(&pw_log.lock, 1, __ATOMIC_ACQUIRE) == 0;
    }
    pw_os_signals_block(signals);
    while (__atomic_exchange_n(&pw_log.lock, 1, __ATOMIC_ACQUIRE) != 0) {}
    return true;
}

static void unlock_lanes(const struct pw_os_signals *signals, bool were_held) {
    __atomic_store_n(&pw_log.lock, 0, __ATOMIC_RELEASE);
    if (were_held) {
        pw_os_signals_restore(signals);
    }
}

static void put_spare(struct pw_lane *lane) {
    struct pw_os_signals signals;
    bool hold = !pw_log.is_frozen;
    if (*pw_log.epoch != lane->epoch || !lock_lanes(&signals, hold)) {
        return;
    }
    lane->spare = pw_log.spare;
    pw_log.spare = lane;
    unlock_lanes(&signals, hold);
}

// Other destructors may run after this one, and the C library frees what was the thread's.
static void end_thread(void *lane) {
    own_lane = NULL;
    has_ended = true;
    put_spare(lane);
}

static struct pw_lane *take_spare(void) {
    struct pw_os_signals signals;
    bool hold = !pw_log.is_frozen;
    if (!lock_lanes(&signals, hold)) {
        return NULL;
    }
    struct pw_lane *lane = pw_log.spare;
    if (lane) {
        pw_log.spare = lane->spare;
    }
    unlock_lanes(&signals, hold);
    return lane;
}

static struct pw_lane *room_for_lane(void) {
    struct pw_log_reserve *reserve = pw_log.reserve;
    if (LIKELY(!pw_log.is_frozen)) {
        return pw_os_map_table((sizeof(struct pw_lane) + PW_PAGE - 1) & ~(PW_PAGE - 1));
    }
    uint32_t number = __atomic_fetch_add(&reserve->lanes_used, 1, __ATOMIC_RELAXED);
    return number < PW_LOG_LANES_FROZEN ? &reserve->lanes[number] : NULL;
}

static struct pw_lane *new_lane(void) {
    struct pw_lane *lane = room_for_lane();
    if (lane) {
        lane->older = __atomic_load_n(&pw_log.newest, __ATOMIC_ACQUIRE);
        while (!__atomic_compare_exchange_n(&pw_log.newest, &lane->older, lane, false,
                                            __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
    }
    return lane;
}

static void begin_lane(struct pw_lane *lane) {
    lane->next = lane->end = NULL;
    lane->mapped = 0;
    lane->chunks = 0;
    lane->stamp = pw_log.header->start_stamp;
    lane->number = __atomic_fetch_add(&pw_log.lanes, 1, __ATOMIC_RELAXED);
    lane->epoch = *pw_log.epoch;
    // Others may come in the places of libraries that were unloaded.
    if (lane->generation != pw_log.generation) {
        pw_unwind_forget(lane);
    }
    lane->generation = pw_log.generation;
    memset(lane->slots, 0, sizeof lane->slots);
}

// The thread's lane: after a fork its old one, begun anew; else one of an ended thread, or a new
// one.
static struct pw_lane *find_lane(void) {
    struct pw_lane *lane = own_lane;
    if (lane) {
        begin_lane(lane);
        return lane;
    }
    lane = take_spare();
    if (lane) {
        return lane;
    }
    lane = new_lane();
    if (lane) {
        begin_lane(lane);
    } else if (pw_log.is_frozen) {
        pw_log_stop(pw_log.frozen_for, pw_log.frozen_error);
    } else {
        pw_log_stop(PW_STOP_NO_MEMORY, ENOMEM);
    }
    return lane;
}

static uint64_t thread_number(void) {
    if (pw_log.is_frozen || pw_log.is_closed) {
        return NAMELESS + __atomic_fetch_add(&pw_log.nameless, 1, __ATOMIC_RELAXED);
    }
    return (uint64_t)pw_os_thread_id();
}

static struct pw_lane *begin_thread(void) {
    if (!enter_process()) {
        return NULL;
    }
    struct pw_lane *lane = find_lane();
    if (!lane) {
        return NULL;
    }
    pw_site_find_stack(lane);
    pw_sample_begin(lane);
    if (!has_ended) {
        own_lane = lane;
        if (has_thread_end) {
            pthread_setspecific(thread_end, lane);
        }
    }
    uint64_t thread = thread_number();
    if (pw_log_room(lane, 2)) {
        pw_log_other(lane, PW_KIND_THREAD, 0, &thread, 1);
    }
    return lane;
}

// This thread's first event, or the process's. A signal's handler that forks would leave its child
// in the middle of it.
static struct pw_lane *enter(void) {
    int cancel = pw_os_cancel_hold();
    struct pw_os_signals signals;
    bool hold = !pw_log.is_frozen;
    if (LIKELY(hold)) {
        pw_os_signals_block(&signals);
    }
    struct pw_lane *lane = begin_thread();
    if (LIKELY(hold)) {
        pw_os_signals_restore(&signals);
    }
    pw_os_cancel_restore(cancel);
    return lane;
}

// It begins anew, also where its parent's recording has ended.
static bool is_new_child(void) {
    return pw_log.last_epoch != 0 && *pw_log.epoch == 0;
}

// NULL: this thread does not record.
static inline struct pw_lane *lane_here(void) {
    struct pw_lane *lane = own_lane;
    if (UNLIKELY(!pw_log.is_on)) {
        pw_log_start();
        return pw_log.is_on || is_new_child() ? enter() : NULL;
    }
    if (UNLIKELY(!lane || lane->epoch != *pw_log.epoch)) {
        return enter();
    }
    return lane;
}

// The event is written down.
static inline void leave(struct pw_lane *lane) {
    if (UNLIKELY(has_ended)) {
        put_spare(lane);
    }
}

// --- events -------------------------------------------------------------------

// How far the lane's stamp has to go on, in `bits` bits; a record of its own takes what does not
// fit.
static inline uint64_t advance(struct pw_lane *lane, uint64_t stamp, unsigned bits) {
    uint64_t step = stamp - lane->stamp;
    if (UNLIKELY((int64_t)step < 0)) {
        return 0; // taken before the last one, by a realloc
    }
    lane->stamp = stamp;
    if (UNLIKELY(step >> bits)) {
        pw_log_other(lane, PW_KIND_TIME, 0, &stamp, 1);
        return 0;
    }
    return step;
}

static void drop(uint64_t *counter) {
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static inline bool is_recordable(const void *block) {
    return (uintptr_t)block >> ADDRESS_BITS == 0;
}

// Recording has ended, or the block cannot be written down: the trace shall say so.
static void count_dropped(bool is_free) {
    struct pw_spool_header *header = pw_log.header;
    if (header && pw_log.epoch && *pw_log.epoch == pw_log.last_epoch) {
        drop(is_free ? &header->dropped_frees : &header->dropped_allocations);
    }
}

// Is the block to be written down? It is in the sample then.
static inline bool is_taken(struct pw_lane *lane, const void *block, size_t size) {
    if (LIKELY(!pw_log.sample_bytes)) {
        return true;
    }
    if (!pw_sample_takes(lane, size)) {
        return false;
    }
    bool added = pw_sample_add(block);
    if (!added) {
        count_dropped(false);
    }
    return added;
}

static inline void write_allocation(struct pw_lane *lane, const void *block, size_t size,
                                    unsigned alignment, const void *site, const void *frame) {
    uint64_t stamp = stamp_after_loads();
    uint32_t slot = pw_site_slot(lane, site, frame);
    if (UNLIKELY(!is_recordable(block) || !pw_log_room(lane, LONGEST_ALLOCATION + 1))) {
        count_dropped(false);
        return;
    }
    uint64_t step = advance(lane, stamp, ALLOCATION_BITS);
    if (UNLIKELY(!pw_log_is_own(lane))) {
        return;
    }
    uint64_t *words = lane->next;
    bool is_long = size >= UINT32_MAX;
    words[1] = (uint64_t)(uintptr_t)block | (uint64_t)slot << ADDRESS_BITS |
               (uint64_t)alignment << ALIGNMENT_AT;
    if (UNLIKELY(is_long)) {
        words[2] = size;
    }
    uint64_t size_here = is_long ? UINT32_MAX : size;
    pw_log_commit(lane, PW_WORD_ALLOCATE | step << 2 | size_here << 32, is_long ? 3 : 2);
}

// Addresses are even: the lowest bit is free to say that the block lives on.
static inline void write_free(struct pw_lane *lane, const void *block, uint64_t stamp,
                              bool lives_on) {
    if (UNLIKELY(!is_recordable(block) || !pw_log_room(lane, LONGEST_FREE))) {
        count_dropped(true);
        return;
    }
    uint64_t step = advance(lane, stamp, FREE_BITS);
    uint64_t address = (uintptr_t)block | (lives_on ? 1 : 0);
    if (UNLIKELY(!pw_log_is_own(lane))) {
        return;
    }
    pw_log_commit(lane, PW_WORD_FREE | step << 2 | address << 16, 1);
}

void pw_log_allocation(const void *block, size_t size, unsigned alignment, const void *site,
                       const void *frame) {
    struct pw_lane *lane = lane_here();
    if (UNLIKELY(!lane)) {
        count_dropped(false);
        return;
    }
    if (is_taken(lane, block, size)) {
        write_allocation(lane, block, size, alignment, site, frame);
    }
    leave(lane);
}

void pw_log_free(const void *block) {
    uint64_t stamp = stamp_now();
    struct pw_lane *lane = lane_here();
    if (UNLIKELY(!lane)) {
        count_dropped(true);
        return;
    }
    if (LIKELY(!pw_log.sample_bytes) || pw_sample_remove(block)) {
        write_free(lane, block, stamp, false);
    }
    leave(lane);
}

struct pw_log_resize pw_log_resize_begins(const void *block) {
    return (struct pw_log_resize){
        .block = block,
        .stamp = stamp_now(),
        .is_recorded = block && (!pw_log.sampled || pw_sample_remove(block)),
    };
}

void pw_log_resize_failed(const struct pw_log_resize *resize) {
    if (pw_log.sampled && resize->is_recorded && !pw_sample_add(resize->block)) {
        count_dropped(true); // its release will not be known for one
    }
}

void pw_log_resized(const struct pw_log_resize *resize, const void *moved, size_t size,
                    const void *site, const void *frame) {
    struct pw_lane *lane = lane_here();
    if (UNLIKELY(!lane)) {
        if (resize->is_recorded) {
            count_dropped(true);
        }
        if (moved) {
            count_dropped(false);
        }
        return;
    }
    bool taken = moved && is_taken(lane, moved, size);
    if (resize->is_recorded) {
        write_free(lane, resize->block, resize->stamp, taken);
    }
    if (taken) {
        write_allocation(lane, moved, size, 0, site, frame);
    }
    leave(lane);
}

// --- restricted programs --------------------------------------------------------

// As much as there is room for, at once: later there is no way to get more.
static struct pw_log_reserve *make_reserve(void) {
    size_t table = (sizeof(struct pw_log_reserve) + PW_PAGE - 1) & ~(PW_PAGE - 1);
    struct pw_log_reserve *reserve = pw_os_map_table(table);
    const char *path = pw_log.is_closed ? NULL : pw_log.path;
    for (size_t size = LARGEST_RESERVE; reserve && size >= PW_SPOOL_STEP; size /= 2) {
        int error = 0;
        uint64_t offset = __atomic_fetch_add(&pw_log.size, size, __ATOMIC_RELAXED);
        reserve->start = pw_os_map_spool(&pw_log.file, path, offset, size, &error);
        if (reserve->start) {
            reserve->size = size;
            break;
        }
    }
    return reserve;
}

static bool has_reserve(void) {
    const struct pw_log_reserve *old = pw_log.reserve;
    if (!old || old->used > old->size / 2) {
        pw_log.reserve = make_reserve();
    }
    if (!pw_log.reserve) {
        pw_log_stop(PW_STOP_NO_MEMORY, ENOMEM);
    }
    return pw_log.reserve != NULL;
}

struct pw_log_frozen pw_log_freeze(enum pw_spool_stop reason, bool has_clock) {
    struct pw_log_frozen before = {0};
    // A child of vfork has our memory, and restricts itself alone.
    if (!lane_here() || (!pw_log.is_frozen && (uint32_t)pw_os_pid() != pw_log.header->pid)) {
        return before;
    }
    before.was_frozen = pw_log.is_frozen;
    before.had_no_clock = pw_log.has_no_clock;
    if (!before.was_frozen && !has_reserve()) {
        return before; // recording has been stopped
    }
    before.is_here = true;
    if (!before.was_frozen) {
        pw_log_note_time();
        pw_log.frozen_for = reason;
        __atomic_store_n(&pw_log.is_frozen, true, __ATOMIC_RELEASE);
    }
    if (!has_clock && !before.had_no_clock) {
        pw_log.counted = pw_clock() + CLOCK_MARGIN;
        __atomic_store_n(&pw_log.has_no_clock, true, __ATOMIC_SEQ_CST);
    }
    return before;
}

void pw_log_unfreeze(const struct pw_log_frozen *before) {
    if (before->is_here) {
        pw_log.has_no_clock = before->had_no_clock;
        pw_log.is_frozen = before->was_frozen;
    }
}

void pw_log_stay_frozen(const struct pw_log_frozen *before, int denied) {
    if (before->is_here && !before->was_frozen) {
        pw_log.frozen_error = denied;
    }
}
