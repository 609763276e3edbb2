// SPDX-License-Identifier: MIT
//
// The public functions of pagewise.h, for programs that link against the library.

#include "block/account.h"
#include "block/block.h"
#include "block/copying.h"
#include "block/describe.h"
#include "block/small.h"
#include "process/c_library.h"
#include "process/lock.h"
#include "process/quiet.h"
#include "process/state.h"
#include "runtime/collection.h"
#include "runtime/r/frozen.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>

const char *pw_version(void) {
    return PW_VERSION;
}

bool pw_is_preloaded(void) {
    return pw_gate.preloaded;
}

void *pw_allocate(size_t size) {
    if (pw_gate.general) {
        return pw_general_malloc(&pw_process, &pw_gate, size);
    }
    void *block = size >= pw_gate.threshold
                      ? pw_block_allocate(&pw_process, size, 1, false, __builtin_return_address(0))
                      : NULL;
    return block ? block : pw_c_malloc(size);
}

void *pw_allocate_zeroed(size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    if (pw_gate.general) {
        return pw_general_calloc(&pw_process, &pw_gate, total);
    }
    void *block = total >= pw_gate.threshold
                      ? pw_block_allocate(&pw_process, total, 1, true, __builtin_return_address(0))
                      : NULL;
    return block ? block : pw_c_calloc(count, size);
}

void *pw_allocate_aligned(size_t alignment, size_t size) {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
        errno = EINVAL;
        return NULL;
    }
    if (pw_gate.general) {
        return pw_general_memalign(&pw_process, alignment, size);
    }
    void *block =
        size >= pw_gate.threshold && alignment <= PW_PAGE
            ? pw_block_allocate(&pw_process, size, alignment, false, __builtin_return_address(0))
            : NULL;
    return block ? block : pw_c_memalign(alignment, size);
}

void *pw_resize(void *block, size_t size) {
    if (pw_gate.general) {
        return pw_general_realloc(&pw_process, &pw_gate, block, size);
    }
    if (!block) {
        void *fresh = size >= pw_gate.threshold ? pw_block_allocate(&pw_process, size, 1, false,
                                                                    __builtin_return_address(0))
                                                : NULL;
        return fresh ? fresh : pw_c_malloc(size);
    }
    if (pw_owns(block) && size > 0) {
        return pw_block_resize(&pw_process, block, size, __builtin_return_address(0));
    }
    if (pw_owns(block)) {
        pw_block_free(&pw_process, block, __builtin_return_address(0));
        return NULL;
    }
    if (pw_gate_contains(block)) {
        pw_block_reject_dead(&pw_process, block, "pw_resize");
    }
    return pw_c_realloc(block, size);
}

void pw_free(void *block) {
    if (pw_gate.general) {
        pw_general_free(&pw_process, &pw_gate, block);
        return;
    }
    if (!block || !pw_gate_contains(block) ||
        !pw_block_free(&pw_process, block, __builtin_return_address(0))) {
        pw_c_free(block);
    }
}

size_t pw_usable_size(const void *block) {
    if (pw_gate.general) {
        return pw_general_usable(&pw_process, block);
    }
    return pw_owns(block) ? pw_block_usable(&pw_process, block) : pw_c_usable_size(block);
}

bool pw_owns(const void *address) {
    if (pw_gate.general && pw_general_small_size(&pw_gate, address)) {
        return true;
    }
    if (!pw_gate_contains(address)) {
        return false;
    }
    // Without the lock what is known of blocks in use can be read, and of no other.
    bool entered = pw_process_enter();
    bool owns = pw_arena_find(&pw_process.arena, address) != NULL;
    if (entered) {
        pw_process_leave();
    }
    return owns;
}

void *pw_copy(void *to, const void *from, size_t size) {
    if (size < pw_gate.copy_threshold ||
        !pw_block_copy(&pw_process, to, from, size, __builtin_return_address(0))) {
        pw_os_copy(to, from, size);
    }
    return to;
}

void *pw_zero(void *to, size_t size) {
    if (size < pw_gate.copy_threshold || !pw_block_zero(&pw_process, to, size)) {
        pw_os_fill_zero(to, size);
    }
    return to;
}

size_t pw_trim(void) {
    size_t inside_segments = pw_gate.general ? pw_general_trim(&pw_process.general) : 0;
    pw_block_recover(&pw_process);
    if (!pw_is_on() || !pw_process_enter()) {
        return inside_segments;
    }
    uint64_t pages = pw_arena_purge(&pw_process.arena, pw_process.arena.warm_pages);
    pw_share_settle(&pw_process.share);
    pw_process_leave();
    return pages * PW_PAGE + inside_segments;
}

size_t pw_statistics_read(struct pw_statistics *out, size_t size) {
    const struct pw_statistics *block = pw_process.stats.block;
    size_t copied = !block ? 0 : size < sizeof *block ? size : sizeof *block;
    if (copied) {
        memcpy(out, block, copied);
    }
    return copied;
}

size_t pw_statistics_text(char *text, size_t size, bool json) {
    return pw_account_write(&pw_process, json ? PW_ACCOUNT_JSON : PW_ACCOUNT_TEXT, text, size);
}

bool pw_block_describe(const void *address, struct pw_block_info *info) {
    return pw_describe_block(&pw_process, address, info);
}

size_t pw_block_list(struct pw_block_info *blocks, size_t room) {
    return pw_describe_blocks(&pw_process, blocks, room);
}

bool pw_page_cost(const void *address, size_t size, struct pw_page_cost *cost) {
    return pw_describe_cost(&pw_process, address, size, cost);
}

size_t pw_collapse(const void *address, size_t size) {
    return pw_describe_collapse(&pw_process, address, size);
}

size_t pw_collection_ended(void) {
    return pw_collection_end(&pw_process);
}

size_t pw_collection_noticed(void) {
    return pw_collection_notice(&pw_process);
}

void pw_quiet_thread_began(void) {
    pw_quiet_count(&pw_process.quiet.own, 1);
}

void pw_quiet_thread_ends(void) {
    pw_quiet_count(&pw_process.quiet.own, -1);
}

// --- R's permanent generation ----------------------------------------------------------

static const char *freeze(struct pw_r_freeze_how how) {
    return pw_process.stats.block ? pw_r_freeze(&pw_process, how) : "Pagewise is not on";
}

const char *pw_freeze_for_forks(void) {
    if (!pw_is_on()) {
        return "Pagewise is not on";
    }
    return freeze((struct pw_r_freeze_how){.watch = true, .by_hand = true, .for_forks = true});
}

void pw_freeze_now(const int *watch, const int *for_forks, char **problem) {
    const char *why = freeze((struct pw_r_freeze_how){
        .watch = *watch != 0, .by_hand = true, .for_forks = *for_forks != 0});
    *problem = (char *)(why ? why : "");
}

void pw_thaw_now(void) {
    pw_r_thaw_by_hand();
}
