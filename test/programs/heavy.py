# SPDX-License-Identifier: MIT
"""The programs that are too large for `make test`."""

import glob
import hashlib
import os
import re
import shutil
import signal

from catalogue import program
from place import HERE, Crash, Skip, digest, need, until

WORKLOADS = os.path.join(HERE, "workloads")


def workload(place, name):
    return shutil.copy(os.path.join(WORKLOADS, name), place.path(name))


# --- postgres ---------------------------------------------------------------------------------------------------------

POSTGRES = """
listen_addresses = ''
unix_socket_directories = '{folder}'
fsync = off
shared_buffers = 32MB
max_parallel_workers_per_gather = 2
max_worker_processes = 6
autovacuum_naptime = 1
"""


@program("bench", "postgresql-15", limit=240, filters=(
    "pgbench's times and rates: only the contents of its tables are compared",
    "mtime in pgbench's history, which is sorted: clients take turns as they come",
    "the random word of \\restrict and \\unrestrict in the dump"))
def postgres(place):
    """A cluster is made and filled: sorts, hash joins, parallel and compiled queries, all kinds of indexes, vacuum, four
    clients of pgbench, a dump, a restart, a dump again, by another user than root."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
    if not found:
        raise Skip("apt-get install postgresql-15")
    tools, data = os.path.dirname(found[-1]), place.path("data")
    place.become("nobody")
    script = workload(place, "postgres.sql")
    place.run(f"{tools}/initdb", "-D", data, "-U", "owner", "-A", "trust", "--no-locale", "-E", "UTF8", "--no-sync",
              "--no-instructions")
    with open(os.path.join(data, "postgresql.conf"), "a", encoding="utf-8") as file:
        file.write(POSTGRES.format(folder=place.folder))
    server = (f"{tools}/postgres", "-D", data)
    reach = ("-h", place.folder, "-U", "owner")

    def is_ready():
        return "accepting" in place.run(f"{tools}/pg_isready", *reach, status=None)

    def dump():
        text = place.run(f"{tools}/pg_dump", *reach, "-T", "pgbench_*", "postgres")
        text = re.sub(r"^\\(un)?restrict \S+$", "", text, flags=re.M)
        ordered = [place.run(f"{tools}/psql", *reach, "-XAtq", "-c", query, "postgres") for query in (
            "table pgbench_accounts order by 1", "table pgbench_tellers order by 1",
            "table pgbench_branches order by 1", "select tid, bid, aid, delta from pgbench_history order by 1, 2, 3, 4")]
        return "\n".join([text[:3000], str(len(text)), *(digest_of(part) for part in (text, *ordered))])

    # SIGINT: the fast shutdown.
    with place.server(*server, stop=signal.SIGINT):
        until(is_ready, "postgres starts")
        said = [place.run(f"{tools}/psql", *reach, "-Xq", "-f", script, "postgres")]
        place.run(f"{tools}/pgbench", *reach, "-i", "-q", "-s", "1", "postgres")
        place.run(f"{tools}/pgbench", *reach, "-c", "4", "-j", "2", "-t", "60", "--random-seed=7", "postgres")
        said.append(dump())
    with place.server(*server, stop=signal.SIGINT):
        until(is_ready, "postgres starts")
        said.append(dump())
        place.run(f"{tools}/vacuumdb", *reach, "-z", "-j", "2", "-q", "postgres")
        said.append(place.run(f"{tools}/pg_amcheck", *reach, "--install-missing", "postgres"))
    return "\n".join(said)


def digest_of(text):
    return hashlib.sha256(text.encode()).hexdigest()


# --- node, java, python -----------------------------------------------------------------------------------------------


@program("bench", "nodejs", limit=120, note="JavaScript's own heap is mapped by V8")
def node(place):
    """Workers, forked and started children, buffers, files, zlib, ciphers, an HTTP server, WebAssembly, collections."""
    need("node", "nodejs")
    return place.run("node", "--expose-gc", workload(place, "node.js"))


@program("bench", "openjdk-17-jdk-headless", limit=180, note="Java's own heap is mapped by the JVM")
def java(place):
    """Compiled, and run under the G1 and the Z collector: large arrays, threads, buffers outside of the heap, a mapped
    file, zip, started processes."""
    need("javac", "openjdk-17-jdk-headless")
    place.run("javac", "-d", place.folder, workload(place, "Work.java"))
    said = []
    for collector in ("G1", "Z"):
        said.append(place.run("java", f"-XX:+Use{collector}GC", "-Xmx256m", "-XX:-UsePerfData", "-cp", place.folder,
                              "Work", place.folder))
        os.unlink(place.path("mapped"))
    return "\n".join(said)


@program("bench", "python3", "python3-numpy", limit=180)
def python_processes(place):
    """multiprocessing by fork, spawn and forkserver; forks and started programs beside threads that allocate; numpy on
    OpenBLAS."""
    need("python3", "python3")
    place.environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return place.run("/usr/bin/python3", "-E", workload(place, "processes.py"))


# --- chromium ---------------------------------------------------------------------------------------------------------

SWITCHES = ("--headless=new", "--disable-gpu", "--no-first-run", "--disable-extensions",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-breakpad",
            "--disable-dev-shm-usage", "--allow-file-access-from-files", "--force-device-scale-factor=1",
            "--hide-scrollbars", "--virtual-time-budget=20000")


@program("bench", "chromium", limit=180,
         filters=("what it says to standard error, of buses and fonts that it does not find",),
         note="its executable brings a malloc of its own (PartitionAlloc), before which no preloaded library comes: served "
              "are only the shell scripts that start it")
def chromium(place):
    """A page of tables, JSON, typed arrays, workers, streams and a canvas, by another user than root: its document
    afterwards, in Chromium's sandbox, and a picture of it, without the sandbox."""
    need("chromium", "chromium")
    place.become("nobody")
    page = f"file://{workload(place, 'page.html')}"
    text = place.run("chromium", *SWITCHES, f"--user-data-dir={place.path('first')}", "--dump-dom", page)
    if "streams" not in text:
        raise Crash(f"the page was not worked off: {text[-500:]}")
    picture = place.path("picture.png")
    place.run("chromium", *SWITCHES, "--no-sandbox", f"--user-data-dir={place.path('second')}", "--window-size=800,600",
              f"--screenshot={picture}", page)
    return text[text.index("<body>"):] + digest(picture)


