#!/usr/bin/env python3
"""Check core/src against core/README.md: check_layers.py [--self-test]

A room includes its own headers and the rooms that its row of the table names, and uses functions and variables of no
others. Within a room too, files do not use each other in a circle; a file is a .c with its .h. No two files of
different rooms have the same name. Only some rooms name the state of the process. What the page names in backticks exists: pw_... as a word of core/src or core/include, NAME.c,
NAME.h and NAME.hpp as a file there. --self-test checks that violations planted in a copy are found.
"""

import os
import re
import shutil
import sys
import tempfile

CORE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROW = re.compile(r"^\| `(\w+)` \| (all above but )?((?:`\w+` ?)*)\|")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
NAMED = re.compile(r"`(pw_\w+|[\w/]+\.(?:c|h|hpp))`")
IDENTIFIER = re.compile(r"\bpw_\w+")
PUBLIC = ("pagewise.h", "pagewise_heap.h")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\\\.|[^\"\\\\\n])*\"", re.S)
# At the start of a line: a function with its body, or a variable that is not only declared.
FUNCTION = re.compile(r"^(?!static|extern|typedef|#|\s|\})[^\n;{}=]*?\b(pw_\w+)\((?:[^;{}]|\n)*?\)\s*\{", re.M)
VARIABLE = re.compile(r"^(?!static|extern|typedef|#|\s|\})[\w\s\*]*?\b(pw_\w+)(?:\[[^\]]*\])?\s*=", re.M)
STATE = re.compile(r"(?<!struct )\b(?:pw_process|pw_gate)\b")
STATE_ROOMS = ("process", "entry")  # others are handed what they need
NAME = re.compile(r"(?<!struct )(?<!enum )(?<!union )\bpw_\w+")


def read_table(path):
    """Room -> rooms it may include."""
    table = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            match = ROW.match(line)
            if match:
                named = set(re.findall(r"`(\w+)`", match[3]))
                table[match[1]] = set(table) - named if match[2] else named
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
            if name.endswith((".c", ".h", ".hpp")):
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


def base_name_problems(source):
    """Whoever reads a name in a log, a profile or a message must know which file is meant."""
    rooms = {}
    for path in sources(source):
        name = os.path.splitext(os.path.basename(path))[0]
        rooms.setdefault(name, {}).setdefault(path.split(os.sep)[0], path)
    for name, paths in sorted(rooms.items()):
        if len(paths) > 1:
            yield f"{' and '.join(sorted(paths.values()))}: files of different rooms named {name}"


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


# --- calls ---------------------------------------------------------------------------------


def units(source):
    """File without its ending -> its text without comments and strings."""
    texts = {}
    for path in sources(source):
        with open(os.path.join(source, path), encoding="utf-8") as file:
            unit = os.path.splitext(path)[0]
            texts[unit] = texts.get(unit, "") + COMMENT.sub(" ", file.read())
    return texts


def uses(source):
    """File -> file whose functions or variables it uses -> one of them."""
    texts, owner = units(source), {}
    for unit, text in texts.items():
        for pattern in (FUNCTION, VARIABLE):
            for match in pattern.finditer(text):
                owner.setdefault(match[1], unit)
    graph = {unit: {} for unit in texts}
    for unit, text in texts.items():
        for name in set(NAME.findall(text)):
            if owner.get(name, unit) != unit:
                graph[unit].setdefault(owner[name], name)
    return graph


def circle_from(unit, graph):
    """The files on the way from a file back to itself, or None."""
    ways, seen = [[unit]], set()
    while ways:
        way = ways.pop()
        for other in sorted(graph[way[-1]]):
            if other == unit:
                return way
            if other not in seen:
                seen.add(other)
                ways.append(way + [other])
    return None


def call_problems(source, table):
    graph = uses(source)
    reported = set()
    for unit, others in sorted(graph.items()):
        room = unit.split("/")[0]
        for other, name in sorted(others.items()):
            target = other.split("/")[0]
            if target != room and target not in table.get(room, ()):
                yield f"{unit}: {room} must not use {name} of {other}"
        way = circle_from(unit, graph)
        if way and not reported & set(way):
            reported |= set(way)
            names = [graph[one][two] for one, two in zip(way, way[1:] + way[:1])]
            yield f"{unit}: a circle: " + ", ".join(f"{one} uses {name}" for one, name in zip(way, names))


