"""pyarrow and polars beside Pagewise: their memory is their own, and pyarrow keeps no array of NumPy's from sharing.

pandas imports pyarrow where it is installed, so the packages are where these tests alone see them (beside.py).
"""

import beside
import pytest
from conftest import WAYS, run_python

CALM = {"warnings": "ignore"}
TOLD = """
import numpy as np, pagewise
def told(array):
    before = pagewise.report().statistics["copies_shared"]
    copies = [array.copy() for _ in range(4)]
    return pagewise.cost(array).managed, pagewise.report().statistics["copies_shared"] - before
"""


def needs(*packages):
    lacking = [package for package in packages if not beside.has(package)]
    return pytest.mark.skipif(bool(lacking), reason=f"not installed: {', '.join(lacking)}")


@pytest.fixture(autouse=True)
def packages_are_seen(monkeypatch):
    for name, value in beside.environment().items():
        monkeypatch.setenv(name, value)


@needs("pyarrow")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("strings", [False, True])
def test_copies_of_a_frame_share_where_pandas_has_pyarrow(way, strings):
    out = run_python(
        f"""
        import numpy as np, pandas as pd, pagewise, sys
        columns = {{f"c{{i}}": np.ones(1_000_000) for i in range(5)}} | ({{"s": ["x"] * 1_000_000}} if {strings} else {{}})
        frame = pd.DataFrame(columns)
        versions = [frame.copy() for _ in range(10)]
        cost = pagewise.cost([version["c1"].to_numpy() for version in versions])
        print("pyarrow" in sys.modules, cost.bytes, cost.own < cost.bytes / 10)
        """,
        way=way,
        **CALM,
    ).stdout
    assert out.split() == ["True", "80000000", "True"]


@needs("pyarrow")
def test_switching_on_when_pandas_is_there_comes_early_enough():
    out = run_python(
        TOLD
        + """
import pandas, sys
pagewise.on()
print("pyarrow" in sys.modules, told(np.ones(4_000_000)))
""",
        **CALM,
    ).stdout
    assert out == "True (32000000, 4)\n"


@needs("pyarrow")
@pytest.mark.parametrize("way", WAYS)
def test_a_thread_of_pyarrows_pool_ends_sharing(way):
    out = run_python(
        TOLD
        + """
import pyarrow, pyarrow.compute
table = pyarrow.table({str(i): np.arange(1_000_000) for i in range(8)})
table.sort_by("0"), pyarrow.compute.sum(table["1"]), table.to_pandas()
print(told(np.ones(4_000_000))[1])
""",
        way=way,
        **CALM,
    ).stdout
    assert out == "0\n"


@needs("pyarrow")
@pytest.mark.parametrize("way", WAYS)
def test_what_pyarrow_holds_is_never_shared(way):
    out = run_python(
        TOLD
        + """
import pyarrow
for pool in pyarrow.default_memory_pool(), pyarrow.system_memory_pool():
    buffer = pyarrow.allocate_buffer(8_000_000, memory_pool=pool)
    print(told(np.frombuffer(buffer, dtype=float))[1])
print(told(np.ones(1_000_000))[1])
""",
        way=way,
        options="policy=share",
        **CALM,
    ).stdout
    assert out.split() == ["0", "0", "4"]


@needs("polars")
@pytest.mark.parametrize("way", WAYS)
def test_what_polars_holds_does_not_come_to_us(way):
    out = run_python(
        TOLD
        + """
import polars
series = polars.Series(np.arange(1_000_000, dtype=float)) * 2
print(told(series.to_numpy()))
""",
        way=way,
        options="policy=share",
        **CALM,
    ).stdout
    assert out == "(0, 0)\n"
