#!/usr/bin/env python3
"""Run a program under the preloaded recorder and compare what it recorded with what the program says it did:

    record.py --folder BUILD-FOLDER-OF-THE-TESTS --record LIBRARY CASE

Reads the spool by itself (core/src/record/spool.h). Exit status 77: this machine cannot run the case.
"""

import collections
import errno
import glob
import operator
import os
import re
import shutil
import signal
import struct
import subprocess
import sys

from cases import Failure, Skip, run

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../scripts"))
from spaceless import spaceless  # noqa: E402  (it lives beside the other scripts)

STEP = 64 << 10
TIMEOUT = 240
STOPPED_NO_ROOM, STOPPED_NO_FILE, STOPPED_NO_MEMORY, STOPPED_STRICT, STOPPED_FILTER = 1, 2, 3, 4, 5
ADDRESS = 0xffffffffffff


class Recording:
    """One process's spool, decoded lane by lane and put in order."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        self.path = path
        magic, version, self.stop, self.process, self.parent = struct.unpack_from("<8sIIII", data)
        if magic != b"PWSPOOL1" or version != 3:
            raise Failure(f"{path} is no spool")
        self.error, = struct.unpack_from("<I", data, 36)
        self.program = data[104:104 + 1024].split(b"\0")[0].decode()
        self.lost_modules, self.lost_children = struct.unpack_from("<QQ", data, 3176)
        self.allocator = data[3192:3192 + 512].split(b"\0")[0].decode()
        self.settings = [text.decode() for text in data[3704:3704 + 256].split(b"\0") if text]
        self.dropped = struct.unpack_from("<QQ", data, 80)
        self.ended = struct.unpack_from("<Q", data, 96)[0]
        self.threads, self.modules, self.depths, self.stacks = set(), set(), collections.Counter(), []
        self.loads = {}  # number of a load: path and build id
        self.alignments, self.resized = collections.defaultdict(set), 0
        events = []
        chunks = collections.defaultdict(list)
        offset = STEP
        while offset + 64 <= len(data):
            magic, size, lane, sequence, stamp = struct.unpack_from("<8sQIIQ", data, offset)
            if magic != b"PWCHUNK1":
                offset += STEP
                continue
            chunks[lane].append((sequence, stamp, struct.unpack_from(f"<{(size - 64) // 8}Q", data, offset + 64)))
            offset += size
        for lane in chunks.values():
            lane.sort()
            if [sequence for sequence, _, _ in lane] != list(range(len(lane))):
                raise Failure(f"{path}: a lane's chunks are not in sequence")
            self.read_lane(lane, events)
        self.lanes = len(chunks)
        if self.lanes > 1:  # Python's sort is stable: a lane's own order stays.
            events.sort(key=operator.itemgetter(0))
        self.replay(events)

    def read_lane(self, lane, events):
        """Appends (stamp, address, size, place) of each allocation, and (stamp, address, None, None) of each free."""
        slots = {}
        before = 0
        lives_on = False
        append, aligned = events.append, set()
        for _, stamp, words in lane:
            at = 0
            while at < len(words) and words[at]:
                word = words[at]
                kind = word & 3
                if kind == 1:
                    lives_on = False
                    stamp += word >> 2 & 0x3fffffff
                    at += 1
                    second = words[at]
                    size = word >> 32
                    if size == 0xffffffff:
                        at += 1
                        size = words[at]
                    append((stamp, second & ADDRESS, size, slots[second >> 48 & 0x3ff]))
                    aligned.add((size, second >> 58))
                elif kind == 2:
                    if lives_on:
                        raise Failure(f"{self.path}: a block was resized and became nothing")
                    lives_on = word >> 16 & 1
                    stamp += word >> 2 & 0x3fff
                    append((stamp, word >> 16 & ~1, None, None))
                    self.resized += lives_on
                elif kind == 3:
                    count, operand = word >> 8 & 0xffffff, word >> 32
                    content = words[at + 1:at + 1 + count]
                    stamp = self.other(word >> 2 & 63, operand, content, slots, stamp)
                    at += count
                else:
                    raise Failure(f"{self.path}: no such word: {word:x}")
                if stamp < before:
                    raise Failure(f"{self.path}: stamps go back")
                before = stamp
                at += 1
        for size, alignment in aligned:
            self.alignments[size].add(alignment)

    def other(self, kind, operand, content, slots, stamp):
        if kind == 1:
            return content[0]
        # A place is a tuple of (return address, load).
        if kind == 2:
            slots[operand & 0x3ff] = ((content[0] & ADDRESS, operand >> 10),)
            self.depths[content[0] >> 48] += 1
        elif kind == 3:
            slots[operand] = tuple((word & ADDRESS, word >> 48) for word in content)
            self.stacks.append(slots[operand])
        elif kind == 4:
            text = struct.pack(f"<{len(content) - 4}Q", *content[4:])
            path = os.fsdecode(text[operand:].split(b"\0")[0])
            self.modules.add((path, text[:operand].hex(), content[0], content[1]))
            if content[3] in self.loads:
                raise Failure(f"{self.path}: two modules are load {content[3]}")
            self.loads[content[3]] = (path, text[:operand].hex())
        elif kind == 5:
            self.threads.add(content[0])
        else:
            raise Failure(f"{self.path}: no such kind: {kind}")
        return stamp

    def replay(self, events):
        """Counts allocations and frees by size. No block may be given out twice, and all sites must be in modules."""
        live, self.allocations, self.frees = {}, collections.Counter(), collections.Counter()
        self.foreign = 0
        self.places = collections.defaultdict(set)
        allocated, freed = collections.Counter(), []
        for _, address, size, place in events:
            if size is None:
                freed.append(live.pop(address, None))
            elif address in live:
                raise Failure(f"{self.path}: {address:x} was given out twice: events are in the wrong order")
            else:
                live[address] = size
                allocated[size, place] += 1
        for (size, place), count in allocated.items():
            self.allocations[size] += count
            self.places[size].add(place)
        self.frees.update(freed)
        self.foreign = self.frees.pop(None, 0)


def was_begun(path):
    """The magic is written last: a process that could not map its spool leaves nothing or zeros."""
    with open(path, "rb") as file:
        return any(file.read(8))


class Bench:
    """Where a case runs."""

    def __init__(self, arguments, folder):
        self.folder_of_program = arguments.folder
        self.program = os.path.join(arguments.folder, "environment_recorded")
        self.behind = spaceless(os.path.join(arguments.folder, "librecorded_behind.so"))
        self.restricted = os.path.join(arguments.folder, "environment_restricted")
        self.plugins = [os.path.join(arguments.folder, f"librecorded_plugin_{number}.so") for number in (1, 2)]
        self.record = spaceless(os.path.abspath(arguments.record))
        self.is_faulty = "testing" in os.path.basename(self.record)
        self.folder = folder
        self.spool = os.path.join(folder, "spool")
        os.mkdir(self.spool)

    def clear(self):
        """For another recording."""
        for path in glob.glob(os.path.join(self.spool, "*")):
            os.remove(path)

    def run(self, mode, options="", behind="", status=0, command=None, more=None, folder=None):
        """Returns what the program printed, and its recordings: the own process's first."""
        environment = dict(os.environ, LC_ALL="C", LD_PRELOAD=f"{self.record}:{behind}".rstrip(":"),
                           PAGEWISE_RECORD=f"spool={self.spool},{options}", **(more or {}))
        done = subprocess.Popen(command or [self.program, mode], env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
        output, errors = done.communicate(timeout=TIMEOUT)
        if done.returncode != status or (status == 0 and errors):
            raise Failure(f"status {done.returncode} and not {status}: {output[-1000:]} {errors[-1000:]}")
        paths = [path for path in glob.glob(os.path.join(self.spool, "*")) if was_begun(path)]
        recordings = [Recording(path) for path in sorted(paths, key=os.path.getmtime)]
        recordings.sort(key=lambda recording: recording.process != done.pid)
        return output, recordings

    def check(self, mode, **more):
        """Everything that the program expects has been recorded, no more and no less."""
        output, recordings = self.run(mode, **more)
        expected = re.findall(r"^expect (\d+) (\d+) (\d+)$", output, re.M)
        if not expected or not recordings:
            raise Failure(f"nothing was expected or recorded: {output}")
        own = recordings[0]
        for size, allocations, frees in (map(int, line) for line in expected):
            got = (own.allocations[size], own.frees[size])
            if got != (allocations, frees):
                raise Failure(f"size {size}: recorded {got} and not {(allocations, frees)}")
        if own.dropped != (0, 0) or own.stop:
            raise Failure(f"dropped {own.dropped}, stopped for {own.stop}")
        return output, recordings


def every_function(bench):
    _, (own,) = bench.check("every-function")
    if not own.ended or own.foreign:
        raise Failure(f"ended: {own.ended}, {own.foreign} frees of unknown blocks")
    asked = {size: own.alignments[size] for size in (10001, 10006, 10010, 10011, 10048, 10013)}
    if asked != {10001: {0}, 10006: {0}, 10010: {8}, 10011: {6}, 10048: {6}, 10013: {12}}:
        raise Failure(f"alignments: {asked}")
    # Of the reallocs in the program the three of a block that was there and that succeeded.
    if own.resized != 3:
        raise Failure(f"{own.resized} blocks were resized")
    paths = {os.path.basename(path) for path, _, _, _ in own.modules}
    if "environment_recorded" not in paths or not any(path.startswith("libc.so") for path in paths):
        raise Failure(f"modules: {own.modules}")
    # Build ids are there, and right.
    for path, build_id, _, _ in own.modules:
        said = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=False).stdout
        if said and f"Build ID: {build_id}" not in said and "Build ID" in said:
            raise Failure(f"{path}: build id {build_id!r}")


