#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turn the machine's RUN lines into docs/results/mmapcopy-r.md: r-report.py --source VERSION --output FILE LOG"""

import argparse
import base64
import math
import os
import re
import statistics
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, "scripts"), os.path.join(ROOT, "bench")]
import pagewise_statistics  # noqa: E402  (found by the line above)
from verdicts import finished  # noqa: E402

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
    return statistics.fmean(values) if values else None


def geometric(values):
    return math.exp(statistics.fmean(math.log(value) for value in values)) if values else None


def ratios(runs, cases, value, above, below):
    found = [(mean(runs, case, above, value), mean(runs, case, below, value)) for case in cases]
    return geometric([one / other for one, other in found if one and other and one > 0 and other > 0])


def cell(value, digits=1):
    return "–" if value is None else f"{value:.{digits}f}"


def table(runs, value, digits):
    yield "| case | " + " | ".join(CONFIGURATIONS) + " | mmapcopy / published |"
    yield "|---|" + "---:|" * (len(CONFIGURATIONS) + 1)
    for case, title in CASES.items():
        values = [mean(runs, case, configuration, value) for configuration in CONFIGURATIONS]
        if not any(value is not None for value in values):
            continue
        published, call = values[-2:]
        ratio = call / published if published and call is not None and published > 0 else None
        yield f"| {case}: {title} | " + " | ".join(cell(value, digits) for value in values) + f" | {cell(ratio, 2)} |"


def verdict(ratio, bar=NO_WORSE):
    return "not measured" if ratio is None else f"{ratio:.3f} ({'met' if ratio <= bar else 'missed'})"


def counters(runs):
    yield "| case | copies shared, published | snapshots written | copies shared, mmapcopy | of these by the call | failed calls |"
    yield "|---|---:|---:|---:|---:|---:|"
    for case in CASES:
        published = [run.counts for run in runs if (run.case, run.configuration) == (case, "published")]
        call = [run.counts for run in runs if (run.case, run.configuration) == (case, "mmapcopy")]
        if published and call:
            cells = [published[-1].get("copies_shared"), published[-1].get("publishes"), call[-1].get("copies_shared"),
                     call[-1].get("copies_by_mmapcopy"), call[-1].get("fallback_mmapcopy")]
            yield f"| {case} | " + " | ".join(str(value) for value in cells) + " |"


def wrong_outputs(runs):
    """Cases whose runs did not all end well and print the same."""
    return sorted({run.case for run in runs
                   if run.failed or run.output != next(r.output for r in runs if r.case == run.case)})


def page(runs, arguments):
    base = mean(runs, "baseline", "plain", lambda run: run.peak)
    rounds = max((sum((run.case, run.configuration) == (case, "plain") for run in runs) for case in CASES), default=0)

    def above(run):
        return (run.peak - base) / 1e6

    def cpu(run):
        return run.cpu + run.ksmd

    wrong = wrong_outputs(runs)
    said = doctor(arguments.log)
    yield "# R on a kernel with mmapcopy(2)"
    yield ""
    yield f"Written by `make bench-kernel-r` (`kernel/run bench-r`): R in a virtual machine, {arguments.source} with the series of kernel/patches, {rounds} run(s) of"
    yield "each. What the call itself costs, beside fork and memcpy, is in [mmapcopy.md](mmapcopy.md)."
    yield ""
    yield "**The machine's processor is emulated in software, and its time is the number of instructions it executed** (one a"
    yield "nanosecond; `-icount`): figures hardly depend on what else the host did, and know nothing of caches, TLBs and memory"
    yield "bandwidth. A copy of memory, which real processors make fast, costs as much as its instructions, and so does a page"
    yield "fault. Only columns of one table are to be compared. Sizes are small, so that a pass takes minutes: R itself is"
    yield "taken off the memory table (the peak of an R that does nothing)."
    yield ""
    yield "| configuration | what it is |"
    yield "|---|---|"
    yield "| plain | R alone |"
    yield "| direct | `policy=direct`: each large vector mapped by itself, the papers' control |"
    yield "| ksm | the same, and the kernel merges equal pages (100 pages every 20 ms); ksmd's time is counted |"
    yield "| published | Pagewise as on a stock kernel: `policy=auto,mmapcopy=off` |"
    yield "| mmapcopy | Pagewise as it is on this kernel: `policy=auto` |"
    yield ""
    yield "Memory is the highest charge of a control group that holds the one process: its pages, each once, memory files and page"
    yield "tables. Cases are the scripts of bench/foundation and bench/r; learners run without mlr. The machine has Debian's plain BLAS."
    yield ""
    if said:
        yield f"`pagewise doctor` there: {said}"
        yield ""
    yield "## Peak memory above R's own, MB"
    yield ""
    yield from table(runs, above, 1)
    yield ""
    yield "## CPU time, seconds of instructions"
    yield ""
    yield from table(runs, cpu, 2)
    yield ""
    yield "## How copies were made"
    yield ""
    yield from counters(runs)
    yield ""
    yield "## Bars"
    yield ""
    yield f"Geometric means of mmapcopy / published, over the cases; met: no worse, that is at most {NO_WORSE}."
    yield ""
    yield "| | the four cases that keep copies | all |"
    yield "|---|---|---|"
    yield f"| peak memory above R's own | {verdict(ratios(runs, SHARING, above, 'mmapcopy', 'published'))} | {verdict(ratios(runs, CASES, above, 'mmapcopy', 'published'))} |"
    yield f"| CPU time | {verdict(ratios(runs, SHARING, cpu, 'mmapcopy', 'published'))} | {verdict(ratios(runs, CASES, cpu, 'mmapcopy', 'published'))} |"
    yield ""
    yield "Every run ended well and printed what the plain one printed." if not wrong else \
        "**Runs that failed, or printed something else than the first: " + ", ".join(wrong) + "**"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("log")
    arguments = parser.parse_args()
    runs = read(arguments.log)
    if not any(run.case == "baseline" for run in runs) or len(runs) < 2:
        sys.exit(f"{arguments.log}: no baseline and runs to report")
    text = finished("mmapcopy-r.md", "\n".join(page(runs, arguments)) + "\n")
    with open(arguments.output + ".partial", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(arguments.output + ".partial", arguments.output)
    sys.exit(1 if wrong_outputs(runs) else 0)


if __name__ == "__main__":
    main()
