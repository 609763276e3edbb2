"""The page of policy general from the stored records. What was not measured says so."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import page
import verdicts
from catalogue import ALLOCATORS, BASE, CONTROL, OTHERS, PATTERNS, TREATED, TUNED, made_of
from intervals import Interval, Ratio, geometric_mean, mean, verdict
from store import OfOneBuild

Record = dict[str, Any]
RELEASE = "12"  # of Debian, that the page is of
ENOUGH_ROUNDS = 5
MEDIUM = ("medium", "answers")
TUNED_WORDS = ("`MALLOC_ARENA_MAX=2`; jemalloc with a thread of its own and large pages for its tables (`background_thread:true,metadata_thp:auto`, as its "
               "TUNING.md suggests); mimalloc 3 from its crate. Means of the first two rounds.")


class Results:
    """The runs that count: of the patterns as they are, and of one build."""

    def __init__(self, kept: OfOneBuild) -> None:
        self.kept = kept
        records = kept.records()
        self.setting = kept.store.setting_of(records[-1]) if records else ""
        self.records = [one for one in records if one["kind"] == "run" and one["hash"] == made_of(one["pattern"]) and kept.store.setting_of(one) == self.setting]
        self.rounds: dict[str, dict[int, dict[str, Record]]] = {}
        for one in self.records:
            self.rounds.setdefault(one["pattern"], {}).setdefault(one["round"], {})[one["allocator"]] = one

    def of(self, pattern: str, allocator: str, field: str) -> list[float]:
        """The figures of an allocator, of whole rounds alone."""
        return [runs[allocator][field] for runs in self.whole(pattern)]

    def whole(self, pattern: str) -> list[dict[str, Record]]:
        """The rounds that have all allocators."""
        return [runs for runs in self.rounds.get(pattern, {}).values() if runs.keys() >= ALLOCATORS.keys()]

    def best(self, pattern: str, field: str) -> str:
        """Which of the others has the least."""
        return min(OTHERS, key=lambda name: mean(self.of(pattern, name, field)))

    def ratio(self, pattern: str, one: str, other: str, field: str = "cpu_seconds") -> Ratio | None:
        """Of one allocator to another, or None where there are no rounds."""
        pairs = list(zip(self.of(pattern, one, field), self.of(pattern, other, field)))
        return Ratio(pairs, stream=pattern) if pairs else None

    def to_best(self, pattern: str, field: str = "cpu_seconds") -> Ratio | None:
        """Of ours to the best of the others."""
        return self.ratio(pattern, TREATED, self.best(pattern, field), field) if self.whole(pattern) else None


def write(kept: OfOneBuild, others: Mapping[str, OfOneBuild], path: str) -> str:
    """Writes the page; returns a line about it. `others`: of other releases of Debian."""
    made = written(Results(kept), {release: Results(one) for release, one in others.items()})
    made.write(path)
    words = [word for _, word in page.Tables(made.markdown()).verdicts("Targets")]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words)) or "nothing is decided"
    return f"{os.path.relpath(path)}: {counts}"


def written(results: Results, others: Mapping[str, Results]) -> page.Page:
    """The page."""
    made = page.Page("Policy general beside other allocators", verdicts.of_general)
    lacking = sum(len(results.whole(name)) < ENOUGH_ROUNDS for name in PATTERNS)
    if lacking:
        made.is_provisional(f"{lacking} of {len(PATTERNS)} patterns have less than {ENOUGH_ROUNDS} rounds: type `make bench-general`.")
    made.add("Written by `make bench-general`. Loops of `bench/general/loops.c` after the classic ones, and programs. Allocators take turns in each round, "
             "at their default settings. Ratios are of the same rounds, with 95 % intervals; below 1 is better. *Best* is that of glibc, jemalloc, mimalloc and "
             "tcmalloc which is best in this pattern. *A/A* is glibc to glibc: what differs there is noise.")
    made.section("Targets", page.table(["figure", "at most", "measured", "A/A", "verdict"], targets(results)))
    made.section("CPU time", page.table(["pattern", "to the best", "best", "to glibc", "A/A"], cpu_rows(results)))
    for title, field, form in (("Seconds of CPU time", "cpu_seconds", "{:.3f}".format), ("Memory at the peak, MB", "peak_kb", megabytes),
                               ("Mappings", "mappings", "{:.0f}".format)):
        made.section(title, page.table(["pattern", *ALLOCATORS], figures(results, field, form)))
    made.section("Memory after ten seconds, MB", "Of programs that do nothing more meanwhile. Resident memory.",
                 page.table(["pattern", *ALLOCATORS], figures(results, "after_kb", megabytes, [name for name in PATTERNS if PATTERNS[name].settles])))
    for title, field, form in (("Other settings, seconds of CPU time", "cpu_seconds", "{:.3f}".format), ("Other settings, memory at the peak, MB", "peak_kb", megabytes)):
        made.section(title, TUNED_WORDS, page.table(["pattern", TREATED, *TUNED], tuned(results, field, form)))
    for release, other in others.items():
        without = [name for name in PATTERNS if not other.whole(name)]
        made.section(f"On Debian {release}", "The same patterns and targets, with that release's versions and the library built there."
                     + (f" Without {page.listed(without)}, which does not run there with every allocator." if without else ""),
                     page.table(["figure", "at most", "measured", "A/A", "verdict"], targets(other)),
                     page.table(["pattern", "to the best", "best", "to glibc", "A/A"], cpu_rows(other)), page.facts(where(other)))
    made.section("Patterns", page.table(["pattern", "what it does"], ([name, one.what] for name, one in PATTERNS.items())))
    made.section("Where", page.facts(where(results)))
    return made


def megabytes(kilobytes: float) -> str:
    """The unit is in the section's title."""
    return f"{kilobytes * 1024 / 1e6:.0f}"


