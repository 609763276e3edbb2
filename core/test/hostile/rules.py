"""The rules of the core that are broken one at a time: see mutants.

Each of them says where it stands in docs/notes/core-design.md or in the sources, and which tests are to notice.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    name: str
    rule: str
    file: str  # of core/src
    old: str
    new: str
    tests: list  # of ctest
    ways: str = ""  # of the generator
    without: str = ""  # operations that would find something else first
    missed: str = ""  # why the generator does not find it


MUTANTS = [
    Mutant("witness-not-asked", "punch only while nobody else has our memory", "share/snapshot.c",
           "        bool cleared = pw_witness_cleared(share, snapshot->born, snapshot->released);",
           "        bool cleared = true;",
           ["stress-share", "stress-mixed"], "share"),
    Mutant("offset-used-twice", "offsets in a file are used once", "share/snapshot.c",
           "    file->end += (uint64_t)pages * PW_PAGE;", "    file->end += 0;",
           ["snapshot", "stress-share"], "share"),
    Mutant("identity-not-checked", "device and inode are checked before a descriptor is used", "os/file.c",
           "                status.st_dev == file->device && status.st_ino == file->inode;",
           "                status.st_mode != 0;",
           ["environment-reuse", "environment-close-all"], "share,auto"),
    Mutant("parents-page-map", "a child never uses the descriptor that shows its parent's pages", "share/share.c",
           "    pw_os_close(&share->pagemap.file);\n    pw_os_pagemap_open(&share->pagemap);\n    share->scan_missed",
           "    share->scan_missed",
           ["stress-share", "stress-mixed"], "share"),
    Mutant("written-pages-not-copied", "pages that the source had written since are copied", "share/share.c",
           "    if (!pw_os_pagemap_each(&share->pagemap, origin, origin + size, PW_OS_PRIVATE_PAGES, copy_range,\n"
           "                            &distance)) {",
           "    if (size == 1 && !pw_os_pagemap_each(&share->pagemap, origin, origin + size, PW_OS_PRIVATE_PAGES, "
           "copy_range,\n                            &distance)) {",
           ["snapshot"], "share"),
    Mutant("half-left-snapshot", "a publishing that stops half-way makes the rest the block's own", "share/share.c",
           "        make_private(page_address(share, source, from), (size_t)(end - from) * PW_PAGE);",
           "", ["snapshot"], missed="it needs a disk that is full for a moment"),
    Mutant("old-snapshot-needed", "other pages of the source still need the old snapshot", "front/copy.c",
           "    if (republish && !covers(copy->from, copy->pages, copy->source)) {",
           "    if (republish && copy->pages == 0) {", ["environment-part-again"], "share"),
    Mutant("destination-keeps-its-share", "a destination that shares pages gives up its share first", "front/copy.c",
           "    return covers(copy->to, copy->pages, destination) &&\n"
           "           pw_share_drop(&pw_process.share, destination);",
           "    return true;", ["stress-share", "stress-mixed"], "share"),
    Mutant("no-mending-after-attach", "a copy that failed leaves memory, not a hole", "front/copy.c",
           "    if (!pw_arena_blank(&pw_process.arena, copy->whole, size)) {", "    if (size == 1) {",
           ["stress-hole-mmapcopy"], missed="its double of mmapcopy(2) does not fail"),
    Mutant("edges-not-copied", "partial pages at both ends are copied", "front/copy.c",
           "    pw_os_copy(to, from, lead);\n", "", ["stress-share"], "share"),
    Mutant("signals-not-held", "signals are held back while a copy has the lock", "front/copy.c",
           "    pw_os_signals_block(signals);\n    bool entered", "    pw_os_signals_block(signals);\n"
           "    pw_os_signals_restore(signals);\n    bool entered",
           ["environment-jump-out"], "share"),
    Mutant("signals-in-a-search", "signals are held back between a look and a discard", "share/zero.c",
           "    pw_os_signals_block(&signals);\n    pw_os_maps_open(&maps);\n"
           "    for (uint32_t number = 1; number < share->arena->extent_count; number++) {\n"
           "        struct pw_extent *extent = pw_extent_at(share->arena, number);\n"
           "        if (extent->state",
           "    pw_os_signals_block(&signals);\n    pw_os_signals_restore(&signals);\n    pw_os_maps_open(&maps);\n"
           "    for (uint32_t number = 1; number < share->arena->extent_count; number++) {\n"
           "        struct pw_extent *extent = pw_extent_at(share->arena, number);\n"
           "        if (extent->state",
           ["collection"], "reclaim",
           missed="the moment between a look and a discard is microseconds long"),
    Mutant("shared-pages-searched", "a discarded page of a snapshot's mapping would show the snapshot again",
           "share/zero.c", "    if (extent->snapshot) {\n        reclaim_pages(&reclaim, extent, 1",
           "    if (extent->snapshot && extent->pages == 0) {\n        reclaim_pages(&reclaim, extent, 1",
           ["snapshot"], "reclaim",
           missed="Linux 6.11 is asked what is mapped there first, and such a block is not searched"),
    Mutant("not-the-sole-owner", "only the sole owner gives up what it has replaced", "share/sole.c",
           "    return snapshot->owners == 1 &&", "    return snapshot->owners >= 1 &&",
           ["snapshot", "stress-share", "stress-mixed"], "reclaim"),
    Mutant("orphaned-lock", "a child whose lock nobody will give back does without us", "front/process.c",
           "    __atomic_store_n(&pw_process.orphaned, true, __ATOMIC_RELAXED);\n    pthread_mutex_init",
           "    return false;\n    pthread_mutex_init", ["threads"], "auto"),
    Mutant("fork-without-lock", "a fork must not catch our tables half-changed", "front/process.c",
           "    if (waits) {\n        forking = true;",
           "    if (waits) {\n        pthread_mutex_unlock(&pw_process.lock);\n        forking = false;",
           ["threads"], "auto"),
    Mutant("no-heap-while-forking", "the forking thread may use the heap until its child is there", "front/process.c",
           "    if (!forking && !take()) {", "    if (!take()) {",
           ["environment-fork-in-handler", "threads", "hooks", "order-fork-handlers"], "got-auto,got-share",
           missed="the thread waits 50 ms and then does without us, which is only slow"),
    Mutant("stale-calloc", "warm pages are cleaned by hand", "front/block.c",
           "    return stale < size ? stale : size;", "    return stale < size ? stale / 2 : size / 2;",
           ["stress-auto", "stress-mixed"], "auto"),
    Mutant("moved-shared-block", "a block that shares pages does not grow by moving them", "front/block.c",
           "    if (pw_extent_is_shared(extent) || extent->fixed || size", "    if (extent->fixed || size",
           ["stress-share", "stress-mixed"], "share"),
    # That malloc_usable_size notes what it said changes nothing any more: realloc keeps all that a block can hold.
    Mutant("usable-promises-too-much", "malloc_usable_size promises what a block can hold, and realloc keeps it",
           "front/block.c", "entered ? (extent ? capacity_of(extent) : 0)", "entered ? (extent ? held_by(extent) : 0)",
           ["stress-mixed", "stress-share"], "auto"),
    Mutant("no-repair", "a block that shrank without us is made whole", "front/block.c",
           "        !pw_arena_mend(&pw_process.arena, start + held, all - held)) {", "        all == 1) {",
           ["hooks"], "got-auto"),
    Mutant("file-size-limit", "RLIMIT_FSIZE is asked before every write", "os/file.c",
           "    bool may = getrlimit(RLIMIT_FSIZE, &limit) == 0 &&\n"
           "               (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= end);",
           "    bool may = getrlimit(RLIMIT_FSIZE, &limit) == 0 || end;",
           ["environment-file-size"], "share"),
    Mutant("warm-though-fixed", "fixed pages are not for another block", "front/block.c",
           "    if (pw_process.options.pool && !extent->fixed && !is_mostly_absent(extent)) {",
           "    if (pw_process.options.pool && !is_mostly_absent(extent)) {",
           ["environment-advice"], "share,auto"),
    Mutant("mappings-to-the-last", "the last mappings are the program's", "extent/mappings.c",
           "    return mappings->held;\n}", "    return true;\n}",
           ["environment-map-count", "environment-map-count-later", "environment-map-count-none"], "share,auto",
           missed="where few mappings are left it bears refusals"),
    Mutant("no-mending-after-move", "a move that failed leaves memory at its place", "extent/mappings.c",
           "    if (!pw_arena_mend(arena, to, size)) {\n        arena->hole = to;",
           "    if (size == 1) {\n        arena->hole = to;", ["arena"], "auto"),
    Mutant("idle-page-in-use", "only pages that hold no block are given back", "general/idle.c",
           "        if ((map[word] & wanted) != wanted) {", "        if ((map[word] & wanted) == 0) {",
           ["general", "general-stress-decay-1-slack-0"], "general-small"),
    Mutant("cold-reads-something", "cold pages read zero", "front/block.c",
           "    bool blank = pw_arena_blank(arena, address, size);", "    bool blank = size > 0;",
           ["stress-mixed", "stress-auto", "environment-many-copies"], "auto"),
    Mutant("unsafe-module-shares", "only modules that hand no memory to devices share pages", "front/module.c",
           " && pw_process.options.modules == PW_MODULES_ALL) {\n        module = PW_MODULE_RUNTIME;",
           ") {\n        module = PW_MODULE_RUNTIME;",
           ["hooks", "environment-r", "runtime", "collection"],
           missed="it hands no memory to devices: only the statistics tell"),
    Mutant("second-copy-of-the-gate", "blocks of ours go to our free", "front/process.c",
           "    size_t span = (size_t)pw_process.arena.end * PW_PAGE;",
           "    size_t span = (size_t)pw_process.arena.end * PW_PAGE / 2;",
           ["environment-general"], "general,general-small"),

    # --- who may write beside us: the one rule for publishing (front/quiet.c) ---
    Mutant("foreign-thread", "beside a thread that is not known nothing is published", "front/quiet.c",
           "    return threads > 0 && threads <= known && changes % 2 == 0 &&",
           "    return threads > 0 && known > 0 && changes % 2 == 0 &&",
           ["quiet", "threads"], "share,auto"),
    Mutant("counts-while-they-change", "whoever looks while the counts of threads change gets a no", "front/quiet.c",
           "threads <= known && changes % 2 == 0 &&\n           earlier == earlier_timers(quiet) &&\n"
           "           changes == __atomic_load_n(&quiet->changes, __ATOMIC_SEQ_CST);",
           "threads <= known &&\n           earlier == earlier_timers(quiet) && changes + 1 > 0;",
           ["quiet"], missed="pools of known libraries live in R; the moment is a few instructions long"),
    Mutant("blas-at-work", "a BLAS that calls us has work", "front/quiet.c",
           "caller->in_blas || handling ? 0 : quiet->blas", "handling ? 0 : quiet->blas",
           ["quiet"], missed="it has no library that is named as a BLAS"),
    Mutant("blas-interrupted", "a signal handler may have interrupted a BLAS", "front/quiet.c",
           "caller->in_blas || handling ? 0 : quiet->blas", "caller->in_blas ? 0 : quiet->blas",
           ["quiet"], missed="it has no library that is named as a BLAS"),
    Mutant("openmp-at-work", "libgomp has work in a parallel region and in teams", "front/quiet.c",
           "    return runtime->level() > 0 || runtime->num_teams() > 1;", "    return runtime->level() > 99;",
           ["quiet"], missed="it has no library that is named as libgomp"),
    Mutant("pools-run-handlers", "threads of pools block all signals that can wait", "front/quiet.c",
           "    pw_os_signals_block(&for_good);\n    pw_os_cancel_restore(for_good.cancel);\n",
           "    (void)for_good;\n",
           ["quiet"], missed="it has no library that is named as a pool's"),
    Mutant("pool-thread-asks", "what a pool's own thread copies is work that was handed over", "front/quiet.c",
           "pw_os_pid() == pw_process.pid && !in_pool;", "pw_os_pid() == pw_process.pid;",
           ["quiet"], missed="it has no library that is named as a pool's"),
    Mutant("child-of-vfork", "a child of vfork publishes nothing", "front/quiet.c",
           "pw_os_pid() == pw_process.pid && !in_pool;", "!in_pool;",
           ["quiet"], missed="a child of vfork may only call exec or _exit"),
    Mutant("writer-by-library", "a process that loads liburing, libaio or the like publishes nothing", "front/quiet.c",
           "        if (found) {\n            pw_quiet_others_write();\n        }\n", "        (void)found;\n",
           ["quiet"], missed="it loads no such library"),
    Mutant("writer-by-call", "a process that asks for a ring or a context of aio publishes nothing",
           "front/family_mappings.h",
           "    if (number == SYS_io_setup || number == SYS_io_uring_setup) {\n        pw_quiet_others_write();\n    }\n",
           "", ["environment-kernel-writes"], missed="it makes no rings and no contexts"),
    Mutant("writer-by-clone", "a process with a child that shares its memory publishes nothing", "front/family.h",
           "    if ((flags & CLONE_VM) && !(flags & (CLONE_THREAD | CLONE_VFORK))) {\n        pw_quiet_others_write();\n"
           "    }\n", "    (void)flags;\n", ["environment-kernel-writes"], "share"),
    Mutant("lost-loader", "a child of a fork beside others does not wait for the loader's lock", "front/quiet.c",
           "    quiet->loader_is_lost |= !quiet->forks_quietly;\n", "",
           ["quiet"], "share",
           missed="a thread must be in the loader at the moment of a fork, and the child must copy"),
    Mutant("lost-loader-unnoticed", "so does one of a fork without handlers, which has not noticed yet", "front/quiet.c",
           "(&quiet->loader_is_lost, __ATOMIC_RELAXED) || pw_process_is_new()) {",
           "(&quiet->loader_is_lost, __ATOMIC_RELAXED)) {", ["quiet"], "share",
           missed="a thread must be in the loader at the moment of a fork, and the child must copy"),
    Mutant("search-beside-threads", "zeros are searched only while nobody else can write", "front/collection.c",
           "    bool quiet = pw_is_quiet(caller, NULL);", "    bool quiet = caller != NULL;",
           ["collection"], "reclaim",
           missed="its threads write to pages that are not zero"),
    Mutant("leave-beside-threads", "a block leaves its snapshot only while nobody else can write", "front/mapped.c",
           "    return !extent->altered && pw_is_quiet(caller, NULL) &&",
           "    return !extent->altered && caller &&", ["fate"], "share",
           missed="a block that threads write to must be on a snapshot when its pages are locked"),

    # --- witnesses ---
    Mutant("witness-gap", "the next witness is mapped before the last one is unmapped", "share/witness.c",
           "    if (!make(share, next)) {\n        return false;\n    }\n    if (seen != PW_OS_NOT_MAPPED && "
           "!pw_os_unmap(present->page, PW_PAGE)) {",
           "    if (seen != PW_OS_NOT_MAPPED && !pw_os_unmap(present->page, PW_PAGE)) {\n        return false;\n    }\n"
           "    if (!make(share, next)) {",
           ["snapshot"], "share", missed="the moment is a few microseconds long, and another thread must fork in it"),
    Mutant("witness-not-identified", "only a descriptor that is ours is sealed", "os/witness.c",
           "    if (!pw_os_is_ours(&witness->file)) {", "    if (witness->file.fd < 0) {",
           ["snapshot", "environment-reuse"], "share,auto",
           missed="its own files allow no seals"),
    Mutant("only-the-last-witness", "witnesses that were refused are asked as well", "share/witness.c",
           "        cleared = number < first || number > last;", "        cleared = number != last;",
           ["snapshot"], "share"),
    Mutant("witnesses-without-end", "with sixteen children that cannot be told apart sharing pauses", "share/witness.c",
           "    if (share->refused_count == PW_SHARE_WITNESSES) {",
           "    if (share->refused_count == PW_SHARE_WITNESSES && (share->refused_count = 0)) {",
           ["snapshot", "environment-many-forks"], "share",
           missed="it keeps four children at a time"),
    # Two places ask for the number, and each would do.
    Mutant("witness-that-was-lost", "what a lost witness saw is not punched any more", "share/witness.c",
           "        share->lost = witness->number;", "        share->news = true;",
           ["snapshot"], "share"),
    Mutant("child-unmaps-the-witness", "a child leaves its parent's witnesses mapped", "share/witness.c",
           "    pw_os_close(&share->witness.at.file);\n    share->witness.at.page = NULL;",
           "    pw_os_close(&share->witness.at.file);\n    pw_os_unmap(share->witness.at.page, PW_PAGE);\n"
           "    share->witness.at.page = NULL;",
           ["stress-share", "stress-mixed"], "share,reclaim"),
    Mutant("released-when-born", "all children since a snapshot was made count, to its release", "share/snapshot.c",
           "    snapshot->released = share->witness.number;", "    snapshot->released = snapshot->born;",
           ["snapshot"], "share"),
    Mutant("sole-owner-does-not-ask", "a sole owner's witness is asked after its pages were seen private",
           "share/sole.c", "    return pw_witness_cleared(share, snapshot->born, share->witness.number - 1) &&\n"
           "           pw_snapshot_is_own", "    return pw_snapshot_is_own",
           ["snapshot"], "reclaim"),
    Mutant("child-publishes-into-parents-file", "only the process that made a file publishes into it",
           "share/snapshot.c", "        share->files[i].inherited = true;", "        share->files[i].inherited = false;",
           ["stress-share", "stress-mixed", "environment-children"], "share"),

    # --- pages that are replaced, and what fails half-way ---
    Mutant("moved-in-part", "after a move that failed half-way the pages are copied back", "os/memory.c",
           "        copy_back(from, done, to);", "        (void)copy_back;",
           ["arena"],
           missed="this kernel fails no move half-way"),
    Mutant("vanished-piece", "a piece of a source whose mapping vanished is read back", "share/share.c",
           "        restore(share, &file->file, address + done, size, offset);", "        (void)restore;",
           ["snapshot", "faults-mixed --only half-way"],
           missed="kernels since 6.12 unmap nothing before they refuse"),
    Mutant("last-page-shared", "the last page of a block is copied, not shared", "front/copy.c",
           "    copy->pages = (uint32_t)((size - lead) / PW_PAGE);",
           "    bool ends = to + size == pw_extent_address(arena, copy->destination) + copy->destination->data_offset +\n"
           "                                 copy->destination->user_size &&\n"
           "                from + size == pw_extent_address(arena, copy->source) + copy->source->data_offset +\n"
           "                                   copy->source->user_size;\n"
           "    copy->pages = (uint32_t)((size - lead + (ends ? PW_PAGE - 1 : 0)) / PW_PAGE);",
           ["environment-grown-unhooked"], "share",
           missed="two blocks of one size must both be made longer, and then so much copied as they had"),
    Mutant("grown-tail-lost", "realloc keeps what an unhooked realloc has added", "front/block.c",
           "    size_t capacity = extent ? capacity_of(extent) : 0;\n    char *data",
           "    size_t capacity = extent ? extent->user_size : 0;\n    char *data",
           ["environment-grown-unhooked"], "share,got-share"),
    Mutant("moves-without-end", "mappings that moved pages cost are bounded", "extent/mappings.c",
           "    return arena->mappings.moved < most && pw_mappings_may_rise(arena);",
           "    return most > 0 && pw_mappings_may_rise(arena);",
           ["environment-growing"], missed="it costs mappings, which no program sees until there are none"),

    # --- what a program does to its own blocks (front/mapped.c) ---
    Mutant("change-not-marked", "a block whose mapping the program altered is not shared or kept warm",
           "front/mapped.c",
           "        break;\n    }\n    mark(extent, range);\n    return true;", "        break;\n    }\n    return true;",
           ["environment-advice"], "share,auto"),
    Mutant("advice-on-a-snapshot", "a block on a snapshot becomes ordinary memory before it is altered",
           "front/mapped.c", "    if (!extent->snapshot) {\n        return true;\n    }\n    pw_fate_ends(extent);",
           "    if (extent) {\n        return true;\n    }\n    pw_fate_ends(extent);",
           ["environment-advice"], "share"),
    Mutant("emptied-on-a-snapshot", "what is emptied on a snapshot reads zero, also from a handler", "front/mapped.c",
           "        return pw_share_empty(&pw_process.share, range.start, range.end);\n    }\n    return range.change",
           "        return true;\n    }\n    return range.change",
           ["environment-empty-in-handler"], "share", missed="its handlers empty nothing"),
    Mutant("free-pages-altered", "free pages that a call covers are not for a block before they are mapped anew",
           "front/mapped.c", "    if (range.change < ALTERS) {\n        return;", "    if (range.change <= MOVES) {\n        return;",
           ["environment-advice-more", "environment-advice"], "auto",
           missed="it alters no pages of blocks that are free"),
    # What comes after MCL_FUTURE is locked by the kernel whatever we map: no program can tell whether it is shared.
    Mutant("locked-as-others", "mlockall marks every block", "front/mapped.c",
           "    return flags & MCL_CURRENT ? change(", "    return flags & 0x100 ? change(",
           ["environment-advice-all-locked"], missed="the limit on locked memory leaves no room for all of it"),

    # --- handlers, forks and locks ---
    Mutant("handler-inside", "a handler in the middle of our own work does without us", "front/process.c",
           "    if (inside || (!forking && lock_is_orphaned())) {", "    if (!forking && lock_is_orphaned()) {",
           ["environment-fork-in-handler", "environment-empty-in-handler"], "share,auto",
           missed="its signals come in the middle of copies alone, which hold them back"),
    Mutant("cancelled-inside", "no thread is cancelled with our lock in hand", "front/process.c",
           "    cancel_state = pw_os_cancel_hold();\n    if (!forking && !take()) {",
           "    cancel_state = pw_os_cancel_hold();\n    pw_os_cancel_restore(cancel_state);\n"
           "    if (!forking && !take()) {",
           ["threads", "environment-thread-ends"], missed="it cancels no threads"),
    Mutant("new-process-not-noticed", "a child notices by its memory, also after forks without handlers",
           "front/process.c", "    return pw_process.fork_marker ? *pw_process.fork_marker == 0 : pw_process.pid != "
           "pw_os_pid();", "    return pw_process.pid == 0;",
           ["threads", "stress-share"], "share"),
    Mutant("atfork-too-late", "our handlers before a fork are registered first, to run last", "front/next.c",
           "    pw_process_watch_forks();\n    if (!next) {", "    if (!next) {",
           ["order-fork-handlers"], missed="its libraries register no handlers that wait"),
    Mutant("streams-after-us", "the lock of the list of streams is taken before ours", "front/process.c",
           "    if (waits) {\n        hold_streams();\n    }\n", "    (void)hold_streams;\n",
           ["order-fork-streams"] * 10, "auto,general",  # one run in fourteen hung
           missed="a reader of lines, a flush and a fork must meet"),
    Mutant("fork-that-waits", "a thread waits for a fork 50 ms and then does without us", "front/process.c",
           "        if (wait_for_lock(FORK_PATIENCE)) {\n            return true;\n        }\n        if (fork % 2",
           "        if (wait_for_lock(FORK_PATIENCE)) {\n            return true;\n        }\n        if (fork == 1",
           ["hooks"], missed="its libraries register no handlers that wait"),

    # --- filters of system calls ---
    Mutant("filter-at-start", "under a filter that was there before nothing is done", "front/sandbox.c",
           "options->filters != PW_FILTERS_ANY && pw_os_filter_count() > options->filters;",
           "options->filters == 9999 && pw_os_filter_count() > options->filters;",
           ["environment-killed-at-start"], missed="it runs under no filter"),
    Mutant("filter-later", "before a filter comes into force all is sealed", "front/sandbox.c",
           "        pw_sandbox_enters();\n    }", "        (void)0;\n    }",
           ["environment-killed-later"], missed="it brings no filter into force"),
    Mutant("sealed-arena-maps", "a sealed arena makes no system calls", "front/block.c",
           "    if (pw_process.arena.sealed) {\n        release_sealed(extent);\n        return;\n    }\n",
           "    (void)release_sealed;\n",
           ["environment-killed-later"], missed="it brings no filter into force"),

    # --- and more of these ---
    Mutant("asked-under-our-lock", "who calls is asked before our lock is taken", "front/block.c",
           "    struct pw_caller caller = pw_caller_at(site);\n    if (pw_collection_is_moment(size)) {\n"
           "        pw_quiet_look(&caller);\n    }\n    free_put_off();\n    if (!pw_process_enter()) {\n"
           "        return NULL;\n    }\n    if (!pw_process.arena.sealed) {",
           "    free_put_off();\n    if (!pw_process_enter()) {\n        return NULL;\n    }\n"
           "    struct pw_caller caller = pw_caller_at(site);\n    pw_quiet_look(&caller);\n"
           "    if (!pw_process.arena.sealed) {",
           ["order-loader-lock"], missed="the C library tells without a lock since 2.35"),
    Mutant("unreadable-searched", "the kernel is asked what may be read before a block is searched", "share/zero.c",
           "    if (!is_readable(reclaim->maps, base + (size_t)first * PW_PAGE,\n"
           "                     (size_t)(last - first) * PW_PAGE)) {", "    if (first > last) {",
           ["environment-advice-raw"], missed="calls of the program's own code are left out, as core-design.md says"),
    Mutant("published-unasked", "the kernel is asked what a block is before it is first published", "front/copy.c",
           "        !pw_block_is_ordinary(copy->source)\n", "        copy->source->pages == 0\n",
           ["fate"], missed="calls of the program's own code are left out, as core-design.md says"),
    Mutant("moved-off-a-snapshot", "a block that cannot leave its snapshot is not moved by the program", "front/mapped.c",
           "            return false; // their snapshot could end before they do", "            break;",
           ["fate"], "share",
           missed="it moves no blocks that threads write to"),
    Mutant("keeper-stays", "our thread ends before a call that is refused beside it", "front/sandbox.c",
           "    if (number == SYS_unshare || number == SYS_setns) {\n        pw_keeper_end();\n    }\n", "",
           ["environment-one-thread"], missed="it makes no namespaces"),
]
