#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turn the machines' logs into docs/results/mmapcopy.md: report.py --logs FOLDER --output FILE --image NAME-KEY ..."""

import argparse
import os
import re
import statistics
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "bench"))
import verdicts  # noqa: E402  (found by the line above)
from intervals import MET, MISSED, UNDECIDED, at_most  # noqa: E402
from page import Page, Tables, said, span, table  # noqa: E402

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
PAGES = [("small", "4 KB pages"), ("huge", "huge pages")]
FORK_BAR = 1.2
FORK_EVEN = .02
MUTANTS_BAR = 10
ROUNDS_BAR = 1000


class Logs:
    """The machines' logs, of none but the kernels that the sources describe now."""

    def __init__(self, folder, images):
        self.folder = folder
        self.images = {re.match(r"(.*)-[0-9a-f]{16}$", image)[1]: image for image in images}

    def read(self, title, kernel):
        path = os.path.join(self.folder, "machine-" + re.sub(r"[^A-Za-z0-9]", "-", title) + ".log")
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            return None
        return text if text.startswith(f"pagewise: kernel {self.images.get(kernel)}\n") else None

    def mutants(self):
        return sorted(name[len("mutant-"):] for name in self.images if name.startswith("mutant-"))

    def bench(self):
        """{(kernel, machine): (size in MB, rounds, {(pages, method, step): [ms by round]})}"""
        found = {}
        for name in sorted(os.listdir(self.folder)):
            match = re.match(r"bench-(\w+)-(\w+)\.log$", name)
            if not match:
                continue
            with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
                text = file.read()
            head = re.match(r"pagewise: bench size=(\d+) rounds=(\d+)\npagewise: kernel (\S+)\n", text)
            if not head or head[3] != self.images.get(match[1]):
                continue
            times = {}
            for pages, method, _, step, ms in LINE.findall(text):
                times.setdefault((pages, method, step), []).append(float(ms))
            found[match[1], match[2]] = int(head[1]), int(head[2]), times
        return found


# --- benchmarks ------------------------------------------------------------------------------------


def is_counted(key):
    return key[1] == "counted"


def pooled(bench, kernel, counted, *step):
    return [ms for key, (_, _, times) in bench.items() if key[0] == kernel and is_counted(key) == counted
            for ms in times.get(step, [])]


def show(values):
    if not values:
        return "–"
    middle = statistics.median(values)
    digits = 3 if middle < 1 else 1 if middle < 1000 else 0
    return f"{middle:.{digits}f}"


def steps(bench, counted, pages):
    rows = []
    for method, title in METHODS:
        cells = [show(pooled(bench, "release", counted, pages, method, step)) for step, _ in STEPS]
        if any(cell != "–" for cell in cells):
            rows.append([title, *cells])
    return table(["method", *(title for _, title in STEPS)], rows)


def ratios(bench, counted, pages):
    """mmapcopy against fork, round by round of one machine."""
    found = []
    for key, (_, _, times) in bench.items():
        if key[0] == "release" and is_counted(key) == counted:
            mine, forks = times.get((pages, "mmapcopy", "copy"), []), times.get((pages, "fork", "copy"), [])
            found += [a / b for a, b in zip(mine, forks)]
    return found


def fork_rows(bench):
    for counted in (True, False):
        for pages, title in PAGES:
            before, after = (pooled(bench, kernel, counted, pages, "fork-alone", "copy") for kernel in ("stock", "release"))
            if before and after:
                unit = "instructions" if counted else "time"
                yield [f"{title}, {unit}", show(before), show(after), f"{statistics.median(after) / statistics.median(before):.3f}",
                       f"{min(before):.1f} to {max(before):.1f}", f"{min(after):.1f} to {max(after):.1f}"]


def tables(bench, counted, found, machines):
    for pages, title in PAGES:
        yield f"{found[0][0]} MB in {title}, {found[0][1]} rounds in each of {len(found)} {machines}:"
        yield steps(bench, counted, pages)


def benchmarks(page, bench):
    timed = [value for key, value in bench.items() if key[0] == "release" and not is_counted(key)]
    counted = [value for key, value in bench.items() if key[0] == "release" and is_counted(key)]
    if timed:
        page.section("Copies, and what they cost afterwards",
                     "Times in milliseconds, medians. *Source* columns: the same on the other side, after the copy's side had its turn. The copy side of "
                     "`fork` is its child. For the published mapping the contents are in the file already; both sides are alike, so there is one set of "
                     "columns. The first to write all pays the host for memory that the machine never used before: with few rounds `write all` of "
                     "mmapcopy, which is measured first, holds that too.",
                     *tables(bench, False, timed, "machine(s) with two processors"))
    if counted:
        page.add("The same where time is the number of instructions executed (one a nanosecond, one processor). What the host did besides does not "
                 "show, nor do caches and TLBs. A child's share cannot be told from its parent's there while they wait for each other, but the copy can.",
                 *tables(bench, True, counted, "machine(s) with one"))
    rows = list(fork_rows(bench))
    if rows:
        page.add("fork itself, without the series and with it (ms; nothing else was run in the machine before):",
                 table(["memory", "unpatched", "patched", "patched / unpatched", "unpatched, fastest to slowest", "patched"], rows))


