"""docs/results/metis.md."""

import datetime
import functools
import os
from collections.abc import Iterator

import intervals
import pictures
import verdicts
from common import told
from intervals import MET, MISSED, UNDECIDED, at_least, at_most
from outcome import ENOUGH_SEEDS, METRICS, Outcome
from page import MISSING, Page, figure, interval, items, said, table
from page import percent as share
from papers import (EFFICIENCY, FRAGMENTATION_BEST, FRAGMENTATION_MEAN, GLOBAL_HOLES, HOLE_SIZE, HOLES, READINGS, SIGNIFICANCE)

PAPER_ARMS = ["no-groups", "metis", "metis-random", "metis-elsewhere", "metis-elsewhere-random"]
LEAST_WORKLOADS, LEAST_SPEED = 5, 20e6
ORACLES = ["known-survivors", "known-deaths"]


percent = functools.partial(share, signed=True)  # changes


def present(values):
    return [value for value in values if value is not None]


def mean(values):
    return intervals.mean(values) if (values := present(values)) else None


def count_of(found, whole):
    return f"{found} of {whole}"


class Report:
    def __init__(self, options, found):
        self.options = options
        self.found = found
        self.folder = os.path.splitext(options.results)[0]
        self.outcomes = {workload: Outcome(of_one["all"]) for workload, of_one in found.items()}
        self.counting = {workload: Outcome(of_one["counting"]) for workload, of_one in found.items() if "counting" in of_one}
        self.verdicts = []

    def page(self):
        page = Page("Metis on seven Java workloads", verdicts.of_metis)
        page.add(*self._head())
        for section in (self._targets, self._says, self._table_2, self._figure_5, self._figure_6, self._figure_7, self._figure_8, self._figures_9_and_10,
                        self._controls, self._past, self._why, self._readings, self._counting, self._speed, self._how):
            page.add(*section())
        return page

    # ---- What is asked for

    def _head(self):
        return [f"Written by `make bench-metis` (`bench/metis/run --seeds {self.options.seeds} --repetitions {self.options.repetitions}`) on "
                f"{datetime.date.today().isoformat()}. {told('machine', 'kernel', 'Pagewise')}.",
                "*Paper* is \"Metis: A Smart Memory Allocator Using Historical Reclamation Information\" (ICOOOLPS 2015). It replays traces of SPECjvm2008 on "
                "IBM J9. Ours are programs in the spirit of those seven on OpenJDK 17 (`make record-jvm-workloads`), so changes can be compared and absolute "
                "figures cannot. Groups are tested on each workload's second input. *Elsewhere* is learned from its first input. A *random* layout has as many "
                "groups, of the same sizes, and any site in any group. Where the paper can be read in more than one way the [reading "
                "chosen](../notes/metis.md) is the default."]

    def _targets(self):
        rows = [self._reported("fragmentation ratio, activation phase, against no groups", f"{percent(FRAGMENTATION_MEAN)} in the mean, {percent(FRAGMENTATION_BEST)} at best",
                               "fragmentation_ratio", is_best_lowest=True),
                self._against_random(), *self._total_free(),
                self._reported("holes in the global heap, against no groups", percent(GLOBAL_HOLES), "global_holes", is_best_lowest=True),
                self._reported("average hole size, against no groups", percent(HOLE_SIZE), "hole_size"),
                self._level("region group efficiency", f"up to {EFFICIENCY}", "region_group_efficiency"),
                self._level("region group significance", f"{SIGNIFICANCE}", "region_group_significance"),
                self._speed_target()]
        missing = "" if len(self.outcomes) == len(HOLES) else f" Only {len(self.outcomes)} of {len(HOLES)} workloads are here: nothing is decided."
        return ["## Targets",
                f"*met* and *missed* are of whole 95 % intervals, over {len(HOLES)} workloads and {ENOUGH_SEEDS} seeds or more; all else is *undecided*.{missing}",
                table(["figure", "paper", "must reach", "measured", "verdict"], rows)]

    def _reported(self, title, paper, metric, is_best_lowest=False):
        cells = []
        for arm in ("metis", "metis-random", "metis-elsewhere", "metis-elsewhere-random"):
            changes = present(outcome.change(arm, metric) for outcome in self.outcomes.values())
            best = f" ({percent(min(changes))} at best)" if is_best_lowest and changes else ""
            cells.append(f"{arm} {percent(mean(changes))}{best}")
        return [title, paper, "reported with controls", ", ".join(cells), "reported"]

    def _level(self, title, paper, metric):
        cells = []
        for arm in ("metis", "metis-random", "metis-elsewhere", "metis-elsewhere-random"):
            values = present(outcome.mean(arm, metric) for outcome in self.outcomes.values())
            cells.append(f"{arm} {figure(mean(values), 2)} (up to {figure(max(values, default=None), 2)})")
        return [title, paper, "reported with controls", ", ".join(cells), "reported"]

    def is_enough(self):
        return len(self.outcomes) == len(HOLES) and all(outcome.seeds >= ENOUGH_SEEDS for outcome in self.outcomes.values())

    def better_on_both(self, arm):
        return [name for name, outcome in self.outcomes.items() if all(outcome.judgement(arm, metric) == "better" for metric in METRICS)]

    def trained_elsewhere(self):
        """Layouts learned from one input and tested on another, that have a random control."""
        names = {name: None for outcome in self.outcomes.values() for name in outcome.learned() if name != "metis"}
        return list(names)

    def _against_random(self):
        counted = {arm: len(self.better_on_both(arm)) for arm in self.trained_elsewhere()}
        counts = ", ".join(f"{arm} {count}" for arm, count in sorted(counted.items(), key=lambda one: -one[1])) or MISSING
        most = max(counted.values(), default=0)
        word = at_least(most, most, LEAST_WORKLOADS) if self.is_enough() else UNDECIDED
        self.verdicts.append(word)
        why = "; [why not](#what-sites-can-and-cannot-tell)" if word == MISSED else ""
        return ["learned against random groups, on total free ratio and on all holes, trained on one input and tested on another", "not reported",
                f"better on both, intervals excluding zero, on {LEAST_WORKLOADS} of {len(HOLES)} workloads", f"workloads of {len(self.outcomes)}: {counts}",
                said(word) + why]

    def _total_free(self):
        rows = []
        for arm in ("metis", "metis-elsewhere", "ends", "selected"):
            found = self.total_free_against_none(arm)
            word = self._at_most_one(found) if found and self.is_enough() else UNDECIDED
            self.verdicts.append(word)
            why = "; [why](#what-reproduces-and-what-does-not)" if word == MISSED and arm in PAPER_ARMS else ""
            rows.append([f"total free ratio, {arm} against no groups", "not reported", "at most 1.00 in the mean (a prototype: 1.34)", interval(found),
                         said(word) + why])
        return rows

    @staticmethod
    def _at_most_one(found):
        """Met to three digits."""
        return MET if found["high"] <= 1 + 5e-4 else at_most(found["low"], found["high"], 1)

    def total_free_against_none(self, arm):
        ratios = [outcome.ratio(arm, "total_free_ratio", stream=stream) for stream, outcome in enumerate(self.outcomes.values())]
        return intervals.geometric_mean(present(ratios))

    def _speeds(self):
        return {one["file"]: one for of_one in self.found.values() for one in of_one.get("once", [])}

    def _speed_target(self):
        speeds = [one["events_per_second"] for one in self._speeds().values()]
        word = UNDECIDED if len(speeds) < 2 * len(HOLES) else at_least(min(speeds), min(speeds), LEAST_SPEED)
        self.verdicts.append(word)
        measured = f"{min(speeds) / 1e6:.1f} to {max(speeds) / 1e6:.1f} million, {len(speeds)} traces" if speeds else MISSING
        return ["events replayed a second of processor time, mark-sweep without groups", "not reported", "at least 20 million for each trace", measured, said(word)]

    def _says(self):
        outcomes = self.outcomes.values()
        over = lambda arm, metric: mean(outcome.change(arm, metric) for outcome in outcomes)  # noqa: E731
        significance = mean(outcome.mean("metis", "region_group_significance") for outcome in outcomes)
        efficiency = mean(outcome.mean("metis", "region_group_efficiency") for outcome in outcomes)
        random_efficiency = mean(outcome.mean("metis-random", "region_group_efficiency") for outcome in outcomes)
        groups = mean(outcome.groups("metis") for outcome in outcomes)
        return ["## What reproduces, and what does not", items([
                f"**Region group efficiency reproduces**: {figure(efficiency, 2)} in the mean, where the paper has up to {EFFICIENCY}. So does it for random "
                f"groups: {figure(random_efficiency, 2)}. Most objects die young, whatever they are grouped with, and the measure does not tell learned groups from others.",
                f"**GC efficiency reproduces**: it is the same with groups and without ({percent(over('metis', 'efficiency'))}), as the paper says.",
                f"**Significance does not**: {figure(significance, 3)} of occupied bytes lie in region groups, where the paper has {SIGNIFICANCE}. A group's only region is as "
                f"large as a mean dead graph (section 5.2), and there are {figure(groups, 0)} groups: all regions together are a small part of the heap. [Other readings](#other-readings) were tried.",
                f"**The drop in fragmentation and in holes of the global heap does not** ({percent(over('metis', 'fragmentation_ratio'))} and {percent(over('metis', 'global_holes'))} in the mean, "
                f"paper {percent(FRAGMENTATION_MEAN)} and {percent(GLOBAL_HOLES)}): what is not in regions cannot leave the global heap. [Readings](#other-readings) and [layouts](#learned-against-random-groups) that do fill "
                "region groups get drops of that kind, and so do random groups: free bytes and holes within region groups are not counted by these two measures. "
                "Counted with them (*total free*, *all holes*), there are more than without groups." + self._nearest(),
                f"**The larger average hole does not**: {percent(over('metis', 'hole_size'))} anywhere, {percent(over('metis', 'global_hole_size'))} in the global heap; paper {percent(HOLE_SIZE)}."])]

    # ---- The paper's table and figures

    def _table_2(self):
        rows = [[name, *HOLES[name], *(figure(outcome.mean(arm, "global_holes"), 1) for arm in PAPER_ARMS),
                 percent(HOLES[name][1] / HOLES[name][0] - 1), percent(outcome.change("metis", "global_holes"))]
                for name, outcome in self.outcomes.items()]
        return ["## Table 2: holes in the global heap", "Means over collections of the activation phase, and over seeds.",
                table(["workload", "paper: default", "paper: Metis", *PAPER_ARMS, "paper: change", "ours"], rows)]

    def _figure_5(self):
        rows = [[name, *(figure(outcome.mean(arm, "efficiency"), 3) for arm in PAPER_ARMS)] for name, outcome in self.outcomes.items()]
        return ["## Figure 5: GC efficiency", "Reclaimed over occupied bytes. Paper: \"relatively consistent\" for both, collections slightly earlier with Metis.",
                table(["workload", *PAPER_ARMS], rows),
                pictures.over_time(self.folder, "figure-5", "GC efficiency over time", self.outcomes, "efficiency", PAPER_ARMS[:3])]

    def _change_table(self, metric, digits, arms=tuple(PAPER_ARMS)):
        rows = [[name, *(figure(outcome.mean(arm, metric), digits) for arm in arms), figure(outcome.mean("metis", metric, "overall"), digits),
                 *(percent(outcome.change(arm, metric)) for arm in arms[1:])] for name, outcome in self.outcomes.items()]
        rows.append(["mean", *[""] * (len(arms) + 1),
                     *(percent(mean(outcome.change(arm, metric) for outcome in self.outcomes.values())) for arm in arms[1:])])
        return table(["workload", *arms, "metis, whole run", *(f"{arm}: change" for arm in arms[1:])], rows)

    def _bars(self, name, title, metric, axis):
        names = list(self.outcomes)
        series = [(pictures.SHOWN[arm][0], pictures.SHOWN[arm][1], [outcome.mean(arm, metric) for outcome in self.outcomes.values()]) for arm in PAPER_ARMS]
        return pictures.bars(self.folder, name, title, names, series, axis)

    def _figure_6(self):
        return ["## Figure 6: fragmentation ratio",
                f"Free over all bytes of the global heap when an allocation finds no place. Paper: {percent(FRAGMENTATION_MEAN)} in the mean; removed "
                "completely on xml.transform and compiler.sunflow.",
                self._change_table("fragmentation_ratio", 4), self._bars("figure-6", "Fragmentation ratio", "fragmentation_ratio", "fragmentation ratio")]

    def _figure_7(self):
        return ["## Figure 7: average hole size",
                f"Bytes, regardless of where the hole is, as the paper says of its figure: {percent(HOLE_SIZE)}.",
                self._change_table("hole_size", 0), "Of the global heap alone, as section 6.3 begins:", self._change_table("global_hole_size", 0),
                self._bars("figure-7", "Average hole size", "hole_size", "bytes")]

    def _figure_8(self):
        first = {name: outcome for name, outcome in self.outcomes.items() if name == "compiler.compiler"}
        if not first:
            return []
        before = [one["global_holes"] for one in first["compiler.compiler"].arms["metis"]["series"]]
        return ["## Figure 8: holes in the global heap of compiler.compiler, before each collection",
                f"Paper: none at all at some collections. Ours: never fewer than {min(before)} at {len(before)} collections with Metis (first seed).",
                pictures.over_time(self.folder, "figure-8", "Holes in the global heap", first, "global_holes", PAPER_ARMS[:3], top=None)]

    def _figures_9_and_10(self):
        lines = []
        for number, metric, title, paper in (
                ("9", "region_group_efficiency", "region group efficiency", f"Region groups given back over region groups. Paper: as much as {EFFICIENCY}."),
                ("10", "region_group_significance", "region group significance", f"Occupied bytes in region groups over all occupied bytes. Paper: as much as {SIGNIFICANCE} on average.")):
            rows = [[name, *(figure(outcome.mean(arm, metric), 3) for arm in PAPER_ARMS[1:])] for name, outcome in self.outcomes.items()]
            lines += [f"## Figure {number}: {title}", paper, table(["workload", *PAPER_ARMS[1:]], rows),
                      pictures.over_time(self.folder, f"figure-{number}", title.capitalize(), self.outcomes, metric, PAPER_ARMS[1:])]
        return lines

    # ---- Beside the paper

    def _controls(self):
        rows = [[name, *(f"{figure(outcome.mean(arm, 'total_free_ratio'), 4)} / {figure(outcome.mean(arm, 'all_holes'), 0)} / {figure(outcome.mean(arm, 'holes_after'), 0)}"
                         for arm in PAPER_ARMS)] for name, outcome in self.outcomes.items()]
        return ["## What the paper leaves out",
                "Total free ratio (free bytes anywhere, region groups' too, over the whole heap) / all holes before a collection / all holes after it:",
                table(["workload", *PAPER_ARMS], rows)]

    def _past(self):
        arms = list(dict.fromkeys(name for outcome in self.outcomes.values() for name in outcome.learned()))
        rows = []
        for arm in arms:
            cells = [arm]
            for outcome in self.outcomes.values():
                judged = [outcome.judgement(arm, metric) for metric in METRICS]
                both = [outcome.against_random(arm, metric) for metric in METRICS]
                cells.append(" / ".join(f"{figure(one and one['ratio'], 2)}{self.MARKS.get(word, '')}" for one, word in zip(both, judged)))
            rows.append([*cells, count_of(len(self.better_on_both(arm)), len(self.outcomes))])
        none = [[arm, *(f"{figure(ratio_of(outcome, arm, 'total_free_ratio'), 2)} / {figure(ratio_of(outcome, arm, 'all_holes'), 2)}" for outcome in self.outcomes.values())]
                for arm in arms]
        chosen = ", ".join(f"{name}: {outcome.arms['selected']['layout']}" for name, outcome in self.outcomes.items() if "selected" in outcome.arms)
        labels = {arm: arm for arm in arms if arm in ("metis", "metis-elsewhere", "components-elsewhere", "components-chunks", "deaths-elsewhere", "deaths-chunks", "ends", "starts")}
        return ["## Learned against random groups",
                "Total free ratio / all holes, each over that of the layout's random control; + better and - worse by the interval of paired differences, = the same. "
                "All but `metis` are trained on another input than tested. Layouts are explained in the [notes](../notes/experiments/metis.md).",
                table(["layout", *self.outcomes, "better on both"], rows),
                pictures.both_measures(self.folder, "controls", "Learned layouts over their random controls; a point is a workload", self.outcomes, labels),
                "The same over no groups:", table(["layout", *self.outcomes], none),
                "The layouts past the paper learn from the first twenty blocks of the training trace (`--train-blocks`), the paper's from its first block. "
                "`selected` tries layouts within the training trace alone, on each block with what all others teach, and keeps none unless one promises 5 % less of both measures than no groups and than "
                f"random groups in the mean over blocks, and no more of either than no groups in any. It chose: {chosen or MISSING}. "
                "A choice whose total free ratio is above 1 in the table is a promise that the other input did not keep."]

    MARKS = {"better": " +", "worse": " -", "same": " ="}

    def _why(self):
        rows = []
        for name, outcome in self.outcomes.items():
            one = outcome.foresight
            if not one:
                continue
            rows.append([name, one["sites"], figure(one["surviving"], 3), figure(one["entropy"]), figure(one["entropy_by_shuffled_site"]["mean"]),
                         figure(one["entropy_by_site"]), figure(one["together"]), figure(one["together_by_shuffled_site"]["mean"]), figure(one["together_by_site"]),
                         figure(one["foretold"], 2), figure(one["foretold_rightly"], 2)])
        oracles = [[arm, *(f"{figure(ratio_of(outcome, arm, 'total_free_ratio'), 2)} / {figure(ratio_of(outcome, arm, 'all_holes'), 2)}" for outcome in self.outcomes.values())]
                   for arm in ORACLES]
        return ["## What sites can and cannot tell", self._explanation(),
                "How much a site tells of its objects' deaths (first seed's events, mark-sweep without groups, weighted by bytes, always given when the object was born). "
                "*Entropy*: bits needed to say which collection finds an object dead; *together*: the share that dies at the collection at which most of its class does. "
                "Each for objects of any site, of a site dealt out at random among those born at the same time, and of their own site. "
                "*Foretold*: of the bytes that survive a collection, those at sites whose objects mostly survived in the training trace; *rightly*: of the bytes at those sites, those that survive.",
                table(["workload", "sites", "surviving", "entropy", "shuffled", "by site", "together", "shuffled", "by site", "foretold", "rightly"], rows),
                "What knowing the future would be worth: `known-survivors` puts each object that will outlive a collection at the heap's start and all others at its end, where it grows; `known-deaths` puts those that the same "
                "collection will find dead into chunks together. Total free ratio / all holes over no groups:", table(["layout", *self.outcomes], oracles)]

    def _explanation(self):
        """What the two tables below say, with the figures of this run."""
        foresights = [outcome.foresight for outcome in self.outcomes.values() if outcome.foresight]
        if not foresights:
            return None
        of = lambda name: mean(one[name] for one in foresights)  # noqa: E731
        shuffled = mean(one["entropy_by_shuffled_site"]["mean"] for one in foresights)
        informative = sum(one["entropy_by_site"] < one["entropy_by_shuffled_site"]["low"] for one in foresights)
        worth = lambda arm, metric: [ratio for outcome in self.outcomes.values() if (ratio := ratio_of(outcome, arm, metric)) is not None]  # noqa: E731
        free, holes = worth("known-survivors", "total_free_ratio"), worth("known-survivors", "all_holes")
        reserved = present(outcome.reserved("metis") for outcome in self.outcomes.values())
        texts = [
            f"**Sites do tell when objects die**, on {count_of(informative, len(foresights))} workloads: of the {figure(of('entropy'), 2)} bits that the time of birth leaves open, "
            f"{figure(of('entropy_by_site'), 2)} are left when the site is known, and {figure(shuffled, 2)} when it is a shuffled one. (That shuffled sites tell anything is the bias of small classes.)",
            f"**But most objects die together in any case**: {figure(of('surviving'), 2)} of the bytes outlive a collection, and {figure(of('together'), 2)} "
            f"die with most of what was born with them. Groups can only sort the rest; knowing the sites sorts {figure(of('together_by_site'), 2)}.",
            f"**One input foretells another in part**: sites whose objects mostly survived in training hold {figure(of('foretold'), 2)} of the bytes that survive, and of the bytes at such "
            f"sites {figure(of('foretold_rightly'), 2)} survive. The same site makes both kinds."]
        if free:
            gain = [ratio for ratio in free if ratio < 1]
            both = lambda arm: (f"{figure(mean(worth(arm, 'total_free_ratio')), 2)} of no groups' total free ratio and {figure(mean(worth(arm, 'all_holes')), 2)} of their holes "  # noqa: E731
                                "in the mean")
            texts.append(
                f"**What perfect knowledge would gain**: with every survivor known in advance and put at the heap's start, total free ratio is {figure(min(free), 2)} to {figure(max(free), 2)} of that of no "
                f"groups, below it on {count_of(len(gain), len(free))} workloads, and all holes {figure(min(holes), 2)} to {figure(max(holes), 2)}: {both('known-survivors')}. The same layout by learned sites, `starts`, "
                f"has {both('starts')}; the other way round, `ends`, has {both('ends')}, and less of both than no groups on "
                f"{count_of(sum(a < 1 and b < 1 for a, b in zip(worth('ends', 'total_free_ratio'), worth('ends', 'all_holes'))), len(free))}. A survivor that its site did not foretell lies among short-lived objects and splits their hole. Sites are too coarse to foretell it. "
                "Neither region groups nor chunks come near: what they reserve is free, and other objects cannot use it.")
        if reserved:
            texts.append(
                f"**Why significance is small**: with the paper's grouping there are {figure(mean(one['regions'] for one in reserved), 1)} region groups at a time, of {figure(mean(one['bytes'] for one in reserved), 0)} bytes each: "
                f"{100 * mean(one['share'] for one in reserved):.1f} % of the heap is reserved for them. A dead graph is a few objects, the group has one region of that size (algorithm 2), and everything else its sites allocate until the next "
                f"collection goes to the global heap.{self._most_significant()}")
        return items(texts)

    def _nearest(self):
        """The reading whose holes in the global heap come nearest to the paper's, with what it does to the other measures."""
        found = []
        for meaning, outcomes in self._by_reading():
            for arm in ("metis", "metis-elsewhere"):
                change = lambda metric, arm=arm, outcomes=outcomes: mean(outcome.change(arm, metric) for outcome in outcomes)  # noqa: E731
                random = mean(outcome.change(arm + "-random", "global_holes") for outcome in outcomes)
                if (holes := change("global_holes")) is not None:
                    found.append((abs(holes - GLOBAL_HOLES), holes, change("total_free_ratio"), change("all_holes"), random, meaning, arm))
        if not found:
            return ""
        _, holes, free, everywhere, random, meaning, arm = min(found)
        return (f" The reading that comes nearest to the paper's holes is \"{meaning}\" ({arm}): {percent(holes)} in the global heap, {percent(random)} with random groups, "
                f"but {percent(everywhere)} of all holes and {percent(free)} of the total free ratio. The paper's figure is reached by moving holes to where they are not counted.")

    def _most_significant(self):
        found = [(mean(outcome.mean(arm, "region_group_significance") for outcome in outcomes), meaning, arm)
                 for meaning, outcomes in self._by_reading() for arm in ("metis", "metis-elsewhere")]
        found = [one for one in found if one[0] is not None]
        if not found:
            return ""
        value, meaning, arm = max(found)
        return f" The most that any [other reading](#other-readings) reaches is {figure(value, 2)} ({arm}: {meaning}); the paper has {SIGNIFICANCE}."

    # ---- Other readings, the other collector, speed

    def _by_reading(self) -> Iterator[tuple[str, list[Outcome]]]:
        for name, (meaning, _) in READINGS.items():
            outcomes = [Outcome(of_one[f"reading {name}"]) for of_one in self.found.values() if f"reading {name}" in of_one]
            if outcomes:
                yield meaning, outcomes

    def _readings(self):
        rows = []
        for meaning, outcomes in self._by_reading():
            cells = []
            for arm in ("metis", "metis-random", "metis-elsewhere", "metis-elsewhere-random"):
                over = lambda metric, arm=arm: mean(outcome.change(arm, metric) for outcome in outcomes)  # noqa: E731
                cells.append(f"{figure(mean(outcome.mean(arm, 'region_group_significance') for outcome in outcomes), 2)} / {percent(over('fragmentation_ratio'))} / "
                             f"{percent(over('global_holes'))} / {percent(over('total_free_ratio'))} / {percent(over('all_holes'))}")
            rows.append([meaning, *cells])
        if not rows:
            return []
        return ["## Other readings",
                "Significance / change of fragmentation ratio / of holes in the global heap / of total free ratio / of all holes, against no groups, means over workloads. One seed.",
                table(["reading", "metis", "metis-random", "metis-elsewhere", "metis-elsewhere-random"], rows)]

    def _counting(self):
        rows = []
        for name, outcome in self.counting.items():
            cells = [f"{figure(outcome.mean(arm, 'fragmentation_ratio'), 4)} / {figure(outcome.mean(arm, 'total_free_ratio'), 4)} / "
                     f"{figure(outcome.mean(arm, 'global_holes'), 0)} / {figure(outcome.mean(arm, 'all_holes'), 0)} / {figure(outcome.mean(arm, 'region_group_significance'), 3)}" for arm in PAPER_ARMS]
            rows.append([name, *cells, f"{outcome.impossible():.0f}"])
        if not rows:
            return []
        return ["## Reference counting with cycle collection",
                "The paper's interpreter has it (section 6), its figures do not. Fragmentation ratio / total free ratio / global holes / all holes / significance; *impossible*: events a run that use "
                "an object which the counts say is dead. A left-out assignment makes some; thousands mean that the trace does not tell every reference in time for counting, and that the row is not to be relied on.", table(["workload", *PAPER_ARMS, "impossible"], rows)]

    def _speed(self):
        rows = [[os.path.basename(file).removesuffix(".trace"), f"{one['events']:,}", f"{one['allocations']:,}", one["collections"], sum(v for k, v in one["impossible"].items() if k != "first"),
                 f"{one['events_per_second'] / 1e6:.1f}"] for file, one in sorted(self._speeds().items())]
        return ["## Replay speed", "`pagewise trace simulate --once`: whole traces, mark-sweep, no groups, processor time of the replay.",
                table(["trace", "events", "allocations", "collections", "impossible events", "million events/s"], rows)]

    def _how(self):
        starts = present(outcome.activation() for outcome in self.outcomes.values())
        early = f" On these traces that is after {min(starts):,} to {max(starts):,} allocations (first seed): `metis` has seen little of the program by then, `metis-elsewhere` a whole block." if starts else ""
        return ["## What these figures are not", items([
                "Intervals are over seeds: which assignment each repetition leaves out, and how random groups are dealt. They are not over programs or inputs; there is one training and one testing input a workload.",
                "The workloads are small programs, not SPECjvm2008, and `libsunflow-java` is a later Sunflow than SPEC's.",
                "A block of 230,000 events is short: what these programs keep for longer is not seen to die.",
                f"A left-out assignment lets objects die that the program goes on to use: {mean(outcome.impossible() for outcome in self.outcomes.values()):.1f} such events a run with mark-sweep, in the mean. They are skipped.",
                "Averages are over collections, from the collection at which `metis` of the same seed is activated." + early])]


def ratio_of(outcome, arm, metric):
    change = outcome.change(arm, metric)
    return None if change is None else 1 + change


def write(options, found):
    """Writes the page and its pictures; returns a line about it."""
    if not found:
        return "nothing is measured yet, and no page written"
    report = Report(options, found)
    report.page().write(options.results)
    counted = ", ".join(f"{report.verdicts.count(word)} {word}" for word in intervals.WORDS)
    return f"wrote {options.results}: {counted}"
