"""What is left when processes that share an array are killed: the owner, a worker, or all at once.

    sharing_probe.py WAY BYTES owner|worker|all FIGURES

Starts a round (sharing_round.py) and, when all workers have read, sends SIGKILL. Then the other workers are to write, and to
read right values. What is left when no process of the program lives any more goes to the file FIGURES: in /dev/shm, in
$TMPDIR, and in files of memory without a name that any process has. /dev/shm is to be one of its own: `sharing` sees to that.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from proportional import files_of  # noqa: E402 (found by the line above)
from sharing_round import PERIOD, PERIOD_SUM, go, notes  # noqa: E402

SHM = "/dev/shm"
STARTS = 300  # seconds that a program has to come so far
PATIENCE = 60  # and for each step behind that
SETTLES = 20  # seconds that a program has to end by itself, and what it has beside it to tidy up


class Program:
    """A round in a session of its own, at the moment at which all workers have read."""

    def __init__(self, name: str, size: int, folder: str) -> None:
        self.notes, self.tmp, self.size = os.path.join(folder, "notes"), os.path.join(folder, "tmp"), size
        for place in (self.notes, self.tmp):
            os.mkdir(place)
        self.before = self.files()
        words = [sys.executable, os.path.join(HERE, "sharing_round.py"), name, str(size), os.path.join(folder, "figures"), self.notes]
        self.process = subprocess.Popen(words, start_new_session=True, env=dict(os.environ, TMPDIR=self.tmp), stdout=subprocess.DEVNULL)
        until(lambda: self.process.poll() is not None or bool(notes(self.notes, "pids")), STARTS)
        if not notes(self.notes, "pids"):
            self.kill(self.alive())
            sys.exit(f"the program did not come to the moment at which it is killed (exit status {self.process.wait()})")
        self.workers = set(notes(self.notes, "pids")[0][1:])
        device = os.stat(SHM).st_dev
        self.nameless = {file for file in files_of(self.alive()) if file[0] != device}

    def files(self) -> int:
        """Bytes of the files in /dev/shm and in $TMPDIR."""
        found = os.statvfs(SHM)
        return (found.f_blocks - found.f_bfree) * found.f_frsize + sum(
            os.lstat(os.path.join(place, name)).st_blocks * 512 for place, _, names in os.walk(self.tmp) for name in names)

    def held(self) -> int:
        """Bytes that are in use because of the program, whoever has them."""
        found = files_of(filter(str.isdigit, os.listdir("/proc")))
        return self.files() - self.before + sum(size for file, size in found.items() if file in self.nameless)

    def alive(self) -> list[int]:
        """The processes of its session, the dead ones not among them."""
        self.process.poll()
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                    state, _, _, of = file.read().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(of) == self.process.pid and state not in "ZX":
                found.append(int(pid))
        return found

    def kill(self, pids: Iterable[int]) -> None:
        """As `kill -9` does; who has ended meanwhile is left out."""
        for pid in set(pids).intersection(self.alive()):
            os.kill(pid, signal.SIGKILL)

    def rest_goes_on(self, rest: int) -> bool:
        """Has the workers that are left write, and read again; whether all do, and read right values."""
        for step, following in (("read", "written"), ("written", "checked")):
            go(self.notes, step)
            until(lambda: len(notes(self.notes, following)) >= rest or len(self.workers.intersection(self.alive())) < rest, PATIENCE)
        done = notes(self.notes, "checked")
        go(self.notes, "checked")
        return rest > 0 and len(done) == rest and self.are_right(done)

    def are_right(self, totals: dict[int, float]) -> bool:
        """Whether each worker's sum is a right one: with its own writes, or with those of all."""
        changes = {number: after - before for number, (before, after) in notes(self.notes, "written").items()}
        whole = self.size // 8 // PERIOD * PERIOD_SUM
        return all(total - whole in (changes[number], sum(changes.values())) for number, total in totals.items())

    def ends(self) -> bool:
        """Whether all of it ends by itself. If not its workers are ended, and what is beside them may still tidy up."""
        ended = until(lambda: not self.alive(), SETTLES)
        for pids in ([], self.workers, self.alive()):
            self.kill(pids)
            until(lambda: not self.alive(), SETTLES)
        return ended


def until(is_so: Callable[[], bool], seconds: float) -> bool:
    """Waits for it; whether it came."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def probe(name: str, size: int, case: str, folder: str) -> dict[str, object]:
    """One program, from its start until none of its processes is there any more."""
    program = Program(name, size, folder)
    try:
        held = program.held()
        victims = {"owner": [program.process.pid], "worker": [min(program.workers)], "all": program.alive()}[case]
        program.kill(victims)
        time.sleep(1)  # whoever notices, and ends others, has the time to
        went_on = program.rest_goes_on(len(program.workers - set(victims)))
        ended = program.ends()
        return {"held": held, "went_on": went_on, "ended": ended, "left": program.held()}
    finally:
        program.kill(program.alive())
        program.process.wait()


def main() -> None:
    """Writes the figures."""
    name, size, case, path = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="pagewise-probe-") as folder:
        found = probe(name, int(size), case, folder)
    with open(path, "w", encoding="ascii") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
