#!/usr/bin/env python3
"""Cut the requests out of traces for replay: cut.py OUT TRACE...

A trace is a recording in text form (pagewise trace convert --to text) of php-cgi with php/marks.php. A transaction is
what happens between the two marks of a request: allocations, and frees of blocks allocated in it. Of each trace the
last whole request is taken: what PHP keeps over requests (its compiled scripts) is there by then.

OUT begins with "PWTX0001" and the number of transactions; each is: number of slots, of operations, of slots in use at
the end; the operations; those slots. All are 32-bit and little-endian. An operation is a slot and a size, or, with its
top bit set, the slot to free. Slots are used again, as a program's variables are.
"""

import array
import os
import sys

MARK = 7654320  # as in php/marks.php
FREE = 1 << 31


class Cutter:
    """One request: slots for the blocks that are alive."""

    def __init__(self):
        self.operations = array.array("I")
        self.slot_of = {}
        self.idle = []
        self.slots = 0
        self.allocations = self.frees = self.bytes = 0

    def allocate(self, number, size):
        if self.idle:
            slot = self.idle.pop()
        else:
            slot = self.slots
            self.slots += 1
        self.slot_of[number] = slot
        self.operations.extend((slot, size))
        self.allocations += 1
        self.bytes += size

    def free(self, number):
        slot = self.slot_of.pop(number, None)
        if slot is not None:
            self.operations.append(slot | FREE)
            self.idle.append(slot)
            self.frees += 1


def last_request(lines):
    """The operations between the last pair of marks."""
    current = last = None
    for line in lines:
        words = line.split(" ", 4)
        if words[0] == "allocate":
            size = int(words[3])
            if size == MARK:
                current = Cutter()
            elif size == MARK + 8:
                last, current = current or last, None
            elif current:
                current.allocate(words[1], size)
        elif words[0] == "free" and current:
            current.free(words[1].rstrip())
    return last


def write(out, requests):
    out.write(b"PWTX0001")
    array.array("I", [len(requests)]).tofile(out)
    for request in requests:
        live = sorted(request.slot_of.values())
        array.array("I", [request.slots, len(request.operations), len(live)]).tofile(out)
        request.operations.tofile(out)
        array.array("I", live).tofile(out)


def main(out, traces):
    requests = []
    for trace in traces:
        with open(trace, encoding="utf-8") as lines:
            request = last_request(lines)
        if request is None:
            sys.exit(f"cut.py: {trace} has no whole request in it: was php/marks.php prepended, with PAGEWISE_MARK?")
        requests.append(request)
        mean = request.bytes / max(1, request.allocations)
        print(f"{os.path.basename(trace)}: {request.allocations} allocations of {mean:.1f} bytes on average, "
              f"{request.frees} frees, {len(request.slot_of)} blocks at the end")
    with open(out, "wb") as file:
        write(file, requests)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
