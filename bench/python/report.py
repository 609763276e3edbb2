"""The page of the programs of Python from the stored records. What was not measured says so."""

import os
from collections.abc import Iterable, Sequence

import page
import verdicts
from catalogue import ALWAYS, PROGRAMS, SCRIPTS, START_MILLISECONDS, WORKERS_COPIES, script_hash
from intervals import Interval, Ratio, at_most, mean, mean_interval, verdict
from one_run import CONTROL, PLAIN, TREATED
from schedule import Record, differs, rounds_of
from store import OfOneBuild

# Figures of a run, as the tables are headed.
MEASURES = {"peak": "peak_bytes", "CPU time": "cpu_seconds", "average": "average_bytes"}
ENOUGH_ROUNDS = 2


def write(kept: OfOneBuild, path: str) -> str:
    """Writes the page; returns a line about it."""
    made = written(Results(kept))
    made.write(path)
    words = [word for _, word in page.Tables(made.markdown()).verdicts(verdicts.TARGETS)]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words)) or "nothing is decided"
    return f"{os.path.relpath(path)}: {counts}"


class Results:
    """The rounds that count: of the programs as they are, of one build, in the setting that was measured last."""

    def __init__(self, kept: OfOneBuild) -> None:
        self.kept = kept
        records = kept.records()
        setting = kept.store.setting_of(records[-1]) if records else ""
        self.records = [record for record in records if kept.store.setting_of(record) == setting]
        hashes = {script: script_hash(script) for script in SCRIPTS}
        self.rounds = {script: list(rounds_of(self.records, script, made_of).values()) for script, made_of in hashes.items()}
        names = [name for rounds in self.rounds.values() for runs in rounds for name in runs if name not in ALWAYS]
        self.treated = sorted(set(names), key=lambda name: (name != TREATED, name))
        self.start = next((record for record in reversed(self.records) if record["kind"] == "start"), None)
        self.workers = [record for record in self.records if record["kind"] == "workers"]
        worked = {(record["script"], record["configuration"]): at for at, record in enumerate(self.records) if record["kind"] == "run"}
        self.failed = {(record["script"], record["configuration"]): record["said"] for at, record in enumerate(self.records)
                       if record["kind"] == "failed" and record["hash"] == hashes.get(record["script"])
                       and at > worked.get((record["script"], record["configuration"]), -1)}

    def differing(self) -> list[tuple[str, str, int, int]]:
        """(program, configuration, rounds with another output than plain's, of how many)."""
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

    def interval(self, script: str, configuration: str, field: str) -> Interval | None:
        """The ratio to plain, or None where there are no rounds."""
        pairs = [(runs[configuration][field], runs[PLAIN][field]) for runs in self.rounds[script] if self._counts(runs, configuration)]
        return Ratio(pairs, stream=script).interval() if pairs else None


def written(results: Results) -> page.Page:
    """The page."""
    made = page.Page("Programs of Python: what Pagewise changes", verdicts.of_python)
    lacking = sum(len(results.of(script, TREATED)) < ENOUGH_ROUNDS for script in SCRIPTS)
    if lacking:
        made.is_provisional(f"{lacking} of {len(SCRIPTS)} programs have less than {ENOUGH_ROUNDS} rounds of `{TREATED}`: type `make bench-python`.")
    rounds = sorted({len(results.of(script, TREATED)) for script in SCRIPTS})
    made.add("Written by `make bench-python`, from `bench/python/scripts/`. Ratios are to plain Python in the same rounds, with 95 % intervals; below 1 is "
             "better. *A/A* is plain to plain: what differs there is noise. Peak and average are physical memory of all processes of a program, CPU "
             "time is theirs without the sampler's.", f"Rounds: {' to '.join(map(str, dict.fromkeys((rounds[0], rounds[-1]))))}.", *_troubles(results))
    made.section(verdicts.TARGETS, "Under `auto`.", page.table(["program and figure", "at most", "measured", "A/A", "verdict"], _targets(results)))
    made.section("The programs", page.table(["program", "what it does"], ([name, program.does] for name, program in PROGRAMS.items())))
    for name in results.treated:
        options = next(run["options"] for rounds in results.rounds.values() for runs in rounds if (run := runs.get(name)))
        made.section(f"Under {name}", f"With the options `{options}`." if options else None, page.table(["program", *MEASURES], _rows(results, name)))
    made.section("Sharing with processes", "A frame of 1 GB is handed by `pagewise.share()` to eight processes; each reads all of it and writes one column in "
                 "twenty. What they then take above what they took idle with pandas imported (the sum of Pss), in sizes of the frame.",
                 page.table(["run", "copies", "seconds until the last is done"],
                            ([at, page.figure(record["copies"]), page.figure(record["seconds"], 1)] for at, record in enumerate(results.workers, 1))))
    made.section("Figures behind the ratios", "Means. Memory is in MB (10^6 bytes), CPU time in seconds; *shared* is what copies did not copy.",
                 page.table(_heads(results), filter(None, (_figures(results, script) for script in SCRIPTS))))
    made.section("Where", page.facts(_where(results)))
    return made


