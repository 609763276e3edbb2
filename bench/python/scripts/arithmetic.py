"""Arithmetic on long vectors: each step makes a new one."""

import numpy as np

rng = np.random.default_rng(1)
x, y = rng.random(10_000_000), rng.random(10_000_000) + 1
for _ in range(40):
    z = x * y + x / y - 1
print(float(z.sum()))
