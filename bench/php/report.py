"""docs/results/php.md from what bench/php/run has measured."""

import math
import os

import common
import paper
import pictures
import verdicts
from intervals import SEVERITY, UNDECIDED, Ratio, geometric_mean, mean, verdict
from page import Page, facts, figure, interval, items, said, table

LINE = 64
BANDWIDTH = 20e9  # bytes a second that all cores share, in the model: a channel of DDR4; the paper's Xeon had two buses of 8.5e9 each
LONG_REQUESTS = 1000  # of a configuration: for answers and growth, and for nothing that is compared
MODEL_CORES = range(1, 65)
MODELLED = ("native", "region", "transaction")


def by_round(results, site, configuration, field, workers=1):
    found = {}
    for one in results:
        if one["kind"] == "serve" and (one["site"], one["configuration"], one["workers"]) == (site, configuration, workers) and one["alive"] \
                and field in one and one["asked"] < LONG_REQUESTS:
            found[one["group"]] = one[field]
    return found


def ratio(results, site, configuration, against, field, workers=1):
    """Of two configurations, over the rounds that have both; None where there is none. A round is one pair, however many requests
    it has: what a server's start decides, as where its pages lie in physical memory, stays with it until it ends."""
    ours, theirs = (by_round(results, site, name, field, workers) for name in (configuration, against))
    pairs = [(ours[key], theirs[key]) for key in sorted(ours) if key in theirs]
    return Ratio(pairs, stream=site) if pairs else None


def of_ratio(found):
    """A Ratio, or None, in a table."""
    return interval(found.interval(), missing="-") if found else "-"


def targets(results, names):
    """The targets: what, at most, measured, verdict; the application with the worst verdict counts."""
    rows = []
    for what, configuration, against, field, bar in (
            ("CPU per request against PHP's own, worst application", "transaction", "native", "cpu_seconds", 1.03),
            ("the same, huge pages (an aim)", "transaction, huge pages", "native", "cpu_seconds", 0.97),
            ("memory during transactions, as the paper defines it, against region, worst application", "transaction", "region", "own_bytes", 0.5),
            ("memory of a worker against region, with all that PHP had before, worst application", "transaction", "region", "peak_bytes", 0.5)):
        found = [(one.interval(), site) for site in names if (one := ratio(results, site, configuration, against, field))]
        if not found:
            continue
        controls = {site: ratio(results, site, "native again", "native", field) for _, site in found}
        judged = [(verdict(one, controls[site].interval() if controls[site] else None, bar) if one["rounds"] > 1 else UNDECIDED, one, site)
                  for one, site in found]
        word, worst, site = max(judged, key=lambda this: (SEVERITY.index(this[0]), this[1]["mean"]))
        rows.append([what, f"at most {bar:.2f}", f"{interval(worst)}, {site}", said(word)])
    return table(["figure", "must reach", "measured", "verdict"], rows)


def ratios(results, names, configurations, field, workers=1):
    rows = []
    for configuration in configurations:
        if configuration == "native":
            continue
        found = [ratio(results, site, configuration, "native", field, workers) for site in names]
        if not any(found):
            continue
        whole = geometric_mean(found) if all(found) else None
        rows.append([configuration if configuration != "native again" else "*native again*"]
                    + [of_ratio(one) for one in found] + [interval(whole, missing="-")])
    return table(["", *names, "geometric mean"], rows)


def absolute(results, names, configuration, field, scale, unit):
    values = [mean(by_round(results, site, configuration, field).values()) * scale for site in names]
    return f"*{configuration}, {unit}*: " + ", ".join(f"{site} {figure(value, 1)}" for site, value in zip(names, values))


def faults(results, names, configurations):
    rows = []
    for configuration in configurations:
        values = [mean(by_round(results, site, configuration, "faults").values()) for site in names]
        if any(math.isfinite(value) for value in values):
            rows.append([configuration, *(figure(value, 1) for value in values)])
    return table(["", *names], rows)


