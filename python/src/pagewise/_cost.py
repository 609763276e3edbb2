"""What arrays and data frames cost in memory."""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import _native
from ._errors import PagewiseError
from ._text import html_table, size

PAGE = mmap.PAGESIZE


@dataclasses.dataclass(frozen=True)
class Cost:
    """What memory stands behind an object, in bytes.

    Attributes
    ----------
    bytes : int
        What its arrays hold; memory that two of them have in common counts once.
    own, shared : int
        Pages in memory that are used here alone, and elsewhere as well: by copies, or by other processes.
    swapped, absent : int
        Pages on the swap, and pages that were never written or were given back.
    huge : int or None
        Of those in memory, in huge pages; None where the kernel does not tell.
    managed : int
        Bytes that Pagewise serves.
    arrays : int
        How many arrays there are.
    """

    bytes: int
    own: int
    shared: int
    swapped: int
    absent: int
    huge: int | None
    managed: int
    arrays: int

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("own", size(self.own)),
            ("shared", size(self.shared)),
            ("absent", size(self.absent)),
        ]
        if self.swapped:
            rows.append(("swapped", size(self.swapped)))
        if self.huge is not None:
            rows.append(("in huge pages", size(self.huge)))
        rows.append(("by Pagewise", size(self.managed)))
        return rows

    def _title(self) -> str:
        return f"{size(self.bytes)} in {self.arrays} array{'s' * (self.arrays != 1)}"

    def __str__(self) -> str:
        """Return the text that ``print`` shows."""
        return "\n".join([self._title(), *(f"  {name:14} {value}" for name, value in self._rows())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self._title(), self._rows())


def _of_frame(obj: Any) -> Iterator[Any] | None:
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return None
    if isinstance(obj, pandas.DataFrame):
        return (obj.iloc[:, i] for i in range(obj.shape[1]))
    if isinstance(obj, (pandas.Series, pandas.Index)):
        values = obj.array
        # Extension arrays (nullable, categorical, of dates) have their memory in these.
        parts = [getattr(values, name, None) for name in ("_ndarray", "_data", "_mask", "_codes")]
        return iter([part for part in parts if part is not None])
    return None


def _parts(obj: Any) -> Iterable[Any] | None:
    """Return what an object is made of: a frame, a mapping or a sequence."""
    frame = _of_frame(obj)
    if frame is not None:
        return frame
    if isinstance(obj, Mapping):
        return obj.values()
    return obj if isinstance(obj, (list, tuple, set, frozenset)) else None


def _as_array(obj: Any) -> Any:
    """Return NumPy's view of whatever says by ``__array_interface__`` that it is an array."""
    import numpy  # noqa: PLC0415  (nothing else here needs it)

    try:
        return numpy.asarray(obj)
    except (TypeError, ValueError, KeyError) as error:
        raise TypeError(f"{type(obj).__name__} is no array, although it says so: {error}") from None


def _arrays(obj: Any) -> Iterator[Any]:
    """Find the arrays of an object, and of what it is made of: each part is looked into once."""
    seen: dict[int, Any] = {}  # keeps the parts, so that no other object gets a number of theirs
    pending = [obj]
    while pending:
        part = pending.pop()
        if hasattr(part, "__array_interface__"):
            yield part if hasattr(part, "itemsize") else _as_array(part)
            continue
        parts = _parts(part)
        if parts is None and part is obj:
            raise TypeError(
                f"cost() is of arrays, data frames, series, and lists and dictionaries of these, not of "
                f"{type(obj).__name__}. Of an object's attributes: pagewise.cost(vars(obj))"
            )
        if parts is not None and id(part) not in seen:
            seen[id(part)] = part
            pending.extend(parts)


def _range(array: Any) -> tuple[int, int]:
    """Return the first byte of an array and the one behind it, whatever its strides."""
    interface = array.__array_interface__
    start = end = interface["data"][0]
    shape = interface["shape"]
    if 0 in shape:
        return start, start
    item = array.itemsize
    strides = interface.get("strides")
    if strides is None:
        count = item
        for length in shape:
            count *= length
        return start, start + count
    for length, stride in zip(shape, strides):
        if stride < 0:
            start += (length - 1) * stride
        else:
            end += (length - 1) * stride
    return start, end + item


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def cost(obj: Any) -> Cost:
    """Tell what memory stands behind arrays or data frames. Nothing is changed or copied.

    Parameters
    ----------
    obj : array, DataFrame, Series, or a list, tuple or dict of these
        Python's own objects count as nothing: strings of an object column, the list itself. What makes its data anew
        whenever it is asked, as a picture of Pillow's does, counts as that copy.

    Returns
    -------
    Cost
        A page that two arrays have in common counts once, and so does a page that only partly belongs to one.

    Raises
    ------
    TypeError
        There can be no array in such an object.
    PagewiseError
        This kernel, or a container, does not tell a process about its pages.

    Examples
    --------
    >>> import numpy as np, pagewise
    >>> pagewise.cost(np.zeros(10_000_000)).absent > 70_000_000
    True
    """
    found = list(_arrays(obj))
    ranges = _merged(_range(array) for array in found)
    core = _native.core()
    total = _native.PageCost()
    sums = dict.fromkeys(("own", "shared", "swapped", "absent", "huge"), 0)
    huge_known = True
    managed = 0
    for start, end in _merged((start // PAGE * PAGE, -(-end // PAGE) * PAGE) for start, end in ranges):
        if not core.pw_page_cost(ctypes.c_void_p(start), end - start, ctypes.byref(total)):
            raise PagewiseError(
                "this kernel, or this container, does not tell a process about its own pages.\n"
                "`pagewise doctor`, in a shell, says what is missing."
            )
        for name in sums:
            sums[name] += getattr(total, name)
        huge_known &= bool(total.huge_known)
    for start, end in ranges:
        managed += end - start if core.pw_owns(ctypes.c_void_p(start)) else 0
    return Cost(
        bytes=sum(end - start for start, end in ranges),
        own=sums["own"],
        shared=sums["shared"],
        swapped=sums["swapped"],
        absent=sums["absent"],
        huge=sums["huge"] if huge_known else None,
        managed=managed,
        arrays=len(found),
    )
