"""Run NumPy and pandas in less memory.

`on` has the arrays that are made from now on served by Pagewise: a copy shares the pages of its source until
somebody writes to them. `pagewise run -- python script.py`, in a shell, does the same for a whole program.

Examples
--------
>>> import numpy as np, pagewise
>>> with pagewise.enabled():
...     x = np.ones(10_000_000)
...     y = x.copy()
>>> pagewise.cost(y).own < x.nbytes
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._errors import OptionError, PagewiseError
from ._session import enabled, is_on, is_preloaded, off, on

if TYPE_CHECKING:
    from ._cost import Cost, cost
    from ._curve import Curve, curve
    from ._report import Report, report
    from ._share import SharedInfo, ShareError, handles, map_shared, share, shared_info, shared_name

__version__ = "0.2.0"
__all__ = [
    "Cost",
    "Curve",
    "OptionError",
    "PagewiseError",
    "Report",
    "ShareError",
    "SharedInfo",
    "cost",
    "curve",
    "enabled",
    "handles",
    "is_on",
    "is_preloaded",
    "map_shared",
    "off",
    "on",
    "report",
    "share",
    "shared_info",
    "shared_name",
]


# What is not needed to switch on is loaded when it is first used.
_LATER = {
    "Cost": "_cost",
    "cost": "_cost",
    "Curve": "_curve",
    "curve": "_curve",
    "Report": "_report",
    "report": "_report",
    "ShareError": "_share",
    "SharedInfo": "_share",
    "handles": "_share",
    "share": "_share",
    "map_shared": "_share",
    "shared_info": "_share",
    "shared_name": "_share",
}


def __getattr__(name: str) -> Any:
    """Load the module of a function at its first use."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module("." + _LATER[name], __name__), name)
    return value


def __dir__() -> list[str]:
    """All names, those loaded later among them."""
    return sorted(__all__)


def load_ipython_extension(shell: object) -> None:
    """Register ``%%pagewise``; called by ``%load_ext pagewise``."""
    from ._magic import register

    register(shell)
