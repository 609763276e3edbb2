// SPDX-License-Identifier: MIT
//
// share: pages of copies shared copy-on-write, and all-zero pages given back.
//
// Where the kernel has mmapcopy(2), that makes the copy (kernel_copy.c): both sides stay ordinary
// memory, there is no file, and nobody but the kernel keeps account of who shares what. On all
// others a copy is shared by publishing: the source's pages are written once into an immutable
// range of a memory file (a snapshot), and source and destination are both mapped privately onto
// it. The kernel then makes a private copy of any page that either of them writes.
//
// Snapshots never change, so a fork's child reads the right bytes for ever. That, and two rules,
// make every kind of fork safe without a handler:
//  - only the process that created a snapshot file publishes into it, at offsets that are used
//  once,
//    or punches it;
//  - a range is punched only when no other process can have it any more, which is known by
//  witnesses:
//    mappings that a child of any fork has until it ends or calls exec (witness.h).
//
// Concurrency contract: callers hold the heap's lock. While a copy is shared, no other thread may
// write the source range or use the destination range: what memcpy demands as well. Only pages that
// lie in those ranges completely are remapped, so neighbouring bytes may be used freely.
#ifndef PW_SHARE_SHARE_H
#define PW_SHARE_SHARE_H

#include "extent/extent.h"

#define PW_SNAPSHOT_CHUNK  1024u // snapshots in one table chunk
#define PW_SNAPSHOT_CHUNKS 256u
#define PW_SHARE_FILES     8u    // snapshot files kept: a process's own, and its forebears'
#define PW_SHARE_WITNESSES 16u   // kept to be asked again: of forks whose children still live
#define PW_SHARE_RANGES    1024u // punched after one ask

struct pw_snapshot {
    uint64_t offset; // in its file
    uint32_t pages;
    uint32_t owners;       // extents mapped onto it
    uint32_t first_member; // the list of these
    uint32_t next;         // free list, or the file's list of releases that wait to be punched
    uint32_t file;
    uint32_t punched; // pages released early: their only owner had written, or never had them
    uint64_t born, released; // numbers of the witnesses that were mapped then
    uint32_t due;            // collection at which to look for such pages again
    uint8_t backoff;         // log2 of the collections to skip
};

struct pw_snapshot_file {
    struct pw_os_file file;
    uint64_t opened;  // number of the witness that was mapped then; 0: slot unused
    uint64_t end;     // next offset; offsets are never used twice
    uint32_t live;    // snapshots with owners
    uint32_t waiting; // list of released snapshots that were not punched yet
    bool inherited;   // made by a parent: neither written nor punched by this process
};

struct pw_witness {
    struct pw_os_witness at;
    uint64_t number;
};

// Pages [first, first + pages) of a snapshot, which its only owner does not need. The last entry of
// a snapshot has no pages: `first` is how many it will have lost.
struct pw_snapshot_range {
    uint32_t snapshot, first, pages;
};

struct pw_share {
    struct pw_arena *arena;
    struct pw_stats *stats;
    struct pw_os_pagemap pagemap;
    bool scan_missed; // the table is read instead, and that was counted
    struct pw_snapshot_file files[PW_SHARE_FILES];
    struct pw_witness witness;                     // mapped now
    struct pw_witness refused[PW_SHARE_WITNESSES]; // somebody had them when they were asked
    uint32_t refused_count;
    uint64_t lost; // the newest that cannot be asked: what is as old is never punched
    uint64_t published, released; // pages, while the present witness was mapped
    uint64_t unasked, asked_ms;   // pages released since the last ask; when that was
    bool news;                    // more may be punched than when it was last tried
    struct pw_snapshot_range ranges[PW_SHARE_RANGES];
    uint32_t range_count;
    struct pw_snapshot *snapshots[PW_SNAPSHOT_CHUNKS];
    uint32_t snapshot_count, free_snapshot;
    uint64_t shared_extents; // each costs up to three mappings
    uint64_t mapping_limit;  // of those, before sharing pauses
    uint32_t collections;    // how many there were: the clock of both searches' back-off
    bool mmapcopy_asked,
        mmapcopy;        // was the kernel asked for mmapcopy(2), and are copies made by it
    bool mmapcopy_works; // what it said
};

void pw_share_start(struct pw_share *share, struct pw_arena *arena);

// This process turned out to be a fork's child.
void pw_share_after_fork(struct pw_share *share);

// Close everything and share nothing any more: what is shared already stays so until it is freed,
// and from then on without a system call.
void pw_share_seal(struct pw_share *share);

// A freed block whose pages are unmapped, or put aside for good, gives up its share.
void pw_share_forget(struct pw_share *share, struct pw_extent *extent);

// May a copy be shared now, and, if it needs `publishing`, is there a file to write to? Otherwise
// the reason has been counted.
bool pw_share_ready(struct pw_share *share, bool publishing);

