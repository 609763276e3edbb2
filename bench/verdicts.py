"""What stands first on a page of docs/results: a verdict of a few sentences, with figures from the page's own tables.

    verdicts.py docs/results/PAGE.md ...    puts it there anew, and wraps the prose

Each generator ends with finished(NAME, text), so that the pages and this file agree. A sentence whose figures are not on
the page (not measured yet) is left out.
"""

import os
import re
import sys

import prose

LEAD = "**Verdict.** "
WORDS = ("met", "missed", "undecided")
NUMBER = re.compile(r"-?\d*\.\d+|-?\d[\d,]*")


def plain(cell):
    return cell.strip().strip("*").strip()


class Page:
    """The tables of a page."""

    def __init__(self, markdown):
        self.markdown, self.rows, section, head = markdown, [], "", []
        lines = markdown.split("\n")
        for at, line in enumerate(lines):
            if line.startswith("#"):
                section = line.lstrip("# ")
            if not line.startswith("|"):
                continue
            cells = [plain(cell) for cell in line.strip().strip("|").split("|")]
            if at + 1 < len(lines) and lines[at + 1].startswith("|-"):
                head = cells
            elif not line.startswith("|-"):
                self.rows.append((section, head, cells))

    def row(self, label, section=""):
        for where, _, cells in self.rows:
            if cells[0].startswith(label) and where.startswith(section):
                return cells
        return None

    def number(self, label, column, section=""):
        """The first number of a cell as it stands, by the row's beginning and the column's number or name, or None."""
        for where, head, cells in self.rows:
            if not cells[0].startswith(label) or not where.startswith(section):
                continue
            if isinstance(column, str) and column not in head:
                continue
            at = head.index(column) if isinstance(column, str) else column
            found = NUMBER.search(cells[at]) if at < len(cells) else None
            return found[0] if found else None
        return None

    def verdicts(self, section=""):
        """Pairs of a row's name and what it says, of all rows that say it. "The same, ..." is the row before, but for that."""
        found, before = [], ""
        for where, _, cells in self.rows:
            name = re.sub(r"^the same(?=,)", before.partition(",")[0], cells[0])
            found += [(name, cell) for cell in cells[1:] if where.startswith(section) and cell in WORDS]
            before = name
        return found


def percent(number):
    return f"{100 * float(number):.1f}".removesuffix(".0") + " %"


def say(template, form, *values):
    return None if any(value is None for value in values) else template.format(*map(form, values))


def tally(page, section="", what="Bars"):
    found = page.verdicts(section)
    return f"{what}: " + ", ".join(f"{sum(said == word for _, said in found)} {word}" for word in WORDS) + "." if found else None


def missed(page, section=""):
    names = list(dict.fromkeys(name for name, said in page.verdicts(section) if said == "missed"))
    return "Missed: " + "; ".join(names) + "." if names else None


def of_r(page):
    small, full = "Must be shown, scale small", "Must be shown, scale full"
    peak, average, time, worst = ("geometric mean of peak memory", "geometric mean of average memory", "geometric mean of CPU time", "worst CPU time")
    yield tally(page, small, "Bars at small scale")
    yield say("Peak memory above the baseline is {} of plain R's, average memory {}.", percent, page.number(peak, "measured", small), page.number(average, "measured", small))
    yield say("CPU time is {}, and {} in the worst benchmark.", percent, page.number(time, "measured", small), page.number(worst, "measured", small))
    yield say("At full scale, of fewer benchmarks, these are {}, {}, {} and {}.", percent, *(page.number(row, "measured", full) for row in (peak, average, time, worst)))
    yield "What is missed, and what it hangs on, is in [the notes](../notes/r-evaluation.md)." if missed(page, small) else None


def of_large_pages(page):
    time, memory = "CPU time", "Peak of physical memory"
    yield tally(page, "Must be shown")
    yield say("CPU time is {} of plain R's with `pagewise_on()` in the geometric mean, and {} with `ISM(TRUE)`.", percent, page.number("geometric mean", "ours", time), page.number("geometric mean", "ism", time))
    yield say("Peak memory is {} and {}.", percent, page.number("geometric mean", "ours", memory), page.number("geometric mean", "ism", memory))
    yield say("Loops that make a large vector again and again gain most (`x + y`: {}), and random access gains little: {} where a vector is changed in place.", percent,
              page.number("add-1e7", "ours", time), page.number("scatter-2e7", "ours", time))
    yield missed(page, "Must be shown")


def of_php(page):
    time = "CPU time of a request"
    yield say("A request takes {} of the CPU time of PHP's own allocator in the geometric mean of the applications, and {} with huge pages.", percent,
              page.number("transaction", "geometric mean", time), page.number("transaction, huge pages", "geometric mean", time))
    yield say("The region takes {}, jemalloc {} and mimalloc {}.", percent, *(page.number(row, "geometric mean", time) for row in ("region", "jemalloc", "mimalloc")))
    yield tally(page, "What must be shown")
    yield missed(page, "What must be shown")


def of_rails(page):
    five, turns = "5 threads", "Throughput, in turns"
    yield say("With five threads, policy `general` ends with {} of glibc's memory, and {} with the middleware.", percent,
              page.number("general", "end, to glibc", five), page.number("general, out of band", "end, to glibc", five))
    yield say("With one thread it has {}: there is little to win.", percent, page.number("general", "end, to glibc", "1 thread"))
    yield say("It serves {} of glibc's requests a second, and {} of jemalloc's.", percent,
              page.number("general", "throughput, to glibc", turns), page.number("general", "throughput, to jemalloc", turns))
    yield tally(page, "The bars")


