// SPDX-License-Identifier: MIT
//
// Where records are written: chunks of the spool, which a thread has for itself.
#ifndef PW_RECORD_SPOOL_CHUNK_H
#define PW_RECORD_SPOOL_CHUNK_H

#include "record/log.h"

// Recording ends in this process, for `reason`; `error`: errno, or a system call that is denied.
void pw_log_stop(enum pw_spool_stop reason, int error);

// The header says how long recording has gone on.
void pw_log_note_time(void);

// False: this is a child of a fork, and the lane is still its parent's. A signal's handler may have
// forked while a record was being written. The child goes on with it, and shall write nothing.
// Where the fork comes after the question, it writes the same words in the same place as its parent
// does.
static inline bool pw_log_is_own(const struct pw_lane *lane) {
    bool is_own = __atomic_load_n(pw_log.epoch, __ATOMIC_RELAXED) == lane->epoch;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return __builtin_expect(is_own, 1);
}

// In a child, before it begins: its parent's chunks go. The thread may be about to write into its
// own, which therefore stays as memory that nobody reads.
void pw_log_leave_parents(struct pw_lane *own);

// The lane goes on in another chunk. False: recording has ended.
bool pw_log_new_chunk(struct pw_lane *lane);

// Makes sure that the lane has room for `words` words. False: recording has ended.
static inline bool pw_log_room(struct pw_lane *lane, size_t words) {
    bool has_room = (size_t)(lane->end - lane->next) >= words;
    return __builtin_expect(has_room, 1) || pw_log_new_chunk(lane);
}
void pw_log_other(struct pw_lane *lane, enum pw_spool_kind kind, uint32_t operand,
                  const uint64_t *words, size_t count);

// A record counts when its first word is there: the others are written before it, in case the
// program is killed in between, or somebody reads meanwhile.
static inline void pw_log_commit(struct pw_lane *lane, uint64_t first, size_t words) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(lane->next, first, __ATOMIC_RELEASE);
    lane->next += words;
}

#endif
