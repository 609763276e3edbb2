#!/usr/bin/env python3
"""Who else owns malloc, and who comes first: order.c, plain and under the preloaded libraries.

    order.py --folder BUILD-FOLDER-OF-THE-TESTS --preload LIBRARY CASE

Exit status 77: this machine cannot run the case (the reason is printed).
"""

import os
import shutil
import socket
import subprocess
import sys
import time

from cases import Failure, Skip, run
from environment import GENERAL, SEGMENTS, Bench, general_bench, spaceless

DEFAULT = ("",)  # what a user gets who asks for nothing
SAY = """
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
    char *preload = getenv("LD_PRELOAD"), *block = malloc(1 << 20);
    block[5] = 1;
    printf("%d words, preloaded: %s\\n", count, preload ? preload : "nothing");
    free(block);
    (void)words;
    return 7;
}
"""


class Order(Bench):
    """The programs of these cases."""

    def __init__(self, arguments, folder):
        super().__init__(arguments, folder)
        self.tests = arguments.folder
        self.program = os.path.join(arguments.folder, "environment_order")
        self.with_library = os.path.join(arguments.folder, "environment_order_with_library")
        self.with_malloc = os.path.join(arguments.folder, "environment_order_with_malloc")
        self.plugin = os.path.join(arguments.folder, "order", "plugins", "order_plugin.so")
        self.loader = os.path.join(arguments.folder, "order", "order_loader.so")
        self.wrapper = spaceless(os.path.join(arguments.folder, "order", "liborder_wrapper.so"))
        self.lazy = spaceless(os.path.join(arguments.folder, "order", "liborder_lazy.so"))
        self.dlsym = spaceless(os.path.join(arguments.folder, "order", "liborder_dlsym.so"))
        self.auditor = os.path.join(arguments.folder, "order", "order_audit.so")

    def both(self, command, counters=("blocks_allocated",), every_options=DEFAULT, **more):
        """The same under the library for large blocks and under that for all."""
        self.same(command, counters, every_options=every_options, **more)
        large = self.preload
        general_bench(self)
        own = SEGMENTS if counters == ("blocks_allocated",) else counters
        self.same(command, own, every_options=GENERAL, **more)
        self.preload = large

    def file(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def compiled(self, name, compiler, *flags):
        """A program that says what it was started with; None: there is no such compiler."""
        if not shutil.which(compiler):
            return None
        source, program = self.file("say.c", SAY), os.path.join(self.folder, name)
        done = subprocess.run([compiler, "-o", program, source, *flags], capture_output=True, check=False)
        return program if done.returncode == 0 else None


# --- forks ------------------------------------------------------------------------------------------------------------


def fork_streams(bench):
    lines = bench.file("lines", "".join("x" * (i * 37 % 3000) + "\n" for i in range(3000)))
    bench.both([bench.program, "fork-streams", lines], counters=())


def fork_stream_held(bench):
    lines = bench.file("lines", "x\n")
    bench.both([bench.program, "fork-stream-held", lines], counters=())


def fork_handlers(bench):
    """The handler of a library that is initialized first waits for a thread that allocates."""
    bench.both([bench.with_library, "fork-handlers", "60"])


# --- the loader's lock ------------------------------------------------------------------------------------------------


def loader_lock(bench):
    """Also where the C library (before 2.35) can say who calls only with the loader's lock."""
    options = ("modules=all", "modules=all,policy=share")
    bench.same([bench.program, "loader-lock", bench.plugin], ["copies_seen"], every_options=options)
    bench.preload = spaceless(os.path.join(bench.tests, "order", "older", "libpagewise-preload.so"))
    bench.same([bench.program, "loader-lock", bench.plugin], ["copies_seen"], every_options=options)


def constructor_waits(bench):
    """Nothing of ours looks for a function where a constructor, which has the loader's lock, waits for the thread that calls it."""
    bench.both([bench.program, "constructor-waits", bench.plugin])


# --- other allocators -------------------------------------------------------------------------------------------------


def usable_after_shrink(bench):
    bench.same([bench.program, "usable-after-shrink"], ["blocks_allocated"], every_options=DEFAULT)


def change_after_release(bench):
    bench.same([bench.program, "change-after-release"], ["blocks_allocated"], every_options=DEFAULT)


def other_malloc(bench):
    """A program with a malloc of its own keeps it; policy general was asked to replace it."""
    sums = bench.same([bench.with_malloc, "other-malloc", "all"], ["fallback_allocator"], every_options=DEFAULT)
    if sums["blocks_allocated"]:
        raise Failure("blocks were served although the program has a malloc of its own")
    general_bench(bench)
    bench.same([bench.with_malloc, "other-malloc"], SEGMENTS, every_options=GENERAL)


def wrapper_by_handle(bench):
    """A library before ours, or behind it, that gets the C library's malloc by a handle."""
    for library, every_options in ((bench.preload, DEFAULT), (general_bench(bench).preload, GENERAL)):
        orders = [(library, bench.wrapper), (bench.wrapper, library), (library, bench.lazy), (bench.lazy, library)]
        for bench.preload in (":".join(order) for order in orders):
            for command in ([bench.program, "ends"], [sys.executable, "-c", "print(sum(len(str(i)) for i in range(100000)))"]):
                bench.same(command, (), every_options=every_options, has_statistics=False)


def wrapped_dlsym(bench):
    """A library before ours, or behind it, that wraps dlsym is asked by the program, and not by us."""
    if os.uname().machine not in ("x86_64", "aarch64"):
        raise Skip("written for x86-64 and aarch64")
    folder = os.path.dirname(bench.preload)
    for name, options in (("preload", ""), ("general", "policy=general"), ("record", "")):
        library = os.path.join(folder, f"libpagewise-{name}.so")
        for place, bench.preload in (("behind", f"{library}:{bench.dlsym}"), ("before", f"{bench.dlsym}:{library}")):
            status, output, error, _ = bench.run([bench.program, "wrapped-dlsym", place], options, has_statistics=False)
            if (status, output) != (0, b"of the wrapper\n"):
                raise Failure(f"{bench.preload}: {status} {output} {error}")


def preloaded_twice(bench):
    """Of two libraries of ours, of two kinds or from two folders, the first one serves."""
    folder = os.path.dirname(bench.preload)
    elsewhere = os.path.join(bench.folder, "elsewhere")
    shutil.copytree(folder, elsewhere, ignore=lambda _, names: [name for name in names if not name.startswith("libpagewise")])
    for first, second, every_options in (("preload", "general", DEFAULT), ("general", "preload", GENERAL)):
        served = SEGMENTS if first == "general" else ("blocks_allocated",)
        for other in (f"{folder}/libpagewise-{second}.so", f"{elsewhere}/libpagewise-{second}.so", f"{elsewhere}/libpagewise-{first}.so",
                      f"{bench.lazy}:{folder}/libpagewise-{second}.so"):
            bench.preload = f"{folder}/libpagewise-{first}.so:{other}"
            bench.same([bench.program, "ends"], served, every_options=every_options)
        bench.same([bench.with_library, "fork-handlers", "5"], served, every_options=every_options)


def sanitized(bench):
    """A sanitizer that starts asks for functions before anything else works."""
    environment = {"ASAN_OPTIONS": "verify_asan_link_order=0,detect_leaks=0"}
    ran = 0
    for kind in ("address", "thread"):
        program = bench.compiled(kind, "cc", f"-fsanitize={kind}")
        if not program or subprocess.run([program], env=os.environ | environment, capture_output=True, check=False).returncode != 7:
            continue
        ran += 1
        for library in ("preload", "general", "record"):
            path = os.path.join(os.path.dirname(bench.preload), f"libpagewise-{library}.so")
            done = subprocess.run([program], env=os.environ | environment | {"LD_PRELOAD": path}, capture_output=True, check=False)
            if done.returncode != 7 or b"1 words" not in done.stdout:
                raise Failure(f"{kind}, {library}: {done.returncode} {done.stdout} {done.stderr[-1000:]}")
    if not ran:
        raise Skip("there are no sanitizers here")


def redis(bench):
    """Debian's redis-server is linked with jemalloc."""
    server = shutil.which("redis-server")
    if not server:
        raise Skip("there is no redis-server")
    bench.same([server, "--version"], (), every_options=DEFAULT)
    for preload in (bench.preload, general_bench(bench).preload):
        bench.preload = preload
        path = os.path.join(bench.folder, "socket")
        statistics = os.path.join(bench.folder, f"redis-{os.path.basename(preload)}")
        os.mkdir(statistics)
        policy = "policy=general" if "general" in preload else ""
        with subprocess.Popen([server, "--port", "0", "--unixsocket", path, "--save", "", "--daemonize", "no"],
                              env=bench.environment(policy, statistics), cwd=bench.folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as process:
            try:
                answers = talk(path, process)
            finally:
                process.terminate()
                process.communicate(timeout=60)
        if answers != b"+PONG\r\n+OK\r\n:300000\r\n+OK\r\n" or process.returncode != 0:
            raise Failure(f"{preload}: {answers} and {process.returncode}")


def talk(path, process):
    """A few commands that allocate, copy, resize and free."""
    for _ in range(200):
        if os.path.exists(path) or process.poll() is not None:
            break
        time.sleep(0.05)
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(60)
        link.connect(path)
        for words in ((b"PING",), (b"SET", b"k", b"v" * 200000), (b"APPEND", b"k", b"w" * 100000), (b"FLUSHALL",)):
            link.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        answers = b""
        while answers.count(b"\r\n") < 4:
            more = link.recv(4096)
            if not more:
                break
            answers += more
    return answers


# --- scopes and namespaces --------------------------------------------------------------------------------------------


def deepbind(bench):
    bench.both([bench.program, "deepbind", bench.plugin])
    bench.both([bench.program, "search-path", bench.loader, os.path.basename(bench.plugin)], counters=())
    php = shutil.which("php")
    if php:  # which loads its extensions in this way
        bench.both([php, "-r", "echo count(get_loaded_extensions()) > 5, array_sum(range(1, 100000));"], counters=())


def namespaces(bench):
    bench.both([bench.program, "namespace", bench.plugin])
    audited = ["env", f"LD_AUDIT={bench.auditor}"]
    for case in (["ends"], ["deepbind", bench.plugin], ["usable-after-shrink"]):
        if case != ["usable-after-shrink"]:
            bench.both([*audited, bench.program, *case], counters=())
        else:
            bench.same([*audited, bench.program, *case], (), every_options=DEFAULT)


def ends(bench):
    """Blocks from before our start, and destructors that run after ours."""
    bench.both([bench.program, "ends"])


# --- other programs ---------------------------------------------------------------------------------------------------


def start(bench):
    """Programs that cannot bear the library are started without it, and all others with it."""
    programs = {
        "musl": bench.compiled("musl", "musl-gcc"),
        "asan": bench.compiled("asan", "gcc", "-fsanitize=address"),
        "tsan": bench.compiled("tsan", "gcc", "-fsanitize=thread"),
        "asan-inside": bench.compiled("asan-inside", "clang", "-fsanitize=address"),
        "tsan-inside": bench.compiled("tsan-inside", "clang", "-fsanitize=thread"),
    }
    tried = [name for name, path in programs.items() if path]
    if not tried:
        raise Skip("no compiler for such programs")
    for name in tried:
        script = bench.file(f"{name}-script", f"#!{programs[name]} -x\n", 0o755)
        for command in (programs[name], script):
            bench.both([bench.program, "start", command, "one"], counters=["programs_left_plain"])
    by_name = ["env", f"PATH=/nowhere::{bench.folder}:{os.environ['PATH']}", bench.program, "start", tried[0], "one"]
    bench.both(by_name, counters=["programs_left_plain"])
    bench.both([bench.program, "start-nothing"], counters=())
    ordinary = bench.compiled("ordinary", "gcc")
    for preload in (bench.preload, bench.preload.replace("-preload", "-general")):
        bench.preload = preload
        policy = "policy=general" if "general" in preload else ""
        status, output, error, sums = bench.run([bench.program, "start", ordinary, "one"], policy)
        if status != 0 or output.count(f"preloaded: {preload}".encode()) != 22 or sums["programs_left_plain"]:
            raise Failure(f"an ordinary program: {status} {output} {error}")
    print("tried:", *tried)


def start_keeps_the_rest(bench):
    """Of LD_PRELOAD only what is ours is left out."""
    program = bench.compiled("lsan", "gcc", "-fsanitize=leak")
    if not program:
        raise Skip("no compiler for a program with a sanitizer")
    environment = bench.environment("", bench.folder)
    environment["LD_PRELOAD"] = f"libm.so.6 {bench.preload}:libdl.so.2"
    environment["LSAN_OPTIONS"] = "detect_leaks=0"
    for words, expected in (([program], "libm.so.6:libdl.so.2"), ([bench.program, "say", "x"], environment["LD_PRELOAD"])):
        done = subprocess.run([bench.program, "start", *words], env=environment, capture_output=True, check=False,
                              timeout=60)
        if done.returncode != 0 or done.stdout.count(expected.encode()) < 8:
            raise Failure(f"{done.returncode}: {done.stdout.decode()} {done.stderr.decode()}")


def start_elsewhere(bench):
    """In a root of its own, where our library is not, the loader has nothing to complain of."""
    if os.geteuid() != 0:
        raise Skip("chroot needs root")
    root = os.path.join(bench.folder, "root")
    listed = subprocess.run(["ldd", bench.program], capture_output=True, check=True).stdout.decode()
    for path in {word for word in listed.split() if word.startswith("/")} | {bench.program}:
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(os.path.realpath(path), root + path)
    bench.both(["chroot", root, bench.program, "say", "x"], counters=["programs_left_plain"])


def start_tools(bench):
    """A system's small tools gain nothing, and are started without the library; another file of that name is not one."""
    own = bench.file("sed", "", 0o755)
    shutil.copy(shutil.which("sed") or "", own)
    look = "-n '/libpagewise/p' /proc/self/maps"
    for command, loaded in ((f"/bin/sed {look}", False), (f"sed {look}", False), (f"{own} {look}", True)):
        status, output, error, sums = bench.run(["sh", "-c", f"{command}; true"], "")
        if status != 0 or (b"libpagewise" in output) != loaded or sums["programs_left_plain"]:
            raise Failure(f"{command}: {status} {output} {error}")


CASES = {
    "fork-streams": fork_streams,
    "fork-stream-held": fork_stream_held,
    "fork-handlers": fork_handlers,
    "loader-lock": loader_lock,
    "constructor-waits": constructor_waits,
    "usable-after-shrink": usable_after_shrink,
    "change-after-release": change_after_release,
    "other-malloc": other_malloc,
    "wrapper-by-handle": wrapper_by_handle,
    "wrapped-dlsym": wrapped_dlsym,
    "preloaded-twice": preloaded_twice,
    "sanitized": sanitized,
    "redis": redis,
    "deepbind": deepbind,
    "namespaces": namespaces,
    "ends": ends,
    "start": start,
    "start-keeps-the-rest": start_keeps_the_rest,
    "start-elsewhere": start_elsewhere,
    "start-tools": start_tools,
}


if __name__ == "__main__":
    sys.exit(run(CASES, Order, "preload"))
