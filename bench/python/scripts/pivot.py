"""A table of sums by two keys."""

import numpy as np
import pandas as pd

rng = np.random.default_rng(1)
rows = 2_000_000
frame = pd.DataFrame({"a": rng.integers(300, size=rows), "b": rng.integers(300, size=rows), "x": rng.random(rows)})
for _ in range(10):
    found = frame.pivot_table(index="a", columns="b", values="x", aggfunc="sum")
print(found.round(6).iloc[::50, ::50].to_string())
