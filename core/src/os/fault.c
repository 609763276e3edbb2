// SPDX-License-Identifier: MIT
#include "os/fault.h"

#ifdef PW_FAULT_INJECTION

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *const pw_os_site_names[PW_SITE_COUNT] = {
    "map_new",     "map_blank",  "map_snapshot", "map_table",    "reserve",      "unmap",
    "move",        "discard",    "advise_huge",  "file_create",  "file_size",    "file_stat",
    "file_write",  "file_punch", "statistics",   "pagemap_open", "pagemap_scan", "pagemap_read",
    "fork_marker", "witness",    "threads",      "resident",     "pressure",     "keeper",
    "peek",        "room",       "spool_create", "spool_stat",   "spool_room",   "spool_map",
    "spool_keep",  "protect",    "hugetlb",      "collapse",     "lock",         "file_seal",
    "file_open",   "file_read",  "mmapcopy",     "witness_ask",  "maps",         "written",
};

static struct {
    struct {
        atomic_int error; // threads of ours run while a test changes its plan
        atomic_ulong first, period;
        atomic_ulong calls;
    } sites[PW_SITE_COUNT];
    atomic_bool environment_read;
} plan;

void pw_os_fault_plan(enum pw_os_site site, int error, unsigned long first, unsigned long period) {
    plan.environment_read = true;
    plan.sites[site].error = error;
    plan.sites[site].first = first;
    plan.sites[site].period = period;
    plan.sites[site].calls = 0;
}

void pw_os_fault_clear(void) {
    for (int site = 0; site < PW_SITE_COUNT; site++) {
        pw_os_fault_plan((enum pw_os_site)site, 0, 0, 0);
    }
}

unsigned long pw_os_fault_calls(enum pw_os_site site) {
    return plan.sites[site].calls;
}

// SITE:ERRNO:FIRST:PERIOD, several of them separated by commas.
static void read_environment(void) {
    const char *text = getenv("PAGEWISE_FAULT");
    while (text && *text) {
        size_t length = strcspn(text, ":");
        for (int site = 0; site < PW_SITE_COUNT; site++) {
            if (strlen(pw_os_site_names[site]) == length &&
                !strncmp(text, pw_os_site_names[site], length)) {
                char *end = NULL;
                plan.sites[site].error = (int)strtol(text + length + 1, &end, 10);
                plan.sites[site].first = strtoul(end + 1, &end, 10);
                plan.sites[site].period = strtoul(end + 1, &end, 10);
            }
        }
        text += strcspn(text, ",");
        text += *text == ',';
    }
}

int pw_os_fault(enum pw_os_site site) {
    if (!plan.environment_read) {
        plan.environment_read = true;
        read_environment();
    }
    unsigned long call = ++plan.sites[site].calls;
    unsigned long first = plan.sites[site].first, period = plan.sites[site].period;
    if (!first || call < first) {
        return 0;
    }
    bool fails = call == first || (period && (call - first) % period == 0);
    return fails ? plan.sites[site].error : 0;
}

#else
// An empty translation unit is not C.
typedef int pw_os_fault_is_off;
#endif
