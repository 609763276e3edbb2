// SPDX-License-Identifier: MIT
//
// Pagewise: run unmodified programs in less physical memory.
//
// This is the library's public header; pagewise_heap.h adds inline functions to it. Every size is
// in bytes unless its name says otherwise. All functions may be called from any thread and after
// fork(); none may be called from a signal handler, except pw_copy and pw_zero, which fall back to
// a plain copy there.
//
// Linking against libpagewise.so does not replace the program's malloc. Preloading
// libpagewise-preload.so does; both then use the one copy of the library in the process.
#ifndef PAGEWISE_H
#define PAGEWISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PW_VERSION "0.2.0"

// Statistics block
//
// One block a process. It lives in memory shared with readers: with the option statistics=DIR it is
// the file DIR/pagewise-PID.stats (DIR/pagewise-PID.N.stats after an exec under the same PID),
// which can be read while the program runs and after it has ended. The layout is the header below
// followed by one uint64_t for each name in PW_STATISTICS_FIELDS, in this order, little-endian.
// Fields are only ever appended; `version` changes when a meaning does. Values are updated without
// a lock: each one is consistent in itself, two of them may be a moment apart.

#define PW_STATISTICS_MAGIC   "PAGEWISE"
#define PW_STATISTICS_VERSION 1u

