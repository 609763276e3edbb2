"""docs/results/large-pages.md from the stored runs. What was not measured says so."""

import collections
import os

import cost_model
import plotting
import verdicts
from intervals import MET, MISSED, UNDECIDED, Ratio, geometric_mean, mean, verdict
from measure import ALWAYS, CONFIGURATIONS, CONTROL, ISM, OURS, PLAIN, SLIDES, WORKLOADS
from page import Page, facts, interval, said, span, table
from plotting import BLUE, GREY

# The slides' seconds without and with ISM on their newest CPU (Xeon E5430).
SLIDES_SECONDS = {"qr-hilbert-1000": (7.822, 5.323), "qr-hilbert-1024": (27.438, 114.259), "fft-1e7": (13.080, 12.154),
                  "fft-2^24": (30.590, 38.552), "lm-5000x10000": (30.493, 28.005)}
CPU_OF_SLIDES = [("Opteron 248", 20.197, 9.826), ("Opteron 275", 15.209, 5.987), ("Xeon E5430", 7.822, 5.323),
                 ("Xeon 3040", 12.555, 8.983), ("PowerPC G5", 27.214, 26.220)]
# Times faster than plain R that "ours" must reach.
BARS = {"add-1e7": 4, "transpose-3000": 2.5, "gather-2e7": 1.4, "scatter-2e7": 1.2}
WHY_NOT = {
    "add-1e7": "Plain R spends most of its time on page faults, and nearly all of that is gone. What is left is the addition itself, in memory too large for any cache: the next section shows "
               "what it reaches if large pages cost nothing.",
    "transpose-3000": "Met where large pages were to be had at a fair price, and not where the hypervisor had to find their memory (next section).",
    "scatter-2e7": "R changes the vector in place, without a page fault: page size is all there is to gain, and the next section says how much that is on this machine.",
    "gather-2e7": "What `pagewise_on()` gains here it gains by warm pages. Where the hypervisor makes fresh large pages dear it leaves them alone "
                  "([the rule](../design/huge-pages.md)); `ISM(TRUE)` takes them at any price.",
    "order-1e7": "R copies the vector and sorts the copy in place. The first copy of its size shares its pages, and all of them are written and so copied after all. "
                 "From the second `order()` of that size on they are not shared, and it is faster than plain R's. For a single one there is `pagewise_on(share = \"off\")`.",
}
MOST = 1.03  # of CPU and of memory, everywhere
MOST_MILLISECONDS = 50  # until a session is switched on
ENOUGH_ROUNDS = 10
SMALL_IN_LARGE = 512  # pages of 4 KB in one of 2 MB
LEAST_SECONDS = .05  # a mean below says nothing: clocks tick in milliseconds
# A gain or a loss is one of at least a twentieth.
GAIN, LOSS = .95, 1.05


class Nothing(Exception):
    """There is no run to write of."""


class Results:
    """The runs of one scale: of the script, machine and library that have most runs, of equals the newest."""

    def __init__(self, store, scale):
        self.store = store
        runs = store.of_kind("run", scale=scale)
        for value in (lambda r: r["script"], store.machine_of):
            runs = _most(runs, value)
        ours = _most([r for r in runs if r["library"]], lambda r: r["library"])
        self.library = ours[-1]["library"] if ours else None
        self.runs = [r for r in runs if r["library"] in (None, self.library)]
        self.rounds = collections.defaultdict(dict)
        for run in self.runs:
            self.rounds[run["workload"], run["round"]][run["configuration"]] = run
        self.workloads = [w for w in WORKLOADS if any(run["workload"] == w for run in self.runs)]

    def pairs(self, workload, configuration):
        return [(found[configuration], found[PLAIN]) for (name, _), found in self.rounds.items()
                if name == workload and configuration in found and PLAIN in found]

    def ratio(self, workload, configuration, value):
        """A Ratio to plain R of `value` of a run, or None where there are no pairs or nothing that a clock can tell."""
        pairs = [(value(a), value(b)) for a, b in self.pairs(workload, configuration)]
        if not pairs or not mean([b for _, b in pairs]) > LEAST_SECONDS:  # nor is what is no number
            return None
        return Ratio(pairs, stream=WORKLOADS.index(workload))

    def interval(self, workload, configuration, value):
        found = self.ratio(workload, configuration, value)
        return found.interval() if found else None

    def mean(self, workload, configuration, value):
        values = [value(run) for run in self.runs if (run["workload"], run["configuration"]) == (workload, configuration)]
        return mean(values) if values else None

    def modelled(self, bare):
        """CPU of a run where the first touch of a page costs `bare` microseconds."""
        return lambda run: cost_model.modelled_cpu(run, cost_model.costs_of(self.store, run), bare)

    def of_sessions(self, field):
        """What the sittings with these runs found of the machine, each."""
        names = {run["session"] for run in self.runs}
        return [found for name in sorted(names) if (found := self.store.sessions[name].get(field))]


