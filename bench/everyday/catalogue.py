"""What is measured: the scripts, which of them are for tuning, and the configurations."""

import os
from dataclasses import dataclass

from common import ROOT, digest

FOLDER = os.path.join(ROOT, "bench/everyday/scripts")
# In alphabetical order; every second one is unseen. Settled before any was run under Pagewise: never change it.
FIELDS = {
    "base": "particle filter, no package",
    "boot": "bootstrap of regressions",
    "caret": "choice among classifiers",
    "data.table": "large tables",
    "dplyr": "tidying and summaries",
    "edgeR": "gene expression",
    "forecast": "time series",
    "ggplot2": "graphics",
    "glmnet": "penalised regression",
    "igraph": "networks",
    "lme4": "mixed models",
    "Matrix": "sparse matrices",
    "mgcv": "additive models",
    "mice": "missing data",
    "ranger": "random forests",
    "survival": "times to an event",
    "terra": "rasters",
    "tm": "text",
    "vegan": "ecology",
    "xts": "finance",
}
SCRIPTS = tuple(FIELDS)
TUNING, UNSEEN = SCRIPTS[0::2], SCRIPTS[1::2]
SETS = {"tuning": TUNING, "unseen": UNSEEN}

ALONE, PLAIN, CONTROL, TREATED = "alone", "plain", "plain#2", "auto"
# What each round holds, whatever is compared.
ALWAYS = (ALONE, PLAIN, CONTROL)


@dataclass(frozen=True)
class Configuration:
    """A way of running a script: its name, and Pagewise's policy and options (no policy: without the command)."""

    name: str
    policy: str | None = TREATED
    options: str = ""

    @property
    def uses_library(self) -> bool:
        """Whether the library is to be at work."""
        return self.policy not in (None, PLAIN)


KNOWN = {ALONE: Configuration(ALONE, None), PLAIN: Configuration(PLAIN, PLAIN), CONTROL: Configuration(CONTROL, PLAIN)}


def configuration(word: str) -> Configuration:
    """Of `auto` or `NAME=OPTIONS`.

    Raises
    ------
    ValueError
        The message says what is wrong with the word.
    """
    name, equals, options = word.partition("=")
    if name in ALWAYS:
        raise ValueError(f"{name} is measured in any case, and has no options")
    if not name or (equals and not options) or (not equals and name != TREATED):
        raise ValueError(f"{word}: write auto, or NAME=OPTIONS as in frozen=freeze=auto")
    if name == TREATED and equals:
        raise ValueError(f"{word}: auto is without options; give this one another name")
    return Configuration(name, TREATED, options)


def path_of(script: str) -> str:
    """Where the script is."""
    return os.path.join(FOLDER, script + ".R")


def script_hash(script: str) -> str:
    """A result is comparable as long as its script is the same."""
    with open(path_of(script), "rb") as file:
        return str(digest(file.read()))
