"""The page of the ways to hand an array to workers, from the stored records. What was not measured says so."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import page
import verdicts
from catalogue import ALWAYS
from common import ROOT, digest
from intervals import Ratio, mean, mean_interval
from one_run import PLAIN
from schedule import Record, differs, rounds_of
from store import OfOneBuild
from ways import WAYS

MEGABYTES = 1000  # of the array
TREATED = tuple(name for name in WAYS if name not in ALWAYS)
# Who is killed, and the size of a small /dev/shm; and of the array that is handed over meanwhile.
CASES, SMALL, SMALL_MEGABYTES = ("owner", "worker", "all"), "64m", 100
ENOUGH_ROUNDS = 2
LABELS = {"plain": "pickling", "plain#2": "pickling, again", "pagewise": "pagewise.share()"}
# Parts of the time, and moments at which memory is looked at, as the tables are headed.
TIMES = {"made": "make", "handed to all": "hand", "read by all": "read seconds", "written by all": "written seconds"}
MOMENTS = {"handed": "at handed", "read": "at read", "written": "at written"}
COMMAND = ("PYTHONPATH=python/src PAGEWISE_CORE=build/lib/libpagewise.so.0 build/bench/python/environment/bin/python \\\n"
           "        bench/python/sharing_round.py {way} {size} /dev/stdout")


def name_of(megabytes: int) -> str:
    """Rounds of one size are compared with each other."""
    return f"{megabytes} MB"


def label(name: str) -> str:
    """A way as the page calls it."""
    return LABELS.get(name, name)


def round_hash() -> str:
    """A result is comparable as long as what measures it is the same."""
    folder = os.path.join(ROOT, "bench/python")
    parts = []
    for name in ("sharing_round.py", "sharing_probe.py", "ways.py", "../proportional.py"):
        with open(os.path.join(folder, name), "rb") as file:
            parts.append(file.read())
    return str(digest(*parts))


def write(kept: OfOneBuild, path: str, megabytes: int, rounds: int) -> str:
    """Writes the page; returns a line about it."""
    results = Results(kept, megabytes)
    written(results, rounds).write(path)
    return f"{os.path.relpath(path)}: {page.listed(f'{label(name)} {len(results.of(name))}' for name in WAYS)} rounds"


class Results:
    """The rounds and the probes that count: of the programs as they are, of one build, in the setting that was measured last."""

    def __init__(self, kept: OfOneBuild, megabytes: int) -> None:
        self.kept, self.megabytes = kept, megabytes
        made_of = round_hash()
        records = [record for record in kept.records() if record["hash"] == made_of]
        setting = kept.store.setting_of(records[-1]) if records else ""
        self.records = [record for record in records if kept.store.setting_of(record) == setting]
        self.rounds = list(rounds_of(self.records, name_of(megabytes), made_of).values())
        self.probes = {(record["way"], record["case"]): record["found"] for record in self.records if record["kind"] == "probe"}
        self.failed = {record["configuration"]: record["said"] for record in self.records if record["kind"] == "failed"}

    def counts(self, runs: dict[str, Record], name: str) -> bool:
        """Whether a round has what a way is compared with, and its workers read the same."""
        return {*ALWAYS, name} <= runs.keys() and not differs(runs, name)

    def of(self, name: str) -> list[Record]:
        """The runs of a way that count."""
        return [runs[name] for runs in self.rounds if self.counts(runs, name)]

    def figure(self, name: str, field: str) -> list[float]:
        """A figure of each run."""
        return [run["figures"][field] for run in self.of(name)]

    def seconds(self, runs: dict[str, Record], name: str) -> float:
        """Until all workers have read all."""
        return sum(runs[name]["figures"][TIMES[part]] for part in ("made", "handed to all", "read by all"))

    def to_plain(self, name: str) -> str:
        """That time, to plain pickling's."""
        pairs = [(self.seconds(runs, name), self.seconds(runs, PLAIN)) for runs in self.rounds if self.counts(runs, name)]
        return page.interval(Ratio(pairs).interval()) if pairs else page.MISSING

    def copies(self, name: str, moment: str) -> list[float]:
        """Memory of all above the same processes idle, in sizes of the array."""
        return [(run["figures"][MOMENTS[moment]] - run["figures"]["at idle"]) / (self.megabytes * 1e6) for run in self.of(name)]


