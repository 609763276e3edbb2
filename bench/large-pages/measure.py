"""One measured run of a workload of the large-page benchmark, and what is still to be run."""

import contextlib
import datetime
import json
import os
import random
import subprocess
import tempfile
from collections.abc import Iterator

from common import PAGEWISE, ROOT, contents, digest, environment, library_hash

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "workload.R")
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
# The slides' workloads, and those where pages matter today.
SLIDES = ["qr-hilbert-1000", "qr-hilbert-1024", "fft-1e7", "fft-2^24", "lm-5000x10000", "sort-1e8"]
TODAY = ["add-1e7", "cumsum-1e7", "transpose-3000", "gather-2e7", "scatter-2e7", "apply-rows", "unique-1e7",
         "order-1e7", "data.table", "dplyr", "sparse"]
WORKLOADS = SLIDES + TODAY
PLAIN, CONTROL, OURS, ISM, ALWAYS = "plain", "plain#2", "ours", "ism", "thp-always"
CONFIGURATIONS = [PLAIN, CONTROL, "hugetlb=1", "hugetlb=2", ALWAYS, OURS, ISM]
GUESS_SECONDS = 8


class RunFailed(Exception):
    """The command did not end well; what it said is the message."""


def versions():
    """What a stored run depends on: our library and the workloads' script."""
    with open(SCRIPT, "rb") as file:
        script = digest(file.read())
    return {"library": library_hash(), "script": script}


def ceiling():
    """What page size alone gives to random access here; {} where there is no compiler."""
    program = os.path.join(ROOT, "build/bench/ceiling")
    try:
        os.makedirs(os.path.dirname(program), exist_ok=True)
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, os.path.join(HERE, "ceiling.c")], check=True)
        return json.loads(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return {}


def interactive(runs=15):
    """Milliseconds from before library(pagewise) until pagewise_on() has returned, each in a fresh R, and the load then."""
    code = "before <- Sys.time(); library(pagewise); pagewise_on(); cat(1000 * as.numeric(Sys.time() - before, units = 'secs'))"
    settings = dict(environment(), R_LIBS=os.path.join(ROOT, "build/r-library"))
    took = [float(subprocess.run(["Rscript", "--vanilla", "-e", code], env=settings, check=True, capture_output=True, text=True).stdout)
            for _ in range(runs)]
    return {"milliseconds": [round(one, 1) for one in sorted(took)], "load": round(os.getloadavg()[0], 2)}


@contextlib.contextmanager
def huge_pages_for_everybody() -> Iterator[None]:
    """For one run; what was set comes back in any case."""
    before = contents(THP).split("[")[1].split("]")[0]  # always [madvise] never
    _write(THP, "always")
    try:
        yield
    finally:
        _write(THP, before)


def _write(path, word):
    with open(path, "w", encoding="utf-8") as file:
        file.write(word)


def run(workload, configuration, scale):
    """Measures once; returns the figures. Raises RunFailed, or OSError where huge pages for everybody need root."""
    with huge_pages_for_everybody() if configuration == ALWAYS else contextlib.nullcontext():
        return _run(workload, configuration, scale)


def _run(workload, configuration, scale):
    settings = dict(environment(), R_LIBS=os.path.join(ROOT, "build/r-library"))
    if configuration.startswith("hugetlb="):
        settings["GLIBC_TUNABLES"] = "glibc.malloc." + configuration
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-") as folder:
        report = os.path.join(folder, "run.json")
        command = [PAGEWISE, "run", "--quiet", "--exact", "--policy", "plain", "--json", report, "--", "Rscript", SCRIPT,
                   workload, configuration.split("#")[0], f"{scale:g}"]
        load = os.getloadavg()[0]
        done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RunFailed(f"exit status {done.returncode}: {done.stderr[-500:].strip()}")
        with open(report, encoding="utf-8") as file:
            whole = json.load(file)
        figures = json.loads(done.stdout.strip().splitlines()[-1])
    return {**figures, "peak_bytes": round(whole["measurements"][0]["peak_bytes"]), "load": round(load, 2),
            "when": datetime.datetime.now().astimezone().isoformat(timespec="seconds")}


class Plan:
    """Rounds of runs: each round of a workload holds plain and whatever configurations still lack rounds, in an order drawn anew;
    every workload gets its n-th round before any gets its n+1-th."""

    def __init__(self, store, scale, workloads, configurations, rounds, session, now=None):
        self.store, self.scale, self.rounds, self.session = store, scale, rounds, session
        self.workloads, self.configurations = workloads, configurations
        self.versions = now or versions()
        self.failed = set()
        self.order = random.Random(session)

    def records(self, workload=None):
        """Runs that count: of this script, and of this library where it matters, on such a machine."""
        machine = self.store.sessions[self.session]["machine_id"]
        wanted = {"scale": self.scale, **({"workload": workload} if workload else {})}
        return [r for r in self.store.of_kind("run", **wanted)
                if r["script"] == self.versions["script"] and self.store.machine_of(r) == machine
                and r["library"] in (None, self.versions["library"])]

    def done(self, workload, configuration):
        rounds = {}
        for record in self.records(workload):
            rounds.setdefault(record["round"], set()).add(record["configuration"])
        return sum({PLAIN, configuration} <= found for found in rounds.values())

    def lacking(self, workload):
        return [c for c in self.configurations if (workload, c) not in self.failed and self.done(workload, c) < self.rounds]

    def next_round(self):
        """(workload, round, configurations to run), or None when all is done."""
        open_ones = [w for w in self.workloads if self.lacking(w) and (w, PLAIN) not in self.failed]
        if not open_ones:
            return None
        workload = min(open_ones, key=lambda w: min(self.done(w, c) for c in self.lacking(w)))
        members = {PLAIN, *self.lacking(workload)}
        if OURS in members and CONTROL in self.configurations:
            members.add(CONTROL)  # the noise of the same hours
        members = [c for c in CONFIGURATIONS if c in members and (workload, c) not in self.failed]
        self.order.shuffle(members)
        earlier = len({record["round"] for record in self.records(workload)})
        return workload, f"{self.session}-{earlier + 1}", members

    def seconds_left(self):
        total = 0
        for workload in self.workloads:
            lacking = {c: self.rounds - self.done(workload, c) for c in self.lacking(workload)}
            if lacking and (workload, PLAIN) not in self.failed:
                lacking[PLAIN] = max(lacking.values())
                total += sum(lacking.values()) * self.seconds_of(workload)
        return total

    def seconds_of(self, workload):
        spent = [r["whole_seconds"] for r in self.store.of_kind("run", scale=self.scale, workload=workload)][-7:]
        return sum(spent) / len(spent) if spent else GUESS_SECONDS / self.scale

    def keep(self, workload, configuration, round_name, figures, name):
        self.store.add({
            "kind": "run", "scale": self.scale, "workload": workload, "configuration": configuration, "round": round_name,
            "session": self.session, "script": self.versions["script"],
            "library": self.versions["library"] if configuration in (OURS, ISM) else None, **figures,
        }, name)
