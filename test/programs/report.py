# SPDX-License-Identifier: MIT
"""What --runs has kept, as docs/results/programs.md."""

import glob
import json
import os
import platform
import sys

from catalogue import PROGRAMS
from place import CONFIGURATIONS, ROOT

sys.path.append(os.path.join(ROOT, "bench"))
import verdicts  # noqa: E402  (found by the line above)
from page import Page, items, table  # noqa: E402

PAGE = os.path.join(ROOT, "docs/results/programs.md")


def records(folder):
    found = {}
    for path in glob.glob(os.path.join(folder, "*.json")):
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        found[data["program"], data["configuration"]] = data
    order, names = list(PROGRAMS), list(CONFIGURATIONS)
    known = [key for key in found if key[0] in PROGRAMS]
    return [found[key] for key in sorted(known, key=lambda key: (order.index(key[0]), names.index(key[1])))]


def row(data):
    runs = max(data["runs"], 1)
    served = f"{data['blocks'] / runs:,.0f}" if data["blocks"] else "nothing"
    taken = sorted(data["fallbacks"].items())
    fallbacks = ", ".join(f"{name.removeprefix('fallback_')} {count}" for name, count in taken)
    fields = ("program", "configuration", "runs", "differences", "crashes", "hangs")
    seconds = f"{data['seconds'] / runs:.1f} ({data['plain']:.1f})"
    return [*(data[key] for key in fields), served, f"{data['processes'] / runs:.0f}", seconds, fallbacks or "none"]


def about(program, versions, perturbed):
    lines = [f"**{program.name}**, {versions}. {' '.join((program.work.__doc__ or '').split())}"]
    if program.filters:
        lines.append(f"Taken out: {'; '.join(program.filters)}.")
    else:
        lines.append("Nothing is taken out.")
    if program.note:
        lines.append(f"Note: {program.note}.")
    if not perturbed:
        lines.append("Its plain runs were all without MALLOC_PERTURB_.")
    return " ".join(lines)


def configurations(found):
    names = dict.fromkeys(data["configuration"] for data in found)
    known = [(name, *CONFIGURATIONS[name]) for name in names]
    return table(["configuration", "library", "options"],
                 [[name, f"libpagewise-{library}.so", f"`{options}`"] for name, library, options in known])


def programs(found):
    first = {data["program"]: data for data in reversed(found)}
    names = dict.fromkeys(data["program"] for data in found)
    return items(about(PROGRAMS[name], first[name]["versions"], first[name].get("perturbed")) for name in names)


def written(found):
    """The page of these records."""
    runs = max((data["runs"] for data in found), default=0)
    page = Page("Other programs under Pagewise", verdicts.of_programs)
    page.add(f"Written by `make bench-programs RUNS={runs}` (`test/programs/run --runs {runs} --report`). Each program does the same work plain, "
             "three times, once of them with MALLOC_PERTURB_, and then in turns in each configuration. What it writes must be the same, byte by byte, "
             "but for what is [taken out](#the-programs) of it in all of them. The runs were made on a busy machine: seconds are not to be compared.",
             items(["A *crash* is a process that a signal killed, a command that ended with another status, or a word of Pagewise's on standard error.",
                    "A *hang* is a run that was not over within the program's limit."]),
             f"Kernel {platform.release()}, {os.cpu_count()} cores.", configurations(found))
    page.section("Runs",
                 "*Served* counts large blocks and segments of small ones. *Processes* are those of a run that had the library. *Fall-backs* are summed "
                 "over all runs. `allocator` is a process that brings a malloc of its own, to which the default leaves all. `seccomp` is one that had "
                 "or set up a filter of system calls. `threads` are copies and searches left out beside threads.",
                 table(["program", "configuration", "runs", "differences", "crashes", "hangs", "served, a run", "processes", "s a run (plain)", "fall-backs"],
                       map(row, found)))
    page.section("The programs", programs(found))
    return page


def write(folder):
    written(records(folder)).write(PAGE)
    print(f"wrote {os.path.relpath(PAGE, ROOT)}")
