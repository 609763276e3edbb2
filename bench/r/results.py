"""From records to ratios: which runs count, which are pairs, and the intervals over them."""

import collections
import functools
import math

import cost_model
import workloads
from intervals import Ratio, geometric_mean, mean
from workloads import BASELINE, CONFIGURATIONS, CONTROL, PLAIN, TREATED, WORKLOADS, uses_library

# Measures of a run that a ratio can be taken of. "above": less the memory of the same R without data.
MEASURES = {
    "peak": lambda record, costs: record["peak_bytes"],
    "average": lambda record, costs: record["average_bytes"],
    "peak above": lambda record, costs: record["peak_bytes"],
    "average above": lambda record, costs: record["average_bytes"],
    "cpu": lambda record, costs: record["cpu_seconds"],
    "wall": lambda record, costs: record["wall_seconds"],
    **{f"cpu at {bare:.2f}": (lambda record, costs, bare=bare: cost_model.modelled_cpu(record, costs, bare))
       for bare in cost_model.BARE_TOUCH},
}
# What a claim must rest on. Tiny runs show that the harness works, nothing else.
ENOUGH_ROUNDS = {"small": 10, "full": 3, "tiny": math.inf}
STRICTEST_CPU = f"cpu at {cost_model.STRICTEST:.2f}"
# The model's figure, and it with what a page costs at the least and at the most of all sittings: a calibration is no better than that.
MODEL_BOUNDS = {STRICTEST_CPU: None, f"{STRICTEST_CPU} by the least": min, f"{STRICTEST_CPU} by the greatest": max}


