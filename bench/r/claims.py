"""The targets of one scale: each beside what was measured, what the cost model makes of it, and one verdict."""

import math
import typing

import cost_model
from intervals import MET, SEVERITY, UNDECIDED, at_least, verdict
from results import ENOUGH_ROUNDS, MODEL_BOUNDS
from workloads import CONTROL, PLAIN, TREATED, WORKLOADS

MISSING = "not measured yet"
WORST_CPU = 1.03
SPEED_UP, SPEED_UP_ROUNDS = 5.2, 3
# What a claim must rest on besides rounds: which benchmarks a mean is over.
AT_LEAST = {"small": tuple(WORKLOADS), "full": ("lssvm", "lda", "gbm", "glmnet", "rpart", "logreg"), "tiny": tuple(WORKLOADS)}
BEST = "lssvm"


def worst(verdicts):
    """Of several views of one claim. Where one of them is not known, the claim is not shown."""
    if MISSING in verdicts:
        return MISSING if set(verdicts) == {MISSING} else worst([UNDECIDED, *(said for said in verdicts if said != MISSING)])
    return max(verdicts, key=SEVERITY.index)


class Seen:
    """One view of a claim: a ratio (None: not measured), plain R beside plain R, the verdict, and the benchmark where it is of one."""

    def __init__(self, found, control, said, name=None):
        self.found, self.control, self.said, self.name = found, control, said, name


class Row(typing.NamedTuple):
    """One bar. `modelled` is None where the cost model has nothing to say; `otherwise` then stands in its column."""
    title: str
    paper: str
    bar: object
    aim: str
    measured: Seen
    modelled: Seen | None
    said: str
    digits: int = 3
    otherwise: str = "as measured"