def on_other_allocators(bench):
    for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2.0", "libmimalloc.so.2",
                 "libmimalloc.so.3"):
        path = f"/usr/lib/x86_64-linux-gnu/{name}"
        if os.path.exists(path):
            bench.clear()
            _, recordings = bench.check("other-allocator", behind=path)
            check_allocator(recordings[0], os.path.realpath(path))
            bench.check("threads", behind=path)
    for name in ("libpagewise-preload.so", "libpagewise-general.so"):
        own = os.path.join(os.path.dirname(bench.record), name)
        bench.clear()
        _, recordings = bench.check("other-allocator", behind=own)
        check_allocator(recordings[0], os.path.realpath(own))
    bench.check("fork", behind=own)
    bench.clear()
    long = "MALLOC_LONG=" + 244 * "x"
    more = {"MALLOC_ARENA_MAX": "1", "PAGEWISE_OPTIONS": "decay=1", "MALLOCS": "2", **dict([long.split("=")])}
    _, recordings = bench.check("fork", more=more)
    for recording in recordings:  # of the children, too
        check_allocator(recording, "libc.so.6")
        if sorted(recording.settings) != ["MALLOC_ARENA_MAX=1", "PAGEWISE_OPTIONS=decay=1"]:
            raise Failure(f"settings: {recording.settings}")


