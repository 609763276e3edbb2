#!/usr/bin/env python3
"""Run a program in a hostile environment, plain and under the preloaded library, and compare what it prints:

    environment.py --folder BUILD-FOLDER-OF-THE-TESTS --preload LIBRARY CASE

The statistics blocks of the preloaded run must prove that the mechanism ran, or name the fall-back taken. Exit status
77: this machine cannot run the case (the reason is printed).
"""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

from cases import Failure, Skip, run

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import pagewise_statistics  # noqa: E402  (it lives beside the other scripts)
from spaceless import spaceless  # noqa: E402

ALWAYS = "modules=all,share=always,zero=always,threshold=8K,collect=burst"
PAPERS = "modules=all,policy=share,collect=burst"
LAZY = "modules=all,brief=0"  # these programs' copies live for microseconds
SHARED = ["copies_shared"]
BESIDE = ["copies_shared", "fallback_threads"]  # other threads of the program's live
TIMEOUT = 240


class Bench:
    """Where a case runs: the programs, a folder of its own."""

    def __init__(self, arguments, folder):
        self.folder = folder
        self.preload = spaceless(os.path.abspath(arguments.preload))
        self.program = os.path.join(arguments.folder, "environment_program")
        self.basics = os.path.join(arguments.folder, "environment_basics")
        self.linked = os.path.join(arguments.folder, "environment_linked")
        self.library = os.path.join(os.path.dirname(self.preload), "libpagewise.so")
        self.double = spaceless(os.path.join(arguments.folder, "libmmapcopy-double.so"))
        self.kernel = None  # which one the double plays (mmapcopy_double.c); None: the real one
        self.count = 0

    def environment(self, options, statistics):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PAGEWISE")}
        environment.pop("LD_PRELOAD", None)
        environment["LC_ALL"] = "C"
        if options is not None:
            environment["LD_PRELOAD"] = self.preload
            if self.kernel:
                environment["LD_PRELOAD"] = f"{self.double}:{self.preload}"
                environment["PAGEWISE_TEST_MMAPCOPY"] = self.kernel
            environment["PAGEWISE_OPTIONS"] = f"{options},statistics={statistics}"
        return environment

    def run(self, command, options=None, prepare=None, wrap=(), has_statistics=True, **more):
        """Run once. Returns (exit status, standard output, standard error, sums of the statistics)."""
        self.count += 1
        statistics = os.path.join(self.folder, f"statistics-{self.count}")
        os.mkdir(statistics)
        environment = self.environment(options, statistics)
        if wrap:  # the wrapper itself runs plain
            preload = environment.pop("LD_PRELOAD", None)
            command = [*wrap, "env", *([f"LD_PRELOAD={preload}"] if preload else []), *command]
        done = subprocess.run(command, env=environment, cwd=self.folder, preexec_fn=prepare, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False, **more)
        blocks, sums = pagewise_statistics.total(statistics)
        if options is not None and blocks == 0 and has_statistics:
            raise Failure(f"no statistics block was left; {done.returncode}: {done.stderr.decode()[-2000:]}")
        return done.returncode, done.stdout, done.stderr.decode(errors="replace"), sums

    def same(self, command, counters, every_options=(ALWAYS, PAPERS, LAZY), **more):
        """Plain and preloaded runs print the same and end the same; one of `counters` has counted."""
        plain = self.run(command, None, **more)
        if plain[0] not in (0, 7) and not more.get("fails"):
            raise Failure(f"the plain run failed ({plain[0]}): {plain[1].decode()[-1000:]} {plain[2][-1000:]}")
        sums = {}
        for options in every_options:
            got = self.run(command, options, **more)
            if got[:2] != plain[:2]:
                raise Failure(f"with {options}: status {got[0]} and not {plain[0]}, output\n{got[1].decode()[-1500:]}\n"
                              f"and not\n{plain[1].decode()[-1500:]}\nstandard error: {got[2][-1500:]}")
            if counters and not any(got[3][name] for name in counters):
                counted = {name: value for name, value in got[3].items() if value}
                raise Failure(f"with {options}: none of {counters} counted: {counted}")
            if re.search(r"^pagewise: ", got[2], re.M):
                raise Failure(f"with {options}: unexpected words: {got[2][-500:]}")
            for name, value in got[3].items():
                sums[name] = sums.get(name, 0) + value
        return sums

    def work(self, case, *arguments, counters=SHARED, **more):
        return self.same([self.program, case, *arguments], counters, **more)


# --- cases ------------------------------------------------------------------------------------------------------------


def basics(bench):
    bench.same([bench.basics], SHARED)
    for wrong in ("double-free", "inside-free", "inside-realloc", "double-realloc"):
        status, output, error, _ = bench.run([bench.basics, wrong], ALWAYS)
        if status != -signal.SIGABRT or b"went on" in output:
            raise Failure(f"{wrong}: status {status}, {output}")
        if not re.fullmatch(r"pagewise: (free|realloc): the address is not that of a live block[^\n]*\n", error):
            raise Failure(f"{wrong}: said {error!r}")


def addresses(bench):
    """Without randomization by the kernel (setarch -R, gdb) blocks are where they were in the last run."""
    say = "import ctypes; f = ctypes.CDLL(None).malloc; f.restype = ctypes.c_void_p; print(f(ctypes.c_size_t(1 << 20)))"
    random = [sys.executable, "-c", say]
    fixed = ["setarch", "-R", *random]
    needs_ctypes(bench)
    if not shutil.which("setarch") or bench.run(fixed)[0] != 0 or len({bench.run(random)[1] for _ in range(8)}) == 1:
        raise Skip("randomization cannot be switched off here, or is off")
    for library, options in (("preload", "policy=auto"), ("general", "policy=general")):
        bench.preload = os.path.join(os.path.dirname(bench.preload), f"libpagewise-{library}.so")
        # What is in the environment moves the stack, and blocks with it.
        environment = bench.environment(options, os.path.join(bench.folder, "none"))
        places = [{subprocess.run(command, env=environment, capture_output=True, check=True).stdout for _ in range(count)}
                  for command, count in ((fixed, 4), (random, 12))]
        if len(places[0]) != 1 or len(places[1]) < 2:
            raise Failure(f"{library}: at {places[0]} without randomization, at {places[1]} with it")


def needs_ctypes(bench):
    if bench.run([sys.executable, "-c", "import ctypes"])[0] != 0:
        raise Skip("this Python has no ctypes")


def linked(bench):
    status, output, error, _ = bench.run([bench.linked])
    if status != 0 or not output.startswith(b"right, on: 1"):
        raise Failure(f"{status}: {output} {error}")


def own_functions(bench):
    """Our own copies and fills reach the C library's, not the ones we put before them."""
    sums = bench.work("ten-copies", counters=["copies_plain_module"], every_options=("decay=0",))
    if sums["copies_seen"] != 10:
        raise Failure(f"ten copies were looked at {sums['copies_seen']} times")


def address_space(bench):
    # As much as the plain run needs for its own 20 MB, and twice as much as that.
    sums = {}
    for room in (60, 120):
        more = bench.work("address-space", str(room), counters=["copies_shared", "fallback_arena"])
        sums = {name: sums.get(name, 0) + value for name, value in more.items()}
    if not sums["fallback_arena"]:
        raise Failure("the limit was not reached")

    def small():
        resource.setrlimit(resource.RLIMIT_AS, (48 << 20, 48 << 20))

    bench.work("work", counters=["copies_shared", "fallback_arena"], prepare=small)


def promise(bench):
    """What the kernel would refuse the C library it must refuse us."""
    bench.work("promise", counters=["fallback_arena", "blocks_allocated"])
    general_bench(bench)
    bench.work("promise", counters=SEGMENTS, every_options=GENERAL)


def shrink(bench):
    bench.work("shrink", counters=["fallback_arena"])
    general_bench(bench)
    bench.work("shrink", counters=["blocks_allocated", "fallback_general"], every_options=GENERAL)


def released(bench):
    """Under a limit of address space or of data, what was released can be had for other blocks, and threads."""
    needs = [(when, which, need) for when in ("before", "later") for which in ("space", "data") for need in ("thread", "block", "small")
             if (which, need) != ("data", "thread")]  # the plain C library keeps too much for one
    for words in needs:
        bench.work("released", *words, counters=["blocks_freed"])
    general_bench(bench)
    for words in needs:
        if words[2] != "thread":
            bench.work("released", *words, counters=SEGMENTS, every_options=GENERAL)


