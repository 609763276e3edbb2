#!/usr/bin/env python3
"""Read the statistics blocks that the option statistics=DIR leaves: pagewise_statistics.py DIR

Prints each field's sum over the blocks of all processes. The layout comes from core/include/pagewise.h, so that
this reader knows the fields the library was built with.
"""

import glob
import os
import re
import struct
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADER = struct.Struct("<8sIIQ16s")
MAGIC = b"PAGEWISE"
VERSION = 1


def fields():
    with open(os.path.join(ROOT, "core/include/pagewise.h"), encoding="utf-8") as file:
        text = file.read()
    block = text[text.index("#define PW_STATISTICS_FIELDS(X)"):text.index("struct pw_statistics")]
    return re.findall(r'\bX\((\w+), "', block)


def read(path, names):
    """One block as a dictionary; None when the file is not a block of a version we know."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < HEADER.size:
        return None
    magic, version, size, _pid, policy = HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        return None
    count = min((min(size, len(data)) - HEADER.size) // 8, len(names))
    block = dict(zip(names, struct.unpack_from(f"<{count}Q", data, HEADER.size)))
    block["policy"] = policy.rstrip(b"\0").decode("ascii", "replace")
    return block


def total(folder):
    """(number of blocks, sums of the fields) over a folder."""
    names = fields()
    sums, blocks = dict.fromkeys(names, 0), 0
    for path in glob.glob(os.path.join(glob.escape(folder), "pagewise-*.stats")):
        block = read(path, names)
        if block is None:
            continue
        blocks += 1
        for name in names:
            sums[name] += block.get(name, 0)
    return blocks, sums


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    blocks, sums = total(sys.argv[1])
    print(f"{blocks} processes")
    for name, value in sums.items():
        if value:
            print(f"{value:16d}  {name}")


if __name__ == "__main__":
    main()
