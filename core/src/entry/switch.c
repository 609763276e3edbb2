// SPDX-License-Identifier: MIT
//
// The start of the library in a process, and what `on` and `off` do to it later.
#include "entry/switch.h"
#include "block/keeper.h"
#include "block/small.h"
#include "entry/sandbox.h"
#include "os/program.h"
#include "process/c_library.h"
#include "process/lock.h"
#include "process/quiet.h"
#include "process/state.h"
#include "runtime/python/python.h"
#include "runtime/r/frozen.h"
#include "runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST_COPY        ((size_t)64 << 10)
#define SMALLEST_VECTOR      ((size_t)8 << 10) // two pages
#define SMALLEST_COPY_ALWAYS ((size_t)4 << 10) // the papers' rule: every whole page

// A mistake in the options is said by the first process that meets it, not by each of its children.
static void warn(const char *problem, const char *item, const char *possible) {
    static bool here;
    if (here || !getenv("PAGEWISE_WARNED")) {
        char detail[512];
        here = true;
        setenv("PAGEWISE_WARNED", "1", 1);
        snprintf(detail, sizeof detail, "%s (%s)", item, possible);
        pw_os_warn(problem, detail);
    }
}

// Vectors of R between two pages and the default are a quarter of the memory of some programs: the
// C library's heap keeps what they leave when they die, for good where anything behind them lives.
// Other programs have many such blocks in many threads, and one lock is not for them.
static size_t threshold_of(const struct pw_options *options) {
    bool lowered =
        pw_process.serves_r && options->policy == PW_POLICY_AUTO && !options->threshold_given;
    return lowered ? SMALLEST_VECTOR : options->threshold;
}

static void open_gate(const struct pw_options *options) {
    pw_gate.base = (uintptr_t)pw_process.arena.base;
    pw_gate.copy_threshold =
        options->share == PW_SHARE_ALWAYS ? SMALLEST_COPY_ALWAYS : SMALLEST_COPY;
    if (options->policy == PW_POLICY_GENERAL) {
        pw_gate.copy_threshold = SIZE_MAX; // other programs' copies stay theirs
    }
    pw_gate.threshold = threshold_of(options);
}

static bool start_arena(const struct pw_options *options) {
    if (pw_process.arena.base) {
        return true;
    }
    if (!pw_arena_start(&pw_process.arena, &pw_process.stats, options->slack_percent)) {
        return false;
    }
    pw_process.first_break = pw_os_program_break();
    pw_process.fork_marker = pw_os_fork_marker();
    if (pw_process.fork_marker) {
        *pw_process.fork_marker = 1;
    }
    pw_share_start(&pw_process.share, &pw_process.arena);
    pw_process_watch_forks();
    return true;
}

// Without limits of their own, `on` serves blocks that surely gain, `always` the slides' range.
static void set_huge(const struct pw_options *options) {
    static const uint8_t shifts[PW_PAGES_1G + 1] = {[PW_PAGES_2M] = 21, [PW_PAGES_1G] = 30};
    bool always = options->huge == PW_HUGE_ALWAYS;
    size_t smallest = always ? (size_t)1 << 20 : PW_HUGE_SMALLEST_PAGES * PW_PAGE;
    size_t largest = options->huge_max ? options->huge_max : SIZE_MAX;
    smallest = options->huge_min ? options->huge_min : smallest;
    pw_process.huge = (struct pw_huge){
        .on = options->huge != PW_HUGE_OFF,
        .always = always,
        .ordinary = options->pages == PW_PAGES_ORDINARY,
        .lock = options->lock,
        .hugetlb = pw_process.quiet.had_others ? 0 : shifts[options->pages],
        .smallest = smallest / PW_PAGE,
        .largest = largest / PW_PAGE + 1, // the header page
    };
}

static bool serve(const struct pw_options *options) {
    if (!start_arena(options)) {
        return false;
    }
    pw_process.arena.slack_percent = options->slack_percent;
    pw_share_use_mmapcopy(&pw_process.share, options->mmapcopy && options->share != PW_SHARE_OFF);
    set_huge(options);
    open_gate(options);
    return true;
}

static void ignore(const char *problem, const char *item, const char *possible) {
    (void)problem;
    (void)item;
    (void)possible;
}

// Nothing is done then, nor said: a word on standard error is a system call, too.
static bool is_forbidden(const char *text) {
    struct pw_options *options = &pw_process.options;
    pw_options_read(options, text, PW_POLICY_AUTO, ignore);
    if (!pw_sandbox_forbids(options)) {
        return false;
    }
    unsigned filters = options->filters;
    pw_options_read(options, "policy=plain", PW_POLICY_PLAIN, ignore);
    options->filters = filters;
    pw_stats_name(&pw_process.stats, pw_policy_name(PW_POLICY_PLAIN));
    pw_stats_seal(&pw_process.stats);
    PW_COUNT(&pw_process.stats, fallback_seccomp, 1);
    pw_process.sealed = true;
    return true;
}

// The folder of a `pagewise run` that has ended went with it: nobody reads the figures of what it
// left running, nor of what that starts.
static bool has_gone(const char *folder) {
    static const char ours[] = "/pagewise-";
    const char *name = strrchr(folder, '/');
    return name && !strncmp(name, ours, sizeof ours - 1) && !pw_os_exists(folder);
}