def block_between(bench):
    """A block of the C library's between ours is the C library's to resize."""
    bench.work("block-between", counters=["blocks_allocated"])
    general_bench(bench)
    bench.work("block-between", counters=SEGMENTS, every_options=GENERAL)


def full_statistics(bench):
    """No room for the file of the statistics: the program runs without it."""
    if not may_mount():
        raise Skip("a small file system needs root and mounts")
    for case in ("work", "fork-in-handler"):
        plain = bench.run([bench.program, case])
        mount = 'mount -t tmpfs -o size=16k none "$1" && { dd if=/dev/zero of="$1/full" bs=4k count=8 2> /dev/null; shift; exec "$@"; }'
        folder = os.path.join(bench.folder, f"statistics-{bench.count + 1}")
        status, output, error, _ = bench.run([bench.program, case], ALWAYS, has_statistics=False,
                                             wrap=["unshare", "-m", "sh", "-c", mount, "sh", folder])
        if (status, output) != plain[:2]:
            raise Failure(f"{case}: {status}, {output} and not {plain[1]}; {error}")


def descriptors(bench):
    bench.work("descriptors", counters=["fallback_memfd"])


def file_size(bench):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    bench.work("work", counters=["fallback_file_size"], prepare=limit)
    bench.work("file-size-later", counters=["fallback_file_size"])


EVERY_POLICY = (ALWAYS, PAPERS, LAZY, "policy=auto", "policy=huge", "policy=direct", "policy=ksm")


LOWERED = ([("data", below) for below in (0, 65536, 8 << 20)] + [("space", below) for below in (0, 65536, 8 << 20)] +
           [("nofile", number) for number in (0, 1, 2, 3)] + [("fsize", 0), ("nproc", 0), ("memlock", 0), ("stack", 16384)])


def lowered(bench):
    """Limits lowered while the program runs, below what it has: no byte is lost, nothing ends or hangs."""
    for name, value in LOWERED:
        every = EVERY_POLICY if value == 65536 else (ALWAYS, LAZY)
        bench.work("lowered", name, str(value), counters=None, every_options=every)


def lowered_general(bench):
    general_bench(bench)
    for name, value in LOWERED:
        bench.work("lowered", name, str(value), counters=SEGMENTS, every_options=GENERAL)


def warning(bench):
    """What we have to say must not end a program: standard error is a closed pipe, or a file that may not grow."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    plain = bench.run([bench.program, "work"])
    for library in ("preload", "general"):
        environment = bench.environment("no-such-option=1", "")
        environment["LD_PRELOAD"] = os.path.join(os.path.dirname(bench.preload), f"libpagewise-{library}.so")
        reading, closed_pipe = os.pipe()
        os.close(reading)
        with open(os.path.join(bench.folder, "said"), "wb") as file, os.fdopen(closed_pipe, "wb") as pipe:
            for error, prepare in ((pipe, None), (file, limit)):
                # The interpreter ignores SIGPIPE and SIGXFSZ; programs are started with their defaults.
                done = subprocess.run([bench.program, "work"], env=environment, stdout=subprocess.PIPE, stderr=error,
                                      preexec_fn=prepare, restore_signals=True, timeout=TIMEOUT, check=False)
                if (done.returncode, done.stdout) != plain[:2]:
                    raise Failure(f"{library}: {done.returncode} {done.stdout}")


def report_of(bench, path, library="preload", program=("work",), error=subprocess.PIPE, prepare=None):
    """Run with report=PATH; the program ends as plain, whatever becomes of the report. Returns standard error."""
    plain = bench.run([bench.program, *program])
    environment = bench.environment(f"{ALWAYS},report={path}", bench.folder)
    environment["LD_PRELOAD"] = os.path.join(os.path.dirname(bench.preload), f"libpagewise-{library}.so")
    done = subprocess.run([bench.program, *program], env=environment, cwd=bench.folder, stdout=subprocess.PIPE,
                          stderr=error, preexec_fn=prepare, restore_signals=True, timeout=TIMEOUT, check=False)
    if (done.returncode, done.stdout) != plain[:2]:
        raise Failure(f"report={path}, {library}: {done.returncode} {done.stdout}")
    return (done.stderr or b"").decode()


def wrote(bench, pattern):
    """What lies in the case's folder and is named so, the unfinished included."""
    found = [name for name in os.listdir(bench.folder) if re.fullmatch(pattern + r"(\.\d+\.new)?", name)]
    texts = []
    for name in found:
        with open(os.path.join(bench.folder, name), encoding="utf-8") as file:
            texts.append(file.read())
    return texts


def reports(bench):
    """report=FILE: complete and parsed, one of each process where that is asked for, and what is no file stays so."""
    for library in ("preload", "general"):
        if report_of(bench, "heap.json", library) or report_of(bench, "each-%p.json", library, ["spawn"]):
            raise Failure(f"{library}: something was said")
        one, each = wrote(bench, r"heap\.json"), wrote(bench, r"each-\d+\.json")
        if len(one) != 1 or len(each) < 2:
            raise Failure(f"{library}: {len(one)} and {len(each)} reports")
        for text in one + each:
            json.loads(text)
        if not all("bytes in use" in report_of(bench, path, library) for path in ("stderr", "/dev/stderr")):
            raise Failure(f"{library}: nothing on standard error")
    before = os.stat("/dev/null").st_rdev, os.readlink("/dev/stderr")
    if report_of(bench, "/dev/null") or (os.stat("/dev/null").st_rdev, os.readlink("/dev/stderr")) != before:
        raise Failure("a device was replaced")
    os.symlink("kept", os.path.join(bench.folder, "link"))
    with open(os.path.join(bench.folder, "kept"), "w", encoding="utf-8") as file:
        file.write("kept\n")
    report_of(bench, "link")
    if not wrote(bench, "kept")[0].startswith("kept\n") or not os.path.islink(os.path.join(bench.folder, "link")):
        raise Failure("what a link leads to was lost")


def refused_reports(bench):
    """A report that cannot be written is said once, leaves nothing, and ends no program."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    os.mkfifo(os.path.join(bench.folder, "fifo"))
    os.mkdir(os.path.join(bench.folder, "folder"))
    for path, prepare in (("/dev/full", None), ("no-such/heap.txt", None), ("fifo", None), ("folder", None),
                          ("limited.txt", limit)):
        said = report_of(bench, path, prepare=prepare)
        if said.count("could not be written") != 1 or not said.rstrip().endswith(path):
            raise Failure(f"{path}: said {said!r}")
    if wrote(bench, r"limited\.txt") or not os.path.isdir(os.path.join(bench.folder, "folder")):
        raise Failure("an unfinished report was left")
    reading, closed_pipe = os.pipe()
    os.close(reading)
    with os.fdopen(closed_pipe, "wb") as pipe:
        report_of(bench, "stderr", error=pipe)
        report_of(bench, "/dev/stderr", error=pipe)


def may_lock():
    return os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY


def lock(bench):
    if not may_lock():
        raise Skip("locking memory needs root")
    bench.work("lock-everything", counters=["blocks_allocated"])  # what is locked stays where it is
    bench.work("lock-limit", counters=["blocks_allocated"])
    bench.work("emptied-locked", counters=["copies_shared"], every_options=(ALWAYS, PAPERS))


def few_mappings_allowed():
    with open("/proc/sys/vm/max_map_count", encoding="ascii") as file:
        if int(file.read()) > 66000:
            raise Skip("vm.max_map_count is raised: using all mappings up takes too long")


def map_count(bench):
    """Whatever malloc can serve with few mappings left, it serves under the library."""
    few_mappings_allowed()
    # Twice as many mappings are left as said.
    for spare in (2, 20, 40):
        bench.work("mappings", str(spare), counters=["fallback_map_count"])
    bench.work("mappings", "70")
    # Our own first tables and blocks are mappings as well.
    bench.work("mappings-small", "4", counters=["fallback_map_count"], every_options=(ALWAYS, LAZY))


def map_count_later(bench):
    """Sharing was at work when mappings became few, and is again when they are back."""
    few_mappings_allowed()

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    bench.work("mappings-later", "2", counters=["fallback_map_count"], every_options=(LAZY,))
    for spare, prepare, options in (2, None, PAPERS), (2, limit, ALWAYS), (12, None, ALWAYS):
        sums = bench.work("mappings-later", str(spare), counters=["fallback_map_count"], every_options=(options,),
                          prepare=prepare)
        if sums["copies_shared"] <= 39 + spare:
            raise Failure(f"{options}: {sums['copies_shared']} copies shared: none after mappings were back")


def map_count_none(bench):
    """The reserve of mappings serves whatever needs one first."""
    few_mappings_allowed()
    for need in ("c-library", "block", "thread", "free"):
        sums = bench.work("mappings-none", need, counters=["fallback_map_count"])
        if sums["fallback_map"] or not sums["copies_shared"]:
            raise Failure(f"{need}: {sums['fallback_map']} mappings failed, {sums['copies_shared']} copies were shared")


def map_count_grow(bench):
    """realloc keeps the contents where the kernel moves some of a block's mappings and refuses the next."""
    few_mappings_allowed()
    for options in (LAZY, "policy=auto", ALWAYS, LAZY + ",huge=always,huge-min=1M"):
        bench.work("mappings-grow", counters=["blocks_allocated"], every_options=(options,))


