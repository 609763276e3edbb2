"""Means, ratios and their 95 % intervals by percentile bootstrap over paired rounds, as `pagewise compare` has them."""

import functools
import math
import operator
import random

RESAMPLES = 10_000
LOW, HIGH = 0.025, 0.975


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


class Ratio:
    """The ratio of two means over paired rounds, less `baseline` on both sides: a round is drawn with both of its runs."""

    def __init__(self, pairs, baseline=0.0, stream=0):
        self.rounds = len(pairs)
        treated = [pair[0] - baseline for pair in pairs]
        plain = [pair[1] - baseline for pair in pairs]
        self.value = _divide(mean(treated), mean(plain))
        self.resampled = []
        if self.rounds > 1:
            self.resampled = [_divide(sum(pick(treated)), sum(pick(plain))) for pick in _picks(self.rounds, stream)]

    def interval(self):
        return _interval(self.value, self.resampled, self.rounds)


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
    resampled = []
    if all(ratio.resampled for ratio in ratios):
        logs = [[math.log(v) if math.isfinite(v) else math.nan for v in ratio.resampled] for ratio in ratios]
        resampled = [math.exp(mean(column)) for column in zip(*logs)]
    return _interval(value, resampled, min(ratio.rounds for ratio in ratios))
