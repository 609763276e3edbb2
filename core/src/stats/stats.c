// SPDX-License-Identifier: MIT
#include "stats/stats.h"

#include "os/os.h"

#include <stdio.h>
#include <string.h>

static void write_header(struct pw_statistics *block, int pid) {
    memcpy(block->magic, PW_STATISTICS_MAGIC, sizeof block->magic);
    block->version = PW_STATISTICS_VERSION;
    block->size = sizeof *block;
    block->pid = (uint64_t)pid;
}

void pw_stats_start(struct pw_stats *stats) {
    stats->block = &stats->own;
    write_header(stats->block, 0);
}

// Copy what was counted so far into a shared file and count there from now on.
static bool move_to_file(struct pw_stats *stats, void *address) {
    struct pw_statistics *shared =
        pw_os_map_statistics(stats->directory, sizeof *stats->block, address);
    if (!shared) {
        return false;
    }
    memcpy(shared, &stats->own, sizeof *shared);
    stats->block = shared;
    return true;
}

void pw_stats_name(struct pw_stats *stats, const char *policy) {
    snprintf(stats->block->policy, sizeof stats->block->policy, "%s", policy);
}

void pw_stats_seal(struct pw_stats *stats) {
    stats->sealed = true;
    *stats->directory = 0;
}

bool pw_stats_publish(struct pw_stats *stats, const char *directory, const char *policy) {
    pw_stats_name(stats, policy);
    stats->block->pid = (uint64_t)pw_os_pid();
    if (!*directory) {
        return true;
    }
    snprintf(stats->directory, sizeof stats->directory, "%s", directory);
    return move_to_file(stats, NULL);
}

// Gauges describe memory that the child has as well; everything else is the parent's history.
static void keep_gauges(struct pw_statistics *to, const struct pw_statistics *from) {
    to->live_bytes = to->peak_live_bytes = from->live_bytes;
    to->shared_bytes = from->shared_bytes;
    to->snapshot_bytes = to->peak_snapshot_bytes = from->snapshot_bytes;
    to->cached_bytes = from->cached_bytes;
    to->huge_bytes = from->huge_bytes;
    to->hugetlb_bytes = from->hugetlb_bytes;
    to->bookkeeping_bytes = from->bookkeeping_bytes;
    to->snapshots_live = from->snapshots_live;
    to->arenas_live = from->arenas_live;
    to->mmapcopy_used = from->mmapcopy_used;
    to->frozen_nodes = from->frozen_nodes;
}

void pw_stats_after_fork(struct pw_stats *stats) {
    struct pw_statistics *inherited = stats->block;
    struct pw_statistics fresh = {0};
    write_header(&fresh, stats->sealed ? 0 : pw_os_pid());
    memcpy(fresh.policy, inherited->policy, sizeof fresh.policy);
    keep_gauges(&fresh, inherited);
    fresh.forks_seen = 1;
    stats->own = fresh;
    stats->block = &stats->own;
    if (inherited != &stats->own && *stats->directory) {
        // The parent's block stays mapped, and is not counted into any more.
        move_to_file(stats, NULL);
    }
}