def check_allocator(recording, path):
    if not recording.allocator.startswith("/") or not recording.allocator.endswith(path):
        raise Failure(f"{recording.path} was recorded on {recording.allocator!r} and not on {path}")


def fork(bench):
    _, recordings = bench.check("fork")
    child = [recording for recording in recordings if recording.allocations[11003]]
    grandchild = [recording for recording in recordings if recording.allocations[11005]]
    if len(child) != 1 or len(grandchild) != 1 or child[0].process == recordings[0].process:
        raise Failure("the child's and the grandchild's blocks are not in recordings of their own")
    child, grandchild = child[0], grandchild[0]
    if (child.allocations[11003], child.allocations[11004], child.frees[11004]) != (50, 1000, 1000):
        raise Failure(f"the child: {child.allocations}")
    if child.foreign != 1 or child.allocations[11001] or grandchild.allocations[11005] != 25:
        raise Failure(f"the child freed {child.foreign} of its parent's blocks; {grandchild.allocations}")


def no_children(bench):
    _, recordings = bench.run("fork", options=f"children=0,parent={os.getpid()}")
    if len(recordings) != 1 or recordings[0].allocations[11006] != 20 or recordings[0].allocations[11003]:
        raise Failure(f"{len(recordings)} recordings: {recordings[0].allocations}")


def forks_in_handlers(bench):
    """A signal's handler forks in the middle of a record: the child goes on as plain, and spoils no recording."""
    for options in ("", "stacks=1", "stacks=2"):
        bench.clear()
        _, (own, *children) = bench.check("forks-in-handlers", options=options)
        for child in children:
            if (child.allocations[902], child.frees[902]) != (100, 100) or child.stop:
                raise Failure(f"{options}: a child: {child.allocations}, stopped for {child.stop}")
        if len(children) != 60 or own.lost_children:
            raise Failure(f"{options}: {len(children)} children, {own.lost_children} lost")
    bench.clear()
    _, recordings = bench.check("forks-in-handlers", options=f"children=0,parent={os.getpid()}")
    if len(recordings) != 1:
        raise Failure(f"{len(recordings)} recordings")


def execute(bench):
    _, recordings = bench.run("exec")
    if len(recordings) != 2 or recordings[0].process != recordings[1].process:
        raise Failure(f"{len(recordings)} recordings")
    sizes = [recording.allocations for recording in recordings]
    if sorted(size[12001] for size in sizes) != [0, 30] or sorted(size[10001] for size in sizes) != [0, 1]:
        raise Failure(f"{sizes}")


def crash(bench):
    _, (own,) = bench.check("crash", status=-signal.SIGSEGV)
    if own.ended:
        raise Failure("a crash was taken for an end")


def kill(bench):
    bench.check("kill", status=-signal.SIGKILL)


