"""docs/results/php.md from what bench/php/run has measured."""

import math
import os

import common
from intervals import Ratio, geometric_mean

LINE = 64
BANDWIDTH = 20e9  # bytes a second that all cores share, in the model


def by_round(results, site, configuration, field):
    found = {}
    for one in results:
        if one["part"] == "serve" and one["site"] == site and one["configuration"] == configuration and one["workers"] == 1:
            found.setdefault((one["asked"], one["round"]), one[field])
    return found


def ratio(results, site, configuration, against, field):
    """Of two configurations, over the rounds that have both; None where there is none."""
    ours, theirs = (by_round(results, site, name, field) for name in (configuration, against))
    pairs = [(ours[key], theirs[key]) for key in sorted(ours) if key in theirs]
    return Ratio(pairs, stream=site) if pairs else None


def shown(interval):
    if interval is None or not math.isfinite(interval["mean"]):
        return "-"
    if interval["rounds"] < 2:
        return f"{interval['mean']:.3f}"
    return f"{interval['mean']:.3f} ({interval['low']:.3f} to {interval['high']:.3f})"


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else math.nan


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows), ""]


def bars(results, names):
    """The figures that must be shown: what, bar, measured, verdict; the worst application counts."""
    rows = []
    for what, configuration, against, field, bar in (
            ("CPU per request against PHP's own, worst application", "transaction", "native", "cpu_seconds", 1.03),
            ("the same, huge pages", "transaction, huge pages", "native", "cpu_seconds", 0.97),
            ("memory of a worker, peak, against region, worst application", "transaction", "region", "peak_bytes", 0.5)):
        found = [(one.interval(), site) for site in names if (one := ratio(results, site, configuration, against, field))]
        if not found:
            continue
        worst, site = max(found, key=lambda pair: pair[0]["mean"])
        control = ratio(results, site, "native again", "native", field)
        verdict = common.verdict(worst, control.interval() if control else None, bar)
        rows.append([what, f"at most {bar:.2f}", f"{shown(worst)}, {site}", verdict])
    return table(["figure", "must reach", "measured", ""], rows)


def ratios(results, names, configurations, field):
    rows = []
    for configuration in configurations:
        if configuration == "native":
            continue
        found = [ratio(results, site, configuration, "native", field) for site in names]
        if not any(found):
            continue
        whole = geometric_mean(found) if all(found) else None
        rows.append([configuration if configuration != "native again" else "*native again*"]
                    + [shown(one.interval()) if one else "-" for one in found] + [shown(whole)])
    return table(["", *names, "geometric mean"], rows)


def absolute(results, names, configuration, field, scale, unit):
    values = [mean(by_round(results, site, configuration, field).values()) * scale for site in names]
    return f"*{configuration}, {unit}*: " + ", ".join(f"{site} {value:.1f}" for site, value in zip(names, values)) + "\n"


def correctness(results, names, configurations):
    rows = []
    for configuration in configurations:
        served = [one for one in results if one["part"] == "serve" and one["configuration"] == configuration]
        if served:
            growth = max((one["last_bytes"] - one["third_bytes"]) / 2**20 for one in served)
            pages = sorted({page for one in served for page in one["wrong_pages"]})
            rows.append([configuration, str(sum(one["requests"] for one in served)), str(sum(one["wrong"] for one in served)),
                         str(sum(1 for one in served if not one["alive"])), f"{growth:.2f}", " ".join(f"`{page}`" for page in pages)])
    return table(["", "requests", "answers that differ", "workers that died", "most growth from a third on, MB", "where answers differ"], rows)


def longest(results, names):
    rows = []
    for site in names:
        served = [one for one in results if one["part"] == "serve" and one["site"] == site and one["configuration"] == "transaction"]
        if served:
            most = max(served, key=lambda one: one["requests"])
            rows.append([site, str(most["requests"]), str(most["wrong"]), f"{most['third_bytes'] / 2**20:.2f}", f"{most['last_bytes'] / 2**20:.2f}"])
    return table(["application", "requests of one worker", "answers that differ", "MB after a third", "MB at the end"], rows)


def counts(results, names, configurations):
    counted = {(one["site"], one["configuration"]): one for one in results if one["part"] == "count"}
    lines = []
    for field, what in (("instructions", "Instructions"), ("first_level_misses", "Misses of the first level"),
                        ("last_level_misses", "Misses of the last level")):
        rows = []
        for configuration in configurations:
            cells = [counted.get((site, configuration)) for site in names]
            if configuration != "native" and any(cells):
                rows.append([configuration] + [f"{cell[field] / counted[site, 'native'][field]:.3f}" if cell and (site, "native") in counted else "-"
                                               for site, cell in zip(names, cells)])
        if rows:
            native = [counted.get((site, "native")) for site in names]
            scale, unit = (1e-6, "millions") if field == "instructions" else (1e-3, "thousands")
            rows.append([f"*native, {unit}*"] + [f"{cell[field] * scale:.1f}" if cell else "-" for cell in native])
            lines += [f"{what}, as a share of native's:", "", *table(["", *names], rows)]
    return lines


