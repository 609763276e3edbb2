"""Packages that only some tests see, in a folder of their own: as a program, installs them where there is a wheel.

pandas imports pyarrow wherever it is installed, which most tests are not to have.
"""

import os
import subprocess
import sys

FOLDER = os.path.join(sys.prefix, "beside")
PACKAGES = ["pyarrow", "polars"]


def environment():
    """Give the variables with which a program finds the packages."""
    paths = [FOLDER, os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def has(package):
    """Whether the package is in the folder, or where all tests see it."""
    import importlib.machinery

    return importlib.machinery.PathFinder.find_spec(package, [FOLDER, *sys.path]) is not None


def install():
    """Install what is not there yet and has a wheel for this interpreter; say which have none."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    for package in PACKAGES:
        if not has(package) and subprocess.run([*pip, "--target", FOLDER, package], check=False).returncode:
            print(f"{package}: not installed; its tests are skipped")


if __name__ == "__main__":
    install()