# --- targets ---------------------------------------------------------------------------------------

NOT_RUN = "not run with these patches"


def decided(met):
    """The word for a check that is true or false."""
    return MET if met else MISSED


def tests_row(logs):
    cells, met = [], True
    for kernel in ("release", "debug"):
        text = logs.read(f"mmapcopy selftest, {kernel}", kernel)
        if text is None:
            cells.append(f"{kernel}: {NOT_RUN}")
            met = False
            continue
        lines = re.findall(r"^((?:not )?ok) \d+ mmapcopy\.\S+(.*)$", text, re.M)
        failed = sum(1 for status, _ in lines if status != "ok")
        skipped = sum(1 for _, rest in lines if "SKIP" in rest)
        clean = "\npagewise: log without trouble" in text and "\npagewise: end" in text
        cells.append(f"{kernel}: {len(lines) - failed - skipped} passed, {failed} failed, {skipped} skipped, "
                     f"{'nothing' if clean else '**trouble**'} in the log")
        met = met and clean and not failed
    kasan = logs.read("mmapcopy selftest, kasan", "kasan")
    if kasan is not None:
        lines = re.findall(r"^((?:not )?ok) \d+ mmapcopy\.", kasan, re.M)
        clean = "\npagewise: log without trouble" in kasan and "\npagewise: end" in kasan
        cells.append(f"KASAN: {lines.count('ok')} passed or skipped, {lines.count('not ok')} failed, "
                     f"{'nothing' if clean else '**trouble**'} in the log")
        met = met and clean and "not ok" not in lines
    return "; ".join(cells), met


def mutants_row(logs):
    texts = {name: logs.read(f"mutant {name}", f"mutant-{name}") for name in logs.mutants()}
    caught = [name for name, text in texts.items() if text and "\npagewise: caught by " in text]
    others = sorted(set(texts) - set(caught))
    return (f"{len(caught)} of {len(texts)} caught" + (f"; not, or not run: {', '.join(others)}" if others else ""),
            len(caught) >= MUTANTS_BAR and not others)


def line_of(logs, pattern):
    """The figures that a selftest printed, in each kernel that it ran in."""
    found = {}
    for kernel in ("release", "debug", "kasan"):
        match = re.search(pattern, logs.read(f"mmapcopy selftest, {kernel}", kernel) or "")
        if match:
            found[kernel] = [int(number) for number in match.groups()]
    return found


def pages_row(logs):
    found = line_of(logs, r"extra pages at copy: (\d+); after one write: (\d+)")
    return ("; ".join(f"{kernel}: {a} and {b}" for kernel, (a, b) in found.items()) or NOT_RUN,
            bool(found) and all(pair == [0, 1] for pair in found.values()))


def swap_row(logs):
    found = line_of(logs, r"shared entries swapped out: (\d+) of (\d+)")
    return ("; ".join(f"{kernel}: {a} of {b} ({100 * a / b:.0f} %)" for kernel, (a, b) in found.items()) or NOT_RUN,
            bool(found) and all(a == b for a, b in found.values()))


def race_row(logs):
    found = line_of(logs, r"rounds against writers, compaction and swap: (\d+); corruptions: (\d+)")
    text = logs.read("mmapcopy selftest, debug", "debug") or ""
    lockdep = "\npagewise: lockdep:1" in text
    return ("; ".join(f"{kernel}: {a} rounds, {b} corruptions" for kernel, (a, b) in found.items()) +
            (", lockdep on to the end" if lockdep else "") if found else NOT_RUN,
            lockdep and "debug" in found and found["debug"][0] >= ROUNDS_BAR and not any(b for _, b in found.values()))


def copy_rows(bench):
    """Instructions and time each with a verdict: neither stands for the other."""
    for pages, title in PAGES:
        for counted, what in ((True, "instructions"), (False, "time")):
            values = ratios(bench, counted, pages)
            cell = span(statistics.median(values), values, more=f", {len(values)} pairs") if values else NOT_RUN
            yield f"{title}, {what}", cell, at_most(min(values), max(values), FORK_BAR) if values else MISSED


