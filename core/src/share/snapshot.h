// SPDX-License-Identifier: MIT
//
// Snapshots and the files that hold them: allocation, ownership, release; and what is known of
// copies made without. Private to share.
#ifndef PW_SHARE_SNAPSHOT_H
#define PW_SHARE_SNAPSHOT_H

#include "share/share.h"

// The files' name, by which the kernel's list of mappings tells them.
#define PW_SNAPSHOT_FILE_NAME "pagewise-snapshots"

static inline struct pw_snapshot *pw_snapshot_at(struct pw_share *share, uint32_t number) {
    return &share->snapshots[number / PW_SNAPSHOT_CHUNK][number % PW_SNAPSHOT_CHUNK];
}

// A new snapshot of `pages` pages with no owner, in a file that this process may write. 0: none.
uint32_t pw_snapshot_new(struct pw_share *share, uint32_t pages);

// The file of a snapshot, when our descriptor of it is still ours. NULL otherwise.
struct pw_snapshot_file *pw_snapshot_file(struct pw_share *share, uint32_t number);

void pw_snapshot_add_owner(struct pw_share *share, uint32_t number, struct pw_extent *extent);
// The extent no longer maps its snapshot. The last owner's leaving releases the pages.
void pw_snapshot_remove_owner(struct pw_share *share, struct pw_extent *extent);

// Release a snapshot without owners, pages written so far included.
void pw_snapshot_release(struct pw_share *share, uint32_t number);

// May pages of this file ever be punched by this process, and is our descriptor of it still ours?
bool pw_snapshot_is_own(struct pw_share *share, const struct pw_snapshot_file *file);

// Is there, or can there be, a file to publish into?
bool pw_snapshot_file_ready(struct pw_share *share);

// This process turned out to be a fork's child.
void pw_snapshot_after_fork(struct pw_share *share);

// Forget that mmapcopy(2) has copied pages of the extent: they are its own again, or on a snapshot.
void pw_mmapcopy_forget(struct pw_share *share, struct pw_extent *extent);

#endif
