// SPDX-License-Identifier: MIT
#include "share/witness.h"

static void lose(struct pw_share *share, struct pw_witness *witness) {
    PW_COUNT(share->stats, fallback_descriptor, 1);
    if (witness->number > share->lost) {
        share->lost = witness->number;
    }
    pw_os_close(&witness->at.file);
}

// Ask one whose time is over. True: it is settled.
static bool ask(struct pw_share *share, struct pw_witness *witness) {
    switch (pw_os_witness_ask(&witness->at)) {
    case PW_OS_NOT_MAPPED:
        pw_os_close(&witness->at.file);
        return true;
    case PW_OS_LOST:
        lose(share, witness);
        return true;
    case PW_OS_NOT_TOLD:
        PW_COUNT(share->stats, fallback_discard, 1);
        return false;
    default:
        return false;
    }
}

static bool make(struct pw_share *share, struct pw_os_witness *witness) {
    enum pw_os_made made = pw_os_witness_make(witness);
    if (made == PW_OS_NO_DESCRIPTOR) {
        PW_COUNT(share->stats, fallback_memfd, 1);
    } else if (made == PW_OS_NO_MAPPING) {
        PW_COUNT(share->stats, fallback_map, 1);
    }
    return made == PW_OS_MADE;
}

// Map `next` in place of the present one. While our own mapping is there, the kernel must say that
// somebody has it. If it says nobody, the program has unmapped it, and what is there now is not
// ours to unmap.
static bool replace(struct pw_share *share, struct pw_os_witness *next, bool *lost) {
    struct pw_os_witness *present = &share->witness.at;
    enum pw_os_seen seen = pw_os_witness_ask(present);
    *lost = seen == PW_OS_NOT_MAPPED || seen == PW_OS_LOST;
    if (seen == PW_OS_NOT_TOLD) {
        PW_COUNT(share->stats, fallback_discard, 1);
        return false;
    }
    if (!make(share, next)) {
        return false;
    }
    if (seen != PW_OS_NOT_MAPPED && !pw_os_unmap(present->page, PW_PAGE)) {
        PW_COUNT(share->stats, fallback_map, 1);
        pw_os_unmap(next->page, PW_PAGE);
        pw_os_close(&next->file);
        return false;
    }
    return true;
}

bool pw_witness_turn(struct pw_share *share) {
    struct pw_witness last = share->witness;
    struct pw_os_witness next;
    bool first = !last.at.page, lost = false;
    if (share->refused_count == PW_SHARE_WITNESSES) {
        PW_COUNT(share->stats, fallback_epochs, 1);
        return false;
    }
    if (first ? !make(share, &next) : !replace(share, &next, &lost)) {
        return false;
    }
    share->witness = (struct pw_witness){next, last.number + 1};
    share->published = share->released = 0;
    share->news = true;
    if (lost) {
        lose(share, &last);
    } else if (!first && !ask(share, &last)) {
        last.at.page = NULL;
        share->refused[share->refused_count++] = last;
    }
    return true;
}

void pw_witness_ask_again(struct pw_share *share) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < share->refused_count; i++) {
        struct pw_witness *witness = &share->refused[i];
        if (!ask(share, witness)) {
            share->refused[kept++] = *witness;
        }
    }
    share->news |= kept < share->refused_count;
    share->refused_count = kept;
}

bool pw_witness_cleared(const struct pw_share *share, uint64_t first, uint64_t last) {
    bool cleared = first > share->lost && last < share->witness.number;
    for (uint32_t i = 0; i < share->refused_count && cleared; i++) {
        uint64_t number = share->refused[i].number;
        cleared = number < first || number > last;
    }
    return cleared;
}

void pw_witness_after_fork(struct pw_share *share) {
    pw_os_close(&share->witness.at.file);
    share->witness.at.page = NULL;
    for (uint32_t i = 0; i < share->refused_count; i++) {
        pw_os_close(&share->refused[i].at.file);
    }
    share->refused_count = 0;
}
