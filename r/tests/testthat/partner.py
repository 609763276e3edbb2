"""The Python side of test-share-python.R: partner.py COMMAND ARGUMENT..."""

import os
import sys
import time

import numpy as np

import pagewise
from pagewise import _share

EXAMPLES = {
    "float64": np.concatenate([np.arange(100_000.0), [np.nan, np.inf, -np.inf, -0.0]]),
    "int32": np.concatenate([np.arange(100_000), [-1, 2**31 - 1, -(2**31)]]).astype("int32"),
    "complex128": np.arange(100_000) * (1 + 2j),
    "uint8": np.arange(100_000).astype("uint8"),
    "int64": np.arange(5000),
    "long": np.arange(1_000_000.0),
}


def read(name, *more):
    """Say what is in a vector, with whom it is shared, and what happens when it is written."""
    x = pagewise.map_shared(name)
    np.save(more[0], np.array(x)) if more else None
    before = pagewise.shared_info(x)
    again = pagewise.shared_name(x) == name or pagewise.shared_name(x)
    print(x.dtype, x.size, x.ndim, x.flags.writeable, len(before.processes), before.own)
    x[0] = 1 if x[0] == 0 else 0
    print(pagewise.shared_info(x).own, pagewise.shared_info(x).changed, bool(again))


def read_as_bytes(name):
    """Open it as an unpickled array is opened, whose description says bytes."""
    handle = bytes.fromhex(name[len(_share.NAME_PREFIX) :])
    print(_share._open(handle, np.dtype("u1"), (10,), (1,), 0, True))


def values(name):
    print(*pagewise.map_shared(name).tolist(), sep="\n")


def name_again(name, file, go):
    """Hold somebody's vector, and give a name of its own for it."""
    hold_this(pagewise.map_shared(name), file, go)


def copy_again(name, file, go):
    hold_this(pagewise.share(np.array(pagewise.map_shared(name))), file, go)


def hold(kind, file, go):
    hold_this(pagewise.share(EXAMPLES[kind]), file, go)


def hold_this(x, file, go):
    """Keep an array until a file appears, and say then what is in it."""
    # By its handle, since what R cannot read has no name.
    handle = _share.ctypes.create_string_buffer(_share.HANDLE_SIZE)
    view, _exporter = _share._view_at(*_share._range(x))
    _share._core().pw_shared_handle(_share.ctypes.byref(view.object.shared), view.index, handle)
    name = _share.NAME_PREFIX + handle.raw.hex()
    assert _share._kind_of(x.dtype) == _share.BYTES or pagewise.shared_name(x)[:9] == name[:9]
    write(file, f"{name}\n{os.getpid()}\n")
    while not os.path.exists(go):
        time.sleep(0.02)
    write(go + ".said", f"{x[0]:g} {x.sum():g} {len(pagewise.shared_info(x).processes)}\n")


def write(file, text):
    with open(file + ".part", "w", encoding="utf-8") as out:
        out.write(text)
    os.rename(file + ".part", file)


FIELDS = {"part": (20, 4), "user": (16, 4), "boot": (24, 8), "token": (32, 16), "runtime": (12, 4), "size": (64, 8)}


def forge(name, field, value):
    """Print the name with another value in one field, and the check that belongs to it."""
    handle = bytes.fromhex(name[len(_share.NAME_PREFIX) :])
    at, width = FIELDS[field]
    changed = handle[:at] + int(value).to_bytes(width, "little") + handle[at + width : -8]
    check = 0xCBF29CE484222325
    for byte in changed:
        check = (check ^ byte) * 0x100000001B3 % 2**64
    print(_share.NAME_PREFIX + (changed + check.to_bytes(8, "little")).hex())


def segment(name, what, file, go):
    """Have a memory file of the name's object that is not what the name says."""
    handle = bytes.fromhex(name[len(_share.NAME_PREFIX) :])
    view = _share._view_of(handle)
    source, size = view.object.shared.fd, view.object.shared.size
    content = bytearray(os.pread(source, size, 0))
    token = handle[32:48].hex()
    fd = os.memfd_create(f"pagewise-shared-{token}", os.MFD_ALLOW_SEALING)
    if what == "truncated":
        content = content[: size // 4096 // 2 * 4096]
    elif what == "empty":
        content = bytearray()
    elif what == "part":  # a part that reaches beyond the file, of a valid check
        at = view.object.shared.table
        content[at + 8 : at + 16] = (2**40).to_bytes(8, "little")
    os.write(fd, content)
    import fcntl

    if what != "unsealed":
        fcntl.fcntl(fd, 1033, 0x1 | 0x2 | 0x4 | 0x8)
    # Nobody but this file is left: the one who shared it ends.
    os.close(source)
    del view
    write(file, f"{fd}\n{os.getpid()}\n")
    while not os.path.exists(go):
        time.sleep(0.02)


def as_user(user, command, *words):
    os.setgid(int(user))
    os.setuid(int(user))
    main(command, *words)


def worker(name):
    """Send a vector of R to a worker of a pool."""
    import multiprocessing

    x = pagewise.map_shared(name)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(*pool.apply(shown, (x,)))


def shown(x):
    return x.size, x.sum(), pagewise.shared_info(x).parts, len(pagewise.shared_info(x).processes)


def refused():
    """Print why each of these has no name."""
    shared = pagewise.share({"long": np.arange(5000), "bool": np.ones(5000, bool), "table": np.ones((80, 80)), "x": np.arange(9000.0)})
    changed = pagewise.share(np.zeros(5000))
    changed[7] = 1
    for x in (
        shared["long"], shared["bool"], shared["table"], shared["x"][::2], shared["x"][10:], shared["x"].view("complex128"),
        np.zeros(5000), pagewise.share(np.zeros(5)), changed, [1.0], np.zeros(0),
    ):  # fmt: skip
        try:
            print(pagewise.shared_name(x))
        except pagewise.ShareError as error:
            print(error)


def main(command, *words):
    try:
        globals()[command.replace("-", "_")](*words)
    except pagewise.ShareError as error:
        print("ShareError:", error)


if __name__ == "__main__":
    main(*sys.argv[1:])
