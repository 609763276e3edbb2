// SPDX-License-Identifier: MIT
#include "share_view.h"

#include <Rversion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// Of the 65,530 mappings that Linux gives a process by default (vm.max_map_count), R and everything
// else keep three quarters: further vectors are copied out.
#define MOST_VIEWS 16000u
#define MANY_VIEWS (MOST_VIEWS / 2) // some of them may be garbage

// R sees the few bytes of a vector's header and not its pages, and so would collect far too late. A
// collection is called for after this many bytes of views, or half of what live ones have, if this
// process has grown as well (views that are only read cost nothing), and of objects.
#define COLLECT_AFTER ((uint64_t)256 << 20)
#define GROWN_ENOUGH  ((uint64_t)128 << 20)

// Each object holds a descriptor, of which R knows nothing either. From a quarter of the limit on a
// collection is called for whenever another eighth was taken: the rest is for the program's files.
#define MANY_DESCRIPTORS(limit) ((limit) / 4)
#define NEW_DESCRIPTORS(limit)  ((limit) / 8)

static struct {
    struct snapshot *snapshots;
    uint64_t objects;     // snapshots, each with a descriptor
    uint64_t new_objects; // of these, taken since the last collection; some may have ended
    unsigned views;
    uint64_t live_bytes;    // of views
    uint64_t fresh_views;   // bytes since it was last thought of collecting
    uint64_t fresh_objects; // the same of objects made
    uint64_t private_bytes; // of this process, after the last collection
    pid_t process;          // that loaded the package; 0, which is none, in a forked child
} state;

// Of the parts that share_vector.c and share_string.c write.
#define PARTS_LAYOUT 1u

uint32_t share_runtime(void) {
    return (PW_SHARED_RUNTIME_R << 24) | (PARTS_LAYOUT << 16) | (uint32_t)(R_VERSION >> 8);
}

// Of what python/src/pagewise/_share.py writes.
#define PYTHON_PARTS_LAYOUT 1u

static bool is_among(uint32_t runtime, enum share_makers makers) {
    uint32_t maker = runtime >> 16;
    bool is_python = maker == ((PW_SHARED_RUNTIME_PYTHON << 8) | PYTHON_PARTS_LAYOUT);
    bool is_r = maker == ((PW_SHARED_RUNTIME_R << 8) | PARTS_LAYOUT);
    return (is_python && makers != SHARE_OWN) || (is_r && makers == SHARE_ALL);
}

// Was this process forked, and has started no program since? A child of mclapply() may be the first
// that loads the package.
static bool is_forked_child(void) {
    enum { FORKED_WITHOUT_EXEC = 0x40 }; // PF_FORKNOEXEC, of the flags in proc(5)
    char line[512];
    unsigned flags = 0;
    FILE *file = fopen("/proc/self/stat", "r");
    size_t got = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    line[got] = 0;
    const char *name_end = strrchr(line, ')'); // the name may hold anything
    return name_end && sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
           (flags & FORKED_WITHOUT_EXEC);
}