def of_replay(page):
    groups = [cells for where, head, cells in page.rows if where.startswith("Groups") and "chosen" in head]
    won = list(dict.fromkeys(cells[0] for cells in groups if not cells[4].startswith("none")))
    rest = list(dict.fromkeys(cells[0] for cells in groups if cells[0] not in won))
    if won:
        yield f"Learned groups of call sites need fewer pages in {' and '.join(won)}, where much dies at one time beside what stays."
    if rest:
        yield f"In {', '.join(rest)} the profile predicts no gain and nothing is grouped."
    yield tally(page, "Groups")


def of_overhead(page):
    rows = {(cells[0], cells[1]): cells for _, head, cells in page.rows if head[:2] == ["workload", "configuration"]}
    for name, text in (("redis-benchmark", "redis takes {} times its CPU time while it is recorded, {} with whole stacks, and {} under heaptrack."),
                       ("ruby", "A Ruby program takes {}, {} and {}.")):
        cells = [rows.get((name, one)) for one in ("record", "record --stacks", "heaptrack")]
        yield say(text, str, *(one[2] if one else None for one in cells))
    yield tally(page)


def of_transaction(page):
    bars, replay = "What must be shown", "replay: CPU time, geometric mean, against "
    yield say("Recorded requests of PHP are replayed {} times faster than with mimalloc's heap, {} times faster than with jemalloc and {} times faster than with tcmalloc.", str,
              *(page.number(replay + one, 2, bars) for one in ("mimalloc 2 heap", "jemalloc", "tcmalloc")))
    yield say("Peak memory is {} of the region's, and {} of mimalloc's.", percent,
              *(page.number("replay: peak memory, geometric mean, against " + one, 2, bars) for one in ("region", "mimalloc 2")))
    yield tally(page, bars)
    yield missed(page, bars)


def of_metis(page):
    section = page.markdown.partition("## What reproduces")[2].partition("\n## ")[0]
    yield from (text + "." for text in re.findall(r"^- \*\*(.+?)\*\*", section, re.MULTILINE))
    yield tally(page, "Must be shown")


def of_foundation(page):
    peak, time = 2, 6
    yield say("Copies that are kept and hardly written need {} of plain R's peak and {} of its CPU time.", percent, page.number("keep 25 of 100", peak), page.number("keep 25 of 100", time))
    yield say("Loops over vectors of 10 MB take {} of its CPU time, of 100 MB {}.", percent, page.number("x + y on 10 MB", time), page.number("x + y on 100 MB", time))
    yield say("Programs with small objects alone take {} of the peak and {} of the CPU time.", percent, page.number("10,000 small", peak), page.number("10,000 small", time))
    yield tally(page)


def of_share(page):
    yield say("After four workers have read a data frame and overwritten a column, all five processes hold {} copies of it; with R's own "
              "way {}.", str, page.number("physical memory", "measured"), page.number("copies above idle: a column overwritten", "plain"))
    yield say("To hand it over is {} times faster.", str, page.number("handing it to 4 workers", "measured"))
    yield say("What R asks for one element at a time takes longer on a shared vector: `cumsum()` takes {} times its time.", str,
              page.number("`cumsum(x)`", "ratio"))
    yield tally(page)


def of_threads(page):
    shared = {cells[0]: float(page.number(cells[0], 1)) for _, head, cells in page.rows if head[:1] == ["beside"]}
    most = max(shared.values(), default=0)
    if most:
        free = [name.split(",")[0].split(" on ")[0] for name, value in shared.items() if value > most / 2 and name != "no package"]
        shut = [name.split(" (")[0].split(" on ")[0].removesuffix(" serving") for name, value in shared.items() if value <= most / 2]
        if free:
            yield f"Beside {', '.join(free[:-1])} and {free[-1]} as much is shared as alone." if len(free) > 1 else f"Beside {free[0]} as much is shared as alone."
        if shut:
            yield f"Beside {' and '.join(shut)} nearly nothing is: their threads may write at any time."


def of_mmapcopy(page):
    yield tally(page, "What must be shown")
    same = "mmapcopy against fork of the same memory in the same machine, "
    yield say("A copy takes {} of the time of a fork of the same memory in 4 KB pages, and {} in huge pages.", percent,
              page.number(same + "4 KB pages, time", "reached"), page.number(same + "huge pages, time", "reached"))
    yield missed(page, "What must be shown")


def of_mmapcopy_r(page):
    keep, every = "the four cases that keep copies", "all"
    for row, what in (("peak memory", "peak memory above R's own"), ("CPU time", "CPU time")):
        yield say("With the call, " + what + " is {} of that with published snapshots where copies are kept, and {} over all cases.", percent,
                  page.number(row, keep, "Bars"), page.number(row, every, "Bars"))


PAGES = {
    "r.md": of_r, "large-pages.md": of_large_pages, "php.md": of_php, "rails.md": of_rails, "replay.md": of_replay,
    "trace-overhead.md": of_overhead, "transaction.md": of_transaction, "metis.md": of_metis, "foundation.md": of_foundation,
    "r-share.md": of_share, "beside-threads.md": of_threads, "mmapcopy.md": of_mmapcopy, "mmapcopy-r.md": of_mmapcopy_r,
}


def finished(name, markdown):
    """The page with its verdict behind the title, and its prose wrapped."""
    title, _, rest = markdown.partition("\n")
    rest = rest.lstrip("\n")
    if rest.startswith(LEAD):
        rest = rest.partition("\n\n")[2]
    partial = rest.startswith("**Not complete") or "**A trial" in rest
    text = "" if partial else " ".join(sentence for sentence in PAGES[name](Page(markdown)) if sentence)
    return prose.wrapped(f"{title}\n\n{LEAD}{text}\n\n{rest}" if text else f"{title}\n\n{rest}")


def main():
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(finished(os.path.basename(path), text))


if __name__ == "__main__":
    main()
