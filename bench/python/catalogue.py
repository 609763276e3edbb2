"""What is measured: programs, the most that each may take of plain Python's memory and time, and the configurations."""

import os
from dataclasses import dataclass

from common import ROOT, digest
from one_run import CONTROL, PLAIN, Configuration

FOLDER = os.path.join(ROOT, "bench/python/scripts")


@dataclass(frozen=True)
class Program:
    """What it does, and its targets: of plain Python's peak and of its CPU time, at most."""

    does: str
    peak: float
    time: float


NOTHING = (1.02, 1.01)  # of programs where there is nothing to gain
PROGRAMS = {
    "copies": Program("forty copies of 100 MB, one write each, half kept", 0.08, 0.20),
    "versions": Program("ten versions of a 20-column frame, 20 cells of each column changed", 0.22, 0.60),
    "pipeline": Program("a ColumnTransformer and five models on 1 M x 40, clones kept", 0.90, 1.00),
    "crossval": Program("cross-validation with joblib, 4 workers, 800 MB of data", 0.60, 1.00),
    "arithmetic": Program("x * y + x / y - 1 on 10 M", 1.02, 0.40),
    "zeros": Program("np.zeros() and fill()", 1.02, 0.40),
    "transpose": Program("A.T.copy()", 1.02, 0.95),
    "groupby": Program("pandas: group-by", *NOTHING),
    "merge": Program("pandas: merge", *NOTHING),
    "pivot": Program("pandas: pivot table", *NOTHING),
    "fft": Program("NumPy: FFT", *NOTHING),
    "svd": Program("NumPy: SVD", *NOTHING),
    "sparse": Program("SciPy: sparse matrices", *NOTHING),
    "convolution": Program("SciPy: convolution of images", *NOTHING),
}
SCRIPTS = tuple(PROGRAMS)
# Of switching on in a process that has imported NumPy, with the import of pagewise.
START_MILLISECONDS = 20
# Of what eight workers take that a frame of this size was shared with, in sizes of the frame.
WORKERS_COPIES, WORKERS_BYTES = 1.5, 10**9

# What each round holds, whatever is compared.
ALWAYS = (PLAIN, CONTROL)


KNOWN = {PLAIN: Configuration(PLAIN, PLAIN), CONTROL: Configuration(CONTROL, PLAIN)}


def path_of(script: str) -> str:
    """Where the program is."""
    return os.path.join(FOLDER, script + ".py")


def script_hash(script: str) -> str:
    """A result is comparable as long as its program is the same."""
    with open(path_of(script), "rb") as file:
        return str(digest(file.read()))