// Memory that is this process's alone, shared pages that were written among it. 0: not known.
static uint64_t private_bytes(void) {
    unsigned long long size, resident, shared;
    FILE *file = fopen("/proc/self/statm", "r");
    bool known = file && fscanf(file, "%llu %llu %llu", &size, &resident, &shared) == 3;
    if (file) {
        fclose(file);
    }
    return known && resident > shared ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void collect(void) {
    R_gc();
    state.fresh_views = state.fresh_objects = state.new_objects = 0;
    state.private_bytes = private_bytes();
}

static uint64_t enough_to_collect(void) {
    return state.live_bytes / 2 > COLLECT_AFTER ? state.live_bytes / 2 : COLLECT_AFTER;
}

static void make_room_for_view(uint64_t bytes) {
    if (state.fresh_views > enough_to_collect()) {
        uint64_t now = private_bytes();
        if (now == 0 || now > state.private_bytes + GROWN_ENOUGH) {
            collect();
        }
        state.fresh_views = 0;
    }
    state.fresh_views += bytes;
}

static void make_room_for_object(uint64_t bytes) {
    if (state.fresh_objects > COLLECT_AFTER || state.views > MANY_VIEWS) {
        collect();
    }
    state.fresh_objects += bytes;
}

static void make_room_for_descriptor(void) {
    struct rlimit limit;
    bool limited = getrlimit(RLIMIT_NOFILE, &limit) == 0;
    if (limited && state.objects > MANY_DESCRIPTORS(limit.rlim_cur) &&
        state.new_objects > NEW_DESCRIPTORS(limit.rlim_cur)) {
        collect();
    }
}

// --- errors --------------------------------------------------------------------------------------

void share_fail(enum pw_shared_result result, const struct pw_shared_name *name) {
    unsigned theirs = name ? name->runtime & 0xffff : 0;
    if (result == PW_SHARED_RUNTIME && name && (name->runtime >> 16) != (share_runtime() >> 16)) {
        result = PW_SHARED_LAYOUT;
    }
    switch (result) {
    case PW_SHARED_DAMAGED:
        Rf_error(
            "the handle of a shared object is damaged: it was cut short or changed on its way. "
            "Nothing was read; serialise the object again where it was shared");
    case PW_SHARED_LAYOUT:
        Rf_error("the handle of a shared object was made by another version of pagewise, or for "
                 "another kind of processor. Install the same version on both sides");
    case PW_SHARED_RUNTIME:
        Rf_error(
            "the handle of a shared object was made by R %u.%u, and this is R %d.%d: objects are "
            "shared within one series of R. Send it by value, as unserialize(serialize(x, NULL, "
            "version = 2))",
            theirs >> 8, theirs & 255, (R_VERSION >> 16) & 255, (R_VERSION >> 8) & 255);
    case PW_SHARED_MACHINE:
        Rf_error(
            "the handle of a shared object was made on another machine, or before this machine "
            "was last started. Shared objects live in the memory of one machine: to keep or move "
            "one, save it by value with saveRDS(x, file, version = 2)");
    case PW_SHARED_USER:
        Rf_error(
            "the handle of a shared object was made by another user (number %u): only processes "
            "of that user can read it",
            name ? name->user : 0);
    case PW_SHARED_DENIED:
        Rf_error(
            "a shared object could not be looked for: the processes of this user may not be "
            "looked into here (a container, hidepid, or a process that made itself undumpable). "
            "Share from a process in the same container, or send the object by value");
    case PW_SHARED_GONE:
        Rf_error("a shared object is gone: process %u, which shared it, and all others that had it "
                 "have ended, dropped it or closed its descriptor. Keep the result of share() in a "
                 "variable until the others have it, and share it again now",
                 name ? name->maker_pid : 0);
    case PW_SHARED_FORGED:
        Rf_error("a shared object is not what its handle says: the handle is forged, or of another "
                 "type. Nothing was read");
    case PW_SHARED_LIMIT:
        Rf_error(
            "no descriptor, or no memory file, could be had for a shared object: each takes one "
            "descriptor in every process that has it. What is shared already stays as it is, and "
            "nothing was changed. Share a list instead of many vectors, rm() some and type gc(), "
            "or raise the limit before R starts (ulimit -n)");
    case PW_SHARED_MEMORY:
        Rf_error(
            "a shared object could not be written: there is no memory for it, or the limit on "
            "file sizes (ulimit -f) is in the way. The object that was to be shared is unchanged");
    case PW_SHARED_PAGES:
        Rf_error(
            "nothing can be shared here: Pagewise is for kernels with pages of 4 KB, and this "
            "one's are larger (getconf PAGESIZE). Leave share() out and send the object "
            "itself, or start a kernel with pages of 4 KB (apt-get install linux-image-arm64)");
    case PW_SHARED_OK:
        return;
    }
    Rf_error(
        "nothing was shared, for a reason that this version of the package does not know (%d): "
        "the library is newer. Install the same version of both",
        (int)result);
}

// --- objects that are open ----------------------------------------------------------------------

static void drop(struct snapshot *snapshot) {
    if (--snapshot->references > 0) {
        return;
    }
    struct snapshot **at = &state.snapshots;
    while (*at && *at != snapshot) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = snapshot->next;
    }
    pw_shared_close(&snapshot->shared);
    free(snapshot);
    state.objects--;
}

