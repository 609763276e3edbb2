"""The Python that is measured: an environment of the benchmark's own, with what PyPI has."""

import os
import subprocess
import sys

from common import ROOT, output_of

ENVIRONMENT = os.path.join(ROOT, "build/bench/python/environment")
PACKAGES = ("numpy", "pandas", "scipy", "scikit-learn", "joblib")
VERSIONS = f"""
import sys
from importlib.metadata import version
print("Python", sys.version.split()[0] + ",", ", ".join(name + " " + version(name) for name in {PACKAGES!r}))
"""


def ensure(python: str) -> str:
    """Makes the environment where there is none; returns its interpreter. Ends the program where that does not work."""
    made = os.path.join(ENVIRONMENT, "bin/python")
    if versions(made):
        return made
    print(f"making {os.path.relpath(ENVIRONMENT, ROOT)} with {', '.join(PACKAGES)}", flush=True)
    try:
        subprocess.run([python, "-m", "venv", "--clear", ENVIRONMENT], check=True)
        subprocess.run([made, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", *PACKAGES], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"bench/python/run: no Python to measure could be made: {error}. Nothing was measured. PYTHON=python3.12 takes another one.")
    return made


def versions(python: str) -> str:
    """Of Python and the packages, in a line; nothing where one is not there."""
    return str(output_of(python, "-c", VERSIONS))
