"""What stands first on a page of docs/results: a verdict of one or two sentences, with figures from the page's own tables.

    verdicts.py docs/results/PAGE.md ...    puts it there anew, and lays the page out

A generator hands its function to Page, so that the pages and this file agree. A sentence whose figures are not on the page
(not measured yet) is left out. One figure stands where one will do.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from statistics import geometric_mean

from intervals import MISSED, WORDS
from page import Sentences, Tables, listed, percent_of, with_verdict

TARGETS = "Targets"
SHORT = 60  # so many letters of names of missed targets


def say(template: str, form: Callable[[str], str], *values: str | None) -> str | None:
    """The sentence with its figures, or None where one of them is not there."""
    return None if None in values else template.format(*(form(value) for value in values if value is not None))


def tally(page: Tables, section: str = "", where: str = "") -> str | None:
    """How many targets are met, and which are missed where that is soon said."""
    words = page.verdicts(section)
    if not words:
        return None
    counts = [(word, count) for word in WORDS if (count := sum(told == word for _, told in words))]
    if len(counts) == 1:
        few = {1: "The only target is", 2: "Both targets are"}
        return f"{few.get(len(words), f'All {len(words)} targets{where} are')} {counts[0][0]}."
    missed = "; ".join(dict.fromkeys(name for name, told in words if told == MISSED))
    names = f" ({missed})" if 0 < len(missed) <= SHORT else ""
    parts = [f"{count} {'are ' * (at == 0)}{word}{names * (word == MISSED)}" for at, (word, count) in enumerate(counts)]
    return f"Of {len(words)} targets{where} {listed(parts)}."


def of_r(page: Tables) -> Iterable[str | None]:
    small, peak, time = TARGETS + ", scale small", "geometric mean of peak memory", "geometric mean of CPU time"
    yield say("Under Pagewise R takes {} of its peak memory (beyond what it needs without data) and {} of its CPU time.", percent_of,
              page.number(peak, "measured", small), page.number(time, "measured", small))
    yield tally(page, small, " at small scale")


def of_large_pages(page: Tables) -> Iterable[str | None]:
    yield say("With `pagewise_on()` R takes {} of its CPU time and {} of its peak memory, in the geometric mean.", percent_of,
              page.number("geometric mean", "ours", "CPU time"), page.number("geometric mean", "ours", "Peak of physical memory"))
    yield tally(page, TARGETS)


def of_php(page: Tables) -> Iterable[str | None]:
    yield say("With the transaction heap a request takes {} of its CPU time with PHP's own allocator, in the geometric mean.", percent_of,
              page.number("transaction", "geometric mean", "CPU time of a request"))
    yield tally(page, TARGETS)


def of_rails(page: Tables) -> Iterable[str | None]:
    yield say("With policy `general` and five threads a server ends with {} of glibc's memory, and serves {} of its requests a second.", percent_of,
              page.number("general", "end, to glibc", "5 threads"), page.number("general", "throughput, to glibc", "Throughput, in turns"))
    yield tally(page, TARGETS)


def of_rails_cluster(page: Tables) -> Iterable[str | None]:
    yield say("Under policy `general` four workers and the process that forked them take {} of glibc's memory after their requests.", percent_of,
              page.number("general", "to glibc", "Memory, MB"))
    yield tally(page, TARGETS)


def of_replay(page: Tables) -> Iterable[str | None]:
    groups = [cells for where, head, cells in page.rows if where.startswith("Groups") and "chosen" in head]
    won = list(dict.fromkeys(cells[0] for cells in groups if not cells[4].startswith("none")))
    rest = list(dict.fromkeys(cells[0] for cells in groups if cells[0] not in won))
    if groups:
        gain = f"Grouping blocks by call site saves pages in {listed(won)}" if won else "Grouping blocks by call site saves no pages"
        yield gain + (f", and promises nothing in {listed(rest)}." if won and rest else ".")
    yield tally(page, TARGETS)


def of_overhead(page: Tables) -> Iterable[str | None]:
    rows = {(cells[0], cells[1]): cells[2] for _, head, cells in page.rows if head[:2] == ["workload", "configuration"]}
    yield say("While it is recorded, redis takes {} times its CPU time, and an allocating Ruby program {} times.", str,
              rows.get(("redis-benchmark", "record")), rows.get(("ruby", "record")))
    yield tally(page)


def of_transaction(page: Tables) -> Iterable[str | None]:
    other = "geometric mean, against mimalloc 2 heap"
    faster, memory = (page.number(f"replay: {what}, {other}", 2, TARGETS) for what in ("CPU time", "peak memory"))
    yield say("Recorded requests of PHP are served {} times as fast as by mimalloc's heaps, in {} of the memory.", str,
              faster, memory and percent_of(memory))
    yield tally(page, TARGETS)


def of_metis(page: Tables) -> Iterable[str | None]:
    section = page.markdown.partition("## What reproduces")[2].partition("\n## ")[0]
    leads = re.findall(r"^- \*\*(.+?)\*\*", section, re.MULTILINE)
    does, does_not = ([_begun_small(lead.removesuffix(end)) for lead in leads if lead.endswith(end)] for end in (" reproduces", " does not"))
    if does and does_not:
        yield f"Of the paper's results {listed(does)} reproduce, and {listed(does_not)} do not."
    yield tally(page, TARGETS)


def _begun_small(text: str) -> str:
    return text if text[1:2].isupper() else text[0].lower() + text[1:]


def of_foundation(page: Tables) -> Iterable[str | None]:
    copies, small = ("keep 25 of 100", "a function modifies its 50 MB argument", "x <- f(x)", "data frame of 50 columns"), "10,000 small"
    yield say("Four programs that keep copies take {} of R's peak memory and {} of its CPU time, in the geometric mean, "
              "and programs with small objects alone {} and {}.", percent_of,
              *(_mean([page.number(case, column) for case in copies]) for column in (2, 6)), *(page.number(small, column) for column in (2, 6)))
    yield tally(page)


def _mean(values: Sequence[str | None]) -> str | None:
    """The geometric mean, or None where one is not there."""
    there = [float(value) for value in values if value is not None]
    return f"{geometric_mean(there):.3f}" if len(there) == len(values) else None


def of_everyday(page: Tables) -> Iterable[str | None]:
    mean = ", geometric mean"
    yield say("Unseen everyday scripts take {} of plain R's CPU time under Pagewise, {} of its average memory and {} of its peak, in the geometric mean.",
              percent_of, *(page.number(what + mean, "measured", TARGETS) for what in ("CPU time in all", "average", "peak")))
    yield tally(page, TARGETS)


def of_general(page: Tables) -> Iterable[str | None]:
    yield say("Loops and programs take {} of glibc's CPU time under policy general, in the geometric mean.", percent_of,
              page.number("CPU time to glibc, geometric mean", "measured", TARGETS))
    yield tally(page, TARGETS)


def of_rails_transaction(page: Tables) -> Iterable[str | None]:
    yield say("With the transaction heap as Ruby's malloc, restarted every 500 requests as in the paper, a server makes {} of glibc's requests a second.",
              percent_of, page.number("transaction heap", 1))
    yield say("Without restarts it ends with {} of glibc's memory.", percent_of,
              page.number("transaction heap", "MB to glibc, not"))


def of_python(page: Tables) -> Iterable[str | None]:
    yield say("Forty copies of an array take {} of plain Python's peak memory under Pagewise, and ten versions of a frame {}.", percent_of,
              *(page.number(f"{name}: peak", "measured", TARGETS) for name in ("copies", "versions")))
    yield tally(page, TARGETS)


def of_python_sharing(page: Tables) -> Iterable[str | None]:
    yield say("Until eight workers have read an array that is handed to them, it takes {} of pickling's time with `pagewise.share()`.", percent_of,
              page.number("pagewise.share()", "to plain"))
    column = "copies, 5 % written"
    yield say("When each has written 5 % of it there are {} copies of it in memory, {} with pickling.", str, page.number("pagewise.share()", column),
              page.number("pickling", column))


def of_share(page: Tables) -> Iterable[str | None]:
    yield say("Handing a data frame to four workers is {} times as fast as R's own way, and leaves {} copies of it in memory, not {}.", str,
              page.number("handing it to 4 workers", "measured"), page.number("physical memory", "measured"),
              page.number("copies above idle: a column overwritten", "plain"))
    yield tally(page)


def of_threads(page: Tables) -> Iterable[str | None]:
    shared = {cells[0]: float(page.number(cells[0], 1) or 0) for _, head, cells in page.rows if head[:1] == ["beside"]}
    most = max(shared.values(), default=0)
    free = [name.split(",")[0].split(" on ")[0] for name, value in shared.items() if value > most / 2 and name != "no package"]
    shut = [name.split(" (")[0].split(" on ")[0].removesuffix(" serving") for name, value in shared.items() if value <= most / 2]
    if most and free:
        yield f"Copies share as much memory beside {listed(free)} as alone."
    if most and shut:
        yield f"They share nearly none beside {listed(shut)}, whose threads may write at any time."


def of_frozen(page: Tables) -> Iterable[str | None]:
    column = "full, ratio"
    ratios = sorted((cells[head.index(column)].split()[0], cells[0]) for _, head, cells in page.rows
                    if column in head and cells[1] == "written pages")
    if ratios:
        (least, first), (most, last) = ratios[0], ratios[-1]
        yield f"A full collection takes {percent_of(least)} ({first}) to {percent_of(most)} ({last}) of its time."
        yield tally(page)


def of_workers(page: Tables) -> Iterable[str | None]:
    target = 60  # MB

    def own(package: str, name: str) -> str | None:
        rows = [cells for _, _, cells in page.rows if cells[0] == package and cells[1] == "one full collection" and cells[2] == name]
        return rows[0][3].split()[0] if rows and rows[0][3][0].isdigit() else None

    for package in ("mlr", "shiny"):
        plain, frozen = own(package, "plain"), own(package, "Pagewise, `pagewise_freeze()`")
        if plain and frozen:
            said = f", where {target} was the target: {'met' if float(frozen) <= target else 'missed'}" if package == "mlr" else ""
            yield (f"With {package} a worker that collects takes {plain} MB of its own in plain R, and {frozen} MB behind "
                   f"`pagewise_freeze()`{said}.")


def of_together(page: Tables) -> Iterable[str | None]:
    rows = {(cells[0], cells[1], cells[3]): cells for _, head, cells in page.rows if head[:2] == ["programs", "limit, of plain's peak"]}
    for programs in ("2", "4"):
        parts = [part for count, part, name in rows if count == programs and name == "plain" and part != "none"]
        told = [f"{rows[programs, part, 'plain'][4]} and {rows[programs, part, 'Pagewise'][4]} at {percent_of(part)}"
                for part in parts if (programs, part, "Pagewise") in rows]
        if told:
            yield f"Of {programs} programs under a limit these finish, plain and under Pagewise: {listed(told)} of plain R's peak."


def of_mmapcopy(page: Tables) -> Iterable[str | None]:
    same = "mmapcopy against fork of the same memory in the same machine, "
    yield say("A copy takes {} of the time of a fork of the same memory in 4 KB pages, and {} in huge pages.", percent_of,
              page.number(same + "4 KB pages, time", "reached"), page.number(same + "huge pages, time", "reached"))
    yield tally(page, TARGETS)


def of_mmapcopy_r(page: Tables) -> Iterable[str | None]:
    keep = "the four cases that keep copies"
    yield say("Where R keeps copies, the call takes it to {} of the peak memory and {} of the CPU time that published snapshots need.", percent_of,
              page.number("peak memory", keep, TARGETS), page.number("CPU time", keep, TARGETS))
    yield tally(page, TARGETS)


def of_programs(page: Tables) -> Iterable[str | None]:
    rows = [cells for _, head, cells in page.rows if head[:2] == ["program", "configuration"]]
    if rows:
        runs, differences, crashes, hangs = (sum(int(cells[at]) for cells in rows) for at in range(2, 6))
        yield (f"In {runs} runs of {len({cells[0] for cells in rows})} programs there were {differences} differences, "
               f"{crashes} crashes and {hangs} hangs.")


def of_hostile(page: Tables) -> Iterable[str | None]:
    rows = [cells for _, head, cells in page.rows if "differences" in head]
    if rows:
        differences = sum(int(cells[8].replace(",", "")) for cells in rows)
        yield f"Random programs took {page.number('steps', 'done')} steps, with {differences} differences from the model."


def of_mutants(page: Tables) -> Iterable[str | None]:
    killers = [cells[3] for _, head, cells in page.rows if head[:1] == ["mutant"]]
    killed = sum(killer.startswith("`") for killer in killers)
    yield f"Of {len(killers)} rules of the core, each broken by itself, a test notices {killed}." if killers else None


PAGES: dict[str, Sentences] = {
    "r.md": of_r, "large-pages.md": of_large_pages, "php.md": of_php, "rails.md": of_rails,
    "rails-cluster.md": of_rails_cluster, "rails-transaction.md": of_rails_transaction, "replay.md": of_replay,
    "trace-overhead.md": of_overhead, "transaction.md": of_transaction, "metis.md": of_metis,
    "foundation.md": of_foundation, "foundation-debian-13.md": of_foundation,
    "r-share.md": of_share, "beside-threads.md": of_threads, "mmapcopy.md": of_mmapcopy, "mmapcopy-r.md": of_mmapcopy_r,
    "programs.md": of_programs, "hostile.md": of_hostile, "mutants.md": of_mutants, "everyday.md": of_everyday, "frozen.md": of_frozen, "workers.md": of_workers,
    "together.md": of_together,
    "python.md": of_python, "python-sharing.md": of_python_sharing, "general.md": of_general,
}


def main() -> None:
    """Puts the verdicts of the pages that are named there anew."""
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = with_verdict(file.read(), PAGES[os.path.basename(path)])
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
