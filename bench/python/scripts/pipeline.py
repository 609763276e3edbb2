"""Features of several kinds and five models on them; the fitted clones are kept."""

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge, SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

rng = np.random.default_rng(1)
rows, numbers, kinds = 1_000_000, 37, 3
frame = pd.DataFrame({f"n{i}": rng.random(rows) for i in range(numbers)} | {f"k{i}": rng.integers(9, size=rows).astype(float) for i in range(kinds)})
frame.loc[::100, "n0"] = np.nan
target = frame["n1"].to_numpy() * 2 + rng.normal(size=rows)
features = ColumnTransformer([
    ("scaled", make_pipeline(SimpleImputer(), StandardScaler()), [f"n{i}" for i in range(20)]),
    ("within", MinMaxScaler(), [f"n{i}" for i in range(20, numbers)]),
    ("kinds", OrdinalEncoder(), [f"k{i}" for i in range(kinds)]),
])
models = {
    "linear": LinearRegression(),
    "ridge": Ridge(),
    "strong ridge": Ridge(alpha=1000),
    "descent": SGDRegressor(max_iter=1, tol=None, random_state=1),
    "tree": DecisionTreeRegressor(max_depth=1, max_features=2, random_state=1),
}
fitted = {}
for name, model in models.items():
    fitted[name] = make_pipeline(clone(features), model).fit(frame.copy(), target)
    print(name, round(float(fitted[name].predict(frame.iloc[:1000]).sum()), 4))
