"""A new array of zeros, filled, again and again."""

import numpy as np

total = 0.0
for i in range(40):
    x = np.zeros(10_000_000)
    x.fill(i)
    total += float(x[i])
print(total)
