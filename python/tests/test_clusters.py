"""Shared arrays in workers of Dask and of Ray, on this machine. A package that is not installed is skipped.

Dask comes with the package's `test` extra; Ray does not: `build/python/3.11/bin/pip install ray` adds it.
"""

import importlib.util
import os
from unittest import mock

import pytest
from conftest import run_python

# What a worker tells: the sum that it reads, in how many shared parts, whether no more than a page is its own once it has
# written an element, and the sum of the first four as it then sees them.
WORK = """
import pickle, numpy as np, pandas as pd, pagewise
def work(data, number):
    import numpy, pagewise
    read, parts = float(values_of(data).sum()), pagewise.shared_info(data).parts
    if isinstance(data, numpy.ndarray):
        data[number] = -1
    else:
        data.loc[number, "c1"] = -1.0
    return read, parts, pagewise.shared_info(data).own <= 4096, float(values_of(data)[:4].sum())
def values_of(data):
    import numpy
    return data if isinstance(data, numpy.ndarray) else data["c1"].to_numpy()
def look(data):
    import pagewise
    return float(data.sum()), pagewise.shared_info(data).parts
def double(data):
    return data * 2
def load(handle):
    import pickle
    return look(pickle.loads(handle))
array = pagewise.share(np.ones(1_000_000))
frame = pagewise.share(pd.DataFrame({f"c{i}": np.full(200_000, float(i)) for i in range(4)}))
with pagewise.handles():
    handle = pickle.dumps(array)
def tell_of_the_owner():
    print("owner:", float(array.sum()), float(frame["c1"].sum()), pagewise.shared_info([array, frame]).own)
"""
# Each wrote an element of its own view and sees no other's, and neither does the owner.
OF_ARRAY, OF_FRAME = str([(1000000.0, 1, True, 2.0)] * 4), str([(200000.0, 1, True, 2.0)] * 4)
UNCHANGED = "1000000.0 200000.0 0"
DATA, SHARED = "(1000000.0, 0)", "(1000000.0, 1)"

DASK = """
if __name__ == "__main__":
    from distributed import Client, LocalCluster
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, Client(cluster) as client:
        with pagewise.handles():
            print("array:", client.gather([client.submit(work, array, number, pure=False) for number in range(4)]))
            print("frame:", client.gather(client.map(work, [frame] * 4, range(4), pure=False)))
            found = client.submit(double, array, pure=False).result()
            print("result:", look(found / 2))
            print("scattered:", client.submit(look, client.scatter(array), pure=False).result()[0])
        print("not asked:", client.submit(look, array, pure=False).result())
        print("pickled:", client.submit(load, handle).result())
    tell_of_the_owner()
"""
RAY = """
import ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
remote = ray.remote(work)
with pagewise.handles():
    kept = ray.put(array)
    sent = [remote.remote(frame, number) for number in range(4)]
print("array:", ray.get([remote.remote(kept, number) for number in range(4)]))
print("frame:", ray.get(sent))
print("result:", look(ray.get(ray.remote(double).remote(kept)) / 2))
print("not asked:", ray.get(ray.remote(look).remote(array)))
print("pickled:", ray.get(ray.remote(load).remote(handle)))
ray.shutdown()
tell_of_the_owner()
"""


def told_by(package, program):
    """Run a program; return its lines by their first words."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    with mock.patch.dict(os.environ, {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}):
        out = run_python(WORK + program, warnings="ignore").stdout
    return dict(line.split(": ", 1) for line in out.splitlines() if ": " in line)


@pytest.fixture(scope="module")
def dask():
    return told_by("distributed", DASK)


@pytest.fixture(scope="module")
def ray():
    return told_by("ray", RAY)


@pytest.fixture(params=["dask", "ray"])
def cluster(request):
    return request.getfixturevalue(request.param)


def test_workers_read_the_same_memory_and_write_for_themselves(cluster):
    assert cluster["array"] == OF_ARRAY
    assert cluster["frame"] == OF_FRAME
    assert cluster["owner"] == UNCHANGED


def test_data_are_sent_where_no_handles_are_asked_for(cluster):
    assert cluster["not asked"] == DATA


def test_a_handle_that_the_program_made_itself_goes_through_anything(cluster):
    assert cluster["pickled"] == SHARED


def test_results_are_data(cluster):
    assert cluster["result"] == DATA


def test_what_dask_scatters_reads_right(dask):
    assert dask["scattered"] == "1000000.0"
