"""Which run comes next, and how long what is left will take."""

import datetime

from workloads import BASELINE, BASELINE_RUNS, CONTROL, FIRST, PLAIN, TREATED, uses_library

# A round that was interrupted is completed only while the machine can be taken to be in the same mood.
SAME_MOOD = datetime.timedelta(hours=2)
# Where nothing is known of a run: seconds, and what starting it takes beside.
GUESS = {"tiny": 5, "small": 30, "full": 90}
OVERHEAD = 0.5


class Plan:
    """Rounds of runs. Each round of a workload holds plain and whatever configurations still lack rounds; every
    workload gets its n-th round before any gets its n+1-th."""

    def __init__(self, store, scale, workloads, configurations, rounds, versions, session):
        self.store, self.scale, self.session = store, scale, session
        self.workloads, self.rounds = workloads, rounds
        self.configurations = [name for name in configurations if name != BASELINE]
        self.versions = versions  # {"library", "script": {workload: hash}}
        self.failed = set()

    def records(self, workload):
        """Runs that count: of this script, this library where it matters, in such a setting."""
        setting = self.store.setting_of({"session": self.session})
        return [record for record in self.store.of_kind("run", scale=self.scale, workload=workload)
                if record["script"] == self.versions["script"][workload]
                and record["library"] in (None, self.versions["library"])
                and self.store.setting_of(record) == setting]

    def output_differs(self, record):
        """From those of such a processor: on another one a BLAS computes other digits, plain R's too."""
        known = {other["output"] for other in self.records(record["workload"])
                 if other["configuration"] != BASELINE and not other.get("differs") and self.store.alike(other, record)}
        return bool(known) and record["output"] not in known

    def rounds_of(self, workload):
        """{round: {configuration: record}}, oldest first."""
        found = {}
        for record in self.records(workload):
            if record["configuration"] != BASELINE:
                found.setdefault(record["round"], {})[record["configuration"]] = record
        return found

    def done(self, workload, configuration):
        """Rounds in which the configuration has a plain run to be compared with."""
        return sum(PLAIN in one and configuration in one for one in self.rounds_of(workload).values())

    def number(self, workload, configuration):
        """Of the next run, for people. Plain may be wanted beside a new library when it has all its rounds."""
        done = self.done(workload, configuration)
        return f"{done + 1}/{self.rounds}" if done < self.rounds else "once more"

    def lacking(self, workload):
        return [name for name in self.configurations
                if (workload, name) not in self.failed and self.done(workload, name) < self.rounds]

    def _open_round(self, workload, now):
        """A round that was begun not long ago and lacks something: (name, what it lacks)."""
        rounds = self.rounds_of(workload)
        if not rounds:
            return None
        name, runs = list(rounds.items())[-1]
        last = max(datetime.datetime.fromisoformat(record["when"]) for record in runs.values())
        is_here = all(self.store.alike(record, {"session": self.session}) for record in runs.values()) and not self._is_another_librarys(workload, name)
        lacks = [one for one in self._members(workload, len(rounds) - 1) if one not in runs]
        return (name, lacks) if lacks and is_here and now - last < SAME_MOOD else None

    def _is_another_librarys(self, workload, name):
        """Its plain runs count for every library, and stood beside an earlier one's."""
        whole = self.store.of_kind("run", scale=self.scale, workload=workload, round=name)
        return any(record["library"] not in (None, self.versions["library"]) for record in whole)

    def _members(self, workload, earlier_rounds):
        lacking = self.lacking(workload)
        wanted = {PLAIN, *lacking} if lacking else set()
        if TREATED in wanted and CONTROL in self.configurations:
            wanted.add(CONTROL)  # the noise of the same hours, not of an earlier library's
        ordered = [name for name in FIRST if name in wanted] + [name for name in self.configurations if name in wanted and name not in FIRST]
        # No configuration always follows the same one.
        return [name for name in ordered[::-1 if earlier_rounds % 2 else 1] if (workload, name) not in self.failed]

    def next_round(self, now):
        """(workload, round, configurations to run), or None when all is done."""
        for workload in self.workloads:
            if self._needs_baseline(workload):
                return workload, None, [BASELINE]
        candidates = [workload for workload in self.workloads
                      if self.lacking(workload) and (workload, PLAIN) not in self.failed]
        for workload in candidates:
            unfinished = self._open_round(workload, now)
            if unfinished:
                return workload, *unfinished
        if not candidates:
            return None
        fewest = min(candidates, key=lambda one: min(self.done(one, name) for name in self.lacking(one)))
        earlier = len(self.rounds_of(fewest))
        return fewest, f"{self.session}-{earlier + 1}", self._members(fewest, earlier)

    def _needs_baseline(self, workload):
        if (workload, BASELINE) in self.failed or not self.lacking(workload):
            return False
        return sum(record["configuration"] == BASELINE for record in self.records(workload)) < min(BASELINE_RUNS, self.rounds)

    def seconds_of(self, workload, configuration):
        """What a run is expected to take."""
        runs = self.store.of_kind("run", scale=self.scale, workload=workload)
        same = [record["wall_seconds"] for record in runs if record["configuration"] == configuration]
        if configuration == BASELINE:
            return (same or [3])[-1] + OVERHEAD
        alike = [record["wall_seconds"] for record in runs if record["configuration"] != BASELINE]
        last = (same or alike or [GUESS[self.scale]])[-5:]
        return sum(last) / len(last) + OVERHEAD

    def seconds_left(self):
        total = 0
        for workload in self.workloads:
            if (workload, PLAIN) in self.failed:
                continue
            lacking = {name: self.rounds - self.done(workload, name) for name in self.lacking(workload)}
            if not lacking:
                continue
            lacking[PLAIN] = max(lacking.values())
            if TREATED in lacking and CONTROL in self.configurations:
                lacking[CONTROL] = max(lacking[TREATED], lacking.get(CONTROL, 0))
            total += sum(count * self.seconds_of(workload, name) for name, count in lacking.items())
        return total

    def record(self, workload, configuration, round_name, measured, commit):
        return {
            "kind": "run", "scale": self.scale, "workload": workload, "configuration": configuration,
            "round": round_name, "session": self.session, "script": self.versions["script"][workload],
            "library": self.versions["library"] if uses_library(configuration) else None, "commit": commit, **measured,
        }