// X(name, meaning). Names ending in _bytes are bytes, all others are counts.
#define PW_STATISTICS_FIELDS(X)                                                                    \
    X(live_bytes, "pages of blocks in use, shared ones counted in full")                           \
    X(peak_live_bytes, "largest live_bytes so far")                                                \
    X(shared_bytes, "pages of live blocks that are mapped onto a snapshot, written since or not")  \
    X(snapshot_bytes, "pages held by snapshots: written and not yet punched")                      \
    X(peak_snapshot_bytes, "largest snapshot_bytes so far")                                        \
    X(cached_bytes, "warm pages in the pool: free, backed by memory")                              \
    X(huge_bytes, "live pages for which huge pages were advised")                                  \
    X(bookkeeping_bytes, "memory for our own tables")                                              \
    X(blocks_allocated, "blocks taken over from the C library")                                    \
    X(blocks_freed, "of these, released")                                                          \
    X(allocated_warm, "allocations served from warm pages alone")                                  \
    X(allocated_mixed, "allocations served from warm and fresh pages")                             \
    X(allocated_fresh, "allocations served from fresh pages alone")                                \
    X(gathered_bytes, "warm pages moved together to serve an allocation")                          \
    X(purges, "times warm pages were given back to keep the memory rule")                          \
    X(purged_bytes, "warm pages given back by the memory rule")                                    \
    X(decayed_bytes, "warm pages given back because they lay idle")                                \
    X(pressure_releases, "times the pool was emptied under memory pressure")                       \
    X(copies_seen, "copies of whole pages between managed blocks")                                 \
    X(copies_shared, "of these, answered by sharing pages")                                        \
    X(shared_copy_bytes, "pages that these copies did not have to copy")                           \
    X(copies_plain_warm, "copied: under 1 MB, and the destination was warm")                       \
    X(copies_plain_predicted, "copied: the predictor expected an overwrite")                       \
    X(copies_plain_dirty, "copied: most of the published source had been written since")           \
    X(copies_plain_shape, "copied: incongruent, too small or already shared otherwise")            \
    X(copies_plain_module, "copied: the calling module is not known to be safe")                   \
    X(copies_plain_fallback, "copied: a limit or a failed system call prevented sharing")          \
    X(publishes, "snapshots written")                                                              \
    X(published_bytes, "pages written into snapshots")                                             \
    X(private_copy_bytes, "shared pages seen to have been written, and so copied by the kernel")   \
    X(predictor_hits, "shared copies that stayed mostly shared")                                   \
    X(predictor_misses, "shared copies that were mostly overwritten")                              \
    X(snapshots_live, "snapshots in use")                                                          \
    X(arenas_live, "snapshot files open: its own, and those of its forebears")                     \
    X(punched_bytes, "snapshot pages released with their last owner")                              \
    X(sole_owner_bytes, "snapshot pages released because their only owner had replaced them")      \
    X(lazy_zero_bytes, "zero filling that touched no page")                                        \
    X(zero_scans, "passes of the zero reclaim")                                                    \
    X(zero_pages_checked, "pages whose content was checked for zero")                              \
    X(zero_pages_found, "of these, all zero")                                                      \
    X(zero_reclaimed_bytes, "all-zero pages given back")                                           \
    X(collections_seen, "ends of a garbage collection noticed")                                    \
    X(forks_seen, "times this process was found to be a fork's child")                             \
    X(fallback_arena, "address space: no more room for the block arena")                           \
    X(fallback_memfd, "snapshot file could not be created")                                        \
    X(fallback_file_size, "RLIMIT_FSIZE does not allow snapshots")                                 \
    X(fallback_write, "snapshot could not be written")                                             \
    X(fallback_map, "a mapping could not be made")                                                 \
    X(fallback_map_count, "sharing and moving of pages paused: vm.max_map_count is near")          \
    X(fallback_pagemap, "no page table information: /proc/self/pagemap cannot be used")            \
    X(fallback_pagemap_scan, "PAGEMAP_SCAN missing: the slower /proc/self/pagemap read instead")   \
    X(fallback_epochs, "sharing paused: too many of its forks still live, or of its forebears")    \
    X(fallback_descriptor, "our descriptor was closed or reused by the program")                   \
    X(fallback_threads, "publishing or zero reclaim left out: others may be writing to memory")    \
    X(fallback_move, "pages could not be moved between addresses")                                 \
    X(fallback_discard, "pages could not be given back")                                           \
    X(fallback_table, "our tables are full")                                                       \
    X(fallback_keeper, "background keeper could not be started: no timed decay")                   \
    X(collections_asked, "collections asked of the runtime: memory was short, or they were cheap") \
    X(collections_asked_bytes, "memory that these gave back")                                      \
    X(hugetlb_bytes, "pages of live blocks taken from the hugetlb pool")                           \
    X(fallback_hugetlb, "the hugetlb pool could not serve a block: other pages were used")         \
    X(fallback_lock, "a block could not be locked in memory (RLIMIT_MEMLOCK)")                     \
    X(mmapcopy_used, "1: the kernel has mmapcopy(2), and copies are shared by it")                 \
    X(copies_by_mmapcopy, "shared copies that mmapcopy(2) made, without a snapshot")               \
    X(fallback_mmapcopy, "mmapcopy(2) could not make a copy")                                      \
    X(segments_taken, "segments of small blocks made (policy general)")                            \
    X(segments_returned, "of these, released because they had become empty")                       \
    X(segment_idle_bytes, "pages inside segments given back because they held no block")           \
    X(fallback_general, "small blocks left to the C library: no pages, or locks lost in a fork")   \
    X(copies_plain_brief, "copied: such copies have lived too briefly to be worth sharing")        \
    X(blocks_altered, "blocks whose mapping the program changed: not shared, searched or kept")    \
    X(fallback_allocator, "the program brings a malloc of its own: all blocks are left to it")     \
    X(fallback_fork, "frees put off: a fork waited for a thread that waited for us")               \
    X(programs_left_plain, "programs started without the library: it cannot be preloaded there")   \
    X(fallback_seccomp, "all left to the C library: a seccomp filter is in force "                 \
                        "(seccomp=ignore)")                                                        \
    X(frozen_nodes, "objects of R's that no collection visits")                                    \
    X(freezes, "times they were frozen")                                                           \
    X(thaws, "times they were all given back to R")                                                \
    X(fallback_freeze, "nothing frozen: R's collector is not the one we know, or is not seen")     \
    X(fallback_written, "looks at all frozen objects: the kernel does not tell of written pages")  \
    X(fallback_page_size, "all left to the C library: built for pages of another size")

struct pw_statistics {
    char magic[8];    // PW_STATISTICS_MAGIC, no terminator
    uint32_t version; // PW_STATISTICS_VERSION
    uint32_t size;    // of this struct, in bytes
    uint64_t pid;     // whose block this is
    char policy[16];  // name of the policy in force, zero padded
#define PW_STATISTICS_DECLARE(name, meaning) uint64_t name;
    PW_STATISTICS_FIELDS(PW_STATISTICS_DECLARE)
#undef PW_STATISTICS_DECLARE
};

