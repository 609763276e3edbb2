"""``%%pagewise`` in notebooks."""

from __future__ import annotations

import shlex
from typing import Any

from ._errors import OptionError
from ._report import report
from ._session import enabled
from ._text import size


def _options(line: str) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for word in shlex.split(line):
        name, equals, value = word.partition("=")
        if not equals:
            raise OptionError(f"options are written as name=value, not {word!r}: %%pagewise policy=share threshold=64K")
        given[name.replace("-", "_")] = value
    return given


def register(shell: Any) -> None:
    """Add ``%%pagewise`` to a shell of IPython."""

    def pagewise(line: str, cell: str) -> None:
        """Run a cell with Pagewise switched on, and say what that saved. Options: ``%%pagewise policy=share``."""
        before = report().statistics
        with enabled(**_options(line)):
            result = shell.run_cell(cell)
        after = report().statistics

        def more(name: str) -> int:
            return after[name] - before.get(name, 0)

        print(
            f"pagewise: {more('copies_shared')} of {more('copies_seen')} copies share their pages, "
            f"{size(more('shared_copy_bytes'))} not copied"
        )
        if more("fallback_threads"):
            print(
                "pagewise: other threads were running, and beside these a copy is a copy. A notebook's kernel has some "
                "of its own; a script under `pagewise run` has not."
            )
        result.raise_error()

    shell.register_magic_function(pagewise, magic_kind="cell", magic_name="pagewise")