def correctness(results, names, configurations):
    rows = []
    for configuration in configurations:
        served = [one for one in results if one["kind"] == "serve" and one["configuration"] == configuration]
        if served:
            growth = max((one["last_bytes"] - one["third_bytes"]) / 2**20 for one in served)
            pages = sorted({page for one in served for page in one["wrong_pages"]})
            rows.append([configuration, str(sum(one["requests"] for one in served)), str(sum(one["wrong"] for one in served)),
                         str(sum(1 for one in served if not one["alive"])), f"{growth:.2f}", " ".join(f"`{page}`" for page in pages)])
    return table(["", "requests", "answers that differ", "workers that died", "most growth from a third on, MiB", "where answers differ"], rows)


def differences(results, configurations):
    """Of runs that stored it: how answers differ."""
    lines = []
    for one in results:
        if one["kind"] == "serve" and one["configuration"] in configurations:
            for text in one.get("differences", []):
                quoted = text.replace("`", "'")
                lines.append(f"{one['site']}, {one['configuration']}, {one['workers']} workers: `{quoted}`")
    return items(lines)


def longest(results, names):
    rows = []
    for site in names:
        served = [one for one in results if one["kind"] == "serve" and one["site"] == site and one["configuration"] == "transaction"]
        if served:
            most = max(served, key=lambda one: one["requests"])
            rows.append([site, str(most["requests"]), str(most["wrong"]), f"{most['third_bytes'] / 2**20:.2f}", f"{most['last_bytes'] / 2**20:.2f}"])
    return table(["application", "requests of one worker", "answers that differ", "MiB after a third", "MiB at the end"], rows)


def counted(results):
    return {(one["site"], one["configuration"]): one for one in results if one["kind"] == "count"}


def of_native(results, names, configurations, field):
    """A field of the simulation as a share of native's: configuration -> a value for each application, or None."""
    found = counted(results)
    return {configuration: [found[site, configuration][field] / found[site, "native"][field]
                            if (site, configuration) in found and (site, "native") in found else None for site in names]
            for configuration in configurations if configuration != "native"}


def rounds(served):
    """How often each configuration was measured, the fewest over the applications."""
    groups = {}
    for one in served:
        if one["workers"] == 1 and one["asked"] < LONG_REQUESTS:
            groups.setdefault((one["configuration"], one["site"]), set()).add(one["group"])
    fewest = {}
    for (configuration, _), found in groups.items():
        fewest[configuration] = min(len(found), fewest.get(configuration, len(found)))
    many = {}
    for configuration, count in fewest.items():
        many.setdefault(count, []).append(configuration)
    return "Rounds: " + "; ".join(f"{count} of {', '.join(names)}" for count, names in sorted(many.items(), reverse=True)) + "." if many else ""


def calls(results, names):
    """Table 3."""
    found = counted(results)
    sizes = {one["site"]: one for one in results if one["kind"] == "sizes"}
    rows = []
    for site in names:
        one, size = found.get((site, "transaction")) or found.get((site, "native")), sizes.get(site)
        numbers = [one["malloc"], one["free"], one["realloc"]] if one else [size["mallocs"] if size else None, None, size["reallocs"] if size else None]
        rows.append([site, *(figure(number, 0) for number in numbers), figure(size["bytes"] / size["mallocs"], 1) if size else "-"])
    rows += [[f"*{workload}*", *(f"{number:,}" for number in numbers)] for workload, numbers in paper.CALLS.items()]
    return ["Of one request, PHP's own calls (`emalloc` and its like) where they come from elsewhere; the paper's transactions in italics.",
            table(["", "malloc", "free", "realloc", "mean size of a malloc, bytes"], rows)]


def worker_counts(results):
    return sorted({one["workers"] for one in results if one["kind"] == "serve"})


