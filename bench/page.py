"""The one way to write a page of docs/results.

A page is a title, a verdict, and sections; a section is a list of blocks. A block is Markdown between two empty lines: a
paragraph, or what table(), items() and facts() make. Page.write() puts the verdict first, aligns the tables and wraps the
prose to 120 columns.

    page.py docs/results/PAGE.md ...    aligns tables and wraps prose of pages in place

Means, intervals and what is met are of intervals.py; what a ratio would be where page faults cost what they do on a bare
machine is of cost_model.py. How figures look is said here alone:

    interval()     0.774 [0.771, 0.775]      a mean and its 95 % interval
    span()         1.31 (1.13 to 1.48)       a figure and the least and the most of what it is made of
    percent()      77.4 %
    megabytes()    140                       of 10^6 bytes
    said()         met, **missed**, **undecided**
"""

import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence

import prose
from intervals import WORDS, Interval

VERDICT = "**Verdict.** "
PROVISIONAL = "**No result yet.** "
MISSING = "not measured"
NOTHING = ("", "-", "–", MISSING, "not measured yet", "missing")
NUMBER = re.compile(r"-?\d*\.\d+|-?\d[\d,]*")
UNIT = r"(?: ?(?:%|[kMG]?B|[KM]iB|[mu]?s|k|x|times))?"
ONLY_NUMBER = re.compile(rf"[-+]?[\d,]*\.?\d+{UNIT}(?: [\[(][^\])]*[\])])?")
CELL_END = re.compile(r"(?<!\\)\|")
WORD = re.compile(rf"({'|'.join(WORDS)})(?:$|\**;)")  # behind it there may be why
RULE = re.compile(r"\|[\s:|-]+\|?$")


# --- how figures look -----------------------------------------------------------------------------


def figure(value: float | None, digits: int = 3) -> str:
    """A figure with so many digits behind the point; a dash where there is none."""
    return "-" if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


def interval(found: Interval | None, digits: int = 3, missing: str = MISSING) -> str:
    """A mean with its interval; of one round the mean alone."""
    if found is None:
        return missing
    if not math.isfinite(found["mean"]):
        return "-"
    if found["rounds"] < 2:
        return f"{found['mean']:.{digits}f} (one round)"
    return f"{found['mean']:.{digits}f} [{found['low']:.{digits}f}, {found['high']:.{digits}f}]"


def span(middle: float, values: Sequence[float], digits: int = 2, more: str = "") -> str:
    """A figure of these values, with the least and the most of them; `more` stands in the brackets, too."""
    if len(values) < 2 and not more:
        return f"{middle:.{digits}f}"
    return f"{middle:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f}{more})"


def percent(share: float | None, digits: int = 1, signed: bool = False) -> str:
    """A share as percent: .774 is 77.4 %. With a sign it is a change: -.226 is -22.6 %."""
    return "-" if share is None else f"{100 * share:{'+' if signed else ''}.{digits}f} %"


def percent_of(cell: str) -> str:
    """A share as it stands in a table, as percent with the digits that it has there."""
    return percent(float(cell), max(0, len(cell.partition(".")[2]) - 2))


def megabytes(size: float | None, digits: int = 0, missing: str = MISSING) -> str:
    """Of 10^6 bytes; the unit is in the column's head."""
    return missing if size is None else f"{size / 1e6:.{digits}f}"


def said(word: str) -> str:
    """A verdict in a table: what is not met stands out."""
    return f"**{word}**" if word in WORDS and word != "met" else word


def listed(names: Iterable[str]) -> str:
    """One, two and three."""
    *first, last = list(names) or ["none"]
    return f"{', '.join(first)} and {last}" if first else last


