"""What is measured: the scripts, which of them are for tuning, and the configurations."""

import os

from common import ROOT, digest
from one_run import ALONE, CONTROL, PLAIN, Configuration

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

# What each round holds, whatever is compared.
ALWAYS = (ALONE, PLAIN, CONTROL)


KNOWN = {ALONE: Configuration(ALONE, None), PLAIN: Configuration(PLAIN, PLAIN), CONTROL: Configuration(CONTROL, PLAIN)}


def path_of(script: str) -> str:
    """Where the script is."""
    return os.path.join(FOLDER, script + ".R")


def script_hash(script: str) -> str:
    """A result is comparable as long as its script is the same."""
    with open(path_of(script), "rb") as file:
        return str(digest(file.read()))
