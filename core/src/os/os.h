// SPDX-License-Identifier: MIT
//
// os: the only room that makes system calls on memory, descriptors and processes.
//
// Every function reports failure by its result and never ends the program. errno is preserved by
// all of them: they run inside malloc, free and memcpy, whose callers do not expect it to change.
// Sizes are bytes; ranges are whole pages.
#ifndef PW_OS_OS_H
#define PW_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Of a guess that is read without the lock which guards it, and found out again under it.
#define PW_UNLOCKED __attribute__((no_sanitize("thread")))

// What everything is counted in. It must be the kernel's own page, which on x86-64 is always of 4
// KB, and on aarch64 of 4, 16 or 64 KB: cmake's PAGEWISE_PAGE_SHIFT says which (12, 14, 16).
#ifndef PW_PAGE_SHIFT
#define PW_PAGE_SHIFT 12
#endif
#define PW_PAGE      ((size_t)1 << PW_PAGE_SHIFT)
#define PW_HUGE_PAGE ((size_t)2 << 20)

static inline size_t pw_pages_for(size_t bytes) {
    return (bytes + PW_PAGE - 1) >> PW_PAGE_SHIFT;
}

// Is it? Else nothing may be mapped, given back or shared by whole pages: the kernel takes the rest
// of its own page as well.
bool pw_os_pages_fit(void);

// --- memory ------------------------------------------------------------------

// New zero pages at exactly `address`, which must be free. `occupied`: it is not, in a part at
// least.
bool pw_os_map_new(void *address, size_t size, bool *occupied);

// New zero pages in place of whatever is mapped at `address`: drops contents, advice and sharing.
bool pw_os_map_blank(void *address, size_t size);

// A private, copy-on-write mapping of file `fd` at `offset`, in place of whatever is mapped.
bool pw_os_map_snapshot(void *address, size_t size, int fd, uint64_t offset);

// mmapcopy(2) (kernel/man/mmapcopy.2): pages appear a second time in this process, shared
// copy-on-write. Does this kernel have it? Asks by calling it, which harms nothing whatever the
// kernel does: mmapcopy.c says why.
bool pw_os_has_mmapcopy(void);

// Make [to, to + size), whatever is mapped there, a copy of the pages at `from`.
enum pw_os_copied {
    PW_OS_COPIED,
    PW_OS_COPY_FAILED, // `to` may be unmapped, or hold a part of the copy
    PW_OS_COPY_DENIED, // the kernel no longer offers the call to this process
};
enum pw_os_copied pw_os_mmapcopy(void *to, const void *from, size_t size);

// Give address space back.
bool pw_os_unmap(void *address, size_t size);

// Address space without memory in place of whatever is mapped at `address`: it counts in fewer
// limits than memory does.
bool pw_os_map_unusable(void *address, size_t size);

// Address space without memory, anywhere. NULL when there is none.
char *pw_os_map_reserved(size_t size);

// Make part of such a range readable, or all of it unreadable again: pages that differ from their
// neighbours are mappings of their own.
bool pw_os_split_reserved(void *address, size_t size);
bool pw_os_join_reserved(void *address, size_t size);

// Zero pages anywhere, for our own tables. NULL when there are none.
void *pw_os_map_table(size_t size);

// Zero pages at a multiple of `alignment`, a power of two. NULL when there are none.
void *pw_os_map_aligned(size_t size, size_t alignment);

// Make a mapping larger, where it is or at another multiple of `alignment`, without a copy. NULL:
// it is as before.
void *pw_os_grow(void *from, size_t size, size_t larger, size_t alignment);

// Move the pages at `from` to `to`, replacing what is mapped there. `from` reads zero afterwards;
// it is never left unmapped (Linux 5.7), so that a failure further on finds no hole. Each mapping
// is moved by a call of its own: since Linux 6.17 one call moves several of them one by one and may
// stop half-way. False: `from` reads as before, and `to` reads undefined and may be unmapped, in
// part or in whole. Nobody else may use either range meanwhile.
bool pw_os_move(void *from, size_t size, void *to);

// Move one mapping and make it larger, replacing what is mapped at `to`; nothing is at `from` then.
// False: `from` is as before, and `to` may be unmapped.
bool pw_os_move_larger(void *from, size_t size, void *to, size_t larger);

// Drop the contents of private anonymous pages: they read zero afterwards.
bool pw_os_discard(void *address, size_t size);

