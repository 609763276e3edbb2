// SPDX-License-Identifier: MIT
//
// What is said once, when the program ends: with verbose=1 which fall-backs were taken, with
// report=stderr or report=FILE what the heap holds.
#include "block/account.h"
#include "process/state.h"

#include <string.h>

static void report_field(const char *name, const char *meaning, uint64_t value) {
    static const char prefix[] = "fallback_";
    if (value > 0 && strncmp(name, prefix, sizeof prefix - 1) == 0) {
        pw_os_warn("fall-back taken: ", meaning);
    }
}

static void report_fallbacks(const struct pw_statistics *block) {
#define REPORT(name, meaning) report_field(#name, meaning, block->name);
    PW_STATISTICS_FIELDS(REPORT)
#undef REPORT
}

static bool ends_in(const char *path, const char *end) {
    size_t length = strlen(path), wanted = strlen(end);
    return length >= wanted && strcmp(path + length - wanted, end) == 0;
}

static bool write_account(const char *path) {
    enum pw_account_form form = ends_in(path, ".json") ? PW_ACCOUNT_JSON : PW_ACCOUNT_TEXT;
    char *text = pw_account_begin(&pw_process, form);
    if (!text) {
        return false;
    }
    bool written = strcmp(path, "stderr") == 0 ? pw_os_print(text, strlen(text))
                                               : pw_os_write_report(path, text, strlen(text));
    pw_account_end(text);
    return written;
}

// A child that ends must not write over its parent's file, unless each has one of its own.
static void report_heap(const char *path) {
    bool is_child = pw_os_pid() != pw_process.pid || PW_READ(&pw_process.stats, forks_seen) > 0;
    if (*path && !(is_child && !strstr(path, "%p")) && !write_account(path)) {
        pw_os_warn("the report of the heap could not be written; nothing else is affected. "
                   "PAGEWISE_OPTIONS: report=",
                   path);
    }
}

__attribute__((destructor)) static void report(void) {
    const struct pw_statistics *block = pw_process.stats.block;
    if (!block || pw_process.sealed) {
        return;
    }
    if (pw_process.options.verbose) {
        report_fallbacks(block);
    }
    report_heap(pw_process.options.report);
}
