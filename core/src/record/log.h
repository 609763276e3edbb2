// SPDX-License-Identifier: MIT
//
// The recorder's log: each thread writes what it allocates and frees into chunks of a mapped file
// (record_spool.h), without locks and without calling anybody. A crash loses at most the record
// that was being written.
#ifndef PW_RECORD_LOG_H
#define PW_RECORD_LOG_H

#include "os/os.h"
#include "record/spool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PW_LOG_USUAL_FRAMES 64
#define PW_LOG_MAX_FRAMES   256  // where interpreters have several frames to each of the program's
#define PW_LOG_MODULES      4096 // places for modules, a power of two
#define PW_LOG_MODULE_WORDS 140  // of a module's record
#define PW_LOG_LANES_FROZEN 32

// A thread's lane. Lives on after the thread, for the next one.
struct pw_lane {
    uint64_t *next, *end; // where the next record goes; the chunk's end
    uint64_t stamp;       // of the last record
    uint32_t epoch;       // of the process that the lane belongs to, see pw_log.epoch
    uint32_t number, chunks;
    uint32_t generation; // pw_log.generation when the slots were last filled
    // The chunk's address, and in its lowest bits its size in steps. One word: another thread may
    // fork at any time. 0: none.
    uintptr_t mapped;
    uintptr_t left;        // likewise the parent's, in whose place a child has memory of its own
    struct pw_lane *older; // next in the list of all
    int64_t until_sample;  // bytes to the next sample
    uint64_t random;
    uintptr_t stack_base;            // where the thread's stack begins (its highest address)
    uintptr_t stack_low, stack_high; // what may be read when walking the stack; 0: nothing
    struct pw_unwound *unwound;      // unwind.c; NULL before the first
    struct pw_lane *spare;           // next in the list of lanes without a thread
    // Of a stack and of a module in the making: the thread's own stack may be small.
    uint64_t stack_words[PW_LOG_MAX_FRAMES], module_words[PW_LOG_MODULE_WORDS];
    uint64_t slots[PW_SPOOL_SLOTS]; // which site or stack a slot stands for
};

// A module that has been written down. Read and written by all threads at once, hence in words that
// mean something each: `key` comes last and says that the others are there.
struct pw_log_module {
    uint64_t key;   // of its place, name and build id; 0: nothing
    uint64_t range; // first page's number << 28 | pages; 0: another one has been loaded there since
    uint32_t load;
};

// Room in the spool that is mapped before it is needed: a program that enters a sandbox may end by
// any system call of ours.
struct pw_log_reserve {
    char *start;
    uint64_t size, used;
    uint32_t lanes_used;
    struct pw_lane lanes[PW_LOG_LANES_FROZEN];
};

// All state of the recorder but what is in a thread's own storage.
struct pw_log {
    // In a page that reads zero in a child of any kind of fork: the process's number in the line of
    // forks, 0 when it has not begun to record. NULL: never.
    uint32_t *epoch;
    uint32_t last_epoch;
    bool is_started;        // the options have been read
    bool is_on;             // events are written down
    uintptr_t first_thread; // the thread pointer of that which began the program
    enum pw_spool_stacks stacks;
    bool has_children; // children record as well
    uint64_t sample_bytes;
    uint64_t seeds; // given out so far
    char folder[1024];
    char working_folder[1024]; // when the process began to record
    char path[1100];
    uintptr_t behind; // a function of the allocator behind us; 0: not known yet
    char allocator[PW_SPOOL_ALLOCATOR];
    char settings[PW_SPOOL_SETTINGS];
    struct pw_os_file file;
    struct pw_spool_header *header;
    uint64_t size;  // of the file, chunks in the making included
    uint32_t lanes; // given out
    uint32_t lock;  // of `spare`
    struct pw_lane *spare;
    struct pw_lane *newest; // of all lanes
    uint64_t *sampled;      // addresses of the blocks in the sample, see record_sample.c
    // Grows when an address may mean another module than before: lanes then forget their slots.
    uint32_t generation;
    uint32_t loads;   // given out
    uint32_t closing; // threads that are in dlclose
    uint32_t reading; // threads that read what one could unload
    struct pw_log_module modules[PW_LOG_MODULES];
    // Where the program has restricted its system calls, see record_seccomp.c.
    bool is_frozen;    // none may be made any more
    bool is_closed;    // none that opens a file or asks who we are
    bool is_blind;     // none that copies memory which may not be there
    bool is_restless;  // none that lets others run
    bool is_unaware;   // none that tells of the thread's stack for signals
    bool has_no_clock; // reading it would end the thread: stamps are counted
    enum pw_spool_stop frozen_for;
    int frozen_error;
    uint64_t counted;  // the last stamp
    uint32_t nameless; // threads whose number could not be asked for
    struct pw_log_reserve *reserve;
};