// Functions

#define PW_API __attribute__((visibility("default")))

// Version of the library that is loaded, which may be newer than PW_VERSION.
PW_API const char *pw_version(void);

// Is Pagewise serving large blocks in this process?
PW_API bool pw_is_on(void);

// Start serving blocks, with `options` in the form of PAGEWISE_OPTIONS (NULL: the environment's).
// Returns true when on; false when the policy is `plain` or the machine does not allow it, and then
// every function below behaves like its C library counterpart. Later calls change nothing.
PW_API bool pw_start(const char *options);

// Switching a running R or Python on and off
//
// Where the malloc family is preloaded, blocks are served or not from now on. Elsewhere R itself
// (libR.so, or the executable) and the libraries of its packages, or NumPy and what is built on it,
// reach us through their global offset tables, those loaded later among them; every other module of
// the process stays as it is.

// Switch on, or on again with other options, in the form of PAGEWISE_OPTIONS. False: nothing was
// changed, and *reason (unless NULL) says why, in one line. To be called where R code may run, or
// with the lock of Python's interpreter.
PW_API bool pw_switch_on(const char *options, const char **reason);

// Switch off: no more blocks are served, and free pages are given back. Blocks that live stay
// valid, and are released as before. Where libpagewise-general.so is preloaded, blocks of all
// sizes, small and large, go on being served before and after both calls: to switch off only gives
// free pages back and keeps none from then on (pw_is_on is false), and to switch on ends that.
PW_API void pw_switch_off(void);

// Freeze what R's packages have brought: R's collector no longer visits it (docs/design/frozen.md),
// so that collections of children that are forked from now on leave its pages shared. Returns NULL
// when that was done, else one line that says why not, which the caller does not free. Call it
// again when more packages were loaded, by the thread that R code runs in, where R code may run.
PW_API const char *pw_freeze_for_forks(void);

// For tests of R's permanent generation, in the form of R's .C(): freeze now, and thaw. `*watch`:
// the kernel tells of written pages; `*for_forks`: as pw_freeze_for_forks. `*problem` is set to one
// line, empty when all is well. Nothing freezes by itself from then on. To be called where R code
// may run.
PW_API void pw_freeze_now(const int *watch, const int *for_forks, char **problem);
PW_API void pw_thaw_now(void);

// Was the malloc family preloaded, so that all modules of the program are served?
PW_API bool pw_is_preloaded(void);

// Like malloc, calloc, aligned_alloc, realloc, free and malloc_usable_size. Blocks under the
// threshold come from the C library; blocks of either origin may be passed to pw_resize and
// pw_free. NULL and errno ENOMEM when there is no memory, EINVAL for an alignment that is no power
// of two.
PW_API void *pw_allocate(size_t size);
PW_API void *pw_allocate_zeroed(size_t count, size_t size);
PW_API void *pw_allocate_aligned(size_t alignment, size_t size);
PW_API void *pw_resize(void *block, size_t size);
PW_API void pw_free(void *block);
PW_API size_t pw_usable_size(const void *block);

// Is `address` inside a block that Pagewise, not the C library, has allocated?
PW_API bool pw_owns(const void *address);

// Like memmove; whole pages between blocks of ours are shared copy-on-write where that pays.
// As for memmove, no other thread may write to [from, from + size) or use [to, to + size)
// meanwhile. Bytes next to those ranges may be read and written freely. Returns `to`.
PW_API void *pw_copy(void *to, const void *from, size_t size);

// Like memset(to, 0, size), without touching pages that were never touched. Returns `to`.
PW_API void *pw_zero(void *to, size_t size);

// Tell Pagewise that a garbage collection has just ended and that no other thread writes to blocks
// of ours until this returns: all-zero pages are given back. Returns the bytes given back.
PW_API size_t pw_collection_ended(void);

