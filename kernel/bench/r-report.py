#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turn the machine's RUN lines into docs/results/mmapcopy-r.md: r-report.py --source VERSION --output FILE LOG"""

import argparse
import base64
import os
import re
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, "scripts"), os.path.join(ROOT, "bench")]
import pagewise_statistics  # noqa: E402  (found by the line above)
import verdicts  # noqa: E402
from intervals import at_most, geometric  # noqa: E402
from intervals import mean as mean_of  # noqa: E402
from page import Page, figure, said, table  # noqa: E402

RUN = re.compile(r"^RUN case=(\S+) configuration=(\S+) round=(\d+) peak=(\d+) cpu=(\d+) ksmd=(\d+) status=(\d+) output=(\S+)")
CONFIGURATIONS = ["plain", "direct", "ksm", "published", "mmapcopy"]
CASES = {
    "keep-copies": "40 copies of 6.4 MB, one write each, 10 kept",
    "modified-argument": "a function modifies its 6.4 MB argument, 60 times",
    "modified-chain": "x <- f(x), 60 versions of 6.4 MB",
    "frame-versions": "data frame of 20 columns (10 MB), 10 steps, all versions kept",
    "copy-overwrite": "copy 6.4 MB, then overwrite all of it, 20 times",
    "b25-1": "regression, order 260, 3 times",
    "b25-2": "FFT of 150,000 values, 6 times",
    "b25-3": "inverse, order 200, 3 times",
    "b25-4": "gcd of 60,000 pairs, 4 times",
    "lda": "linear discriminant analysis, 3000 x 40, 2 folds",
    "rpart": "classification tree, 3000 x 24, 2 folds",
}
NO_WORSE = 1.01
SHARING = ["keep-copies", "modified-argument", "modified-chain", "frame-versions"]


class Run:
    def __init__(self, match):
        self.case, self.configuration = match[1], match[2]
        self.peak, self.cpu, self.ksmd = int(match[4]), int(match[5]) / 1e6, int(match[6]) / 100
        self.failed, self.output, self.counts = match[7] != "0", match[8], {}


def counts_of(text):
    with tempfile.NamedTemporaryFile() as file:
        file.write(base64.b64decode(text))
        file.flush()
        return pagewise_statistics.read(file.name, pagewise_statistics.fields()) or {}


def read(path):
    runs = []
    with open(path, encoding="utf-8", errors="replace") as log:
        for line in log:
            match = RUN.match(line)
            if match:
                runs.append(Run(match))
            elif line.startswith("STATISTICS ") and runs:
                runs[-1].counts = counts_of(line.split()[1])
    return runs


