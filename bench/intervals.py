"""Means, ratios and their 95 % intervals over paired rounds, and which side of a target they are on.

As `pagewise compare` has them (intervals/src/lib.rs): from ten rounds on by percentile bootstrap. Of fewer rounds a
bootstrap cannot reach beyond the rounds that there are (of three it is the least and the most of them, which hold the truth
three times in four): there it is Student's t on the logarithm of the ratio, as wide as so few rounds make it.
"""

import functools
import math
import operator
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict

RESAMPLES = 10_000
LOW, HIGH = 0.025, 0.975
ENOUGH_TO_RESAMPLE = 10
# Student's t at 97.5 % for 1 to 30 degrees of freedom; of more, the last is on the safe side.
STUDENT_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
             2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
MET, UNDECIDED, MISSED = SEVERITY = ("met", "undecided", "missed")
WORDS = (MET, MISSED, UNDECIDED)  # in the order in which they are told


class Interval(TypedDict):
    """A mean, both ends of its 95 % interval, and the rounds that it is made of."""

    mean: float
    low: float
    high: float
    rounds: int


# The control of what does not vary: of memory that is counted, not sampled.
NO_NOISE = Interval(mean=1.0, low=1.0, high=1.0, rounds=0)


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean; not a number where there are no values."""
    values = list(values)
    return sum(values) / len(values) if values else math.nan


def mean_interval(values: Sequence[float]) -> Interval:
    """Of a mean that is no ratio."""
    return Ratio([(value, 1.0) for value in values]).interval()


@functools.lru_cache(maxsize=64)
def _picks(count: int, stream: object) -> list[Callable[[Sequence[float]], Any]]:
    """Functions that draw `count` of `count` values. Two figures of one workload share a stream: their rounds are pairs."""
    source = random.Random(f"pagewise {count} {stream}")
    return [operator.itemgetter(*(source.randrange(count) for _ in range(count))) for _ in range(RESAMPLES)]


def _interval(value: float, resampled: Iterable[float], rounds: int) -> Interval:
    resampled = sorted(v for v in resampled if math.isfinite(v))
    if not resampled:
        return {"mean": value, "low": value, "high": value, "rounds": rounds}
    low, high = (resampled[round((len(resampled) - 1) * share)] for share in (LOW, HIGH))
    return {"mean": value, "low": low, "high": high, "rounds": rounds}


def _student(value: float, error: float, freedom: float, rounds: int) -> Interval:
    """`error` is the standard error of the value's logarithm."""
    reach = error * STUDENT_T[min(int(freedom), len(STUDENT_T)) - 1] if error else 0.0
    return {"mean": value, "low": value * math.exp(-reach), "high": value * math.exp(reach), "rounds": rounds}


class Ratio:
    """The ratio of two means over paired rounds, less `baseline` on both sides: a round is drawn with both of its runs."""

    def __init__(self, pairs: Sequence[tuple[float, float]], baseline: float = 0.0, stream: object = 0) -> None:
        self.rounds = len(pairs)
        treated = [pair[0] - baseline for pair in pairs]
        plain = [pair[1] - baseline for pair in pairs]
        self.value = _divide(mean(treated), mean(plain))
        self.resampled: list[float] = []
        self.error = 0.0
        if self.rounds > 1 and math.isfinite(self.value):
            self.error = _error_of_logarithm(treated, plain)
        if self.rounds > 1:
            self.resampled = [_divide(sum(pick(treated)), sum(pick(plain))) for pick in _picks(self.rounds, stream)]

    def interval(self) -> Interval:
        """By Student's t of few rounds, by bootstrap of ten and more."""
        if self.rounds < ENOUGH_TO_RESAMPLE and self.error:
            return _student(self.value, self.error, self.rounds - 1, self.rounds)
        return _interval(self.value, self.resampled, self.rounds)


def _error_of_logarithm(treated: Sequence[float], plain: Sequence[float]) -> float:
    """Of mean(treated) / mean(plain), by how far each round's pair is from both means."""
    count, here, there = len(plain), mean(treated), mean(plain)
    squares = sum((a / here - b / there) ** 2 for a, b in zip(treated, plain))
    return math.sqrt(squares / (count - 1) / count)


def _divide(a: float, b: float) -> float:
    # Nothing above the baseline on one side: no ratio that a geometric mean could use.
    return a / b if a > 0 and b > 0 else math.nan


def geometric_mean(ratios: Sequence[Ratio]) -> Interval | None:
    """Over workloads, each resampled by itself. None where there is nothing; not a number where a ratio is none."""
    if not ratios:
        return None
    if any(not math.isfinite(ratio.value) for ratio in ratios):
        return _interval(math.nan, [], min(ratio.rounds for ratio in ratios))
    value = math.exp(mean([math.log(ratio.value) for ratio in ratios]))
    rounds = min(ratio.rounds for ratio in ratios)
    if 1 < rounds < ENOUGH_TO_RESAMPLE:
        return _student(value, *_error_of_mean(ratios), rounds)
    resampled = []
    if all(ratio.resampled for ratio in ratios):
        logs = [[math.log(v) if math.isfinite(v) else math.nan for v in ratio.resampled] for ratio in ratios]
        resampled = [math.exp(mean(column)) for column in zip(*logs)]
    return _interval(value, resampled, rounds)


def _error_of_mean(ratios: Sequence[Ratio]) -> tuple[float, float]:
    """(standard error of the mean logarithm, its degrees of freedom after Welch and Satterthwaite)."""
    squares = [ratio.error ** 2 for ratio in ratios]
    if not any(squares):
        return 0.0, 1
    freedom = sum(squares) ** 2 / sum(square ** 2 / (ratio.rounds - 1) for square, ratio in zip(squares, ratios))
    return math.sqrt(sum(squares)) / len(ratios), freedom


def geometric(values: Iterable[float]) -> float:
    """The geometric mean alone; not a number where there are no values."""
    return math.exp(mean(math.log(value) for value in values))


# --- targets --------------------------------------------------------------------------------------


def at_most(low: float, high: float, target: float) -> str:
    """met where all of a range is at or below the target, missed where all of it is above, undecided otherwise."""
    if high <= target:
        return MET
    return MISSED if low > target else UNDECIDED


def at_least(low: float, high: float, target: float) -> str:
    """As at_most(), the other way round."""
    return at_most(-high, -low, -target)


def verdict(measured: Interval, control: Interval | None, target: float) -> str:
    """Whether a ratio is at most its target.

    A target closer to 1 than plain against plain reaches (the control) cannot be met by proof: the machine cannot tell.
    """
    found = at_most(measured["low"], measured["high"], target)
    noise = max(abs(control["low"] - 1), abs(control["high"] - 1)) if control else math.inf
    if not math.isfinite(noise):
        noise = math.inf
    is_in_doubt = found == MET and 1 - noise < target < 1 + noise and measured["high"] > 1 - noise
    return UNDECIDED if is_in_doubt else found
