"""Writes the reference numbers of conformal calibration: intervals of MAPIE from the standardised residuals of an exact Gaussian process.

    pip install mapie==1.6.0
    python benches/peers/conformal.py > tests/reference/conformal.json
"""

import json

import numpy as np
from mapie.conformity_scores import ResidualNormalisedScore
from mapie.regression import SplitConformalRegressor
from sklearn.base import BaseEstimator, RegressorMixin

LEVELS = (0.5, 0.8, 0.9, 0.95)
VARIANCE, LENGTHSCALE, NOISE = 1.3, 0.9, 0.05


class Moment(RegressorMixin, BaseEstimator):
    """The predicted mean, or the predicted standard deviation, of a Gaussian process with fixed hyper-parameters."""

    def __init__(self, of="mean"):
        self.of = of

    def fit(self, X, y):
        self.X_ = np.asarray(X)
        gram = self._kernel(self.X_, self.X_) + NOISE * np.eye(len(X))
        self.weights_, self.inverse_ = np.linalg.solve(gram, y), np.linalg.inv(gram)
        return self

    @staticmethod
    def _kernel(a, b):
        return VARIANCE * np.exp(-0.5 * ((a[:, 0][:, None] - b[:, 0][None, :]) / LENGTHSCALE) ** 2)

    def predict(self, X):
        cross = self._kernel(np.asarray(X), self.X_)
        if self.of == "mean":
            return cross @ self.weights_
        return np.sqrt(VARIANCE + NOISE - np.sum((cross @ self.inverse_) * cross, axis=1))


def rows(count, phase):
    x = np.round(8 * np.modf(0.618 * np.arange(count) + phase)[0], 6)
    y = np.round(np.sin(x) + 0.5 * np.cos(2.3 * np.arange(count) + phase) ** 3, 6)
    return x[:, None], y


def main():
    (X, y), (X_held, y_held), (X_new, _) = rows(40, 0.0), rows(47, 0.3), rows(8, 0.7)
    mean, deviation = (Moment(of).fit(X, y) for of in ("mean", "deviation"))
    score = ResidualNormalisedScore(residual_estimator=deviation, prefit=True)
    mapie = SplitConformalRegressor(mean, confidence_level=LEVELS, conformity_score=score, prefit=True)
    mapie.conformalize(X_held, y_held)
    _, intervals = mapie.predict_interval(X_new)
    scores = np.abs(y_held - mean.predict(X_held)) / deviation.predict(X_held)
    document = {
        "levels": LEVELS, "variance": VARIANCE, "lengthscale": LENGTHSCALE, "noise": NOISE,
        "x": X[:, 0].tolist(), "y": y.tolist(), "x_held": X_held[:, 0].tolist(), "y_held": y_held.tolist(),
        "x_new": X_new[:, 0].tolist(), "scores": scores.tolist(),
        "lower": intervals[:, 0].tolist(), "upper": intervals[:, 1].tolist(),
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