def _troubles(results: Results) -> Iterable[str]:
    odd = [f"**{script} {name}: {count} of {whole} runs printed something else than plain Python**" for script, name, count, whole in results.differing()]
    failed = [f"**{script} {name} failed**: {said.splitlines()[0] if said else 'no message'}" for (script, name), said in results.failed.items()]
    if odd or failed:
        yield "These count in no figure:"
        yield page.items([*odd, *failed])
    else:
        yield "Every run printed what plain Python printed, byte for byte."


def _targets(results: Results) -> Iterable[Sequence[str]]:
    for script, program in PROGRAMS.items():
        for name, target in (("peak", program.peak), ("CPU time", program.time)):
            found, control = (results.interval(script, which, MEASURES[name]) for which in (TREATED, CONTROL))
            word = verdict(found, control, target) if found else "not measured yet"
            yield [f"{script}: {name}", f"{target:.2f}", page.interval(found), page.interval(control, missing="-"), page.said(word)]
    found = mean_interval(results.start["milliseconds"]) if results.start else None
    word = at_most(found["low"], found["high"], START_MILLISECONDS) if found else "not measured yet"
    taken = mean_interval([record["copies"] for record in results.workers]) if results.workers else None
    told = at_most(taken["low"], taken["high"], WORKERS_COPIES) if taken else "not measured yet"
    yield ["eight workers of a shared frame, copies", f"{WORKERS_COPIES:.2f}", page.interval(taken), "-", page.said(told)]
    yield ["import and on(), ms of CPU time", str(START_MILLISECONDS), page.interval(found, 1), "-", page.said(word)]


def _rows(results: Results, name: str) -> Iterable[Sequence[str]]:
    for script in SCRIPTS:
        found = [results.interval(script, name, field) for field in MEASURES.values()]
        if any(found):
            yield [script, *map(page.interval, found)]


def _heads(results: Results) -> Sequence[str]:
    names = (PLAIN, *results.treated)
    return ["program", "rounds", *(f"peak, {name}" for name in names), *(f"CPU, {name}" for name in names), "shared", "faults, plain", "faults, auto"]


def _figures(results: Results, script: str) -> Sequence[object] | None:
    if not results.of(script, TREATED):
        return None

    def of(name: str, field: str) -> float | None:
        runs = results.of(script, name)
        return mean(run[field] for run in runs) if runs else None

    names = (PLAIN, *results.treated)
    shared = mean(run.get("statistics", {}).get("shared_copy_bytes", 0) for run in results.of(script, TREATED))
    return [script, len(results.of(script, TREATED)), *(page.megabytes(of(name, "peak_bytes"), missing="-") for name in names),
            *(page.figure(of(name, "cpu_seconds"), 2) for name in names), page.megabytes(shared),
            *(page.figure(of(name, "minor_faults"), 0) for name in (PLAIN, TREATED))]


def _where(results: Results) -> Iterable[tuple[str, object]]:
    runs = [record for record in results.records if record["kind"] == "run"]
    for facts in results.kept.machines():
        yield from facts.items()
    if results.start:
        clock = sorted(results.start["clock"])
        yield "import and on() by the clock", f"{clock[0]:.1f} to {clock[-1]:.1f} ms; NumPy was there, pandas was not"
    if runs:
        dates = sorted({record["when"][:10] for record in runs})
        loads = [record["load"] for record in runs]
        yield "commit", ", ".join(dict.fromkeys(record["commit"] for record in runs))
        yield "sampler", ", ".join(sorted({record["sampler"] for record in runs}))
        yield "date", " to ".join(dict.fromkeys((dates[0], dates[-1])))
        yield "load average before the runs", f"{min(loads):.2f} to {max(loads):.2f}"
