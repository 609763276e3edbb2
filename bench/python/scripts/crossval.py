"""Cross-validation in four processes."""

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_validate

if __name__ == "__main__":
    rng = np.random.default_rng(1)
    x = rng.random((1_000_000, 100))
    y = x[:, :10].sum(axis=1) + rng.normal(size=len(x))
    found = cross_validate(Ridge(), x, y, cv=4, n_jobs=4)
    print(np.round(found["test_score"], 8).tolist())
