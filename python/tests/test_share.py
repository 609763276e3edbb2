"""Arrays shared between processes."""

import copyreg
import io
import multiprocessing.reduction as reduction
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
import weakref

import numpy as np
import pandas as pd
import pytest
from conftest import run_python

import pagewise
from pagewise import _share

FIELD = {"boot": (24, 8), "user": (16, 4), "sender_fd": (60, 4), "token": (32, 16)}


def handle_pickle(array):
    with pagewise.handles():
        return pickle.dumps(array)


def test_a_shared_object_is_used_like_the_original():
    frame = pd.DataFrame({"a": np.arange(5000.0), "b": np.arange(5000), "c": ["x", "y"] * 2500})
    given = {"frame": frame, "array": np.ones((300, 400)), "few": np.arange(3), "list": [1, None]}
    got = pagewise.share(given)
    pd.testing.assert_frame_equal(got["frame"], frame)
    assert type(got["array"]) is np.ndarray and (got["array"] == 1).all() and got["list"] == [1, None]
    got["array"][3, 4] = 7
    got["frame"].loc[0, "a"] = -1.0
    assert given["array"][3, 4] == 1 and frame.loc[0, "a"] == 0
    assert str(pagewise.shared_info(got)).startswith("1.04 MB shared in 3 parts") and pagewise.shared_info(
        got
    ).processes == (os.getpid(),)
    assert str(pagewise.shared_info(given)) == "nothing is shared"


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6000.0).reshape(60, 100).T,
        np.arange(60000.0).reshape(60, 1000)[::2, ::3],
        np.arange(60000.0).reshape(20, 30, 100).transpose(1, 0, 2)[:, ::2],
        np.arange(9000)[::-1],
        np.zeros(3000, dtype=[("a", "i4"), ("b", "f8")]),
        np.arange("2020", "2040", dtype="M8[D]"),
        np.array(3.0),
        np.zeros((0, 5)),
        np.array(["a", None] * 4000, dtype=object),
        np.ma.masked_array(np.arange(6000), np.arange(6000) % 2),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_every_kind_of_array_comes_back(array):
    shared = pagewise.share(array)
    for got in (shared, pickle.loads(pickle.dumps(shared)), pickle.loads(handle_pickle(shared))):
        assert type(got) is type(array) and got.dtype == array.dtype and got.shape == array.shape
        np.testing.assert_array_equal(got, array)


DAYS = np.arange("2000", "2040", dtype="M8[D]")
WITH_NONE = np.where(np.arange(DAYS.size) % 3 == 0, np.datetime64("NaT", "D"), DAYS)
NEVER_WRITTEN = DAYS.copy()
NEVER_WRITTEN.flags.writeable = False