def speedups(results, names, configurations):
    """Table 4."""
    workers = worker_counts(results)
    rows = []
    for site in names:
        for configuration in configurations:
            speeds = [mean(by_round(results, site, configuration, "requests_per_second", count).values()) for count in workers]
            if any(math.isfinite(speed) for speed in speeds):
                gain = speeds[-1] / speeds[0] if len(workers) > 1 else math.nan
                rows.append([site, configuration, *(figure(speed, 1) for speed in speeds), figure(gain, 2)])
    head = ["", "", *(f"{count} worker{'s' if count > 1 else ''}, requests/s" for count in workers), "speedup"]
    theirs = []
    for workload, speeds in paper.SPEEDUPS.items():
        for configuration, (one, eight) in zip(("default", "region", "DDmalloc"), speeds):
            theirs.append([workload, configuration, f"{one:.1f}", f"{eight:.1f}", f"{eight / one:.2f}"])
    return ["Each worker has a client of its own.", table(head, rows), "The paper's, on Xeon:",
            table(["", "", "1 core", "8 cores", "speedup"], theirs)]


def throughput(results, names, configurations, folder):
    """Figure 5."""
    most = max(worker_counts(results), default=1)
    series = {}
    for configuration in configurations:
        if configuration not in ("native", "native again"):
            found = [ratio(results, site, configuration, "native", "requests_per_second", most) for site in names]
            series[configuration] = [one.interval()["mean"] if one else None for one in found]
    title = f"Requests a second, of native's, {most} worker{'s' if most > 1 else ''}"
    gains = [f"{workload} {speeds[1][1] / speeds[0][1]:.3f} and {speeds[2][1] / speeds[0][1]:.3f}" for workload, speeds in paper.SPEEDUPS.items()]
    return [f"{title}:", pictures.bars(folder, "figure-5", title, "of native's", names, series, 1),
            ratios(results, names, configurations, "requests_per_second", most),
            f"In the paper, on eight cores of Xeon, the region and DDmalloc: {'; '.join(gains)}."]


def breakdown(results, names, configurations, folder):
    """Figure 6, in instructions."""
    found = counted(results)
    rows, parts = [], {}
    for configuration in configurations:
        ones = [(found.get((site, configuration)), found.get((site, "native"))) for site in names]
        parts[configuration] = [(one["memory_instructions"] / native["instructions"],
                                 (one["instructions"] - one["memory_instructions"]) / native["instructions"]) if one and native else None
                                for one, native in ones]
        if any(parts[configuration]):
            rows.append([configuration, *(f"{part[0] * 100:.1f} + {part[1] * 100:.1f}" if part else "-" for part in parts[configuration])])
    return ["Memory operations, and all else, in percent of native's instructions. Memory operations are `emalloc`, `efree`, `erealloc` and all below "
            "them, and the end of the heap; what is lost by destroying variables one by one, where there is no free-all, is in the rest.",
            pictures.breakdown(folder, "figure-6", "Instructions of a request", names, parts), table(["", *names], rows), paper.BREAKDOWN]


COUNTS = (("instructions", "Instructions", 1e-6, "millions"), ("instruction_misses", "Misses of the first level, instructions", 1e-3, "thousands"),
          ("first_level_misses", "Misses of the first level, data", 1e-3, "thousands"),
          ("last_level_misses", "Misses of the last level", 1e-3, "thousands"))


def counts(results, names, configurations, folder):
    """Figure 8."""
    lines = []
    for field, what, scale, unit in COUNTS:
        shares = of_native(results, names, configurations, field)
        rows = [[configuration, *map(figure, values)] for configuration, values in shares.items() if any(value is not None for value in values)]
        if not rows:
            continue
        native = [counted(results).get((site, "native")) for site in names]
        rows.append([f"*native, {unit}*", *(figure(one[field] * scale, 1) if one else "-" for one in native)])
        title = f"{what}, as a share of native's"
        shown_here = {configuration: shares[configuration] for configuration in MODELLED if configuration in shares}
        lines += [f"{title}:", pictures.bars(folder, f"figure-8-{field.replace('_', '-')}", title, "of native's", names, shown_here, 1),
                  table(["", *names], rows)]
    return [*lines, paper.MISSES]


