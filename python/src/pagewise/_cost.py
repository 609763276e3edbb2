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


# In what pandas' own arrays have their memory: nullable, categorical, of dates, sparse, of intervals.
WITHIN = ("_ndarray", "_data", "_mask", "_codes", "categories", "_sparse_values", "_left", "_right")


def _of_frame(obj: Any) -> Iterable[Any] | None:
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return None
    if isinstance(obj, pandas.DataFrame):
        return [*(obj.iloc[:, i].array for i in range(obj.shape[1])), obj.index, obj.columns]
    if isinstance(obj, pandas.Series):
        return obj.array, obj.index
    if isinstance(obj, pandas.MultiIndex):
        return *obj.levels, *obj.codes
    if isinstance(obj, pandas.RangeIndex):
        return ()  # it would make an array
    if isinstance(obj, pandas.Index):
        return (obj.array,)
    return _of_column(obj) if isinstance(obj, pandas.api.extensions.ExtensionArray) else None


def _of_column(values: Any) -> Iterable[Any]:
    parts = [getattr(values, name, None) for name in WITHIN]
    sparse_index = getattr(values, "_sparse_index", None)
    # An index of blocks would make its indices.
    names = ("blocs", "blengths") if hasattr(sparse_index, "blocs") else ("indices",)
    parts += [getattr(sparse_index, name, None) for name in names]
    # Each once: some have two names.
    return {id(part): part for part in parts if part is not None}.values()


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


def _no_arrays(obj: Any, function: str) -> str:
    """Say that a function has nothing to tell of an object, and what to type."""
    instead = (
        f"Of an object's attributes: pagewise.{function}(vars(obj))"
        if hasattr(obj, "__dict__")
        else f"Give it the array itself, or a list of arrays: pagewise.{function}([x, y])"
    )
    return (
        f"{function}() is of arrays, data frames, series, and lists and dictionaries of these, not of "
        f"{type(obj).__name__}. {instead}"
    )


def _arrays(obj: Any, function: str) -> Iterator[Any]:
    """Find the arrays of what a function is asked of, and of what that is made of: each part is looked into once."""
    seen: dict[int, Any] = {}  # keeps the parts, so that no other object gets a number of theirs
    pending = [obj]
    while pending:
        part = pending.pop()
        if hasattr(part, "__array_interface__"):
            yield part if hasattr(part, "itemsize") else _as_array(part)
            continue
        parts = _parts(part)
        if parts is None and part is obj:
            raise TypeError(_no_arrays(obj, function))
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
    obj : array, DataFrame, Series, Index, or a list, tuple or dict of these
        Of frames the index and the columns' labels count as well, of categories their values. Not counted are Python's
        own objects (strings of an object column, the list itself), what pyarrow holds, columns of types that other
        packages define, and what pandas makes to look something up in an index. What makes its data anew whenever it
        is asked, as a picture of Pillow's does, counts as that copy.

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
    found = list(_arrays(obj, "cost"))
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