class Results:
    """The runs of one scale. A configuration's runs are of one library, in one setting: the newest library that has rounds
    enough for a claim of every workload that any has; else the one with the most rounds, of equals the newest; but first that
    which was asked for by how its hash begins, in the setting where it has the most rounds. All are by one sampler, and each
    round is of one processor: of one `make` where that is given."""

    def __init__(self, store, scale, scripts=None, library=None, make=None):
        self.store, self.scale, self.asked = store, scale, library
        scripts = scripts or {name: workloads.script_hash(name) for name in WORKLOADS}
        runs = [record for record in store.of_kind("run", scale=scale)
                if record["workload"] in scripts and record["script"] == scripts[record["workload"]]]
        self.outdated = len(store.of_kind("run", scale=scale)) - len(runs)
        own = [record for record in runs if library and uses_library(record["configuration"]) and record["library"].startswith(library)]
        self.has_asked = bool(own)
        self.setting = _most(own or runs, store.setting_of)
        runs = [record for record in runs if store.setting_of(record) == self.setting]
        sampler = _most(runs, lambda record: record["sampler"])  # without root it is another one, which counts shared pages otherwise
        runs = [record for record in runs if record["sampler"] == sampler]
        self.library = {}
        for configuration in {record["configuration"] for record in runs if uses_library(record["configuration"])}:
            own = [record for record in runs if record["configuration"] == configuration]
            asked = _most([record for record in own if library and record["library"].startswith(library)], lambda record: record["library"])
            self.library[configuration] = asked or _newest_with_enough(own, ENOUGH_ROUNDS[scale]) or _most(own, lambda record: record["library"])
        self.scripts = scripts
        self.runs = [record for record in runs if self._counts(record)
                     and (make in (None, store.make_of(record)) or record["configuration"] == BASELINE)]  # measured once, on any make
        self.rounds = collections.defaultdict(dict)  # (workload, round): {configuration: record}
        self.baselines = collections.defaultdict(list)
        for record in self.runs:
            if record["configuration"] == BASELINE:
                self.baselines[record["workload"]].append(record)
            else:
                self.rounds[record["workload"], record["round"]][record["configuration"]] = record
        # Of these the page has rows; also where every output differed, so that nothing counts.
        self.workloads = [name for name in WORKLOADS if any(record["workload"] == name for record in runs)]
        self.configurations = [name for name in CONFIGURATIONS if any(record["configuration"] == name for record in runs)]

    def _counts(self, record):
        name = record["configuration"]
        if record.get("differs"):
            return False
        return not uses_library(name) or record["library"] == self.library[name]

    def of(self, workload, configuration, beside=PLAIN):
        """A configuration's runs that have a run of `beside` in their round."""
        return [pair[0] for pair in self.pairs(workload, configuration, beside)]

    def by_make(self):
        """{whose processors: the Results of the rounds on those}, where `auto` was measured on several."""
        makes = dict.fromkeys(self.store.make_of(record) for record in self.runs if record["configuration"] == TREATED)
        return {make: Results(self.store, self.scale, self.scripts, self.asked, make) for make in makes} if len(makes) > 1 else {}

    def shown(self, workload, configuration):
        """The runs whose absolute figures the page shows. Plain R's are those beside `auto`'s: other rounds may be of another
        processor, whose seconds are others."""
        return (self.of(workload, PLAIN, TREATED) if configuration == PLAIN else []) or self.of(workload, configuration)

    def pairs(self, workload, configuration, to=PLAIN):
        found = [(runs[configuration], runs[to]) for (name, _), runs in self.rounds.items()
                 if name == workload and configuration in runs and to in runs]
        if configuration == CONTROL and any(TREATED in runs for (name, _), runs in self.rounds.items() if name == workload):
            # The noise of the rounds that the claims are made of.
            found = [(runs[CONTROL], runs[to]) for (name, _), runs in self.rounds.items()
                     if name == workload and {CONTROL, to, TREATED} <= runs.keys()]
        return found

    def baseline(self, workload):
        """Bytes at the peak of the same R with the same packages and no data; None when it was not measured."""
        runs = self.baselines[workload]
        return mean([record["peak_bytes"] for record in runs]) if runs else None

    def _costs(self, record):
        return cost_model.costs_of(self.store, record)

    def _costs_by(self, bound):
        """A function that tells what pages cost in a record's sitting; with a bound, in the one of all where they cost that."""
        if not bound:
            return self._costs
        known = [costs for name in dict.fromkeys(record["session"] for record in self.runs) if (costs := self.store.sessions.get(name, {}).get("costs"))]
        chosen = bound(known, key=lambda costs: costs["touch_us"], default=None)
        return lambda record: self._costs(record) and chosen

    @functools.lru_cache(maxsize=None)
    def ratio(self, workload, configuration, measure, to=PLAIN):
        """A Ratio, or None where it was not measured."""
        pairs = self.pairs(workload, configuration, to)
        baseline = self.baseline(workload) if measure.endswith("above") else 0.0
        if not pairs or baseline is None:
            return None
        value, costs = MEASURES[measure.partition(" by the ")[0]], self._costs_by(MODEL_BOUNDS.get(measure))
        values = [tuple(value(record, costs(record)) for record in pair) for pair in pairs]
        if not all(math.isfinite(one) for pair in values for one in pair):
            return None  # modelled, and not calibrated
        return Ratio(values, baseline, stream=list(WORKLOADS).index(workload))

    def interval(self, workload, configuration, measure, to=PLAIN):
        ratio = self.ratio(workload, configuration, measure, to)
        return ratio.interval() if ratio else None

    def geometric_mean(self, configuration, measure, to=PLAIN, without=()):
        """(interval or None, number of workloads in it)."""
        names = [name for name in WORKLOADS if name not in without]
        ratios = [ratio for name in names if (ratio := self.ratio(name, configuration, measure, to))]
        return geometric_mean(ratios), len(ratios)

    def mean_of(self, workload, configuration, field):
        """Mean of a field over the runs that are shown, or None."""
        runs = self.shown(workload, configuration)
        return mean([field(record) for record in runs]) if runs else None

    def outside_the_kernel(self, bare_touch=math.inf):
        """The part of plain R's CPU time that is not the kernel's, which nobody gets below who saves page faults alone: geometric
        mean, as measured or where a page's first touch costs so many us. None where that was not calibrated."""
        parts = []
        for name in self.workloads:
            runs = self.shown(name, PLAIN)
            totals = [record["cpu_seconds"] if bare_touch == math.inf else cost_model.modelled_cpu(record, self._costs(record), bare_touch) for record in runs]
            if runs:
                parts.append(mean([(record["cpu_seconds"] - record["system_seconds"]) / total for record, total in zip(runs, totals)]))
        return math.exp(mean([math.log(part) for part in parts])) if parts and all(part > 0 for part in parts) else None

    def statistic(self, workload, configuration, name):
        return self.mean_of(workload, configuration, lambda record: (record.get("statistics") or {}).get(name, 0))

    def troubles(self, workload):
        """(configuration, what) of runs that count in no figure, and are kept: "failed", or "output" where it was another than the others'."""
        runs = [(record, "output") for record in self.store.of_kind("run", scale=self.scale, workload=workload) if record.get("differs")]
        runs += [(record, "failed") for record in self.store.of_kind("failed", scale=self.scale, workload=workload, memory=None)]
        return sorted({(record["configuration"], what) for record, what in runs if record["script"] == self.scripts[workload]
                       and record["library"] in (None, self.library.get(record["configuration"], record["library"]))
                       and self.store.setting_of(record) == self.setting})

    def curves(self, workload):
        """Memory over time: (plain's, auto's, mark). The newest of one round: of the library that counts, else of another one
        (" †"); where there is no such round, the newest of each (" *"). None where there are none."""
        known = [record for record in self.store.of_kind("curve", scale=self.scale, workload=workload)
                 if record["script"] == self.scripts[workload] and self.store.setting_of(record) == self.setting]
        plain, treated = ([record for record in known if record["configuration"] == one] for one in (PLAIN, TREATED))
        pairs = [(one, other) for one in plain for other in treated if one.get("round") and one["round"] == other.get("round")]
        own = self.library.get(TREATED)
        for mark, found in (("", [pair for pair in pairs if pair[1]["library"] == own]), (" †", pairs),
                            (" *", list(zip(plain[-1:], [record for record in treated if record["library"] == own][-1:])))):
            if found:
                return *found[-1], mark
        return None


def _newest_with_enough(records, enough):
    """The library of which every workload has so many rounds; of several the newest, None where there is none."""
    rounds, newest = collections.defaultdict(set), {}
    for record in records:
        rounds[record["library"], record["workload"]].add(record["round"])
        newest[record["library"]] = max(newest.get(record["library"], ""), record["when"])
    measured = {record["workload"] for record in records}
    whole = [library for library in newest if all(len(rounds[library, workload]) >= enough for workload in measured)]
    return max(whole, key=newest.get, default=None)


def _most(records, value):
    """The value with the most rounds; of equals the newest."""
    rounds, newest = collections.defaultdict(set), {}
    for record in records:
        if record["configuration"] != BASELINE:
            one = value(record)
            rounds[one].add((record["workload"], record["round"]))
            newest[one] = max(newest.get(one, ""), record["when"])
    return max(rounds, key=lambda one: (len(rounds[one]), newest[one])) if rounds else None