// Before pages are dropped that may be parts of huge ones: have the kernel split those, or it keeps
// the dropped parts until it runs short of memory. Contents stay. Before Linux 5.4 it does nothing.
void pw_os_split_huge(void *address, size_t size);

// Make pages that may only be read writable, or read-only again.
bool pw_os_protect(void *address, size_t size, bool writable);

bool pw_os_advise_huge(void *address, size_t size);

// Core dumps do not contain these pages. Where the kernel refuses, they do.
void pw_os_leave_out_of_core(void *address, size_t size);

// Pages of the hugetlb pool, of 1 << `shift` bytes, in place of what is mapped, and all of them
// there: none is denied later. False: what was mapped may be gone.
bool pw_os_map_hugetlb(void *address, size_t size, unsigned shift);

// Gather whole 2 MB units into huge pages now. False: not all could be.
bool pw_os_collapse(void *address, size_t size);

// Keep the range in memory.
bool pw_os_lock(void *address, size_t size);
bool pw_os_unlock(void *address, size_t size);

// Would the kernel let a program have so many bytes in one piece? What cannot be had at all is
// refused by malloc, rather than ending the program when it is written.
bool pw_os_would_promise(size_t size);

// Is every page of the range mapped (whether or not in memory)?
bool pw_os_is_mapped(const void *address, size_t size);
// False as well where the kernel does not tell.
bool pw_os_has_hole(const void *address, size_t size);

// The C library's memmove and memset, not the ones that a preloaded library puts before them.
// Looked for at the start, where that may allocate, or else at the first use.
void pw_os_find_functions(void);
void pw_os_copy(void *to, const void *from, size_t size);
void pw_os_fill_zero(void *to, size_t size);

// Another one of its functions, whoever else has the name, or NULL.
void *pw_os_c_library_function(const char *name);

// The C library's malloc_usable_size, for a block of its own; found likewise.
size_t pw_os_c_usable_size(const void *block);

// Free bytes at the end of the C library's heap; 0 where it cannot be asked (before 2.33).
size_t pw_os_c_heap_room(void);

// How many of `pages` pages read the same at `one` and at `other`, judged by PW_OS_PEEK bytes in
// the middle of each? Read by the kernel: a page that may not be read is an answer, not a crash.
// -1: not known.
#define PW_OS_PEEK       64
#define PW_OS_PEEK_PAGES 16u
int pw_os_same_pages(const char *one, const char *other, const uint32_t *pages, unsigned count);

// --- descriptors -------------------------------------------------------------

// A descriptor and the identity of the file behind it. A program may close every descriptor and get
// our number back for a file of its own, so the identity is checked before each use.
struct pw_os_file {
    int fd; // -1: none
    dev_t device;
    ino_t inode;
};

#define PW_OS_NO_FILE ((struct pw_os_file){.fd = -1})

// Move a new descriptor out of the program's way and remember which file it is. Takes ownership.
// When there is no number left above the program's own, it stays where it is.
struct pw_os_file pw_os_adopt(int fd);

// Can the program open files beside this one? False for one of the last of its own numbers, which
// should be closed again, unless it is for a moment.
bool pw_os_leaves_room(const struct pw_os_file *file);

// A memory file of the largest size allowed, closed by exec, not accessible to other users.
// On failure fd is -1 and *limited says whether RLIMIT_FSIZE was the reason.
struct pw_os_file pw_os_memory_file(const char *name, uint64_t size, bool *limited);

// The same, empty, for pw_os_seal.
struct pw_os_file pw_os_sealable_file(const char *name, bool *limited);

bool pw_os_is_ours(const struct pw_os_file *file);
void pw_os_close(struct pw_os_file *file);

// Does RLIMIT_FSIZE allow writes up to `end`? A write beyond it would raise SIGXFSZ.
bool pw_os_may_write(uint64_t end);
bool pw_os_write(int fd, const void *from, size_t size, uint64_t offset);
bool pw_os_punch(int fd, uint64_t offset, size_t size);

// Create DIRECTORY/pagewise-PID.stats with `size` bytes and map it shared at `address` (NULL:
// anywhere). NULL on failure.
void *pw_os_map_statistics(const char *directory, size_t size, void *address);

// --- sealed memory files, found by other processes ------------------------------

// From now on nobody, its maker included, can change the file's bytes or its size, and only its
// owner may open it: whoever maps it meets neither a change nor a SIGBUS.
bool pw_os_seal(const struct pw_os_file *file);

