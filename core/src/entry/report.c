// SPDX-License-Identifier: MIT
//
// With verbose=1: which fall-backs were taken, said once, when the program ends.
#include "process/state.h"

#include <string.h>

static void report_field(const char *name, const char *meaning, uint64_t value) {
    static const char prefix[] = "fallback_";
    if (value > 0 && strncmp(name, prefix, sizeof prefix - 1) == 0) {
        pw_os_warn("fall-back taken: ", meaning);
    }
}

__attribute__((destructor)) static void report_fallbacks(void) {
    const struct pw_statistics *block = pw_process.stats.block;
    if (!pw_process.options.verbose || !block) {
        return;
    }
#define REPORT(name, meaning) report_field(#name, meaning, block->name);
    PW_STATISTICS_FIELDS(REPORT)
#undef REPORT
}
