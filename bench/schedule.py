"""Which run comes next, and how long what is left will take."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from catalogue import ALWAYS
from one_run import PLAIN, Configuration
from store import OfOneBuild

Record = dict[str, Any]
Step = tuple[str, str, list[str]]  # a script, a round, the configurations that are to be run

# A round that was interrupted is completed only while the machine can be taken to be in the same mood.
SAME_MOOD = datetime.timedelta(hours=2)
GUESS_SECONDS = 15.0
# The facts of a machine that the runs of a round must have in common.
SAME = ("machine", "processor", "kernel", "R")


def rounds_of(records: Iterable[Record], script: str, made_of: str) -> dict[str, dict[str, Record]]:
    """{round: {configuration: record}} of a script as it is, oldest first."""
    found: dict[str, dict[str, Record]] = {}
    for record in records:
        if record["kind"] == "run" and record["script"] == script and record["hash"] == made_of:
            found.setdefault(record["round"], {})[record["configuration"]] = record
    return found


class Plan:
    """Rounds of runs: each holds plain R alone, plain twice, and what still lacks rounds. Every script gets its n-th round
    before any gets the next."""

    def __init__(self, kept: OfOneBuild, scripts: Mapping[str, str], configurations: Sequence[Configuration], rounds: int,
                 here: Mapping[str, str]) -> None:
        self.kept, self.scripts, self.rounds = kept, scripts, rounds  # scripts: {name: hash}
        self.here = here  # the facts of this machine
        self.treated = [one.name for one in configurations]
        self.failed: set[tuple[str, str]] = set()

    def rounds_of(self, script: str) -> dict[str, dict[str, Record]]:
        """As the function of this name."""
        return rounds_of(self.kept.records(), script, self.scripts[script])

    def done(self, script: str, configuration: str) -> int:
        """Rounds in which the configuration has all that it is compared with."""
        return sum({*ALWAYS, configuration} <= runs.keys() for runs in self.rounds_of(script).values())

    def lacking(self, script: str) -> list[str]:
        """What has not enough rounds."""
        if any((script, one) in self.failed for one in ALWAYS):
            return []
        return [one for one in self.treated if (script, one) not in self.failed and self.done(script, one) < self.rounds]

    def next_round(self, now: datetime.datetime) -> Step | None:
        """None where all is done."""
        candidates = [script for script in self.scripts if self.lacking(script)]
        for script in candidates:
            if unfinished := self._open_round(script, now):
                return script, *unfinished
        if not candidates:
            return None
        fewest = min(candidates, key=lambda script: min(self.done(script, one) for one in self.lacking(script)))
        count = len(self.rounds_of(fewest))
        return fewest, f"{now.strftime('%Y%m%dT%H%M%S')}-{count + 1}", self._members(fewest, count)

    def _open_round(self, script: str, now: datetime.datetime) -> tuple[str, list[str]] | None:
        """A round that was begun not long ago and lacks something: its name and what it lacks."""
        rounds = self.rounds_of(script)
        if not rounds:
            return None
        name, runs = list(rounds.items())[-1]
        last = max(datetime.datetime.fromisoformat(record["when"]) for record in runs.values())
        lacks = [one for one in self._members(script, len(rounds) - 1) if one not in runs]
        is_here = all(self._told_of(record) == self._told() for record in runs.values())
        return (name, lacks) if lacks and is_here and now - last < SAME_MOOD else None

    def _told(self) -> list[str | None]:
        return [self.here.get(fact) for fact in SAME]

    def _told_of(self, record: Record) -> list[str | None]:
        facts = self.kept.store.sessions.get(record["session"], {}).get("facts", {})
        return [facts.get(fact) for fact in SAME]

    def _members(self, script: str, earlier: int) -> list[str]:
        """No configuration always follows the same one."""
        return [*ALWAYS, *self.lacking(script)][:: -1 if earlier % 2 else 1]

    def seconds_of(self, script: str) -> float:
        """What a run is expected to take."""
        known = [run["wall_seconds"] for runs in self.rounds_of(script).values() for run in runs.values() if "wall_seconds" in run]
        return sum(known) / len(known) if known else GUESS_SECONDS

    def seconds_left(self) -> float:
        """What all that is lacking is expected to take."""
        total = 0.0
        for script in self.scripts:
            lacks = [self.rounds - self.done(script, one) for one in self.lacking(script)]
            total += (sum(lacks) + len(ALWAYS) * max(lacks, default=0)) * self.seconds_of(script)
        return total


def differs(runs: Mapping[str, Record], configuration: str) -> bool:
    """Whether a run of a round printed something else than plain R in the same round."""
    return PLAIN in runs and configuration in runs and runs[configuration]["output"] != runs[PLAIN]["output"]