def written(results: Results, rounds: int) -> page.Page:
    """The page."""
    made = page.Page("Sharing an array with processes: five ways of Python", verdicts.of_python_sharing)
    few = [name for name in WAYS if len(results.of(name)) < ENOUGH_ROUNDS]
    if set(few) - {"torch"}:
        made.is_provisional(f"{len(few)} of {len(WAYS)} rows have less than {ENOUGH_ROUNDS} rounds: type `make bench-python-sharing`.")
    counts = sorted({len(results.of(name)) for name in WAYS if name not in few}) or [0]
    made.add(f"Written by `make bench-python-sharing`: an array of {results.megabytes} MB is handed to eight new interpreters. Each reads all of it, and then "
             "writes to one page in twenty of its own view. Ways alternate, every second round backwards; "
             f"rounds: {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))}. Means with 95 % intervals. "
             "What all workers read was compared with what was handed over; what each saw after all had written shows whether writes are private.",
             *_troubles(results))
    made.section("Time and memory", "*Seconds* are those until all eight have read all of it, from an ordinary array in the owner; *to plain* is "
                 "that time to plain pickling's (below 1 is better). *Copies* are memory of the nine processes above the same nine idle (the sum of "
                 "Pss, and shared pages that nobody has mapped yet), in sizes of the array.",
                 page.table(["way", "seconds", "to plain", "copies, read", "copies, 5 % written", "write private?"], _rows(results)),
                 "With writes that are not private each worker sees what all others wrote, and so does the owner. `joblib` keeps the owner's array "
                 "beside its file, and its default (`mmap_mode=\"r\"`) refuses writes.")
    made.section("Parts of the time", "Seconds. *Made* is `share()` or the copy into shared memory; joblib and pickling copy when they hand over.",
                 page.table(["way", *TIMES, "copies, handed"], _parts(results)))
    made.section("When processes are killed, and with little shared memory",
                 f"An array of {SMALL_MEGABYTES} MB in eight workers; after all had read it `kill -9` came to the owner, to one worker, or to all processes of "
                 "the program at once, as at the end of a batch job or of memory. *Go on* means that the workers that are left write, and read "
                 "right values; *stay*, that they have not ended 20 seconds after their work. *Left* is what is still in memory, or in files, when "
                 f"none of the program's processes lives. The last column is the same array with a /dev/shm of {SMALL.removesuffix('m')} MB; joblib "
                 "takes $TMPDIR where less than 2 GB of it are free.",
                 page.table(["way", "owner killed: workers", "left, MB", "worker killed: others", "all killed: left, MB", "who frees it", "small /dev/shm"],
                            _killed(results)))
    made.section("To repeat a row", page.items(
        ["`make bench-python-sharing WAYS=joblib`: two rows and their controls; `SIZE=50` (MB), `ROUNDS=2`; `TORCH=1` gets torch from PyPI, which "
         "for x86-64 is 3 GB, GPU libraries among it."]), "One run of one way, behind `make core`; its figures come last:",
        "    " + COMMAND.format(way="pagewise", size=results.megabytes * 10**6), page.table(["way", "what is written for it"],
                                                                                       ([label(name), WAYS[name].words] for name in WAYS if name != ALWAYS[1])))
    made.section("Where", page.facts(_where(results)))
    return made


def _troubles(results: Results) -> Iterable[str]:
    odd = {name: sum(differs(runs, name) for runs in results.rounds) for name in WAYS}
    said = [f"**{label(name)}: in {count} rounds workers read something else than with plain pickling**" for name, count in odd.items() if count]
    said += [f"**{label(name)} failed**: {text.splitlines()[0] if text else 'no message'}" for name, text in results.failed.items() if not results.of(name)]
    if said:
        yield "These count in no figure:"
        yield page.items(said)


def _rows(results: Results) -> Iterable[Sequence[str]]:
    for name in WAYS:
        runs = results.of(name)
        private = {run["figures"]["private"] for run in runs}
        seconds = [results.seconds({name: run}, name) for run in runs]
        yield [label(name), page.interval(mean_interval(seconds) if seconds else None, 2), results.to_plain(name),
               *(page.interval(mean_interval(copies) if copies else None, 2) for copies in (results.copies(name, "read"), results.copies(name, "written"))),
               " and ".join("yes" if one else "no" for one in private) or page.MISSING]


def _parts(results: Results) -> Iterable[Sequence[str]]:
    for name in WAYS:
        if results.of(name):
            figures = [*(results.figure(name, field) for field in TIMES.values()), results.copies(name, "handed")]
            yield [label(name), *(page.figure(mean(one), 2) for one in figures)]


def _killed(results: Results) -> Iterable[Sequence[str]]:
    for name in WAYS:
        if name == ALWAYS[1]:
            continue
        owner, worker, whole, small = (results.probes.get((name, case)) for case in (*CASES, SMALL))
        if owner or worker or whole or small:
            yield [label(name), _went_on(owner), _left(owner), _went_on(worker), _left(whole), _who(owner, whole), _worked(small)]


def _went_on(found: dict[str, Any] | None) -> str:
    if found is None:
        return page.MISSING
    return "go on" + ("" if found["ended"] else ", and stay") if found["went_on"] else "are ended"


def _left(found: dict[str, Any] | None) -> str:
    return page.megabytes(found and found["left"])


def _who(owner: dict[str, Any] | None, whole: dict[str, Any] | None) -> str:
    if not owner or not whole:
        return page.MISSING
    much = SMALL_MEGABYTES * 1e6 / 2
    if whole["left"] < much:
        return "the kernel, with the last process"
    return "a process beside them; nobody where it is killed as well" if owner["left"] < much else "nobody"


def _worked(found: dict[str, Any] | None) -> str:
    return page.MISSING if found is None else "works" if "works" in found else f"fails: {found['failed']}"


def _where(results: Results) -> Iterable[tuple[str, object]]:
    for facts in results.kept.machines():
        yield from facts.items()
    runs = [record for record in results.records if record["kind"] == "run"]
    if runs:
        yield "torch", " and ".join(dict.fromkeys(record["version"] for record in runs if record.get("version"))) or "not measured"
        dates = sorted({record["when"][:10] for record in runs})
        loads = [record["load"] for record in runs]
        yield "commit", ", ".join(dict.fromkeys(record["commit"] for record in runs))
        yield "date", " to ".join(dict.fromkeys((dates[0], dates[-1])))
        yield "load average before the runs", f"{min(loads):.2f} to {max(loads):.2f}"
