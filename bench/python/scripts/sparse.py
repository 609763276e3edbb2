"""Products and sums of sparse matrices."""

import numpy as np
import scipy.sparse as sp

rng = np.random.default_rng(1)
a = sp.random(60_000, 60_000, density=2e-4, format="csr", random_state=rng)
for _ in range(6):
    b = (a @ a.T).tocsc() + a
print(b.nnz, round(float(b.sum()), 6))