def threads(bench):
    _, (own,) = bench.check("threads")
    if len(own.threads) < 9:
        raise Failure(f"threads: {own.threads}")


def late_frees(bench):
    """What a thread frees after the recorder has ended it must not cost a lane, which is never given back."""
    for options in ("", "stacks=1"):
        _, recordings = bench.check("late-frees", options=options)
        if recordings[0].lanes > 4:
            raise Failure(f"{recordings[0].lanes} lanes for two threads at a time")
        for path in glob.glob(os.path.join(bench.spool, "*")):
            os.remove(path)


def threads_and_forks(bench):
    _, recordings = bench.run("threads-and-forks")
    children = [recording for recording in recordings if recording.allocations[15002]]
    if len(children) != 20:
        raise Failure(f"{len(children)} children")
    for child in children:
        if (child.allocations[15002], child.frees[15002], child.frees[14003]) != (100, 100, 10):
            raise Failure(f"a child: {child.allocations}")


def close_all(bench):
    bench.check("close-all")


def file_size(bench):
    _, (own,) = bench.run("file-size")
    if own.stop != STOPPED_NO_ROOM or not own.dropped[0] or not own.allocations[17001]:
        raise Failure(f"stopped for {own.stop}, dropped {own.dropped}")
    if own.allocations[17001] + own.dropped[0] < 300000:
        raise Failure(f"{own.allocations[17001]} recorded and {own.dropped[0]} dropped")


def disk_full(bench):
    if os.geteuid() != 0:
        raise Skip("needs root")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", bench.spool], check=False)
    if done.returncode:
        raise Skip("cannot mount")
    try:
        output, recordings = bench.run("kill", status=-signal.SIGKILL)
        own = recordings[0]
        if own.stop != STOPPED_NO_ROOM or not own.dropped[0] or "expect 1301" not in output:
            raise Failure(f"stopped for {own.stop}, dropped {own.dropped}: {output}")
    finally:
        subprocess.run(["umount", bench.spool], check=False)


def lost_folder(bench):
    output, recordings = bench.run("lost-folder")
    if "done" not in output or recordings:
        raise Failure(output)


def jump_out(bench):
    bench.check("jump-out", behind=bench.behind)


def handlers_above(bench):
    """A handler's stack lies above the thread's: what it allocates in the middle of a record spoils none."""
    for options in ("", "stacks=1"):
        bench.check("handlers-above", options=options)


def load(bench):
    bench.check("dlopen")


def resizes(bench):
    bench.check("resizes")


def cplusplus(bench):
    """A C program loads C++ libraries in scopes of their own: nobody else in it has the operators."""
    usual, own_operators = (os.path.join(bench.folder_of_program, f"librecorded_{name}.so")
                            for name in ("new", "own_new"))
    if not os.path.exists(usual):
        raise Skip("needs a C++ compiler")
    _, (own,) = bench.check("", command=[bench.program, "cplusplus", usual])
    sites = {path for path, _, start, end in own.modules for place in own.places[23001] if start <= place[0][0] < end}
    if {os.path.basename(path) for path in sites} != {os.path.basename(usual)}:
        raise Failure(f"new was called from {sites}")
    for path in glob.glob(os.path.join(bench.spool, "*")):
        os.remove(path)
    bench.check("", command=[bench.program, "own-operators", own_operators, usual])


def waiting_constructor(bench):
    """A thread calls operator new for the first time while another one is in dlopen, and waits for it."""
    program = os.path.join(bench.folder_of_program, "environment_recorded_cplusplus")
    if not os.path.exists(program):
        raise Skip("needs a C++ compiler")
    usual, own_operators = (os.path.join(bench.folder_of_program, f"librecorded_{name}.so")
                            for name in ("waiting_new", "own_waiting_new"))
    bench.check("", command=[program, usual])
    # Nobody else in the program has the operators.
    for library, size in ((usual, 23005), (own_operators, 23037)):
        bench.clear()
        _, (own,) = bench.check("", command=[bench.program, "waiting-constructor", library])
        if (own.allocations[size], own.frees[size]) != (100, 100):
            raise Failure(f"{library}: {own.allocations[size]} blocks of {size} bytes")


def stacks(bench):
    _, (own,) = bench.check("stacks", options="stacks=1")
    deepest = max(len(place) for place in own.places[21001])
    if deepest < 4:  # third, second, first, stacks
        raise Failure(f"the deepest stack has {deepest} frames: {own.places[21001]}")
    _, recordings = bench.check("threads", options="stacks=1")
    # By unwind tables: up to the start of the program, or of the thread.
    _, (own, *_) = bench.check("stacks", options="stacks=2")
    deepest = max(len(place) for place in own.places[21001])
    if deepest < 7:  # third, second, first, stacks, main and two of the C library
        raise Failure(f"the deepest stack by tables has {deepest} frames: {own.places[21001]}")
    bench.check("threads", options="stacks=2")
    bench.check("jump-out", behind=bench.behind, options="stacks=2")
    bench.check("dlopen", options="stacks=2")


