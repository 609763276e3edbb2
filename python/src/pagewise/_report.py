"""What Pagewise has done in this process."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from . import _native
from ._session import is_on, is_preloaded, words_in_force
from ._text import html_table, size

if TYPE_CHECKING:
    import pandas

THREADS = "others may be writing to memory"


@dataclasses.dataclass(frozen=True)
class Report:
    """What Pagewise has done in this process, at one moment. Prints as text; notebooks show a table.

    Attributes
    ----------
    on, preloaded : bool
        Does it serve arrays, and all memory of the program (``pagewise run``)?
    policy : str
    version : str
    options : dict
    statistics : dict
        The statistics block: names as in pagewise.h. Empty before Pagewise was first switched on.
    """

    on: bool
    preloaded: bool
    policy: str
    version: str
    options: dict[str, str]
    statistics: dict[str, int]

    def to_dict(self) -> dict[str, object]:
        """All of it as a dictionary, for JSON."""
        return dataclasses.asdict(self)

    def to_frame(self) -> pandas.DataFrame:
        """Return the statistics as a data frame: name, value, meaning."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_frame() needs pandas: pip install pandas. Without it: report().to_dict()") from None
        meanings = _native.statistics_fields()
        rows = [(name, value, meanings[name]) for name, value in self.statistics.items()]
        return pandas.DataFrame(rows, columns=["name", "value", "meaning"])

    def _title(self) -> str:
        where = "the whole process (pagewise run)" if self.preloaded else "NumPy and what is built on it"
        state = f"on, policy {self.policy}, for {where}" if self.on else "off"
        return f"Pagewise {self.version}: {state}"

    def _rows(self) -> list[tuple[str, str]]:
        s = self.statistics
        rows = []
        others = {name: word for name, word in self.options.items() if name != "policy"}
        if self.on and others:
            rows.append(("options", ", ".join(f"{name}={word}" for name, word in others.items())))
        if not s:
            return rows
        rows += [
            ("arrays", f"{s['blocks_allocated']} served, {size(s['live_bytes'])} live"),
            (
                "copies",
                f"{s['copies_seen']} seen, {s['copies_shared']} shared: {size(s['shared_copy_bytes'])} not copied, "
                f"{size(s['private_copy_bytes'])} written later",
            ),
            ("zeros", f"{size(s['lazy_zero_bytes'] + s['zero_reclaimed_bytes'])} never written, or given back"),
            ("free", f"{size(s['cached_bytes'])} kept warm"),
        ]
        if s["fallback_threads"]:
            rows.append(("threads", f"{s['fallback_threads']} times something stayed as it was: {THREADS}"))
        failures = {
            name[len("fallback_") :]: value
            for name, value in s.items()
            if name.startswith("fallback_") and value and name != "fallback_threads"
        }
        if failures:
            rows.append(("fall-backs", ", ".join(f"{name} {value}" for name, value in failures.items())))
        return rows

    def __str__(self) -> str:
        """Return the text that ``print`` shows."""
        return "\n".join([self._title(), *(f"  {name:10} {value}" for name, value in self._rows())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self._title(), self._rows())


def report() -> Report:
    """Return what Pagewise has done in this process so far.

    Returns
    -------
    Report
        Prints as text; ``to_dict()`` and ``to_frame()`` give the figures.
    """
    policy, statistics = _native.statistics()
    return Report(
        on=is_on(),
        preloaded=is_preloaded(),
        policy=policy,
        version=_native.core().pw_version().decode(),
        options=words_in_force() if is_on() else {},
        statistics=statistics,
    )
