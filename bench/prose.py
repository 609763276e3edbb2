"""Markdown with its prose in lines of at most 120 characters. Tables, code, headings and addresses stay as they are.

A paragraph or item is touched only where a line of it is too long. Lines are not broken within code, and never so that a
word would begin a list, a heading or a table.
"""

import re
from collections.abc import Callable

WIDTH = 120
FENCE = re.compile(r"^\s*(```|~~~)")
ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])(\s+)")
ALONE = re.compile(r"^\s*(#|\||<|>|!?\[[^\]]*\]\([^)\s]*\)\s*$)")
# At the start of a line these would be something else than words.
MARK = re.compile(r"^([-*+]|\d+[.)]|#+|>.*|\|.*|=+|-+)$")
TOKEN = re.compile(r"(?:`[^`]+`|\S)+")


def words(text: str) -> list[str]:
    """What a line may be broken between."""
    found: list[str] = []
    for token in TOKEN.findall(text):
        if found and MARK.match(token):
            found[-1] += " " + token
        else:
            found.append(token)
    return found


def filled(text: str, first: str, rest: str) -> list[str]:
    """The text in lines, the first behind `first`, the others behind `rest`."""
    lines, line, fresh = [], first, True
    for word in words(text):
        if not fresh and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line, fresh = rest, True
        line += word if fresh else " " + word
        fresh = False
    return [*lines, line]


def narrowed(lines: list[str]) -> list[str]:
    """A paragraph's or an item's lines, filled anew where one is too long."""
    return joined(lines, filled) if any(len(line) > WIDTH for line in lines) else lines


def in_one_line(text: str, first: str, _rest: str) -> list[str]:
    """As filled(), without an end."""
    return [first + text]


def joined(lines: list[str], fill: Callable[[str, str, str], list[str]] = in_one_line) -> list[str]:
    """A paragraph's or an item's lines as one text, and that in lines as `fill` makes them."""
    item = ITEM.match(lines[0])
    first = item[0] if item else lines[0][:len(lines[0]) - len(lines[0].lstrip())]
    text = " ".join([lines[0][len(first):], *(line.strip() for line in lines[1:])])
    return fill(text, first, " " * len(first))


def changed(markdown: str, change: Callable[[list[str]], list[str]]) -> str:
    """The text with the lines of each paragraph and each item changed."""
    out: list[str] = []
    paragraph: list[str] = []

    def end() -> None:
        out.extend(change(paragraph[:]) if paragraph else [])
        paragraph.clear()

    fenced, in_list = None, False
    for line in markdown.split("\n"):
        fence = FENCE.match(line)
        if fence or fenced:
            end()
            out.append(line)
            fenced = (None if fence and fence[1] == fenced else fenced or fence[1]) if fence else fenced
        elif not line.strip() or ALONE.match(line):
            end()
            out.append(line)
            in_list = in_list and not line.strip()
        elif not paragraph and line.startswith(" " * (6 if in_list else 4)) and not ITEM.match(line):
            out.append(line)  # code
        elif ITEM.match(line):
            end()
            paragraph.append(line)
            in_list = True
        else:
            if not paragraph and not line.startswith(" "):
                in_list = False
            paragraph.append(line)
    end()
    return "\n".join(out)


def wrapped(markdown: str) -> str:
    """The text with its prose in lines that fit."""
    return changed(markdown, narrowed)


def unwrapped(markdown: str) -> str:
    """Each paragraph and each item in one line, to look for sentences in it."""
    return changed(markdown, joined)