# --- blocks ---------------------------------------------------------------------------------------


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table as a block; shorter rows are filled up. Where there are no rows, the block says so."""
    lines = [[_cell(one) for one in row] for row in (head, *rows)]
    if len(lines) == 1:
        return "Not measured yet."
    return "\n".join(_aligned([row + [""] * (len(head) - len(row)) for row in lines]))


def items(texts: Iterable[str]) -> str:
    """A list as a block."""
    return "\n".join(f"- {text}" for text in texts)


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """What was measured where: a list of names and values."""
    return items(f"{name}: {value}" for name, value in pairs)


def _cell(value: object) -> str:
    return CELL_END.sub(r"\\|", " ".join(str(value).split()))


def _aligned(rows: list[list[str]]) -> list[str]:
    """The lines of a table, its head first. Numbers stand right. Cells are filled up where the lines then fit the page: a
    wider table is not read as text."""
    head, *body = rows
    columns = range(len(head))
    right = [at > 0 and _is_of_numbers(row[at] for row in body) for at in columns]
    widths = [max(3, *(len(row[at]) for row in rows)) for at in columns]
    fits = sum(widths) + 3 * len(widths) + 1 <= prose.WIDTH
    if not fits:
        widths = [3] * len(widths)
    rules = ["-" * (width - 1) + ":" if is_right else "-" * width for width, is_right in zip(widths, right)]

    def line(cells: Sequence[str]) -> str:
        filled = [cell.rjust(width) if is_right else cell.ljust(width) for cell, width, is_right in zip(cells, widths, right)]
        return "| " + " | ".join(filled if fits else cells) + " |"

    return [line(head), line(rules), *map(line, body)]


def _is_of_numbers(cells: Iterable[str]) -> bool:
    plain = [_bare(cell) for cell in cells]
    return any(ONLY_NUMBER.fullmatch(cell) for cell in plain) and all(
        cell in NOTHING or ONLY_NUMBER.fullmatch(cell) for cell in plain)


def _bare(cell: str) -> str:
    return cell.strip().strip("*").strip()


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in CELL_END.split(line.strip().removeprefix("|").removesuffix("|"))]


# --- the page -------------------------------------------------------------------------------------


class Tables:
    """The tables of a page, to take a verdict's figures from: so the two cannot differ."""

    def __init__(self, markdown: str) -> None:
        self.markdown = markdown
        self.rows: list[tuple[str, list[str], list[str]]] = []  # section, head, cells
        section, head = "", [""]
        lines = markdown.split("\n")
        for at, line in enumerate(lines):
            if line.startswith("#"):
                section = line.lstrip("# ")
            if not line.startswith("|"):
                continue
            cells = [_bare(cell) for cell in _split(line)]
            if at + 1 < len(lines) and RULE.match(lines[at + 1]):
                head = cells
            elif not RULE.match(line):
                self.rows.append((section, head, cells))

    def number(self, label: str, column: int | str, section: str = "") -> str | None:
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

    def verdicts(self, section: str = "") -> list[tuple[str, str]]:
        """Pairs of a row's name and what it says, of all rows that say it. "The same, ..." is the row before, but for that."""
        found, before = [], ""
        for where, _, cells in self.rows:
            name = re.sub(r"^the same(?=,)", before.partition(",")[0], cells[0])
            told = [match[1] for cell in cells[1:] if (match := WORD.match(cell))]
            found += [(name, word) for word in told if where.startswith(section)]
            before = name
        return found


Sentences = Callable[[Tables], Iterable[str | None]]


class Page:
    """A page as it is made.

    Parameters
    ----------
    title
        The heading of the page.
    verdict
        Makes the sentences that stand first, one or two, from the tables of the finished page. None among them are left
        out: what they would say was not measured.
    """

    def __init__(self, title: str, verdict: Sentences | None = None) -> None:
        self.title, self.verdict = title, verdict
        self.blocks: list[str] = []
        self.provisional = ""

    def add(self, *blocks: str | None) -> None:
        """Puts blocks at the end; None and empty ones are left out."""
        self.blocks += [block for block in blocks if block]

    def section(self, title: str, *blocks: str | None, level: int = 2) -> None:
        """Begins a section with these blocks."""
        self.add(heading(title, level), *blocks)

    def is_provisional(self, why: str) -> None:
        """Has the page say that it is no result, and why, in the place of its verdict."""
        self.provisional = why

    def markdown(self) -> str:
        """The whole page, laid out."""
        first = [PROVISIONAL + self.provisional] if self.provisional else []
        text = "\n\n".join([f"# {self.title}", *first, *self.blocks]).rstrip() + "\n"
        return with_verdict(text, self.verdict) if self.verdict else laid_out(text)

    def write(self, path: str) -> None:
        """Writes the page as a whole or not at all."""
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path + ".partial", "w", encoding="utf-8") as file:
            file.write(self.markdown())
        os.replace(path + ".partial", path)


def heading(title: str, level: int = 2) -> str:
    """A heading as a block."""
    return f"{'#' * level} {title}"


def with_verdict(markdown: str, sentences: Sentences) -> str:
    """A page with its verdict behind the title, in the place of an older one, laid out."""
    title, _, rest = markdown.partition("\n")
    rest = rest.lstrip("\n")
    if rest.startswith(VERDICT):
        rest = rest.partition("\n\n")[2]
    text = "" if rest.startswith(PROVISIONAL) else " ".join(filter(None, sentences(Tables(markdown))))
    return laid_out("\n\n".join([title, *([VERDICT + text] if text else []), rest]))


def laid_out(markdown: str) -> str:
    """The text with its tables aligned and its prose wrapped; twice changes nothing more."""
    return prose.wrapped(_with_tables(markdown, _aligned))


def plain(markdown: str) -> str:
    """Each paragraph in one line and no table filled up, to look for sentences and rows in it."""
    compact = _with_tables(markdown, lambda rows: ["| " + " | ".join(row) + " |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:])])
    return prose.unwrapped(compact)


def _with_tables(markdown: str, change: Callable[[list[list[str]]], list[str]]) -> str:
    """The text with each table made anew of its rows of cells."""
    out: list[str] = []
    rows: list[str] = []

    def end() -> None:
        if len(rows) > 1 and RULE.match(rows[1]):
            head = _split(rows[0])
            cells = [_split(row) for row in (rows[0], *rows[2:])]
            out.extend(change([row + [""] * (len(head) - len(row)) for row in cells]))
        else:
            out.extend(rows)
        rows.clear()

    fenced = False
    for line in markdown.split("\n"):
        fenced ^= bool(prose.FENCE.match(line))
        if line.startswith("|") and not fenced:
            rows.append(line)
        else:
            end()
            out.append(line)
    end()
    return "\n".join(out)


def main() -> None:
    """Lays out the files that are named."""
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = laid_out(file.read())
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
