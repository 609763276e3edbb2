// SPDX-License-Identifier: MIT
//
// A program that does to its memory whatever a program may do, and checks every byte. It knows
// nothing of Pagewise: what it does is right for the C library alone, and must stay right when
// malloc and memcpy are somebody else's.
//
// A run is a list of steps. Step n of seed s does the same whether or not the steps before it were
// done (plan.c), so that a failing run can be shortened by leaving steps out.
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGE ((size_t)1 << PW_PAGE_SHIFT)
#define KB   ((size_t)1 << 10)
#define MB   ((size_t)1 << 20)

// From this size on the C library maps a block by itself (program.c says so to mallopt), so that
// nothing of what was done to its pages is left when it is freed.
#define MAPPED_SIZE (128 * KB)

// --- random numbers (plan.c) -----------------------------------------------------

struct random {
    uint64_t state;
};

struct random random_of(uint64_t seed, uint64_t step);
uint64_t random_next(struct random *random);
uint64_t random_below(struct random *random, uint64_t limit); // in [0, limit)
bool random_chance(struct random *random, unsigned one_in);

// --- the model (model.c) ---------------------------------------------------------

// What was done to whole pages of a block, and is not undone yet.
enum mark_kind {
    MARK_NONE,
    MARK_WIPED,     // a child finds zeros
    MARK_NOT_THERE, // a child has no such pages
    MARK_READ_ONLY,
    MARK_NO_ACCESS,
    MARK_LOCKED,
    MARK_KEYED, // may be read
};

struct mark {
    enum mark_kind kind;
    size_t from, size; // bytes of the block
};

#define RACERS 3 // threads that write to blocks at a time, at most

struct block {
    unsigned char *data;
    size_t size;
    unsigned char *shadow; // what the bytes must be, from memory that nobody else knows
    size_t smallest, room; // sizes of this place's blocks
    struct mark mark;
    bool raced; // other threads write to some words of it (threads.c)
};

#define PLACES 128

struct world {
    struct block blocks[PLACES];
    uint64_t seed, step;
    unsigned depth;    // forks between the first process and this one
    bool may_allocate; // false in a child of a fork that left the C library's locks as they were
    bool may_load;     // likewise: the loader's lock, which no fork takes
    bool has_largest;  // blocks of several MB
    bool threads;      // of our own, besides this one
    bool headers;      // blocks have the C library's
    bool others_may_write; // so some calls on shared blocks may be refused: design/blocks.md
    bool unhooked_allowed; // blocks may be given to the C library's own functions
    const char *doing;
    struct random random;
};

extern struct world world;

void model_start(void);
unsigned char *raw_memory(size_t size, bool shared); // from the kernel, or the program ends

struct block *some_block(void);                      // a live one; NULL: not found
struct block *some_block_of(size_t smallest);        // of that size at least
struct block *some_place(void);                      // any; its block, if it has one, is freed
struct block *place_like(const struct block *block); // the same for a place of that room
size_t some_range(const struct block *block, size_t *from);             // bytes
bool some_pages(const struct block *block, size_t *from, size_t *size); // pages inside the block

void adopt(struct block *block, unsigned char *data, size_t size); // bytes are settled next
void settle(struct block *block, size_t from, size_t size);        // unknown bytes get a content
void fill(struct block *block, size_t from, size_t size);          // with random bytes, by stores
void release(struct block *block);                                 // checks and frees
bool may_write(const struct block *block, size_t from, size_t size);
bool may_read(const struct block *block, size_t from, size_t size);
void must_be_apart(const struct block *block); // from all other blocks

void check(const struct block *block);
void check_range(const struct block *block, size_t from, size_t size);
void check_some(const struct block *block); // ends and middle
void check_all(void);

// Copies and compares that no library stands before.
void plain_copy(void *to, const void *from, size_t size);
void plain_fill(void *to, int value, size_t size);

// --- what the supervisor reads (report.c) -------------------------------------------

struct report {
    uint64_t step;  // being done
    uint64_t steps; // done, those of children among them
    uint64_t forks, loads, stores, copies, refused;
    uint32_t failed;
    char text[1000];
};

extern struct report *report;

void report_start(const char *path);
void report_crashes(void); // by signal: says which, and where
void report_count(uint64_t *counter, uint64_t by);
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void say(const char *format, ...) __attribute__((format(printf, 1, 2))); // with --say
extern bool say_steps;

// --- operations ------------------------------------------------------------------

struct operation {
    const char *name;
    void (*run)(void);
    unsigned weight;  // in a million steps
    unsigned allowed; // where, of the following
};

#define IN_CHILDREN  1u // of forks too
#define WITH_THREADS 2u // also while threads of ours run
#define NO_MALLOC    4u // calls nothing of the malloc family
#define ANYWHERE     (IN_CHILDREN | WITH_THREADS)

extern const struct operation block_operations[], copy_operations[], mark_operations[],
    fork_operations[], thread_operations[], limit_operations[], file_operations[],
    signal_operations[], library_operations[], kernel_operations[];

// Settings of a run, for one kind of program differs from another (plan.c).
void plan_start(uint64_t seed, const char *left_out, const char *only);
const struct operation *plan_operation(void);   // of world.step; sets world.random
void run_steps(uint64_t first, uint64_t count); // skips those that are left out
void plan_list(uint64_t steps);
void plan_leave_steps(const char *path); // file of "first last" lines: the steps that are run

// --- between the files of operations -----------------------------------------------

struct block *some_unmarked(size_t *from, size_t *size); // and whole pages of it
bool mark_undo(struct block *block);
void marks_take_key(void);             // of protection: the right to read
bool refused_where_others_write(void); // by errno; counted
void copy_to_another(struct block *block);
void marks_after_fork(void); // in the child
long some_call(long number, long a, long b, long c, long d, long e,
               long f);                                                     // wrapper, syscall, asm
long raw_call(long number, long a, long b, long c, long d, long e, long f); // -errno

void threads_stop(void);
void threads_yield_block(struct block *block); // no thread writes to it any more
void threads_after_fork(void);                 // in the child
void threads_look(void);                       // their time may be over
// Words of raced blocks hold what threads store, not what the model says.
bool is_raced_range(const struct block *block, size_t from, size_t size);
struct race_time {
    uint64_t before[RACERS];
};
struct race_time race_begins(const struct block *block);
void race_copied(struct block *to, size_t to_at, const struct block *from, size_t from_at,
                 size_t size, const struct race_time *time);
size_t check_step(const struct block *block, size_t from, size_t size); // see model.c

void forks_start(void);
void forks_end(void); // all children: they check once more
void forks_after_fork(void);
void files_check(void);
void files_after_fork(void);
void libraries_end(void);
void libraries_load_once(void);

#endif
