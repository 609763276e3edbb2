"""The papers' figures as SVG. Without matplotlib (Debian: python3-matplotlib) the page has its tables alone, and says so."""

import math

from plotting import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, WITHOUT, in_two_columns, matplotlib, plt, save

TOLD = {"peak": "peak", "wall": "time"}
COLOURS = {"direct": GREY, "share": GREEN, "ksm": ORANGE, "ksm-aggressive": RED, "auto": BLUE, "auto freeze=auto": PURPLE}


def _bars(axes, names, series, ceiling=None):
    """series: (label, colour, values or None a name)."""
    width = 0.8 / len(series)
    for index, (label, colour, values) in enumerate(series):
        at = [i + (index - (len(series) - 1) / 2) * width for i in range(len(names))]
        axes.bar(at, [math.nan if v is None else 100 * v for v in values], width, label=label, color=colour)
    axes.axhline(100, color="black", linewidth=0.6)
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right")
    axes.grid(axis="y", linewidth=0.3)
    if ceiling:
        axes.set_ylim(0, ceiling)


def figure_9(folder, scale, bars):
    """bars: (name, peak, average, paper's peak, paper's average), ratios or None."""
    if not matplotlib:
        return WITHOUT
    if not any(bar[1] for bar in bars):
        return None
    figure, axes = plt.subplots(2, 1, figsize=(8, 5), sharex=True)
    names = [bar[0] for bar in bars]
    for row, (title, ours, paper) in enumerate((("peak", 1, 3), ("average", 2, 4))):
        _bars(axes[row], names, [("DLS'14", GREY, [bar[paper] for bar in bars]), ("Pagewise (auto)", BLUE, [bar[ours] for bar in bars])])
        axes[row].set_ylabel(f"{title} memory, % of plain R")
    axes[0].legend(ncols=2, loc="upper center", bbox_to_anchor=(0.5, 1.18))
    return save(figure, folder, f"figure-9-{scale}", "Memory relative to plain R")


def _marks(axes, names, shown, told):
    """The paper's own figures, as diamonds over the bars they belong to: {(name, configuration): ratio}."""
    width = 0.8 / len(shown)
    at = [(names.index(name) + (shown.index(one) - (len(shown) - 1) / 2) * width, 100 * ratio)
          for (name, one), ratio in told.items() if one in shown and name in names]
    if at:
        axes.plot(*zip(*at), "D", markersize=3.5, color="black", markerfacecolor="white", label="SAC'16, as far as its text says")


def sac(folder, scale, names, shown, bars, paper):
    """bars: {(name, configuration): (memory, CPU with ksmd, ksmd)}; paper: what it says of figure 1, and of figure 2. Two blocks."""
    if not matplotlib:
        return [WITHOUT]
    if not bars:
        return []
    of = lambda index: [(one, COLOURS[one], [bars.get((name, one), (None,) * 3)[index] for name in names])  # noqa: E731
                        for one in shown]
    figure, axes = plt.subplots(figsize=(9, 3))
    _bars(axes, names, of(0))
    _marks(axes, names, shown, paper[0])
    axes.set_ylabel("average memory, % of plain R")
    axes.legend(ncols=6, loc="upper center", bbox_to_anchor=(0.5, 1.18))
    first = save(figure, folder, f"sac-1-{scale}", "Average memory relative to plain R")
    figure, axes = plt.subplots(figsize=(9, 3))
    _bars(axes, names, of(1))
    width = 0.8 / len(shown)
    for index, one in enumerate(shown):
        values = [bars.get((name, one)) for name in names]
        for i, value in enumerate(values):
            if value and value[2]:
                axes.bar(i + (index - (len(shown) - 1) / 2) * width, 100 * value[2], width, bottom=100 * (value[1] - value[2]),
                         color="none", edgecolor="black", linewidth=0.3, hatch="xxxx")
    _marks(axes, names, shown, paper[1])
    axes.set_ylabel("CPU time, % of plain R\n(hatched: ksmd)")
    axes.legend(ncols=6, loc="upper center", bbox_to_anchor=(0.5, 1.18))
    return [first, save(figure, folder, f"sac-2-{scale}", "CPU time relative to plain R")]


def over_time(folder, scale, curves):
    """curves: (name, plain's record, auto's record)."""
    if not matplotlib:
        return WITHOUT
    figure, axes = in_two_columns(len(curves), 2.4)
    for place, (name, plain, treated) in zip(axes.flat, curves):
        for label, colour, curve in (("plain R", GREY, plain), ("Pagewise (auto)", BLUE, treated)):
            step, points = curve["step_seconds"], curve["peak_mb"]
            place.plot([(i + 0.5) * step for i in range(len(points))], points, color=colour, linewidth=0.9, label=label)
            place.axhline(max(points), color=colour, linewidth=0.5)
            place.axhline(sum(points) / len(points), color=colour, linewidth=0.7, linestyle=":")
        place.set_title(name)
        place.set_ylim(bottom=0)
        place.set_xlabel("seconds")
        place.set_ylabel("MB")
    axes.flat[0].legend(loc="lower right")
    figure.tight_layout()
    return save(figure, folder, f"figure-10-{scale}", "Memory over time; lines at the top mark the peak, dotted ones the average")


def thresholds(folder, scale, points, paper):
    """points: {(policy, size, measure): ratio}; paper: {(size, measure): ratio}."""
    if not matplotlib:
        return WITHOUT
    if not points:
        return None
    figure, axes = plt.subplots(figsize=(5, 2.8))
    sizes = list(dict.fromkeys(size for _, size, _ in points))
    for policy in dict.fromkeys(policy for policy, _, _ in points):
        for measure, style in (("peak", "-"), ("wall", "--")):
            known = [(sizes.index(size), 100 * value) for (p, size, m), value in points.items() if (p, m) == (policy, measure)]
            axes.plot(*zip(*sorted(known)), style, marker="o", markersize=3, color=COLOURS[policy], label=f"{policy}: {TOLD[measure]}")
    for measure, marker in (("peak", "D"), ("wall", "s")):
        told = [(sizes.index(size), 100 * ratio) for (size, m), ratio in paper.items() if m == measure and size in sizes]
        axes.plot(*zip(*told), marker, markersize=4, color="black", markerfacecolor="white", label=f"DLS'14: {TOLD[measure]}")
    axes.axhline(100, color="black", linewidth=0.6)
    axes.set_xticks(range(len(sizes)), sizes)
    axes.set_xlabel("size threshold")
    axes.set_ylabel("% of plain R")
    axes.legend()
    return save(figure, folder, f"figure-11-{scale}", "The size threshold: peak memory and running time relative to plain R")
