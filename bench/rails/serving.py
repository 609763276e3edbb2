"""Rails on puma: the requests, the server under an allocator, and the clients. For the scripts beside this file."""

import collections
import contextlib
import hashlib
import http.client
import json
import os
import queue
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse

import common
from store import OfOneBuild

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OURS = os.path.join(ROOT, "build/lib/libpagewise-general.so")
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
Configuration = collections.namedtuple("Configuration", "preload environment")
OUT_OF_BAND_SECONDS = 5
DECAY_OF_1_S = {"MALLOC_CONF": "dirty_decay_ms:1000,muzzy_decay_ms:0"}  # as general's default; jemalloc's own is 10 s
CONFIGURATIONS = {
    "glibc": Configuration(None, {}),
    "glibc#2": Configuration(None, {}),
    "glibc, 2 arenas": Configuration(None, {"MALLOC_ARENA_MAX": "2"}),
    "jemalloc": Configuration(f"{LIBRARIES}/libjemalloc.so.2", {}),
    "tcmalloc": Configuration(f"{LIBRARIES}/libtcmalloc_minimal.so.4", {}),
    "mimalloc": Configuration(f"{LIBRARIES}/libmimalloc.so.2.0", {}),
    "general": Configuration(OURS, {}),
    "general, decay of 10 s": Configuration(OURS, {"PAGEWISE_OPTIONS": "decay=10"}),
    "general, out of band": Configuration(OURS, {"RAILS_BENCH_OUT_OF_BAND": str(OUT_OF_BAND_SECONDS)}),
    "glibc, collected": Configuration(None, {"RAILS_BENCH_COLLECT": str(OUT_OF_BAND_SECONDS)}),
    "jemalloc, decay of 1 s": Configuration(f"{LIBRARIES}/libjemalloc.so.2", DECAY_OF_1_S),
    "jemalloc, decay of 1 s, collected": Configuration(f"{LIBRARIES}/libjemalloc.so.2", {**DECAY_OF_1_S, "RAILS_BENCH_COLLECT": str(OUT_OF_BAND_SECONDS)}),
    "jemalloc, collected": Configuration(f"{LIBRARIES}/libjemalloc.so.2", {"RAILS_BENCH_COLLECT": str(OUT_OF_BAND_SECONDS)}),
    "mimalloc, collected": Configuration(f"{LIBRARIES}/libmimalloc.so.2.0", {"RAILS_BENCH_COLLECT": str(OUT_OF_BAND_SECONDS)}),
}
PEOPLE = 4000
SAMPLE_SECONDS = 0.5
SEED = 20090615


# --- requests ---------------------------------------------------------------------------------------------------------


def requests(count):
    """An hour of an office, in order: looking things up, now and then a change, a report, an import."""
    source = random.Random(SEED)
    form = urllib.parse.urlencode
    for number in range(count):
        person = source.randrange(1, PEOPLE)
        kind = source.choices(("list", "search", "show", "json", "create", "update", "delete", "cities", "export", "report",
                               "import"), (22, 14, 26, 12, 6, 8, 2, 3, 4, 0.6, 1.4))[0]
        if kind == "list":
            yield "GET", f"/people?page={source.randrange(60)}", None
        elif kind == "search":
            yield "GET", "/people?" + form({"q": f"{source.randrange(1000)}"}), None
        elif kind in ("show", "json"):
            yield "GET", f"/people/{person}" + (".json" if kind == "json" else ""), None
        elif kind == "create":
            yield "POST", "/people", form({"id": PEOPLE + 1 + number, "name": f"New {number}", "city": f"City {number % 97}",
                                           "phone": str(number)})
        elif kind == "update":
            yield "PATCH", f"/people/{person}", form({"city": f"City {number % 91}", "note": f"changed {number} " * 9})
        elif kind == "delete":
            yield "DELETE", f"/people/{PEOPLE + 1 + source.randrange(number + 1)}", None
        elif kind == "export":
            yield "GET", f"/people/export?limit={source.choice((20, 100, 1000))}", None
        elif kind == "import":
            size = source.choice((10, 200, 4000))
            yield "POST", "/people/import", json.dumps([{"body": f"word{n % 53} from {number} " * 6} for n in range(size)])
        else:
            yield "GET", f"/people/{kind}", None


# --- the server -------------------------------------------------------------------------------------------------------