def memory(results, names, configurations, folder):
    """Figure 9."""
    series = {}
    for configuration in configurations:
        if configuration != "native again":
            found = [ratio(results, site, configuration, "native", "mean_bytes") for site in names]
            series[configuration] = [one.interval()["mean"] if one else None for one in found]
    top = {name: values for name, values in series.items() if not name.startswith("region")}
    return ["Peak while it serves, as a share of native's:", ratios(results, names, configurations, "peak_bytes"),
            absolute(results, names, "native", "peak_bytes", 1 / 2**20, "MiB"), "Mean while it serves (the region, too large for the picture, left out of it):",
            pictures.bars(folder, "figure-9", "Mean memory of a worker, as a share of native's", "of native's", names, top, 1),
            ratios(results, names, configurations, "mean_bytes"), paper.MEMORY]


def bandwidth(results, names, configurations, folder):
    """Figures 1 and 7: cores that fill the bandwidth, if each needs what one did here. A model, on simulated misses."""
    found = counted(results)
    timed = {one["site"]: one["cpu_seconds"] for one in results if one["kind"] == "timed" and one["configuration"] == "native"}

    def seconds(site, configuration):
        """CPU time of the page that was simulated: PHP's own, times what this allocator makes of the site's pages in turns."""
        share = 1 if configuration == "native" else (found := ratio(results, site, configuration, "native", "cpu_seconds")) and found.interval()["mean"]
        return timed[site] * share if site in timed and share else math.nan

    rows, models = [], {}
    for configuration in configurations:
        cells = []
        for site in names:
            cpu = seconds(site, configuration)
            one = found.get((site, configuration))
            moved = max(1, one["last_level_misses"] * LINE) if one else 1
            cells.append(f"{moved / 1e3:.0f} KB{f', {BANDWIDTH * cpu / moved:.0f}' if math.isfinite(cpu) else ''}" if one else "-")
            if one and math.isfinite(cpu) and configuration in MODELLED:
                models[site, configuration] = [min(cores / cpu, BANDWIDTH / moved) for cores in MODEL_CORES]
        if any(cell != "-" for cell in cells):
            rows.append([configuration, *cells])
    site = next((site for site in names if all((site, one) in models for one in MODELLED)), None)
    picture = None
    if site:
        picture = pictures.curves(folder, "figure-7", f"Requests a second over cores, {site}: simulated", list(MODEL_CORES), {name: models[site, name] for name in MODELLED})
    return [table(["", *names], rows), picture]


def head(store, results, note):
    """How and on what all was measured."""
    served = [one for one in results if one["kind"] == "serve"]
    asked = sorted({one["asked"] for one in served})
    machines = store.machines()
    versions = ", ".join(sorted({told["PHP"] for told in machines})) or "8.2"
    return [
        f"Written by `bench/php/run report` (`make bench-php`) from {len(results)} measurements of one build by `bench/php/run serve`, `cores`, `sizes` and "
        "`count`. In a round all configurations' servers are started, and serve a few requests in turn, again and again. Ratios have 95 % intervals over rounds "
        "(of fewer than ten, Student's t, which is wide). *native again* is the control, the same configuration a second time. `-`: not measured yet. "
        f"{rounds(served)}",
        "\n".join(filter(None, [facts((what, text) for told in machines for what, text in told.items() if what != "PHP"), items([
            f"PHP {versions}, opcache on; php-fpm behind nginx; Debian's MediaWiki (sqlite), WordPress and phpMyAdmin (MariaDB), DokuWiki, components of "
            "Symfony with Twig, PHP-Parser. One worker and one client where nothing else is said",
            "CPU time is the workers', from the scheduler; memory is their anonymous pages, sampled every 20 ms while they serve, with the 6 MB or so that PHP "
            "has before any request. The paper counts what an allocator took for a transaction: here the peak less what the worker had before its first request",
            f"requests of a round and configuration: {', '.join(map(str, asked)) or 'none'}; rounds of {LONG_REQUESTS} and more are for answers and growth alone",
            common.PEERS, *([note] if note else [])])]))]