// The same for a caller that cannot speak for other threads: all-zero pages are given back only if
// no other thread runs that could be writing to one.
PW_API size_t pw_collection_noticed(void);

// Give back every warm page, and what the C library released without our knowledge. Returns the
// bytes given back.
PW_API size_t pw_trim(void);

// What memory costs
//
// A block of ours, as it is now.
struct pw_block_info {
    uint64_t id;           // of this block, in this process, until it is released
    const void *address;   // of its first byte
    size_t size;           // bytes asked for
    size_t page_bytes;     // bytes of its pages
    uint64_t snapshot;     // blocks with the same number, not 0, share pages (by a snapshot)
    uint32_t huge_shift;   // log2 of the size of the large pages it was laid out for; 0: none
    uint32_t from_hugetlb; // 1: pages of the hugetlb pool
    uint32_t locked;       // 1: its pages are neither shared nor moved: locked, or of the pool
};

// The block that contains `address`. False: none of ours.
PW_API bool pw_block_describe(const void *address, struct pw_block_info *info);

// Describe at most `room` blocks, in no order; returns how many there are.
PW_API size_t pw_block_list(struct pw_block_info *blocks, size_t room);

// What a range of any memory takes, in bytes of whole pages. Absent pages cost nothing.
struct pw_page_cost {
    uint64_t own;    // in memory, used here alone
    uint64_t shared; // in memory, used elsewhere as well: by other vectors, or other processes
    uint64_t swapped;
    uint64_t absent;     // never written, or given back: they read zero, or from a file
    uint64_t huge;       // of those in memory, in huge pages
    uint32_t huge_known; // 0: this kernel does not tell
    uint32_t reserved;
};

// False: this kernel, or a container, does not let a process know about its own pages, or the range
// goes beyond the last address.
PW_API bool pw_page_cost(const void *address, size_t size, struct pw_page_cost *cost);

// Gather the whole 2 MB units of a range of any memory into huge pages, now. Returns the bytes
// that are in huge pages afterwards, or were asked for where that is not known.
PW_API size_t pw_collapse(const void *address, size_t size);

// Objects shared between processes
//
// A shared object is a sealed memory file: parts, each on pages of its own, that nobody can change
// any more, and that only processes of one user can open. A handle names a part in a few bytes that
// can be sent in any way. Every process sees a part through private views of its own: pages that
// it writes become its own, the others are shared by all. The object ends with the last process
// that has it open, however that process ends.
//
// None of these functions keeps state: what is open is in the caller's struct, which may be used by
// a forked child as well. They may allocate from the C library.

#define PW_SHARED_HANDLE_SIZE 80u
#define PW_SHARED_UNKNOWN     UINT64_MAX

enum pw_shared_result {
    PW_SHARED_OK,
    PW_SHARED_DAMAGED, // no handle, or not as it was made
    PW_SHARED_LAYOUT,  // made by another version of Pagewise, or for other processors
    PW_SHARED_RUNTIME, // made by another version of the runtime
    PW_SHARED_MACHINE, // made on another machine, or before the machine's last start
    PW_SHARED_USER,    // made by another user
    PW_SHARED_DENIED,  // may exist: the process that has it, or /proc, may not be looked into
    PW_SHARED_GONE,    // no process has it any more
    PW_SHARED_FORGED,  // what was found is not what the handle describes
    PW_SHARED_LIMIT,   // no memory file, or no descriptor, could be had
    PW_SHARED_MEMORY,  // the memory file could not be written: out of memory, or RLIMIT_FSIZE
    PW_SHARED_PAGES,   // this kernel's pages are not of 4 KB: see fallback_page_size
};

struct pw_shared { // an open object
    int32_t fd;    // -1: none
    uint32_t parts;
    uint64_t device, inode; // of the file
    uint64_t size, table;
    uint32_t runtime;
    uint32_t maker_pid;
    int32_t maker_fd;
    uint8_t token[16];
};

struct pw_shared_part {
    uint64_t offset, size; // bytes
    uint64_t length;       // these two mean what the caller says
    uint32_t kind;
    uint32_t check;
};