def many_copies(bench):
    few_mappings_allowed()
    bench.work("many-copies", counters=["fallback_map_count"], every_options=(ALWAYS, PAPERS))


def release():
    """Of the kernel: its first two numbers."""
    return tuple(int(re.match(r"\d+", part).group()) for part in os.uname().release.split(".")[:2])


def denied(bench):
    calls = {
        "memfd_create": ["fallback_memfd"],
        "ftruncate": ["fallback_memfd"],
        "pagemap_scan": ["fallback_pagemap_scan"],
        "pwrite64": ["fallback_write"],
        "fallocate": ["fallback_discard"],
        "mremap": ["fallback_move", "copies_shared"],
        "madvise": SHARED,
        "sysinfo": SHARED,
        "userfaultfd": SHARED,
        "mlock": SHARED,
        "add_seals": ["fallback_discard"],
    }
    for call, counters in calls.items():
        for error in (1, 38):  # EPERM, ENOSYS
            if call == "ftruncate":  # the statistics file needs it, too
                continue
            options = (ALWAYS, PAPERS) if call == "fallocate" else (ALWAYS, PAPERS, LAZY)
            bench.work("denied", call, str(error), counters=counters, every_options=ignoring(options))
    # PAGEMAP_SCAN works and the page tables cannot be read, which sharing does not need; no program can be started
    # without this call. Before Linux 6.7 they are all there is, and nothing is shared.
    scans = release() >= (6, 7)
    if scans == bool(bench.work("denied", "sysinfo", "1", every_options=ignoring((ALWAYS,)))["fallback_pagemap_scan"]):
        raise Failure("PAGEMAP_SCAN is not used where it is there, or told of where it is not")
    counters = SHARED if scans else ["fallback_pagemap"]
    sums = bench.work("denied-here", "pread64", "1", counters=counters, every_options=ignoring((ALWAYS, PAPERS, LAZY)))
    if scans and not sums["punched_bytes"]:
        raise Failure("without page tables nothing was given back")


def ignoring(every_options):
    """Filters that deny, for programs that were told to bear them."""
    return tuple(options + ",seccomp=ignore" for options in every_options)


def filtered(bench):
    """A filter that is in force at the start: unless told otherwise, everything is left to the C library."""
    plain = bench.run([bench.program, "denied", "madvise", "1"])
    for library, options in (("preload", ALWAYS), ("general", "policy=general")):
        bench.preload = os.path.join(os.path.dirname(bench.preload), f"libpagewise-{library}.so")
        for given in ("", ",seccomp=plain", ",seccomp=0", ",verbose=1", ",no-such-option=1"):
            status, output, error, sums = bench.run([bench.program, "denied", "madvise", "1"], options + given)
            # The first program, which sets the filter, leaves a block; the one that runs under it makes no file.
            if (status, output) != plain[:2] or sums.get("copies_seen") or sums.get("blocks_freed"):
                raise Failure(f"{options}{given}: {status} {error!r} {sums}")
        for given in (",seccomp=ignore", ",seccomp=1", ",seccomp=3"):
            counters = SHARED if library == "preload" else SEGMENTS
            bench.work("denied", "madvise", "1", counters=counters, every_options=(options + given,))


# By number: what our mechanisms call, and the C library's allocator does not. Of a start they may need some.
KILLED = {"read": 0, "write": 1, "close": 3, "fstat": 5, "poll": 7, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12,
          "rt_sigprocmask": 14, "ioctl": 16, "pread64": 17, "pwrite64": 18, "mremap": 25, "msync": 26, "madvise": 28,
          "getpid": 39, "clone": 56, "fcntl": 72, "ftruncate": 77, "fchmod": 91, "getrusage": 98, "sysinfo": 99, "mlock": 149,
          "prctl": 157, "gettid": 186, "futex": 202, "clock_gettime": 228, "tgkill": 234, "openat": 257, "newfstatat": 262,
          "fallocate": 285, "prlimit64": 302, "process_vm_readv": 310, "memfd_create": 319, "rseq": 334, "clone3": 435}


def killed(bench, kinds, libraries, but=(), calls=KILLED):
    """Filters that end the process for one call: what the C library survives survives under us."""
    if os.uname().machine != "x86_64":
        raise Skip("the numbers of the calls are x86-64's")
    survived = 0
    for name, number in ((name, KILLED[name]) for name in calls):
        for kind in kinds if name not in but else ():
            command = [bench.program, kind[0], str(number), *kind[1:]]
            if bench.run(command)[0] != 0:
                continue
            survived += 1
            for library, every_options in libraries:
                bench.preload = os.path.join(os.path.dirname(bench.preload), f"libpagewise-{library}.so")
                for options in every_options:
                    status, output, error, _ = bench.run(command, options)
                    if status != 0 or output or error:
                        raise Failure(f"{name}, {kind}, {library}, {options}: {status} {output} {error}")
    if survived < len(calls) * len(kinds) // 2:
        raise Failure(f"the plain program survived {survived} filters only")


def killed_at_start(bench):
    # The loader itself looks for folders beside the library by newfstatat, before anything of ours runs.
    killed(bench, [("killed-at-start",)], [("preload", (PAPERS,)), ("general", ("policy=general",))], but=("newfstatat",))


def killed_later(bench):
    killed(bench, [("killed-later", "prctl")], [("preload", (PAPERS, "policy=auto")), ("general", ("policy=general",))])


def filtered_beside(bench):
    """One thread installs a filter for all, while another one frees: nothing of ours makes a call after it."""
    general_bench(bench)
    bench.work("filtered-beside", counters=SEGMENTS, every_options=("policy=general,decay=1",))


def one_thread(bench):
    """Namespaces that are open to a process of one thread only: our thread ends first."""
    bench.work("one-thread", counters=None)
    general_bench(bench)
    bench.work("one-thread", counters=SEGMENTS, every_options=GENERAL)


def dispatched(bench):
    """A program that has system calls sent to itself: a copy makes none."""
    bench.work("dispatched", counters=["fallback_seccomp"])


def ring(bench):
    """Beside a ring of io_uring, whoever made it, nothing is published."""
    sums = bench.work("ring", counters=["fallback_threads"])
    if sums["publishes"]:
        raise Failure(f"{sums['publishes']} blocks were published")


def growing(bench):
    """Blocks that grow by realloc take no more mappings than other allocators' do, by and large."""
    few_mappings_allowed()
    few = (("8000", "36000", "6000"), ("2000", "150000", "6000"))
    for case in few:
        bench.work("growing", *case, counters=["blocks_allocated"], every_options=("policy=auto",))
    general_bench(bench)
    for case in few:
        bench.work("growing", *case, counters=SEGMENTS, every_options=GENERAL)


