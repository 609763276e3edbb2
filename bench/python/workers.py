"""A frame of 1 GB shared with eight processes, each of which reads all of it and writes one column in twenty.

Prints the proportional memory (Pss) of all of them above what they have with pandas imported, in sizes of the frame, and the
seconds until the last one is done.
"""

import multiprocessing
import os
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

import pagewise  # noqa: E402
from proportional import proportional  # noqa: E402 (found by the line above)

kept = []


def begin() -> int:
    """What an idle worker has."""
    return os.getpid()


def work(frame: pd.DataFrame) -> float:
    """Reads all, writes a column, and keeps the frame."""
    total = float(sum(frame[name].sum() for name in frame.columns))
    frame.loc[:, "c7"] = -1.0
    kept.append(frame)
    return total


if __name__ == "__main__":
    rows = int(sys.argv[1]) // (20 * 8)
    frame = pagewise.share(pd.DataFrame({f"c{i}": np.full(rows, float(i)) for i in range(20)}))
    pools = [multiprocessing.get_context("spawn").Pool(1) for _ in range(8)]
    pids = [pool.apply(begin) for pool in pools]
    before, begun = proportional(pids), time.perf_counter()
    totals = {answer.get() for answer in [pool.apply_async(work, (frame,)) for pool in pools]}
    seconds = time.perf_counter() - begun
    if totals != {190.0 * rows} or float(frame["c7"].iloc[0]) != 7:
        sys.exit(f"a worker read something else: {totals}")
    print((proportional(pids) - before) / (rows * 20 * 8), seconds)