// Kinds of parts that R and Python open of each other, by number: they are R's types. A part of
// such a kind holds `length` elements and nothing else. Other kinds are their maker's own.
enum pw_shared_kind {
    PW_SHARED_LOGICAL = 10, // int32_t: 0, 1, INT32_MIN (NA)
    PW_SHARED_INTEGER = 13, // int32_t, where INT32_MIN is R's NA
    PW_SHARED_REAL = 14,    // double
    PW_SHARED_COMPLEX = 15, // two of double
    PW_SHARED_RAW = 24,     // uint8_t
};

// What the word `runtime` below begins with, in its high byte; the next byte is a version of what
// the parts are like, and the rest is the runtime's own.
#define PW_SHARED_RUNTIME_R      ((uint32_t)'R')
#define PW_SHARED_RUNTIME_PYTHON ((uint32_t)'P')

struct pw_shared_name { // what a handle says
    uint8_t token[16];
    uint32_t part, user, runtime, maker_pid;
};

// Make an object: begin, write the parts one after the other, each from a next page on, finish.
// `runtime` is the caller's: handles are accepted where the same number is asked for. Until it is
// finished no other process can use it; pw_shared_close gives it up.
PW_API enum pw_shared_result pw_shared_begin(struct pw_shared *shared, uint32_t runtime);
PW_API uint64_t pw_shared_next_page(struct pw_shared *shared); // returns the offset
PW_API enum pw_shared_result pw_shared_write(struct pw_shared *shared, const void *from,
                                             size_t size);
PW_API enum pw_shared_result pw_shared_finish(struct pw_shared *shared,
                                              struct pw_shared_part *parts, uint32_t count);

// Closes the descriptor: no new views can be made here. Those that exist stay valid, until they are
// unmapped.
PW_API void pw_shared_close(struct pw_shared *shared);

// Write PW_SHARED_HANDLE_SIZE bytes that name a part.
PW_API void pw_shared_handle(const struct pw_shared *shared, uint32_t part, void *to);

// What a handle says; *name is filled in unless the result is PW_SHARED_DAMAGED.
PW_API enum pw_shared_result pw_shared_read_handle(const void *from, size_t size, uint32_t runtime,
                                                   struct pw_shared_name *name);

// Open the object of a handle, from whichever process has it. PW_SHARED_OK: it takes a descriptor,
// until pw_shared_close.
PW_API enum pw_shared_result pw_shared_open(const void *from, size_t size, uint32_t runtime,
                                            struct pw_shared *shared);

// False: there is no such part.
PW_API bool pw_shared_describe(const struct pw_shared *shared, uint32_t index,
                               struct pw_shared_part *part);

// pw_shared_map makes a view of a part, pw_shared_map_again one more that reads as `view` does,
// with what was written there. Each is the caller's to end, by pw_shared_unmap. NULL: it could not
// be mapped.
PW_API void *pw_shared_map(const struct pw_shared *shared, const struct pw_shared_part *part);
PW_API void *pw_shared_map_again(const struct pw_shared *shared, const struct pw_shared_part *part,
                                 const void *view);
PW_API void pw_shared_unmap(void *view, const struct pw_shared_part *part);

// Copy a part's bytes (part->size) to `to`. False: they could not be read.
PW_API bool pw_shared_read(const struct pw_shared *shared, const struct pw_shared_part *part,
                           void *to);

// Does the view read otherwise than the part? And how many bytes of it are pages of this process's
// own (PW_SHARED_UNKNOWN where the kernel does not tell)?
PW_API bool pw_shared_changed(const struct pw_shared *shared, const struct pw_shared_part *part,
                              const void *view);
PW_API uint64_t pw_shared_private(const struct pw_shared_part *part, const void *view);

// What a view costs, as pw_page_cost() says it of other memory. But pages of the object count as
// shared whoever has touched them: in cost->shared, and their bytes alone in *published. False: the
// kernel does not tell.
PW_API bool pw_shared_cost(const struct pw_shared_part *part, const void *view,
                           struct pw_page_cost *cost, uint64_t *published);

// Write the numbers of the processes that have it open, at most `room`; returns how many there are.
PW_API size_t pw_shared_holders(const struct pw_shared *shared, uint32_t *pids, size_t room);

