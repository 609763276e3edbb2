"""Small made-up data of what each benchmark measures, to see that its page is written."""

import argparse
import json
import os

FEW = {"runs": 2, "scale": 1.0, "inputs": 2, "seeds": 3, "requests": 50, "threads": [1, 5], "note": "", "page": ""}


def options(**more):
    """The words of a command."""
    return argparse.Namespace(**{**FEW, **more})


def foundation(folder):
    """Two cases of bench/foundation: one that is well, and one whose output differs. Returns the cases."""
    def ratio(name, peak, cpu):
        return {"name": name, "to": "plain", "peak": {"mean": peak, "low": peak - .01, "high": peak + .01}, "cpu": {"mean": cpu, "low": cpu - .02, "high": cpu + .02}}

    cases = [{"name": name, "title": title, "peak": .5, "cpu": .8} for name, title in (
        ("keep-copies", "keep 25 of 100"), ("add-10", "x + y on 10 MB"), ("fft", "not measured"))]
    for number, case in enumerate(cases[:2]):
        configuration = {"peak_bytes": {"mean": 100e6}, "cpu_seconds": {"mean": 2.0}, "wall_seconds": {"mean": 2.5}, "cgroup_peak_bytes": 90e6, "sampler": "frames",
                         "samples": 10, "missed_samples": 0}
        result = {"runs": 10, "ratios": [ratio("auto", .3, .78 + number), ratio("plain#2", 1.0, 1.01)],
                  "configurations": [{**configuration, "name": name, "output_matches": number == 0} for name in ("plain", "plain#2", "auto")]}
        wrapped = {"fingerprint": "", "status": 0, "result": result, "commit": "abc", "when": f"2026-01-0{number + 1}T00:00", "load_before": .5, "load_after": 1.5}
        with open(os.path.join(folder, case["name"] + ".json"), "w", encoding="utf-8") as file:
            json.dump(wrapped, file)
    return cases


def threads():
    """Sums of the statistics beside two packages, by title."""
    return {"no package": {"shared_copy_bytes": 160e6, "copies_shared": 10, "copies_seen": 10, "fallback_threads": 0},
            "cli": {"shared_copy_bytes": 158e6, "copies_shared": 9, "copies_seen": 10, "fallback_threads": 1},
            "httpuv serving (shiny, plumber)": {"shared_copy_bytes": 4e6, "copies_shared": 1, "copies_seen": 10, "fallback_threads": 9}}


def shared_rounds(kind):
    """Rounds of bench/share-r."""
    return [{"share": .3 if kind == "shared" else 0, "hand": (.01 if kind == "shared" else 8.0) + number / 100, "read": .5, "overwrite": .6, "bytes": 3000.0,
             "at idle": 1e9, "at made": 1.5e9, "at read": 1.5e9 + (kind == "plain") * 2e9, "at overwritten": 1.6e9 + (kind == "plain") * 2e9}
            for number in range(3)]


def overhead():
    """Runs of bench/trace/overhead: (elapsed, CPU, afterwards, bytes written)."""
    return {name: {configuration: [(2.0 * cost, 1.0 * cost, .1, 1e6), (2.1 * cost, 1.1 * cost, .2, 2e6)]
                   for configuration, cost in (("plain", 1), ("record", 1.2), ("record --stacks", 1.4), ("heaptrack", 1.6), ("plain again", 1.01))}
            for name in ("redis-benchmark", "ruby", "deep recursion")}


def replays(names):
    """(replay, trials) of each workload of bench/replay."""
    def outcome(gain):
        arm = {"ratio": gain, "random": {"mean": .9}, "groups": 3, "grouping": "lifetimes"}
        return {"chosen": ["lifetimes"] if gain < 1 else [], "ungrouped": {"average_pages": 100, "average_live_bytes": 300_000},
                "arms": [arm, arm, {**arm, "ratio": gain + .1}, {**arm, "ratio": gain + .2, "grouping": "sites", "random": None}]}

    allocator = {"peak_live_bytes": 20e6, "average_live_bytes": 10e6, "peak_resident_bytes": 25e6, "peak_fragmentation": 1.25, "average_resident_bytes": 12e6,
                 "average_fragmentation": 1.2, "cpu_seconds": .5, "stopped": ""}
    replay = {"operations": 1000, "threads": 1, "allocators": [{**allocator, "allocator": name} for name in ("glibc", "pagewise")]}
    return {name: (replay, [{"purge": purge, "outcome": outcome(.8 if name == "redis-jobs" else 1.0)} for purge in ("empty-spans", "empty-pages") for _ in range(2)])
            for name in names}