def _most(runs, value):
    counted = collections.Counter(value(run) for run in runs)
    if not counted:
        return []
    newest = {value(run): run["when"] for run in runs}
    best = max(counted, key=lambda one: (counted[one], newest[one]))
    return [run for run in runs if value(run) == best]


def cpu(run):
    return run["cpu_seconds"]


def peak(run):
    return run["peak_bytes"]


def faults(run):
    return run["minor_faults"]


def cell(found):
    return interval(found, 2, missing="-")


def show(value, form):
    return "-" if value is None else format(value, form)


def targets(results):
    """Those of `ours`; where page size is what is asked about, of `ism` as well, which asks for large pages by name."""
    rows = []
    for workload in results.workloads:
        limit = 1 / BARS[workload] if workload in BARS else MOST
        rows.append(target(results, workload, OURS, cpu, "CPU", limit))
        if workload in BARS:
            rows.append(target(results, workload, ISM, cpu, "CPU, with `ISM(TRUE)`", limit))
        rows.append(target(results, workload, OURS, peak, "peak memory", MOST))
    return table(["workload", "at most", "measured", "", "A/A", "verdict"], [row for row in rows if row])


def target(results, workload, configuration, field, words, limit):
    found, control = (results.interval(workload, one, field) for one in (configuration, CONTROL))
    if not found:
        return None
    word = verdict(found, control, limit) if found["rounds"] >= ENOUGH_ROUNDS else UNDECIDED
    faster = times_faster(found["mean"]) + " times faster" if limit < 1 else ""
    return [f"{workload}, {words}", f"{limit:.2f}", cell(found), faster, cell(control), said(word)]


def times_faster(ratio):
    return f"{1 / ratio:.2f}"


def prices(results):
    """The targets that ask for speed, by whether a run got large pages, and without what the kernel took to make them."""
    rows = []
    for workload in (w for w in results.workloads if w in BARS):
        pairs, ism = results.pairs(workload, OURS), results.pairs(workload, ISM)
        given = [pair for pair in pairs if pair[0]["huge_faults"] * SMALL_IN_LARGE > pair[0]["minor_faults"]]
        refused = [pair for pair in pairs if pair not in given]
        rows.append([workload, f"{BARS[workload]:g}", *(mean_and_count(some) for some in (given, refused, ism)),
                     mean_and_count([({"cpu_seconds": a["cpu_seconds"] - a["system_seconds"]}, b) for a, b in ism])])
    if not rows:
        return []
    return ["## What the speeds hang on",
            "Times faster than plain R, mean (least to most; rounds). `pagewise_on()` takes large pages while they are cheap, and 4 KB pages when the hypervisor "
            "has to find their memory first. `ISM(TRUE)` takes large pages at any price. The last column leaves out the system time of its runs, as if pages cost "
            "nothing to get.",
            table(["workload", "target", "ours, mostly large pages", "ours, mostly 4 KB pages", "`ISM(TRUE)`", "`ISM(TRUE)`, user time alone"], rows)]


def mean_and_count(pairs):
    if not pairs:
        return "-"
    found = [cpu(b) / cpu(a) for a, b in pairs]
    return span(mean(found), found, more=f"; {len(found)}")


def explanations(results):
    """Why a target is not reached, for those of which it is known."""
    blocks = []
    for workload, why in WHY_NOT.items():
        found = results.interval(workload, OURS, cpu)
        if found and found["mean"] > (1 / BARS[workload] if workload in BARS else MOST):
            blocks.append(f"*{workload}*: {why}")
    return blocks