class Server:
    """Puma, in a folder of its own with a copy of the database: one process, or one that loads all and forks `workers`."""

    def __init__(self, configuration, threads, folder, out_of_band_seconds=OUT_OF_BAND_SECONDS, workers=0):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        environment = common.environment()
        for name in ("LD_PRELOAD", "PAGEWISE_OPTIONS", "MALLOC_ARENA_MAX", "MALLOC_CONF", "RUBYOPT"):
            environment.pop(name, None)
        chosen = CONFIGURATIONS[configuration]
        environment.update(chosen.environment, RAILS_ENV="production", RAILS_BENCH_DATABASE=os.path.join(folder, "data.db"))
        if "RAILS_BENCH_OUT_OF_BAND" in chosen.environment:
            environment["RAILS_BENCH_OUT_OF_BAND"] = str(out_of_band_seconds)
        if chosen.preload:
            environment["LD_PRELOAD"] = chosen.preload
        self.log = open(os.path.join(folder, "puma.log"), "ab")
        cluster = ["--workers", str(workers), "--preload"] if workers else []
        self.process = subprocess.Popen(
            ["puma", "--quiet", *cluster, "--environment", "production", "--threads", f"{threads}:{threads}", "--bind",
             f"tcp://127.0.0.1:{self.port}", os.path.join(HERE, "config.ru")],
            env=environment, cwd=folder, stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.wait(workers)

    def wait(self, workers):
        for _ in range(2400):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0 and len(self.workers()) == workers:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise SystemExit(f"bench-rails: puma does not start: {common.contents(self.log.name)[-2000:]}")

    def workers(self):
        """The processes that were forked, by number."""
        return [int(one) for one in common.contents(f"/proc/{self.process.pid}/task/{self.process.pid}/children").split()]

    def memory(self):
        """Bytes of physical memory of all its processes: their own pages, and their shares of those they share."""
        return sum(proportional_bytes(pid) for pid in (self.process.pid, *self.workers()))

    def cpu_seconds(self):
        fields = common.contents(f"/proc/{self.process.pid}/stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def proportional_bytes(pid):
    """Pss, which counts a page of several processes in parts; 0: there is no such process."""
    found = re.search(r"^Pss:\s+(\d+) kB", common.contents(f"/proc/{pid}/smaps_rollup"), re.M)
    return int(found[1]) * 1024 if found else 0


class Curve(threading.Thread):
    """Memory over time, sampled from outside."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.points, self.over = server, [], threading.Event()
        self.began = time.monotonic()
        self.start()

    def run(self):
        while not self.over.is_set():
            self.points.append((round(time.monotonic() - self.began, 2), self.server.memory()))
            self.over.wait(SAMPLE_SECONDS)

    def finish(self):
        self.over.set()
        self.join()
        return [point for point in self.points if point[1]]


def answer(connections, port, request, number):
    method, path, body = request
    kind = "application/json" if body and body.startswith("[") else "application/x-www-form-urlencoded"
    for attempt in range(3):
        if connections.get("one") is None:
            connections["one"] = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        try:
            connections["one"].request(method, path, body, {"Host": "rails.bench", **({"Content-Type": kind} if body else {})})
            got = connections["one"].getresponse()
            content = got.read()
            return number, got.status, hashlib.sha256(content).hexdigest()
        except (http.client.HTTPException, OSError):
            connections["one"].close()
            connections["one"] = None
            if attempt == 2:
                raise
    return None


def serve(server, threads, part):
    """Make these (number, request)s, as many at once as the server has threads. Returns [(number, status, digest)]."""
    waiting, answers, failures = queue.Queue(), [], []
    for one in part:
        waiting.put(one)

    def client():
        connections = {}
        with contextlib.suppress(queue.Empty):
            while not failures:
                number, request = waiting.get_nowait()
                try:
                    answers.append(answer(connections, server.port, request, number))
                except (http.client.HTTPException, OSError) as problem:
                    failures.append(f"{request[:2]}: {problem}")

    clients = [threading.Thread(target=client) for _ in range(threads)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    broken = [one for one in answers if one[1] >= 500]
    if failures or broken:
        raise SystemExit(f"bench-rails: {failures or broken[:3]}: {common.contents(server.log.name)[-1500:]}")
    return answers


@contextlib.contextmanager
def data(work):
    """A folder with a fresh copy of the database, which is made once."""
    database = os.path.join(work, f"people-{PEOPLE}.db")
    if not os.path.exists(database):
        half = database + ".new"
        with contextlib.suppress(FileNotFoundError):
            os.remove(half)
        subprocess.run(["ruby", os.path.join(HERE, "create.rb"), str(PEOPLE)], check=True,
                       env=dict(common.environment(), RAILS_BENCH_DATABASE=half))
        os.replace(half, database)
    with tempfile.TemporaryDirectory(prefix="pagewise-rails-") as folder:
        shutil.copyfile(database, os.path.join(folder, "data.db"))
        yield folder


def measure(work, configuration, threads, count, restart_every):
    everything = list(enumerate(requests(count)))
    step = restart_every or count
    answers, curve, busy, cpu = [], [], 0.0, 0.0
    with data(work) as folder:
        began = time.monotonic()
        for first in range(0, count, step):
            server = Server(configuration, threads, folder)
            try:
                before, at = server.cpu_seconds(), time.monotonic()
                watcher = Curve(server)
                answers += serve(server, threads, everything[first:first + step])
                busy += time.monotonic() - at
                cpu += server.cpu_seconds() - before
                time.sleep(SAMPLE_SECONDS * 2)
                curve += [(round(at - began + seconds, 2), memory) for seconds, memory in watcher.finish()]
            finally:
                server.stop()
        whole = time.monotonic() - began
    answers.sort()
    statuses = collections.Counter(status for _, status, _ in answers)
    digest = hashlib.sha256(repr(answers).encode()).hexdigest() if threads == 1 else None
    return {"requests": count, "busy_seconds": busy, "whole_seconds": whole, "cpu_seconds": cpu, "curve": curve,
            "end_bytes": curve[-1][1], "peak_bytes": max(memory for _, memory in curve), "digest": digest,
            "statuses": {str(status): number for status, number in sorted(statuses.items())}}


# --- what was measured -----------------------------------------------------------------------------------------------


def facts():
    told = {what: said for what, said in common.machine() if what in ("machine", "release", "kernel", "Pagewise")}
    return {**told, "Ruby": common.output_of("ruby", "-e", "puts RUBY_DESCRIPTION")}


class Results:
    """What was measured, by what was asked for: a part and its arguments."""

    def __init__(self, folder, build):
        self.kept = OfOneBuild(folder, build, facts)
        self.values = {(one["kind"], *one["arguments"]): one["value"] for one in self.kept.records()}

    def get(self, key):
        return self.values.get(key)

    def make(self, key, function):
        if key not in self.values:
            print("  " + " ".join(map(str, key)), flush=True)
            self.values[key] = function()
            self.kept.add(key[0], arguments=key[1:], value=self.values[key])