def state_problems(source):
    for unit, text in sorted(units(source).items()):
        if unit.split("/")[0] not in STATE_ROOMS and STATE.search(text):
            yield f"{unit}: only {' and '.join(STATE_ROOMS)} name the state of the process"


# --- names in README.md ------------------------------------------------------------------


def words_and_files(core):
    """Identifiers that begin with pw_, and paths, relative to src and to include."""
    words, files = set(), set()
    for folder in (os.path.join(core, "src"), os.path.join(core, "include")):
        for path in sources(folder):
            files.add(path)
            with open(os.path.join(folder, path), encoding="utf-8") as file:
                words.update(IDENTIFIER.findall(file.read()))
    return words, files


def name_problems(core):
    words, files = words_and_files(core)
    with open(os.path.join(core, "README.md"), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            for name in NAMED.findall(line):
                bare = name.removeprefix("src/").removeprefix("include/")
                if name not in words and bare not in files and not any(f.endswith("/" + bare) for f in files):
                    yield f"README.md:{number}: {name} is not in src or include"


def check(core):
    table = read_table(os.path.join(core, "README.md"))
    source = os.path.join(core, "src")
    problems = list(table_problems(table)) + list(name_problems(core))
    count = 0
    for path in sources(source):
        problems += file_problems(source, path, table)
        count += 1
    problems += call_problems(source, table)
    problems += state_problems(source)
    problems += base_name_problems(source)
    if not table or not count:
        problems.append("no table or no sources: nothing was checked")
    return problems, count


PLANTED = [
    ("os/memory.c", '#include "stats/stats.h"'),  # upwards
    ("share/zero.c", '#include "huge/huge.h"'),  # across
    ("policy/copy.c", '#  include "process/state.h"'),
    ("extent/arena.c", '#include "../share/share.h"'),  # round the side
    ("process/quiet.c", '#include "record/log.h"'),  # the one that is left out
    ("process/quiet.c", "void pw_planted(void) {\n    pw_block_reject(0);\n}"),  # without an include
    ("share/snapshot.c", "void pw_planted(void) {\n    pw_share_leave(0, 0);\n}"),  # a circle in a room
    ("block/fate.c", "int pw_planted(void) {\n    return pw_process.pid;\n}"),
]
PLANTED_FILES = ["policy/arena.h", "runtime/r/fate.c"]  # of another room's name
PLANTED_NAMES = ["pw_block_allocat", "block/nowhere.c", "nowhere.h"]


def self_test():
    missed = []
    for path, line in PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(CORE, "src"), os.path.join(folder, "src"))
            shutil.copy(os.path.join(CORE, "README.md"), folder)
            with open(os.path.join(folder, "src", path), "a", encoding="utf-8") as file:
                file.write("\n" + line + "\n")
            unit = os.path.splitext(path)[0]
            if not any(unit in problem for problem in check(folder)[0]):
                missed.append(f"not found: {line} in {path}")
    for path in PLANTED_FILES:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(CORE, "src"), os.path.join(folder, "src"))
            shutil.copy(os.path.join(CORE, "README.md"), folder)
            with open(os.path.join(folder, "src", path), "x", encoding="utf-8"):
                pass
            if not any(path in problem for problem in check(folder)[0]):
                missed.append(f"not found: {path} has another's name")
    for name in PLANTED_NAMES:
        with tempfile.TemporaryDirectory() as folder:
            for part in ("src", "include"):
                shutil.copytree(os.path.join(CORE, part), os.path.join(folder, part))
            shutil.copy(os.path.join(CORE, "README.md"), folder)
            with open(os.path.join(folder, "README.md"), "a", encoding="utf-8") as file:
                file.write(f"\nIt calls `{name}`.\n")
            if not any(name in problem for problem in check(folder)[0]):
                missed.append(f"not found: {name} in README.md")
    return missed


def main():
    if "--self-test" in sys.argv[1:]:
        problems, what = self_test(), f"{len(PLANTED) + len(PLANTED_FILES) + len(PLANTED_NAMES)} planted violations found"
    else:
        problems, count = check(CORE)
        what = f"{count} files keep to the layers"
    print("\n".join(problems) or what)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
