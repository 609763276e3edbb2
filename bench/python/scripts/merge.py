"""Two tables joined by a key."""

import numpy as np
import pandas as pd

rng = np.random.default_rng(1)
rows = 2_000_000
left = pd.DataFrame({"key": rng.integers(rows, size=rows), "x": rng.random(rows)})
right = pd.DataFrame({"key": rng.permutation(rows), "y": rng.random(rows)})
for _ in range(5):
    found = left.merge(right, on="key")
print(len(found), round(float((found["x"] * found["y"]).sum()), 6))