static bool start(const char *text) {
    struct pw_options *options = &pw_process.options;
    pw_stats_start(&pw_process.stats);
    if (is_forbidden(text)) {
        return false;
    }
    pw_c_library_identify_loader();
    pw_options_read(options, text, pw_gate.serves_all ? PW_POLICY_GENERAL : PW_POLICY_AUTO, warn);
    const char *policy = pw_policy_name(options->policy);
    if (!pw_stats_publish(&pw_process.stats, options->statistics, policy) &&
        !has_gone(options->statistics)) {
        pw_os_warn("statistics stay in the process: cannot create a file in ", options->statistics);
    }
    PW_COUNT(&pw_process.stats, bookkeeping_bytes, sizeof pw_process.predictor);
    pw_process_note_identity();
    if (!pw_os_pages_fit()) {
        PW_COUNT(&pw_process.stats, fallback_page_size, 1);
        return false;
    }
    if (pw_behind.is_other && !pw_gate.serves_all) {
        // The program's own choice, whose other functions would not know blocks of ours.
        PW_COUNT(&pw_process.stats, fallback_allocator, 1);
        return false;
    }
    switch (options->policy) {
    case PW_POLICY_PLAIN:
        return false;
    case PW_POLICY_KSM:
    case PW_POLICY_KSM_AGGRESSIVE:
        pw_gate.mergeable = true;
        pw_gate.map_directly = true;
        return false;
    case PW_POLICY_DIRECT:
        pw_gate.map_directly = true;
        return false;
    default:
        break;
    }
    if ((options->policy == PW_POLICY_GENERAL) != pw_gate.serves_all) {
        warn("blocks are left to the C library: policy=", policy,
             "libpagewise-general.so is for policy=general, and for no other that serves blocks; "
             "pagewise run preloads the right one");
        return false;
    }
    return serve(options) &&
           (options->policy != PW_POLICY_GENERAL || pw_general_open(&pw_process, options));
}

bool pw_start(const char *text) {
    pw_os_find_functions();
    pw_c_library_find();
    pw_behind_decide();
    pw_process_enter_to_start();
    if (!pw_process.started) {
        // secure_getenv: a setuid program takes no orders from its caller's environment.
        start(text ? text : secure_getenv("PAGEWISE_OPTIONS"));
        pw_process.started = true;
    }
    pw_process_leave_started();
    return pw_is_on();
}

// Python 3.12 and later warn at os.fork() where there is a second thread, whosever it is.
static void end_keeper(void) {
    pw_keeper_end(&pw_process);
}

static void end_keeper_before_forks(void) {
    pthread_atfork(end_keeper, NULL, NULL);
}

void pw_serve_runtime(bool is_start) {
    if (!pw_is_on() || !pw_runtime_find(&pw_process, is_start)) {
        return;
    }
    if (pw_process.serves_python) {
        end_keeper_before_forks();
    }
    if (pw_process_enter()) {
        open_gate(&pw_process.options);
        pw_process_leave();
    }
}

static bool has_arena(enum pw_policy policy) {
    return policy == PW_POLICY_SHARE || policy == PW_POLICY_HUGE || policy == PW_POLICY_AUTO;
}

// Whoever asks at run time is told of a mistake instead of warned of it.
static char refused[128];

static void refuse(const char *problem, const char *item, const char *possible) {
    (void)problem;
    (void)possible; // R and Python say it in their own words
    snprintf(refused, sizeof refused, "the option is not understood: %s", item);
}

// The statistics block of a running heap stays where it is.
static bool change_options(struct pw_options *options) {
    if (!serve(options)) {
        return false;
    }
    memcpy(options->statistics, pw_process.options.statistics, sizeof options->statistics);
    pw_process.options = *options;
    pw_process_forget_collections();
    pw_stats_name(&pw_process.stats, pw_policy_name(options->policy));
    return true;
}

const char *pw_heap_switch_on(const char *text) {
    struct pw_options options;
    *refused = 0;
    pw_options_read(&options, text, PW_POLICY_AUTO, refuse);
    if (*refused) {
        return refused;
    }
    if (!pw_os_pages_fit()) {
        return "this library is for kernels with pages of 4 KB, and this one's are larger (getconf "
               "PAGESIZE)";
    }
    if (pw_gate.serves_all && !pw_gate.general) {
        return "all memory is the C library's since the program's start (policy=plain, or no "
               "address space), and stays so";
    }
    if (pw_behind.is_other && !pw_gate.serves_all) {
        return "another library's malloc serves this program (linked, or preloaded)";
    }
    if (pw_process.sealed) {
        return "a seccomp filter came into force, which may end the process for a system call: all "
               "is "
               "left to the C library from then on";
    }
    if (!pw_process.started && pw_sandbox_forbids(&options)) {
        return "a seccomp filter is in force, which may end the process for a system call: "
               "seccomp=ignore takes the risk";
    }
    if (!has_arena(options.policy)) {
        return "this policy works from a program's start only: pagewise run --policy";
    }
    if (!pw_process.started) {
        pw_start(text);
    }
    bool on = false;
    if (pw_process_enter()) {
        on = change_options(&options);
        pw_process_leave();
    }
    return on ? NULL : "no address space for blocks";
}

void pw_heap_switch_off(void) {
    pw_r_thaw();
    pw_gate.threshold = pw_gate.copy_threshold = SIZE_MAX;
    if (pw_process.arena.base && pw_process_enter()) {
        pw_process.options.pool = false;
        pw_arena_purge(&pw_process.arena, pw_process.arena.warm_pages);
        pw_stats_name(&pw_process.stats, pw_policy_name(PW_POLICY_PLAIN));
        pw_process_leave();
    }
}

// libpagewise-general.so is initialized before the C library has its environment, and only says
// that it is there. Python is found here, as no runtime is served otherwise than other programs.
__attribute__((constructor)) static void start_where_all_is_ours(void) {
    if (pw_gate.serves_all && pw_start(NULL) && pw_python_is_linked()) {
        end_keeper_before_forks();
    }
}