def may_mount():
    """Root in a container or a plain chroot may not."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], check=False,
                                                capture_output=True).returncode == 0


def no_proc(bench):
    """A container that hides /proc/self/pagemap."""
    if not may_mount():
        raise Skip("hiding /proc needs root and mounts")
    wrap = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"]
    bench.work("work", counters=["fallback_pagemap", "fallback_threads"], wrap=wrap,
               every_options=ignoring((ALWAYS, PAPERS, LAZY)))
    # Nor can be read whether a filter is in force: in doubt there is one.
    status, _, error, sums = bench.run([bench.program, "work"], ALWAYS, wrap=wrap, has_statistics=False)
    if status != 0 or error or any(sums.values()):
        raise Failure(f"without /proc: {status} {error} {sums}")


def core_dump(bench):
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        pattern = file.read().strip()
    if pattern.startswith("|") or "/" in pattern:
        raise Skip(f"core files do not come to the current folder: {pattern}")
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        raise Skip("core files are not allowed")
    for options in (None, ALWAYS, LAZY):
        def allow():
            hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
            resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

        status, output, error, sums = bench.run([bench.program, "core"], options, prepare=allow)
        if status != -signal.SIGABRT or output != b"about to abort\n":
            raise Failure(f"{options}: {status} {output} {error}")
        if options and not sums["copies_shared"]:
            raise Failure(f"{options}: nothing was shared")
        cores = [name for name in os.listdir(bench.folder) if name.startswith("core")]
        if not cores and options is None:
            raise Skip("the plain run leaves no core file")
        marks = set()
        for name in cores:
            with open(os.path.join(bench.folder, name), "rb") as file:
                marks |= set(re.findall(rb"core mark (\d+) of a shared vector", file.read()))
            os.unlink(os.path.join(bench.folder, name))
        pages = (2 << 20) // resource.getpagesize()
        if len(marks) < pages - 1:
            raise Failure(f"{options}: {len(marks)} of {pages} pages are in the core file")


def spawn(bench):
    bench.work("spawn")


def children(bench):
    """Every kind of fork, and every order in which children end."""
    for how in ("fork", "raw", "clone"):
        bench.work("siblings", how, every_options=(PAPERS, LAZY))
        for end in ("exit", "exec"):
            bench.work("grandchild", how, end, every_options=(PAPERS,))
    sums = bench.work("short-lived", every_options=(PAPERS,))
    if sums["punched_bytes"] < 6 * 4 << 20:
        raise Failure(f"{sums['punched_bytes']} bytes were given back though no child lived")


def other_readers(bench):
    """Readers of all memory (gcore, CRIU), and the kernel's moving of pages, while a child lives."""
    for what in ("readv", "mem"):
        for how in ("fork", "raw", "clone"):
            bench.work("disturb", how, what, every_options=(ALWAYS, PAPERS))
    if os.geteuid() == 0 and os.access("/proc/sys/vm/compact_memory", os.W_OK):
        bench.work("disturb", "fork", "compact", every_options=(PAPERS,))


def worker(bench):
    """A child that lives on holds back what it may read, and nothing that was made later."""
    for options in (ALWAYS, PAPERS):
        sums = bench.work("worker", every_options=(options,))
        if sums["punched_bytes"] < 100 << 20:
            raise Failure(f"{options}: {sums['punched_bytes']} bytes were given back beside a child")


def many_forks(bench):
    bench.work("many-forks", "500", every_options=(PAPERS, LAZY))


@contextlib.contextmanager
def merging():
    """The kernel merges equal pages at once; its settings are restored."""
    folder = "/sys/kernel/mm/ksm/"
    names = ("run", "pages_to_scan", "sleep_millisecs")
    if os.geteuid() != 0 or not all(os.access(folder + name, os.W_OK) for name in names):
        raise Skip("merging pages needs root and KSM")
    before = {}
    for name in names:
        with open(folder + name, encoding="ascii") as file:
            before[name] = file.read().strip()

    def put(name, value):
        with open(folder + name, "w", encoding="ascii") as file:
            file.write(value)

    try:
        put("pages_to_scan", "50000")
        put("sleep_millisecs", "5")
        yield lambda: put("run", "1")
    finally:
        for name in reversed(names):
            put(name, before[name])


def merged_children(bench):
    """Pages that the kernel merges with another process's, and unmerges while a child lives."""
    plain = None
    with merging() as begin:
        for options in (None, ALWAYS, PAPERS):
            begin()
            statistics = os.path.join(bench.folder, f"statistics-twin-{bench.count}")
            os.mkdir(statistics)
            with subprocess.Popen([bench.program, "twin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env=bench.environment(options, statistics)) as twin:
                if twin.stdout.readline() != b"ready\n":
                    raise Skip("processes cannot be merged here")
                status, output, error, sums = bench.run([bench.program, "disturb", "fork", "ksm"], options)
                twin.stdin.close()
            plain = (status, output) if options is None else plain
            if (status, output) != plain or status != 0:
                raise Failure(f"{options}: {status} {output} and not {plain}, {error}")
            if options and not sums["copies_shared"]:
                raise Failure(f"{options}: nothing was shared")


def swapped_children(bench):
    """Pages that go to swap before a fork and come back in the parent while a child lives."""
    if not shutil.which("setpriv"):
        raise Skip("the right to lock memory cannot be given up without setpriv")

    def no_locking():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))

    with swap_file(96):
        bench.work("disturb", "fork", "swap", prepare=no_locking, wrap=["setpriv", "--bounding-set=-ipc_lock"])


def close_all(bench):
    bench.work("close-all", counters=["fallback_descriptor"])


def lowest_number(bench):
    """No thread of ours opens a file while the program counts on the lowest free number."""
    bench.work("lowest-number", counters=["blocks_freed"], every_options=(ALWAYS, LAZY))
    general_bench(bench)
    bench.work("lowest-number", counters=["blocks_freed", "fallback_general"], every_options=GENERAL[:1])


def daemon(bench):
    result = os.path.join(bench.folder, "result")
    outputs = []
    for options in (None, ALWAYS, PAPERS, LAZY):
        status, _, error, sums = bench.run([bench.program, "daemon", result], options)
        with open(result, "rb") as file:
            outputs.append(file.read())
        os.unlink(result)
        if status != 0 or outputs[-1] != outputs[0] or outputs[0].count(b"\n") != 2:
            raise Failure(f"{options}: {status} {outputs} {error}")
        if options and not sums["copies_shared"]:
            raise Failure(f"{options}: nothing was shared")


def reuse(bench):
    own = os.path.join(bench.folder, "own-file")
    for name in ("pagewise-snapshots", "pagewise-witness", "pagemap"):
        bench.work("reuse", name, own, counters=["copies_shared"])
    for name in ("pagewise-snapshots", "pagewise-witness"):
        sums = bench.work("reuse", name, own, counters=["fallback_descriptor"])
        if not sums["copies_shared"]:
            raise Failure("nothing was shared")
    bench.work("reuse-memory", "pagewise-witness")


def signals(bench):
    bench.work("signals")
    bench.work("small-signal-stack", every_options=(ALWAYS,))


def fork_in_handler(bench):
    bench.work("fork-in-handler")


def empty_in_handler(bench):
    bench.work("empty-in-handler", every_options=(ALWAYS, PAPERS))


def jump_out(bench):
    bench.work("jump-out", every_options=(ALWAYS, LAZY))
    bench.work("jump-out-of-calls", every_options=(ALWAYS, LAZY))
    bench.work("wait-in-handler", counters=["blocks_allocated"], every_options=(ALWAYS,))
    bench.work("blocked", every_options=(ALWAYS, LAZY))


def threads(bench):
    bench.work("threads", counters=BESIDE, every_options=(ALWAYS, PAPERS))
    bench.work("at-once", counters=BESIDE, every_options=(ALWAYS,))
    bench.work("fork-in-threads", counters=BESIDE)


def part_again(bench):
    bench.work("part-again", every_options=(ALWAYS, PAPERS))


def grown_unhooked(bench):
    """A library that is not seen makes a block longer: its new bytes are nobody's but the program's."""
    bench.work("grown-unhooked", every_options=(ALWAYS, PAPERS, LAZY))


def kernel_writes(bench):
    """Who may write without being a thread of the process: nothing is published from then on."""
    for way in ("by-function", "by-number"):
        bench.work("sharing-child", way, counters=["fallback_threads"], every_options=(ALWAYS, PAPERS))
    for what in ("aio", "ring"):
        sums = bench.work("kernel-writes", what, counters=["fallback_threads"], every_options=(ALWAYS, PAPERS))
        if sums["publishes"]:
            raise Failure(f"{what}: {sums['publishes']} blocks were published")


def registered(bench):
    """A block whose pages a ring knows is cleared, or copied into, and then read into by the ring."""
    for what in ("cleared", "copied"):
        bench.work("registered", what, counters=["copies_shared"], every_options=(ALWAYS, "modules=all,brief=0", LAZY))