def transactions(allocators, resources, requests):
    """(results, requests, versions) of bench/transaction."""
    rows = []
    for run in range(1, 4):
        for place, name in enumerate(allocators):
            cost = 1 + .3 * place
            rows.append(["replay", "twig", name, run, int(2e6 * cost) + run, int(1.9e6 * cost), int(4e6 * cost)])
        for place, name in enumerate(resources):
            rows += [["json", request, name, run, int(3e6 * (1 + place / 4)) + run, 3_000_000, int(2e6 * (1 + place))] for request in requests]
        rows += [["free-all", "", name, run, nanoseconds, nanoseconds, 0] for name, nanoseconds in
                 (("free-all", 20_000), ("pw_heap_free", 9_000_000), ("free", 20_000_000))]
    recorded = [{"name": "twig", "what": "a page", "allocations": 1000, "bytes": 64_000, "frees": 900, "live_at_end": 100}]
    return rows, recorded, {"2": "2.3.2", "3": "3.3.2"}


def general(kept, patterns, names, hashed):
    """Two rounds of bench/general: each allocator takes a tenth longer than the one before it."""
    for number in range(2):
        for pattern in patterns:
            for place, name in enumerate(names):
                kept.add("run", round=number, pattern=pattern, hash=hashed(pattern), allocator=name, commit="abc", load=.5, seconds=2.0,
                         cpu_seconds=1 + place / 10, peak_kb=50_000.0 + number, mappings=30.0, after_kb=20_000.0)


def cluster(names):
    """Results of bench/rails/cluster, by what was asked for."""
    return {("cluster", name, 50, run): {"start_bytes": 100e6, "end_bytes": 300e6 + place * 10e6 + run, "parts": [60e6, *[60e6 + place * 2.5e6] * 4]}
            for place, name in enumerate(names) for run in range(2)}


def programs(folder):
    """Records of test/programs."""
    for program, configuration in (("postgres", "general"), ("node", "default")):
        record = {"program": program, "configuration": configuration, "runs": 4, "differences": 0, "crashes": 0, "hangs": 1, "blocks": 4000, "processes": 8,
                  "seconds": 20.0, "plain": 4.5, "fallbacks": {"fallback_threads": 2}, "versions": "postgresql 15", "perturbed": True}
        with open(os.path.join(folder, f"{program}.json"), "w", encoding="utf-8") as file:
            json.dump(record, file)


HOSTILE = {"sources": "abc", "next": 9, "quiet": {"share": 2e8}, "machine": {"huge": 1e6}}


def hostile(fields):
    """The counts of core/test/hostile/long."""
    return {**HOSTILE, **{part: {way: {field: 7 if field == "failures" else count for field in fields} for way, count in HOSTILE[part].items()}
                          for part in ("quiet", "machine")}}


def kernel_log(cases, configurations):
    """What a machine prints while R runs in it."""
    lines = ["DOCTOR good mmapcopy works", "RUN case=baseline configuration=plain round=1 peak=50000000 cpu=100 ksmd=0 status=0 output=x"]
    for place, case in enumerate(cases):
        for step, configuration in enumerate(configurations):
            lines.append(f"RUN case={case} configuration={configuration} round=1 peak={(100 + place - step) * 1000000} cpu={1000000 + 1000 * step} ksmd=0 status=0 output=x")
    return "\n".join(lines) + "\n"


def kernel_logs(folder):
    """Logs of the machines that run the call, and its selftests; returns the kernels' images."""
    images = {name: f"{name}-{'0' * 15}{number}" for number, name in enumerate(("release", "debug", "stock"))}
    for name, machine in (("release", "one"), ("release", "counted"), ("stock", "counted")):
        with open(os.path.join(folder, f"bench-{name}-{machine}.log"), "w", encoding="utf-8") as file:
            file.write(f"pagewise: bench size=64 rounds=2\npagewise: kernel {images[name]}\n")
            for pages in ("small", "huge"):
                for method, cost in (("mmapcopy", 1.0), ("fork", 1.1), ("fork-alone", 1.05)):
                    file.write("".join(f"BENCH pages={pages} method={method} round={number} step=copy ms={cost + number / 100}\n" for number in (1, 2)))
    with open(os.path.join(folder, "machine-mmapcopy-selftest--release.log"), "w", encoding="utf-8") as file:
        file.write(f"pagewise: kernel {images['release']}\nok 1 mmapcopy.one\nextra pages at copy: 0; after one write: 1\npagewise: log without trouble\npagewise: end\n")
    return list(images.values())
