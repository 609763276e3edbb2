"""One run of a program in one configuration, and the time of switching on."""

import contextlib
import datetime
import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from catalogue import WORKERS_BYTES, Configuration, path_of
from common import PAGEWISE, ROOT, digest, environment
from running import RunFailed, Signals, call

# Fields of the statistics block that tell what the library did.
KEPT = ("copies_seen", "copies_shared", "shared_copy_bytes", "private_copy_bytes", "lazy_zero_bytes", "zero_reclaimed_bytes", "blocks_allocated",
        "bookkeeping_bytes")
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
    options = ["--options", configuration.options] if configuration.options else []
    return [pagewise, "run", "--quiet", "--policy", configuration.policy, "--json", figures, *options, "--", python, path_of(script)]


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
        output = _output(words_of(configuration, script, figures, pagewise, python), folder, signals)
        return {"when": now(), "load": round(load, 2), "output": digest(output), **_figures(figures, configuration)}, output


def start(python: str, signals: Signals) -> tuple[float, float]:
    """Milliseconds of switching on in a new process: of CPU time, and by the clock. Raises as run() does."""
    return _two_numbers([python, "-c", START], signals)


def workers(python: str, signals: Signals) -> tuple[float, float]:
    """What eight workers take of a shared frame, in its sizes, and the seconds of their work. Raises as run() does."""
    return _two_numbers([python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "workers.py"), str(WORKERS_BYTES)], signals)


def _two_numbers(words: list[str], signals: Signals) -> tuple[float, float]:
    """What a program that imports pagewise from the sources prints in its first line."""
    more = {"PYTHONPATH": os.path.join(ROOT, "python/src"), "PAGEWISE_CORE": os.path.join(ROOT, "build/lib/libpagewise.so.0")}
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-") as folder:
        printed = _output(words, folder, signals, more).partition(b"\n")[0]
    try:
        one, other = map(float, printed.split())
        return one, other
    except ValueError as error:
        raise RunFailed(f"it told no two numbers but {printed!r}") from error


def now() -> str:
    """The time as records have it."""
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def _output(words: list[str], folder: str, signals: Signals, more: Mapping[str, str] | None = None) -> bytes:
    """What the command prints, standard error behind standard output. It runs in a folder of its own."""
    settings = {**environment(), "TZ": "UTC", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", **(more or {})}
    paths = [os.path.join(folder, name) for name in ("out", "errors")]
    with open(paths[0], "wb") as out, open(paths[1], "wb") as errors:
        status = call(words, signals, out, errors, cwd=folder, env=settings)
    printed, said = map(_bytes, paths)
    if status:
        raise RunFailed(f"exit status {status}: " + "\n".join((said.decode(errors="replace").strip() or "no message").splitlines()[-5:]))
    return printed + b"\n== standard error\n" + said


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _figures(path: str, configuration: Configuration) -> dict[str, Any]:
    """From what `pagewise run --json` wrote."""
    try:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
    except (OSError, ValueError) as error:
        raise RunFailed(f"pagewise wrote no figures: {error}") from error
    if configuration.uses_library and not result["preloaded"]:
        raise RunFailed("the library was not at work")
    one, block = result["measurements"][0], result["statistics"] or {}
    kept = {name: value for name, value in block.items() if value and (name in KEPT or name.startswith("fallback_"))}
    return {
        "peak_bytes": round(one["peak_bytes"]), "average_bytes": round(one["average_bytes"]), "cpu_seconds": round(one["cpu_seconds"], 4),
        "wall_seconds": round(one["wall_seconds"], 4), "samples": result["samples"], "missed_samples": result["missed_samples"],
        "sampler": result["sampler"], "minor_faults": result["page_faults"]["minor"], **({"statistics": kept} if kept else {}),
    }


def keep_output(folder: str, name: str, output: bytes) -> None:
    """For who wants to see what differs; a disk that is full is no reason to stop."""
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(output)