@pytest.mark.parametrize(
    "array",
    [
        DAYS,
        DAYS - DAYS[0],
        DAYS.astype(">M8[s]"),
        WITH_NONE,
        NEVER_WRITTEN,
        DAYS[::2],
        DAYS[:14_000].reshape(140, 100).T,
        DAYS[:14_000].reshape(140, 100)[::-1, ::3],
        np.array(list(zip(DAYS, range(DAYS.size))), dtype=[("day", "M8[D]"), ("number", "i4")]),
        np.ones(9000, dtype={"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}{array.strides}",
)
def test_arrays_that_are_no_buffers_are_shared(array):
    shared = pagewise.share([array, array])
    assert shared[0] is shared[1] and pagewise.shared_info(shared).parts == 1
    assert shared[0].flags.f_contiguous >= array.flags.f_contiguous
    assert pagewise.shared_info(shared).bytes == pagewise.cost(shared).bytes == array.nbytes
    text = handle_pickle(shared[0])
    assert len(text) < 500
    for got in (shared[0], pickle.loads(text), pickle.loads(handle_pickle(shared[0][5:]))):
        assert type(got) is np.ndarray and got.dtype == array.dtype
        assert got.flags.writeable == array.flags.writeable and got.strides == shared[0].strides
        np.testing.assert_array_equal(got, array[-len(got) :])
    with pytest.raises(pagewise.ShareError, match="no numbers of type|of 2 dimensions"):
        pagewise.shared_name(shared[0])


@pytest.mark.parametrize(
    ("made", "parts", "count"),
    [
        ("pd.Series(pd.date_range('2000', periods=5000))", 1, 40_000),
        ("pd.Series(pd.date_range('2000', periods=5000, tz='Europe/Berlin'))", 1, 40_000),
        ("pd.Series(pd.to_timedelta(np.arange(5000), unit='s'))", 1, 40_000),
        ("pd.date_range('2000', periods=5000)", 1, 40_000),
        ("pd.Series(np.ones(5000), index=pd.date_range('2000', periods=5000))", 2, 80_000),
        ("pd.Series(pd.period_range('2000', periods=5000, freq='D'))", 1, 40_000),
        ("pd.Series(pd.interval_range(0, 5000))", 2, 80_000),
        ("pd.Series(pd.arrays.SparseArray(np.arange(5000.0) + 1))", 2, 60_000),
        ("pd.Series(pd.arrays.SparseArray(np.arange(5000.0) + 1, kind='block'))", 1, 40_008),
        ("pd.Series([1, None] * 2500, dtype='Int64')", 2, 45_000),
        ("pd.Series(np.arange(5000)).astype('category')", 2, 50_000),
        ("pd.DataFrame({1: np.ones(5000)}, index=np.arange(5000) * 1.5)", 2, 80_008),
        ("pd.DataFrame(np.ones((2, 5000)), columns=np.arange(5000) * 1.5)", 2, 120_000),
        ("pd.Series(np.ones(5000), pd.MultiIndex.from_arrays([np.arange(5000), np.arange(5000)]))", 5, 140_000),
        ("pd.Series(np.ones(5000)).array", 1, 40_000),
    ],
)
def test_all_memory_of_pandas_own_types_is_told_of(made, parts, count):
    got = pagewise.share(eval(made))
    assert (pagewise.shared_info(got).parts, pagewise.cost(got).bytes) == (parts, count)
    again = pickle.loads(handle_pickle(got))
    assert len(handle_pickle(got)) < 2000 and pagewise.shared_info(again).parts == parts
    for one in (got, again):
        pd.testing.assert_frame_equal(pd.DataFrame(one), pd.DataFrame(eval(made)))


@pytest.mark.parametrize("count", [127, 128, 129, 256])
def test_any_number_of_arrays_comes_back(count):
    arrays = [np.full(600, float(i)) for i in range(count)]
    shared = pagewise.share(arrays)
    assert pagewise.shared_info(shared).parts == count
    np.testing.assert_array_equal(pickle.loads(handle_pickle(shared)), arrays)


def test_arrays_that_fill_their_pages_and_lie_side_by_side_are_told_apart():
    shared = pagewise.share([np.ones(512) for _ in range(50)])
    info = pagewise.shared_info([*shared, shared[0][5:9], shared[1][:0]])
    assert (info.parts, info.bytes) == (50, 50 * 4096)


def test_what_may_not_be_written_stays_so():
    x = np.arange(5000)
    x.flags.writeable = False
    got = pagewise.share(x)
    assert not got.flags.writeable and not pickle.loads(handle_pickle(got)).flags.writeable


def test_a_part_of_a_shared_array_travels_by_handle_and_ordinary_pickles_hold_data():
    x = pagewise.share(np.arange(1_000_000.0).reshape(1000, 1000))
    for part in (x, x[10:20], x[:, 3], x.T, x[::-1]):
        text = handle_pickle(part)
        assert len(text) < 400
        np.testing.assert_array_equal(pickle.loads(text), part)
    assert len(pickle.dumps(x)) > x.nbytes


def test_unpickled_twice_there_are_two_that_know_nothing_of_each_other():
    x = pagewise.share(np.zeros(1_000_000))
    text = handle_pickle(x)
    a, b = pickle.loads(text), pickle.loads(text)
    a[0], b[1] = 1, 2
    assert (a[:2].tolist(), b[:2].tolist(), x[:2].tolist()) == ([1, 0], [0, 2], [0, 0])
    assert pagewise.shared_info([a, b]).own <= 3 * 4096


def test_a_changed_array_travels_by_value_until_it_is_shared_again():
    x = pagewise.share(np.zeros(100_000))
    x[5] = 1
    assert len(handle_pickle(x)) > x.nbytes and pickle.loads(handle_pickle(x))[5] == 1
    assert pagewise.shared_info(x).changed == 1
    assert len(handle_pickle(pagewise.share(x))) < 400


def test_memory_is_given_back_with_the_last_view():
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        x = pagewise.share(np.ones(100_000))
        y = pickle.loads(handle_pickle(x))[5:10]
        del x
        assert y.sum() == 5
    del y
    assert len(os.listdir("/proc/self/fd")) == descriptors
    with open("/proc/self/maps", encoding="utf-8") as maps:
        assert "pagewise-shared" not in maps.read()


POOL = """
import multiprocessing as mp, os, sys, numpy as np, pandas as pd, pagewise
from concurrent.futures import ProcessPoolExecutor
def work(frame):
    info = pagewise.shared_info(frame)
    total = float(frame.to_numpy().sum())
    frame.loc[3, "c0"] = os.getpid()
    return total, info.bytes > 60_000_000, pagewise.shared_info(frame).own < 1_000_000, bool(frame["c0"].iloc[3] == os.getpid())
if __name__ == "__main__":
    frame = pagewise.share(pd.DataFrame({f"c{i}": np.full(1_000_000, float(i)) for i in range(8)}))
    context = mp.get_context("METHOD")
    with context.Pool(2) as pool:
        print(set(pool.map(work, [frame] * 4)))
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        print(set(pool.map(work, [frame] * 4)))
    queue = context.SimpleQueue()
    queue.put(frame)
    print(work(queue.get()), float(frame["c0"].iloc[3]))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("way", ["plain", "on", "run"])
def test_workers_of_pools_read_the_same_memory(method, way):
    out = run_python(POOL.replace("METHOD", method), way=way, warnings="default").stdout.splitlines()
    one = "(28000000.0, True, True, True)"
    assert out == ["{" + one + "}"] * 2 + [one + " 0.0"]


@pytest.mark.parametrize("first", ["joblib", "pagewise"])
def test_workers_of_joblib_read_the_same_memory(first):
    out = run_python(
        f"""
        import {first}, joblib, numpy as np, pagewise
        from joblib import Parallel, delayed
        def work(x, i):
            import pagewise
            info = pagewise.shared_info(x)
            x[i] = -1
            return float(x.sum()), info.parts, x.flags.writeable
        if __name__ == "__main__":
            x = pagewise.share(np.ones(4_000_000))
            print(Parallel(n_jobs=2)(delayed(work)(x, i) for i in range(4)), float(x.sum()))
            plain = np.ones(4_000_000)
            print(Parallel(n_jobs=2, mmap_mode="c")(delayed(work)(plain, i) for i in range(2)))
        """,
        warnings="default",
    ).stdout.splitlines()
    assert out == [str([(3999998.0, 1, True)] * 4) + " 4000000.0", str([(3999998.0, 0, True)] * 2)]


def test_what_a_worker_shares_is_returned_as_data():
    out = run_python(
        """
        import multiprocessing as mp, numpy as np, pagewise
        def work(i):
            return pagewise.share(np.full(100_000, i))
        if __name__ == "__main__":
            with mp.get_context("fork").Pool(2, maxtasksperchild=1) as pool:
                found = pool.map(work, range(6), chunksize=1)
            print([int(x.sum()) for x in found], pagewise.shared_info(found).parts)
        """
    ).stdout
    assert out == "[0, 100000, 200000, 300000, 400000, 500000] 0\n"


def test_a_forked_child_writes_for_itself():
    x = pagewise.share(np.zeros(100_000))
    pid = os.fork()
    if pid == 0:
        x[0] = 1
        os._exit(0 if x[0] == 1 and pickle.loads(pickle.dumps(x))[0] == 1 else 1)
    assert os.waitpid(pid, 0)[1] == 0 and x[0] == 0


# A process that shares an array, writes its handle to a file, and waits.
OWNER = """
import os, pickle, time, numpy as np, pagewise
x = pagewise.share(np.arange(1_000_000.0))
with pagewise.handles(): text = pickle.dumps(x)
os.write(1, text)
os.close(1)
time.sleep(120)
"""


@pytest.fixture
def owner():
    process = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
    yield process, process.stdout.read()
    process.kill()
    process.wait(20)


def end(process):
    process.send_signal(signal.SIGKILL)
    process.wait(20)


def test_a_killed_owner_leaves_what_others_have_and_the_last_of_them_frees_it(owner):
    process, text = owner
    x = pickle.loads(text)
    end(process)
    assert x.sum() == 499999500000.0 and pagewise.shared_info(x).processes == (os.getpid(),)
    y = pickle.loads(text)  # from this process: nobody else has it
    held = pagewise.shared_info(y).bytes
    assert held == 8_000_000
    del x, y
    with pytest.raises(pagewise.ShareError, match="is gone: process [0-9]+, which shared it"):
        pickle.loads(text)


def test_a_killed_worker_harms_nobody(owner):
    process, text = owner
    x = pickle.loads(text)
    program = "import pickle, sys, time; x = pickle.loads(sys.stdin.buffer.read()); x[:] = 0; print('written', flush=True); time.sleep(120)"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        worker.stdin.write(text)
        worker.stdin.close()
        said, processes = worker.stdout.readline(), pagewise.shared_info(x).processes
        worker.kill()
    assert said == b"written\n" and len(processes) == 3
    assert x.sum() == 499999500000.0
    assert set(pagewise.shared_info(x).processes) == {os.getpid(), process.pid}


def with_field(handle, name, value):
    """Return a handle with another value somewhere, and the check that belongs to it."""
    at, width = FIELD[name]
    changed = handle[:at] + value.to_bytes(width, "little") + handle[at + width : -8]
    check = 0xCBF29CE484222325
    for byte in changed:
        check = (check ^ byte) * 0x100000001B3 % 2**64
    return changed + check.to_bytes(8, "little")


def handle_of(array):
    with pagewise.handles():
        return _share._handle_of(array)


def test_damaged_handles_are_refused_and_nothing_crashes():
    x = pagewise.share(np.arange(100_000.0))
    handle, *rest = handle_of(x)
    for at in range(0, len(handle)):
        with pytest.raises(pagewise.ShareError, match="damaged"):
            _share._open(handle[:at] + bytes([handle[at] ^ 1]) + handle[at + 1 :], *rest)
    for cut in (0, 1, 79):
        with pytest.raises(pagewise.ShareError, match="damaged"):
            _share._open(handle[:cut], *rest)
    for number, words in (("user", "another user"), ("boot", "another machine"), ("token", "is gone")):
        with pytest.raises(pagewise.ShareError, match=words):
            _share._open(with_field(handle, number, 12345), *rest)
    assert (_share._open(with_field(handle, "sender_fd", 0), *rest) == x).all()  # found all the same


@pytest.mark.parametrize(
    "forged",
    [
        {"shape": (10**9,)},
        {"shape": (-5,)},
        {"shape": "x"},
        {"strides": (2**40,)},
        {"strides": (-8,)},
        {"offset": 2**62},
        {"offset": -8},
        {"offset": None},
        {"dtype": np.dtype(object)},
        {"dtype": "f8"},
        {"dtype": np.dtype([("a", object)])},
        {"handle": None},
        {"handle": b""},
    ],
    ids=str,
)
def test_a_forged_description_is_refused(forged):
    x = pagewise.share(np.arange(100_000.0))
    told = dict(zip(("handle", "dtype", "shape", "strides", "offset", "writeable"), handle_of(x)))
    with pytest.raises(pagewise.ShareError, match="damaged|forged"):
        _share._open(**{**told, **forged})


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_another_user_is_refused(owner):
    _, text = owner
    program = f"""
import os, pickle
os.setgid(65534); os.setuid(65534)
import pagewise
try: pickle.loads({text!r})
except pagewise.ShareError as error: print(error)
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if "Permission denied" in out.stderr or "ModuleNotFoundError" in out.stderr:
        pytest.skip("that user may not read this Python")
    assert "made by another user (number 0)" in out.stdout, out.stderr


def test_a_small_shm_is_not_asked():
    probe = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no namespace for mounts can be had")
    program = "import numpy as np, pagewise, pickle; x = pagewise.share(np.ones(4_000_000)); print(x.sum())"
    done = subprocess.run(
        [
            "unshare",
            "-m",
            "sh",
            "-c",
            'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"',
            "sh",
            sys.executable,
            "-c",
            program,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "4000000.0\n", done.stderr


def test_garbage_gives_its_descriptors_back_before_there_is_none():
    out = run_python(
        """
        import gc, pickle, resource, numpy as np, pagewise
        gc.disable()
        kept = pagewise.share(np.ones(10_000))
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        for i in range(200):
            cycle = [pagewise.share(np.full(10_000, i))]
            cycle.append(cycle)
        print(cycle[0].sum())
        """
    )
    assert out.stdout == "1990000\n", out.stderr


def test_no_memory_and_no_descriptor_are_errors_that_leave_everything_as_it_was():
    out = run_python(
        """
        import resource, numpy as np, pagewise
        x = np.ones(1_000_000)
        pagewise.share(x)
        for limit, words in (("RLIMIT_FSIZE", "could not be written"), ("RLIMIT_NOFILE", "no descriptor")):
            soft, hard = resource.getrlimit(getattr(resource, limit))
            resource.setrlimit(getattr(resource, limit), (3, hard))
            try: pagewise.share(x)
            except pagewise.ShareError as error: print(words in str(error), x.sum())
            resource.setrlimit(getattr(resource, limit), (soft, hard))
        print(pagewise.share(x).sum())
        """
    ).stdout
    assert out == "True 1000000.0\nTrue 1000000.0\n1000000.0\n"


def test_a_reason_that_a_newer_library_has():
    with pytest.raises(pagewise.ShareError, match=r"does not know \(99\).*same version"):
        _share._check(99)


LARGER_PAGES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/auxv.h>
unsigned long getauxval(unsigned long type) {
    unsigned long (*next)(unsigned long) = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");
    return type == AT_PAGESZ ? 65536 : next(type);
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
def test_a_kernel_with_larger_pages_is_named_as_what_is_in_the_way(tmp_path):
    source, library = tmp_path / "larger_pages.c", tmp_path / "larger_pages.so"
    source.write_text(LARGER_PAGES)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    program = "import numpy, pagewise; pagewise.share(numpy.ones(1_000_000))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=dict(os.environ, LD_PRELOAD=str(library)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ShareError: nothing can be shared here" in done.stderr
    assert "pages of 4 KB" in done.stderr and "getconf PAGESIZE" in done.stderr


def inside_a_block(obj, protocol, take):
    with pagewise.handles():
        return pickle.dumps(obj, protocol, buffer_callback=take)


def as_multiprocessing_sends_it(obj, protocol, take):
    pagewise.share(np.ones(9000))
    text = io.BytesIO()
    reduction.ForkingPickler(text, protocol, True, take).dump(obj)
    return text.getvalue()


def pickled_and_read(dumps, obj, protocol):
    """Return what is read again, and how many of its buffers stayed outside of the pickle."""
    outside = []
    text = dumps(obj, protocol, outside.append if protocol == 5 else None)
    assert b"pagewise" not in text
    return pickle.loads(text, buffers=outside), len(outside)


NOT_SHARED = {
    "other byte order": np.arange(900).astype(">f8"),
    "not to be written": np.frombuffer(bytes(9000)),
    "columns first": np.asfortranarray(np.ones((30, 40))),
    "axes in another order": np.ones((4, 50, 6)).transpose(1, 0, 2),
    "gaps": np.ones((60, 80))[::2, ::3],
    "no dimension": np.array(3.0),
    "nothing in it": np.zeros((0, 5)),
    "text": np.array(["a", "bc"]),
    "dates": np.arange("2020", "2022", dtype="M8[D]"),
    "records": np.zeros(500, dtype=[("a", ">i4"), ("b", "M8[s]")]),
    "objects": np.array(["a", None, 3], dtype=object),
    "records of objects": np.zeros(5, dtype=[("a", object), ("b", "f8")]),
    "matrix": np.ones((30, 40)).view(np.matrix),
    "recarray": np.rec.array(np.zeros(500, dtype=[("a", "i4"), ("b", "f8")])),
    "masked": np.ma.masked_array(np.arange(900), np.arange(900) % 2),
    "memmap": np.memmap(os.__file__, np.uint8, "r"),
}


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("door", [inside_a_block, as_multiprocessing_sends_it])
@pytest.mark.parametrize("kind", NOT_SHARED)
def test_what_is_not_shared_is_pickled_by_each_protocol_as_without_pagewise(kind, door, protocol, monkeypatch):
    array = NOT_SHARED[kind]
    plain, outside = pickled_and_read(lambda *a: pickle.dumps(*a[:2], buffer_callback=a[2]), array, protocol)
    for default in (4, 5):  # of Python 3.9 to 3.13, and of 3.14
        monkeypatch.setattr(pickle, "DEFAULT_PROTOCOL", default)
        got, outside_too = pickled_and_read(door, array, protocol)
        assert type(got) is type(plain) and got.dtype.descr == plain.dtype.descr and got.tolist() == plain.tolist()
        assert got.shape == plain.shape and got.strides == plain.strides and str(got.flags) == str(plain.flags)
        assert outside == outside_too


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("door", [inside_a_block, as_multiprocessing_sends_it])
def test_an_array_that_is_not_shared_is_one_object_wherever_it_stands(door, protocol):
    x, around = np.ones(900), np.empty(3, object)
    around[:2] = [x, around]
    (first, second, again), _ = pickled_and_read(door, [x, x, around], protocol)
    assert first is second and again[0] is first and again[1] is again


def test_nothing_changes_for_arrays_that_are_not_shared():
    x = np.arange(10_000)
    before = pickle.dumps(x)
    kept = pagewise.share(np.ones(10_000))
    sent = bytes(reduction.ForkingPickler.dumps(x))
    assert (pickle.loads(sent) == x).all() and len(sent) < len(before) + 100 and kept.size == 10_000
    with pagewise.handles(False):
        assert len(bytes(reduction.ForkingPickler.dumps(kept))) > kept.nbytes
    assert len(bytes(reduction.ForkingPickler.dumps(kept))) < 400


def test_two_threads_share_and_read_at_once():
    out = run_python(
        """
        import pickle, threading, numpy as np, pagewise
        bad = []
        def work(number):
            for i in range(100):
                x = pagewise.share(np.full(2000, number * 1000 + i))
                with_handle = pickle.loads(pickle.dumps(x))
                if not (x == number * 1000 + i).all() or not (with_handle == x).all():
                    bad.append(number)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        [t.start() for t in threads]; [t.join() for t in threads]
        print(bad)
        """
    ).stdout
    assert out == "[]\n"


# Two threads where it matters who is first: each goes on when the other is where it must be, and no time is waited for.
IMPORTING = """
import importlib._bootstrap, multiprocessing.reduction, sys, threading, time, numpy as np, pagewise
sys.path.insert(0, FOLDER)
sys.begun, sys.go = threading.Event(), threading.Event()
importer = threading.Thread(target=__import__, args=(MODULE,))
importer.start()
sys.begun.wait()
x, errors = [], []
def share():
    try: x.append(pagewise.share(np.ones(9000)))
    except Exception as error: errors.append(error)
sharer = threading.Thread(target=share)
sharer.start()
def waits():
    frame = sys._current_frames().get(sharer.ident)
    return frame is not None and frame.f_code.co_name == "acquire" and "importlib" in frame.f_code.co_filename
while sharer.is_alive() and not waits():
    time.sleep(0.001)
sys.go.set()
sharer.join(); importer.join()
print(errors, CHECK)
"""


@pytest.mark.parametrize(
    ("module", "text", "check"),
    [
        (
            "joblib._memmapping_reducer",
            "class ArrayMemmapForwardReducer:\n    def __call__(self, array): return None\n",
            "sys.modules[MODULE].ArrayMemmapForwardReducer()(x[0])[0].__name__",
        ),
        (
            "loky.backend.reduction",
            "def register(*what): globals().update(got=what[1].func.__name__)\n",
            "sys.modules[MODULE].got",
        ),
    ],
    ids=["joblib", "loky"],
)
def test_what_another_thread_is_importing_sends_handles_as_well(module, text, check, tmp_path):
    file = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True)
    for folder in list(file.relative_to(tmp_path).parents)[:-1]:
        (tmp_path / folder / "__init__.py").write_text("")
    file.write_text("import sys\nsys.begun.set(); sys.go.wait()\n" + text)
    program = IMPORTING.replace("FOLDER", repr(str(tmp_path))).replace("CHECK", check).replace("MODULE", repr(module))
    assert run_python(program, timeout=60).stdout == f"[] {'_open' if 'joblib' in module else '_reduce'}\n"


def test_a_forked_child_keeps_its_own_block_of_handles_and_no_other_threads():
    out = run_python(
        """
        import os, pickle, threading, numpy as np, pagewise
        x = pagewise.share(np.ones(9000))
        entered, leave = threading.Event(), threading.Event()
        def of_another_thread():
            with pagewise.handles():
                entered.set(); leave.wait()
        def in_child():
            if os.fork() == 0:
                print(len(pickle.dumps(x)) < 9000, end=" ", flush=True)
                os._exit(0)
            os.wait()
        other = threading.Thread(target=of_another_thread)
        other.start(); entered.wait()
        in_child()
        with pagewise.handles():
            in_child()
        leave.set(); other.join()
        """,
        warnings="ignore",  # of a fork beside threads
    ).stdout
    assert out == "False True "


def test_a_second_thread_finds_done_what_the_first_began():
    out = run_python(
        """
        import threading, multiprocessing.reduction as reduction, numpy as np, pagewise
        from pagewise import _share
        inside, second_is_there, calls, seen = threading.Event(), threading.Event(), [], []
        first, register, lock = threading.current_thread(), reduction.ForkingPickler.register, _share._lock
        class Lock:
            def __enter__(self):
                if threading.current_thread() is not first: second_is_there.set()
                return lock.__enter__()
            def __exit__(self, *why): return lock.__exit__(*why)
        def slow(*what):
            calls.append(what[0])
            if len(calls) == 1:
                other.start()
                second_is_there.wait()
            register(*what)
        def second():
            _share._send_handles()
            seen.append(np.ndarray in reduction.ForkingPickler._extra_reducers)
            second_is_there.set()
        _share._lock, reduction.ForkingPickler.register = Lock(), slow
        other = threading.Thread(target=second)
        _share._send_handles()
        other.join()
        print(seen, len(calls))
        """,
        timeout=60,
    ).stdout
    assert out == "[True] 1\n"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_nothing_stays_of_blocks_of_handles_that_threads_leave_in_any_order(order):
    x = pagewise.share(np.ones(9000))
    blocks = [pagewise.handles(), pagewise.handles()]
    for block in blocks:
        block.__enter__()
    blocks[order[0]].__exit__(None, None, None)
    assert len(pickle.dumps(x)) < 400
    blocks[order[1]].__exit__(None, None, None)
    assert len(pickle.dumps(x)) > x.nbytes
    with pagewise.handles():
        with pagewise.handles(False):
            assert len(pickle.dumps(x)) > x.nbytes
        assert len(pickle.dumps(x)) < 400


def test_a_block_of_handles_bears_that_another_library_took_its_entry_away():
    x = pagewise.share(np.ones(9000))
    with pagewise.handles():
        copyreg.dispatch_table.pop(np.ndarray)
    with pagewise.handles():
        assert len(pickle.dumps(x)) < 400
    assert np.ndarray not in copyreg.dispatch_table


def test_a_daemon_that_closed_its_descriptors_sends_the_data():
    out = run_python(
        """
        import os, pickle
        import numpy as np, pagewise
        x = pagewise.share(np.arange(9000.0))
        os.closerange(3, 4096)
        with pagewise.handles():
            text = pickle.dumps(x)
        print(len(text) > x.nbytes, bool((pickle.loads(text) == np.arange(9000.0)).all()))
        """
    )
    assert out.stdout == "True True\n"


def test_what_another_thread_drops_meanwhile_stays_mapped_until_it_is_told_of():
    out = run_python(
        """
        import numpy as np, pagewise
        from pagewise import _share
        def is_mapped():
            with open("/proc/self/maps", encoding="utf-8") as maps:
                return "pagewise-shared" in maps.read()
        arrays = {"x": pagewise.share(np.ones(100_000))}
        find, seen = _share._view_at, []
        def find_and_drop(*where):
            found = find(*where)
            arrays.clear()  # as another thread may do at any time
            seen.append(is_mapped())
            return found
        _share._view_at = find_and_drop
        print(pagewise.shared_info(arrays).parts, seen, is_mapped())
        """
    ).stdout
    assert out == "1 [True] False\n"


# Shared memory that becomes garbage within a cycle. Python calls what reads it at its end, and then breaks the cycle.
IN_A_CYCLE = """
import gc, os, pickle, numpy as np, pagewise
class Model:
    def __init__(self, data): self.data = data
    def __reduce_ex__(self, protocol): return type(self), (pickle.PickleBuffer(self.data),)
class Read(Model):
    def __del__(self): print(bytes(self.data[:4]), flush=True)
class Kept(Model):
    def __del__(self): kept.append(self.data)
kept = []
def reader(data):
    try: yield
    finally: print(bytes(data[:4]), flush=True)
def is_mapped():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return "pagewise-shared" in maps.read()
def shared_in_a_cycle(kind):
    model = pagewise.share(Model(bytearray(b"abcd" * 100_000)))
    model.itself, model.__class__ = model, kind
    return model
"""


@pytest.mark.parametrize(
    "make",
    [
        "model = shared_in_a_cycle(Read)",
        "model = shared_in_a_cycle(Model); model.reader = reader(model.data); next(model.reader)",
    ],
    ids=["__del__", "finally"],
)
def test_what_is_collected_can_be_read_to_its_end_and_is_then_given_back(make):
    program = IN_A_CYCLE + make + "\nprint(is_mapped()); del model; gc.collect(); print(is_mapped())"
    assert run_python(program).stdout == "True\nb'abcd'\nFalse\n"


def test_so_it_is_in_a_forked_child():
    program = (
        IN_A_CYCLE
        + "model = shared_in_a_cycle(Read)\nif os.fork(): os.wait()\ndel model; gc.collect(); print(is_mapped())"
    )
    assert run_python(program).stdout == "b'abcd'\nFalse\n" * 2


def test_what_was_rescued_from_a_collection_lives_on():
    program = (
        IN_A_CYCLE + "model = shared_in_a_cycle(Kept)\ndel model; gc.collect(); print(is_mapped(), bytes(kept[0][:4]))"
    )
    assert run_python(program + "\nkept.clear(); print(is_mapped())").stdout == "True b'abcd'\nFalse\n"


def test_below_a_shared_array_is_nothing_that_reads_its_memory_and_does_not_keep_it():
    found = [pagewise.share(np.ones(10_000))]
    while hasattr(found[-1], "base") or hasattr(found[-1], "obj"):
        found.append(found[-1].base if hasattr(found[-1], "base") else found[-1].obj)
    assert type(found[-2]) is np.ndarray and found[-2].nbytes == 80_000
    assert np.asarray(found[-1]).dtype == object


@pytest.mark.parametrize(
    "close", ["os.close(number)", "os.dup2(other.fileno(), number)"], ids=["closed", "another file's"]
)
def test_what_the_program_has_closed_is_opened_again_from_who_has_it(close, owner):
    process, text = owner
    out = run_python(
        f"""
        import os, pickle, pagewise
        def descriptors():
            links = {{int(name): os.path.realpath("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd")}}
            return [number for number, link in links.items() if "pagewise-shared" in link]
        text, other = {text!r}, open(os.devnull)
        x = pickle.loads(text)
        number, = descriptors()
        {close}
        y = pickle.loads(text)
        print(x[5], y[5], len(descriptors()), pagewise.shared_info([x, y]).changed)
        del x
        z = pickle.loads(text)
        print(y[6], z[6], len(descriptors()), set(pagewise.shared_info([y, z]).processes) == {{{process.pid}, os.getpid()}})
        del y, z
        print(len(descriptors()), os.path.realpath("/proc/self/fd/%d" % number).replace("/proc/%d/fd/%d" % (os.getpid(), number), "closed"))
        """
    ).stdout
    left = "closed" if "close" in close else os.devnull
    assert out == f"5.0 5.0 1 0\n6.0 6.0 1 True\n0 {left}\n"


def test_nothing_of_the_original_is_kept():
    x = np.ones(10_000)
    original = weakref.ref(x)
    kept = pagewise.share({"x": x})
    del x
    assert original() is None and kept["x"].sum() == 10_000


def test_many_small_arrays_leave_mappings_to_the_rest_of_the_program():
    out = run_python(
        """
        import pickle, numpy as np, pagewise
        with open("/proc/sys/vm/max_map_count") as file:
            most = min(16_000, int(file.read()) // 4)
        def mappings():
            with open("/proc/self/maps") as maps:
                return sum("pagewise-shared" in line for line in maps)
        def sound(arrays):
            return all((x == i).all() and x.flags.writeable for i, x in enumerate(arrays))
        shared = pagewise.share([np.full(512, float(i)) for i in range(most + 500)])
        print(mappings() == most, pagewise.shared_info(shared).parts == most, sound(shared))
        # What comes now is right, and is a copy: by share(), by handle, by name.
        name = pagewise.shared_name(shared[7])
        with pagewise.handles():
            text = pickle.dumps(shared[:20])
        copies = [pagewise.share(shared[:20]), pickle.loads(text)]
        named = pagewise.map_shared(name)
        print(len(text) < 20 * 4096, all(map(sound, copies)), (named == 7).all() and named.flags.writeable)
        copies[1][3][:] = named[:] = -1
        print(mappings() == most, pagewise.shared_info(copies + [named]).parts, sound(shared))
        del shared[:100]
        again = pagewise.share([np.full(512, float(i)) for i in range(20)])
        print(pagewise.shared_info(again).parts, sound(again))
        """
    ).stdout
    assert out == "True True True\nTrue True True\nTrue 0 True\n20 True\n"


def test_what_may_not_be_written_stays_so_in_copies(monkeypatch):
    x = np.arange(5000)
    x.flags.writeable = False
    text = handle_pickle(pagewise.share(x))
    kept = pagewise.share(x)
    monkeypatch.setattr(_share, "_most_views", lambda: 0)
    for copy in (pagewise.share(x), pickle.loads(handle_pickle(kept))):
        assert not copy.flags.writeable and (copy == x).all() and pagewise.shared_info(copy).parts == 0
    with pytest.raises(pagewise.ShareError, match="is gone"):
        pickle.loads(text)


@pytest.mark.parametrize(
    ("told", "most"), [("65530\n", 16_000), ("4000\n", 1000), ("2000000", 16_000), ("?", 16_000), (None, 16_000)]
)
def test_where_fewer_mappings_are_to_be_had_views_take_a_quarter(told, most, tmp_path, monkeypatch):
    file = tmp_path / "max_map_count"
    if told is not None:
        file.write_text(told)
    monkeypatch.setattr(_share, "MAPPINGS", str(file))
    assert _share._most_views.__wrapped__() == most


def test_arrays_that_live_until_the_end_are_no_crash():
    out = run_python(
        "import numpy as np, pagewise\nkept = [pagewise.share(np.ones(9000)) for _ in range(20)]\nprint(len(kept))\n"
    )
    assert out.stdout == "20\n" and out.stderr == ""


def test_the_time_to_hand_over_does_not_grow_with_the_data():
    x = pagewise.share(np.ones(20_000_000))
    start = time.perf_counter()
    for _ in range(20):
        handle_pickle(x)
    assert (time.perf_counter() - start) / 20 < 0.05
