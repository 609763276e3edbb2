"""One round: an array is handed to eight workers, each reads all of it, and writes to one page in twenty of its own view.

    sharing_round.py WAY BYTES FIGURES [FOLDER]

Prints what every worker read: the same in each way, or a way is wrong. Seconds, memory and whether the others see what a
worker wrote go to the file FIGURES. With FOLDER, the workers' notes are there, and behind the reading it is left to another to have them go on: to who
kills one of them meanwhile.

All workers take each step at the same time. What they tell stands in files of a folder, NAME.NUMBER; the file go.NAME has
them go on.
"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from proportional import with_unmapped  # noqa: E402 (found by the line above)
from ways import WAYS, Plain, Send  # noqa: E402

WORKERS = 8
PATIENCE = 600  # seconds for a step
PAGE = 4096 // 8  # numbers
EVERY = 20  # one page in so many is written
PERIOD, PERIOD_SUM = 1000, 499_500.0  # the array is 0 to 999, again and again: all sums of it are exact
way: Plain  # of this process


def say(folder: str, name: str, number: int, value: object) -> None:
    """Writes a note, whole or not at all."""
    path = os.path.join(folder, f"{name}.{number}")
    with open(path + "~", "w", encoding="ascii") as file:
        json.dump(value, file)
    os.rename(path + "~", path)


def notes(folder: str, name: str) -> dict[int, Any]:
    """The workers' notes of a step."""
    found = {}
    for entry in os.listdir(folder):
        if entry.startswith(name + ".") and not entry.endswith("~"):
            with open(os.path.join(folder, entry), encoding="ascii") as file:
                found[int(entry.rpartition(".")[2])] = json.load(file)
    return found


def go(folder: str, name: str) -> None:
    """Lets the workers go on behind a step."""
    with open(os.path.join(folder, "go." + name), "x", encoding="ascii"):
        pass


def wait(is_there: Callable[[], bool], what: str) -> None:
    """Until it is so."""
    end = time.monotonic() + PATIENCE
    while not is_there():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {PATIENCE} s")
        time.sleep(0.001)


def told(folder: str, name: str, number: int, value: object) -> None:
    """A worker's step is done: it waits for the others. Where the folder is gone, so is who would let it go on."""
    say(folder, name, number, value)
    wait(lambda: os.path.exists(os.path.join(folder, "go." + name)) or not os.path.isdir(folder), f"leave to go on behind {name}")


def begin(name: str, number: int, folder: str) -> None:
    """In a worker: has what the way needs, and nothing else."""
    import numpy  # noqa: F401 (what an idle worker has)

    global way
    way = WAYS[name]()
    told(folder, "idle", number, os.getpid())


def work(sent: Any, number: int, folder: str) -> None:
    """In a worker: all steps."""
    told(folder, "handed", number, os.getpid())
    view = way.look(sent)
    told(folder, "read", number, float(view.sum()))
    pages = view[number * PAGE::EVERY * PAGE]
    before = float(pages.sum())
    pages[:] = -1.0 - number
    told(folder, "written", number, (before, float(pages.sum())))
    told(folder, "checked", number, float(view.sum()))


class Owner:
    """Has the array, hands it over, and keeps the clock."""

    def __init__(self, name: str, size: int, folder: str) -> None:
        self.folder, self.way = folder, WAYS[name]()
        self.name, self.count = name, size // 8 // PERIOD * PERIOD
        self.pids: list[int] = []
        self.figures: dict[str, Any] = {}
        self.failed: BaseException | None = None

    def run(self, send: Send, is_long: bool) -> None:
        """The whole round."""
        import numpy as np

        self.start(send, begin, [(self.name, number, self.folder) for number in range(WORKERS)])
        self.pids = [os.getpid(), *self.all_of("idle").values()]
        self.measure("idle")
        go(self.folder, "idle")
        self.thread.join()
        array = np.empty(self.count)
        array.reshape(-1, PERIOD)[:] = np.arange(PERIOD)
        begun = time.perf_counter()
        sent = self.way.make(array)
        del array
        self.figures["make"] = time.perf_counter() - begun
        self.measure("made")
        begun = time.perf_counter()
        self.start(send, work, [(sent, number, self.folder) for number in range(WORKERS)])
        self.pids = [os.getpid(), *self.all_of("handed").values()]
        self.figures["hand"] = time.perf_counter() - begun
        self.measure("handed")
        self.step("handed", "read")
        if is_long:
            say(self.folder, "pids", 0, self.pids)
            wait(lambda: os.path.exists(os.path.join(self.folder, "go.checked")) or self.failed is not None, "leave to end")
            self.way.done(sent)
            return
        self.step("read", "written")
        go(self.folder, "written")
        self.judge(self.all_of("checked"), float(self.way.look(sent).sum()))
        go(self.folder, "checked")
        self.thread.join()
        self.way.done(sent)

    def start(self, send: Send, function: Callable[..., Any], given: list[tuple[Any, ...]]) -> None:
        """Has the workers work, and goes on."""
        def sending() -> None:
            try:
                send(function, given)
            except BaseException as error:
                self.failed = error

        self.thread = threading.Thread(target=sending, daemon=True)
        self.thread.start()

    def all_of(self, name: str) -> dict[int, Any]:
        """The notes of all, once they are there."""
        def is_there() -> bool:
            if self.failed is not None:
                raise self.failed
            if gone := [pid for pid in self.pids if not os.path.exists(f"/proc/{pid}")]:
                self.thread.join(1)  # joblib says why
                raise self.failed or ChildProcessError(f"{len(gone)} of {WORKERS} workers died before all had come to: {name}")
            return sum(entry.startswith(name + ".") and entry[-1] != "~" for entry in os.listdir(self.folder)) == WORKERS

        wait(is_there, f"all workers to come to: {name}")
        return notes(self.folder, name)

    def step(self, before: str, name: str) -> None:
        """One that all take at the same time."""
        begun = time.perf_counter()
        go(self.folder, before)
        found = self.all_of(name)
        self.figures[name + " seconds"] = time.perf_counter() - begun
        self.measure(name)
        print(name, sorted(found.values()) if name == "read" else sorted(found.items()), flush=True)

    def measure(self, moment: str) -> None:
        """The memory of all, at rest."""
        self.figures["at " + moment] = with_unmapped(self.pids)

    def judge(self, totals: dict[int, float], own: float) -> None:
        """Whether each sees its own writes alone, or all see all."""
        changes = {number: after - before for number, (before, after) in notes(self.folder, "written").items()}
        whole = self.count // PERIOD * PERIOD_SUM
        is_private = own == whole and all(totals[number] == whole + change for number, change in changes.items())
        is_common = all(total == whole + sum(changes.values()) for total in (own, *totals.values()))
        if is_private == is_common:
            raise ValueError(f"wrong values: the owner has a sum of {own}, the workers {totals}, and {whole} was handed over")
        self.figures["private"] = is_private


def main() -> None:
    """Writes the figures."""
    name, size, path, *place = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="pagewise-notes-") as folder:
        owner = Owner(name, int(size), *(place or [folder]))
        with owner.way.pool(WORKERS) as send:
            owner.run(send, bool(place))
    with open(path, "w", encoding="ascii") as file:
        json.dump(owner.figures, file)


if __name__ == "__main__":
    # As a module: joblib's workers get the functions of a program by value, each with globals of its own.
    import sharing_round

    sharing_round.main()
