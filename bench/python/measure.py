"""One run of a program in one configuration, and the time of switching on."""

import os
import tempfile
from typing import Any

import one_run
from catalogue import WORKERS_BYTES, path_of
from common import PAGEWISE, ROOT, digest
from one_run import Configuration
from running import RunFailed, Signals

# Fields of the statistics block that tell what the library did.
KEPT = ("copies_seen", "copies_shared", "shared_copy_bytes", "private_copy_bytes", "lazy_zero_bytes", "zero_reclaimed_bytes", "blocks_allocated",
        "bookkeeping_bytes")
# Programs print the same in each run.
SETTINGS = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
# The same, for programs that import pagewise from the sources.
FROM_SOURCES = {**SETTINGS, "PYTHONPATH": os.path.join(ROOT, "python/src"), "PAGEWISE_CORE": os.path.join(ROOT, "build/lib/libpagewise.so.0")}
# Milliseconds of CPU time and by the clock of importing pagewise and of switching on, NumPy being there.
START = """
import time, numpy
begun = time.process_time(), time.perf_counter()
import pagewise
pagewise.on()
print((time.process_time() - begun[0]) * 1000, (time.perf_counter() - begun[1]) * 1000)
"""


def words_of(configuration: Configuration, script: str, figures: str, pagewise: str, python: str) -> list[str]:
    """The command of a run; what `pagewise run` measures goes to the file `figures`."""
    return one_run.under(configuration, [python, path_of(script)], figures, pagewise)


def run(configuration: Configuration, script: str, signals: Signals, pagewise: str, python: str) -> tuple[dict[str, Any], bytes]:
    """Measures a program once.

    Returns
    -------
    tuple
        The figures, and what the program printed on both of its streams.

    Raises
    ------
    Interrupted
        A signal came.
    RunFailed
        The program or the command did not end well, or the library was not at work.
    """
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-") as folder:
        figures = os.path.join(folder, "figures.json")
        load = os.getloadavg()[0]
        output = one_run.printed(words_of(configuration, script, figures, pagewise, python), folder, signals, SETTINGS)
        return {"when": one_run.now(), "load": round(load, 2), "output": digest(output), **one_run.figures(figures, configuration, KEPT)}, output


def start(python: str, signals: Signals) -> tuple[float, float]:
    """Milliseconds of switching on in a new process: of CPU time, and by the clock. Raises as run() does."""
    return _two_numbers([python, "-c", START], signals)


def workers(python: str, signals: Signals) -> tuple[float, float]:
    """What eight workers take of a shared frame, in its sizes, and the seconds of their work. Raises as run() does."""
    return _two_numbers([python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "workers.py"), str(WORKERS_BYTES)], signals)


def _two_numbers(words: list[str], signals: Signals) -> tuple[float, float]:
    """What a program that imports pagewise from the sources prints in its first line."""
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-") as folder:
        printed = one_run.printed(words, folder, signals, FROM_SOURCES).partition(b"\n")[0]
    try:
        one, other = map(float, printed.split())
        return one, other
    except ValueError as error:
        raise RunFailed(f"it told no two numbers but {printed!r}") from error
