"""Arrays that processes share: a handle travels in the place of the data.

The memory is an object of the core (pagewise.h, "Objects shared between processes"), the same as that of R's
``share()``: a sealed memory file that lives as long as any process has it open.
"""

from __future__ import annotations

import bisect
import contextlib
import copyreg
import ctypes
import dataclasses
import functools
import gc
import importlib
import io
import os
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex

from . import _native
from ._cost import _arrays, _range
from ._errors import PagewiseError
from ._text import html_table, size

# Smaller arrays travel by value.
SMALLEST = 4096
# Of what this file writes: another one makes handles that an older package refuses.
LAYOUT = 1
RUNTIME = ord("P") << 24 | LAYOUT << 16
HANDLE_SIZE = 80
# R's parts of numbers can be read as well: of any series of R, by this layout.
R_RUNTIME = ord("R") << 24 | 1 << 16
# Kinds of parts, as enum pw_shared_kind has them; other parts are bytes.
KINDS = {13: "int32", 14: "float64", 15: "complex128", 24: "uint8", 10: "int32"}
BYTES = ord("B")
NAME_PREFIX = "pagewise:"
# Of the mappings that Linux gives a process (65,530 by default), everything else keeps three quarters: further arrays
# are copies.
MOST_VIEWS = 16_000
MAPPINGS = "/proc/sys/vm/max_map_count"


class _Shared(ctypes.Structure):
    """Struct pw_shared."""

    _fields_ = [
        ("fd", ctypes.c_int32),
        ("parts", ctypes.c_uint32),
        ("device", ctypes.c_uint64),
        ("inode", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("table", ctypes.c_uint64),
        ("runtime", ctypes.c_uint32),
        ("maker_pid", ctypes.c_uint32),
        ("maker_fd", ctypes.c_int32),
        ("token", ctypes.c_uint8 * 16),
    ]


class _Part(ctypes.Structure):
    """Struct pw_shared_part."""

    _fields_ = [
        ("offset", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
        ("kind", ctypes.c_uint32),
        ("check", ctypes.c_uint32),
    ]


class _Name(ctypes.Structure):
    """Struct pw_shared_name."""

    _fields_ = [
        ("token", ctypes.c_uint8 * 16),
        ("part", ctypes.c_uint32),
        ("user", ctypes.c_uint32),
        ("runtime", ctypes.c_uint32),
        ("maker_pid", ctypes.c_uint32),
    ]


@functools.cache
def _core() -> ctypes.CDLL:
    """Load the functions of shared objects. They keep no state and so need no lock of the interpreter's."""
    core = ctypes.CDLL(_native.core()._name)
    shared, part = ctypes.POINTER(_Shared), ctypes.POINTER(_Part)
    for name, result, arguments in (
        ("begin", ctypes.c_int, [shared, ctypes.c_uint32]),
        ("next_page", ctypes.c_uint64, [shared]),
        ("write", ctypes.c_int, [shared, ctypes.c_void_p, ctypes.c_size_t]),
        ("finish", ctypes.c_int, [shared, part, ctypes.c_uint32]),
        ("close", None, [shared]),
        ("handle", None, [shared, ctypes.c_uint32, ctypes.c_char_p]),
        ("read_handle", ctypes.c_int, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.POINTER(_Name)]),
        ("open", ctypes.c_int, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint32, shared]),
        ("describe", ctypes.c_bool, [shared, ctypes.c_uint32, part]),
        ("map", ctypes.c_void_p, [shared, part]),
        ("unmap", None, [ctypes.c_void_p, part]),
        ("read", ctypes.c_bool, [shared, part, ctypes.c_void_p]),
        ("changed", ctypes.c_bool, [shared, part, ctypes.c_void_p]),
        ("private", ctypes.c_uint64, [part, ctypes.c_void_p]),
        ("holders", ctypes.c_size_t, [shared, ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t]),
    ):
        function = getattr(core, "pw_shared_" + name)
        function.restype, function.argtypes = result, arguments
    return core