def thread_ends(bench):
    bench.work("exit-in-thread", counters=BESIDE)
    bench.work("pthread-exit", counters=BESIDE)
    for case in ("exit-alone", "exit-by-number", "cancelled"):
        bench.work(case, counters=["blocks_freed"], every_options=(ALWAYS, LAZY))
    bench.work("small-stack", counters=BESIDE, every_options=(ALWAYS, PAPERS))


def stopped(bench):
    """Another thread is stopped in the middle of malloc while memory is copied, filled and protected."""
    bench.work("stopped", counters=["blocks_allocated"])
    general_bench(bench)
    bench.work("stopped", counters=["blocks_allocated", "fallback_general"], every_options=GENERAL)


def modules(bench):
    """A function that looks at the loaded modules waits for a thread that copies."""
    bench.work("modules", counters=["copies_seen"])


def own_stack(bench):
    """A copy of the stack that its caller runs on."""
    bench.work("own-stack")


def handlers_stack(bench):
    """Advice in a signal handler, on a small stack, about a block that shares pages."""
    bench.work("handlers-stack", every_options=(ALWAYS, PAPERS))


def other_clone(bench):
    """A child that shares our memory stores to what is copied."""
    bench.work("other-clone", counters=["fallback_threads", "copies_plain_predicted", "copies_plain_brief"])


def many_variables(bench):
    """A child that cannot bear us, in a long environment, is started on a small stack."""
    bench.work("many-variables", counters=["programs_left_plain"])


def dlclose(bench):
    status, output, error, _ = bench.run([bench.program, "dlclose", bench.library])
    if status != 0:
        raise Failure(f"{status}: {output} {error}")
    bench.same([bench.program, "dlclose", bench.library], ["blocks_allocated"])


