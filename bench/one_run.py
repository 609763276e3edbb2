"""One run of a program under a configuration of Pagewise, as the benchmarks of R's scripts and of Python's programs share it."""

import contextlib
import datetime
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common import environment
from running import RunFailed, Signals, call

ALONE, PLAIN, CONTROL, TREATED = "alone", "plain", "plain#2", "auto"


@dataclass(frozen=True)
class Configuration:
    """A way of running a program: its name, and Pagewise's policy and options (no policy: without the command)."""

    name: str
    policy: str | None = TREATED
    options: str = ""

    @property
    def uses_library(self) -> bool:
        """Whether the library is to be at work."""
        return self.policy not in (None, PLAIN)


def configuration(word: str, always: Sequence[str]) -> Configuration:
    """Of `auto` or `NAME=OPTIONS`, where the names of `always` are taken.

    Raises
    ------
    ValueError
        The message says what is wrong with the word.
    """
    name, equals, options = word.partition("=")
    if name in always:
        raise ValueError(f"{name} is measured in any case, and has no options")
    if not name or (equals and not options) or (not equals and name != TREATED):
        raise ValueError(f"{word}: write auto, or NAME=OPTIONS as in less=threshold=1M")
    if name == TREATED and equals:
        raise ValueError(f"{word}: auto is without options; give this one another name")
    return Configuration(name, TREATED, options)


def under(configuration: Configuration, command: list[str], figures: str, pagewise: str) -> list[str]:
    """The command as it is run; what `pagewise run` measures goes to the file `figures`."""
    if configuration.policy is None:
        return command
    options = ["--options", configuration.options] if configuration.options else []
    return [pagewise, "run", "--quiet", "--policy", configuration.policy, "--json", figures, *options, "--", *command]


def now() -> str:
    """The time as records have it."""
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def printed(words: list[str], folder: str, signals: Signals, more: Mapping[str, str] | None = None) -> bytes:
    """What the command prints, standard error behind standard output. It runs in a folder of its own.

    Raises
    ------
    Interrupted
        A signal came.
    RunFailed
        The command did not end well.
    """
    settings = {**environment(), "TZ": "UTC", **(more or {})}
    paths = [os.path.join(folder, name) for name in ("out", "errors")]
    with open(paths[0], "wb") as out, open(paths[1], "wb") as errors:
        status = call(words, signals, out, errors, cwd=folder, env=settings)
    output, said = map(_bytes, paths)
    if status:
        raise RunFailed(f"exit status {status}: " + "\n".join((said.decode(errors="replace").strip() or "no message").splitlines()[-5:]))
    return output + b"\n== standard error\n" + said


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def figures(path: str, configuration: Configuration, kept: Sequence[str]) -> dict[str, Any]:
    """From what `pagewise run --json` wrote, with these fields of the statistics block. Raises RunFailed."""
    try:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
    except (OSError, ValueError) as error:
        raise RunFailed(f"pagewise wrote no figures: {error}") from error
    if configuration.uses_library and not result["preloaded"]:
        raise RunFailed("the library was not at work")
    one, block = result["measurements"][0], result["statistics"] or {}
    found = {name: value for name, value in block.items() if value and (name in kept or name.startswith("fallback_"))}
    return {
        "peak_bytes": round(one["peak_bytes"]), "average_bytes": round(one["average_bytes"]), "cpu_seconds": round(one["cpu_seconds"], 4),
        "wall_seconds": round(one["wall_seconds"], 4), "samples": result["samples"], "missed_samples": result["missed_samples"],
        "sampler": result["sampler"], "minor_faults": result["page_faults"]["minor"], **({"statistics": found} if found else {}),
    }


def keep_output(folder: str, name: str, output: bytes) -> None:
    """For who wants to see what differs; a disk that is full is no reason to stop."""
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(output)