def interactive(results):
    """The target in milliseconds: the median over all sittings, beside the load."""
    found = results.of_sessions("interactive")
    if not found:
        return None
    took = sorted(one for sitting in found for one in sitting["milliseconds"])
    middle = took[len(took) // 2]
    loads = ", ".join(f"{sitting['load']:.1f}" for sitting in found)
    return (f"`library(pagewise); pagewise_on()` takes {middle:.0f} ms of wall time in the median of {len(took)} fresh R sessions ({took[0]:.0f} to {took[-1]:.0f} ms; "
            f"load {loads}). The target is {MOST_MILLISECONDS} ms: {said(MET if middle < MOST_MILLISECONDS else MISSED)}.")


def ratios(results, value):
    others = [c for c in CONFIGURATIONS if c != PLAIN and any(run["configuration"] == c for run in results.runs)]
    rows = [[workload, *(cell(results.interval(workload, c, value)) for c in others)] for workload in results.workloads]
    means = ["**geometric mean**"]
    for one in others:
        found = [ratio for w in results.workloads if (ratio := results.ratio(w, one, value))]
        means.append(cell(geometric_mean(found)) + ("" if len(found) == len(results.workloads) else f" of {len(found)}"))
    return table(["workload", *others], rows + [means])


def ceiling(results):
    found = results.of_sessions("ceiling")
    if not found:
        return []
    of = {name: mean([one[name] for one in found]) for name in found[0]}
    gather, scatter = (of[f"{kind}_small_ms"] / of[f"{kind}_huge_ms"] for kind in ("gather", "scatter"))
    return [
        "## What page size can give to random access here",
        "`bench/large-pages/ceiling.c` does the same loops in C on memory that was touched before: no allocation, no page fault, nothing but the translation of "
        "addresses differs. Milliseconds a pass, means of the sessions' medians:",
        table(["", "4 KB pages", "2 MB pages", "times faster"],
               [[f"{kind} 2e7", f"{of[kind + '_small_ms']:.0f}", f"{of[kind + '_huge_ms']:.0f}", f"{gain:.2f}"]
                for kind, gain in (("gather", gather), ("scatter", scatter))]),
        "R's gather also makes its result anew each time, where warm pages save page faults; R's scatter changes a vector in place, so that page size is all "
        "there is to gain.",
    ]


def slides(results):
    rows = []
    for workload in SLIDES:
        found = results.interval(workload, ISM, cpu)
        if not found:
            continue
        seconds = SLIDES_SECONDS.get(workload)
        now = ", ".join(show(results.mean(workload, c, cpu), ".2f") for c in (PLAIN, ISM))
        then, was, same = "-", "-", "-"
        if seconds:
            then, was = f"{seconds[0]:.2f}, {seconds[1]:.2f}", f"{seconds[1] / seconds[0]:.2f}"
            same = "yes" if trend(found["mean"]) == trend(seconds[1] / seconds[0]) else "**no**"
        rows.append([workload, then, was, now, cell(found), same])
    return [
        table(["workload", "slides: without, with ISM (s)", "slides' ratio", "here: plain, ISM (s)", "here: ratio", "reproduces"], rows),
        "*Reproduces*: both gain a twentieth or more, both lose as much, or neither. As typed in the slides, `sort(1:1e8)` makes no vector since R 3.5, and so no segment: here "
        "it sorts `1:1e8 + 0L`. Its segments are printed by `Rscript bench/large-pages/workload.R sort-1e8 ism 1`, before and after `gc()`.",
        "`qr(hilbert(1000))` by CPU, seconds without and with ISM:",
        table(["CPU", "without", "with"], [
            *([f"{name} (slides)", f"{a:.2f}", f"{b:.2f}"] for name, a, b in CPU_OF_SLIDES),
            [f"this machine ({_processor(results)})", *(show(results.mean("qr-hilbert-1000", c, cpu), ".2f") for c in (PLAIN, ISM))],
        ]),
    ]


def trend(ratio):
    return "gain" if ratio < GAIN else "loss" if ratio > LOSS else "even"


def _processor(results):
    facts = results.of_sessions("facts")
    return facts[-1]["machine"].split(",")[0] if facts else "unknown"


def model(results):
    costs = results.of_sessions("costs")
    here = {name: mean([one[name] for one in costs]) for name in ("touch_us", "huge_us")} if costs else {}
    here_costs = (f"Here the first touch of a 4 KB page costs {here['touch_us']:.2f} us, and {here['huge_us']:.2f} us within a fresh huge page. " if here else "")
    rows = []
    for workload in results.workloads:
        before, after = (results.mean(workload, c, faults) for c in (PLAIN, OURS))
        found = [results.interval(workload, OURS, value) for value in (cpu, *map(results.modelled, cost_model.BARE_TOUCH))]
        if found[0]:
            rows.append([workload, show(before, ",.0f"), show(after, ",.0f"), *map(cell, found)])
    return [
        "A page fault costs several times as much on a virtual machine as on a bare one. " + here_costs + "The R evaluation's cost model "
        "([bench-r.md](../reference/bench-r.md)) takes from each run what only the virtual machine charges; CPU of `ours` to plain R:",
        table(["workload", "faults, plain", "faults, ours", "as measured", *map(cost_model.at, cost_model.BARE_TOUCH)], rows),
    ]


def no_longer(results):
    """What the slides show and this machine does not, in words."""
    differs = {"gain": [], "loss": [], "even": []}
    for workload, (without, with_ism) in SLIDES_SECONDS.items():
        found = results.interval(workload, ISM, cpu)
        if found and found["rounds"] >= ENOUGH_ROUNDS and trend(found["mean"]) != trend(with_ism / without):
            differs[trend(with_ism / without)].append(workload)
    lines = []
    if differs["gain"]:
        lines.append(f"**No longer reproduces**: the gain of {', '.join(differs['gain'])}. Today's CPUs hold a working set of this size in their second-level TLB, or the "
                     "loop is bound by arithmetic.")
    if differs["loss"]:
        lines.append(f"**No longer reproduces either**: the loss at sizes that are a power of two ({', '.join(differs['loss'])}), which came from cache sets that large pages lined up.")
    if differs["even"]:
        lines.append(f"Neither gained nor lost there, and does here: {', '.join(differs['even'])}.")
    return lines


def plot(results, path):
    if not plotting.matplotlib:
        return plotting.WITHOUT
    rows = [(w, results.interval(w, OURS, cpu), results.interval(w, ISM, cpu)) for w in results.workloads]
    rows = [row for row in rows if row[1]]
    if not rows:
        return None
    figure, axes = plotting.plt.subplots(figsize=(9, 3.5))
    for shift, index, label, colour in ((-.2, 1, "ours", BLUE), (.2, 2, "ISM", GREY)):
        shown = [(at, row[index]) for at, row in enumerate(rows) if row[index]]
        axes.bar([at + shift for at, _ in shown], [one["mean"] for _, one in shown], .38, label=label, color=colour,
                 yerr=[[max(0.0, one["mean"] - one["low"]) for _, one in shown], [max(0.0, one["high"] - one["mean"]) for _, one in shown]], error_kw={"linewidth": .8})
    axes.axhline(1, color="black", linewidth=.6)
    axes.set_xticks(range(len(rows)), [row[0] for row in rows], rotation=40, ha="right")
    axes.set_ylabel("CPU time, to plain R")
    axes.legend(ncols=2, frameon=False)
    axes.grid(axis="y", linewidth=.3)
    folder, name = os.path.splitext(path)[0], "cpu"
    return plotting.save(figure, folder, name, "CPU time of large pages to plain R")


def write(store, scale, path):
    results = Results(store, scale)
    if not results.workloads:
        raise Nothing(f"nothing was measured yet at scale {scale:g}")
    least = min((len(results.pairs(w, OURS)) for w in results.workloads), default=0)
    page = Page("Large pages: the slides' tables, and where pages matter today", verdicts.of_large_pages)
    if scale != 1:
        page.is_provisional(f"A trial: sizes are divided by {scale:g}.")
    page.add(
        "Written by `make bench-large-pages`; the workloads are in `bench/large-pages/workload.R`. *ours* is `pagewise_on()` and *ism* is `ISM(TRUE)`, inside a "
        f"session. *hugetlb=1* and *=2* are glibc's tunable `glibc.malloc.hugetlb`. *{ALWAYS}* is transparent huge pages for every program. Ratios are to plain R "
        "in the same rounds, with 95 % intervals over paired rounds (of fewer than ten, Student's t, which is wide); below 1 is better. CPU time is of the "
        "measured part, memory the peak of the whole process in physical pages. *A/A* is plain R to plain R.",
        f"**{least} rounds where there are fewest: with fewer than {ENOUGH_ROUNDS} a target is undecided.**" if least < ENOUGH_ROUNDS else None)
    page.section("Targets", targets(results), *explanations(results), interactive(results), *prices(results), *ceiling(results))
    page.section("CPU time, to plain R", ratios(results, cpu), plot(results, path))
    page.section("Peak of physical memory, to plain R", ratios(results, peak))
    page.section("The slides, then and now", *slides(results), *no_longer(results))
    page.section("On a bare machine", *model(results))
    page.section("Machine", facts(where(results)))
    page.write(path)


def where(results):
    told = results.of_sessions("facts")
    loads = sorted(run["load"] for run in results.runs)
    when = sorted(run["when"][:10] for run in results.runs)
    return [*(told[-1] if told else {}).items(),
            ("measured", f"{when[0]} to {when[-1]}, {len(results.runs)} runs in {len(told)} sessions, load before a run {loads[len(loads) // 2]:.1f} in the median"),
            ("library", results.library or "none")]
