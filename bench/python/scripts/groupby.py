"""Means and spreads by group."""

import numpy as np
import pandas as pd

rng = np.random.default_rng(1)
rows = 3_000_000
frame = pd.DataFrame({"group": rng.integers(1000, size=rows), "x": rng.random(rows), "y": rng.random(rows)})
for _ in range(10):
    found = frame.groupby("group").agg({"x": ["mean", "std"], "y": ["min", "max", "sum"]})
print(found.round(6).iloc[::100].to_string())
