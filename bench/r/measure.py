"""One measured run through `pagewise run`."""

import csv
import datetime
import hashlib
import json
import os
import subprocess
import tempfile

from common import PAGEWISE
from running import Interrupted, RunFailed, Signals, TimedOut, call  # noqa: F401 (Interrupted, for those who use this module)
from workloads import policy_of, uses_library

# Fields of the statistics block that the report uses; the others would only make the records longer.
KEPT = ("lazy_zero_bytes", "shared_copy_bytes", "private_copy_bytes", "published_bytes", "publishes", "copies_shared",
        "zero_scans", "zero_pages_checked", "zero_pages_found", "zero_reclaimed_bytes", "collections_seen",
        "purged_bytes", "decayed_bytes", "punched_bytes", "sole_owner_bytes", "gathered_bytes", "huge_bytes",
        "blocks_allocated", "allocated_warm", "allocated_mixed", "allocated_fresh", "bookkeeping_bytes",
        "collections_asked", "collections_asked_bytes", "freezes", "thaws", "frozen_nodes")
CURVE_POINTS = 240
KSM_FOLDER = "/sys/kernel/mm/ksm"


def now():
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def counters():
    """Of the whole machine: huge pages filled by faults, pages swapped in and out."""
    found = {}
    with open("/proc/vmstat", encoding="ascii") as file:
        for line in file:
            name, _, value = line.partition(" ")
            if name in ("thp_fault_alloc", "pswpin", "pswpout"):
                found[name] = int(value)
    return found


def asks_for_huge_pages(policy, enabled="/sys/kernel/mm/transparent_hugepage/enabled"):
    """Where the kernel gives them on request only, huge pages filled in the other policies' runs are somebody else's."""
    try:
        with open(enabled, encoding="ascii") as file:
            is_on_request = "[always]" not in file.read()
    except OSError:
        return False
    return policy in ("auto", "huge") or not is_on_request


def merging():
    """The kernel's page merging settings, to see that they are what they were."""
    found = {}
    for name in ("run", "pages_to_scan", "sleep_millisecs"):
        try:
            with open(os.path.join(KSM_FOLDER, name), encoding="ascii") as file:
                found[name] = file.read().strip()
        except OSError:
            pass
    return found


def run(configuration, command, signals, wants_curve=False, pagewise=PAGEWISE, preexec_fn=None,
        timeout=None):
    """Measures the command once; returns (record, curve). Raises Interrupted, RunFailed or TimedOut."""
    policy, options = policy_of(configuration)
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-") as folder:
        figures, curve = os.path.join(folder, "figures.json"), os.path.join(folder, "curve.csv")
        words = [pagewise, "run", "--quiet", "--exact", "--policy", policy, "--json", figures]
        words += ["--curve", curve] if wants_curve else []
        words += ["--options", options] if options else []
        load, before = os.getloadavg()[0], counters()
        with open(os.path.join(folder, "out"), "w+b") as out, open(os.path.join(folder, "errors"), "w+b") as errors:
            status = call(words + ["--", *command], signals, out, errors, timeout, preexec_fn=preexec_fn)
            out.seek(0)
            output = out.read()
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
        after = counters()
        try:
            with open(figures, encoding="utf-8") as file:
                result = json.load(file)
        except (OSError, ValueError):
            result = None
        if status or result is None:
            raise RunFailed(f"exit status {status}: " + "\n".join((said or "no message").splitlines()[-5:]))
        if uses_library(configuration) and not result["preloaded"]:
            raise RunFailed("the library was not at work: " + said)
        record = {
            "when": now(), "load": round(load, 2), **_figures(result),
            "huge_faults": (after.get("thp_fault_alloc", 0) - before.get("thp_fault_alloc", 0)
                            if asks_for_huge_pages(policy) else 0),
            "swapped_in": after.get("pswpin", 0) - before.get("pswpin", 0),
            "swapped_out": after.get("pswpout", 0) - before.get("pswpout", 0),
            "output": hashlib.md5(output).hexdigest()[:12],
        }
        return record, _thinned(curve, record["wall_seconds"]) if wants_curve else None


def _figures(result):
    one = result["measurements"][0]
    record = {
        "peak_bytes": round(one["peak_bytes"]), "average_bytes": round(one["average_bytes"]),
        "cpu_seconds": round(one["cpu_seconds"], 4), "system_seconds": round(one["system_seconds"], 4),
        "wall_seconds": round(one["wall_seconds"], 4), "minor_faults": result["page_faults"]["minor"],
        "major_faults": result["page_faults"]["major"], "samples": result["samples"],
        "missed_samples": result["missed_samples"], "sampler": result["sampler"],
        "swap_bytes": result["swap_bytes"], "page_table_bytes": result["page_table_bytes"],
        "cgroup_peak_bytes": result["cgroup_peak_bytes"],
    }
    if result["ksmd_cpu_seconds"] is not None:
        record["ksmd_seconds"] = round(result["ksmd_cpu_seconds"], 4)
    if result["statistics"]:
        block = result["statistics"]
        record["statistics"] = {name: block[name] for name in KEPT if block.get(name)}
        fell_back = {name: value for name, value in block.items() if name.startswith("fallback_") and value}
        record["statistics"].update(fell_back)
    return record


def _thinned(path, wall):
    """The highest memory within each of CURVE_POINTS equal stretches of the run, as the paper takes it second by second.

    The file has the corners of a line, so within a stretch its highest point is a corner or where it is cut.
    """
    with open(path, encoding="ascii", newline="") as file:
        corners = [(float(row["seconds"]), int(row["bytes"])) for row in csv.DictReader(file)]
    if not corners or wall <= 0:
        return None
    step = wall / CURVE_POINTS
    peaks, position = [], 0
    height = corners[0][1]
    for index in range(CURVE_POINTS):
        end = (index + 1) * step
        highest = height
        while position < len(corners) and corners[position][0] <= end:
            height = corners[position][1]
            highest = max(highest, height)
            position += 1
        if 0 < position < len(corners):
            (t0, b0), (t1, b1) = corners[position - 1], corners[position]
            height = b0 + (b1 - b0) * (end - t0) / (t1 - t0) if t1 > t0 else b1
            highest = max(highest, height)
        peaks.append(round(highest / 1e6, 1))
    return {"step_seconds": round(step, 4), "peak_mb": peaks}


def count_calls(configuration, command, signals, pagewise=PAGEWISE):
    """System calls of one run by name. Under strace a run is slower, so these runs are for counting alone."""
    policy, options = policy_of(configuration)
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-") as folder:
        summary = os.path.join(folder, "calls")
        words = [pagewise, "run", "--quiet", "--policy", policy] + (["--options", options] if options else [])
        words += ["--", "strace", "-f", "-qq", "-c", "-o", summary, *command]
        with open(os.path.join(folder, "errors"), "w+b") as errors:
            status = call(words, signals, subprocess.DEVNULL, errors)
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
        if status:
            raise RunFailed(f"exit status {status}: {said[-500:]}")
        with open(summary, encoding="utf-8", errors="replace") as file:
            return parse_strace(file)


def parse_strace(lines):
    """% time, seconds, usecs/call, calls, [errors,] name."""
    calls = {}
    for line in lines:
        words = line.split()
        if len(words) >= 5 and words[0][0].isdigit() and words[3].isdigit() and words[-1] != "total":
            calls[words[-1]] = int(words[3])
    return calls
