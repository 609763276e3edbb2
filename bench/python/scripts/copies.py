"""Forty copies of an array, one write each, half of them kept."""

import numpy as np

x = np.random.default_rng(1).random(12_500_000)
kept = []
for i in range(40):
    y = x.copy()
    y[i * 1000] = i
    if i % 2:
        kept.append(y)
print(len(kept), sum(float(y[::10_000].sum()) for y in kept), [float(y[(2 * i + 1) * 1000]) for i, y in enumerate(kept)])
