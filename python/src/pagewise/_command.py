"""The command ``pagewise``, which this package carries."""

from __future__ import annotations

import os
import sys

from ._native import NATIVE


def main() -> None:
    """Become the command: ``pagewise run -- python script.py``."""
    command = os.path.join(NATIVE, "bin", "pagewise")
    try:
        os.execv(command, ["pagewise", *sys.argv[1:]])
    except OSError as error:
        sys.exit(
            f"pagewise: the command cannot be started: {command}: {error.strerror}\n"
            "It is part of the package: pip install --force-reinstall pagewise"
        )