def setuid(bench):
    """A setuid program leaves no statistics where its caller's environment says."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("changing users needs root and setpriv")
    folder = tempfile.mkdtemp(dir="/var/tmp", prefix="pagewise-setuid-")
    try:
        os.chmod(folder, 0o755)
        program, library = os.path.join(folder, "linked"), os.path.join(folder, "libpagewise.so.0")
        shutil.copy(bench.linked, program)
        shutil.copy(os.path.realpath(bench.library), library)
        for mode in (0o755, 0o4755):
            os.chmod(program, mode)
            statistics = os.path.join(folder, f"statistics-{mode:o}")
            os.mkdir(statistics)
            os.chmod(statistics, 0o777)
            environment = {"PAGEWISE_OPTIONS": f"modules=all,statistics={statistics}"}
            done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program],
                                  env=environment, capture_output=True, check=False, timeout=TIMEOUT)
            output = done.stdout.decode()
            if done.returncode != 0:
                raise Failure(f"mode {mode:o}: {done.returncode} {output} {done.stderr}")
            left = os.listdir(statistics)
            if mode == 0o755 and len(left) != 1:
                raise Failure(f"the ordinary program left {left}")
            if mode == 0o4755:
                if "effective user: 0" not in output:
                    raise Skip("setuid has no effect in /var/tmp")
                if left:
                    raise Failure(f"the setuid program took its caller's options: {left}")
    finally:
        shutil.rmtree(folder)


# --- memory cgroups and swap ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def memory_group(limit):
    """A group of our own with a memory limit, v1 or v2. Yields the file to join it by, and its folder."""
    if os.geteuid() != 0:
        raise Skip("memory groups need root")
    first = "/sys/fs/cgroup/memory"
    version_1 = os.path.exists(os.path.join(first, "memory.limit_in_bytes"))
    if not version_1:
        first = "/sys/fs/cgroup"
        try:
            with open(os.path.join(first, "cgroup.subtree_control"), encoding="ascii") as file:
                if "memory" not in file.read():
                    raise Skip("there is no memory controller")
        except OSError as error:
            raise Skip("there is no memory controller") from error
    folder = os.path.join(first, f"pagewise-test-{os.getpid()}")
    try:
        os.mkdir(folder)
    except OSError as error:
        raise Skip(f"no group can be made: {error}") from error
    try:
        name = "memory.limit_in_bytes" if version_1 else "memory.max"
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(str(limit))
        yield os.path.join(folder, "cgroup.procs"), folder
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
                break
            signal.sigtimedwait([], 0.05)


def joining(processes):
    def join():
        with open(processes, "w", encoding="ascii") as file:
            file.write(str(os.getpid()))

    return join


def memory_limit(bench):
    # The work holds about 25 MB. A plain run fits into 48, so must a shared one.
    with memory_group(48 << 20) as (processes, _):
        bench.work("work", prepare=joining(processes))


# R's threshold for collecting is high after a large vector; the garbage of the loop then passes the limit.
GARBAGE = """x <- numeric(6e7); rm(x); y <- runif(1e6); s <- 0
for (i in 1:200) s <- s + sum(y * i)
cat(s > 0, "\\n")
"""


# What a full collection is, is told by its time alone, and of a bare R it takes no longer than a minor one may: less than 10 ms on a fast processor.
MANY_OBJECTS = "objects <- as.list(1:3e5)"


# The same with work between the vectors, so that collections take little of the time.
FEW = f"""{MANY_OBJECTS}; set.seed(1); x <- numeric(6e7); rm(x); invisible(gc()); y <- runif(1e6); s <- 0
for (i in 1:40) s <- s + sum(sort(y * i))
cat(format(s, digits = 15), sum(y), "\\n")
"""


# A finalizer that takes memory, due when R is asked for a collection: between the two attempts at a vector it would take the second one's place.
FINALIZERS = """held <- NULL; plant <- function() { reg.finalizer(new.env(), function(e) held <<- numeric(2e5)); invisible() }
for (i in 1:6) { plant(); x <- numeric(3e7); y <- numeric(6e7); rm(x, y) }
cat(length(held), "\\n")
"""


def relief(bench):
    """R is made to collect its garbage before a limit kills it, and where that costs little."""
    if not shutil.which("Rscript"):
        raise Skip("there is no Rscript")
    command = ["Rscript", "--vanilla", "-e", GARBAGE]
    with memory_group(250 << 20) as (processes, _):
        without = bench.run(command, "policy=auto,relieve=off,early=off", prepare=joining(processes))
        with_relief = bench.run(command, "policy=auto", prepare=joining(processes))
    if with_relief[0] != 0 or with_relief[1] != b"TRUE \n" or not with_relief[3]["collections_asked"]:
        raise Failure(f"not relieved: {with_relief}")
    with open("/proc/swaps", encoding="ascii") as file:
        has_swap = len(file.readlines()) > 1
    if without[0] == 0 and not has_swap:
        raise Failure(f"this limit does not need any relief: {without}")
    # Where collections are few, R is asked for one before it would begin one; what it computes is the same.
    command = ["Rscript", "--vanilla", "-e", FEW]
    without = bench.run(command, "policy=auto,early=off")
    early = bench.run(command, "policy=auto")
    if early[:2] != without[:2] or early[0] != 0 or without[3]["collections_asked"]:
        raise Failure(f"early collections changed more than memory: {without} {early}")
    if early[3]["collections_asked_bytes"] < 100 << 20:
        raise Failure(f"not asked early: {early[3]}")
    with memory_group(400 << 20) as (processes, _):  # a request of 480 MB does not fit, and its zeros are never there
        status, output, _, sums = bench.run(["Rscript", "--vanilla", "-e", FINALIZERS], "policy=auto,early=off",
                                            prepare=joining(processes))
    if (status, output) != (0, b"200000 \n") or not sums["collections_asked"]:
        raise Failure(f"a vector was lost to a finalizer's: {status} {output} {sums['collections_asked']}")
    # What cannot be had is asked for as well, and was not garbage.
    too_much = "tryCatch(numeric(1e12), error = function(e) cat(conditionMessage(e)))"
    status, output, _, sums = bench.run(["Rscript", "--vanilla", "-e", too_much], "policy=auto")
    if status != 0 or not output.startswith(b"cannot allocate") or sums["collections_asked_bytes"] > 1 << 30:
        raise Failure(f"8 TB: {status} {output} {sums['collections_asked_bytes']}")
    # Once for each vector, though the second attempt fails as well: after much garbage and some work it would be asked for.
    worked = f"{MANY_OBJECTS}; x <- numeric(6e7); rm(x); invisible(gc()); s <- 0; for (i in 1:2e8) s <- s + i; {too_much}; y <- numeric(1e5)"
    sums = bench.run(["Rscript", "--vanilla", "-e", worked], "policy=auto,relieve=off")[3]
    if sums["collections_asked"] != 1:
        raise Failure(f"8 TB: R was asked {sums['collections_asked']} times for one vector")


@contextlib.contextmanager
def swap_file(megabytes):
    """Swap of our own."""
    if os.geteuid() != 0 or not shutil.which("mkswap"):
        raise Skip("swap needs root and mkswap")
    file = os.path.join("/var/tmp", f"pagewise-swap-{os.getpid()}")
    try:
        with open(file, "wb") as target:
            os.fchmod(target.fileno(), 0o600)
            for _ in range(megabytes):
                target.write(b"\0" * (1 << 20))
        if subprocess.run(["mkswap", file], check=False, capture_output=True).returncode or subprocess.run(
                ["swapon", file], check=False, capture_output=True).returncode:
            raise Skip("no swap file can be used here")
        try:
            yield
        finally:
            subprocess.run(["swapoff", file], check=True)
    finally:
        os.unlink(file)


def swap(bench):
    with swap_file(160), memory_group(48 << 20) as (processes, _):
        swap_in_group(bench, processes)


def run_swapping(bench, options, processes):
    """Where the disk is busy, the kernel kills in so small a group instead of waiting for pages to be written: once or twice is no
    failure of ours, three times in a row is."""
    for _ in range(3):
        done = bench.run([bench.program, "swap"], options, prepare=joining(processes))
        if done[0] != -signal.SIGKILL:
            break
    return done


def swap_in_group(bench, processes):
    plain = run_swapping(bench, None, processes)
    swapped = int(re.search(r"swap (\d+)", plain[2])[1])
    if swapped < 10000:
        raise Skip(f"the kernel swaps nothing out here ({swapped} KB)")
    for options in (ALWAYS, LAZY + ",zero=always"):
        status, output, error, sums = run_swapping(bench, options, processes)
        if (status, output) != plain[:2]:
            raise Failure(f"{options}: {status} {output} and not {plain[:2]}, {error}")
        before, after = (int(number) for number in re.search(r"swap (\d+) (\d+)", error).groups())
        if before < 10000:
            raise Failure(f"{options}: only {before} KB were in swap")
        if after < before * 9 // 10:
            raise Failure(f"{options}: the zero scan brought {before - after} of {before} KB back from swap")
        if not sums["copies_shared"] or not sums["zero_reclaimed_bytes"]:
            raise Failure(f"{options}: nothing shared or reclaimed: {sums}")


# --- memory pressure --------------------------------------------------------------------------------------------------


def waited_for_memory():
    """Seconds for which some task has waited for memory since the machine started."""
    with open("/proc/pressure/memory", encoding="ascii") as file:
        return int(re.search(r"^some .*total=(\d+)", file.read())[1]) / 1e6


def press(seconds, statistics):
    """Make tasks wait for memory: touch a mapped file again and again in a group too small for it. Returns the sums of
    the statistics, and the share of the time for which the kernel says that tasks waited."""
    name = os.path.join("/var/tmp", f"pagewise-pressure-{os.getpid()}")
    reader = ("import mmap, sys, time\n"
              "end = time.monotonic() + float(sys.argv[2])\n"
              "with open(sys.argv[1], 'rb') as file:\n"
              "    pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n"
              "while time.monotonic() < end:\n"
              "    sum(pages[at] for at in range(0, len(pages), 4096))\n")
    try:
        with open(name, "wb") as file:
            file.write(os.urandom(1 << 20) * 64)
            file.flush()
            os.fsync(file.fileno())
            # Out of memory with it, or its pages would stay charged to us and not to the group.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with memory_group(8 << 20) as (processes, _):
            waited = waited_for_memory()
            readers = [subprocess.Popen([sys.executable, "-S", "-c", reader, name, str(seconds)],
                                        preexec_fn=joining(processes)) for _ in range(2)]
            for process in readers:
                process.wait()
            waited = waited_for_memory() - waited
        return pagewise_statistics.total(statistics)[1], waited / seconds
    finally:
        os.unlink(name)


def pressure(bench):
    """An idle program gives its warm pages back when others wait for memory, long before they decay."""
    if not os.access("/proc/pressure/memory", os.W_OK):
        raise Skip("the kernel tells nothing of memory pressure")
    statistics = os.path.join(bench.folder, "statistics-pressure")
    os.mkdir(statistics)
    with subprocess.Popen([bench.program, "idle"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=bench.environment(LAZY + ",decay=3600", statistics)) as idle:
        idle.stdout.readline()
        before = {}
        for _ in range(100):  # on a busy machine the program may take its time to free the block
            before = pagewise_statistics.total(statistics)[1]
            if before["cached_bytes"] >= 60 << 20 or before["pressure_releases"]:
                break
            signal.sigtimedwait([], 0.1)
        signal.sigtimedwait([], 1)  # for the keeper to be there
        sums, waiting = (before, 1) if before["pressure_releases"] else press(8, statistics)
        idle.stdin.close()
    if idle.returncode != 0 or (before["cached_bytes"] < 60 << 20 and not before["pressure_releases"]):
        raise Failure(f"status {idle.returncode}, {before['cached_bytes']} bytes were warm")
    if not sums["pressure_releases"]:
        # The keeper asks to be told when tasks wait for 7.5 % of two seconds.
        if waiting < 0.3:
            raise Skip(f"no memory pressure could be made here: tasks waited for {waiting:.0%} of the time")
        raise Failure(f"{sums['cached_bytes']} bytes stayed warm under pressure")
    if sums["cached_bytes"]:
        raise Failure(f"{sums['cached_bytes']} bytes stayed warm after a release")


# --- R ----------------------------------------------------------------------------------------------------------------

R_SCRIPT = r"""
set.seed(1)
x <- rnorm(2e6); kept <- list()
for (i in 1:12) { y <- x; y[i * 1000] <- i; kept[[i]] <- y; if (i %% 3 == 0) x[i] <- 0 }
z <- numeric(3e6); z[5] <- 1; invisible(gc()); rm(z)
d <- as.data.frame(matrix(runif(4e5), ncol = 4)); e <- d
for (n in names(e)) e[[n]][17] <- 0
cat(format(c(sum(x), sapply(kept, sum), colSums(e)), digits = 15), sep = "\n")
r <- parallel::mclapply(1:3, function(i) { kept[[i]][1:10] <- i; gc(); sum(kept[[i]]) }, mc.cores = 2)
cat(format(unlist(r), digits = 15), sep = "\n")
for (i in 1:5) { m <- matrix(0, 500, 500); m[1, 1] <- i; gc() }
cat(sum(qr.R(qr(outer(1:300, 1:300, function(a, b) 1 / (a + b))))^2), "\n")
"""


def r(bench):
    if not shutil.which("Rscript"):
        raise Skip("there is no Rscript")
    script = os.path.join(bench.folder, "script.R")
    with open(script, "w", encoding="ascii") as file:
        file.write(R_SCRIPT)
    command = ["Rscript", "--vanilla", script]
    for options in ("policy=auto", "policy=share", "zero=always,threshold=8K,share=always"):
        sums = bench.same(command, SHARED, every_options=(options,))
        if not sums["collections_seen"]:
            raise Failure(f"{options}: no collection was noticed")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    bench.same(command, ["fallback_file_size"], every_options=("policy=auto",), prepare=limit)
    status, output, error, sums = bench.run(command, "policy=auto")
    with_pagemap = output
    if may_mount():
        wrap = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /sys && exec \"$@\"", "sh"]
        status, output, error, sums = bench.run(command, "policy=auto", wrap=wrap)
        if status != 0 or output != with_pagemap:
            raise Failure(f"without /sys: {status} {error}")


# --- what programs do to their own blocks -----------------------------------------------------------------------------


def advice_works(bench, *case, counters=("copies_shared",), **more):
    sums = bench.work(*case, counters=list(counters), **more)
    if not sums["blocks_altered"]:
        raise Failure("no call was seen")


def advice(bench):
    """Every call that changes how a block is mapped, by the C library's function."""
    advice_works(bench, "advice", "function")


def advice_number(bench):
    """The same by syscall()."""
    advice_works(bench, "advice", "syscall")


def advice_handle(bench):
    """The same by functions that the C library was asked for, as ctypes and FFI do."""
    advice_works(bench, "advice", "handle")


