"""The page of the everyday scripts from the stored records. What was not measured says so."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import page
import verdicts
from catalogue import ALWAYS, SCRIPTS, SETS, script_hash
from intervals import MET, MISSED, Interval, Ratio, geometric_mean, mean, verdict
from one_run import ALONE, CONTROL, PLAIN, TREATED
from schedule import Record, differs, rounds_of
from store import OfOneBuild


@dataclass(frozen=True)
class Measure:
    """A figure of a run, and the configuration that it is compared with."""

    field: str
    beside: str


# As the columns of the tables are headed.
MEASURES = {
    "CPU time in all": Measure("whole_cpu_seconds", ALONE),
    "of the library": Measure("cpu_seconds", PLAIN),
    "average": Measure("average_bytes", PLAIN),
    "peak": Measure("peak_bytes", PLAIN),
}
IN_ALL = "CPU time in all"
# Of the unseen ten, geometric means, at most.
TARGETS = {IN_ALL: 1.00, "average": 0.92, "peak": 0.95}
# No script's interval shall lie wholly above.
DEAR = 1.03
ENOUGH_ROUNDS = 5


def write(kept: OfOneBuild, path: str) -> str:
    """Writes the page; returns a line about it."""
    results = Results(kept)
    made = written(results)
    made.write(path)
    words = [word for _, word in page.Tables(made.markdown()).verdicts("Targets")]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words)) or "nothing is decided"
    return f"{os.path.relpath(path)}: {counts}"


class Results:
    """The rounds that count: of the scripts as they are, of one build, in the setting that was measured last."""

    def __init__(self, kept: OfOneBuild) -> None:
        self.kept = kept
        self._ratios: dict[tuple[str, str, Measure], Ratio | None] = {}
        records = kept.records()
        self.setting = kept.store.setting_of(records[-1]) if records else ""
        self.records = [record for record in records if kept.store.setting_of(record) == self.setting]
        hashes = {script: script_hash(script) for script in SCRIPTS}
        self.rounds = {script: list(rounds_of(self.records, script, made_of).values()) for script, made_of in hashes.items()}
        names = [name for rounds in self.rounds.values() for runs in rounds for name in runs if name not in ALWAYS]
        self.treated = sorted(set(names), key=lambda name: (name != TREATED, name))
        self.collections = {record["script"]: record["collecting_seconds"] / record["cpu_seconds"]
                            for record in kept.store.of_kind("collections") if record["hash"] == hashes.get(record["script"])}
        worked = {(record["script"], record["configuration"]): at for at, record in enumerate(self.records) if record["kind"] == "run"}
        self.failed = {(record["script"], record["configuration"]): record["said"] for at, record in enumerate(self.records)
                       if record["kind"] == "failed" and record["hash"] == hashes.get(record["script"])
                       and at > worked.get((record["script"], record["configuration"]), -1)}

    def differing(self) -> list[tuple[str, str, int, int]]:
        """(script, configuration, rounds with another output than plain's, of how many)."""
        found = []
        for script, rounds in self.rounds.items():
            for name in (*ALWAYS, *self.treated):
                there = [runs for runs in rounds if name in runs and PLAIN in runs]
                if odd := sum(differs(runs, name) for runs in there):
                    found.append((script, name, odd, len(there)))
        return found

    def of(self, script: str, configuration: str) -> list[Record]:
        """The runs of a configuration that count."""
        return [runs[configuration] for runs in self.rounds[script] if self._counts(runs, configuration)]

    def _counts(self, runs: dict[str, Record], configuration: str) -> bool:
        return {*ALWAYS, configuration} <= runs.keys() and not differs(runs, configuration)

    def ratio(self, script: str, configuration: str, measure: Measure) -> Ratio | None:
        """To what the measure is compared with, or None where there are no rounds. The control is to plain in any case."""
        key = script, configuration, measure
        if key not in self._ratios:
            self._ratios[key] = self._ratio(*key)
        return self._ratios[key]

    def _ratio(self, script: str, configuration: str, measure: Measure) -> Ratio | None:
        beside = PLAIN if configuration == CONTROL else measure.beside
        pairs = [(runs[configuration][measure.field], runs[beside][measure.field]) for runs in self.rounds[script] if self._counts(runs, configuration)]
        return Ratio(pairs, stream=script) if pairs else None

    def mean(self, scripts: Sequence[str], configuration: str, measure: Measure) -> Interval | None:
        """The geometric mean, or None where a script lacks rounds."""
        ratios = [self.ratio(script, configuration, measure) for script in scripts]
        return geometric_mean([ratio for ratio in ratios if ratio]) if all(ratios) else None

    def with_less_than(self, rounds: int) -> int:
        """How many scripts have fewer rounds."""
        return sum(len(self.of(script, TREATED)) < rounds for script in SCRIPTS)


def written(results: Results) -> page.Page:
    """The page."""
    made = page.Page("Everyday R scripts: what Pagewise changes", verdicts.of_everyday)
    if lacking := results.with_less_than(ENOUGH_ROUNDS):
        made.is_provisional(f"{lacking} of {len(SCRIPTS)} scripts have less than {ENOUGH_ROUNDS} rounds of `{TREATED}`: type `make bench-everyday`.")
    made.add("Written by `make bench-everyday`. The scripts, and how they are measured: `bench/everyday/README.md`. Ratios are to plain R in the same "
             "rounds, with 95 % intervals; below 1 is better. *A/A* is plain R to plain R: what differs there is noise.",
             "*CPU time in all* is that of `pagewise run` and R, to `Rscript` alone. *Of the library* is R's own, to R under a `pagewise run` that loads no "
             "library; the sampler is in neither. Average and peak are physical memory. Half of the scripts were there to tune Pagewise on, and half "
             "were *unseen*: theirs is what counts. A *mean* of ten is geometric.", *_looks(results), *_troubles(results))
    made.section("Targets", "Of the unseen ten, under `auto`.", page.table(["figure", "at most", "measured", "A/A", "verdict"], _targets(results)))
    for name in results.treated:
        options = next(run["options"] for rounds in results.rounds.values() for runs in rounds if (run := runs.get(name)))
        made.section(f"Under {name}", f"With the options `{options}`." if options else None,
                     page.table(["script", "set", *MEASURES, "collections, % of plain's time"], _rows(results, name)))
    made.section("Plain against plain", "The second run of plain R in each round, to the first.",
                 page.table(["script", "set", *list(MEASURES)], _rows(results, CONTROL, with_collections=False)))
    made.section("Figures behind the ratios", "Means. Memory is in MB (10^6 bytes), CPU time in seconds. `pagewise` is the CPU time of the command's own "
                 "process.", page.table(_heads(results), filter(None, (_figures(results, script) for script in SCRIPTS))))
    made.section("Where", page.facts(_where(results)))
    return made


def _looks(results: Results) -> Iterable[str]:
    """How often memory was looked at: a peak between two looks is missed where the kernel's own does not count."""
    rates = {}
    for name in (PLAIN, TREATED):
        runs = [run for script in SCRIPTS for run in results.of(script, name) if run.get("wall_seconds") and "samples" in run]
        if not runs:
            return
        rates[name] = sum(run["samples"] for run in runs) / sum(run["wall_seconds"] for run in runs)
    yield (f"Memory was looked at {rates[TREATED]:.0f} times a second under `{TREATED}`. **A peak between two looks is missed there**, "
           f"which favours Pagewise: plain R's peak is the kernel's own (and {rates[PLAIN]:.0f} looks a second).")


def _troubles(results: Results) -> Iterable[str]:
    odd = [f"**{script} {name}: {count} of {whole} runs printed something else than plain R**" for script, name, count, whole in results.differing()]
    failed = [f"**{script} {name} failed**: {said.splitlines()[0] if said else 'no message'}" for (script, name), said in results.failed.items()]
    if odd or failed:
        yield "These count in no figure:"
        yield page.items([*odd, *failed])
    else:
        yield "Every run printed what plain R printed, byte for byte."


def _targets(results: Results) -> Iterable[Sequence[str]]:
    for name, target in TARGETS.items():
        measure = MEASURES[name]
        found, control = (results.mean(SETS["unseen"], which, measure) for which in (TREATED, CONTROL))
        word = verdict(found, control, target) if found else "not measured yet"
        yield [f"{name}, geometric mean", f"{target:.2f}", page.interval(found), page.interval(control, missing="-"), page.said(word)]
    known = {script: ratio.interval() for script in SCRIPTS if (ratio := results.ratio(script, TREATED, MEASURES[IN_ALL]))}
    dear = [script for script, found in known.items() if found["low"] > DEAR and found["rounds"] > 1]
    word = "not measured yet" if len(known) < len(SCRIPTS) else MISSED if dear else MET
    yield [f"scripts of all twenty whose CPU time in all lies wholly above {DEAR}", "none", ", ".join(dear) or "none", "-", page.said(word)]


def _rows(results: Results, name: str, with_collections: bool = True) -> Iterable[Sequence[str]]:
    for script in SCRIPTS:
        ratios = [results.ratio(script, name, measure) for measure in MEASURES.values()]
        if any(ratios):
            share = _percent(results.collections.get(script))
            yield [script, _set_of(script), *(page.interval(ratio.interval() if ratio else None) for ratio in ratios), *([share] if with_collections else [])]
    for which, scripts in SETS.items():
        shares = [results.collections[script] for script in scripts if script in results.collections]
        share = _percent(mean(shares) if len(shares) == len(scripts) else None)
        means = [page.interval(results.mean(scripts, name, measure), missing="-") for measure in MEASURES.values()]
        yield ["mean", which, *means, *([share] if with_collections else [])]


def _percent(share: float | None) -> str:
    """The unit is in the column's head."""
    return "-" if share is None else f"{100 * share:.0f}"


def _set_of(script: str) -> str:
    return next(which for which, scripts in SETS.items() if script in scripts)


def _heads(results: Results) -> Sequence[str]:
    """What a column is of stands before the first of its kind."""
    seconds = [head for name in (PLAIN, *results.treated) for head in (name, "pagewise")]
    memory = [head for what in ("average", "peak") for head in (f"{what}: {PLAIN}", *results.treated)]
    return ["script", "rounds", "CPU: alone", *seconds, *memory]


def _figures(results: Results, script: str) -> Sequence[object] | None:
    there = [name for name in results.treated if results.of(script, name)]
    if not there:
        return None

    def of(name: str, figure: Callable[[Record], float], form: Callable[[float], str]) -> str:
        runs = results.of(script, name)
        return form(mean(map(figure, runs))) if runs else "-"

    def seconds(name: str) -> list[str]:
        return [of(name, lambda run: run["cpu_seconds"], "{:.2f}".format), of(name, lambda run: run["whole_cpu_seconds"] - run["cpu_seconds"], "{:.2f}".format)]

    def memory(field: str) -> list[str]:
        return [of(name, lambda run: run[field], page.megabytes) for name in (PLAIN, *results.treated)]

    return [script, len(results.of(script, there[0])), of(ALONE, lambda run: run["whole_cpu_seconds"], "{:.2f}".format), *seconds(PLAIN),
            *(cell for name in results.treated for cell in seconds(name)), *memory("average_bytes"), *memory("peak_bytes")]


def _where(results: Results) -> Iterable[tuple[str, object]]:
    runs = [record for record in results.records if record["kind"] == "run"]
    for facts in results.kept.machines():
        yield from facts.items()
    if runs:
        dates = sorted({record["when"][:10] for record in runs})
        loads = [record["load"] for record in runs]
        yield "commit", ", ".join(dict.fromkeys(record["commit"] for record in runs))
        yield "sampler", ", ".join(sorted({record["sampler"] for record in runs if "sampler" in record}))
        yield "date", " to ".join(dict.fromkeys((dates[0], dates[-1])))
        yield "load average before the runs", f"{min(loads):.2f} to {max(loads):.2f}"
