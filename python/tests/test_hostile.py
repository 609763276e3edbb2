"""What Python programs do with processes and threads: the same output as plain, in every way of having Pagewise."""

import sys

import pytest
from conftest import WAYS, run_python

EVERYTHING = "policy=share,threshold=8K"


def test_values_are_those_of_a_plain_run(same_output):
    same_output(
        """
        import hashlib, numpy as np, pandas as pd
        rng = np.random.default_rng(7)
        digest = hashlib.sha256()
        arrays = [rng.random(200_000)]
        for step in range(300):
            x = arrays[rng.integers(len(arrays))]
            kind = step % 6
            y = (x.copy() if kind < 2 else np.concatenate([x, x])[: len(x)] if kind == 2 else np.array(x, copy=True)
                 if kind == 3 else np.zeros_like(x) if kind == 4 else np.sort(x))
            y[rng.integers(len(y), size=5)] = step
            if kind == 5:
                y[:100_000] = 0
                y.fill(0) if step % 12 == 5 else None
            arrays.append(y)
            if len(arrays) > 20:
                digest.update(arrays.pop(rng.integers(len(arrays))).tobytes())
        frame = pd.DataFrame({f"c{i}": a for i, a in enumerate(arrays)})
        for i in range(5):
            other = frame.copy(); other.iloc[i, :] = -1; frame = pd.concat([other, frame]).iloc[: len(frame)]
        for a in arrays:
            digest.update(a.tobytes())
        digest.update(frame.to_numpy().tobytes())
        print(digest.hexdigest())
        """,
        EVERYTHING,
    )


def test_threads_that_write_while_copies_are_made_lose_nothing(same_output):
    same_output(
        """
        import threading, numpy as np
        source = np.zeros(2_000_000)
        rounds, threads = 60, 3
        def write(part):
            mine = source[part::threads]
            for _ in range(rounds):
                np.add(mine, 1, out=mine)
        running = [threading.Thread(target=write, args=(part,)) for part in range(threads)]
        kept = [source.copy()]
        for thread in running: thread.start()
        while len(kept) == 1 or any(thread.is_alive() for thread in running):
            kept = kept[-3:] + [source.copy()]
        for thread in running: thread.join()
        print(source.min(), source.max(), len(kept) > 1)
        """,
        EVERYTHING,
    )


def test_threads_that_copy_and_write_at_once_lose_nothing(same_output):
    same_output(
        """
        import threading, numpy as np
        source, wrong = np.zeros(300_000), []
        started = threading.Barrier(4)
        def work(part):
            started.wait()
            for step in range(1, 80):
                source[part::4] = step
                mine = source.copy()
                source[part] = -step
                other = mine.copy(); other[part] = 7
                whole = (mine[part::4] == step).all() and (other[part + 4 :: 4] == step).all() and other[part] == 7
                if not whole or source[part] != -step or (source[part + 4 :: 4] != step).any():
                    wrong.append((part, step))
        threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(wrong, source[:8])
        """,
        EVERYTHING,
    )


def test_forks_keep_their_own_values(same_output):
    same_output(
        """
        import os, numpy as np
        x = np.arange(1_000_000, dtype=float)
        y = x.copy()
        for child in range(8):
            pid = os.fork()
            if pid == 0:
                y[:] = child; z = y.copy(); x[5] = -1; w = x.copy()
                os._exit(0 if z.sum() == child * 1e6 and w[5] == -1 and w[500] == 500 else 1)
            x[child] = -child; kept = x.copy()
            assert os.waitpid(pid, 0)[1] == 0
            assert kept[child] == -child and y[7] == 7
        print("whole", x[:8], y[:8])
        """,
        EVERYTHING,
        warnings="default",
    )


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_multiprocessing_hands_arrays_over(same_output, method):
    same_output(
        f"""
        import multiprocessing
        import numpy as np

        def work(pair):
            index, array = pair
            mine = array.copy(); mine[0] = index
            return float(mine.sum()), mine[:10].copy()

        if __name__ == "__main__":
            x = np.arange(300_000, dtype=float)
            with multiprocessing.get_context("{method}").Pool(2) as pool:
                for total, head in pool.imap(work, [(i, x + i) for i in range(6)]):
                    print(total, head)
        """,
        EVERYTHING,
        warnings="default",
    )


def test_joblib_workers_read_what_they_are_given(same_output):
    same_output(
        """
        import numpy as np, joblib
        x = np.arange(400_000, dtype=float)
        def work(array, i):
            mine = array.copy(); mine[i] = -1
            return float(mine.sum())
        print(joblib.Parallel(n_jobs=2)(joblib.delayed(work)(x, i) for i in range(6)))
        """,
        EVERYTHING,
        warnings="default",
    )


def test_switching_while_arrays_live_changes_no_value():
    out = run_python(
        """
        import numpy as np, pagewise
        kept, expected = [], []
        for i in range(60):
            pagewise.on("share" if i % 3 else "auto", threshold="8K") if i % 2 else pagewise.off()
            x = np.full(100_000, float(i)); y = x.copy(); y[i] = -1
            kept += [x, y]; expected += [i * 1e5, i * 1e5 - i - 1]
            if i % 7 == 0:
                kept.pop(0); expected.pop(0)
        print([float(x.sum()) for x in kept] == expected)
        """
    ).stdout
    assert out == "True\n"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python warns of forks beside threads since 3.12")
@pytest.mark.parametrize(("way", "policy"), [*((way, "auto") for way in WAYS), ("run", "general")])
def test_a_fork_is_not_warned_of_because_of_our_keeper(way, policy):
    done = run_python(
        """
        import os
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # only ours is counted below
        import numpy as np
        for i in range(20):
            blocks = [np.ones(2_000_000) for _ in range(4)]
            del blocks  # 64 MB are warm: the keeper runs
            if i == 0:
                import time; time.sleep(.05)
                print(len(os.listdir("/proc/self/task")) > 1)
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
        """,
        way=way,
        options=f"policy={policy}",
        warnings="always::DeprecationWarning",
    )
    assert done.stdout == "True\n" and done.stderr == ""


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_NOFILE", "RLIMIT_FSIZE"])
def test_under_a_limit_values_are_the_same(same_output, limit):
    value = {"RLIMIT_AS": 6 << 30, "RLIMIT_NOFILE": 16, "RLIMIT_FSIZE": 1 << 20}[limit]
    same_output(
        f"""
        import resource, numpy as np
        resource.setrlimit(resource.{limit}, ({value}, {value}))
        x = np.arange(1_000_000, dtype=float)
        copies = [x.copy() for _ in range(10)]
        for i, y in enumerate(copies):
            y[i] = -1
        print([float(y.sum()) for y in copies])
        """,
        EVERYTHING,
    )