# --- errors -------------------------------------------------------------------------------------

# As enum pw_shared_result has them.
DAMAGED, LAYOUT_DIFFERS, RUNTIME_DIFFERS, MACHINE, USER, DENIED, GONE, FORGED, LIMIT, MEMORY, PAGES = range(1, 12)

_REASONS = {
    DAMAGED: "the handle of a shared array is damaged: it was cut short or changed on its way. Nothing was read; "
    "send the array again from where it was shared",
    LAYOUT_DIFFERS: "the handle of a shared array was made by another version of pagewise, or for another kind of "
    "processor. Install the same version on both sides",
    RUNTIME_DIFFERS: "the handle of a shared object was not made by Python or R, or by another version of pagewise. "
    "Nothing was read; install the same version on both sides",
    MACHINE: "the handle of a shared array was made on another machine, or before this machine was last started. "
    "Shared arrays live in the memory of one machine: to move one, send it within `with pagewise.handles(False):`",
    USER: "the handle of a shared array was made by another user (number {name.user}): only processes of that user can "
    "read it",
    DENIED: "a shared array could not be looked for: the processes of this user may not be looked into here (a "
    "container, hidepid, or a process that made itself undumpable). Share from a process in the same container, or "
    "send the array within `with pagewise.handles(False):`",
    GONE: "a shared array is gone: process {name.maker_pid}, which shared it, and all others that had it have ended or "
    "dropped it. Keep the result of pagewise.share() in a variable until the others have it, and share it again now",
    FORGED: "a shared array is not what its handle says: the handle is forged, or of another type. Nothing was read",
    LIMIT: "no descriptor, or no memory, could be had for a shared array: each object takes one descriptor in every "
    "process that has it. Share a dict in place of many arrays, drop some, or raise the limit (ulimit -n)",
    MEMORY: "a shared array could not be written: there is no memory for it, or the limit on file sizes (ulimit -f) is "
    "in the way. What was to be shared is unchanged",
    PAGES: "nothing can be shared here: Pagewise is for kernels with pages of 4 KB, and this one's are larger (getconf "
    "PAGESIZE). Leave share() out and send the array itself, or start a kernel with pages of 4 KB (apt-get install "
    "linux-image-arm64)",
}


class ShareError(PagewiseError):
    """A shared array cannot be made, or cannot be opened; nothing was changed."""


_NEWER = (
    "nothing was shared, for a reason that this version of the package does not know ({result}): the library is newer. "
    "Install the same version of both"
)


def _check(result: int, name: _Name | None = None) -> None:
    if result:
        raise ShareError(_REASONS.get(result, _NEWER).format(name=name or _Name(), result=result))


# --- objects that are open ----------------------------------------------------------------------


class _Object:
    """An open object. Its descriptor is closed with the last view."""

    def __init__(self, shared: _Shared) -> None:
        self.shared = shared
        self.process = os.getpid()
        weakref.finalize(self, _core().pw_shared_close, shared).atexit = False

    @property
    def token(self) -> bytes:
        return bytes(self.shared.token)

    def is_open(self) -> bool:
        """Tell whether its descriptor is still its own: the program may have closed it, and another may have it."""
        try:
            status = os.fstat(self.shared.fd)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == (self.shared.device, self.shared.inode)


