"""Memory of processes that have pages in common, as the kernel tells it: proportional shares (Pss).

Of a page that n processes map, each has an nth part: the sum over all of them counts it once. A page that nobody maps is in no sum: shared memory
that was written into a file, and not yet looked at, is added by with_unmapped().
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator

# What the kernel keeps in memory alone: files of /dev/shm, and those without a name.
SHARED_MEMORY = ("/dev/shm/", "/memfd:")


def rollup(pid: int | str) -> dict[str, int]:
    """A process's sums of /proc/PID/smaps_rollup in bytes."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return {match[1]: 1024 * int(match[2]) for match in re.finditer(r"^(\w+): +(\d+) kB$", file.read(), re.MULTILINE)}


def proportional(pids: Iterable[int | str]) -> int:
    """Bytes that these processes map, what they have in common once."""
    return sum(rollup(pid)["Pss"] for pid in pids)


def with_unmapped(pids: Iterable[int | str]) -> int:
    """The same, where of each file of shared memory that one of them has all pages count, mapped or not."""
    pids = list(pids)
    sums = [rollup(pid) for pid in pids]
    return sum(one["Pss"] - one.get("Pss_Shmem", 0) for one in sums) + sum(files_of(pids).values())


def files_of(pids: Iterable[int | str]) -> dict[tuple[int, int], int]:
    """Bytes in memory of each file of shared memory that one of these processes has open or mapped, by device and number."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            for place in _places(pid):
                with contextlib.suppress(OSError):  # closed, or unmapped, meanwhile
                    status = os.stat(place)
                    found[status.st_dev, status.st_ino] = status.st_blocks * 512
    return found


def _places(pid: int | str) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if os.readlink(f"{folder}/{name}").startswith(SHARED_MEMORY):
                yield f"{folder}/{name}"
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        for line in maps:
            words = line.split(maxsplit=5)
            if len(words) == 6 and words[5].startswith(SHARED_MEMORY):
                path = words[5].rstrip("\n")
                # Whether or not it still has a name; without root, only where it has.
                yield f"/proc/{pid}/map_files/{words[0]}" if os.geteuid() == 0 else path
