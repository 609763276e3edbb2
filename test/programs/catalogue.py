# SPDX-License-Identifier: MIT
"""The programs that there are, in the order in which they are written down."""

import dataclasses
import hashlib
import inspect
import subprocess

PROGRAMS = {}


@dataclasses.dataclass
class Program:
    name: str
    work: object  # a function of a place that returns what the program wrote, filtered
    kind: str  # quick: in `make test`; long: with --all; bench: with --all and --runs, and packages are a list apart
    packages: tuple
    filters: tuple  # what is taken out of its output before it is compared
    note: str
    limit: int  # seconds for one run
    source: str  # a digest of the function

    def versions(self):
        """Of the installed packages, as Debian counts them."""
        command = ["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *self.packages]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip().replace("\n", ", ") or "not from a package"


def program(kind, *packages, filters=(), note="", limit=300, name=None):
    """Makes a function one of the programs. Its description says what the program does."""
    def add(function):
        key = name or function.__name__.replace("_", "-")
        source = hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:16]
        PROGRAMS[key] = Program(key, function, kind, packages, filters, note, limit, source)
        return function
    return add
