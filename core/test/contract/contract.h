// SPDX-License-Identifier: MIT
//
// What malloc promises, as short cases. Each case states one promise of C17, POSIX, the C library's
// manual, or one that programs take for granted because every widespread allocator keeps it. The
// cases know nothing of Pagewise; only `got` asks whether a block is served by who should serve it.
#ifndef PW_TEST_CONTRACT_H
#define PW_TEST_CONTRACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAGE     ((size_t)1 << PW_PAGE_SHIFT)
#define KILOBYTE ((size_t)1 << 10)
#define MEGABYTE ((size_t)1 << 20)
#define LEAST    ((size_t)16) // every block is aligned to that (alignof(max_align_t))

struct promise {
    const char *name, *text;
    void (*keep)(void);
    unsigned how;
};

// How a case is run, and what it leaves undone.
#define ENDS     1u // it ends the process: its last handler calls kept()
#define ALONE    2u // it changes the process for good: not in one process with others
#define UNSERVED 4u // where only large blocks are Pagewise's, it may see none

extern const struct promise allocation_promises[], refusal_promises[], resize_promises[],
    alignment_promises[], thread_promises[], fork_promises[], signal_promises[], end_promises[],
    library_promises[], module_promises[], memory_promises[], stress_promises[];

extern const char *module_path;
extern bool is_hooked; // only this program reaches Pagewise, and not the C++ library

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            broken(__FILE__, __LINE__, #condition);                                                \
        }                                                                                          \
    } while (0)

__attribute__((noreturn)) void broken(const char *file, int line, const char *condition);
void kept(void); // the case that ends the process is over, and all was well

// The block, after a look at it: it is there, aligned, long enough, and served by Pagewise where
// this way of running serves such a size.
void *got_at(const char *file, int line, void *block, size_t alignment, size_t size);

#define got(block, size)                    got_at(__FILE__, __LINE__, block, LEAST, size)
#define got_aligned(block, alignment, size) got_at(__FILE__, __LINE__, block, alignment, size)

// Content that tells blocks, and places in them, apart.
void fill(void *block, size_t size, uint64_t seed);
bool holds(const void *block, size_t size, uint64_t seed);
bool is_all(const void *block, size_t size, unsigned char value); // every byte

// A block of a case that has many; its place among them is the seed of its content.
struct held {
    void *data; // may be NULL
    size_t size;
};
void free_held(struct held *blocks, unsigned count); // after a look at what each holds

struct random {
    uint64_t state;
};
uint64_t random_below(struct random *random, uint64_t limit);
size_t random_size(struct random *random); // mostly small, up to 2 MB

// Sizes at which an allocator does something else from one byte to the next.
extern const size_t edges[];
extern const size_t edge_count;

// In a child: 0 if the function came to its end, else the status of waitpid.
int in_child(void (*function)(void *), void *argument);
void wait_for(int child); // which must end with 0
void *new_thread(void *(*start)(void *), void *argument);
void *join(void *thread);

#ifdef __cplusplus
}
#endif

#endif
