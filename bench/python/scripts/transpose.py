"""A matrix in the other order, again and again."""

import numpy as np

a = np.random.default_rng(1).random((3000, 3000))
for _ in range(40):
    b = a.T.copy()
print(float(b[7].sum()))