// For a thread that blocks all signals and writes neither to blocks of ours nor to any that malloc
// returned: it calls these when it begins and before it ends. Copies are then shared and zeros
// given back beside it, as if it were not there.
PW_API void pw_quiet_thread_began(void);
PW_API void pw_quiet_thread_ends(void);

// Copy at most `size` bytes of the statistics block to `out`; returns the bytes copied.
PW_API size_t pw_statistics_read(struct pw_statistics *out, size_t size);

// What the heap holds, and the statistics, as text or as one JSON object: at most `size` bytes, the
// last of them NUL. Returns how long the whole text is (32 KB are enough). Allocates nothing.
PW_API size_t pw_statistics_text(char *text, size_t size, bool json);

// Transaction heap
//
// For memory that dies together: what a request allocates, what one message needs. Blocks can be
// freed one by one, as with malloc, and are reused at once; nothing is ever coalesced or sorted;
// and pw_heap_free_all ends the transaction by forgetting all blocks, whatever their number,
// without touching them. This is the defrag-dodging heap of Inoue, Komatsu and Nakatani (PLDI
// 2009): sections named below are that paper's. docs/guide/transaction-heap.md says when to use it.
//
// - Ownership: a block belongs to the heap it came from until it is freed, free-all or deletion. It
//   may be passed to functions of that heap only, never to free() or to pw_free, nor theirs here.
// - Threads: a heap has no lock. It may be used by one thread at a time; blocks may be read and
//   written by any. To hand a heap over, pass it with whatever orders memory between the two
//   threads (a mutex, a queue), best between transactions; one with PW_HEAP_CHECKED, which takes
//   two threads in one transaction for a mistake, only then. Different heaps know nothing of each
//   other.
// - Fork: the child has a copy of the heap and of its blocks, its own to use or to delete.
// - Signal handlers: none of these functions, unless the handler has a heap for itself.
// - Errors: functions that return memory return NULL and set errno: ENOMEM where the heap's limit
//   or the machine is exhausted, EINVAL for an argument that can never work. The heap is as before.
//   All others cannot fail. errno is kept otherwise.
// - Alignment: 16 bytes; of blocks of up to 8 bytes, 8.
// - Memory comes from the kernel in chunks of 4 MB of address space, cut into segments (section
//   3.2). A page takes physical memory from the first block that is put on it. Address space is
//   what RLIMIT_AS counts: 4 MB for a heap that is used at all.
//
// pagewise_heap.h has alloc and free as inline functions; pagewise_resource.hpp is the C++
// interface.

struct pw_heap;

// Kinds of misuse that a heap with PW_HEAP_CHECKED tells apart.
enum pw_heap_misuse {
    PW_HEAP_FOREIGN_FREE = 1,     // not a block of this heap
    PW_HEAP_INNER_FREE,           // points into a block, not to its start
    PW_HEAP_DOUBLE_FREE,          // the block was freed before
    PW_HEAP_FREE_AFTER_FREE_ALL,  // the block was of a transaction that has ended
    PW_HEAP_OVERFLOW,             // bytes behind the block's end were written
    PW_HEAP_WRITE_AFTER_FREE,     // a block was written after it was freed
    PW_HEAP_WRITE_AFTER_FREE_ALL, // memory of a transaction that has ended was written
    PW_HEAP_WRONG_THREAD,         // two threads used the heap in one transaction
};

// For pw_heap_options.flags.
#define PW_HEAP_HUGE_PAGES   1u // ask the kernel for huge pages (section 3.3, second optimization)
#define PW_HEAP_RETURN_EMPTY 2u // at free-all, give everything above keep_bytes back to the kernel
#define PW_HEAP_CHECKED      4u // find misuse: about ten times slower, two to three times the memory