@functools.cache
def _most_views() -> int:
    """Tell how many views a process may have."""
    try:
        with open(MAPPINGS, encoding="ascii") as file:
            return min(MOST_VIEWS, int(file.read()) // 4)
    except (OSError, ValueError):
        return MOST_VIEWS


class _View:
    """Memory of a part, as this process sees it: what it writes there is its own."""

    start: int  # once it is mapped

    def __init__(self, of: _Object, index: int) -> None:
        self.object, self.index, self.part = of, index, _Part()
        if not _core().pw_shared_describe(ctypes.byref(of.shared), index, ctypes.byref(self.part)):
            _check(FORGED)
        self.exporter: Callable[[], Any] = lambda: None  # while there is one, the memory is mapped

    @property
    def end(self) -> int:
        return self.start + int(self.part.size)

    def is_changed(self) -> bool:
        """Tell whether it reads otherwise than what was shared."""
        return bool(_core().pw_shared_changed(ctypes.byref(self.object.shared), ctypes.byref(self.part), self.start))

    def memory(self, readonly: bool = False) -> memoryview:
        """Return the part's bytes: those of the view, as long as anything lives that was made of them, or a copy."""
        whole = memoryview(self._map() if len(_views) < _most_views() else self._copy())
        return whole.toreadonly() if readonly else whole

    def _copy(self) -> Any:
        import numpy

        copy = numpy.empty(self.part.size, numpy.uint8)
        at = copy.__array_interface__["data"][0]
        if not _core().pw_shared_read(ctypes.byref(self.object.shared), ctypes.byref(self.part), at):
            _check(FORGED)
        return copy

    def _map(self) -> Any:
        start = _core().pw_shared_map(ctypes.byref(self.object.shared), ctypes.byref(self.part))
        if start is None:
            _check(LIMIT)
        self.start = int(start)
        exporter = _exporter(self.start, self.part.size)
        self.exporter = weakref.ref(exporter)
        with _lock:
            _views[self.start] = self
            _forget_order()
        # Of what the collector knows, weak references end before the finalizers of a cycle, which may read the memory.
        # It knows no array of NumPy's. Should it ever, the memory stays.
        if not gc.is_tracked(exporter):
            # At the interpreter's end arrays may outlive this module: then the kernel does it.
            weakref.finalize(exporter, _drop, self.start).atexit = False
        return exporter


class _Address:
    """Memory, as NumPy takes it over."""

    __array_interface__: dict[str, Any]


def _exporter(start: int, length: int) -> Any:
    """Make the one array through which all others have this memory. It is deallocated behind the last of them."""
    import numpy

    address = _Address()
    address.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (length,), "data": (start, False)}
    exporter = numpy.asarray(address)
    # It stays as the array's base. Who goes down to that must not make another array of it.
    del address.__array_interface__
    return exporter


# A finalizer may run in the middle of anything, in the thread that holds the lock as well.
_lock = threading.RLock()
_views: dict[int, _View] = {}  # by the address of their first byte
_objects: weakref.WeakValueDictionary[bytes, _Object] = weakref.WeakValueDictionary()
_order: list[int] | None = None  # their addresses, in order


def _forget_order() -> None:
    global _order
    _order = None


def _drop(start: int) -> None:
    with _lock:
        view = _views.pop(start)
        _forget_order()
    # The address may be another's from here on.
    _core().pw_shared_unmap(start, ctypes.byref(view.part))


def _view_at(start: int, end: int) -> tuple[_View, Any] | None:
    """Find the view in which these bytes are, and its exporter.

    Any thread may drop the last array at any time: whoever reads the view keeps the exporter until then.
    """
    global _order
    with _lock:
        order = _order
        if order is None:
            order = _order = sorted(_views)
        at = bisect.bisect_right(order, start)
        view = _views.get(order[at - 1]) if at else None
    exporter = view.exporter() if view is not None and end <= view.end else None
    return (view, exporter) if view is not None and exporter is not None else None


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()
    # Nobody leaves the blocks of threads that are not here any more.
    for block in [block for block in _blocks if block[0] != threading.get_ident()]:
        _set_block(block, None)


os.register_at_fork(after_in_child=_after_fork)


# --- sharing ------------------------------------------------------------------------------------


