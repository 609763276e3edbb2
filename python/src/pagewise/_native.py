"""The core, libpagewise.so, as functions of Python."""

from __future__ import annotations

import ctypes
import functools
import os
import re

from ._errors import PagewiseError

NATIVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")


class StatisticsHeader(ctypes.Structure):
    """What struct pw_statistics begins with."""

    _fields_ = [
        ("magic", ctypes.c_char * 8),
        ("version", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("pid", ctypes.c_uint64),
        ("policy", ctypes.c_char * 16),
    ]


class PageCost(ctypes.Structure):
    """Struct pw_page_cost."""

    _fields_ = [
        ("own", ctypes.c_uint64),
        ("shared", ctypes.c_uint64),
        ("swapped", ctypes.c_uint64),
        ("absent", ctypes.c_uint64),
        ("huge", ctypes.c_uint64),
        ("huge_known", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


def _find() -> ctypes.PyDLL:
    # One copy serves a process: under `pagewise run` it is there already.
    loaded = ctypes.PyDLL(None)
    if hasattr(loaded, "pw_switch_on"):
        return loaded
    path = os.environ.get("PAGEWISE_CORE") or os.path.join(NATIVE, "lib", "libpagewise.so.0")
    try:
        return ctypes.PyDLL(path)
    except OSError as error:
        raise PagewiseError(
            f"the library of Pagewise cannot be loaded: {error}\n"
            "It is part of the package: pip install --force-reinstall pagewise"
        ) from None


@functools.cache
def core() -> ctypes.PyDLL:
    """Load the core. Its functions are called with the interpreter's lock, as pw_switch_on wants it."""
    found = _find()
    found.pw_version.restype = ctypes.c_char_p
    found.pw_is_on.restype = ctypes.c_bool
    found.pw_is_preloaded.restype = ctypes.c_bool
    found.pw_switch_on.restype = ctypes.c_bool
    found.pw_switch_on.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]
    found.pw_switch_off.restype = None
    found.pw_owns.restype = ctypes.c_bool
    found.pw_owns.argtypes = [ctypes.c_void_p]
    found.pw_page_cost.restype = ctypes.c_bool
    found.pw_page_cost.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(PageCost)]
    found.pw_statistics_read.restype = ctypes.c_size_t
    found.pw_statistics_read.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return found


def switch_on(options: str) -> str | None:
    """Switch on; why not, or None."""
    reason = ctypes.c_char_p()
    if core().pw_switch_on(options.encode(), ctypes.byref(reason)):
        return None
    return (reason.value or b"for no reason that is known").decode()


@functools.cache
def statistics_fields() -> dict[str, str]:
    """Names and meanings of the statistics block, as the header has them."""
    with open(os.path.join(NATIVE, "include", "pagewise.h"), encoding="utf-8") as file:
        text = file.read()
    block = text[text.index("#define PW_STATISTICS_FIELDS(X)") : text.index("struct pw_statistics")]
    found = re.findall(r'\bX\((\w+), ((?:"[^"]*"[\s\\]*)+)\)', block)
    return {name: "".join(re.findall(r'"([^"]*)"', meaning)) for name, meaning in found}


def statistics() -> tuple[str, dict[str, int]]:
    """Read the policy in force and the statistics block; empty before Pagewise was first switched on."""
    names = list(statistics_fields())
    room = ctypes.create_string_buffer(ctypes.sizeof(StatisticsHeader) + 8 * len(names))
    if core().pw_statistics_read(room, len(room)) == 0:
        return "plain", {}
    header = StatisticsHeader.from_buffer_copy(room)
    values = (ctypes.c_uint64 * len(names)).from_buffer_copy(room, ctypes.sizeof(StatisticsHeader))
    return header.policy.decode() or "plain", dict(zip(names, values))