CTYPES = """import ctypes
library = ctypes.CDLL("libc.so.6")
library.strdup.restype = library.realloc.restype = library.calloc.restype = ctypes.c_void_p
library.malloc_usable_size.restype = ctypes.c_size_t
for size in (5, 5000, 300000, 5000000):
    text = b"x" * size
    block = ctypes.c_void_p(library.strdup(text))
    print(ctypes.string_at(block) == text, library.malloc_usable_size(block) > size)
    block = ctypes.c_void_p(library.realloc(block, ctypes.c_size_t(2 * size)))
    print(ctypes.string_at(block, size) == text)
    library.free(block)
    library.free(ctypes.c_void_p(library.calloc(ctypes.c_size_t(1), ctypes.c_size_t(size))))
"""


def by_handle(bench):
    """What a program gets from the C library's functions is freed by the C library's free."""
    if os.uname().machine not in ("x86_64", "aarch64"):
        raise Skip("written for x86-64 and aarch64")
    needs_ctypes(bench)
    python = [sys.executable, "-c", CTYPES]
    bench.same(python, ["blocks_allocated"])
    general_bench(bench)
    bench.same(python, SEGMENTS, every_options=GENERAL)


def filter_by_handle(bench):
    """A filter that comes into force by such a function is seen."""
    killed(bench, [("killed-later", "handle")], [("preload", (PAPERS, "policy=auto")), ("general", ("policy=general",))],
           calls=("openat", "madvise", "memfd_create", "ioctl", "mmap"))


def advice_refused(bench):
    """Advice that the kernel refuses empties nothing."""
    for how in ("function", "syscall", "handle"):
        bench.work("advice-refused", how)


def advice_threads(bench):
    """The same beside a thread, where no page of a block may be replaced."""
    for how in ("function", "syscall"):
        advice_works(bench, "advice-threads", how, every_options=(ALWAYS, LAZY))


def advice_more(bench):
    advice_works(bench, "advice-more")
    general_bench(bench)
    bench.work("advice-more", counters=["blocks_altered"], every_options=GENERAL)


def advice_moved_out(bench):
    if os.geteuid() != 0 or release() < (6, 8):
        raise Skip("pages are moved by Linux 6.8, for root")
    for how in ("function", "syscall"):
        advice_works(bench, "advice-moved-out", how, every_options=(ALWAYS, LAZY))
        bench.work("advice-moved-out", how, counters=["blocks_altered"], every_options=(LOCKED,))


def advice_grown(bench):
    """What a program did to a whole block goes with it when it becomes longer."""
    bench.work("advice-grown", counters=["blocks_altered"])
    if bench.run([bench.program, "advice-watched"])[0] == 0:  # else there is no userfaultfd here
        bench.work("advice-watched", counters=["blocks_altered"])
    general_bench(bench)
    for case in ("advice-grown", "advice-watched"):
        bench.work(case, counters=SEGMENTS, every_options=GENERAL)


def advice_all_locked(bench):
    if os.geteuid() != 0:
        raise Skip("locking memory needs root")
    for how in ("function", "syscall"):
        advice_works(bench, "advice-all-locked", how)


LOCKED = "policy=huge,huge=always,huge-min=1M,lock=on"
POOL = "policy=huge,huge=always,pages=hugetlb"


def advice_locked(bench):
    """What a program does to a block that an option keeps in memory."""
    if os.geteuid() != 0:
        raise Skip("locking memory needs root")
    for how in ("function", "syscall"):
        advice_works(bench, "advice-large", how, counters=["blocks_altered"], every_options=(LOCKED,))
        advice_works(bench, "advice-locked-twice", how, counters=["blocks_altered"], every_options=(LOCKED,))


@contextlib.contextmanager
def hugetlb_pool(pages):
    """So many free pages of 2 MB."""
    pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    if os.geteuid() != 0 or not os.path.exists(pool):
        raise Skip("pages of the hugetlb pool need root, and a kernel that has it")
    with open(pool, encoding="ascii") as file:
        before = file.read()
    try:
        with open(pool, "w", encoding="ascii") as file:
            file.write(str(int(before) + pages))
        with open(pool, encoding="ascii") as file:
            if int(file.read()) < int(before) + pages:
                raise Skip("the pool cannot get so many pages")
        yield
    finally:
        with open(pool, "w", encoding="ascii") as file:
            file.write(before)


def advice_pool(bench):
    """What a program does to a block whose pages are the hugetlb pool's, which change as a whole alone."""
    with hugetlb_pool(32):
        for how in ("function", "syscall"):
            for options in (POOL, POOL + ",lock=on"):
                sums = bench.work("advice-large", how, counters=["blocks_altered"], every_options=(options,))
                if sums["fallback_hugetlb"]:
                    raise Failure(f"{sums['fallback_hugetlb']} blocks did not get the pool's pages")
                bench.work("advice-locked-twice", how, counters=["blocks_altered"], every_options=(options,))


def pool_stack(bench):
    """A coroutine on the pool's pages forks, and no more are left for its child."""
    free = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"
    if os.path.exists(free):
        with open(free, encoding="ascii") as file:
            if int(file.read()):
                raise Skip("the pool has free pages already, which the child could get")
    with hugetlb_pool(4):
        sums = bench.work("fork-on-large-stack", counters=["blocks_allocated"], every_options=(POOL,))
        if sums["fallback_hugetlb"]:
            raise Failure("the stack did not get the pool's pages")