// Open for reading the memory file `name` that process `pid` has open as `fd`. On failure fd is -1
// and *error is the errno.
struct pw_os_file pw_os_open_of_process(uint32_t pid, int32_t fd, const char *name, int *error);

// Is it a sealed memory file of this user? Its size is returned, 0: it is not.
uint64_t pw_os_sealed_size(const struct pw_os_file *file);

// All of it, or false.
bool pw_os_read(const struct pw_os_file *file, void *to, size_t size, uint64_t offset);

// A private, copy-on-write mapping of a part of the file, anywhere. NULL on failure.
void *pw_os_map_private(const struct pw_os_file *file, size_t size, uint64_t offset);

// Whether a process of this user, whose descriptors may not be listed, may have some. One that has
// ended and waits for its parent has no memory and nothing open, unless other threads of it go on.
bool pw_os_may_hold(uint32_t pid);

// Call `visit` for every descriptor of a process of this user, or of this process, that has the
// memory file `name` open, until it returns false. True: a process could not be looked into. A call
// with process 0 and descriptor -1: the search ended for want of descriptors or memory of our own.
typedef bool pw_os_visit_holder(void *context, uint32_t pid, int32_t fd);
bool pw_os_each_holder(const char *name, pw_os_visit_holder *visit, void *context);

// --- who else has our memory -----------------------------------------------------

// A mapping that every child of every kind of fork inherits, and a descriptor by which the kernel
// tells whether anybody still has it.
struct pw_os_witness {
    struct pw_os_file file;
    void *page; // NULL: not mapped by this process
};

// Make one and map it. On failure there is neither.
enum pw_os_made { PW_OS_MADE, PW_OS_NO_DESCRIPTOR, PW_OS_NO_MAPPING };
enum pw_os_made pw_os_witness_make(struct pw_os_witness *witness);

enum pw_os_seen {
    PW_OS_MAPPED,     // by a process, this one or another
    PW_OS_NOT_MAPPED, // by nobody, and nobody can map it from now on
    PW_OS_LOST,       // the descriptor is not ours any more: it will never be known
    PW_OS_NOT_TOLD,   // the kernel would not say
};
enum pw_os_seen pw_os_witness_ask(const struct pw_os_witness *witness);

// --- files written by mapping them ---------------------------------------------

// A new file that only its owner may read, out of the program's way. On failure fd is -1.
struct pw_os_file pw_os_create(const char *path);

// Map a part of the file for writing, after making sure of room on the disk. Children inherit it.
// The file is found again by `path` (NULL: it must not be opened) where the program has closed our
// descriptor. NULL: *error says why.
void *pw_os_map_spool(const struct pw_os_file *file, const char *path, uint64_t offset, size_t size,
                      int *error);

// Such a part becomes memory of the process's own, which no file keeps.
void pw_os_part_from(void *part, size_t size);

// Both return the length, 0 on failure; the link's target ends in NUL.
size_t pw_os_read_link(const char *path, char *target, size_t size);
size_t pw_os_read_file(const char *path, char *content, size_t size);

// The mapping that contains `address`. False: not known.
bool pw_os_mapping_of(const void *address, uintptr_t *start, uintptr_t *end);

// --- mappings ------------------------------------------------------------------

// A look at how memory is mapped, open for several questions in a row while nobody maps anything.
// The descriptor is not guarded: it is closed before the program runs again.
struct pw_os_maps {
    int fd;
    uintptr_t start, end; // of the last mapping that was ordinary
};

bool pw_os_maps_open(struct pw_os_maps *maps);
void pw_os_maps_close(struct pw_os_maps *maps);

// Is all of the range private anonymous memory that may be read and written, and not run? Advice
// and locks are not seen. False: the kernel does not tell (before Linux 6.11).
bool pw_os_maps_ordinary(struct pw_os_maps *maps, const void *address, size_t size, bool *ordinary);

// The first mapping that ends behind `address`. False: not known. Reads /proc/self/maps.
struct pw_os_mapping {
    uintptr_t start, end;
    int protection;
    char name[64]; // as much of it
};
bool pw_os_mapping_from(const void *address, struct pw_os_mapping *mapping);

// New zero pages with this protection in place of what is mapped. False: it may be gone.
bool pw_os_map_empty(void *address, size_t size, int protection);

// Read memory that may not be there. Waits where the program itself fills the page.
bool pw_os_peek(const void *address, void *to, size_t size);

// Write where that may not be allowed. False: it is not, or the kernel does not do it.
bool pw_os_poke(void *address, const void *from, size_t size);

