"""``python -m pagewise``: the command, as installed with this package."""

from ._command import main

main()