def ways(bench):
    """Stacks that have some callers in common with the ones before: all callers are the right ones."""
    for options in ("stacks=1", "stacks=2"):
        bench.clear()
        output, (own,) = bench.check("ways", options=options)
        told = [line.split()[1:] for line in output.splitlines() if line.startswith("stack ")]
        if len(told) < 1000:
            raise Failure(f"{len(told)} stacks")
        for size, *callers in told:
            (place,) = own.places[int(size)]
            got = [address for address, _ in place[1:]]
            want = [int(caller, 16) for caller in callers]
            length = min(len(got), len(want))
            if got[:length] != want[:length] or len(got) < len(want):
                raise Failure(f"{options}: size {size}: {len(got)} callers {got} and not {want}")


def lies(bench):
    """Frames that a program has made by hand: whatever they say, it goes on as plain, and what is above is recorded."""
    for options in ("stacks=1", "stacks=2"):
        bench.clear()
        _, (own,) = bench.check("lies", options=options)
        deepest = max(len(place) for place in own.places[24001])
        if deepest < 3:
            raise Failure(f"{options}: the deepest stack has {deepest} frames")


def skip_where_filtered():
    with open("/proc/self/status", encoding="ascii") as status:
        if re.search(r"^Seccomp:\t[12]", status.read(), re.M):
            raise Skip("system calls are filtered here")


def page_comes_and_goes(bench):
    """Another thread takes away the page that a return address points into."""
    skip_where_filtered()
    bench.check("page-comes-and-goes", options="stacks=2")


def page_to_be_filled(bench):
    """A return address points into a page that waits for somebody who fills it."""
    skip_where_filtered()
    output, _ = bench.run("page-to-be-filled", options="stacks=2")
    if "cannot fill" in output:
        raise Skip("the kernel lets nobody fill pages")
    bench.clear()
    bench.check("page-to-be-filled", options="stacks=2")


def gaps(bench):
    """A program with gaps between its segments, which the loader tells of one by one."""
    if os.uname().machine != "x86_64":
        raise Skip("frames without pointers are found by x86-64's tables alone")
    program = os.path.join(bench.folder_of_program, "environment_recorded_gaps")
    _, (own, *_) = bench.check("", command=[program, "stacks"], options="stacks=2")
    deepest = max(own.places[21001], key=len)
    if len(deepest) < 7 or not own.loads[deepest[0][1]][1]:
        raise Failure(f"the deepest stack is {deepest}, of {own.loads}")


def overwrites_headers(bench):
    """A program whose ELF headers are gone: its frames are found by their pointers."""
    _, (own,) = bench.check("overwrites-headers", options="stacks=2")
    if any(len(place) < 4 for place in own.places[21001]):
        raise Failure(f"short stacks: {own.places[21001]}")


def first_thread_ends(bench):
    """Code that a program has made is known also where the process's first thread has ended."""
    if os.uname().machine != "x86_64":
        raise Skip("the code is x86-64's")
    _, (own,) = bench.check("first-thread-ends", options="stacks=2")
    before, after = ({place[:2] for place in own.places[size]} for size in (24007, 24008))
    if len(before) != 1 or before != after:
        raise Failure(f"frames: {before} {after}")


def may_not_be_read(bench):
    """Code that may be run and not read."""
    if os.uname().machine != "x86_64":
        raise Skip("the code is x86-64's")
    bench.check("may-not-be-read", options="stacks=2")


def small_stacks(bench):
    """4 KB are left, which is more than the C library's malloc takes."""
    for options in ("", "stacks=1", "stacks=2"):
        bench.clear()
        bench.check("small-stacks", options=options)


def fork_after_unloading(bench):
    """What a child's parent knew of a library that is gone is not taken for another one's."""
    if os.uname().machine != "x86_64":
        raise Skip("the code is x86-64's")
    command = [bench.program, "fork-after-unloading", *bench.plugins]
    output, (own, child) = bench.check("", command=command, options="stacks=2")
    if "not reused" in output:
        raise Skip("the loader does not use a place again")
    # Behind the function, which has moved to another library, each frame is in the same one.
    before, after = ([recording.loads[load][0] for _, load in place[1:]] for recording, size in
                     ((own, 24007), (child, 24008)) for place in recording.places[size])
    if len(before) < 3 or before != after:
        raise Failure(f"stacks: {before} {after}")


