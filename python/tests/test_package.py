"""What a user of the package sees."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import COMMAND, WAYS, needs_free_threading, needs_lock, run_python

import pagewise

SIZE = 4_000_000  # of doubles: 32 MB


@pytest.fixture(autouse=True)
def switched_off():
    yield
    pagewise.off()


def in_a_process(program, **more):
    return run_python(program, **more).stdout.split()


def test_a_copy_shares_its_pages_and_a_write_costs_one():
    out = in_a_process(
        """
        import numpy as np, pagewise
        print(pagewise.on())
        x = np.arange(4_000_000, dtype=float)
        y = x.copy()
        print((y == x).all(), pagewise.cost(y).own < 100_000, pagewise.cost(y).shared > 31_000_000)
        y[1000] = -1
        print(x[1000], y[1000], (y[1001:] == x[1001:]).all(), pagewise.cost(y).own < 100_000)
        print(pagewise.report().statistics["copies_shared"], pagewise.off())
        """
    )
    assert out == ["False", "True", "True", "True", "1000.0", "-1.0", "True", "True", "1", "True"]


def test_threads_that_openblas_began_before_are_ended_and_no_child_is_left():
    out = in_a_process(
        """
        import os, numpy as np
        np.linalg.svd(np.ones((200, 200)))
        import pagewise
        pagewise.on()
        print(len(os.listdir("/proc/self/task")))
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            print("none")
        print(float((np.ones((300, 300)) @ np.ones((300, 300))).sum()))
        """
    )
    assert out == ["1", "none", "27000000.0"]


def test_what_is_imported_later_is_served():
    out = in_a_process(
        """
        import pagewise
        pagewise.on()
        import numpy as np
        x = np.ones(4_000_000)
        print(pagewise.cost(x.copy()).managed)
        """
    )
    assert out == [str(SIZE * 8)]


def test_versions_of_a_frame_share():
    out = in_a_process(
        """
        import numpy as np, pandas as pd, pagewise
        pagewise.on()
        frame = pd.DataFrame(np.random.default_rng(1).random((500_000, 8)))
        versions = [frame]
        for i in range(5):
            versions.append(versions[-1].copy())
            versions[-1].loc[i, 0] = -1.0
        cost = pagewise.cost(versions)
        print(cost.bytes, cost.own < cost.bytes / 10, [float(v.loc[2, 0]) for v in versions].count(-1.0))
        """
    )
    assert out == [str(6 * 500_000 * 8 * 8), "True", "3"]


def test_pools_of_blas_and_openmp_keep_nobody_from_sharing():
    out = in_a_process(
        """
        import numpy as np, pagewise
        np.linalg.svd(np.ones((200, 200)))  # its threads began before
        pagewise.on()
        import sklearn.ensemble, scipy.linalg
        sklearn.ensemble.HistGradientBoostingClassifier(max_iter=2).fit(np.eye(200), [0, 1] * 100)
        scipy.linalg.svd(np.ones((200, 200)))
        x = np.ones(4_000_000)
        y = x.copy()
        print(pagewise.report().statistics["copies_shared"] >= 1, pagewise.cost(y).own < 100_000)
        """,
        warnings="default",
    )
    assert out == ["True", "True"]


def test_beside_a_thread_a_copy_is_a_copy_and_the_report_says_so():
    out = run_python(
        """
        import threading, numpy as np, pagewise
        pagewise.on()
        x = np.ones(4_000_000)
        end = threading.Event()
        thread = threading.Thread(target=end.wait)
        thread.start()
        y = x.copy()
        end.set(); thread.join()
        print(pagewise.cost(y).own > 31_000_000)
        print(pagewise.report())
        """
    ).stdout
    assert out.startswith("True\n")
    assert "threads" in out and "others may be writing to memory" in out


@pytest.mark.parametrize("wanted", ["1", "0"])
def test_numpys_advice_of_huge_pages_stays_on_its_arrays(wanted, monkeypatch):
    with open("/sys/kernel/mm/transparent_hugepage/enabled") as file:
        if "[never]" in file.read():
            pytest.skip("this machine has no transparent huge pages")
    monkeypatch.setenv("NUMPY_MADVISE_HUGEPAGE", wanted)
    out = in_a_process(
        """
        import numpy as np, pagewise
        pagewise.on(huge="off")  # what Pagewise itself would advise
        arrays = [np.ones(4_000_000) for _ in range(3)]
        def is_advised(address):
            inside = False
            with open("/proc/self/smaps") as file:
                for line in file:
                    first = line.split()[0]
                    if "-" in first and not first.endswith(":"):
                        start, end = (int(word, 16) for word in first.split("-"))
                        inside = start <= address < end
                    elif inside and first == "VmFlags:":
                        return "hg" in line.split()
        print(*(is_advised(array.ctypes.data + array.nbytes // 2) for array in arrays), pagewise.cost(arrays).managed)
        """
    )
    assert out == [str(wanted == "1")] * 3 + [str(3 * SIZE * 8)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pool", ["joblib", "spawn", "fork"])
def test_the_first_copy_in_a_worker_of_joblibs_is_plain_and_the_next_ones_share(way, pool):
    out = run_python(
        f"""
        import concurrent.futures, multiprocessing, pagewise
        def work(switch):
            import numpy as np, pagewise
            if switch:
                pagewise.on()
            x = np.ones(4_000_000)
            copies = [x.copy() for _ in range(3)]
            return [pagewise.cost(copy).own < 100_000 for copy in copies]
        if __name__ == "__main__":
            if {pool!r} == "joblib":
                from joblib import Parallel, delayed
                print(*Parallel(n_jobs=2)([delayed(work)({way == "on"})])[0])
            else:
                context = multiprocessing.get_context({pool!r})
                with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
                    print(*pool.submit(work, {way == "on"}).result())
        """,
        way="run" if way == "run" else "plain",
        warnings="ignore",
    ).stdout
    assert out.split() == [str(pool != "joblib"), "True", "True"]


@needs_lock
def test_enabled_comes_back_to_what_was():
    assert not pagewise.is_on()
    with pagewise.enabled(threshold="64K"):
        assert pagewise.is_on()
        assert pagewise.report().options == {"policy": "auto", "threshold": "64K"}
        with pagewise.enabled("share"):
            assert pagewise.report().policy == "share"
        assert pagewise.report().options == {"policy": "auto", "threshold": "64K"}
    assert not pagewise.is_on()


@needs_lock
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"thresold": 1}, "no option 'thresold'. There are: brief"),
        ({"threshold": "3"}, '`threshold` is a size from 8K to 1G, such as "64K"'),
        ({"decay": 1.5}, "`decay` is whole seconds"),
        ({"threshold": "8K,policy=plain"}, "`threshold` is a size"),
        ({"policy": "plain"}, "Type: pagewise.off()"),
        ({"policy": "general"}, "pagewise run --policy general -- python script.py"),
        ({"policy": "best"}, "Policies are auto, share, huge."),
    ],
)
def test_a_mistake_is_an_exception_that_says_what_to_type(arguments, words):
    with pytest.raises(pagewise.OptionError) as error:
        pagewise.on(**arguments)
    assert words in str(error.value)
    assert isinstance(error.value, ValueError) and isinstance(error.value, pagewise.PagewiseError)
    assert not pagewise.is_on()


def test_a_python_without_its_lock_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(pagewise.PagewiseError, match="pagewise run -- python script.py"):
        pagewise.on()
    assert not pagewise.is_on()


@needs_free_threading
def test_a_free_threaded_python_refuses_on_and_the_rest_works():
    out = in_a_process(
        """
        import numpy as np, pagewise
        for door in (pagewise.on, pagewise.enabled().__enter__):
            try:
                door()
            except pagewise.PagewiseError as error:
                print("pagewise run -- python script.py" in str(error), pagewise.is_on(), pagewise.off())
        x = pagewise.share(np.ones(4_000_000))
        with pagewise.curve(0.01) as memory:
            y = x.copy()
        print(pagewise.shared_info(x).parts, pagewise.cost(y).managed, y.sum(), memory.peak > 0)
        print(str(pagewise.report()).splitlines()[0].split()[2])
        """,
        lock=False,
    )
    assert out == [*["True", "False", "False"] * 2, "1", "0", "4000000.0", "True", "off"]


@needs_free_threading
def test_a_free_threaded_python_shares_under_the_command_and_may_switch():
    out = in_a_process(
        """
        import sys, threading, numpy as np, pagewise
        x = np.ones(4_000_000)
        y = x.copy()
        print(sys._is_gil_enabled(), pagewise.cost(y).own < 100_000)
        end = threading.Event()
        thread = threading.Thread(target=end.wait)
        thread.start()
        y = x.copy()
        print(pagewise.cost(y).own > 31_000_000)
        end.set(); thread.join()
        print(pagewise.off(), pagewise.on("share"))
        y = x.copy()
        print(pagewise.cost(y).own < 100_000)
        """,
        way="run",
        lock=False,
    )
    assert out == ["False", "True", "True", "True", "False", "True"]


@needs_lock
def test_a_report_is_text_a_dictionary_a_frame_and_a_table():
    with pagewise.enabled():
        kept = np.ones(SIZE).copy()
        report = pagewise.report()
    assert kept.size == SIZE
    assert str(report).startswith("Pagewise 0.2.0: on, policy auto, for NumPy and what is built on it\n")
    assert report.to_dict()["statistics"]["blocks_allocated"] >= 2
    frame = report.to_frame()
    assert list(frame.columns) == ["name", "value", "meaning"]
    assert "blocks taken over from the C library" in set(frame.meaning)
    assert "<table>" in report._repr_html_() and "copies" in report._repr_html_()
    assert str(pagewise.report()).startswith("Pagewise 0.2.0: off")


def test_a_cost_counts_views_once_and_strides_whole():
    x = np.ones(SIZE)
    one, views = pagewise.cost(x), pagewise.cost([x, x[::-1], x[: SIZE // 2], x.reshape(2000, 2000).T])
    assert (one.bytes, one.arrays, views.bytes, views.arrays) == (SIZE * 8, 1, SIZE * 8, 4)
    assert abs(views.own + views.shared - one.own - one.shared) < 10_000
    assert pagewise.cost(np.zeros(SIZE)).absent > 31_000_000
    assert pagewise.cost(np.zeros((0, 5))).bytes == 0
    assert pagewise.cost({"a": x, "name": "b"}).bytes == SIZE * 8
    assert "32.0 MB in 1 array" in str(one) and "<table>" in one._repr_html_()
    with pytest.raises(TypeError, match="not of int"):
        pagewise.cost(3)


@pytest.mark.parametrize("function", [pagewise.cost, pagewise.shared_info])
def test_what_has_no_arrays_is_refused_with_what_to_type(function):
    class Holder:
        def __init__(self):
            self.data = np.ones(5000)

    name = function.__name__
    with pytest.raises(TypeError, match=rf"^{name}\(\) is .*, not of int.* pagewise\.{name}\(\[x, y\]\)$"):
        function(5)
    with pytest.raises(TypeError, match=rf"^{name}\(\) is .*, not of Holder.* pagewise\.{name}\(vars\(obj\)\)$"):
        function(Holder())
    assert pagewise.cost(vars(Holder())).bytes == 40_000


def test_a_range_of_pandas_is_not_made_into_an_array():
    pandas = pytest.importorskip("pandas")
    assert pagewise.cost([pandas.RangeIndex(10**12), pandas.Series(np.ones(5000))]).bytes == 40_000


class Exporting:
    """An object that says of itself where its array lies."""

    def __init__(self, **interface):
        self.__array_interface__ = interface


def test_a_cost_is_of_whatever_says_that_it_is_an_array():
    x = np.ones(SIZE)
    bare = {name: x.__array_interface__[name] for name in ("data", "shape", "typestr", "version")}
    assert pagewise.cost(Exporting(**bare)).bytes == SIZE * 8
    assert pagewise.cost(Exporting(data=b"x" * 5000, shape=(5000,), typestr="|u1", version=3)).bytes == 5000
    with pytest.raises(TypeError, match="Exporting is no array, although it says so"):
        pagewise.cost(Exporting(data=5))


def test_a_cost_of_what_contains_itself_ends():
    around = [np.ones(SIZE)]
    around.extend([around, around, {"again": around}])
    assert pagewise.cost(around).bytes == SIZE * 8
    deep = around
    for _ in range(3000):
        deep = [deep]
    assert pagewise.cost([deep, around]).arrays == pagewise.cost([around, deep]).arrays == 1


def test_a_curve_sees_memory_come_and_go():
    with pagewise.curve(0.01) as memory:
        x = np.ones(10_000_000)
        end = memory._start
        import time

        while time.clock_gettime(time.CLOCK_MONOTONIC) < end + 0.5:
            time.sleep(0.01)
    assert memory.peak - memory.bytes[0] > 0.9 * x.nbytes
    assert list(memory.to_frame().columns) == ["seconds", "bytes"]
    assert "samples in" in str(memory)


@pytest.mark.parametrize("interval", [0, -1, float("nan"), "a", None])
def test_a_curve_needs_an_interval(interval):
    with pytest.raises(ValueError, match=r"above 0, not .*pagewise\.curve\(0\.05\)"):
        pagewise.curve(interval)


def test_a_curve_has_no_peak_before_its_block_has_ended():
    with pytest.raises(pagewise.PagewiseError, match=r"no samples yet.* with pagewise\.curve\(\) as memory"):
        _ = pagewise.curve().peak
    with pagewise.curve(np.float32(0.5)) as memory:
        with pytest.raises(pagewise.PagewiseError, match="no samples yet"):
            _ = memory.peak
    assert memory.peak > 0


def test_the_magic_runs_a_cell_and_says_what_it_saved():
    out = run_python(
        """
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell(history_length=0)
        shell.history_manager.enabled = False
        shell.run_line_magic("load_ext", "pagewise")
        shell.run_cell_magic("pagewise", "threshold=64K", "import numpy as np\\nx = np.ones(4_000_000)\\ny = x.copy()")
        import pagewise
        print(pagewise.is_on(), shell.user_ns["y"].sum())
        """,
        warnings="default",
        lock=True,
    ).stdout
    assert "copies share their pages" in out or "a copy is a copy" in out
    assert out.splitlines()[-1] == "False 4000000.0"


def test_a_curve_is_drawn_and_says_what_is_missing(monkeypatch):
    with pagewise.curve(0.01) as memory:
        kept = np.ones(SIZE)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(ImportError, match="pip install matplotlib"):
            memory.plot()
    pytest.importorskip("matplotlib").use("Agg")
    axes = memory.plot(color="red")
    (line,) = axes.lines
    assert kept.size == SIZE and line.get_color() == "red"
    np.testing.assert_allclose(line.get_ydata() * 1e6, memory.bytes)
    assert memory.plot(axes) is axes and len(axes.lines) == 2


NOTEBOOK = [
    "%load_ext pagewise\nimport numpy as np, pagewise",
    "%%pagewise threshold=64K\nx = np.ones(4_000_000)\nversions = [x.copy() for _ in range(3)]",
    "pagewise.report()",
    "pagewise.cost(versions)",
    "pagewise.shared_info(pagewise.share(x))",
    "float(sum(version.sum() for version in versions))",
    "%%pagewise\nraise KeyError('mine')",
]


def test_a_notebook_runs_and_shows_tables():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in NOTEBOOK])
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="KeyError"):  # "run all" stops there
        nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    load, shared, *tables, total, _ = [cell.outputs for cell in notebook.cells]
    assert load == []
    said = "".join(output.text for output in shared if output.output_type == "stream")
    assert "of 3 copies share their pages" in said or "a copy is a copy" in said
    for (output,), words in zip(tables, ("Pagewise 0.2.0: off", "96.0 MB in 3 arrays", "32.0 MB shared in 1 part")):
        assert "<table>" in output.data["text/html"] and words in output.data["text/html"]
        assert output.data["text/plain"].startswith(words)
    assert total[0].data["text/plain"] == "12000000.0"


def test_the_command_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "pagewise", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pagewise ")


def test_a_program_runs_under_the_module_as_under_the_command():
    program = "import sys, numpy as np, pagewise; x = np.ones(4_000_000); y = x.copy(); print(pagewise.cost(y).own < 100_000); sys.exit(7)"
    command = [sys.executable, "-m", "pagewise", "run", "--", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, "True\n"), done.stderr
    assert done.stderr.startswith("pagewise: ") and done.stderr.count("\n") == 1


def test_under_the_command_the_process_is_served_and_the_package_says_so():
    out = subprocess.run(
        [COMMAND, "run", "--quiet", "--", sys.executable, "-c", "import pagewise; print(pagewise.report())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "for the whole process (pagewise run)" in out
