#!/usr/bin/env python3
"""Check the includes of core/src against the table in core/README.md: check_layers.py [--self-test]

A room includes its own headers and the rooms that its row names. --self-test checks that violations planted in a
copy are found.
"""

import os
import re
import shutil
import sys
import tempfile

CORE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROW = re.compile(r"^\| `(\w+)` \| ((?:`\w+` ?)*)\|")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
PUBLIC = ("pagewise.h", "pagewise_heap.h")


def read_table(path):
    """Room -> rooms it may include."""
    table = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            match = ROW.match(line)
            if match:
                table[match[1]] = set(re.findall(r"`(\w+)`", match[2]))
    return table


def table_problems(table):
    """Rooms are listed lowest first, so a row may only name rows above it."""
    above = set()
    for room, allowed in table.items():
        for other in sorted(allowed - above):
            yield f"README.md: {room} may not include {other}, which is not below it"
        above.add(room)


def sources(source):
    for folder, _, names in sorted(os.walk(source)):
        for name in sorted(names):
            if name.endswith((".c", ".h")):
                yield os.path.relpath(os.path.join(folder, name), source)


def include_problem(source, path, included, table):
    if included in PUBLIC:
        return None
    room, target = path.split(os.sep)[0], included.split("/")[0]
    if not os.path.exists(os.path.join(source, included)):
        return f"{included} is not named from src on (room/header.h)"
    if target != room and target not in table[room]:
        return f"{room} must not include {target}"
    return None


def file_problems(source, path, table):
    room = path.split(os.sep)[0]
    if room not in table:
        yield f"{path}: the room {room} is not in the table of core/README.md"
        return
    with open(os.path.join(source, path), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = INCLUDE.match(line)
            problem = match and include_problem(source, path, match[1], table)
            if problem:
                yield f"{path}:{number}: {problem}"


def check(core):
    table = read_table(os.path.join(core, "README.md"))
    problems = list(table_problems(table))
    count = 0
    for path in sources(os.path.join(core, "src")):
        problems += file_problems(os.path.join(core, "src"), path, table)
        count += 1
    if not table or not count:
        problems.append("no table or no sources: nothing was checked")
    return problems, count


PLANTED = [
    ("os/memory.c", '#include "stats/stats.h"'),  # upwards
    ("share/zero.c", '#include "huge/huge.h"'),  # across
    ("policy/copy.c", '#  include "process/process.h"'),
    ("extent/arena.c", '#include "../share/share.h"'),  # round the side
]


def self_test():
    missed = []
    for path, line in PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(CORE, "src"), os.path.join(folder, "src"))
            shutil.copy(os.path.join(CORE, "README.md"), folder)
            with open(os.path.join(folder, "src", path), "a", encoding="utf-8") as file:
                file.write("\n" + line + "\n")
            if not any(problem.startswith(path) for problem in check(folder)[0]):
                missed.append(f"not found: {line} in {path}")
    return missed


def main():
    if "--self-test" in sys.argv[1:]:
        problems, what = self_test(), f"{len(PLANTED)} planted violations found"
    else:
        problems, count = check(CORE)
        what = f"{count} files keep to the layers"
    print("\n".join(problems) or what)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