extern struct pw_log pw_log;

// Reads the options from PAGEWISE_RECORD. Happens at the first event, if that is earlier: other
// libraries' constructors may run before ours.
void pw_log_start(void);

// Makes ready what whole stacks need; when the program's libraries are being initialised.
void pw_log_start_unwinder(void);

// The program comes to its end.
void pw_log_end(void);

// Write down an allocation (after it has been made) and a free (before it is made). `frame` is the
// frame address of the function that the program called, `site` its return address. `alignment` is
// the logarithm of the alignment asked for to base 2, 0 where none was.
void pw_log_allocation(const void *block, size_t size, unsigned alignment, const void *site,
                       const void *frame);
void pw_log_free(const void *block);

// A realloc is a free and an allocation, and it is known only afterwards whether there was a free:
// what must be known before the address may be another thread's is found out before. The block
// lives on as the allocation behind its free, if that is written down.
struct pw_log_resize {
    const void *block; // NULL: none
    uint64_t stamp;
    bool is_recorded; // the block's allocation was
};
struct pw_log_resize pw_log_resize_begins(const void *block);
void pw_log_resize_failed(const struct pw_log_resize *resize);
// `moved` NULL: the block was only released.
void pw_log_resized(const struct pw_log_resize *resize, const void *moved, size_t size,
                    const void *site, const void *frame);

// Before the program restricts its system calls: makes room ahead and freezes the recorder, which
// makes none from then on. `has_clock`: the clock can be read afterwards.
struct pw_log_frozen {
    bool is_here; // false: this process does not record
    bool was_frozen, had_no_clock;
};
struct pw_log_frozen pw_log_freeze(enum pw_spool_stop reason, bool has_clock);
// Afterwards: it was refused, or forbids nothing that we need. Else `denied` is such a call.
void pw_log_unfreeze(const struct pw_log_frozen *before);
void pw_log_stay_frozen(const struct pw_log_frozen *before, int denied);

// --- between the recorder's files ------------------------------------------------

// The slot of an allocation's site; writes it down where it is new (record_site.c).
uint32_t pw_site_slot(struct pw_lane *lane, const void *site, const void *frame);
void pw_site_forget_modules(void); // an address may mean another module from now on
void pw_site_find_stack(struct pw_lane *lane);

// Stacks by unwind tables (unwind.c). The first says whether they can be found here. The second
// finds the return addresses from `site` on, innermost first, and says how many: 0 where it cannot
// tell, on another stack than the thread's for instance.
bool pw_unwind_start(void);
size_t pw_unwind(struct pw_lane *lane, const void *site, const void *frame, const uint64_t **stack);

// Keeps libraries loaded while what lies in them is read (hold.c): an address on the stack need not
// be one that somebody returns to. Not one in the other. False: another thread is unloading some,
// and nothing is kept.
bool pw_hold_libraries(void);
void pw_hold_release(void);
// dlclose begins, and has ended.
void pw_hold_closing_begins(void);
void pw_hold_closing_ends(void);
void pw_hold_begin_child(void); // in which only the thread that has forked goes on

// The stacks found so far do not count any more.
void pw_unwind_forget(struct pw_lane *lane);

// Sampling (record_sample.c).
bool pw_sample_start(void);
void pw_sample_begin(struct pw_lane *lane);
bool pw_sample_takes(struct pw_lane *lane, size_t size);
bool pw_sample_add(const void *block);
bool pw_sample_remove(const void *block);

#endif