// Fields that are 0 mean the default. Start from {0}: fields that a later version adds are 0 then.
struct pw_heap_options {
    // Size of a segment: a power of two from 16 KB to 256 KB; 0: 32 KB, the paper's. Blocks of more
    // than half of it take whole segments. Smaller segments need less memory where few blocks of
    // many sizes are alive, larger ones take fewer steps.
    size_t segment_bytes;
    // Segments in use may take this much; 0: no limit. pw_heap_set_limit changes it.
    size_t limit_bytes;
    // Called when an allocation would pass the limit, and pw_heap_reclaim found nothing for it,
    // with the bytes that it needs beyond what is in use. It may free blocks, raise the limit, or
    // not return at all (longjmp, a C++ exception: the heap is whole). true: try again, and ask
    // again if that fails. NULL: the allocation fails.
    bool (*on_limit)(struct pw_heap *heap, size_t needed_bytes, void *context);
    // With PW_HEAP_CHECKED: called with what was found, on which block, and a line of text that
    // says so. When it returns the heap goes on, and a wrong free does nothing. NULL: the text goes
    // to standard error, and abort() is called.
    void (*on_misuse)(struct pw_heap *heap, enum pw_heap_misuse kind, const void *block,
                      const char *text, void *context);
    void *context; // for the two
    // Memory that is not given back to the kernel at free-all. Without PW_HEAP_RETURN_EMPTY the
    // heap keeps at least this, and what recent transactions used: after a large one, the surplus
    // goes back in steps of a sixteenth for each transaction that did not need it, and blocks above
    // 4 MB, of which up to 32 MB are kept, once they lay idle for eight. 0: no minimum. SIZE_MAX:
    // never give back.
    size_t keep_bytes;
    unsigned flags;
    unsigned reserved[7]; // must be 0
};

// A new, empty heap; NULL, EINVAL for options that make no sense, ENOSYS where the kernel's pages
// are not of the size that the library was built for, ENOMEM. Free it with pw_heap_delete.
PW_API struct pw_heap *pw_heap_new(const struct pw_heap_options *options);

// End of the heap: all its blocks, and all its memory back to the kernel. NULL is allowed.
PW_API void pw_heap_delete(struct pw_heap *heap);

// A block of at least `size` bytes, its contents undefined. A size of 0 is a block like any other.
PW_API void *pw_heap_alloc(struct pw_heap *heap, size_t size);

// The same for programs that need no more than PHP gives them: aligned to 8 bytes alone, in classes
// that leave less over (24, 40, 56, ... bytes; four to a doubling from 512 to 3584). Not for what
// SSE code or a `long double` lies in.
PW_API void *pw_heap_alloc_packed(struct pw_heap *heap, size_t size);

// As pw_heap_alloc, zero. `count` times `size` bytes, ENOMEM where that overflows.
PW_API void *pw_heap_zalloc(struct pw_heap *heap, size_t count, size_t size);

// As pw_heap_alloc, at a multiple of `alignment`: a power of two up to 1 MB, else EINVAL.
PW_API void *pw_heap_aligned(struct pw_heap *heap, size_t alignment, size_t size);

// As realloc: NULL allocates; contents move where they must; on failure the block is as before. A
// size of 0 is a size, not a free. A block that becomes smaller needs no memory: where there is no
// other place for it, it stays in its own. A block that moves is one of pw_heap_alloc's: neither
// the alignment of pw_heap_aligned nor the classes of pw_heap_alloc_packed are kept.
PW_API void *pw_heap_realloc(struct pw_heap *heap, void *block, size_t size);

// Free one block: it is the next one that an allocation of its class gets. NULL is allowed.
PW_API void pw_heap_free(struct pw_heap *heap, void *block);

// The bytes of the block that may be used, at least what was asked for. NULL has none.
PW_API size_t pw_heap_usable_size(struct pw_heap *heap, const void *block);

// Does the address lie in memory that this heap took from the kernel? For programs that are handed
// blocks of several allocators. Takes time in proportion to the heap's megabytes.
PW_API bool pw_heap_contains(struct pw_heap *heap, const void *address);

// End of a transaction: all blocks of the heap are gone (section 3.1). The time it takes does not
// depend on how many they are; blocks above 4 MB each add a little, and so does memory that is
// given back. Needed even where every block was freed: only this undoes fragmentation.
PW_API void pw_heap_free_all(struct pw_heap *heap);

