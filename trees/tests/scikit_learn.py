"""Prints the held-out losses of scikit-learn's HistGradientBoosting that scikit_learn.rs compares with (scikit-learn 1.9.1)."""

from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

DATA = Path(__file__).parents[2] / "examples" / "data"
SETTINGS = {"learning_rate": 0.1, "max_leaf_nodes": 20, "min_samples_leaf": 20, "l2_regularization": 1.0, "max_iter": 60, "early_stopping": False}


def log_loss(score, y):
    return np.logaddexp(0.0, score) - y * score


def half_poisson(mean, y):
    return mean - y * np.log(mean)


def half_square(mean, y):
    return 0.5 * (y - mean) ** 2


CASES = {
    "breast_cancer": ("diagnosis", HistGradientBoostingClassifier(**SETTINGS), "staged_decision_function", log_loss),
    "doctor_visits": ("visits", HistGradientBoostingRegressor(loss="poisson", **SETTINGS), "staged_predict", half_poisson),
    "storms": ("wind", HistGradientBoostingRegressor(**SETTINGS), "staged_predict", half_square),
}


def main():
    print("scikit-learn", sklearn.__version__)
    for name, (target, model, staged, loss) in CASES.items():
        frame = pd.read_csv(DATA / f"{name}.csv")
        numbers = frame.select_dtypes("number")
        y = frame[target].to_numpy(float) if target in numbers else pd.factorize(frame[target], sort=True)[0]
        x = numbers.drop(columns=target, errors="ignore").to_numpy(float)
        folds = np.arange(len(y)) % 5
        total = np.zeros(SETTINGS["max_iter"])
        for fold in range(5):
            held = folds == fold
            model.fit(x[~held], y[~held])
            total += [loss(np.ravel(score), y[held]).sum() for score in getattr(model, staged)(x[held])]
        print(name, x.shape, float(total[0] / len(y)), float(total.min() / len(y)))


if __name__ == "__main__":
    main()
