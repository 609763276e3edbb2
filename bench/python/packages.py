"""The Python that is measured: an environment of the benchmark's own, with what PyPI has."""

import os
import subprocess
import sys
from collections.abc import Sequence

from common import ROOT, output_of

ENVIRONMENT = os.path.join(ROOT, "build/bench/python/environment")
PACKAGES = ("numpy", "pandas", "scipy", "scikit-learn", "joblib")
VERSIONS = """
import sys
from importlib.metadata import version
print("Python", sys.version.split()[0] + ",", ", ".join(name + " " + version(name) for name in sys.argv[1:]))
"""


def ensure(python: str, more: Sequence[str] = ()) -> str:
    """Makes the environment where there is none, and adds what of `more` it has not; returns its interpreter. Ends the program
    where that does not work."""
    made = os.path.join(ENVIRONMENT, "bin/python")
    lacking = [*([] if versions(made) else PACKAGES), *(name for name in more if not versions(made, [name]))]
    if not lacking:
        return made
    print(f"making {os.path.relpath(ENVIRONMENT, ROOT)} with {', '.join(lacking)}", flush=True)
    try:
        if lacking[0] == PACKAGES[0]:
            subprocess.run([python, "-m", "venv", "--clear", ENVIRONMENT], check=True)
        subprocess.run([made, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", *lacking], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"bench/python/run: no Python to measure could be made: {error}. Nothing was measured. PYTHON=python3.12 takes another one.")
    return made


def versions(python: str, names: Sequence[str] = PACKAGES) -> str:
    """Of Python and the packages, in a line; nothing where one is not there."""
    return str(output_of(python, "-c", VERSIONS, *names))