class _Writer(pickle.Pickler):
    """Makes buffers of all arrays: closes up gaps between elements, takes dates as bytes. Notes the types of all."""

    dtypes: dict[int, Any]  # by the address of an array's first byte

    def reducer_override(self, obj: Any) -> Any:
        numpy = sys.modules["numpy"]
        if type(obj) is not numpy.ndarray or obj.dtype.hasobject or obj.nbytes < SMALLEST:
            return NotImplemented
        closed = obj if obj.flags.forc else obj.copy(order="K")
        closed = closed if closed.flags.forc else obj.copy()
        if not _is_buffer(closed):
            return numpy.ndarray.view, (closed.view(f"V{closed.itemsize}"), closed.dtype)
        self.dtypes[closed.__array_interface__["data"][0]] = closed.dtype
        return NotImplemented if closed is obj else closed.__reduce_ex__(5)


def _is_buffer(array: Any) -> bool:
    """Tell whether an array can be had as a buffer: dates and spans of time cannot, nor records that have any."""
    try:
        memoryview(array)
    except ValueError:
        return False
    return True


def _kind_of(dtype: Any) -> int:
    """Say as what kind R knows numbers of a type."""
    known = {name: kind for kind, name in reversed(KINDS.items())}
    return known.get(dtype.name, BYTES) if dtype is not None and dtype.isnative else BYTES


