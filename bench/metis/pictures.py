"""Figures 5 to 10 of the paper from our figures."""

from plotting import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, WITHOUT, in_two_columns, matplotlib, plt, save

SHOWN = {"no-groups": ("no groups", GREY), "metis": ("Metis", BLUE), "metis-random": ("random groups", ORANGE),
         "metis-elsewhere": ("Metis, trained elsewhere", GREEN), "metis-elsewhere-random": ("random, of those sizes", RED)}
MILLION = 1e6


def _share(part, whole):
    return part / whole if whole else None


# Of one collection, as trace/metis/src/metrics.rs has them.
def _occupied(one):
    return one["heap_bytes"] - one["global_free"] - one["region_free"]


OF_COLLECTION = {
    "efficiency": lambda one: _share(one["reclaimed"], _occupied(one)),
    "region_group_efficiency": lambda one: _share(max(one["regions"] - one["regions_after"], 0), one["regions"]),
    "region_group_significance": lambda one: _share(one["heap_bytes"] - one["global_bytes"] - one["region_free"], _occupied(one)),
    "global_holes": lambda one: one["global_holes"],
}


def over_time(folder, name, title, outcomes, metric, arms, top=1.0):
    """One small picture a workload: the metric of the first seed's collections."""
    if not matplotlib:
        return WITHOUT
    figure, axes = in_two_columns(len(outcomes), 1.7)
    for place, (workload, outcome) in zip(axes.flat, outcomes.items()):
        for arm in arms:
            _curve(place, outcome, arm, metric)
        start = outcome.activation()
        if start is not None:
            place.axvline(start / MILLION, color="black", linewidth=0.5, linestyle=":")
        place.set_title(workload)
        place.set_ylim(bottom=0, top=top)
    axes.flat[0].legend(ncols=3, loc="upper left", bbox_to_anchor=(0, 1.6))
    for place in axes[-1]:
        place.set_xlabel("million allocations (dotted: activation)")
    figure.tight_layout()
    return save(figure, folder, name, title)


def _curve(place, outcome, arm, metric):
    label, colour = SHOWN[arm]
    points = [(one["allocations"] / MILLION, OF_COLLECTION[metric](one)) for one in outcome.arms[arm]["series"]]
    points = [point for point in points if point[1] is not None]
    if points:
        place.plot(*zip(*points), color=colour, linewidth=0.8, marker=".", markersize=2, label=label)


def bars(folder, name, title, names, series, axis):
    """series: (label, colour, a value or None for each name)."""
    if not matplotlib:
        return WITHOUT
    figure, axes = plt.subplots(figsize=(9, 2.8))
    width = 0.8 / len(series)
    for index, (label, colour, values) in enumerate(series):
        at = [i + (index - (len(series) - 1) / 2) * width for i in range(len(names))]
        axes.bar(at, [value or 0 for value in values], width, label=label, color=colour)
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.grid(axis="y", linewidth=0.3)
    axes.set_ylabel(axis)
    axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.22))
    return save(figure, folder, name, title)


def both_measures(folder, name, title, outcomes, arms):
    """Each workload a point: total free ratio and all holes over those of random groups. Better on both is lower left."""
    if not matplotlib:
        return WITHOUT
    figure, axes = plt.subplots(figsize=(6, 4))
    colours = [BLUE, GREEN, ORANGE, RED, PURPLE, GREY, "black", "#56b4e9"]
    for (arm, label), colour in zip(arms.items(), colours):
        points = [(one["ratio"], other["ratio"]) for outcome in outcomes.values()
                  if (one := outcome.against_random(arm, "total-free-ratio")) and (other := outcome.against_random(arm, "all-holes"))
                  and one["ratio"] and other["ratio"]]
        if points:
            axes.scatter(*zip(*points), s=14, color=colour, label=label)
    axes.axhline(1, color="black", linewidth=0.6)
    axes.axvline(1, color="black", linewidth=0.6)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("total free ratio, of random groups'")
    axes.set_ylabel("all holes, of random groups'")
    axes.legend(fontsize=7)
    return save(figure, folder, name, title)
