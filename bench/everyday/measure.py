"""One run of a script in one configuration."""

import os
import resource
import tempfile
from typing import Any

import one_run
from catalogue import path_of
from common import PAGEWISE, digest
from one_run import Configuration
from running import RunFailed, Signals

HERE = os.path.dirname(os.path.abspath(__file__))
COLLECTIONS = os.path.join(HERE, "collections.R")
# Fields of the statistics block that tell what the library did.
KEPT = ("shared_copy_bytes", "private_copy_bytes", "zero_reclaimed_bytes", "collections_seen", "collections_asked",
        "blocks_allocated", "bookkeeping_bytes", "freezes", "fallback_freeze")


def words_of(configuration: Configuration, script: str, figures: str, pagewise: str = PAGEWISE) -> list[str]:
    """The command of a run; what `pagewise run` measures goes to the file `figures`."""
    return one_run.under(configuration, ["Rscript", path_of(script)], figures, pagewise)


def run(configuration: Configuration, script: str, signals: Signals, pagewise: str = PAGEWISE) -> tuple[dict[str, Any], bytes]:
    """Measures a script once.

    Returns
    -------
    tuple
        The figures, and what the script printed on both of its streams.

    Raises
    ------
    Interrupted
        A signal came.
    RunFailed
        The script or the command did not end well, or the library was not at work.
    """
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-") as folder:
        figures = os.path.join(folder, "figures.json")
        load, before = os.getloadavg()[0], _used_by_children()
        output = one_run.printed(words_of(configuration, script, figures, pagewise), folder, signals)
        record: dict[str, Any] = {"when": one_run.now(), "load": round(load, 2), "whole_cpu_seconds": round(_used_by_children() - before, 4), "output": digest(output)}
        if configuration.policy is not None:
            record.update(one_run.figures(figures, configuration, KEPT))
        return record, output


def collections(script: str, signals: Signals) -> dict[str, float]:
    """R's CPU time and the part of it that collections take, of plain R alone. Raises as run() does."""
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-") as folder:
        told = os.path.join(folder, "told")
        one_run.printed(["Rscript", path_of(script)], folder, signals, {"R_PROFILE_USER": COLLECTIONS, "EVERYDAY_COLLECTIONS": told})
        try:
            with open(told, encoding="ascii") as file:
                collecting, whole = map(float, file.read().split())
        except (OSError, ValueError) as error:
            raise RunFailed(f"R did not tell the time of its collections: {error}") from error
    return {"collecting_seconds": round(collecting, 3), "cpu_seconds": round(whole, 3)}


def _used_by_children() -> float:
    """User and system time of all that was waited for, by us and by those that we waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
