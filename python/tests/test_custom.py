"""Kernels and likelihoods written in Python: the test kits, fits against the built-in ones, files, threads, exceptions."""

import subprocess
import sys
import threading

import joblib
import numpy as np
import pytest
from own_parts import Bell, Counts, Logistic, Slope

from sparsegp import SVGP, SparseGPCountRegressor, SparseGPRegressor, compare
from sparsegp.kernels import RBF, CustomKernel, Parameter
from sparsegp.likelihoods import CustomLikelihood
from sparsegp.testing import check_kernel, check_likelihood

RANDOM = np.random.default_rng(5)
X = RANDOM.uniform(-3, 3, (90, 2))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RANDOM.normal(size=90)
SHORT = {"auto": "none", "n_inducing": 12, "epochs": 30}


@pytest.mark.parametrize("kernel", [Bell(), Slope(), Bell() * Slope() + RBF()[1] * Bell()])
def test_kernels_pass_the_kit(kernel):
    check_kernel(kernel)
    check_kernel(kernel if "[1]" not in str(kernel) else Bell(), columns=1)


def test_a_likelihood_passes_the_kit():
    check_likelihood(Counts(), [2], exposure=[2.0])


def test_the_kits_find_what_is_wrong():
    class Steep(Bell):
        def gradient(self, X, Y, W, **values):
            own, points = super().gradient(X, Y, W, **values)
            return own, 1.01 * points

    class Lopsided(Slope):
        def covariance(self, X, Y, strength):
            return super().covariance(X, Y, strength) + X[:, :1]

    class Flat(Logistic):
        def derivatives(self, y, f, scale):
            first, second = super().derivatives(y, f, scale)
            return first, 1.1 * second

    class Coarse(Logistic):
        width = 40.0

    class First(Logistic):
        def log_density(self, y, f, scale):
            return super().log_density(np.ravel(y)[0], f, scale)

    with pytest.raises(AssertionError, match="log_density of an array y differs"):
        check_likelihood(First(), [-1.0, 0.4])
    for kernel, words in [(Steep(), "point"), (Lopsided(), "cross value")]:
        with pytest.raises(AssertionError, match=words):
            check_kernel(kernel)
    for likelihood, words in [(Flat(), "curvature"), (Coarse(), "log E? ?p .*y = 0.4, .*width = 40.0 is too large")]:
        with pytest.raises(AssertionError, match=words):
            check_likelihood(likelihood, [0.4])


@pytest.mark.parametrize("objective", ["elbo", "dlm-log", "vfe"])
def test_a_kernel_fits_as_the_built_in_one(objective):
    known = SparseGPRegressor("rbf(ard)", objective=objective, **SHORT).fit(X, Y)
    fits = [SparseGPRegressor(Bell(), objective=objective, n_threads=n, **SHORT).fit(X, Y) for n in (1, 2)]
    assert np.array_equal(fits[0].predict(X), fits[1].predict(X))
    # Thirty epochs amplify rounding differences.
    assert np.allclose(fits[0].predict(X), known.predict(X), atol=1e-5)
    own, theirs = (list(model.kernel_.parameters.values()) for model in (fits[0], known))
    assert np.allclose(own, theirs, rtol=1e-4)


def test_a_likelihood_fits_as_the_built_in_one():
    exposure = RANDOM.uniform(0.5, 2.0, 90)
    counts = RANDOM.poisson(exposure * np.exp(0.5 * Y + 1))
    # The two fits start from different means, so only the posterior is trained.
    settings = {**SHORT, "mean": "zero", "hyper": "fixed", "epochs": 200}
    models = [
        SparseGPCountRegressor("rbf(variance=1, lengthscales=1)", likelihood=likelihood, **settings).fit(X, counts, exposure=exposure)
        for likelihood in ("poisson", Counts())
    ]
    known, own = (
        [*model.predict(X, return_std=True, quantiles=[0.1, 0.9], exposure=exposure), model.log_density(X, counts, exposure)]
        for model in models
    )
    for theirs, ours in zip(known, own):
        assert np.allclose(ours, theirs, rtol=1e-4)
    assert models[1].sample_y(X, 200, exposure=exposure).mean() == pytest.approx(known[0].mean(), rel=0.05)