def targets(results: Results) -> Iterable[Sequence[object]]:
    """What was to be reached."""
    known = [name for name in PATTERNS if results.whole(name)]
    dear = [name for name in known if (ratio := results.to_best(name)) and ratio.interval()["low"] > 1.10]
    yield ["patterns whose CPU time to the best lies wholly above 1.10", "none", page.listed(dear), "-",
           page.said("missed" if dear else "met" if len(known) == len(PATTERNS) else "not measured yet")]
    yield row("CPU time to glibc, geometric mean", 0.60, of_all(results, known, TREATED), of_all(results, known, CONTROL))
    medium = [ratio for name in MEDIUM if name in known and (ratio := results.to_best(name))]
    yield row("CPU time of 33 KB to 1 MB to the best, geometric mean", 1.10, geometric_mean(medium) if medium else None, of_all(results, [n for n in MEDIUM if n in known], CONTROL))
    peak = results.ratio("phases", TREATED, BASE, "peak_kb")
    control = results.ratio("phases", CONTROL, BASE, "peak_kb")
    yield row("peak of phases to glibc", 1.20, peak.interval() if peak else None, control.interval() if control else None)
    for figure, limit, value in (("mappings of 12,000 growing lists", 200, mean(results.of("lists", TREATED, "mappings"))),
                                 ("memory of holes after ten seconds to what is live", 1.5,
                                  mean(results.of("holes", TREATED, "after_kb")) / PATTERNS["holes"].live_kb)):
        there = value == value
        yield [figure, limit, f"{value:.2f}".removesuffix(".00") if there else page.MISSING, "-", page.said("not measured yet" if not there else "met" if value <= limit else "missed")]


def row(figure: str, target: float, found: Interval | None, control: Interval | None) -> Sequence[object]:
    """A ratio, and whether it is reached."""
    word = verdict(found, control, target) if found else "not measured yet"
    return [figure, f"{target:.2f}", page.interval(found), page.interval(control, missing="-"), page.said(word)]


def of_all(results: Results, patterns: Sequence[str], allocator: str) -> Interval | None:
    """CPU time to glibc, over patterns."""
    ratios = [ratio for name in patterns if (ratio := results.ratio(name, allocator, BASE))]
    return geometric_mean(ratios) if ratios else None


def cpu_rows(results: Results) -> Iterable[Sequence[object]]:
    """A row a pattern."""
    for name in PATTERNS:
        if results.whole(name):
            ratios = [results.to_best(name), results.ratio(name, TREATED, BASE), results.ratio(name, CONTROL, BASE)]
            cells = [page.interval(ratio.interval(), 2) if ratio else page.MISSING for ratio in ratios]
            yield [name, cells[0], results.best(name, "cpu_seconds"), *cells[1:]]


def figures(results: Results, field: str, form: Callable[[float], str], patterns: Iterable[str] = PATTERNS) -> Iterable[Sequence[object]]:
    """Means of an allocator's runs."""
    for name in patterns:
        if results.whole(name):
            yield [name, *(form(mean(results.of(name, allocator, field))) for allocator in ALLOCATORS)]


def tuned(results: Results, field: str, form: Callable[[float], str]) -> Iterable[Sequence[object]]:
    """Means of the rounds that have these as well."""
    for name in PATTERNS:
        rounds = [runs for runs in results.whole(name) if runs.keys() >= TUNED.keys()]
        if rounds:
            yield [name, *(form(mean([runs[allocator][field] for runs in rounds])) for allocator in (TREATED, *TUNED))]


def where(results: Results) -> Iterable[tuple[str, object]]:
    """The machine, and how busy it was."""
    for facts in results.kept.machines():
        yield from facts.items()
    if results.records:
        loads = [one["load"] for one in results.records]
        yield "rounds", rounds_of(results)
        yield "commit", ", ".join(dict.fromkeys(one["commit"] for one in results.records))
        yield "date", ", ".join(dict.fromkeys(one["when"][:10] for one in results.records))
        yield "load average before the runs", f"{min(loads):.2f} to {max(loads):.2f}"
        if not any("allocators" in facts for facts in results.kept.machines()):
            yield "allocators", "jemalloc 5.3.0, mimalloc 2.0.9, tcmalloc of gperftools 2.10, glibc 2.36: Debian 12's"


def rounds_of(results: Results) -> str:
    """The least and the most that a pattern has."""
    rounds = sorted(len(results.whole(name)) for name in PATTERNS)
    return f"{rounds[0]} to {rounds[-1]}"