class Claims:
    def __init__(self, scale, results, speed_up, swap_troubles):
        """`speed_up` is the interval of table 5's lssvm, or None; `swap_troubles` what Results.troubles() is, of its runs."""
        self.scale, self.results = scale, results
        self.rows = []
        self._over_all("geometric mean of peak memory above the baseline", ".864 (nothing subtracted)", .80, ".72", "peak above")
        self._over_all("geometric mean of average memory above the baseline", ".820 DLS, .646 SAC (nothing subtracted)", .65, ".55", "average above")
        self._over_all("the same, to `direct` in the same rounds", ".865 (.646/.747)", .90, "", "average above", "direct")
        self._over_all("geometric mean of CPU time", "1.053 DLS, 1.036 SAC", .97, ".90", "cpu", is_modelled=True)
        self._worst_of_any()
        found, control = (results.interval(BEST, one, "peak above") for one in (TREATED, CONTROL))
        self._row(f"{BEST}: peak memory above the baseline", ".462 (nothing subtracted)", .46, ".40", Seen(found, control, self._judge(found, control, .46, [BEST])))
        self._row(f"{BEST}: speed-up where plain swaps", "5.2", f"at least {SPEED_UP}", "10", Seen(speed_up, None, self._judge_speed_up(speed_up, swap_troubles)), digits=2, otherwise="-")
        for title, measure, is_modelled in (("average memory above the baseline", "average above", False), ("CPU time, ksmd's included", "cpu", True)):
            self._over_all(f"geometric mean of {title}, to `ksm`", "below 1", 1.0, "on every benchmark" + self._on_every(measure), measure, "ksm", is_modelled)

    def verdicts(self):
        return [row.said for row in self.rows]

    def _row(self, title, paper, bar, aim, measured, modelled=(), **how):
        """`modelled`: the views that the cost model has, the one that is shown first."""
        said = worst([measured.said, *(seen.said for seen in modelled)])
        self.rows.append(Row(title, paper, bar, aim, measured, modelled[0] if modelled else None, said, **how))

    def _over_all(self, title, paper, bar, aim, measure, to=PLAIN, is_modelled=False):
        modelled = [self._mean(bar, one, to) for one in MODEL_BOUNDS] if is_modelled else ()
        self._row(title, paper, bar, aim, self._mean(bar, measure, to), modelled)

    def _mean(self, bar, measure, to):
        found, count = self.results.geometric_mean(TREATED, measure, to)
        control, control_count = self.results.geometric_mean(CONTROL, measure)
        is_of_all = all(self.results.ratio(name, TREATED, measure, to) for name in AT_LEAST[self.scale])
        # The noise of fewer benchmarks is not the noise of these.
        said = self._judge(found, control if control_count == count else None, bar, WORKLOADS, to, is_of_all)
        return Seen(found, control, said)

    def _worst_of_any(self):
        measured, *modelled = (self._worst(measure) for measure in ("cpu", *MODEL_BOUNDS))
        self._row(f"worst CPU time of any benchmark{': ' + measured.name if measured.name else ''}", "1.169", WORST_CPU, "1.00", measured, modelled)

    def _worst(self, measure):
        """The benchmark of the worst verdict, and of these the highest ratio; the verdict is over all."""
        is_of_all = all(self.results.ratio(name, TREATED, measure) for name in AT_LEAST[self.scale])
        known = []
        for name in WORKLOADS:
            found, control = (self.results.interval(name, one, measure) for one in (TREATED, CONTROL))
            if found:
                known.append(Seen(found, control, self._judge(found, control, WORST_CPU, [name], is_of_all=is_of_all), name))
        return max(known, key=lambda seen: (SEVERITY.index(seen.said), seen.found["mean"]), default=Seen(None, None, MISSING))

    def _judge(self, found, control, bar, names, to=PLAIN, is_of_all=True):
        """`names`: the benchmarks that the claim is about."""
        if not found:
            return MISSING
        if not (self._is_enough(found) and is_of_all):
            return UNDECIDED
        said = verdict(found, control if control and self._is_enough(control) else None, bar)
        is_in_doubt = said == MET and any(self._has_trouble(name, to) for name in names)
        return UNDECIDED if is_in_doubt else said

    def _is_enough(self, found):
        return found["rounds"] >= ENOUGH_ROUNDS[self.scale] and math.isfinite(found["mean"])

    def _has_trouble(self, name, to):
        """Runs that failed or computed something else are in no figure; so of the others alone nothing is claimed."""
        troubled = {configuration for configuration, _ in self.results.troubles(name)}
        return bool(troubled & {PLAIN, CONTROL, TREATED, to})

    def _judge_speed_up(self, speed, troubles):
        if not speed:
            return MISSING
        if speed["rounds"] < SPEED_UP_ROUNDS or not math.isfinite(ENOUGH_ROUNDS[self.scale]):
            return UNDECIDED
        found = at_least(speed["low"], speed["high"], SPEED_UP)
        is_in_doubt = any(configuration in (PLAIN, TREATED) for configuration, _ in troubles)
        return UNDECIDED if found == MET and is_in_doubt else found

    def _on_every(self, measure):
        known = [ratio.value for name in WORKLOADS if (ratio := self.results.ratio(name, TREATED, measure, "ksm"))]
        return f" (is on {sum(value < 1 for value in known)} of {len(known)})" if known else ""

    # In words

    def rules(self):
        measured = [name for name in WORKLOADS if self.results.ratio(name, TREATED, "peak")]
        rounds, names = ENOUGH_ROUNDS[self.scale], AT_LEAST[self.scale]
        return (f"{len(measured)} of {len(WORKLOADS)} benchmarks are measured. A target is *met* when the whole interval is at or below it, and *missed* when the whole "
                f"interval is above it. CPU time must meet it twice: as measured, and where the first touch of a page costs {cost_model.STRICTEST} us, as on a fast bare "
                "machine (the column before the verdict; with the least and with the greatest of the costs that were measured here). A target that is no further from 1 than "
                f"the A/A interval reaches is not met by an interval that reaches as far. Either verdict needs {rounds} rounds or more ({SPEED_UP_ROUNDS} for the speed-up). Means "
                f"and the worst case need {len(names)} benchmarks at least. Everything else is *undecided*, also what would be met where a run failed or had another output.")

    def chosen(self):
        """Where the means are not over all: which, and what they are without the one that gains most."""
        names = AT_LEAST[self.scale]
        if len(names) == len(WORKLOADS) or not all(self.results.ratio(name, TREATED, "peak above") for name in names):
            return []
        return [(title, self.results.geometric_mean(TREATED, measure, to, without=(BEST,))[0]) for title, measure, to in (
            ("peak above the baseline", "peak above", PLAIN), ("average above it", "average above", PLAIN), ("the same to `ksm`", "average above", "ksm"), ("CPU time", "cpu", PLAIN))]