static void finish_snapshot(SEXP pointer) {
    struct snapshot *snapshot = (struct snapshot *)R_ExternalPtrAddr(pointer);
    if (snapshot) {
        R_ClearExternalPtr(pointer);
        drop(snapshot);
    }
}

// A reference of its own, which ends with the external pointer.
static SEXP keep_snapshot(struct snapshot *snapshot) {
    snapshot->references++;
    SEXP pointer = PROTECT(R_MakeExternalPtr(snapshot, R_NilValue, R_NilValue));
    R_RegisterCFinalizer(pointer, finish_snapshot);
    UNPROTECT(1);
    return pointer;
}

// It may collect.
static struct snapshot *new_snapshot(void) {
    make_room_for_descriptor();
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot) {
        Rf_error("out of memory");
    }
    snapshot->shared.fd = -1;
    snapshot->process = getpid();
    snapshot->next = state.snapshots;
    state.snapshots = snapshot;
    state.objects++;
    state.new_objects++;
    return snapshot;
}

SEXP snapshot_begin(struct snapshot **result, uint64_t bytes) {
    make_room_for_object(bytes);
    struct snapshot *snapshot = *result = new_snapshot();
    SEXP pointer = PROTECT(keep_snapshot(snapshot));
    enum pw_shared_result began = pw_shared_begin(&snapshot->shared, share_runtime());
    if (began == PW_SHARED_LIMIT) {
        collect(); // garbage may hold what is missing
        began = pw_shared_begin(&snapshot->shared, share_runtime());
    }
    share_fail(began, NULL);
    UNPROTECT(1);
    return pointer;
}

static struct snapshot *snapshot_named(const uint8_t token[16]) {
    for (struct snapshot *at = state.snapshots; at; at = at->next) {
        if (at->shared.parts > 0 && !memcmp(at->shared.token, token, 16)) {
            return at;
        }
    }
    return NULL;
}

// Programs close descriptors that they do not know, daemons all of them. The table is read through
// it, and only by who has it.
static bool is_open(const struct snapshot *snapshot) {
    struct pw_shared_part first;
    return pw_shared_describe(&snapshot->shared, 0, &first);
}

// Its views stay on what they show, so that only the same file may take the place of a lost one.
static bool may_replace(const struct pw_shared *before, const struct pw_shared *after) {
    return before->parts == 0 || (before->device == after->device && before->inode == after->inode);
}

static enum pw_shared_result open_snapshot(struct snapshot *snapshot, const void *handle,
                                           size_t size, uint32_t runtime) {
    struct pw_shared opened;
    enum pw_shared_result result = pw_shared_open(handle, size, runtime, &opened);
    if (result != PW_SHARED_OK) {
        return result;
    }
    if (!may_replace(&snapshot->shared, &opened)) {
        pw_shared_close(&opened);
        return PW_SHARED_FORGED;
    }
    if (snapshot->shared.fd != opened.fd) { // else the new one has the number of the lost one
        pw_shared_close(&snapshot->shared);
    }
    snapshot->shared = opened;
    snapshot->process = getpid();
    return PW_SHARED_OK;
}

// --- views
// ----------------------------------------------------------------------------------------

static void finish_view(SEXP pointer) {
    struct view *view = view_at(pointer);
    if (view) {
        R_ClearExternalPtr(pointer);
        pw_shared_unmap(view->data, &view->part);
        state.views--;
        state.live_bytes -= view->part.size;
        drop(view->snapshot);
        free(view);
    }
}

// `like`: data of another view of the part, whose content is wanted, or NULL.
static void *map_part(const struct pw_shared *shared, const struct pw_shared_part *part,
                      const char *like) {
    return like ? pw_shared_map_again(shared, part, like) : pw_shared_map(shared, part);
}