// How many of pages [first, first + pages) are the extent's own: never shared, or written since.
// False: not known.
bool pw_share_count_private(struct pw_share *share, const struct pw_extent *extent, uint32_t first,
                            uint32_t pages, uint64_t *total);

// How many extents are on the snapshot of one that has one.
uint32_t pw_share_owners(struct pw_share *share, const struct pw_extent *extent);

// Write pages [first, first + pages) of `source` into a new snapshot and map them onto it. Pages
// that it shared before must be among them. The caller holds signals back: a handler that jumps out
// would leave the snapshot half-written. Returns the pages published, counted from `first`:
// fewer than asked, or 0, when a system call failed.
uint32_t pw_share_publish(struct pw_share *share, struct pw_extent *source, uint32_t first,
                          uint32_t pages);

// Map pages [to, to + pages) of `destination`, whose contents are dead, onto what `source` has at
// [from, from + pages); pages that the source has written since are copied. The destination must
// not be sharing. False: it shares nothing, and its pages there read undefined.
bool pw_share_attach(struct pw_share *share, struct pw_extent *destination, uint32_t to,
                     struct pw_extent *source, uint32_t from, uint32_t pages);

// Make copies by mmapcopy(2) from now on, if the kernel has it and `wanted`. It is asked once, and
// only where wanted.
void pw_share_use_mmapcopy(struct pw_share *share, bool wanted);

// Can a copy of this extent's pages be made by mmapcopy(2)? Pages on a snapshot cannot.
static inline bool pw_share_uses_mmapcopy(const struct pw_share *share,
                                          const struct pw_extent *source) {
    return share->mmapcopy && !source->snapshot;
}

// May one be made now? Otherwise the reason has been counted.
bool pw_share_ready_for_mmapcopy(struct pw_share *share);

// Make pages [to, to + pages) of `destination`, whose contents are dead, a copy of `source`'s from
// `from` on. The destination must not be on a snapshot. False: its pages there read undefined, or
// are not mapped.
bool pw_share_mmapcopy(struct pw_share *share, struct pw_extent *destination, uint32_t to,
                       struct pw_extent *source, uint32_t from, uint32_t pages);

// How many pages of a copy made so are no longer shared, because either side wrote them: an
// estimate from a few of them. False: not known; nor is it where the source has gone, which leaves
// every page to the copy alone.
bool pw_share_estimate_private(struct pw_share *share, const struct pw_extent *copy,
                               uint64_t *total);

// Make pages [first, first + pages) of a block blank, if they are most of what mmapcopy(2) has
// copied of it. False: they are as before.
bool pw_share_blank_mmapcopied(struct pw_share *share, struct pw_extent *extent, uint32_t first,
                               uint32_t pages);

// Make the extent's shared pages blank and give up its share. False: it keeps them.
bool pw_share_drop(struct pw_share *share, struct pw_extent *extent);

// The same for a block that is being freed: all its pages become blank, in one mapping.
bool pw_share_drop_block(struct pw_share *share, struct pw_extent *extent);

// Replace the extent's shared pages by ordinary memory with the same bytes, and give up its share.
// Nobody may write to them meanwhile. False: it is on its snapshot still, with its bytes.
bool pw_share_leave(struct pw_share *share, struct pw_extent *extent);

// Make those pages of the range blank that are mapped onto a snapshot, whoever wrote them, with the
// protection that they have; `locked_too`: those that are locked as well, which they stay. The
// extent is not to be copied from any more. False: some are as
// before.
bool pw_share_empty(struct pw_share *share, char *start, char *end, bool locked_too);

// A collection ended: give back what blocks no longer need. All-zero pages, `zeros`, if nobody else
// writes: of `all` blocks, else of those whose turn it is. Snapshot pages that nobody can read any
// more, always. Returns the bytes given back, as the others here do.
uint64_t pw_share_collected(struct pw_share *share, bool zeros, bool all);

// Its parts. The count of collections, by which the others schedule themselves:
static inline void pw_share_count_collection(struct pw_share *share) {
    share->collections++;
}

// All-zero pages of blocks. `always`: check every block, else back off from blocks in which nothing
// was found.
uint64_t pw_share_reclaim_zero(struct pw_share *share, bool always);

// Snapshot pages that nobody can read any more, because the only owner has written them or, as a
// copy of a part, never had them; and released ones that still wait.
uint64_t pw_share_reclaim_sole(struct pw_share *share);

// All-zero pages between collections, of blocks of 1 MB and more that have never been searched,
// `all` or those marked `zero_at_peak`: long runs only.
uint64_t pw_share_reclaim_young(struct pw_share *share, bool all);

// Give back now what was released.
void pw_share_settle(struct pw_share *share);

#endif