def forks_while_others_walk(bench):
    """A child has a copy of whatever lock was held, and walks: each ends, and has recorded what it did."""
    _, recordings = bench.check("forks-while-others-walk", options="stacks=2")
    done = [child.allocations[24002] for child in recordings[1:]]
    if done != [50] * 400:
        raise Failure(f"{len(done)} children recorded {sorted(set(done))} blocks of 50")
    if not all(any(len(place) > 5 for place in child.places[24002]) for child in recordings[1:]):
        raise Failure("a child's stacks are short")


def sample(bench):
    """128,000 blocks of 14001 and 14002 bytes: each is recorded with probability 1 - exp(-size / 100000)."""
    expected = 40000 * (1 - 2.718281828 ** (-14001 / 100000))
    got = 0
    for _ in range(3):
        _, recordings = bench.run("threads", options="sample=100000")
        own = recordings[-1]
        got += own.allocations[14001]
        if own.allocations[14001] != own.frees[14001] or own.foreign:
            raise Failure(f"{own.allocations[14001]} allocations and {own.frees[14001]} frees, {own.foreign} unknown")
        for path in glob.glob(os.path.join(bench.spool, "*")):
            os.remove(path)
    error = (3 * expected) ** 0.5
    if abs(got - 3 * expected) > 5 * error:
        raise Failure(f"{got} of {3 * expected:.0f} expected")
    _, (own,) = bench.run("resizes", options="sample=50000")
    for size in (14007, 28008, 14009):
        if not own.allocations[size] or own.allocations[size] != own.frees[size]:
            raise Failure(f"of {size} bytes {own.allocations[size]} allocations and {own.frees[size]} frees")
    if own.foreign:
        raise Failure(f"{own.foreign} frees of blocks that are not in the sample")


# The sites of faults in the recorder's system calls, with errnos of their manuals and what the spool must then say.
FAULTS = {
    "spool_create": [(errno.EACCES, None), (errno.EMFILE, None), (errno.ENOSPC, None)],
    "spool_stat": [(errno.EBADF, STOPPED_NO_FILE)],
    "spool_room": [(errno.ENOSPC, STOPPED_NO_ROOM), (errno.EDQUOT, STOPPED_NO_ROOM), (errno.EIO, STOPPED_NO_FILE),
                   (errno.EOPNOTSUPP, 0)],
    "spool_map": [(errno.ENOMEM, STOPPED_NO_MEMORY), (errno.EACCES, STOPPED_NO_FILE)],
    "map_table": [(errno.ENOMEM, STOPPED_NO_MEMORY)],
    "fork_marker": [(errno.ENOMEM, None)],
}


def faults(bench):
    """Each system call fails, from the first or from the third on. The program notices nothing."""
    if not bench.is_faulty:
        raise Skip("this recorder has no faults to inject")
    for site, outcomes in FAULTS.items():
        for number, stopped in outcomes:
            for first, period in ((1, 1), (3, 1)):
                check_fault(bench, site, number, stopped, first, period)


def check_fault(bench, site, number, stopped, first, period):
    plan = f"{site}:{number}:{first}:{period}"
    output, recordings = bench.run("threads-and-forks", more={"PAGEWISE_FAULT": plan})
    if "done" not in output:
        raise Failure(f"{plan}: the program did not come to its end: {output}")
    for recording in recordings:
        if recording.stop not in (0, stopped):
            raise Failure(f"{plan}: stopped for {recording.stop} and not {stopped}")
        if recording.stop and recording.process == recordings[0].process and not any(recording.dropped):
            raise Failure(f"{plan}: the recording stopped and counted nothing as dropped")
    if first == 1 and period and stopped is not None and stopped and recordings and any(
            recording.allocations for recording in recordings):
        raise Failure(f"{plan}: recorded although nothing can be")
    for path in glob.glob(os.path.join(bench.spool, "*")):
        os.remove(path)


def path_of(recording, size):
    """The one module from which blocks of the size were asked for."""
    loads = {place[0][1] for place in recording.places[size]}
    paths = {recording.loads[load] for load in loads if load in recording.loads}
    if len(loads) != 1 or len(paths) != 1:
        raise Failure(f"blocks of {size} bytes come from {paths}, loads {loads}")
    return paths.pop()


