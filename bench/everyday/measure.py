"""One run of a script in one configuration."""

import contextlib
import datetime
import json
import os
import resource
import tempfile
from collections.abc import Mapping
from typing import Any

from catalogue import Configuration, path_of
from common import PAGEWISE, digest, environment
from running import RunFailed, Signals, call

HERE = os.path.dirname(os.path.abspath(__file__))
COLLECTIONS = os.path.join(HERE, "collections.R")
# Fields of the statistics block that tell what the library did.
KEPT = ("shared_copy_bytes", "private_copy_bytes", "zero_reclaimed_bytes", "collections_seen", "collections_asked",
        "blocks_allocated", "bookkeeping_bytes", "freezes", "fallback_freeze")


def words_of(configuration: Configuration, script: str, figures: str, pagewise: str = PAGEWISE) -> list[str]:
    """The command of a run; what `pagewise run` measures goes to the file `figures`."""
    command = ["Rscript", path_of(script)]
    if configuration.policy is None:
        return command
    options = ["--options", configuration.options] if configuration.options else []
    return [pagewise, "run", "--quiet", "--policy", configuration.policy, "--json", figures, *options, "--", *command]


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
        output = _output(words_of(configuration, script, figures, pagewise), folder, signals)
        record: dict[str, Any] = {"when": now(), "load": round(load, 2), "whole_cpu_seconds": round(_used_by_children() - before, 4), "output": digest(output)}
        if configuration.policy is not None:
            record.update(_figures(figures, configuration))
        return record, output


def collections(script: str, signals: Signals) -> dict[str, float]:
    """R's CPU time and the part of it that collections take, of plain R alone. Raises as run() does."""
    with tempfile.TemporaryDirectory(prefix="pagewise-bench-") as folder:
        told = os.path.join(folder, "told")
        _output(["Rscript", path_of(script)], folder, signals, {"R_PROFILE_USER": COLLECTIONS, "EVERYDAY_COLLECTIONS": told})
        try:
            with open(told, encoding="ascii") as file:
                collecting, whole = map(float, file.read().split())
        except (OSError, ValueError) as error:
            raise RunFailed(f"R did not tell the time of its collections: {error}") from error
    return {"collecting_seconds": round(collecting, 3), "cpu_seconds": round(whole, 3)}


def now() -> str:
    """The time as records have it."""
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def _used_by_children() -> float:
    """User and system time of all that was waited for, by us and by those that we waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _output(words: list[str], folder: str, signals: Signals, more: Mapping[str, str] | None = None) -> bytes:
    """What the command prints, standard error behind standard output. It runs in a folder of its own."""
    settings = {**environment(), "TZ": "UTC", **(more or {})}
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