def _pickled(obj: Any) -> tuple[bytes, list[memoryview], list[int]]:
    """Pickle an object; buffers that are worth sharing stay outside, and kinds of what is in them."""
    text = io.BytesIO()
    buffers: list[memoryview] = []
    kinds: list[int] = []
    dtypes: dict[int, Any] = {}

    # It does not know the writer: in a cycle with it, the buffers would stay until the next collection.
    def take(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < SMALLEST:
            return True
        # Now: one that stays inside may be gone when the next is made at its address.
        kind = _kind_of(dtypes.pop(_address(raw), None))
        if len(_views) + len(buffers) >= _most_views():
            return True
        buffers.append(raw)
        kinds.append(kind)
        return False

    writer = _Writer(text, protocol=5, buffer_callback=take)
    writer.dtypes = dtypes
    writer.dump(obj)
    return text.getvalue(), buffers, kinds


def _write(buffers: list[memoryview], kinds: list[int]) -> _Object:
    """Write an object with these parts."""
    core, shared = _core(), _Shared()
    begun = core.pw_shared_begin(ctypes.byref(shared), RUNTIME)
    if begun == LIMIT:
        gc.collect()  # garbage may hold what is missing
        begun = core.pw_shared_begin(ctypes.byref(shared), RUNTIME)
    _check(begun)
    made = _Object(shared)
    parts = (_Part * len(buffers))()
    for part, buffer, kind in zip(parts, buffers, kinds):
        part.offset = core.pw_shared_next_page(ctypes.byref(shared))
        part.size, part.kind = buffer.nbytes, kind
        part.length = buffer.nbytes // _size_of(kind)
        _check(core.pw_shared_write(ctypes.byref(shared), _address(buffer), buffer.nbytes))
    _check(core.pw_shared_finish(ctypes.byref(shared), parts, len(buffers)))
    with _lock:
        _objects[made.token] = made
    return made


def _size_of(kind: int) -> int:
    import numpy

    return numpy.dtype(KINDS[kind]).itemsize if kind in KINDS else 1


def _address(buffer: memoryview) -> int:
    import numpy

    return int(numpy.frombuffer(buffer, numpy.uint8).__array_interface__["data"][0])


def share(obj: Any) -> Any:
    """Share an object's arrays with other processes.

    They are written once into memory that other processes of the same user on this machine can use. The result is used
    like the original. Where it is sent to another process (by multiprocessing, concurrent.futures, joblib), about two
    hundred bytes travel for each array, and the process that reads them sees the same memory: nothing is copied.

    Each process may write to it. What was written becomes that process's own, in pages of 4 KB, and nobody else sees
    it. Files, hashes and everything else that pickles hold the data.

    Parameters
    ----------
    obj : array, DataFrame, Series, or a dict, list or tuple of these
        Or any object that can be pickled and has arrays in it: a fitted estimator. Arrays of Python objects, strings
        among them, travel by value, and so do arrays under 4 KB. A process has at most 16,000 shared arrays (a quarter
        of ``vm.max_map_count``, if that is less): further ones are ordinary copies.

    Returns
    -------
    object
        An equal one, whose arrays are shared. It lives as long as any process has it; keep it in a variable until the
        others have received it.

    Raises
    ------
    ShareError
        There is no memory for it, or no descriptor. `obj` is unchanged.

    Examples
    --------
    >>> import numpy as np, pagewise
    >>> x = pagewise.share(np.arange(1_000_000))
    >>> with multiprocessing.Pool(4) as pool:  # doctest: +SKIP
    ...     pool.map(work, [x] * 4)
    """
    import numpy  # noqa: F401 (the writer asks for it)

    text, buffers, kinds = _pickled(obj)
    _send_handles()
    if not buffers:
        return pickle.loads(text)
    made = _write(buffers, kinds)
    return pickle.loads(text, buffers=[_View(made, at).memory(buffer.readonly) for at, buffer in enumerate(buffers)])


# --- sending ------------------------------------------------------------------------------------

_asked: bool | None = None  # by the latest of the blocks of handles()
_blocks: dict[tuple[int, object], bool] = {}  # all that are open, by the thread that entered them
_before: list[Any] = []  # how arrays were pickled otherwise, while handles are asked for


@contextlib.contextmanager
def handles(everywhere: bool = True) -> Iterator[None]:
    """Have all pickles hold handles, or none, for a ``with`` block.

    By themselves handles are written where another process reads them at once: by multiprocessing, concurrent.futures
    and joblib, from a process that is none of their workers. Pickles that programs make by ``pickle.dumps`` hold data.

    Parameters
    ----------
    everywhere : bool
        True: handles, for programs that send pickles in a way of their own (a queue, a socket, Dask, Ray), or from a
        worker that keeps what it sends. What is saved meanwhile holds handles as well. False: data, for another
        machine.

    Notes
    -----
    It holds for all threads. Of blocks that are open at once, the one that was entered last counts.
    """
    block = (threading.get_ident(), object())
    _set_block(block, everywhere)
    try:
        yield
    finally:
        _set_block(block, None)


def _set_block(block: tuple[int, object], everywhere: bool | None) -> None:
    """Note a block that was entered, or left (None), and have pickles hold what the remaining ones ask for.

    Threads may leave their blocks in any order: each takes away its own, and nothing stays behind the last.
    """
    global _asked
    numpy_array = __import__("numpy").ndarray
    with _lock:
        if everywhere is None:
            _blocks.pop(block, None)  # a fork may have taken it away
        else:
            _blocks[block] = everywhere
        _asked = next(reversed(_blocks.values()), None)
        if _asked and not _before:
            _before.append(copyreg.dispatch_table.get(numpy_array))
            copyreg.dispatch_table[numpy_array] = functools.partial(_reduce, _before[0])
        elif not _asked and _before:
            earlier = _before.pop()
            copyreg.dispatch_table.pop(numpy_array, None)  # another library may have taken it away
            if earlier is not None:
                copyreg.dispatch_table[numpy_array] = earlier


def _is_worker() -> bool:
    """Tell whether what this process has may be gone as soon as it has sent it: a worker of a pool."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


def _handle_of(array: Any) -> tuple[Any, ...] | None:
    """Describe what is sent in the place of an array's data; None where the data are to be sent."""
    if _asked is False or not _views or array.dtype.hasobject or array.nbytes < SMALLEST:
        return None
    start, end = _range(array)
    found = _view_at(start, end)
    if found is None:
        return None
    view, _exporter = found
    if (not _asked and (_is_worker() or view.object.process != os.getpid())) or view.is_changed():
        return None
    handle = ctypes.create_string_buffer(HANDLE_SIZE)
    _core().pw_shared_handle(ctypes.byref(view.object.shared), view.index, handle)
    address = array.__array_interface__["data"][0]
    return handle.raw, array.dtype, array.shape, array.strides, address - view.start, bool(array.flags.writeable)


def _reduce(otherwise: Callable[[Any], Any] | None, array: Any) -> Any:
    """Reduce an array to its handle, or as it is done without Pagewise."""
    described = _handle_of(array)
    if described is not None:
        return _open, described
    if otherwise is not None:
        return otherwise(array)
    # These may contain themselves, and are the same in all protocols.
    if array.dtype.hasobject:
        return array.__reduce__()
    # It returns the array that it is given. Whoever reads the pickle needs NumPy alone.
    return sys.modules["numpy"].asanyarray, (_ByProtocol(array),)


class _ByProtocol:
    """Pickles as an array does. A reducer is not told of the protocol, and this is."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return self.array.__reduce_ex__(protocol)


def _open(handle: bytes, dtype: Any, shape: Any, strides: Any, offset: int, writeable: bool) -> Any:
    """Make the array that a handle describes. Nothing of it is believed: it may have been changed on its way."""
    import numpy

    if not isinstance(handle, bytes) or not isinstance(dtype, numpy.dtype) or dtype.hasobject:
        _check(DAMAGED)
    memory = _view_of(handle).memory(not writeable)
    try:
        found = numpy.ndarray(shape, dtype, memory, offset, strides)
    except (TypeError, ValueError, OverflowError) as error:
        raise ShareError(f"{_REASONS[FORGED]} ({error})") from None
    _send_handles()
    return found


def _view_of(handle: bytes) -> _View:
    """Open what a handle names: of Python, or numbers of R."""
    name, size = _Name(), len(handle)
    result = _core().pw_shared_read_handle(handle, size, RUNTIME, ctypes.byref(name))
    is_of_r = result == RUNTIME_DIFFERS and name.runtime & 0xFFFF0000 == R_RUNTIME
    if is_of_r:
        result = _core().pw_shared_read_handle(handle, size, name.runtime, ctypes.byref(name))
    _check(result, name)
    view = _View(_object_of(handle, name), name.part)
    if is_of_r and view.part.kind not in KINDS:
        _check(FORGED)
    return view


def _object_of(handle: bytes, name: _Name) -> _Object:
    result, found = _opened(handle, name)
    if result == LIMIT:
        gc.collect()  # garbage may hold what is missing
        result, found = _opened(handle, name)
    _check(result, name)
    assert found is not None
    return found


def _opened(handle: bytes, name: _Name) -> tuple[int, _Object | None]:
    with _lock:
        known = _objects.get(bytes(name.token))
        if known is not None and known.is_open():
            return 0, known
        shared = _Shared()
        result = _core().pw_shared_open(handle, len(handle), name.runtime, ctypes.byref(shared))
        if result != 0:
            return result, None
        if known is not None and (known.shared.device, known.shared.inode) == (shared.device, shared.inode):
            # It takes the new descriptor: of two owners, which may well have the same number, one would close it.
            known.shared.fd = shared.fd
            return 0, known
        opened = _objects[bytes(name.token)] = _Object(shared)
        return 0, opened


_sends = False
# Modules that send arrays in a way of their own.
_SENDERS = ("joblib._memmapping_reducer", "loky.backend.reduction")


def _send_handles() -> None:
    """Have multiprocessing and joblib send handles from now on. Whoever calls finds that done, in any thread."""
    global _sends
    if _sends:
        return
    # Before the lock is taken: who imports may wait for a thread in which a finalizer waits for the lock.
    import multiprocessing.reduction as reduction

    import numpy

    with _lock:
        if not any(isinstance(finder, _Later) for finder in sys.meta_path):
            earlier = reduction.ForkingPickler._extra_reducers.get(numpy.ndarray)  # type: ignore[attr-defined]
            reduction.ForkingPickler.register(numpy.ndarray, functools.partial(_reduce, earlier))
            sys.meta_path.insert(0, _Later())
    # An import that begins now is told of by _Later. One that began earlier is waited for: until it ends, the module
    # may be half of one, or not yet be in sys.modules. No public function waits without importing what is not there.
    wait = getattr(importlib._bootstrap, "_lock_unlock_module", None)
    for name in _SENDERS:
        if wait is not None:
            wait(name)
        if name in sys.modules:
            _tell(sys.modules[name])
    _sends = True


def _tell(module: Any) -> None:
    """Have joblib, or loky by itself, send handles. May be called again."""
    numpy = sys.modules["numpy"]
    if module.__name__ == "loky.backend.reduction":
        if hasattr(module, "register"):
            module.register(numpy.ndarray, functools.partial(_reduce, None))
        return
    reducer = getattr(module, "ArrayMemmapForwardReducer", None)
    with _lock:
        if reducer is None or hasattr(reducer, "_pagewise"):
            return
        reduce_as_ever = reducer.__call__

        @functools.wraps(reduce_as_ever)
        def call(self: Any, array: Any) -> Any:
            described = _handle_of(array) if type(array) is numpy.ndarray else None
            return (_open, described) if described is not None else reduce_as_ever(self, array)

        reducer.__call__ = call
        reducer._pagewise = True


class _Later:
    """Tells joblib when it is imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module as others find it, and see to it once it is loaded."""
        if name not in _SENDERS:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader.exec_module = _and_tell(spec.loader.exec_module)  # type: ignore[method-assign, assignment]
                return spec
        return None


def _and_tell(execute: Callable[[Any], None]) -> Callable[[Any], None]:
    def exec_module(module: Any) -> None:
        execute(module)
        _tell(module)

    return exec_module


# --- names --------------------------------------------------------------------------------------


def shared_name(array: Any) -> str:
    """Name a shared array of one dimension, for a process that no pickle reaches, and for R.

    The name can be sent in any way: in a file, a message, an argument of a command. `map_shared` opens it in Python,
    and ``pagewise::map_shared()`` in R, in any process of the same user on this machine. It keeps nothing alive: the
    array lives as long as any process has it.

    Parameters
    ----------
    array : numpy.ndarray
        As `share` or `map_shared` returned it, all of it, not changed since. Of type float64 (R: double), int32
        (integer, or logical where R made it), complex128 (complex) or uint8 (raw). In R -2147483648 is the missing
        integer, NA.

    Returns
    -------
    str

    Raises
    ------
    ShareError
        It has no such name: it says why, and what to do.
    """
    import numpy

    if not isinstance(array, numpy.ndarray):
        raise ShareError(f"{type(array).__name__} has no name that others can open: name its arrays, x.to_numpy() say")
    if array.ndim != 1:
        raise ShareError(f"an array of {array.ndim} dimensions has no name: share x.ravel() in its place")
    if _kind_of(array.dtype) == BYTES:
        raise ShareError(
            f"R has no numbers of type {array.dtype.name}, and so they have no name: share x.astype('float64') or "
            "x.astype('int32') in its place"
        )
    found = _view_at(*_range(array)) if array.size else None
    if found is None:
        raise ShareError(
            "the array is not shared: call pagewise.share(x) first, and keep its result. Arrays under "
            f"{SMALLEST} bytes never are"
        )
    view, _exporter = found
    is_whole = array.nbytes == view.part.size and array.strides[0] == array.itemsize
    if not is_whole or KINDS.get(view.part.kind) != array.dtype.name:
        raise ShareError(
            "this is a part, or another reading, of what was shared: share it by itself, as "
            "pagewise.share(numpy.array(x)), and keep the result"
        )
    if view.is_changed():
        raise ShareError("the array was changed since it was shared: call pagewise.share(x) again, and keep its result")
    handle = ctypes.create_string_buffer(HANDLE_SIZE)
    _core().pw_shared_handle(ctypes.byref(view.object.shared), view.index, handle)
    return NAME_PREFIX + handle.raw.hex()


def map_shared(name: str) -> Any:
    """Open a shared array, or a shared vector of R, by its name.

    Parameters
    ----------
    name : str
        As `shared_name`, or ``pagewise::shared_name()`` in R, gave it.

    Returns
    -------
    numpy.ndarray
        Of one dimension. Its memory is that of all who have it; what this process writes becomes its own, in pages of
        4 KB. A logical vector of R is of type int32: 0, 1, and -2147483648 for NA. The missing number of R is a NaN.

    Raises
    ------
    ShareError
        The name is damaged, or what it names is gone, another user's, or none of numbers.
    """
    import numpy

    digits = name[len(NAME_PREFIX) :] if isinstance(name, str) and name.startswith(NAME_PREFIX) else ""
    try:
        handle = bytes.fromhex(digits)
    except ValueError:
        handle = b""
    if not handle or " " in digits:
        raise ShareError(
            "this is no name of a shared array, or was cut short: it must be as shared_name() gives it, "
            f'"{NAME_PREFIX}" and 160 digits'
        )
    view = _view_of(handle)
    part = view.part
    if part.kind not in KINDS or part.length * _size_of(part.kind) != part.size:
        _check(FORGED)
    _send_handles()
    return numpy.frombuffer(view.memory(), dtype=KINDS[part.kind])


# --- what is shared -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SharedInfo:
    """What of an object is shared, at one moment. Prints as text; notebooks show a table.

    Attributes
    ----------
    bytes : int
        Shared memory in which its arrays are.
    own : int or None
        Of these, pages that this process has written; None where the kernel does not tell.
    changed : int
        How many of its arrays' parts read otherwise than when they were shared, and travel by value until they are
        shared again.
    parts : int
        How many there are.
    processes : tuple of int
        The processes that have it, this one among them.
    """

    bytes: int
    own: int | None
    changed: int
    parts: int
    processes: tuple[int, ...]

    def _title(self) -> str:
        return (
            f"{size(self.bytes)} shared in {self.parts} part{'s' * (self.parts != 1)}"
            if self.parts
            else "nothing is shared"
        )

    def _rows(self) -> list[tuple[str, str]]:
        own = "not known" if self.own is None else size(self.own)
        return [
            ("own", f"{own} written by this process"),
            ("changed", f"{self.changed} part{'s' * (self.changed != 1)}"),
            ("processes", ", ".join(map(str, self.processes))),
        ]

    def __str__(self) -> str:
        """Return the text that ``print`` shows."""
        rows = self._rows() if self.parts else []
        return "\n".join([self._title(), *(f"  {name:10} {value}" for name, value in rows)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self._title(), self._rows() if self.parts else [])


def shared_info(obj: Any) -> SharedInfo:
    """Tell what of an object is shared, with how many processes, and how much is this process's own.

    Parameters
    ----------
    obj : array, DataFrame, Series, Index, or a list, tuple or dict of these
        As `cost` counts them. Of any other object: ``vars(obj)``, a dict of its attributes.

    Returns
    -------
    SharedInfo

    Raises
    ------
    TypeError
        There can be no array in such an object.
    """
    # With their exporters until the end: other threads may drop the arrays.
    ranges = {_range(array) for array in _arrays(obj, "shared_info")}
    found = [_view_at(start, end) for start, end in ranges if start < end]
    views = list({pair[0].start: pair[0] for pair in found if pair is not None}.values())
    own = [int(_core().pw_shared_private(ctypes.byref(view.part), view.start)) for view in views]
    processes = {pid for view in {view.object.token: view for view in views}.values() for pid in _holders(view.object)}
    return SharedInfo(
        bytes=sum(view.part.size for view in views),
        own=None if 2**64 - 1 in own else sum(own),
        changed=sum(view.is_changed() for view in views),
        parts=len(views),
        processes=tuple(sorted(processes)),
    )


def _holders(of: _Object) -> list[int]:
    room = 64
    while True:
        pids = (ctypes.c_uint32 * room)()
        count = int(_core().pw_shared_holders(ctypes.byref(of.shared), pids, room))
        if count <= room:
            return list(pids[:count])
        room = count
