"""What goes wrong, said with what to type next."""

from __future__ import annotations


class PagewiseError(RuntimeError):
    """Pagewise cannot do what was asked; nothing was changed."""


class OptionError(PagewiseError, ValueError):
    """An option has no such name, or no such value."""