# --- ffmpeg -----------------------------------------------------------------------------------------------------------

SOURCES = ("-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25:duration=1",
           "-f", "lavfi", "-i", "sine=frequency=440:duration=1")
EXACT = ("-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact",
         "-sws_flags", "+accurate_rnd+bitexact")
# Name of the file, options. Without mbtree=0 x264 reads memory that it has not written, and encodes otherwise with
# whatever is there: plain, with one thread, under MALLOC_PERTURB_=165 and =90.
CODECS = (
    ("x264.mkv", ("-c:v", "libx264", "-preset", "fast", "-x264-params", "mbtree=0", "-threads", "3", "-c:a", "aac")),
    ("x265.mkv", ("-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=none:pools=2:frame-threads=2",
                  "-c:a", "flac")),
    ("vp9.webm", ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-threads", "2", "-row-mt", "1",
                  "-c:a", "libopus")),
    ("mpeg4.avi", ("-c:v", "mpeg4", "-q:v", "4", "-threads", "3", "-c:a", "libmp3lame")),
    ("ffv1.mkv", ("-c:v", "ffv1", "-level", "3", "-slices", "12", "-threads", "3", "-c:a", "pcm_s16le")),
)
FILTERS = (
    "scale=400:300:flags=bicubic,hqdn3d,unsharp,format=yuv420p",
    "split=3[a][b][c];[a]hflip[a];[b]rotate=0.3,negate[b];[a][b][c]hstack=3,scale=480:-2",
    "minterpolate=mi_mode=blend,boxblur=3,tblend=all_mode=average",
    "zscale=w=320:h=240,format=rgb24,histogram,format=yuv444p",
    "palettegen", "deshake,transpose=1,noise=alls=20:all_seed=7",
)