def test_a_fit_calls_a_likelihood_for_many_rows_at_once():
    calls = []

    class Counted(Logistic):
        def log_density(self, y, f, scale):
            calls.append(np.shape(f))
            return super().log_density(y, f, scale)

    for objective in ("elbo", "dlm-log"):
        calls.clear()
        settings = {**SHORT, "epochs": 5, "objective": objective, "random_state": 1}
        SparseGPRegressor("rbf", likelihood=Counted(), **settings).fit(X, Y)
        # With a call per row and epoch there would be at least 450 calls.
        assert max(np.prod(shape) for shape in calls) > 1000
        assert sum(np.prod(shape) > 200 for shape in calls) < 200


def test_files_and_pickles_need_the_same_objects(tmp_path):
    model = SparseGPRegressor(Bell() + Slope(), likelihood=Logistic(), **SHORT).fit(X, Y)
    told = model.predict(X, return_std=True)
    model.save(tmp_path / "model")
    loaded = SparseGPRegressor.load(tmp_path / "model", kernels=[Slope(), Bell()], likelihoods=[Logistic()])
    for again in (loaded, joblib.Parallel(2)(joblib.delayed(lambda x: x)(m) for m in (model, loaded))[1]):
        assert np.array_equal(again.predict(X, return_std=True), told)
        assert str(again.kernel_) == str(model.kernel_)
    assert np.array_equal(loaded.kernel_(X), model.kernel_(X))
    assert loaded.partial_fit(X[:5], Y[:5]).predict(X).shape == (90,)
    for parts in ({}, {"kernels": [Bell(), Slope()]}, {"kernels": [Bell()], "likelihoods": [Logistic()]}):
        with pytest.raises(ValueError, match="does not know") as error:
            SparseGPRegressor.load(tmp_path / "model", **parts)
        assert "\n" not in str(error.value)
    command = [sys.executable, "-m", "sparsegp", "inspect", str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "'logistic_noise'" in done.stderr and "panic" not in done.stderr


class Failing(Bell):
    """Raises an exception at one call of a method, counted from 1."""

    def __init__(self, method, call):
        self.method, self.left = method, call

    def _count(self, method):
        if method == self.method:
            self.left -= 1
            if self.left == 0:
                raise ZeroDivisionError(f"in {method}")

    def covariance(self, X, Y, **values):
        self._count("covariance")
        return super().covariance(X, Y, **values)

    def gradient(self, X, Y, W, **values):
        self._count("gradient")
        return super().gradient(X, Y, W, **values)

    def variance(self, X, **values):
        self._count("variance")
        return super().variance(X, **values)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("method", "call"), [("covariance", 1), ("covariance", 9), ("gradient", 1), ("gradient", 30), ("variance", 4)])
def test_an_exception_of_a_kernel_ends_the_fit(method, call, threads):
    model = SparseGPRegressor(Failing(method, call), n_threads=threads, **SHORT)
    with pytest.raises(ZeroDivisionError, match=f"in {method}"):
        model.fit(X, Y)
    assert not model.__sklearn_is_fitted__()
    # The exception is raised once; later calls succeed.
    assert model.fit(X, Y).score(X, Y) > 0.5


def test_an_exception_of_a_prediction_is_raised_from_it():
    kernel = Failing("covariance", 0)
    model = SparseGPRegressor(kernel, **SHORT).fit(X, Y)
    kernel.left = 1
    with pytest.raises(ZeroDivisionError):
        model.predict(X)
    assert np.isfinite(model.predict(X)).all()


def test_an_exception_of_a_likelihood_ends_the_fit():
    class Broken(Logistic):
        def gradient(self, y, f, scale):
            return {}

    class Shaped(Logistic):
        def log_density(self, y, f, scale):
            return np.ones(3)

    for likelihood, words in [(Broken(), "returned nothing for 'scale'"), (Shaped(), r"returned shape \(3,\)")]:
        with pytest.raises(ValueError, match=words):
            SparseGPRegressor("rbf", likelihood=likelihood, **SHORT).fit(X, Y)


