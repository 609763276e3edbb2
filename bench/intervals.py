"""Means, ratios and their 95 % intervals over paired rounds.

As `pagewise compare` has them (intervals/src/lib.rs): from ten rounds on by percentile bootstrap. Of fewer rounds a
bootstrap cannot reach beyond the rounds that there are (of three it is the least and the most of them, which hold the truth
three times in four): there it is Student's t on the logarithm of the ratio, as wide as so few rounds make it.
"""

import functools
import math
import operator
import random

RESAMPLES = 10_000
LOW, HIGH = 0.025, 0.975
ENOUGH_TO_RESAMPLE = 10
# Student's t at 97.5 % for 1 to 30 degrees of freedom; of more, the last is on the safe side.
STUDENT_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
             2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def mean(values):
    return sum(values) / len(values)


@functools.lru_cache(maxsize=64)
def _picks(count, stream):
    """Functions that draw `count` of `count` values. Two figures of one workload share a stream: their rounds are pairs."""
    source = random.Random(f"pagewise {count} {stream}")
    return [operator.itemgetter(*(source.randrange(count) for _ in range(count))) for _ in range(RESAMPLES)]


def _interval(value, resampled, rounds):
    resampled = sorted(v for v in resampled if math.isfinite(v))
    if not resampled:
        return {"mean": value, "low": value, "high": value, "rounds": rounds}
    at = lambda share: resampled[round((len(resampled) - 1) * share)]  # noqa: E731
    return {"mean": value, "low": at(LOW), "high": at(HIGH), "rounds": rounds}


def _student(value, error, freedom, rounds):
    """`error` is the standard error of the value's logarithm."""
    reach = error * STUDENT_T[min(int(freedom), len(STUDENT_T)) - 1] if error else 0.0
    return {"mean": value, "low": value * math.exp(-reach), "high": value * math.exp(reach), "rounds": rounds}


class Ratio:
    """The ratio of two means over paired rounds, less `baseline` on both sides: a round is drawn with both of its runs."""

    def __init__(self, pairs, baseline=0.0, stream=0):
        self.rounds = len(pairs)
        treated = [pair[0] - baseline for pair in pairs]
        plain = [pair[1] - baseline for pair in pairs]
        self.value = _divide(mean(treated), mean(plain))
        self.resampled, self.error = [], 0.0
        if self.rounds > 1 and math.isfinite(self.value):
            self.error = _error_of_logarithm(treated, plain)
        if self.rounds > 1:
            self.resampled = [_divide(sum(pick(treated)), sum(pick(plain))) for pick in _picks(self.rounds, stream)]

    def interval(self):
        if self.rounds < ENOUGH_TO_RESAMPLE and self.error:
            return _student(self.value, self.error, self.rounds - 1, self.rounds)
        return _interval(self.value, self.resampled, self.rounds)


def _error_of_logarithm(treated, plain):
    """Of mean(treated) / mean(plain), by how far each round's pair is from both means."""
    count, here, there = len(plain), mean(treated), mean(plain)
    squares = sum((a / here - b / there) ** 2 for a, b in zip(treated, plain))
    return math.sqrt(squares / (count - 1) / count)


def _divide(a, b):
    # Nothing above the baseline on one side: no ratio that a geometric mean could use.
    return a / b if a > 0 and b > 0 else math.nan


def geometric_mean(ratios):
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


def _error_of_mean(ratios):
    """(standard error of the mean logarithm, its degrees of freedom after Welch and Satterthwaite)."""
    squares = [ratio.error ** 2 for ratio in ratios]
    if not any(squares):
        return 0.0, 1
    freedom = sum(squares) ** 2 / sum(square ** 2 / (ratio.rounds - 1) for square, ratio in zip(squares, ratios))
    return math.sqrt(sum(squares)) / len(ratios), freedom