// Bytes of segments in use: what the limit limits. Costs next to nothing.
PW_API size_t pw_heap_segment_bytes(struct pw_heap *heap);

// Let segments whose blocks were all freed serve other size classes and large blocks: the heap does
// it by itself before an allocation fails, a program where a phase with other sizes begins. With
// `give_back`, chunks without a block go back to the kernel, and blocks above 4 MB that were kept.
// Returns the bytes of these segments. Takes time in proportion to the freed blocks.
PW_API size_t pw_heap_reclaim(struct pw_heap *heap, bool give_back);

// Change the limit; 0: none. What is in use above it stays.
PW_API void pw_heap_set_limit(struct pw_heap *heap, size_t limit_bytes);

// Call `visit` with each live block, in no certain order, and its usable size. The visitor must not
// use the heap; returning false ends the walk. True when every block was visited, false also when
// there was no memory for the list of free blocks.
typedef bool pw_heap_visitor(void *block, size_t usable_bytes, void *context);
PW_API bool pw_heap_walk(struct pw_heap *heap, pw_heap_visitor *visit, void *context);

// What the heap is made of. live + free + fresh + slack = segment bytes.
struct pw_heap_statistics {
    uint64_t live_blocks; // blocks in use
    uint64_t live_bytes;  // their usable size
    uint64_t free_bytes;  // freed in this transaction, to be used again for their size class
    uint64_t empty_segment_bytes; // of these, in segments without a live block: what
                                  // pw_heap_reclaim takes for other sizes
    uint64_t fresh_bytes;         // not yet carved from the segments of their class
    uint64_t slack_bytes;         // ends of segments too short for a block
    uint64_t segment_bytes;       // segments in use: what the limit limits
    uint64_t peak_segment_bytes;  // most of that at any time since the heap was made
    uint64_t mapped_bytes;        // address space taken from the kernel
    uint64_t bookkeeping_bytes;   // of mapped_bytes: our tables
    uint64_t limit_bytes;         // 0: none
    uint64_t transactions;        // calls of pw_heap_free_all
    uint64_t returned_bytes;      // given back to the kernel at free-all, so far
};

// Counted now: takes time in proportion to the freed blocks.
PW_API void pw_heap_statistics_read(struct pw_heap *heap, struct pw_heap_statistics *out);

// Region
//
// The bump region that the paper measures against (section 4.1), behind the same interface: blocks
// come one behind the other and are never reused, pw_region_free does nothing. Allocating costs
// least, and memory most: a program that frees as it goes needs several times that of a heap.
// Chunks of 256 MB of address space. What is said of heaps' ownership, threads, fork, errors and
// alignment holds, but:
//
// - blocks carry no size, so that a region cannot be walked, pw_region_usable_size is 0 for "not
//   known", and pw_region_realloc copies as many bytes as the new size has;
// - of the options, segment_bytes and PW_HEAP_CHECKED are refused (EINVAL); on_limit is called with
//   NULL for the heap; keep_bytes has a meaning with PW_HEAP_RETURN_EMPTY only: without it, a
//   region keeps all its memory;
// - in the statistics all blocks since free-all are live, and their number is not known (0).

struct pw_region;

PW_API struct pw_region *pw_region_new(const struct pw_heap_options *options);
PW_API void pw_region_delete(struct pw_region *region);
PW_API void *pw_region_alloc(struct pw_region *region, size_t size);
PW_API void *pw_region_zalloc(struct pw_region *region, size_t count, size_t size);
PW_API void *pw_region_aligned(struct pw_region *region, size_t alignment, size_t size);
PW_API void *pw_region_realloc(struct pw_region *region, void *block, size_t size);
PW_API void pw_region_free(struct pw_region *region, void *block);
PW_API size_t pw_region_usable_size(struct pw_region *region, const void *block);
PW_API bool pw_region_contains(const struct pw_region *region, const void *address);
PW_API void pw_region_free_all(struct pw_region *region);
PW_API void pw_region_set_limit(struct pw_region *region, size_t limit_bytes);
PW_API void pw_region_statistics_read(struct pw_region *region, struct pw_heap_statistics *out);

#ifdef __cplusplus
}
#endif

#endif