def reused_addresses(bench):
    """After dlclose another library is loaded where the first one was: each call is its own module's."""
    copies = [os.path.join(bench.folder, f"copy_{number}.so") for number in (1, 2)]
    copy = copies[0]
    for options in ("", "stacks=2", "stacks=1"):
        for plugin, path in zip(bench.plugins, copies):
            shutil.copy(plugin, path)
        output, (own,) = bench.check("", command=[bench.program, "reuses-addresses", *bench.plugins, *copies],
                                     options=options)
        if "not reused" in output:
            raise Skip("the loader does not use a place again")
        names = {size: os.path.basename(path_of(own, size)[0]) for size in (24001, 24101, 24002, 24102, 24003)}
        one, two = (os.path.basename(path) for path in bench.plugins)
        if names != {24001: one, 24101: one, 24002: two, 24102: two, 24003: one}:
            raise Failure(f"with {options}: {names}")
        # Under one name first the one, then the other.
        before, after = path_of(own, 24004), path_of(own, 24005)
        if before[0] != copy or after[0] != copy or before[1] == after[1]:
            raise Failure(f"with {options}: {before} {after}")
        if (before[1], after[1]) != (path_of(own, 24001)[1], path_of(own, 24002)[1]):
            raise Failure(f"with {options}: build ids {before} {after}")
        bench.clear()


def relative_names(bench):
    """Libraries and programs by names that mean nothing elsewhere."""
    folder = os.path.join(bench.folder, "a b\nc")
    os.mkdir(folder)
    library, program = os.path.join(folder, "x y.so"), os.path.join(folder, "pro gram")
    shutil.copy(bench.plugins[0], library)
    shutil.copy(bench.program, program)
    for command in (["./pro gram"], ["/lib64/ld-linux-x86-64.so.2", "./pro gram"]):
        if not os.path.exists(os.path.join(folder, command[0])):
            continue
        _, (own,) = bench.check("", command=[*command, "relative-name", "./x y.so"], folder=folder)
        if own.program != program or path_of(own, 24006)[0] != library or path_of(own, 22001)[0] != program:
            raise Failure(f"{command}: {own.program}, {own.loads}")
        bench.clear()
    # By the search path of the loader.
    more = {"LD_LIBRARY_PATH": "."}
    _, (own,) = bench.check("", command=["./pro gram", "relative-name", "x y.so"], folder=folder, more=more)
    if path_of(own, 24006)[0] != library:
        raise Failure(f"{own.loads}")


def no_room_for_child(bench):
    """What a child cannot record is said by its parent's recording, or by a file without content."""
    if os.geteuid() != 0:
        raise Skip("needs root")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", bench.spool], check=False)
    if done.returncode:
        raise Skip("cannot mount")
    try:
        output, recordings = bench.run("no-room-for-child")
        own = recordings[0]
        if "forked 3" not in output or own.stop != STOPPED_NO_ROOM:
            raise Failure(f"{output}: stopped for {own.stop}")
        if own.allocations[18002] + own.dropped[0] < 300000:
            raise Failure(f"{own.allocations[18002]} recorded and {own.dropped[0]} dropped")
        said = [child for child in recordings[1:] if child.stop == STOPPED_NO_ROOM and child.dropped[0] >= 300000]
        if len(said) + own.lost_children != 3:
            raise Failure(f"{len(said)} children say what they lost, and their parent lost {own.lost_children}")
    finally:
        subprocess.run(["umount", bench.spool], check=False)


def restricted(bench, *words):
    return [bench.restricted, *words]


def strict(bench):
    """Seccomp's strict mode: the program ends as plain, and what was mapped before is used."""
    for how in ("strict", "strict-by-syscall", "strict-thread", "no-ticks", "refused"):
        for options in ("", "stacks=2"):
            if how == "refused" and options:
                continue
            output, _ = bench.check("", command=restricted(bench, how), options=options)
            if not output.endswith("done\n"):
                raise Failure(f"{how}: {output}")
            bench.clear()


def too_long(bench):
    """When what was mapped before is full, recording ends for the true reason, and the rest is counted."""
    for how, size, stop, error in (("strict-long", 26001, STOPPED_STRICT, None),
                                   ("few-allowed-long", 27001, STOPPED_FILTER, True)):
        output, (own,) = bench.run("", command=restricted(bench, how))
        count = int(re.search(rf"^expect {size} (\d+)", output, re.M)[1])
        if own.stop != stop or (error and own.error == 0) or "done" not in output:
            raise Failure(f"{how}: stopped for {own.stop}, {own.error}: {output}")
        if own.allocations[size] < 50000 or own.allocations[size] + own.dropped[0] != count:
            raise Failure(f"{how}: {own.allocations[size]} and {own.dropped[0]} dropped of {count}")
        bench.clear()


def filters(bench):
    """Filters that deny with an error."""
    for how in ("few-allowed", "all-allowed"):
        output, _ = bench.check("", command=restricted(bench, how))
        if not output.endswith("done\n"):
            raise Failure(f"{how}: {output}")
        bench.clear()


