"""Stands in for a round of bench/python/sharing: tells figures that depend on the way alone.

FAKE_ODD=WAY has its workers read something else, FAKE_FAIL=WAY has it fail. Each call appends a line to FAKE_LOG.
"""

import json
import os
import sys

way, size, figures = sys.argv[1:]
with open(os.environ["FAKE_LOG"], "a", encoding="utf-8") as log:
    log.write(f"round {way} {size}\n")
if os.environ.get("FAKE_FAIL") == way:
    sys.exit("Traceback:\n  where\nOSError: [Errno 28] No space left on device")
print("workers read", size, "odd" if os.environ.get("FAKE_ODD") == way else "")
copies = 9 if way.startswith("plain") else 1
with open(figures, "w", encoding="ascii") as file:
    json.dump({"make": 0.1, "hand": copies * 0.5, "read seconds": 0.2, "written seconds": 0.3, "private": way != "SharedMemory",
               "at idle": 1e9, "at handed": 1e9 + copies * int(size), "at read": 1e9 + copies * int(size),
               "at written": 1e9 + (copies if copies > 1 else 1.4) * int(size)}, file)