def doctor(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        return next((" ".join(line.split()[1:]) for line in log if re.match(r"DOCTOR \w+ +mmapcopy ", line)), None)


def mean(runs, case, configuration, value):
    values = [value(run) for run in runs if (run.case, run.configuration) == (case, configuration) and not run.failed]
    return mean_of(values) if values else None


def ratios(runs, cases, value, above, below):
    found = [(mean(runs, case, above, value), mean(runs, case, below, value)) for case in cases]
    known = [one / other for one, other in found if one and other and one > 0 and other > 0]
    return geometric(known) if known else None


def cases(runs, value, digits):
    rows = []
    for case, title in CASES.items():
        values = [mean(runs, case, configuration, value) for configuration in CONFIGURATIONS]
        if not any(value is not None for value in values):
            continue
        published, call = values[-2:]
        ratio = call / published if published and call is not None and published > 0 else None
        rows.append([f"{case}: {title}", *(figure(value, digits) for value in values), figure(ratio, 2)])
    return table(["case", *CONFIGURATIONS, "mmapcopy / published"], rows)


def counters(runs):
    rows = []
    for case in CASES:
        published, call = ([run.counts for run in runs if (run.case, run.configuration) == (case, one)] for one in ("published", "mmapcopy"))
        if published and call:
            rows.append([case, *(published[-1].get(name, "-") for name in ("copies_shared", "publishes")),
                         *(call[-1].get(name, "-") for name in ("copies_shared", "copies_by_mmapcopy", "fallback_mmapcopy"))])
    return table(["case", "copies shared, published", "snapshots written", "copies shared, mmapcopy", "of these by the call", "failed calls"], rows)


def targets(runs, of_values):
    """Each figure over the cases that keep copies and over all, with a verdict each."""
    rows = []
    for title, value in of_values:
        row = [title]
        for names in (SHARING, CASES):
            ratio = ratios(runs, names, value, "mmapcopy", "published")
            row += [figure(ratio), "not measured" if ratio is None else said(at_most(ratio, ratio, NO_WORSE))]
        rows.append(row)
    return table(["", "the four cases that keep copies", "", "all", ""], rows)


def wrong_outputs(runs):
    """Cases whose runs did not all end well and print the same."""
    return sorted({run.case for run in runs
                   if run.failed or run.output != next(r.output for r in runs if r.case == run.case)})


WAYS = [
    ("plain", "R alone"),
    ("direct", "`policy=direct`: each large vector mapped by itself, the papers' control"),
    ("ksm", "the same, and the kernel merges equal pages (100 pages every 20 ms); ksmd's time is counted"),
    ("published", "Pagewise as on a stock kernel: `policy=auto,mmapcopy=off`"),
    ("mmapcopy", "Pagewise as it is on this kernel: `policy=auto`"),
]


def written(runs, source, doctor_said):
    """The page of these runs."""
    base = mean(runs, "baseline", "plain", lambda run: run.peak)
    rounds = max((sum((run.case, run.configuration) == (case, "plain") for run in runs) for case in CASES), default=0)

    def above(run):
        return (run.peak - base) / 1e6

    def cpu(run):
        return run.cpu + run.ksmd

    wrong = wrong_outputs(runs)
    page = Page("R on a kernel with mmapcopy(2)", verdicts.of_mmapcopy_r)
    page.add(f"Written by `make bench-kernel-r` (`kernel/run bench-r`): R in a virtual machine, {source} with the series of kernel/patches, {rounds} run(s) "
             "of each. What the call itself costs, beside fork and memcpy, is in [mmapcopy.md](mmapcopy.md).",
             "**The machine's processor is emulated in software, and its time is the number of instructions it executed** (one a nanosecond; `-icount`). "
             "Figures hardly depend on what else the host did. They know nothing of caches, TLBs and memory bandwidth. A copy of memory, which real "
             "processors make fast, costs as much as its instructions, and so does a page fault. Only columns of one table are to be compared. Sizes are "
             "small, so that a pass takes minutes: R itself is taken off the memory table (the peak of an R that does nothing).",
             table(["configuration", "what it is"], WAYS),
             "Memory is the highest charge of a control group that holds the one process: its pages, each once, memory files and page tables. Cases are "
             "the scripts of bench/foundation and bench/r; learners run without mlr. The machine has Debian's plain BLAS.",
             f"`pagewise doctor` there: {doctor_said}" if doctor_said else None)
    page.section("Peak memory above R's own, MB", cases(runs, above, 1))
    page.section("CPU time, seconds of instructions", cases(runs, cpu, 2))
    page.section("How copies were made", counters(runs))
    page.section("Targets", f"Geometric means of mmapcopy / published, over the cases. No worse is met: at most {NO_WORSE}.",
                 targets(runs, [("peak memory above R's own", above), ("CPU time", cpu)]),
                 "Every run ended well and printed what the plain one printed." if not wrong else
                 f"**Runs that failed, or printed something else than the first: {', '.join(wrong)}**")
    return page


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("log")
    arguments = parser.parse_args()
    runs = read(arguments.log)
    if not any(run.case == "baseline" for run in runs) or len(runs) < 2:
        sys.exit(f"{arguments.log}: no baseline and runs to report")
    written(runs, arguments.source, doctor(arguments.log)).write(arguments.output)
    sys.exit(1 if wrong_outputs(runs) else 0)


if __name__ == "__main__":
    main()