SIMULATION = (
    f"**A simulation.** Each miss of the simulated last level (2 MB, a core's share of one that all have) moves one line of {LINE} bytes. All cores together "
    f"move {BANDWIDTH / 1e9:.0f} GB/s at most, as one channel of DDR4 does (the paper's Xeon had two buses of 8.5 GB/s). The table has what one request moves, "
    "and how many cores would fill the bandwidth if each served it again and again, in the CPU time that it takes here without a simulation (`run time` for "
    "PHP's own allocator, times the ratio above for the others). Until then throughput grows with the cores, from then on it stays: no queueing, no "
    "prefetching, no other traffic. The paper's figures were measured on eight cores; there are two here. `bench/php/run cores` measures the real thing with "
    "1, 2, 4, ... workers, up to the cores that a machine has.")
ANSWERS = (
    "Every answer is compared with those of PHP alone, word by word. Words in which PHP's own answers differ among themselves (times, tokens) do not count. What "
    "`native` answers in a round belongs to these; `native again` is the control for that. With two workers DokuWiki itself sends an article without its text "
    "now and then ([notes](../notes/experiments/php.md#what-it-took-to-believe-the-figures)).")
BESIDE_THE_PAPER = (
    "PHP 5.2's allocator of 2009 coalesced and split. The paper's heap was 3.0 to 12.9 % faster than it on one core, and the region 4.0 to 11.6 % (table 4). PHP "
    "since 7.0 has size classes without headers, as the paper's heap has. Its allocator takes a few percent of a request, which is all that anything put in its "
    "place could win, and a function call for each allocation and free is lost first. Not all of the paper's applications exist for today's PHP: six others "
    "stand for them.")


def write(path, store, sites, stack, note):
    results = store.records()
    names = [site for site in sites.NAMES if any(one["site"] == site for one in results)]
    configurations = list(stack.CONFIGURATIONS)
    folder = os.path.splitext(path)[0]
    page = Page("PHP on the transaction heap, measured", verdicts.of_php)
    page.add(*head(store, results, note))
    page.section("Targets", targets(results, names))
    page.section("CPU time of a request", "As a share of native's:", ratios(results, names, configurations, "cpu_seconds"),
                 absolute(results, names, "native", "cpu_seconds", 1e3, "ms"))
    page.section("Page faults of a request", faults(results, names, configurations))
    page.section("Calls and mean sizes (the paper's table 3)", *calls(results, names))
    page.section("One worker and more (table 4)", *speedups(results, names, configurations))
    page.section("Throughput (figure 5)", *throughput(results, names, configurations, folder))
    page.section("Where the instructions go (figure 6)", "callgrind, one page of each application in php-cgi with opcache (the first of `bench/php/sites.py`), a "
                 "request of a warm process.", *breakdown(results, names, configurations, folder))
    page.section("Instructions and caches (figure 8)", "Simulated, of the same requests: 32 KB of first level, and 2 MB of the last one as a core's share. There "
                 "are no counters to read on this machine.", *counts(results, names, configurations, folder))
    page.section("Memory of a worker (figure 9)", *memory(results, names, configurations, folder))
    page.section("Simulated: bandwidth (figures 1 and 7)", SIMULATION, *bandwidth(results, names, configurations, folder))
    page.section("Answers, growth, crashes", ANSWERS, correctness(results, names, configurations), differences(results, configurations),
                 "The longest run of one worker with the transaction heap:", longest(results, names))
    page.section("Beside the paper", BESIDE_THE_PAPER)
    page.write(path)
    print(os.path.relpath(path, common.ROOT))