def kill_one(bench):
    """Filters that kill for one call, each in turn: whoever survives plain survives being recorded."""
    if os.uname().machine != "x86_64":
        raise Skip("the calls' numbers are those of x86-64")
    for more, few in CALLS_OF_THE_RECORDER.items():
        for number in range(463) if "PAGEWISE_EVERY_CALL" in os.environ else few:
            command = restricted(bench, "kill-one", str(number), more)
            plain = subprocess.run(command, capture_output=True, check=False)
            environment = dict(os.environ, LD_PRELOAD=bench.record, PAGEWISE_RECORD=f"spool={bench.spool},stacks=2")
            recorded = subprocess.run(command, capture_output=True, check=False, env=environment)
            of_plain, of_recorded = ((end.returncode, end.stdout, end.stderr) for end in (plain, recorded))
            if of_plain != of_recorded:
                raise Failure(f"{number} {more}: {plain} {recorded}")
            check_kept(bench, number, more, plain.returncode)
            bench.clear()


# By their numbers on x86-64: write, close, newfstatat, fstat, mmap, munmap, rt_sigprocmask, pwrite64, madvise, getpid,
# fcntl, ftruncate, readlink, getppid, gettid, futex, clock_gettime, openat, fallocate, prlimit64, clone, clone3, read.
USUAL = (1, 3, 262, 5, 9, 11, 14, 18, 28, 39, 72, 77, 89, 110, 186, 202, 228, 257, 285, 302, 56, 435, 0)
# Besides sched_yield, mincore, process_vm_readv.
CALLS_OF_THE_RECORDER = {"": USUAL, "by-syscall": USUAL, "threads": USUAL, "forks": USUAL, "closed": USUAL,
                         "generated": (14, 27, 39, 186, 310), "unloads": (14, 24)}


def check_kept(bench, number, more, status):
    """Nothing is lost but what a child could not record, and that is said."""
    recordings = [Recording(path) for path in glob.glob(os.path.join(bench.spool, "*")) if was_begun(path)]
    own = [recording for recording in recordings if recording.allocations[27003]]
    if more == "closed" and len(own) == 1 and own[0].stop == STOPPED_NO_FILE and any(own[0].dropped):
        return  # its descriptor is gone, and the file must not be opened once more
    if len(own) != 1 or any(recording.dropped != (0, 0) or recording.stop for recording in recordings):
        raise Failure(f"{number} {more}: {len(own)} recordings, stopped for {[one.stop for one in recordings]}")
    if more == "forks" and status == 0:
        child = sum(recording.allocations[27004] for recording in recordings)
        if (child, own[0].lost_children) not in ((30000, 0), (0, 1)):
            raise Failure(f"{number}: the child recorded {child}, lost are {own[0].lost_children}")


def off(bench):
    """Without options, and with a folder that is not there, the program runs on."""
    for folder in ("", "/nonexistent"):
        environment = dict(os.environ, LD_PRELOAD=bench.record, PAGEWISE_RECORD=f"spool={folder}")
        done = subprocess.run([bench.program, "fork"], env=environment, capture_output=True, check=False)
        if done.returncode or b"done" not in done.stdout:
            raise Failure(f"{done.returncode} {done.stderr}")


CASES = {
    "every-function": every_function,
    "other-allocators": on_other_allocators,
    "fork": fork,
    "no-children": no_children,
    "forks-in-handlers": forks_in_handlers,
    "handlers-above": handlers_above,
    "exec": execute,
    "crash": crash,
    "kill": kill,
    "threads": threads,
    "threads-and-forks": threads_and_forks,
    "lies": lies,
    "ways": ways,
    "forks-while-others-walk": forks_while_others_walk,
    "page-comes-and-goes": page_comes_and_goes,
    "page-to-be-filled": page_to_be_filled,
    "gaps": gaps,
    "overwrites-headers": overwrites_headers,
    "first-thread-ends": first_thread_ends,
    "may-not-be-read": may_not_be_read,
    "small-stacks": small_stacks,
    "fork-after-unloading": fork_after_unloading,
    "late-frees": late_frees,
    "cplusplus": cplusplus,
    "waiting-constructor": waiting_constructor,
    "close-all": close_all,
    "file-size": file_size,
    "disk-full": disk_full,
    "lost-folder": lost_folder,
    "jump-out": jump_out,
    "dlopen": load,
    "resizes": resizes,
    "stacks": stacks,
    "sample": sample,
    "reused-addresses": reused_addresses,
    "relative-names": relative_names,
    "no-room-for-child": no_room_for_child,
    "strict": strict,
    "filters": filters,
    "too-long": too_long,
    "kill-one": kill_one,
    "off": off,
    "faults": faults,
}


if __name__ == "__main__":
    sys.exit(run(CASES, Bench, "record"))
