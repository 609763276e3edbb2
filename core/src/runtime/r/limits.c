// SPDX-License-Identifier: MIT
#include "runtime/r/limits.h"

#define GROWS_ABOVE   .7 // R's own: see ?Memory
#define SHRINKS_BELOW .3
#define GROWS_BY      .2

bool pw_r_limits_fit(const struct pw_r_layout *layout, struct pw_r_amount amount) {
    return *layout->node_limit > amount.nodes && *layout->vector_limit > amount.units &&
           *layout->vector_most > amount.units;
}

void pw_r_limits_freeze(struct pw_r_limits *limits, const struct pw_r_layout *layout,
                        struct pw_r_amount frozen, bool may_grow) {
    uint64_t *most = layout->vector_most;
    *layout->node_limit -= frozen.nodes;
    *layout->vector_limit -= frozen.units;
    *most -= *most == PW_R_NO_LIMIT ? 0 : frozen.units;
    *limits = (struct pw_r_limits){
        .layout = layout,
        .frozen = frozen,
        .floor = *layout->node_limit,
        .floor_then = *layout->node_limit,
        .nodes_then = *layout->node_limit,
        .most_then = *most,
        .may_grow = may_grow,
    };
}

// R subtracts R_VSize from R_MaxVSize, and what is in use from R_VSize: if a difference were less
// than nothing it would be huge, and R would refuse no vector any more. A full collection that
// finds little in use sets R_VSize to what it was when R started, whatever R_MaxVSize is.
static void keep_within_most(const struct pw_r_layout *layout) {
    if (*layout->vector_limit > *layout->vector_most) {
        *layout->vector_limit = *layout->vector_most;
    }
}

static void raise(struct pw_r_limits *limits, struct pw_r_amount amount) {
    const struct pw_r_layout *layout = limits->layout;
    uint64_t *most = layout->vector_most;
    *layout->node_limit += amount.nodes;
    *layout->vector_limit += amount.units;
    if (*most == limits->most_then) {
        *most += *most == PW_R_NO_LIMIT ? 0 : amount.units;
        limits->most_then = *most;
        keep_within_most(layout);
    } else if (*most < *layout->vector_limit) { // the program has set another
        *most = *layout->vector_limit;
    }
    limits->frozen.nodes -= amount.nodes;
    limits->frozen.units -= amount.units;
}

void pw_r_limits_give_back(struct pw_r_limits *limits, struct pw_r_amount amount) {
    raise(limits, amount);
    limits->floor += amount.nodes;
    limits->floor_then += amount.nodes;
}

void pw_r_limits_thaw(struct pw_r_limits *limits) {
    raise(limits, limits->frozen);
}

void pw_r_limits_look(struct pw_r_limits *limits) {
    limits->nodes_then = *limits->layout->node_limit;
}

static uint64_t nodes_in_use(const struct pw_r_layout *layout) {
    uint64_t count = 0;
    for (unsigned c = 0; c < PW_R_CLASSES; c++) {
        for (unsigned g = 0; g < PW_R_GENERATIONS; g++) {
            count += (uint64_t)layout->classes[c].old_count[g];
        }
    }
    return count;
}

// R takes it that what is in use grows on as it did since its last full collection, and reckons
// without a sign. What was frozen or given back since is no growth.
void pw_r_limits_keep_growth_in_bounds(struct pw_r_limits *limits) {
    double frozen = (double)limits->frozen.nodes, limit = (double)limits->nodes_then + frozen;
    double in_use = (double)nodes_in_use(limits->layout) + frozen;
    double most = (1 + GROWS_BY) * limit;
    most = most > 2 * in_use / GROWS_ABOVE ? most : 2 * in_use / GROWS_ABOVE;
    if ((double)*limits->layout->node_limit + frozen > most) {
        *limits->layout->node_limit = (uint64_t)(most - frozen);
    }
}

// R lowers its limit where little is in use, and frozen nodes are not: it would collect more often
// than before.
void pw_r_limits_collected(struct pw_r_limits *limits) {
    uint64_t *limit = limits->layout->node_limit;
    pw_r_limits_keep_growth_in_bounds(limits);
    *limit = *limit < limits->floor ? limits->floor : *limit;
    keep_within_most(limits->layout);
}

// R lets its heap grow where a full collection leaves more than GROWS_ABOVE of it in use, and
// shrink where less than SHRINKS_BELOW. Frozen nodes are in neither figure, so that it would stay
// small, and collect more often than before.
void pw_r_limits_collected_fully(struct pw_r_limits *limits) {
    uint64_t *node_limit = limits->layout->node_limit;
    double in_use = (double)nodes_in_use(limits->layout), limit = (double)*node_limit;
    double frozen = (double)limits->frozen.nodes;
    double occupied = (in_use + frozen) / (limit + frozen);
    bool has_grown = *node_limit > limits->nodes_then;
    if (occupied > GROWS_ABOVE && in_use <= GROWS_ABOVE * limit && !has_grown && limits->may_grow) {
        *node_limit += (uint64_t)(GROWS_BY * (limit + frozen));
        limits->floor = *node_limit;
    } else if (occupied < SHRINKS_BELOW) {
        limits->floor = limits->floor_then;
    }
}
