// SPDX-License-Identifier: MIT
#include "os/fault.h"

#ifdef PW_FAULT_INJECTION

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *const pw_os_point_names[PW_POINT_COUNT] = {
    "map_new",     "map_blank",  "map_snapshot", "map_table",    "reserve",      "unmap",
    "move",        "discard",    "advise_huge",  "file_create",  "file_size",    "file_stat",
    "file_write",  "file_punch", "statistics",   "pagemap_open", "pagemap_scan", "pagemap_read",
    "fork_marker", "witness",    "threads",      "resident",     "pressure",     "keeper",
    "peek",        "room",       "spool_create", "spool_stat",   "spool_room",   "spool_map",
    "protect",     "hugetlb",    "collapse",     "lock",         "file_seal",    "file_open",
    "file_read",   "mmapcopy",   "witness_ask",  "maps",         "written",      "page_size",
};

static struct {
    struct {
        atomic_int error; // threads of ours run while a test changes its plan
        atomic_ulong first, period;
        atomic_ulong calls;
    } points[PW_POINT_COUNT];
    atomic_bool environment_read;
} plan;

void pw_os_fault_plan(enum pw_os_point point, int error, unsigned long first,
                      unsigned long period) {
    plan.environment_read = true;
    plan.points[point].error = error;
    plan.points[point].first = first;
    plan.points[point].period = period;
    plan.points[point].calls = 0;
}

void pw_os_fault_clear(void) {
    for (int point = 0; point < PW_POINT_COUNT; point++) {
        pw_os_fault_plan((enum pw_os_point)point, 0, 0, 0);
    }
}

unsigned long pw_os_fault_calls(enum pw_os_point point) {
    return plan.points[point].calls;
}

// POINT:ERRNO:FIRST:PERIOD, several of them separated by commas.
static void read_environment(void) {
    const char *text = getenv("PAGEWISE_FAULT");
    while (text && *text) {
        size_t length = strcspn(text, ":");
        for (int point = 0; point < PW_POINT_COUNT; point++) {
            if (strlen(pw_os_point_names[point]) == length &&
                !strncmp(text, pw_os_point_names[point], length)) {
                char *end = NULL;
                plan.points[point].error = (int)strtol(text + length + 1, &end, 10);
                plan.points[point].first = strtoul(end + 1, &end, 10);
                plan.points[point].period = strtoul(end + 1, &end, 10);
            }
        }
        text += strcspn(text, ",");
        text += *text == ',';
    }
}

int pw_os_fault(enum pw_os_point point) {
    if (!plan.environment_read) {
        plan.environment_read = true;
        read_environment();
    }
    unsigned long call = ++plan.points[point].calls;
    unsigned long first = plan.points[point].first, period = plan.points[point].period;
    if (!first || call < first) {
        return 0;
    }
    bool fails = call == first || (period && (call - first) % period == 0);
    return fails ? plan.points[point].error : 0;
}

#else
// An empty translation unit is not C.
typedef int pw_os_fault_is_off;
#endif