def test_two_threads_fit_with_one_object():
    kernel, out = Bell(), [None, None]

    def work(place):
        out[place] = SparseGPRegressor(kernel, n_threads=2, **SHORT).fit(X, Y).predict(X)

    threads = [threading.Thread(target=work, args=(place,)) for place in (0, 1)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert np.array_equal(*out)


def test_svgp_takes_both():
    model = SVGP(Bell() + Slope(), X[:10], Logistic(), n_threads=2)
    losses = []
    for _ in range(15):
        losses.append(model.loss(X, Y))
        model.step(0.7)
    assert (np.diff(losses) < 0).all()
    model.loss(X, Y, hyper=True)
    gradient, theta = model.theta_gradient, model.theta

    def loss(theta):
        model.theta = theta
        return model.loss(X, Y)

    for place in (0, 1, 2, 3, len(theta) - 1):
        step = 1e-5 * np.eye(len(theta))[place]
        # With this step, the third derivative and rounding leave six digits of the difference.
        assert gradient[place] == pytest.approx((loss(theta + step) - loss(theta - step)) / 2e-5, rel=1e-4, abs=1e-4)


def test_comparisons_take_a_kernel():
    found = compare(X, Y, ["elbo", "vfe"], kernel=Bell(), repeats=1, options={"inducing": 8, "epochs": 5})
    assert len(found.frame) == 2 and np.isfinite(found.results["nll"]).all()


def test_comparisons_take_a_likelihood():
    counts = np.random.default_rng(4).poisson(np.exp(1 + np.sin(X[:, 0]))).astype(float)
    # Only q is trained, and its optimum is unique.
    how = {"kernel": "rbf", "options": {"inducing": 8, "hyper": "fixed", "mean": "zero", "tolerance": 1e-9}}
    own, built = (compare(X, counts, ["elbo"], likelihood=likelihood, **how) for likelihood in (Counts(), "poisson"))
    assert np.allclose(own.results["nll"], built.results["nll"], rtol=1e-6)


def test_declarations_of_an_object_are_checked():
    class Nameless(Bell):
        name = "two words"

    class Odd(Bell):
        hyperparameters = {"X": Parameter()}

    class Outside(Bell):
        hyperparameters = {"variance": Parameter(-1.0)}

    class Taken(Bell):
        name = "rbf"

    class Bare(CustomKernel):
        name = "bare"

    class Unmeasured(CustomLikelihood):
        name = "unmeasured"
        target = "complex"

        def log_density(self, y, f):
            return -((y - f) ** 2)

        derivatives = mean_and_variance = cdf = log_density

    for kind, error, words in [
        (Nameless, ValueError, "two words"),
        (Odd, ValueError, "'X'"),
        (Outside, ValueError, "-1.0"),
        (Taken, ValueError, "rbf"),
        (Bare, TypeError, "covariance"),
        (Unmeasured, ValueError, "complex"),
    ]:
        part = {"likelihood": kind()} if kind is Unmeasured else {"kernel": kind()}
        with pytest.raises(error, match=words) as raised:
            SparseGPRegressor(**part, **SHORT).fit(X, Y)
        assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match="expected different names"):
        Failing("covariance", 1) + Failing("gradient", 1)
    with pytest.raises(TypeError, match="is not a CustomLikelihood"):
        check_likelihood("gaussian", [0.0])


def test_covariances_of_the_wrong_shape_are_refused():
    class Column(Bell):
        name = "column"

        def covariance(self, X, Y, variance, lengthscales):
            return super().covariance(X, Y, variance, lengthscales)[:, :1]

    with pytest.raises(ValueError, match=r"Column.covariance returned shape \(\d+, 1\), expected") as raised:
        SparseGPRegressor(Column(), **SHORT).fit(X, Y)
    assert "\n" not in str(raised.value)
