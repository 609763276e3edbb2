#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turn the machine's BENCH lines into docs/results/mmapcopy.md: report.py --output FILE LOG..."""

import argparse
import os
import re
import statistics
import sys

LINE = re.compile(r"BENCH pages=(\w+) method=([\w-]+) round=(\d+) step=(\S+) ms=([\d.]+)")
METHODS = [
    ("mmapcopy", "mmapcopy"),
    ("fork", "fork"),
    ("memcpy-fresh", "memcpy to fresh memory"),
    ("memcpy-warm", "memcpy to warm memory"),
    ("published", "mapping of a published memfd"),
]
STEPS = [
    ("copy", "copy"),
    ("read-all", "read all"),
    ("write-1%", "write 1 %"),
    ("write-all", "write all"),
    ("source-read-all", "source: read all"),
    ("source-write-1%", "source: write 1 %"),
    ("source-write-all", "source: write all"),
]
FORK_BAR = 1.2


def read(paths):
    """{(kernel, machine, pages, method, step): [ms by round]}"""
    times = {}
    for path in paths:
        kernel, machine = re.match(r"bench-(\w+)-(\d+)\.log$", os.path.basename(path)).groups()
        with open(path, encoding="utf-8", errors="replace") as log:
            for pages, method, _, step, ms in LINE.findall(log.read()):
                times.setdefault((kernel, machine, pages, method, step), []).append(float(ms))
    return times


def pooled(times, kernel, pages, method, step):
    return [ms for key, values in times.items() if (key[0],) + key[2:] == (kernel, pages, method, step)
            for ms in values]


def show(values):
    if not values:
        return "–"
    middle = statistics.median(values)
    digits = 3 if middle < 1 else 1 if middle < 1000 else 0
    return f"{middle:.{digits}f}"


def table(times, pages):
    yield "| method | " + " | ".join(title for _, title in STEPS) + " |"
    yield "|---|" + "---:|" * len(STEPS)
    for method, title in METHODS:
        cells = [show(pooled(times, "release", pages, method, step)) for step, _ in STEPS]
        if any(cell != "–" for cell in cells):
            yield f"| {title} | " + " | ".join(cells) + " |"


def ratios(times, pages):
    """mmapcopy against fork, round by round of one machine."""
    found = []
    for (kernel, machine, its_pages, method, step), mine in times.items():
        if (kernel, its_pages, method, step) == ("release", pages, "mmapcopy", "copy"):
            found += [a / b for a, b in zip(mine, times[kernel, machine, pages, "fork", "copy"])]
    return found


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f}, {len(values)} pairs)"


def fork_rows(times):
    for pages in ("small", "huge"):
        for kernel in ("stock", "release"):
            by_machine = [statistics.median(values) for key, values in sorted(times.items())
                          if (key[0],) + key[2:] == (kernel, pages, "fork-alone", "copy")]
            every = pooled(times, kernel, pages, "fork-alone", "copy")
            yield (f"| {pages} | {'unpatched' if kernel == 'stock' else 'patched'} | {show(every)} | "
                   f"{show([min(every)])} | " + ", ".join(show([value]) for value in by_machine) + " |")


def page(times, options):
    yield "# mmapcopy(2) beside fork, memcpy and a published mapping"
    yield ""
    yield f"Written by `make bench-kernel` (`kernel/run bench`): {options.size} MB, {options.rounds} rounds in each of"
    yield f"{len({key[1] for key in times if key[0] == 'release' and key[3] == 'mmapcopy'})} virtual machines a kernel, " \
          f"{options.source}, " \
          f"QEMU with `{options.accelerator}`."
    yield "What the call does for R is in [mmapcopy-r.md](mmapcopy-r.md)."
    yield ""
    if "tcg" in options.accelerator:
        yield "**The machine's processor is emulated in software.** An access to memory, a page fault and a system call"
        yield "cost other multiples of their real time. Only columns of one table are to be compared, no times to be kept."
        yield ""
    yield "Times in milliseconds, medians. *Source* columns: the same on the other side, after the copy's side had its"
    yield "turn. The copy side of `fork` is its child. For the published mapping the contents are in the file already;"
    yield "both sides are alike, so there is one set of columns."
    for pages, title in (("small", "4 KB pages"), ("huge", "Huge pages")):
        yield ""
        yield f"## {title}"
        yield ""
        yield from table(times, pages)
    yield ""
    yield "## Bars"
    yield ""
    yield "| bar | result | |"
    yield "|---|---|---|"
    for pages, title in (("small", "4 KB pages"), ("huge", "huge pages")):
        values = ratios(times, pages)
        verdict = "met" if statistics.median(values) <= FORK_BAR else "**missed**"
        yield f"| mmapcopy / fork of the same memory, {title}: at most {FORK_BAR} | {spread(values)} | {verdict} |"
    yield ""
    yield "fork itself, before and after the series (ms; nothing else was run in the machine before):"
    yield ""
    yield "| pages | kernel | median | fastest | medians of each machine |"
    yield "|---|---|---:|---:|---|"
    yield from fork_rows(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", required=True)
    parser.add_argument("--rounds", required=True)
    parser.add_argument("--accelerator", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("logs", nargs="+")
    options = parser.parse_args()
    times = read(options.logs)
    if not times:
        sys.exit("report.py: no BENCH lines in " + " ".join(options.logs))
    text = "\n".join(page(times, options)) + "\n"
    with open(options.output + ".partial", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(options.output + ".partial", options.output)
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