// Do all these pages belong to one mapping of private anonymous memory that can be read and
// written? False where the kernel does not tell.
bool pw_os_is_one_mapping_of_own(const void *address, size_t size);

// What lies at an address. Waits for nobody, and brings nothing into memory.
enum pw_os_page {
    PW_OS_PAGE_NONE,    // nothing is mapped there
    PW_OS_PAGE_HERE,    // a page that is in memory
    PW_OS_PAGE_UNKNOWN, // one that is not, or the kernel does not tell
};
enum pw_os_page pw_os_page_at(const void *address);

// Is the range locked in memory (mlock), in part at least?
bool pw_os_is_locked(const void *address, size_t size);

// Can a list of texts, which NULL ends, be read? Their first bytes are tried. Also true where the
// kernel does not tell.
bool pw_os_texts_are_there(char *const texts[]);

// The file that is mapped at `address`, by its absolute path, ended by NUL. Its length; 0: not
// known.
size_t pw_os_mapped_file(const void *address, char *path, size_t size);

// --- page tables -------------------------------------------------------------

enum pw_os_pages {
    PW_OS_PRIVATE_PAGES,  // anonymous, in memory or swapped: written since the range was mapped
    PW_OS_RESIDENT_PAGES, // anonymous and in memory, without the shared zero page; where the table
                          // is read, also without what is mapped elsewhere as well
    PW_OS_ZERO_PAGES,     // the kernel's shared zero page; these two only by PAGEMAP_SCAN
    PW_OS_HUGE_PAGES,     // parts of huge pages, mapped as such
};

struct pw_os_pagemap {
    struct pw_os_file file;
    bool scan; // PAGEMAP_SCAN works; otherwise the table is read
    bool usable;
};

void pw_os_pagemap_open(struct pw_os_pagemap *pagemap);

// Call `visit` with each range of such pages in [start, end), in order. `visit` ends the walk by
// returning false. True when the walk was completed; false also when the kernel would not tell.
typedef bool pw_os_visit(void *context, char *start, size_t size);
bool pw_os_pagemap_each(struct pw_os_pagemap *pagemap, char *start, char *end,
                        enum pw_os_pages kind, pw_os_visit *visit, void *context);

// The number of such pages. False: not known.
bool pw_os_pagemap_count(struct pw_os_pagemap *pagemap, char *start, char *end,
                         enum pw_os_pages kind, uint64_t *pages);

// What a range of pages takes. False: not known.
struct pw_os_tally {
    uint64_t exclusive; // in memory, mapped by this process once
    uint64_t shared;    // in memory, mapped elsewhere, or here more than once
    uint64_t swapped;
    uint64_t huge;   // of those in memory, mapped as huge pages
    bool huge_known; // the kernel can tell
};
bool pw_os_pagemap_tally(struct pw_os_pagemap *pagemap, char *start, char *end,
                         struct pw_os_tally *tally);

// Is the page at `address` in memory and mapped by this process alone? False when in doubt;
// *known says whether the kernel told anything. PAGEMAP_SCAN cannot answer this: the table is read.
// An estimate: other readers of memory, merging, swap and migration change the answer, so nothing
// that must be right may rest on it.
bool pw_os_pagemap_exclusive(struct pw_os_pagemap *pagemap, const void *address, bool *known);

// --- pages written since the last look ----------------------------------------

struct pw_os_written {
    struct pw_os_file watch, table;
};

// False: this kernel or container does not tell (before Linux 6.7).
bool pw_os_written_open(struct pw_os_written *written);
void pw_os_written_close(struct pw_os_written *written);

// Tell of pages in this range from now on: private anonymous memory, whole mappings at best, as
// each border makes one more of them. All count as written until they are first taken.
bool pw_os_written_watch(struct pw_os_written *written, uintptr_t start, uintptr_t end);

// No longer through this descriptor, whoever else holds it. Errors are ignored.
void pw_os_written_unwatch(struct pw_os_written *written, uintptr_t start, uintptr_t end);

// Call `visit` with each range of pages in [start, end) that were written since they were last
// taken. False: not all were told, or `visit` returned false. Then what was taken is gone: all
// pages are to be looked at. The descriptors must be this process's own.
bool pw_os_written_take(const struct pw_os_written *written, uintptr_t start, uintptr_t end,
                        pw_os_visit *visit, void *context);

// The same, and none is taken: the next call tells of them again.
bool pw_os_written_list(const struct pw_os_written *written, uintptr_t start, uintptr_t end,
                        pw_os_visit *visit, void *context);