def bandwidth(results, names, configurations):
    """Cores that fill the bandwidth, if each needs what one did here: a model, on simulated misses."""
    counted = {(one["site"], one["configuration"]): one for one in results if one["part"] == "count"}
    rows = []
    for configuration in configurations:
        cells = []
        for site in names:
            cpu = mean(by_round(results, site, configuration, "cpu_seconds").values())
            one = counted.get((site, configuration))
            cells.append(f"{one['last_level_misses'] * LINE / 1e3:.0f} KB, {BANDWIDTH * cpu / max(1, one['last_level_misses'] * LINE):.0f}"
                         if one and math.isfinite(cpu) else "-")
        if any(cell != "-" for cell in cells):
            rows.append([configuration, *cells])
    return table(["", *names], rows)


def write(path, results, sites, stack, note):
    names = [site for site in sites.NAMES if any(one["site"] == site for one in results)]
    configurations = list(stack.CONFIGURATIONS)
    rounds = sorted({(one["asked"], one["round"]) for one in results if one["part"] == "serve"})
    version = common.output_of("php8.2", "-r", "echo PHP_VERSION;")
    lines = [
        "# PHP on the transaction heap, measured", "",
        f"Written by `bench/php/run report` (`make bench-php`) from {len(results)} measurements by `bench/php/run serve` and `count`; "
        f"{len(rounds)} rounds at most, each of all configurations in another order. Ratios have 95 % intervals by bootstrap over the rounds; "
        "*native again* is the control, the same configuration a second time in each round.", "",
        *(f"- {name}: {value}" for name, value in common.machine() if name in ("machine", "kernel", "Pagewise")),
        f"- PHP {version}, opcache on; php-fpm with one worker behind nginx, one client; Debian's MediaWiki (sqlite), WordPress and phpMyAdmin "
        "(MariaDB), DokuWiki, components of Symfony with Twig, PHP-Parser",
        "- CPU time is the worker's, from the scheduler; memory is its anonymous pages, sampled every 20 ms while it serves, "
        "with the 6 MB or so that PHP has before any request",
        f"- requests of a round and configuration: {', '.join(str(asked) for asked in sorted({asked for asked, _ in rounds}))}",
        *([f"- {note}"] if note else []), "",
        "## What must be shown", "", *bars(results, names),
        "## CPU time of a request", "", "As a share of native's:", "", *ratios(results, names, configurations, "cpu_seconds"),
        absolute(results, names, "native", "cpu_seconds", 1e3, "ms"),
        "## Memory of a worker", "", "Peak while it serves, as a share of native's:", "",
        *ratios(results, names, configurations, "peak_bytes"), absolute(results, names, "native", "peak_bytes", 1 / 2**20, "MB"),
        "Mean while it serves:", "", *ratios(results, names, configurations, "mean_bytes"),
        "## Answers, growth, crashes", "",
        "Every answer is compared with those of PHP alone, word by word; words in which PHP's own answers differ among themselves (times, "
        "tokens) do not count.", "", *correctness(results, names, configurations),
        "The longest run of one worker with the transaction heap:", "", *longest(results, names),
        "## Simulated: instructions and caches", "",
        "cachegrind, one page of each application in php-cgi with opcache (the first page of `bench/php/sites.py`), a request of a warm process; "
        "32 KB of first level and a share of 2 MB of the last one.", "", *counts(results, names, configurations),
        "## Simulated: bandwidth", "",
        f"What one request moves if every miss of the last level is one line of {LINE} bytes, and how many cores would fill "
        f"{BANDWIDTH / 1e9:.0f} GB/s if each did what one does here. "
        "The paper's figures 1 and 7 and the 8-core columns of its table 4 were measured on eight cores; there are two here. "
        "`bench/php/run serve --workers N` measures the real thing where there are more.", "", *bandwidth(results, names, configurations),
        "## Beside the paper", "",
        "PHP 5.2's allocator of 2009 coalesced and split; the paper's heap was 3.0 to 12.9 % faster than it on one core, and the region 4.0 to 11.6 % "
        "(table 4). PHP since 7.0 has size classes without headers, as the paper's heap has: its allocator takes a few percent of a request, which is all "
        "that anything put in its place could win, and a function call for each allocation and free is lost first. Calls and mean sizes (table 3) are in "
        "[the replays](transaction.md).", ""]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    print(os.path.relpath(path, common.ROOT))
