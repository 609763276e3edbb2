"""docs/results/r.md from the stored records. What was not measured says so."""

import collections
import os
import shlex

import cost_model
import page
import papers
import pictures
import verdicts
from claims import AT_LEAST, BEST, MISSING, Claims
from intervals import WORDS, Ratio, mean
from page import items, listed, said, table
from results import STRICTEST_CPU, Results
from swap import LIMITS, SHORTER, SHORTER_LIMITS, SLOWER_DISKS, scales, situations
from workloads import (CALLS_CONFIGURATIONS, CONFIGURATIONS, CONTROL, OURS, PLAIN, SWEEP_POLICIES, SWEEP_WORKLOAD, THRESHOLDS, TREATED, WORKLOADS)

HERE = os.path.dirname(os.path.abspath(__file__))
SAC_MEAN = "geometric mean"
# DLS'14 does not say which four have figure 10's shapes at our sizes; these are its own four, and lssvm.
FIGURE_10 = ("glmnet", "gbm", "randomForest", "naiveBayes", "lssvm")
FIGURE_10_FIRST = 4


def write(store, path, library=None):
    """Writes the page and its pictures, of a library by how its hash begins if one is given; returns a line about it."""
    by_scale = {scale: Results(store, scale, library=library) for scale in ("small", "full")}
    if library:
        by_scale = {scale: results for scale, results in by_scale.items() if results.has_asked} or by_scale
    if not any(results.runs for results in by_scale.values()):
        tiny = Results(store, "tiny", library=library)
        by_scale = {"tiny": tiny} if tiny.runs else by_scale
    report = Report(store, by_scale, os.path.splitext(path)[0], library)
    report.page().write(path)
    return report.summary()


def interval(found, digits=3):
    return page.interval(found, digits, MISSING)


def megabytes(value):
    return page.megabytes(value, missing=MISSING)


def _to_measure(command):
    return f"{MISSING[0].upper() + MISSING[1:]}: `{command}`."