// --- process -----------------------------------------------------------------

// A page that reads zero in a child of any kind of fork (fork, _Fork, raw clone). NULL: unknown.
uint32_t *pw_os_fork_marker(void);

// Does address space that is mapped but unused cost the program something (RLIMIT_AS, RLIMIT_DATA,
// strict overcommit)?
bool pw_os_address_space_is_limited(void);

// Have core dumps contain pages that are mapped onto snapshots, as they contain ordinary memory.
void pw_os_include_files_in_core(void);

// Is a filter in force that may end the process for a system call it does not know? True when in
// doubt.
bool pw_os_is_filtered(void);
// How many of them. The kernel does not always say.
#define PW_OS_FILTERS_UNKNOWN ((unsigned)-2)
unsigned pw_os_filter_count(void);

unsigned pw_os_thread_count(void);     // 0: unknown
bool pw_os_thread_lives(int thread);   // of this process
void pw_os_sleep_ns(long nanoseconds); // less than a second
uint64_t pw_os_resident_pages(void);   // of this process; 0: unknown. Opens a file
uint64_t pw_os_now_ms(void);           // monotonic
uint64_t pw_os_random(void);
uint64_t pw_os_layout_seed(void); // random only where the kernel's place for stacks is
bool pw_os_random_bytes(void *to, size_t size); // cannot be guessed; at most 256
// Differs between machines and between their restarts. 0: no descriptor to read it with, and it was
// never read before.
uint64_t pw_os_boot_name(void);
uint32_t pw_os_user(void);
uint64_t pw_os_max_map_count(void);
// One read of at most size - 1 bytes, ended by NUL. The length; negative on failure.
ssize_t pw_os_read_text(const char *path, char *text, size_t size);
// Bytes that may still be taken before memory is scarce, and of swap after that, by the kernel's
// count and the limits of this process's memory cgroups. UINT64_MAX: not known. Opens a handful of
// files.
struct pw_os_room {
    uint64_t memory, swap;
};
struct pw_os_room pw_os_memory_room(void);
size_t pw_os_program_break(void); // bytes from the start of the address space
int pw_os_pid(void);

// Have libraries do what they do before a fork (pthread_atfork(3)), in a fork whose child ends at
// once. The caller's thread must be the only one that may be inside such a library.
void pw_os_fork_for_handlers(void);
int pw_os_thread_id(void);
int pw_os_parent_pid(void);
uint64_t pw_os_stack_limit(void); // bytes that the first thread's stack may take, 64 MB at most
uint64_t pw_os_monotonic_ns(void);
uint64_t pw_os_real_ns(void);
uint64_t pw_os_thread_cpu_ns(void); // since 1970
void pw_os_warn(const char *text, const char *detail);

// Write all of it to standard error, or to the file `path`, where %p is the process's number: a new
// file in place of what is there, and complete or not there at all. What is no file, or a link to
// one (/dev/stderr), is added to. No signal ends the program. False: not all of it was written.
bool pw_os_write_harmlessly(int fd, const char *text, size_t length);
bool pw_os_print(const char *text, size_t length);
bool pw_os_write_report(const char *path, const char *text, size_t length);

// A descriptor that poll finds ready under memory pressure; none where the kernel offers none.
struct pw_os_file pw_os_pressure_open(void);
// Sleep up to `milliseconds`; true when pressure was reported.
bool pw_os_pressure_wait(struct pw_os_file *pressure, int milliseconds);

// Some of the calls we make are cancellation points, which malloc and memcpy are not: a thread that
// was cancelled must not end in the middle of our work, or out of an allocation. Returns the state
// to restore.
int pw_os_cancel_hold(void);
void pw_os_cancel_restore(int saved);

// Block the signals of this thread that can wait, and cancellation; returns the state to restore.
// Publishing must not be left half-way by a handler that jumps out.
struct pw_os_signals {
    unsigned long mask[16];
    int cancel;
    bool is_held; // of who may do without (process/lock.h)
};
unsigned long pw_os_signals_blocked(void); // the first of this thread's
void pw_os_signals_block(struct pw_os_signals *saved);
void pw_os_signals_restore(const struct pw_os_signals *saved);

// Handlers of the program's for SIGUSR1 and SIGUSR2 wait until the end. No mask is changed, which
// programs that are started meanwhile would inherit. Once at a time.
void pw_os_user_signals_put_off(void);
void pw_os_user_signals_take(void); // those that came are raised: a handler may not return

#endif
