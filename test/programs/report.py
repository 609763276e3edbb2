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
from prose import wrapped  # noqa: E402  (found by the line above)

PAGE = os.path.join(ROOT, "docs/results/programs.md")

HEAD = """# Other programs under Pagewise

**Verdict.** {verdict}

Written by `make bench-programs RUNS={runs}` (`test/programs/run --runs {runs} --report`). Each program does the same
work plain, three times, once of them with MALLOC_PERTURB_, and then in turns in each configuration; what it writes must
be the same, byte by byte, but for what is [taken out](#the-programs) of it in all of them. Runs were made on a busy
machine: the seconds compare nothing.

- A *crash* is a process that a signal killed, a command that ended with another status, or a word of Pagewise's on
  standard error.
- A *hang* is a run that was not over within the program's limit.

Kernel {kernel}, {machine}.

| configuration | library | options |
|---|---|---|
{configurations}

## Runs

*Served* counts large blocks and segments of small ones. *Processes* are those of a run that had the library.
*Fall-backs* are summed over all runs: `allocator` is a process that brings a malloc of its own, to which the default
leaves all; `seccomp` one that had or set up a filter of system calls; `threads` are copies and searches left out beside
threads.

| program | configuration | runs | differences | crashes | hangs | served, a run | processes | s a run (plain) | fall-backs |
|---|---|---|---|---|---|---|---|---|---|
{rows}

## The programs
"""


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
    counts = " | ".join(str(data[key]) for key in fields)
    seconds = f"{data['seconds'] / runs:.1f} ({data['plain']:.1f})"
    return f"| {counts} | {served} | {data['processes'] / runs:.0f} | {seconds} | {fallbacks or 'none'} |"


def verdict(found):
    total = {key: sum(data[key] for data in found) for key in ("runs", "differences", "crashes", "hangs")}
    programs = len({data["program"] for data in found})
    return (f"{programs} programs, {total['runs']} runs: {total['differences']} differences, "
            f"{total['crashes']} crashes, {total['hangs']} hangs.")


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


def write(folder):
    found = records(folder)
    configurations = []
    for name in dict.fromkeys(data["configuration"] for data in found):
        library, options = CONFIGURATIONS[name]
        configurations.append(f"| {name} | libpagewise-{library}.so | `{options}` |")
    text = HEAD.format(runs=max((data["runs"] for data in found), default=0), kernel=platform.release(),
                       machine=f"{os.cpu_count()} cores", configurations="\n".join(configurations),
                       verdict=verdict(found), rows="\n".join(row(data) for data in found))
    for name in dict.fromkeys(data["program"] for data in found):
        first = next(data for data in found if data["program"] == name)
        text += f"\n- {about(PROGRAMS[name], first['versions'], first.get('perturbed'))}"
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(wrapped(text + "\n"))
    print(f"wrote {os.path.relpath(PAGE, ROOT)}")
