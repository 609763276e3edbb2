"""What CPU time would be where a page fault costs what it does on a bare machine. docs/reference/bench-r.md explains it.

On a virtual machine a page fault costs several times what it costs on a bare one, which flatters whoever avoids faults. The
model takes from the measured CPU time, for each fault, the part that only the virtual machine charges:

    cpu - (touches * touch cost here + copies * copy cost here) * (1 - bare cost of a touch / touch cost here)

A page within a huge page costs no more than a small one there. What else the kernel does for Pagewise (writing snapshots,
remapping, giving back) stays at what it cost here, though it would be cheaper too: the model errs against Pagewise. No more
is taken than the run spent in the kernel.
"""

import json
import math
import os
import subprocess
from typing import Any

PAGE = 4096
HUGE_PAGE = 2 << 20
# Microseconds for a first touch of a 4 KB page, zeroing included, on a bare machine: both ends of the usual range.
BARE_TOUCH = (0.25, 0.10)
STRICTEST = min(BARE_TOUCH)


def at(bare_touch: float) -> str:
    """How tables call what a figure would be there."""
    return f"at {bare_touch:.2f} us a fault"


def costs_of(store: Any, record: dict[str, Any]) -> dict[str, float] | None:
    """What pages cost in a record's sitting, microseconds; None where that was not calibrated."""
    costs: dict[str, float] | None = store.sessions.get(record["session"], {}).get("costs")
    return costs


def events(record: dict[str, Any]) -> dict[str, int]:
    """What the kernel was asked to do in a run: counted, or derived from what was counted."""
    statistics = record.get("statistics") or {}
    huge = min(record.get("huge_faults", 0), record["minor_faults"])
    copies = min(statistics.get("private_copy_bytes", 0) // PAGE, record["minor_faults"] - huge)
    touches = record["minor_faults"] - huge - copies
    return {
        "touches": touches, "copies": copies, "huge": huge, "major": record["major_faults"],
        "zeroed_bytes": touches * PAGE + huge * HUGE_PAGE,
        "copied_bytes": copies * PAGE + statistics.get("published_bytes", 0),
    }


def modelled_cpu(record: dict[str, Any], costs: dict[str, float] | None, bare_touch: float) -> float:
    """CPU seconds of a run; `costs` is the session's, microseconds. Not a number where that was not calibrated."""
    if not costs:
        return math.nan
    here, measured = costs["touch_us"], float(record["cpu_seconds"])
    if here <= bare_touch:
        return measured
    counted = events(record)
    in_faults = (counted["touches"] * here + counted["copies"] * costs.get("copy_us", here)) / 1e6
    in_huge = counted["huge"] * HUGE_PAGE // PAGE * max(0.0, costs.get("huge_us", 0) - bare_touch) / 1e6
    taken = min(in_faults * (1 - bare_touch / here) + in_huge, record["system_seconds"])
    return measured - float(taken)


def calibrate(root: str) -> dict[str, float]:
    """Measures what pages cost on this machine, now; compiled on first use. Empty where there is no compiler."""
    source = os.path.join(root, "bench/page_costs.c")
    program = os.path.join(root, "build/bench/page_costs")
    try:
        os.makedirs(os.path.dirname(program), exist_ok=True)
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, source], check=True)
        found: dict[str, float] = json.loads(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
        return found
    except (OSError, subprocess.CalledProcessError, ValueError):
        return {}