@contextlib.contextmanager
def hugetlb_group():
    """A cgroup (v2) that is allowed no page of the pool."""
    roots = [root for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified") if os.path.exists(f"{root}/cgroup.controllers")]
    if not roots:
        raise Skip("there is no second version of cgroups")
    control, group = f"{roots[0]}/cgroup.subtree_control", f"{roots[0]}/pagewise-hugetlb-{os.getpid()}"
    with open(control, encoding="ascii") as file:
        before = "hugetlb" in file.read().split()
    try:
        try:
            with open(control, "w", encoding="ascii") as file:
                file.write("+hugetlb")
            os.mkdir(group)
        except OSError as error:
            raise Skip("no cgroup that counts the pool's pages can be made here") from error
        yield group
    finally:
        if os.path.isdir(group):
            os.rmdir(group)
        if not before:
            with open(control, "w", encoding="ascii") as file:
                file.write("-hugetlb")


def pool_limit(bench):
    """The pool has pages, and the program's cgroup may have none of them, or too few for a block: no block gets any."""
    with hugetlb_pool(32), hugetlb_group() as group:
        for limit in (0, 2 << 20, 6 << 20):
            with open(f"{group}/hugetlb.2MB.max", "w", encoding="ascii") as file:
                file.write(str(limit))
            bench.work("large-blocks", counters=["fallback_hugetlb"], every_options=(POOL,),
                       prepare=joining(f"{group}/cgroup.procs"))


def pool_room(bench):
    """The pool's pages are in no memory group's account: there is no room for a copy of a block, which stays as it is."""
    plain = bench.run([bench.program, "page-of-large-block", "function"])
    with hugetlb_pool(48), memory_group(48 << 20) as (processes, _):
        for how in ("function", "syscall"):
            status, output, error, sums = bench.run([bench.program, "page-of-large-block", how], POOL, prepare=joining(processes))
            if (status, output) != plain[:2] or sums["hugetlb_bytes"] < 70 << 20:
                raise Failure(f"{how}: {status} {output!r} {error!r} {sums}")


def advice_general(bench):
    general_bench(bench)
    for how in ("function", "syscall"):
        bench.work("advice", how, counters=["blocks_altered"], every_options=GENERAL[:1])


def advice_raw(bench):
    """The kernel's own interface, which is not seen: what the kernel tells of protection is asked for (Linux 6.11)."""
    if tuple(int(part) for part in os.uname().release.split(".")[:2]) < (6, 11):
        raise Skip("this kernel does not tell how one address is mapped")
    bench.work("advice-raw", counters=["blocks_altered"], every_options=(ALWAYS, PAPERS))


# Freed blocks whose pages a fork's child would find wiped, and a guard page inside a block, while R collects.
ADVISED = """dyn.load(commandArgs(TRUE)[1])
.C("advise_and_free", 10240L)
x <- lapply(1:3, function(i) rep(1, 10240 * 512 - 600))
r <- parallel::mclapply(1:2, function(i) sum(vapply(x, sum, 0)), mc.cores = 2)
cat("parent", sum(vapply(x, sum, 0)), "children", unlist(r), "\\n")
cat("not zero:", .C("empty_shared", -1L)[[1]], "\\n")
.C("guard", 256L)
for (i in 1:40) { y <- numeric(1e5); gc() }
cat("survived\\n")
"""


def advice_r(bench):
    if not shutil.which("Rscript"):
        raise Skip("there is no Rscript")
    script = os.path.join(bench.folder, "script.R")
    with open(script, "w", encoding="ascii") as file:
        file.write(ADVISED)
    library = os.path.join(os.path.dirname(bench.program), "hooked", "advised", "libs", "advised.so")
    for options in ("policy=auto", "policy=share"):
        bench.same(["Rscript", "--vanilla", script, library], ["blocks_altered"], every_options=(options,))


# --- mmapcopy(2) ------------------------------------------------------------------------------------------------------


def mmapcopy(bench):
    """The library as it is installed, and R, on a kernel that has the call: played by a double in front of it."""
    by_call = ["copies_by_mmapcopy"]
    for bench.kernel in ("emulated", "hole"):
        for case in ("work", "signals"):
            bench.work(case, counters=by_call, every_options=(ALWAYS, LAZY))
        for case in ("threads", "fork-in-threads"):
            bench.work(case, counters=["fallback_threads"], every_options=(ALWAYS, LAZY))
    bench.kernel = "emulated"
    sums = bench.work("work", counters=SHARED, every_options=(ALWAYS + ",mmapcopy=off",))
    if sums["copies_by_mmapcopy"] or not sums["publishes"]:
        raise Failure(f"switched off, {sums['copies_by_mmapcopy']} copies were made by the call")
    if shutil.which("Rscript"):
        script = os.path.join(bench.folder, "script.R")
        with open(script, "w", encoding="ascii") as file:
            file.write(R_SCRIPT)
        sums = bench.same(["Rscript", "--vanilla", script], by_call, every_options=("policy=auto", "policy=share"))
        if sums["publishes"] or sums["fallback_mmapcopy"]:
            raise Failure(f"{sums['publishes']} snapshots were written, {sums['fallback_mmapcopy']} calls failed")


# --- policy general ---------------------------------------------------------------------------------------------------

GENERAL = ("policy=general", "policy=general,threshold=8K,decay=1,slack=0")
# Where pages have not 4 KB the policy leaves all to the C library.
SEGMENTS = ["segments_taken" if resource.getpagesize() == 4096 else "fallback_general"]


def general_bench(bench):
    bench.preload = os.path.join(os.path.dirname(bench.preload), "libpagewise-general.so")
    return bench


def general(bench):
    """The same programs, with all blocks from us."""
    general_bench(bench)
    bench.same([bench.basics, "replaced"], SEGMENTS, every_options=GENERAL)
    for wrong in ("double-free", "inside-free", "inside-realloc", "double-realloc"):
        status, output, error, _ = bench.run([bench.basics, wrong], "policy=general")
        if status != -signal.SIGABRT or b"went on" in output or not error.startswith("pagewise: "):
            raise Failure(f"{wrong}: status {status}, {output}, {error}")
    for case in (["work"], ["lock-everything"], ["lock-limit"], ["spawn"], ["signals"], ["small-signal-stack"],
                 ["fork-in-handler"], ["jump-out"], ["threads"], ["at-once"], ["fork-in-threads"], ["exit-in-thread"],
                 ["pthread-exit"], ["exit-alone"], ["exit-by-number"], ["cancelled"], ["small-stack"], ["close-all"]):
        if may_lock() or not case[0].startswith("lock-"):
            bench.work(*case, counters=SEGMENTS, every_options=GENERAL)
    bench.same([bench.program, "dlclose", bench.library], SEGMENTS, every_options=GENERAL)
    bench.same([bench.program.replace("_program", "_joined")], SEGMENTS, every_options=GENERAL)


def general_limits(bench):
    """Where there is no address space, no mapping or no system call left, the C library serves."""
    general_bench(bench)
    sums = {}
    for room in (60, 120):
        more = bench.work("address-space", str(room), counters=["segments_taken", "fallback_general"],
                          every_options=GENERAL)
        sums = {name: sums.get(name, 0) + value for name, value in more.items()}
    if not sums["fallback_arena"]:
        raise Failure("the limit was not reached")

    def small():
        resource.setrlimit(resource.RLIMIT_AS, (48 << 20, 48 << 20))

    bench.work("work", counters=["segments_taken", "fallback_general"], prepare=small, every_options=GENERAL)
    few_mappings_allowed()
    for spare in (2, 3, 5, 20):
        bench.work("mappings", str(spare), counters=["segments_taken", "fallback_general"], every_options=GENERAL)
    for call in ("mremap", "madvise", "mlock"):
        bench.work("denied", call, "1", counters=SEGMENTS, every_options=ignoring(GENERAL))


def general_refused(bench):
    """A policy for the other library, and plain: the C library serves, and a mistake is said once."""
    general_bench(bench)
    plain = bench.run([bench.program, "work"])
    for options, words in (("policy=plain", ""), ("policy=share", "blocks are left to the C library")):
        status, output, error, sums = bench.run([bench.program, "work"], options)
        if (status, output) != plain[:2] or sums["segments_taken"] or words not in error or error.count("\n") > 1:
            raise Failure(f"{options}: {status} {error!r} {sums['segments_taken']}")
    bench.preload = bench.preload.replace("general", "preload")
    status, output, error, sums = bench.run([bench.program, "work"], "policy=general")
    if (status, output) != plain[:2] or "libpagewise-general.so" not in error or error.count("\n") != 1:
        raise Failure(f"general in the other library: {status} {error!r}")


CASES = {
    "general": general,
    "general-limits": general_limits,
    "general-refused": general_refused,
    "basics": basics,
    "addresses": addresses,
    "linked": linked,
    "own-functions": own_functions,
    "address-space": address_space,
    "promise": promise,
    "shrink": shrink,
    "released": released,
    "block-between": block_between,
    "full-statistics": full_statistics,
    "descriptors": descriptors,
    "file-size": file_size,
    "lock": lock,
    "warning": warning,
    "reports": reports,
    "refused-reports": refused_reports,
    "lowered": lowered,
    "lowered-general": lowered_general,
    "map-count": map_count,
    "map-count-later": map_count_later,
    "map-count-none": map_count_none,
    "map-count-grow": map_count_grow,
    "many-copies": many_copies,
    "denied": denied,
    "filtered": filtered,
    "killed-at-start": killed_at_start,
    "killed-later": killed_later,
    "filtered-beside": filtered_beside,
    "one-thread": one_thread,
    "growing": growing,
    "mmapcopy": mmapcopy,
    "no-proc": no_proc,
    "core-dump": core_dump,
    "spawn": spawn,
    "children": children,
    "other-readers": other_readers,
    "merged-children": merged_children,
    "swapped-children": swapped_children,
    "worker": worker,
    "many-forks": many_forks,
    "close-all": close_all,
    "lowest-number": lowest_number,
    "daemon": daemon,
    "reuse": reuse,
    "signals": signals,
    "fork-in-handler": fork_in_handler,
    "jump-out": jump_out,
    "empty-in-handler": empty_in_handler,
    "threads": threads,
    "thread-ends": thread_ends,
    "advice-refused": advice_refused,
    "dispatched": dispatched,
    "ring": ring,
    "many-variables": many_variables,
    "stopped": stopped,
    "modules": modules,
    "own-stack": own_stack,
    "handlers-stack": handlers_stack,
    "other-clone": other_clone,
    "part-again": part_again,
    "grown-unhooked": grown_unhooked,
    "kernel-writes": kernel_writes,
    "registered": registered,
    "dlclose": dlclose,
    "setuid": setuid,
    "memory-limit": memory_limit,
    "relief": relief,
    "swap": swap,
    "pressure": pressure,
    "r": r,
    "advice": advice,
    "advice-number": advice_number,
    "advice-handle": advice_handle,
    "by-handle": by_handle,
    "filter-by-handle": filter_by_handle,
    "advice-threads": advice_threads,
    "advice-more": advice_more,
    "advice-grown": advice_grown,
    "advice-all-locked": advice_all_locked,
    "advice-moved-out": advice_moved_out,
    "advice-locked": advice_locked,
    "advice-pool": advice_pool,
    "pool-limit": pool_limit,
    "pool-room": pool_room,
    "pool-stack": pool_stack,
    "advice-general": advice_general,
    "advice-raw": advice_raw,
    "advice-r": advice_r,
}


if __name__ == "__main__":
    sys.exit(run(CASES, Bench, "preload"))