class Report:
    """The page and its pictures."""

    def __init__(self, store, by_scale, folder, asked=None):
        """`folder` is of the pictures, `asked` how the hash of the one library begins that the page is of."""
        self.store, self.by_scale, self.folder, self.asked = store, by_scale, folder, asked
        self.verdicts = []

    def summary(self):
        return ", ".join(f"{self.verdicts.count(word)} {word}" for word in (*WORDS, MISSING))

    def page(self):
        made = page.Page("R: the two papers' evaluations, reproduced", verdicts.of_r)
        made.add(
            "Written by `make bench-r`. How it is measured is in [../reference/bench-r.md](../reference/bench-r.md); the programs are in `bench/r/workloads/`. "
            "*DLS* is page-sharing-dls14, *SAC* is mmapcopy-sac16. Ratios are to plain R in the same rounds, with 95 % intervals over paired rounds, each on one "
            "processor (of fewer than ten, Student's t, which is wide); below 1 is better. *A/A* is plain R to plain R: what differs there is noise.",
            f"Three learners are our own, as Debian lacks the packages: {', '.join(OURS)}. Means are given with and without them.",
            f"This page is of library {self.asked} alone, in the setting where it has the most rounds: `bench/r/run report --library {self.asked}`." if self.asked else None)
        for scale, results in self.by_scale.items():
            made.section(f"Targets, scale {scale}", *self._targets(scale, results))
        for scale, results in self.by_scale.items():
            made.section(f"Scale: {scale}", *(self._scale(scale, results) if results.runs else [_to_measure(f"make bench-r SCALE={scale}")]))
        made.section("Where and when", *self._where())
        return made

    def _scale(self, scale, results):
        parts = [self._left_to_measure(scale, results), self._memory(scale, results), self._time(scale, results), self._means(results),
                 self._sac(scale, results), self._over_time(scale, results), self._thresholds(scale, results),
                 self._short_memory(scale, results), self._counts(results), self._savings(results), self._no_help(results)]
        return [block for part in parts for block in part]

    @staticmethod
    def _left_to_measure(scale, results):
        workloads = [name for name in WORKLOADS if name not in results.workloads]
        configurations = [name for name in CONFIGURATIONS if name not in results.configurations]
        return [f"{what} not measured yet: {', '.join(names)} (`make bench-r SCALE={scale} {variable}={shlex.quote(','.join(names))}`)."
                for what, variable, names in (("Benchmarks", "WORKLOADS", workloads), ("Configurations", "CONFIGURATIONS", configurations)) if names]

    # Targets

    def _targets(self, scale, results):
        claims = Claims(scale, results, self._speed_up(BEST, scale), self._swap_troubles(BEST, scale))
        self.verdicts += claims.verdicts()
        rows = [[row.title, row.paper, row.bar, row.aim, interval(row.measured.found, row.digits), interval(row.measured.control) if row.measured.control else "-",
                 self._at_bare_costs(row), said(row.said)] for row in claims.rows]
        return [claims.rules(), self._chosen_benchmarks(claims), table(["figure", "papers", "must be at most", "aim", "measured", "A/A", "at a bare machine's costs", "verdict"], rows)]

    @staticmethod
    def _at_bare_costs(row):
        if not row.measured.found:
            return "-"
        if not row.modelled:
            return row.otherwise
        name = f"{row.modelled.name} " if row.modelled.name else ""
        return f"{name}{interval(row.modelled.found)}" + (f": {row.modelled.said}" if row.modelled.found else "")

    def _chosen_benchmarks(self, claims):
        figures = "; ".join(f"{title} {interval(found)}" for title, found in claims.chosen())
        if not figures:
            return None
        names = AT_LEAST[claims.scale]
        return (f"The benchmarks are {', '.join(names)}: which were to be run at this scale was settled before any was. "
                f"{BEST}, which saves most, is among them; without it, geometric means: {figures}.{self._beside_the_rest(claims.scale, names)}")

    def _beside_the_rest(self, here, names):
        """How the chosen ones do where all were run: whether the choice flatters."""
        rest = [name for name in WORKLOADS if name not in names]
        lines = []
        for scale, results in self.by_scale.items():
            (all_of_them, number), (chosen, _) = (results.geometric_mean(TREATED, "peak above", without=without) for without in ((), rest))
            if scale != here and number == len(WORKLOADS):
                lines.append(f" At scale {scale} the peak above the baseline is {interval(chosen)} over these {len(names)}, and {interval(all_of_them)} over all {number}.")
        return "".join(lines)

    # Tables 3 and 4, figure 9

    def _memory(self, scale, results):
        rows, bars = [], []
        for name in results.workloads:
            paper = papers.DLS[name]
            gains = [1 - paper[1] / paper[0], 1 - paper[3] / paper[2]]
            field = lambda what, name=name: [results.mean_of(name, one, lambda r: r[what]) for one in (PLAIN, TREATED)]  # noqa: E731
            peak, average = field("peak_bytes"), field("average_bytes")
            ratios = [results.interval(name, TREATED, measure) for measure in ("peak", "average")]
            found = results.statistic(name, TREATED, "zero_pages_found")
            rows.append([name, megabytes(peak[0]), megabytes(peak[1]), self._gain(ratios[0]), _from_to(*paper[:2]), f"{100 * gains[0]:.1f}",
                         megabytes(average[0]), megabytes(average[1]), self._gain(ratios[1]), _from_to(*paper[2:4]), f"{100 * gains[1]:.1f}",
                         MISSING if found is None else round(found), paper[4]])
            bars.append((name, *(ratio and ratio["mean"] for ratio in ratios), paper[1] / paper[0], paper[3] / paper[2]))
        means = [results.geometric_mean(TREATED, measure)[0] for measure in ("peak", "average")]
        rows.append(["**geometric mean**", "", "", self._gain(means[0]), "", f"{100 * (1 - papers.DLS_MEANS['peak']):.1f}", "", "", self._gain(means[1]),
                     "", f"{100 * (1 - papers.DLS_MEANS['average']):.1f}", "", ""])
        picture = pictures.figure_9(self.folder, scale, bars)
        return ["### Memory (DLS table 3, figure 9)",
                "MB of physical memory: of the whole process tree here, of what R's allocator had in DLS. Gains are in percent; DLS's are taken from the MB that it prints, and its own "
                "last digit may be another. Zero pages are those that the content check found.",
                table(["benchmark", "plain peak", "auto peak", "gain %", "DLS peak", "DLS %", "plain average", "auto average", "gain %", "DLS average", "DLS %",
                        "zero pages found", "DLS"], rows), picture]

    @staticmethod
    def _gain(ratio):
        return MISSING if ratio is None else f"{100 * (1 - ratio['mean']):.1f}"

    def _time(self, scale, results):
        rows = []
        for name in results.workloads:
            paper = papers.DLS[name]
            wall = [results.mean_of(name, one, lambda r: r["wall_seconds"]) for one in (PLAIN, TREATED)]
            ratio = results.interval(name, TREATED, "wall")
            scans = results.statistic(name, TREATED, "zero_scans")
            rows.append([name, *(MISSING if one is None else f"{one:.1f}" for one in wall),
                         MISSING if ratio is None else f"{100 * (ratio['mean'] - 1):+.1f}", _from_to(*paper[5:7]), f"{100 * (paper[6] / paper[5] - 1):+.1f}",
                         interval(results.interval(name, TREATED, "cpu")), interval(results.interval(name, CONTROL, "cpu")),
                         *(interval(results.interval(name, TREATED, f"cpu at {bare:.2f}")) for bare in cost_model.BARE_TOUCH),
                         MISSING if scans is None else round(scans), paper[7]])
        of = lambda one, measure: results.geometric_mean(one, measure)[0]  # noqa: E731
        wall = of(TREATED, "wall")
        rows.append(["**geometric mean**", "", "", MISSING if wall is None else f"{100 * (wall['mean'] - 1):+.1f}",
                     "", f"{100 * (papers.DLS_MEANS['time'] - 1):+.1f}", interval(of(TREATED, "cpu")), interval(of(CONTROL, "cpu")),
                     *(interval(of(TREATED, f"cpu at {bare:.2f}")) for bare in cost_model.BARE_TOUCH)])
        bare = [f"CPU {cost_model.at(bare)}" for bare in cost_model.BARE_TOUCH]
        return ["### Time (DLS table 4)",
                "Seconds of wall time. Losses are in percent; DLS's are taken from the seconds that it prints. CPU time is a ratio, as measured and by the cost model.",
                table(["benchmark", "plain s", "auto s", "loss %", "DLS s", "DLS %", "CPU", "CPU, A/A", *bare, "content checks", "DLS"], rows),
                *self._least_time(results)]

    @staticmethod
    def _least_time(results):
        least = [results.outside_the_kernel(), *(results.outside_the_kernel(bare) for bare in cost_model.BARE_TOUCH)]
        if None in least:
            return []
        modelled = listed(f"{part:.3f} where a fault costs {bare:.2f} us" for part, bare in zip(least[1:], cost_model.BARE_TOUCH))
        return [f"Plain R spends {least[0]:.3f} of its CPU time outside the kernel, in the geometric mean, and would spend {modelled}. "
                "Saving page faults alone cannot get below these. What is saved besides is copying and filling in R's own code."]

    # Above the baseline

    def _means(self, results):
        rows = []
        for name in results.workloads:
            baseline = results.baseline(name)
            peak = results.mean_of(name, PLAIN, lambda r: r["peak_bytes"])
            times = "-" if not (baseline and peak) else f"{peak / baseline - 1:.1f}"
            rows.append([name, megabytes(baseline), times, *(interval(results.interval(name, TREATED, measure)) for measure in
                                                              ("peak", "peak above", "average", "average above"))])
        means = []
        over = [("all", False)] + [("without " + ", ".join(OURS), True)] * any(name in OURS for name in results.workloads)
        for title, without in over:
            for one in [name for name in results.configurations if name != PLAIN]:
                cells = [results.geometric_mean(one, measure, without=OURS if without else ()) for measure in
                         ("peak", "peak above", "average", "average above", "cpu", STRICTEST_CPU)]
                means.append([one, f"{title} ({cells[0][1]})", *(interval(cell[0]) for cell in cells)])
        return ["### Whole tree, and above the baseline",
                "The baseline is the same R with the same packages loaded and no data, in MB; *data* says how many times that plain R's peak is above it.",
                table(["benchmark", "baseline", "data", "peak", "peak above", "average", "average above"], rows),
                "Geometric means over the benchmarks measured (their number in brackets):",
                table(["configuration", "benchmarks", "peak", "peak above", "average", "average above", "CPU",
                        f"CPU {cost_model.at(cost_model.STRICTEST)}"], means),
                *self._by_make(results)]

    @staticmethod
    def _by_make(results):
        """Whether what was measured on one make of processor holds on another one."""
        rows = []
        for make, own in results.by_make().items():
            cells = [own.geometric_mean(one, measure) for one, measure in (
                (TREATED, "peak above"), (TREATED, "average above"), (TREATED, "cpu"), (CONTROL, "cpu"), (TREATED, STRICTEST_CPU))]
            counts = {len(own.pairs(name, TREATED)) for name in own.workloads} - {0}
            rows.append([make, f"{_span(counts)} of {cells[0][1]} benchmarks",
                         *(interval(cell[0]) for cell in cells)])
        return ["The same of `auto`, by whose processors the rounds were on:",
                table(["processors", "rounds", "peak above", "average above", "CPU", "A/A, CPU", f"CPU {cost_model.at(cost_model.STRICTEST)}"], rows)] if rows else []

    # SAC'16, figures 1 and 2

    def _sac(self, scale, results):
        shown = [name for name in results.configurations if name not in (PLAIN, CONTROL)]
        memory, time, ksmd, bars = [], [], {}, {}
        for name in results.workloads:
            memory.append([name, *(interval(results.interval(name, one, "average"), 2) for one in shown)])
            time.append([name, *(interval(results.interval(name, one, "cpu"), 2) for one in shown)])
            for one in shown:
                plain = results.mean_of(name, PLAIN, lambda r: r["cpu_seconds"])
                of_ksmd = results.mean_of(name, one, lambda r: r.get("ksmd_seconds", 0))
                cpu, average = results.ratio(name, one, "cpu"), results.ratio(name, one, "average")
                if plain and of_ksmd is not None and cpu:
                    ksmd.setdefault(one, []).append(of_ksmd / plain)
                    bars[name, one] = (average.value, cpu.value, of_ksmd / plain)
        for one in ksmd:
            average, cpu = (results.geometric_mean(one, measure)[0] for measure in ("average", "cpu"))
            bars[SAC_MEAN, one] = (average["mean"], cpu["mean"], mean(ksmd[one]))
        share = lambda one: f"{100 * mean(ksmd[one]):.1f}" if one in ksmd else MISSING  # noqa: E731
        memory.append(["**geometric mean**", *(interval(results.geometric_mean(one, "average")[0], 2) for one in shown)])
        memory.append(["SAC, its own", *(papers.SAC_MEMORY.get(one, "-") for one in shown)])
        time.append(["**geometric mean**", *(interval(results.geometric_mean(one, "cpu")[0], 2) for one in shown)])
        time.append(["of it ksmd, % of plain R's", *(share(one) if one.startswith("ksm") else "-" for one in shown)])
        time.append(["SAC, its own, without ksmd", *(papers.SAC_TIME.get(one, "-") for one in shown)])
        time.append(["SAC, ksmd in %", *(f"{100 * papers.SAC_KSMD[one]:.1f}" if one in papers.SAC_KSMD else "-" for one in shown)])
        singles = "; ".join(f"{workload} under {one} {value}" for (workload, one), value in papers.SAC_SINGLE.items())
        return ["### All configurations (SAC figures 1 and 2)",
                "`direct` is SAC's orig+alloc. Beside `share` stand the figures of its mmcp, which needs another kernel. "
                f"Single values in its text: {singles}.",
                "Average memory to plain R (figure 1):", table(["benchmark", *shown], memory),
                "CPU time to plain R, ksmd's included (figure 2):", table(["benchmark", *shown], time),
                *pictures.sac(self.folder, scale, [*results.workloads, SAC_MEAN], shown, bars, self._sac_of_the_paper())]

    @staticmethod
    def _sac_of_the_paper():
        """What its text says of figures 1 and 2: {(name, configuration): ratio} for each."""
        memory = {(SAC_MEAN, one): ratio for one, ratio in papers.SAC_MEMORY.items()} | papers.SAC_SINGLE
        # Without ksmd's time, where the bars are drawn with it: both parts together.
        time = {(SAC_MEAN, one): ratio + papers.SAC_KSMD.get(one, 0) for one, ratio in papers.SAC_TIME.items()}
        return memory, time

    # Figures 10 and 11

    def _over_time(self, scale, results):
        curves = [(name, *found) for name in WORKLOADS if (found := results.curves(name))]  # (name, plain's, auto's, mark)
        chosen = [curve for curve in curves if curve[0] in FIGURE_10]
        chosen = sorted(chosen, key=lambda curve: FIGURE_10.index(curve[0]))
        chosen += [curve for curve in curves if curve not in chosen][:max(0, FIGURE_10_FIRST - len(chosen))]
        if not chosen:
            return ["### Memory over time (DLS figure 10)", MISSING]
        rows = []
        for name, plain, treated, mark in chosen:
            paper = papers.DLS[name]
            rows.append([name + mark, *(f"{max(one['peak_mb']):.0f}" for one in (plain, treated)),
                         *(f"{mean(one['peak_mb']):.0f}" for one in (plain, treated)),
                         *(f"{one['step_seconds'] * len(one['peak_mb']):.1f}" for one in (plain, treated)), _from_to(*paper[:2]), _from_to(*paper[2:4])])
        marks = {"†": f" †: of library {', '.join(sorted({curve[2]['library'] for curve in chosen if '†' in curve[3]}))}.",
                 "*": " *: the two are of different rounds, perhaps days; their seconds do not compare."}
        return ["### Memory over time (DLS figure 10)",
                "One run of each, by the same sampler; each point is the highest memory within 1/240 of the run. MB and seconds; DLS's are those of its table 3."
                + "".join(text for mark, text in marks.items() if any(mark in curve[3] for curve in chosen)),
                table(["benchmark", "plain peak", "auto peak", "plain average", "auto average", "plain s", "auto s", "DLS peak", "DLS average"], rows),
                pictures.over_time(self.folder, scale, [curve[:3] for curve in chosen])]

    def _thresholds(self, scale, results):
        rows, points = [], {}
        for size in THRESHOLDS:
            row = [size]
            for policy in SWEEP_POLICIES:
                for measure in ("peak", "cpu", "wall"):
                    found = results.interval(SWEEP_WORKLOAD, f"{policy} threshold={size}", measure)
                    row.append(interval(found))
                    if found:
                        points[policy, size, measure] = found["mean"]
            rows.append(row + [papers.DLS_FIGURE_11_TEXT.get(size, "-")])
        title = f"### The size threshold, {SWEEP_WORKLOAD} (DLS figure 11)"
        if not points:
            return [title, _to_measure(f"make bench-r PART=figure11 SCALE={scale}")]
        heading = [f"{policy}: {measure}" for policy in SWEEP_POLICIES for measure in ("peak", "CPU", "wall")]
        return [title,
                table(["threshold", *heading, "DLS, as far as its text says"], rows),
                pictures.thresholds(self.folder, scale, points, papers.DLS_FIGURE_11)]

    # Table 5

    def _newest_short_of_memory(self, workload, scale):
        """The newest run with too little memory: those beside its library, on such a machine with such a processor, count."""
        known = [record for record in self.store.of_kind("swap", workload=workload, scale=scale) if record["library"].startswith(self.asked or "")]
        return max(known, key=lambda record: record["when"], default=None)

    def _swap(self, workload, scale, memory, configuration):
        newest = self._newest_short_of_memory(workload, scale)
        return [record for record in self.store.of_kind("swap", workload=workload, scale=scale, memory=memory, configuration=configuration)
                if newest and record["script"] == self._script(workload) and record["library"] == newest["library"]
                and self.store.alike(record, newest) and not record.get("differs")]

    def _swap_troubles(self, workload, scale):
        """As Results.troubles()."""
        own = dict(scales(scale))[workload]
        newest = self._newest_short_of_memory(workload, own)
        runs = [(record, "output") for record in self.store.of_kind("swap", workload=workload, scale=own, differs=True)]
        runs += [(record, "failed") for record in self.store.of_kind("failed", workload=workload, scale=own) if record.get("memory")]
        return sorted({(record["configuration"], what) for record, what in runs
                       if newest and record["library"] == newest["library"] and record["script"] == self._script(workload)})

    def _script(self, workload):
        return next(iter(self.by_scale.values())).scripts[workload]

    def _speed_up(self, workload, scale):
        own = dict(scales(scale))[workload]
        plain, treated = (self._swap(workload, own, "short", one) for one in (PLAIN, TREATED))
        return speed_up(plain, treated)

    def _short_memory(self, scale, results):
        rows = []
        for workload, own in scales(scale):
            enough, *shorts = situations(workload)
            for memory, configurations in (*shorts, enough):
                plain = self._swap(workload, own, memory, PLAIN)
                if memory not in ("short", "enough") and not plain:
                    continue
                for one in configurations:
                    runs = self._swap(workload, own, memory, one)
                    speed = speed_up(plain, runs)
                    of = lambda field, runs=runs: [r[field] for r in runs if field in r]  # noqa: E731
                    average = lambda field, scale=1: f"{mean(of(field)) / scale:.0f}" if of(field) else MISSING  # noqa: E731
                    stopped = any("stopped_after_seconds" in run for run in runs)
                    paper = papers.DLS_TABLE_5.get((workload, memory)) if one in (PLAIN, TREATED) else None
                    theirs = [f"{value:.0f}" for value in paper[one == TREATED:6:2]] if paper else [""] * 3
                    rows.append([workload, memory, average("limit_bytes", 1e6), one, len(runs), average("peak_bytes", 1e6), average("average_bytes", 1e6),
                                 average("swap_bytes", 1e6), ("more than " if stopped else "") + (f"{mean([_seconds(r) for r in runs]):.1f}" if runs else MISSING),
                                 average("swapped_in"), average("swapped_out"), "1" if one == PLAIN else interval(speed, 2),
                                 f"{paper[6]} [{paper[7]}, {paper[8]}]" if paper and one == TREATED else "", *theirs])
        parts, shorter = (", ".join(f"{share:.2f} for {name}" for name, share in limits.items()) for limits in (LIMITS, SHORTER_LIMITS))
        title = "### Too little memory (DLS table 5)"
        if not any(self._newest_short_of_memory(workload, own) for workload, own in scales(scale)):
            return [title, _to_measure(f"make bench-r PART=table5 SCALE={scale}")]
        return [title,
                "In a memory cgroup with a swap file. *short* is a limit of the same part of plain R's peak as the paper's 1 GB was "
                f"({parts}), with this machine's disk, and with its reads and its writes held to {listed(f'{rate / 1e6:.0f}' for rate in SLOWER_DISKS.values())} MB a second, "
                "as a hard disk's in large requests, and in requests of the eight pages that Linux reads ahead "
                f"([reference](../reference/bench-r.md#too-little-memory)). *{SHORTER}* is a limit of {shorter}, with this machine's disk. *enough* is 3/4 of the machine's memory. Swapped pages are the whole machine's, in 4 KB pages. "
                "A zero scan that swapped pages in would show in `auto` beside `auto zero=off`; `auto relieve=off` does not ask R to collect when memory is short (where collections are cheap it asks all the same).",
                table(["benchmark", "memory", "limit MB", "configuration", "rounds", "peak MB", "average MB", "in swap MB", "wall s", "pages swapped in",
                        "pages swapped out", "speed-up", "DLS", "DLS peak MB", "DLS average MB", "DLS s"], rows),
                *self._price_of_swapping(scale)]

    def _price_of_swapping(self, scale):
        """How many times as long plain R takes where memory is short: what a program that needs no swap at all can win."""
        prices = []
        for workload, own in scales(scale):
            enough, *shorts = [(memory, self._swap(workload, own, memory, PLAIN)) for memory, _configurations in situations(workload)]
            found = [(memory, short, speed_up(short, enough[1])) for memory, short in shorts]
            theirs = papers.DLS_TABLE_5[workload, "short"][4] / papers.DLS_TABLE_5[workload, "enough"][4]
            own_prices = [("at least " if any("stopped_after_seconds" in run for run in short) else "") + interval(price, 2)
                          + {"short": "", SHORTER: " with the lower limit"}.get(memory, f" with {memory.removeprefix('short, ')}") for memory, short, price in found if price]
            if own_prices:
                prices.append(f"{listed(own_prices)} for {workload} (DLS {theirs:.1f})")
        return [f"Plain R takes longer with too little memory than with enough by a factor of {'; '.join(prices)}. That is the price of its swapping, on such a disk, "
                "and about what a program that does not swap can win."] if prices else []

    # What was counted

    def _counts(self, results):
        rows = []
        for name in results.workloads:
            for one in (PLAIN, TREATED, "direct", "share", "ksm", "ksm-aggressive"):
                runs = results.shown(name, one)
                if not runs:
                    continue
                counted = [cost_model.events(run) for run in runs]
                of = lambda what, counted=counted: mean([one[what] for one in counted])  # noqa: E731
                calls = self.store.of_kind("calls", scale=results.scale, workload=name, configuration=one,
                                           script=results.scripts[name], library=results.library.get(one))
                rows.append([name, one, len(runs), f"{mean([r['cpu_seconds'] for r in runs]):.2f}", f"{mean([r['system_seconds'] for r in runs]):.2f}",
                             f"{mean([r['minor_faults'] for r in runs]):.0f}", f"{of('huge'):.0f}", f"{of('major'):.0f}",
                             f"{of('zeroed_bytes') / 1e6:.0f}", f"{of('copied_bytes') / 1e6:.0f}",
                             calls[-1]["all"] if calls else MISSING if one in CALLS_CONFIGURATIONS else "-",
                             f"{mean([r['swap_bytes'] for r in runs]) / 1e6:.0f}"])
        return ["### What was counted",
                "Means of a run; plain R's are those beside `auto`. A configuration with another number of rounds was run at other times too, "
                "and its seconds compare with plain R's only as the ratios above, which are of pairs. There are page faults, those that were filled as huge pages, and major ones. There are the MB that the kernel zeroed "
                "(faults times page size) and copied (snapshots written, private copies). System calls were counted once under strace; under ksm they are those of direct.",
                table(["benchmark", "configuration", "rounds", "CPU s", "in the kernel s", "faults", "huge", "major", "zeroed MB", "copied MB",
                        "system calls", "swap MB"], rows)]

    def _savings(self, results):
        rows = []
        for name in results.workloads:
            value = lambda field, name=name: results.statistic(name, TREATED, field)  # noqa: E731
            if value("lazy_zero_bytes") is None:
                rows.append([name] + [MISSING] * 6)
                continue
            kept = max(0.0, value("shared_copy_bytes") - value("private_copy_bytes"))
            peak = results.mean_of(name, PLAIN, lambda r: r["peak_bytes"]) - results.mean_of(name, TREATED, lambda r: r["peak_bytes"])
            average = results.mean_of(name, PLAIN, lambda r: r["average_bytes"]) - results.mean_of(name, TREATED, lambda r: r["average_bytes"])
            rows.append([name, megabytes(peak), megabytes(average), megabytes(value("lazy_zero_bytes")), megabytes(kept),
                         megabytes(value("zero_reclaimed_bytes")), megabytes(value("purged_bytes") + value("decayed_bytes"))])
        return ["### Where each saved byte came from",
                "MB: what `auto` saves at the peak and on average, and what its mechanisms moved in the course of a run. These are zero filling that touched no "
                "page, copies that shared their pages (less what was written later), all-zero pages given back, and warm pages returned to the kernel. "
                "The four are sums over the run and need not add up to what is saved at one moment. What they do not explain is holes: memory that the C library's heap "
                "keeps between vectors of 8 to 128 KB that live on, and that Pagewise, which gives each vector pages of its own, gives back.",
                table(["benchmark", "saved at the peak", "saved on average", "lazy zero", "shared copies", "zero reclaim", "returned earlier"], rows)]

    def _no_help(self, results):
        facts = []
        for title, measure, bar in (("The peak is not lower by 2 % or more", "peak", .98), ("Average memory is not lower by 2 % or more", "average", .98),
                                    ("CPU time is higher", "cpu", 1.0), ("CPU time would be higher on a bare machine", STRICTEST_CPU, 1.0)):
            names = [f"{name} ({ratio.value:.2f})" for name in WORKLOADS
                     if (ratio := results.ratio(name, TREATED, measure)) and ratio.value > bar]
            facts.append(f"{title}: {', '.join(names) or 'nowhere'}.")
        for title, what in (("whose output differed from the others'", "output"), ("that failed", "failed")):
            of = lambda troubles, what=what: ", ".join(one for one, kind in troubles if kind == what)  # noqa: E731
            found = [f"{name} ({names})" for name in WORKLOADS if (names := of(results.troubles(name)))]
            found += [f"{name} (table 5: {names})" for name, _ in scales(results.scale) if (names := of(self._swap_troubles(name, results.scale)))]
            facts.append(f"Runs {title}, and which count in no figure: {'; '.join(found) or 'none'}.")
        falls = collections.defaultdict(dict)
        for name in WORKLOADS:
            runs = results.of(name, TREATED)
            for field in sorted({field for run in runs for field in (run.get("statistics") or {}) if field.startswith("fallback_")}):
                falls[field][name] = results.statistic(name, TREATED, field)
        told = [f"`{field}`: " + ", ".join(f"{name} {count:.1f}" for name, count in counts.items()) for field, counts in falls.items()]
        facts.append(f"Fall-backs taken under auto, in the mean of a run: {'; '.join(told) or 'none'}.")
        with open(os.path.join(HERE, "limits.md"), encoding="utf-8") as file:
            text = file.read().rstrip()
        return ["### Where Pagewise does not help", items(facts), text]

    # Where

    def _where(self):
        out = []
        for scale, results in self.by_scale.items():
            if not results.runs:
                continue
            used = [self.store.sessions[name] for name in dict.fromkeys(run["session"] for run in results.runs)
                    if name in self.store.sessions]
            facts = used[-1]["facts"] if used else {}
            dates = sorted(run["when"][:10] for run in results.runs)
            loads = [run["load"] for run in results.runs]
            missed = sum(run["missed_samples"] for run in results.runs)
            processors = collections.Counter(", ".join((self.store.make_of(runs[PLAIN]), self.store.processor_of(runs[PLAIN])))
                                             for runs in results.rounds.values() if {PLAIN, TREATED} <= runs.keys())
            machines = dict.fromkeys(session["facts"].get("machine", "not told") for session in used)
            rows = [("machine", "; ".join(machines)), *((what, text) for what, text in facts.items() if what not in ("processor", "machine"))]
            rows += [("rounds of a benchmark with `auto`, by processor", "; ".join(f"{name}: {count}" for name, count in processors.most_common()))]
            for key in ("touch_us", "copy_us", "huge_us", "write_us", "call_us"):
                values = [session["costs"][key] for session in used if session.get("costs")]
                if values:
                    rows.append((f"cost of a page: {key[:-3]}", f"{min(values):.2f} to {max(values):.2f} us"))
            for configuration, library in sorted(results.library.items()):
                runs = [run for run in results.runs if run["configuration"] == configuration]
                commits = ", ".join(sorted({run["commit"] for run in runs}))
                rounds = {len(results.pairs(name, configuration)) for name in results.workloads} - {0}
                rows.append((configuration, f"commit {commits}, library {library}, {_span(rounds)} rounds a benchmark"))
            rows += self._where_besides(scale, results)
            rows += [("date", dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"),
                     ("load average before a run", f"{min(loads):.2f} to {max(loads):.2f}"),
                     ("samples", f"{sum(run['samples'] for run in results.runs)}, and {missed} missed; sampler "
                                 f"{', '.join(sorted({run['sampler'] for run in results.runs}))}")]
            if results.outdated:
                rows.append(("left out", f"{results.outdated} runs of earlier versions of the workloads"))
            out += [f"Scale {scale}:", table(["", ""], rows)]
        return out

    def _where_besides(self, scale, results):
        """Of what is not made of rounds of configurations: table 5, and system calls."""
        rows = []
        for workload, own in scales(scale):
            runs = [run for memory, configurations in situations(workload) for one in configurations for run in self._swap(workload, own, memory, one)]
            if runs:
                rows.append((f"table 5, {workload}", _build(runs) + f", {len({run['round'] for run in runs})} rounds"))
        calls = [record for record in self.store.of_kind("calls", scale=scale) if record["library"] and record["library"] == results.library.get(record["configuration"])]
        return rows + ([("system calls", _build(calls))] if calls else [])


def _span(counts):
    return " to ".join(str(count) for count in sorted({min(counts), max(counts)})) if counts else "no"


def _from_to(plain, treated):
    """The paper's figures, as they are printed."""
    return f"{plain} → {treated}"


def _build(records):
    said = lambda what: ", ".join(sorted({record[what] for record in records}))  # noqa: E731
    return f"commit {said('commit')}, library {said('library')}"


def _seconds(record):
    return record.get("wall_seconds", record.get("stopped_after_seconds"))


def speed_up(plain, treated):
    """Plain's time to ours, by rounds. A plain run that was stopped counts with the time until then; where one of ours was, nothing is known."""
    pairs = [(a, b) for a in plain for b in treated if a["round"] == b["round"]]
    if not pairs or any("stopped_after_seconds" in ours for _, ours in pairs):
        return None
    return Ratio([(_seconds(a), _seconds(b)) for a, b in pairs]).interval()
