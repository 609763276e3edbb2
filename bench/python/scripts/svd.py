"""Singular values of matrices."""

import numpy as np

rng = np.random.default_rng(1)
for _ in range(6):
    u, s, v = np.linalg.svd(rng.random((700, 700)))
print(np.round(s[:5], 6).tolist())