@program("bench", "ffmpeg", limit=180)
def ffmpeg(place):
    """Test pictures through filters in threads, through five codecs and back: sums of every frame and packet."""
    need("ffmpeg", "ffmpeg")
    base = ("ffmpeg", "-hide_banner", "-nostats", "-loglevel", "error", "-y")
    said = []
    for chain in FILTERS:
        said.append(place.run(*base, "-filter_threads", "3", "-filter_complex_threads", "3", *SOURCES,
                              "-filter_complex", f"[0:v]{chain}[v]", "-map", "[v]", *EXACT, "-f", "framemd5", "-"))
    for name, options in CODECS:
        place.run(*base, *SOURCES, *options, *EXACT, name)
        said.append(place.run(*base, "-threads", "3", "-i", name, "-map", "0", *EXACT, "-f", "framemd5", "-"))
        said.append(place.run(*base, "-i", name, "-map", "0", "-c", "copy", "-f", "framemd5", "-"))
    return "\n".join(said)


# --- gdb --------------------------------------------------------------------------------------------------------------


@program("bench", "gdb", limit=120, filters=(
    "addresses: of blocks, of the stack, of libraries", "numbers of processes and threads",
    "lines of threads and processes that begin, end and are switched to: they come in any order",
    "frames of the C library and of the preloaded one, which differ where a program waits",
    "which files symbols are read from"))
def gdb(place):
    """A program with threads and a fork under gdb: breakpoints, backtraces, values, calls into it that allocate, gdb's
    Python; attached to; its core from gdb and from a crash. What is debugged has the library, too."""
    need("gdb", "gdb")
    need("gcc", "gcc")
    binary = place.path("debugged")
    place.run("gcc", "-g", "-O0", "-pthread", "-o", binary, workload(place, "debugged.c"))
    debug = ("gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set style enabled off")

    def session(*commands, before=()):
        words = [word for command in commands for word in ("-ex", command)]
        return filtered_of_gdb(place.run(*debug, *before, *words, stderr=True))

    said = [
        session("break add_node if number == 10", "run", "bt 8", "info locals", "print number_of_nothing",
                "watch first", "continue", "continue", "print *first", "info breakpoints", "delete",
                "break sum_of if list->number == 45", "continue", "bt 8", "print *list", "up", "print *list->next",
                "delete", "finish", "continue", before=(binary,)),
        session("set detach-on-fork off", "set follow-fork-mode child", "break _exit", "run", "bt 3", "print sums",
                "continue", before=(binary,)),
        session("run", "bt", "print sums", "thread apply all print sums[1]",
                f"generate-core-file {place.path('core')}", "kill", before=("--args", binary, "crash")),
        session("bt", "print *first", "print first->next->next->name", "info threads",
                before=(binary, place.path("core"))),
        filtered_of_gdb(place.run(*debug, "-x", workload(place, "debugger.py"), binary, stderr=True)),
    ]
    with place.server(binary, "wait", log="waits.log") as process:
        until(lambda: place.read("waits.log").count("\n") == 1, "the program starts")
        until(lambda: is_waiting(process.pid), "the program waits")
        said.append(session("print first->next->number", "print *first", "print sums",
                            f"generate-core-file {place.path('live')}", "detach", before=(binary, str(process.pid))))
        said.append(session("print first->next->name", before=(binary, place.path("live"))))
    return "\n".join([*said, place.read("waits.log")])


def is_waiting(pid):
    with open(f"/proc/{pid}/wchan", encoding="utf-8") as file:
        return file.read() not in ("0", "")


def filtered_of_gdb(text):
    text = re.sub(r"0x[0-9a-f]+", "ADDRESS", text)
    text = re.sub(r"\b(LWP|process|Process|pid|Inferior \d+ \(process) \d+", r"\1 N", text)
    dropped = re.compile(r"^(\[(New|Thread|Switching|Inferior|Attaching|Detaching|Using|Current)|warning: |Using host|"
                         r"Download|Saved corefile|Reading symbols|Core was generated|\s*Id +Target|Thread \d+|"
                         r"#\d+ +ADDRESS in )")
    return "\n".join(line for line in text.splitlines() if not dropped.search(line))
