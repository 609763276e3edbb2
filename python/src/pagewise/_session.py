"""Switching Pagewise on and off in this interpreter."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from . import _native, _options
from ._errors import OptionError, PagewiseError
from ._options import Option

_words: dict[str, str] = {}


def is_on() -> bool:
    """Tell whether Pagewise is serving arrays."""
    return bool(_native.core().pw_is_on())


def is_preloaded() -> bool:
    """Tell whether this program was started by ``pagewise run``, which serves all of it."""
    return bool(_native.core().pw_is_preloaded())


def words_in_force() -> dict[str, str]:
    """Return the options in force: the session's, or those that ``pagewise run`` has set."""
    if _words:
        return dict(_words)
    items = [item.partition("=") for item in os.environ.get("PAGEWISE_OPTIONS", "").split(",")]
    given = {name: word for name, _, word in items if name in _options.FORMS} if is_preloaded() else {}
    return {"policy": _native.statistics()[0], **given}


def _check_lock() -> None:
    # What is patched, and which threads are ended, is settled while the interpreter's lock keeps others away. Under
    # `pagewise run` both were settled when the program started.
    if not is_preloaded() and not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise PagewiseError(
            "Pagewise cannot be switched on while this free-threaded Python runs without its lock: other threads could "
            "be in NumPy meanwhile. Nothing was changed. From the start of the program it works. Type, in a shell:\n"
            "  pagewise run -- python script.py"
        )


def _switch_on(words: dict[str, str]) -> None:
    _check_lock()
    reason = _native.switch_on(",".join(f"{name}={word}" for name, word in words.items()))
    if reason is not None:
        kind = OptionError if "not understood" in reason else PagewiseError
        raise kind(f"Pagewise cannot be switched on: {reason}\nNothing was changed. {_options.explain(reason)}")
    _words.clear()
    _words.update(words)


def on(policy: str = "auto", **options: Option) -> bool:
    """Serve the arrays that are made from now on.

    NumPy, and pandas, SciPy and scikit-learn, those imported later among them, reach Pagewise from now on; every
    other library of the process stays as it is. Can be called at any time, and again with other options.

    Parameters
    ----------
    policy : {"auto", "share", "huge"}
        "auto" shares the pages of copies where that pays, "share" those of every copy, "huge" none: it has large
        and warm pages alone.
    **options : str, int or bool
        As in ``PAGEWISE_OPTIONS`` (docs/reference/options.md): ``threshold="64K"`` serves arrays from this size
        on, ``decay=30`` keeps free pages for 30 seconds.

    Returns
    -------
    bool
        Whether Pagewise was on before.

    Raises
    ------
    OptionError
        An option is not known, or not its value.
    PagewiseError
        Pagewise cannot work here. Nothing was changed.

    Examples
    --------
    >>> import pagewise
    >>> before = pagewise.on(threshold="64K")
    >>> was_on = pagewise.off()
    """
    before = is_on()
    _switch_on({"policy": _options.check_policy(policy), **_options.words(options)})
    return before


def off() -> bool:
    """Leave new arrays to the C library again; those that exist stay valid.

    Returns
    -------
    bool
        Whether Pagewise was on before.
    """
    before = is_on()
    _native.core().pw_switch_off()
    return before


@contextlib.contextmanager
def enabled(policy: str = "auto", **options: Option) -> Iterator[None]:
    """Switch on for a ``with`` block, and come back to what was.

    Parameters
    ----------
    policy, **options
        As for `on`.
    """
    before = words_in_force() if is_on() else None
    if before is not None and before["policy"] not in _options.POLICIES:
        raise PagewiseError(
            f'this program runs with policy "{before["policy"]}", which works from its start only and could not be '
            "come back to. Nothing was changed. Type, in a shell:\n  pagewise run -- python script.py"
        )
    on(policy, **options)
    try:
        yield
    finally:
        if before is not None:
            _switch_on(before)
        else:
            off()
