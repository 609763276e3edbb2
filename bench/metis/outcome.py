"""What `pagewise trace simulate --json` says of one workload, by layout and metric."""

import intervals

METRICS = ("total-free-ratio", "all-holes")
ENOUGH_SEEDS = 10


class Outcome:
    def __init__(self, reports):
        self.options = reports[0]["options"]
        trace = reports[0]["traces"][0]
        self.arms = {arm["name"]: arm for arm in trace["arms"]}
        self.compared = {(one["arm"], one["to"], one["metric"]): one for one in trace["comparisons"]}
        self.foresight = trace["foresight"]
        self.seeds = len(self.options["seeds"])

    def values(self, arm, metric, phase="activation"):
        """By seed; None where a run had no value."""
        return [run[phase][metric] for run in self.arms[arm]["runs"]] if arm in self.arms else []

    def mean(self, arm, metric, phase="activation"):
        known = [value for value in self.values(arm, metric, phase) if value is not None]
        return intervals.mean(known) if known else None

    def change(self, arm, metric, to="no-groups", phase="activation"):
        """Relative, of means."""
        one, other = self.mean(arm, metric, phase), self.mean(to, metric, phase)
        return one / other - 1 if one is not None and other else None

    def pairs(self, arm, metric, to="no-groups"):
        both = zip(self.values(arm, metric), self.values(to, metric))
        return [pair for pair in both if None not in pair]

    def ratio(self, arm, metric, to="no-groups", stream=0):
        """intervals.Ratio over the seeds, or None."""
        pairs = self.pairs(arm, metric, to)
        return intervals.Ratio(pairs, stream=stream) if pairs else None

    def against_random(self, arm, metric):
        return self.compared.get((arm, arm + "-random", metric))

    def judgement(self, arm, metric):
        """better, worse or same than random groups by the interval of paired differences; undecided; None: not run."""
        one = self.against_random(arm, metric)
        if one is None:
            return None
        low, high = one["difference"]["low"], one["difference"]["high"]
        if low == high == 0:
            return "same"
        return "better" if high < 0 else "worse" if low > 0 else "undecided"

    def learned(self):
        """Layouts that have a random control."""
        return [name for name in self.arms if name + "-random" in self.arms]

    def groups(self, arm):
        return intervals.mean([run["groups"] for run in self.arms[arm]["runs"]])

    def impossible(self):
        """Events that cannot have happened, a run."""
        counts = [sum(count for what, count in run["malformed"].items() if what != "first")
                  for arm in self.arms.values() for run in arm["runs"]]
        return intervals.mean(counts)

    def reserved(self, arm):
        """Region groups at a time, bytes of one, and the share of the heap that all are, over the first seed's activation phase."""
        series = [one for one in self.arms[arm]["series"] if one["phase"] == "activation"]
        regions = sum(one["regions"] for one in series)
        reserved = sum(one["heap_bytes"] - one["global_bytes"] for one in series)
        heap = sum(one["heap_bytes"] for one in series)
        if not heap:
            return None
        return {"regions": regions / len(series), "bytes": reserved / max(regions, 1), "share": reserved / heap}

    def activation(self, arm="metis"):
        """Allocations at the first seed's activation; None where it never came."""
        return next((one["allocations"] for one in self.arms[arm]["series"] if one["phase"] == "activation"), None)
