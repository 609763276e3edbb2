"""What came of tests in another machine or under an emulator, beside what is known of them, and the table of both.

What is known is in a file of limits. A line "= REASON" is of the lines below it, each of a kind and a pattern of a test's whole
name, of test/case where cmocka names cases:

    leave    it is not run
    fails    it is run and must fail: once it passes, the line has to go
    either   it is run, and depends on how busy the machine is

Where tests are run by several machines, a name begins with the machine's: 64K/heap, bookworm/heap. Every line must name a test.
"""

import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KINDS = ("leave", "fails", "either")
# How cmocka names the cases of a test that failed, by themselves or when they were set up.
FAILED_CASE = re.compile(r"^\[  (?:FAILED|ERROR ) +\] (\w+)$", re.M)
PASSED_CASE = re.compile(r"^\[       OK \] (\w+)$", re.M)


@dataclass
class Limit:
    """Tests that are left out, fail, or may do either, and why."""

    kind: str
    tests: re.Pattern[str]
    why: str
    line: int


@dataclass
class Outcome:
    """What came of one test."""

    test: str
    state: str  # passed, failed, skipped, left
    said: str = ""
    limit: Limit | None = None  # None: nothing is known of it

    def is_wrong(self) -> bool:
        """Is it not what the limits say?"""
        if self.state == "failed":
            return self.limit is None
        return self.state == "passed" and self.limit is not None and self.limit.kind == "fails"


def read_limits(text: str, name: str) -> list[Limit]:
    """Read a file of limits; `name` is its path, for who has to mend it."""
    limits: list[Limit] = []
    why = ""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if line.startswith("#"):
            continue
        if line.startswith("= "):
            why = line[2:].strip()
        elif words:
            if len(words) != 2 or words[0] not in KINDS or not why:
                sys.exit(f"{name}:{number}: not '= REASON' or one of {', '.join(KINDS)} and a pattern: {line}")
            limits.append(Limit(words[0], re.compile(words[1]), why, number))
    return limits


def limits_in(name: str) -> list[Limit]:
    """Read a file of limits, by its path below the root."""
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return read_limits(file.read(), name)


def limit_of(test: str, limits: Sequence[Limit]) -> Limit | None:
    """Give the first limit that names the test."""
    return next((limit for limit in limits if limit.tests.fullmatch(test)), None)


def of_case(case: ElementTree.Element, limits: Sequence[Limit]) -> list[Outcome]:
    """Read one test of ctest's report."""
    name, status, text = case.get("name", ""), case.get("status", ""), case.findtext("system-out") or ""
    state = {"run": "passed", "fail": "failed"}.get(status, "skipped")
    skipped = case.find("skipped")
    if skipped is not None and "SKIP_RETURN_CODE" not in (skipped.get("message") or ""):
        return [Outcome(name, "failed", "there is no such program", limit_of(name, limits))]
    return of_test(name, state, text, limits)


def of_test(name: str, state: str, text: str, limits: Sequence[Limit]) -> list[Outcome]:
    """Read what a test printed; of a test of several cases the one that is not as it should, or that is known."""
    said = last_words(text)
    failed, passed = set(FAILED_CASE.findall(text)), set(PASSED_CASE.findall(text))
    if state == "skipped" or limit_of(name, limits) or not failed | passed:
        return [Outcome(name, state, said, limit_of(name, limits))]
    if state == "failed" and not failed:
        return [Outcome(name, state, said)]
    outcomes = [Outcome(f"{name}/{inner}", "failed", last_words(before(text, inner)), limit_of(f"{name}/{inner}", limits)) for inner in failed]
    # A case that is known and passes is an outcome of its own; all others that pass are the test's.
    known = [Outcome(f"{name}/{inner}", "passed", "", limit) for inner in passed if (limit := limit_of(f"{name}/{inner}", limits))]
    return [*outcomes, *known] or [Outcome(name, "passed")]


def before(text: str, case: str) -> str:
    """Give what a case said: what is between its name and the line that says that it failed."""
    return re.split(rf"^\[ RUN +\] {case}$", text, maxsplit=1, flags=re.M)[-1].split(f"] {case}\n", maxsplit=1)[0]


def last_words(text: str) -> str:
    """Give the line that says what went wrong, or why it was skipped."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"not true: |^\[  ERROR |^[a-z-]+: |[Ss]kip", line)]
    return (telling or lines or ["it said nothing"])[-1][:140]


def show(title: str, outcomes: Sequence[Outcome]) -> None:
    """Print the tests of one kind, each with what it said."""
    if outcomes:
        print(f"== {title}")
        for outcome in sorted(outcomes, key=lambda outcome: outcome.test):
            print(f"  {outcome.test:36} {outcome.said}")


def table(title: str, outcomes: Sequence[Outcome]) -> None:
    """Print how many, and why the others did not."""
    show("failed, and is not among the limits", [o for o in outcomes if o.state == "failed" and o.is_wrong()])
    show("passed, though the limits say that it fails", [o for o in outcomes if o.state == "passed" and o.is_wrong()])
    show("skipped by the test itself", [o for o in outcomes if o.state == "skipped"])
    print(f"== {title}")
    states = Counter(outcome.state for outcome in outcomes)
    print(f"{states['passed']:5} passed")
    print(f"{states['failed']:5} failed, of which {sum(o.is_wrong() for o in outcomes if o.state == 'failed')} for no known reason:")
    reasons(o for o in outcomes if o.state == "failed" and o.limit)
    print(f"{states['skipped'] + states['left']:5} not run, of which {states['skipped']} say themselves why (above):")
    reasons(o for o in outcomes if o.state == "left")


def reasons(outcomes: Iterable[Outcome]) -> None:
    """Print each reason once, with the number of its tests."""
    for why, count in Counter(o.limit.why for o in outcomes if o.limit).most_common():
        print(f"{count:11}   {why}")


def stale(limits: Sequence[Limit], outcomes: Sequence[Outcome]) -> list[Limit]:
    """Give the limits that name no test."""
    return [limit for limit in limits if not any(limit.tests.fullmatch(o.test) for o in outcomes)]


def verdict(outcomes: Sequence[Outcome], known: dict[str, list[Limit]]) -> int:
    """Print the last line, and what of the files of limits names no test; 1 if anything is not as they say."""
    wrong = sum(outcome.is_wrong() for outcome in outcomes)
    for name, limits in known.items():
        for limit in stale(limits, outcomes):
            print(f"FAILED  {name}:{limit.line} names no test: {limit.tests.pattern}")
            wrong += 1
    passed = sum(outcome.state == "passed" and not outcome.is_wrong() for outcome in outcomes)
    print(f"{passed} passed, {wrong} failed")
    return 1 if wrong or not outcomes else 0
