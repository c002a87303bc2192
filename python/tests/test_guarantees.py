"""Guarantees: values of closed forms, relations between them, and refusals."""

import numpy as np
import pytest

import sparsegp
from sparsegp import guarantees
from sparsegp.guarantees import (
    ConjugateAsymptotic,
    ConjugateBound,
    ConvexBound,
    Curvature,
    DistanceBound,
    ProjectedBound,
    SquareRootRate,
)

X = np.random.default_rng(0).normal(size=(30, 3))
PRIOR = np.diag([1.0, 2.0, 4.0])


def test_curvature_is_that_of_the_hessian():
    hessian = np.linalg.inv(PRIOR) + X.T @ X / 0.5
    values = np.linalg.eigvalsh(hessian)
    linear = Curvature.linear(X, PRIOR, 0.5)
    assert (linear.strong_convexity, linear.smoothness) == pytest.approx((values[0], values[-1]))
    logistic = Curvature.logistic(X.tolist(), PRIOR)
    assert logistic.smoothness == pytest.approx(np.linalg.eigvalsh(np.linalg.inv(PRIOR) + 0.25 * X.T @ X)[-1])
    assert logistic.smoothness == pytest.approx(Curvature.generalized(X, PRIOR, 0.0, 0.25).smoothness)
    root = np.linalg.cholesky(PRIOR)
    whitened = Curvature.whitened(X, PRIOR, 2.0, 2.0)
    assert whitened.smoothness == pytest.approx(np.linalg.eigvalsh(np.eye(3) + 2.0 * root.T @ X.T @ X @ root)[-1])
    assert linear.noise_constant_energy(3) == pytest.approx(12 * linear.smoothness**2)
    assert linear.eigenvalue_floor() == pytest.approx(linear.smoothness**-0.5)


def test_distances_and_objectives():
    curvature = Curvature(5.0, 1.0)
    noise = curvature.noise_constant_energy(4)
    bound = DistanceBound(curvature, 3.0, noise, 2.0, 1.0)
    assert bound.at(0) >= 3.0
    assert all(bound.recursion(steps) <= bound.at(steps) * (1 + 1e-9) for steps in (1, 10, 1000, 10_000))
    step = 0.5 / noise
    assert bound.with_constant_step(step, 7) == pytest.approx((1 - step) ** 7 * 3.0 + 2 * step * 3.0)
    assert np.isinf(bound.with_constant_step(1.0, 7))
    convex = ConvexBound(noise, 2.0, 3.0)
    decay = 1 / (1 + 2 * noise * step**2)
    assert convex.proximal(step, 9) == pytest.approx(step * (noise * 3.0 / (1 - decay**9) + 2.0))


def test_natural_gradients():
    y = X @ [1.0, -1.0, 0.5]
    bound = ConjugateBound(X, y, PRIOR, 1.0, 5)
    assert bound.at(9) == pytest.approx(4 * bound.v2 / 10)
    limit = ConjugateAsymptotic(X, y, np.zeros(3), PRIOR, 1.0, 5)
    assert limit.limit() == pytest.approx(4 / 3 * limit.cost)
    assert limit.limit("expectation") < limit.limit() < bound.v2
    assert ConjugateAsymptotic(X, y, np.zeros(3), PRIOR, 1.0, 30, "without-replacement").cost == 0
    noise = guarantees.price_noise(np.diag([1.0, 4.0]), np.eye(2))
    assert noise == pytest.approx(0.5 * (1 + 16))
    projected = ProjectedBound(1.0, noise, 2.0)
    assert projected.constant(0.1, 10, 20) == pytest.approx(0.9**20 * 2.0 + 0.1 * noise / 10)
    assert projected.decreasing([10.0] * 20) == pytest.approx(4 * noise / (20 * 21) * 2)
    assert projected.growing(0.1, 1.0, 1000) < projected.constant(0.1, 1, 1000)


def test_square_roots():
    rate = SquareRootRate(Curvature(4.0, 1.0), 0.25, 1.0)
    assert rate.best_step == pytest.approx(1 / 8)
    assert rate.largest_step == pytest.approx(2 * rate.best_step)
    assert rate.contraction(rate.best_step) == pytest.approx(1 - 0.5 * rate.best_step * rate.pl_constant)
    assert rate.contraction(rate.best_step) ** rate.steps_to(rate.best_step, 1e-3) <= 1e-3
    assert rate.bias(0.0, 0.0) == 0
    assert guarantees.square_root_step(np.diag([1.0, 0.5])) == pytest.approx(2.0)
    assert guarantees.square_root_step_bound(2.0, 0.5) == np.inf


def test_refusals_are_one_line():
    for wrong in (
        lambda: Curvature.logistic(X, np.eye(2)),
        lambda: DistanceBound(Curvature(5.0, 0.0), 1.0, 1.0, 1.0),
        lambda: ConvexBound(-1.0, 0.0, 0.0),
        lambda: SquareRootRate(Curvature(4.0, 1.0), 2.0, 1.0),
        lambda: ConjugateAsymptotic(X, X[:, 0], np.zeros(3), PRIOR, 1.0, 5, "somehow"),
    ):
        with pytest.raises(ValueError) as raised:
            wrong()
        assert "\n" not in str(raised.value)
    assert sparsegp.guarantees is guarantees
