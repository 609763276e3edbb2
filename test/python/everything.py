"""A plugin of pytest that has everything shared which Pagewise can share, before any test is read."""

import os

import pagewise
from pagewise import _native

# The header that names the statistics is where the sources have it: the package is not installed.
_native.NATIVE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "core")


def pytest_configure() -> None:
    """Switch on."""
    pagewise.on("share", threshold="8K")


def pytest_unconfigure() -> None:
    """Say what was done: a run that shared nothing shows nothing."""
    print(f"\ncopies shared: {pagewise.report().statistics['copies_shared']}\n{pagewise.report()}")