def fork_row(bench):
    """Noise is what the unpatched kernel's own rounds differ by. A difference of more than a fiftieth that lies within is undecided."""
    cells, words = [], []
    for pages, title in PAGES:
        before, after = (pooled(bench, kernel, True, pages, "fork-alone", "copy") for kernel in ("stock", "release"))
        if not before or not after:
            return NOT_RUN, MISSED
        middle = statistics.median(after)
        cells.append(f"{title}: {middle / statistics.median(before):.3f}, unpatched rounds "
                     f"{min(before) / statistics.median(before):.2f} to {max(before) / statistics.median(before):.2f}")
        even = abs(middle / statistics.median(before) - 1) <= FORK_EVEN
        words.append(MET if even else UNDECIDED if middle <= max(before) else MISSED)
    word = next(one for one in (MISSED, UNDECIDED, MET) if one in words)
    return "medians of instructions, of the unpatched median: " + "; ".join(cells), word


def r_row(path):
    """What the page of the R runs says."""
    try:
        with open(path, encoding="utf-8") as file:
            tables_of_r = Tables(file.read())
    except OSError:
        return NOT_RUN, MISSED
    told = {cells[0]: cells[1:3] for where, _, cells in tables_of_r.rows if where == verdicts.TARGETS}
    memory, cpu = told.get("peak memory above R's own"), told.get("CPU time")
    if not memory or not cpu:
        return NOT_RUN, MISSED
    return (f"memory {memory[0]}, CPU {cpu[0]} of published, four cases that keep copies ([mmapcopy-r.md](mmapcopy-r.md))",
            decided(memory[1] == cpu[1] == MET))


def mm_row(paths):
    try:
        texts = [open(path, encoding="utf-8").read().splitlines() for path in paths]
    except OSError:
        return NOT_RUN, False
    programs = sorted({line.split(":")[0] for text in texts for line in text})
    differ = [name for name in programs
              if [line for line in texts[0] if line.startswith(name + ":")]
              != [line for line in texts[1] if line.startswith(name + ":")]]
    return (f"{len(programs)} programs, {len(texts[1])} results, " +
            (f"different in {', '.join(differ)}" if differ else "the same"), not differ and bool(programs))


def targets(logs, bench, options):
    def checked(cell, met):
        return cell, decided(met)

    rows = [("checks passed in release and debug kernels, nothing in the log", "all", *checked(*tests_row(logs))),
            ("mutants of the patch, one for each rule of the design, killed by a named test", "at least 10, all",
             *checked(*mutants_row(logs))),
            ("extra anonymous pages at copy; after one write to a page", "0; 1", *checked(*pages_row(logs))),
            ("shared PTEs that reclaim can swap out under pressure", "100 %", *checked(*swap_row(logs)))]
    rows += [(f"mmapcopy against fork of the same memory in the same machine, {title}", f"at most {FORK_BAR}x", cell, word)
             for title, cell, word in copy_rows(bench)]
    rows += [("writers, compaction and swap against copies, under lockdep", "1,000 rounds; 0 corruptions", *checked(*race_row(logs))),
             ("fork's own time, patched against unpatched kernel", "within noise", *fork_row(bench)),
             ("the paper's sharing in R, mmapcopy against published snapshots", "no worse", *r_row(options.r)),
             ("the kernel's own tests of memory before and after the series", "the same", *checked(*mm_row(options.mm)))]
    return table(["figure", "must reach", "reached", "verdict"],
                 [[figure, bar, cell, "–" if cell == NOT_RUN else said(word)] for figure, bar, cell, word in rows])


def written(logs, options):
    """The page of these logs."""
    bench = logs.bench()
    page = Page("mmapcopy(2) beside fork, memcpy and a published mapping", verdicts.of_mmapcopy)
    page.add("Written by `make bench-kernel` (`kernel/run bench`; `kernel/run results` writes it again from what ran last): "
             f"{options.source}, the series of kernel/patches, QEMU with software emulation. What the call does for R, SAC'16's targets, is in "
             "[mmapcopy-r.md](mmapcopy-r.md).",
             "**The machine's processor is emulated in software.** An access to memory, a page fault and a system call cost other multiples of their "
             "real time. Only columns of one table are to be compared, no times to be kept.")
    page.section("Targets", targets(logs, bench, options),
                 "The tests and mutants are from `make test-kernel` and `kernel/run mutants`, with the very kernels that the patches make now: a result "
                 "of older ones counts as not run. fork's noise is the spread of the unpatched kernel's own rounds. Where the medians differ by more than "
                 "2 % within it the row is undecided, and so is one whose pairs lie on both sides of a target.")
    benchmarks(page, bench)
    return page


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", required=True)
    parser.add_argument("--image", action="append", default=[], required=True)
    parser.add_argument("--mm", nargs=2, required=True)
    parser.add_argument("--r", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    written(Logs(options.logs, options.image), options).write(options.output)
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