static SEXP keep_view(struct snapshot *snapshot, uint32_t index, const struct pw_shared_part *part,
                      const char *like) {
    // The external pointer comes first: it may run out of memory, and then nothing is held yet.
    SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
    R_RegisterCFinalizer(pointer, finish_view);
    struct view *view = malloc(sizeof *view);
    void *data = view ? map_part(&snapshot->shared, part, like) : NULL;
    if (!data) {
        free(view);
        UNPROTECT(1);
        return NULL;
    }
    *view = (struct view){snapshot, *part, index, data};
    snapshot->references++;
    state.views++;
    state.live_bytes += part->size;
    R_SetExternalPtrAddr(pointer, view);
    UNPROTECT(1);
    return pointer;
}

static bool room_for_view(void) {
    return state.views < MOST_VIEWS;
}

SEXP view_open(struct snapshot *snapshot, uint32_t index) {
    struct pw_shared_part part;
    if (!room_for_view() || !pw_shared_describe(&snapshot->shared, index, &part)) {
        return NULL;
    }
    return keep_view(snapshot, index, &part, NULL);
}

SEXP view_again(const struct view *view) {
    make_room_for_view(view->part.size);
    if (!room_for_view()) {
        return NULL;
    }
    return keep_view(view->snapshot, view->index, &view->part, view->data);
}

// The runtime that a handle must be of: this one's, or another that is among those.
static uint32_t runtime_of(const void *bytes, size_t size, enum share_makers makers) {
    struct pw_shared_name name = {.part = 0};
    enum pw_shared_result result = pw_shared_read_handle(bytes, size, share_runtime(), &name);
    bool others = result == PW_SHARED_RUNTIME && is_among(name.runtime, makers);
    return others ? name.runtime : share_runtime();
}

SEXP view_of_handle(SEXP handle, enum share_makers makers, struct snapshot **result,
                    struct pw_shared_part *part, bool *mapped) {
    struct pw_shared_name name = {.part = 0};
    const void *bytes = TYPEOF(handle) == RAWSXP ? RAW(handle) : NULL;
    size_t size = bytes ? (size_t)XLENGTH(handle) : 0;
    uint32_t runtime = runtime_of(bytes, size, makers);
    share_fail(pw_shared_read_handle(bytes, size, runtime, &name), &name);
    struct snapshot *snapshot = snapshot_named(name.token);
    snapshot = snapshot ? snapshot : new_snapshot();
    SEXP kept = PROTECT(keep_snapshot(snapshot));
    if (!is_open(snapshot)) {
        enum pw_shared_result opened = open_snapshot(snapshot, bytes, size, runtime);
        if (opened == PW_SHARED_LIMIT) {
            collect(); // garbage may hold what is missing
            opened = open_snapshot(snapshot, bytes, size, runtime);
        }
        share_fail(opened, &name);
    }
    if (!pw_shared_describe(&snapshot->shared, name.part, part)) {
        share_fail(PW_SHARED_FORGED, &name);
    }
    *result = snapshot;
    make_room_for_view(part->size);
    SEXP view = view_open(snapshot, name.part);
    *mapped = view != NULL;
    UNPROTECT(1);
    return view ? view : kept;
}

SEXP view_handle(const struct view *view) {
    const struct snapshot *snapshot = view->snapshot;
    struct pw_shared_part part;
    // A forked child (mclapply) is gone when its result is read, and with it what only it has.
    bool only_here = snapshot->process != state.process;
    if (only_here || !pw_shared_describe(&snapshot->shared, view->index, &part)) {
        return NULL;
    }
    SEXP handle = Rf_allocVector(RAWSXP, PW_SHARED_HANDLE_SIZE);
    pw_shared_handle(&snapshot->shared, view->index, RAW(handle));
    return handle;
}

// Bytes of the objects that this process has open, each counted once.
SEXP pagewise_shared_bytes(void) {
    uint64_t bytes = 0;
    for (const struct snapshot *at = state.snapshots; at; at = at->next) {
        bytes += at->shared.parts > 0 ? at->shared.size : 0;
    }
    return Rf_ScalarReal((double)bytes);
}

void share_view_start(void) {
    state.process = is_forked_child() ? 0 : getpid();
    state.private_bytes = private_bytes();
}
