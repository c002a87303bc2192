"""Building blocks for your own training loop: a stochastic variational GP with losses, gradients and steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from . import _exposures, _offsets, _sparsegp, _tables
from ._options import custom_of, custom_parts, engine_options, seed_of
from ._types import Array, Seed
from .kernels import Kernel
from .likelihoods import CustomLikelihood

if TYPE_CHECKING:
    from ._processes import SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor


#: Other options of a fit that concern the model, the objective or the update rule of q. The remaining options concern
#: loops and scaling.
_OPTIONS = frozenset(
    ("estimator", "quadrature_nodes", "mean", "fix_inducing", "jitter", "family", "q_guard", "q_bounds", "q_smoothness")
    + ("start", "fix", "bounds", "prior", "tie")
)


class SVGP:
    """A stochastic variational Gaussian process for training loops that you write yourself.

    Inputs and targets are used without standardisation. ``q(u)`` is stored as ``q(w) = N(m, S)`` of the whitened
    inducing variables, ``u = L w``, whose prior is N(0, I). A likelihood of several functions has one q(w) per
    function.

    Parameters
    ----------
    kernel : str or Kernel
        The kernel. Hyper-parameters without a value start at 1.
    inducing_points : array-like of shape (M, d)
        The inducing inputs.
    likelihood : str or CustomLikelihood, default="gaussian"
        The likelihood: a name, as for the estimators, or a likelihood written in Python.
    objective : {"elbo", "dlm-log"}, default="elbo"
        The loss of a row: the expected (``"elbo"``) or the predictive (``"dlm-log"``) log loss.
    update : str, default="ngd"
        The rule that moves q: ``"ngd"``, ``"sr-vn"``, ``"adam"``, ``"bw-gd"``, ``"prox-sgd"``, ``"proj-sgd"``, ``"projected-ngvi"``,
        ``"sgd"``.
    beta : float, default=1.0
        The weight of the KL term.
    n_classes : int, default=2
        The number of classes or ordered levels of the target, which is coded 0, 1, ….
    n_threads : int, optional
        The number of threads.
    random_state : int, RandomState or None, default=None
        The random seed of estimators that sample.
    options : dict, optional
        Options of a fit about the model or its objective, by name: ``estimator``, ``quadrature_nodes``, ``mean``, ``fix_inducing``,
        ``jitter``, ``family``, ``q_guard``, ``q_bounds``, ``q_smoothness``, ``start``, ``fix``, ``bounds``, ``prior`` and ``tie``. Examples:
        ``{"estimator": "bmc:10", "family": "diagonal"}``; ``{"fix_inducing": True}`` keeps the inducing inputs and
        ``{"mean": "zero"}`` the mean unchanged. ``start``, ``fix``, ``bounds`` and ``prior`` are added to the kernel's own constraints
        on its parameters. Other options are refused: they concern the loops and the scaling of estimators.

    Examples
    --------
    Natural gradients on mini-batches:

    >>> import numpy as np
    >>> from sparsegp import SVGP
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (500, 1))
    >>> y = (np.sin(2 * X[:, 0]) > 0).astype(float)
    >>> model = SVGP("rbf", np.linspace(-3, 3, 15)[:, None], "bernoulli-logit")
    >>> for epoch in range(20):
    ...     rows = rng.choice(500, 100, replace=False)
    ...     loss = model.loss(X[rows], y[rows], scale=5.0)
    ...     taken = model.step(0.5)
    >>> bool(np.mean((model.marginals(X)[0][:, 0] > 0) == y) > 0.95)
    True
    """

    def __init__(
        self,
        kernel: str | Kernel,
        inducing_points: ArrayLike,
        likelihood: str | CustomLikelihood = "gaussian",
        *,
        objective: Literal["elbo", "dlm-log"] = "elbo",
        update: str = "ngd",
        beta: float = 1.0,
        n_classes: int = 2,
        n_threads: int | None = None,
        random_state: Seed = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self._arguments = {
            "kernel": kernel,
            "inducing_points": _array(inducing_points, 2, "inducing_points").copy(),
            "likelihood": likelihood,
            "objective": objective,
            "update": update,
            "beta": beta,
            "n_classes": n_classes,
            "n_threads": n_threads,
            "random_state": random_state,
            "options": options,
        }
        unread = sorted(set(options or ()) - _OPTIONS)
        if unread:
            raise ValueError(f"options names {unread[0]!r}, which SVGP does not read, expected {', '.join(sorted(_OPTIONS))}")
        given = {"kernel": kernel, "likelihood": likelihood, "objective": objective, "beta": beta, "random_state": random_state}
        text, _ = engine_options(given | {"options": options, "auto": "none"}, q_update=update)
        points, custom = _array(inducing_points, 2, "inducing_points"), custom_of(given)
        self._svgp = _sparsegp.Svgp(text, points, int(n_classes), custom=custom, threads=n_threads)

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments, "theta": self.theta, "posterior": self.posterior}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["arguments"])  # type: ignore[misc]
        # The update rule of q restarts and loses its running averages.
        self.theta = state["theta"]
        self.posterior = state["posterior"]

    def _rows(self, X: Any, y: Any, exposure: Any, trials: Any, offset: Any) -> tuple[Array, Array, Array | None, Array | None]:
        """Returns inputs, targets, exposures or numbers of trials, and offsets (n × functions) as arrays."""
        X, y = _array(X, 2, "X"), _array(y, 1, "y")
        role, values = _exposures.unwrapped(_exposures.given(exposure, trials))
        if role == "trials" and not self._counts_successes():
            raise ValueError(f"trials is given, but the likelihood is {self._arguments['likelihood']!r}, expected 'binomial' or 'beta-binomial'")
        values = None if values is None else _array(values, 1, role)
        return X, y, values, None if offset is None else _offsets.matrix(offset, len(X))

    def _counts_successes(self) -> bool:
        return self._arguments["likelihood"] in ("binomial", "beta-binomial")

    def loss(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        exposure: ArrayLike | None = None,
        scale: float = 1.0,
        hyper: bool = False,
        trials: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> float:
        """Evaluate the objective, which training minimises, on a batch, and store its gradients for :meth:`step`. The
        objective is ``scale · Σ loss of a row + β KL(q ‖ p) − Σ log p(θ)``, where p(θ) are the priors of
        hyper-parameters.

        Parameters
        ----------
        X : array-like of shape (b, d)
            Inputs.
        y : array-like of shape (b,)
            Targets.
        exposure : array-like of shape (b,), optional
            Exposures of counts.
        scale : float, default=1.0
            The weight of each row of the batch: the number of all rows divided by ``b``.
        hyper : bool, default=False
            Also compute :attr:`theta_gradient`, the gradient with respect to hyper-parameters and inducing inputs.
        trials : array-like of shape (b,), optional
            The numbers of trials, for ``"binomial"`` and ``"beta-binomial"``.
        offset : array-like of shape (b,) or (b, functions), optional
            Known additions to the latent functions.

        Returns
        -------
        float
        """
        return self._svgp.loss(self._rows(X, y, exposure, trials, offset), float(scale), bool(hyper))

    def step(self, size: float = 1.0) -> float:
        """Move q by its rule along the gradient of the last :meth:`loss`.

        Parameters
        ----------
        size : float, default=1.0
            The step size; for natural gradients it is the mixing weight ρ, at most 1.

        Returns
        -------
        float
            The step size that was used. Guards may reduce it, down to 0 if no step is possible.
        """
        return self._svgp.step(float(size))[0]

    @property
    def gradient(self) -> list[tuple[Array, Array]]:
        """The gradient of the last :meth:`loss` with respect to ``(m, S)``, without the KL term; a pair for every function."""
        return self._svgp.gradients()

    @property
    def posterior(self) -> list[tuple[Array, Array]]:
        """``(m, S)`` of every function; S is a vector if it is diagonal. Can be set."""
        return self._svgp.posteriors()

    @posterior.setter
    def posterior(self, pairs: Iterable[tuple[ArrayLike, ArrayLike]]) -> None:
        self._svgp.set_posteriors([tuple(np.ascontiguousarray(part, dtype=np.float64) for part in pair) for pair in pairs])

    @property
    def natural_parameters(self) -> list[tuple[Array, Array]]:
        """``(S⁻¹m, −½ S⁻¹)`` of every function."""

        def natural(mean: Array, cov: Array) -> tuple[Array, Array]:
            precision = 1.0 / cov if cov.ndim == 1 else np.linalg.inv(cov)
            return (precision * mean if cov.ndim == 1 else precision @ mean), -0.5 * precision

        return [natural(*pair) for pair in self.posterior]

    def kl(self) -> float:
        """The divergence ``KL(q ‖ p)``, summed over all functions, in nats.

        Returns
        -------
        float
        """
        return self._svgp.kl()

    def marginals(self, X: ArrayLike) -> tuple[Array, Array]:
        """The latent functions at inputs under q.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The inputs.

        Returns
        -------
        mean : ndarray of shape (n, functions)
        variance : ndarray of shape (n, functions)
        """
        return self._svgp.marginals(_array(X, 2, "X"))

    def covariance(self, X: ArrayLike, function: int = 0) -> Array:
        """The covariance of a latent function at inputs under q.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The inputs.
        function : int, default=0
            The index of the function.

        Returns
        -------
        ndarray of shape (n, n)
        """
        return self._svgp.covariance(_array(X, 2, "X"), int(function))

    def optimize(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        exposure: ArrayLike | None = None,
        epochs: int = 20,
        batch_size: int = 256,
        step: float = 0.5,
        learning_rate: float = 0.02,
        random_state: Seed = None,
        trials: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Array:
        """Train q by its rule, and hyper-parameters and inducing inputs by Adam (Kingma & Ba 2015), on mini-batches.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        y : array-like of shape (n,)
            Targets.
        exposure : array-like of shape (n,), optional
            Exposures of counts.
        epochs : int, default=20
            Passes over the rows.
        batch_size : int, default=256
            Rows of a mini-batch.
        step : float, default=0.5
            The step of q.
        learning_rate : float, default=0.02
            Adam's learning rate; 0 leaves hyper-parameters and inducing inputs unchanged.
        random_state : int, RandomState or None, default=None
            The seed of the order of rows.
        trials : array-like of shape (n,), optional
            The numbers of trials, for ``"binomial"`` and ``"beta-binomial"``.
        offset : array-like of shape (n,) or (n, functions), optional
            Known additions to the latent functions.

        Returns
        -------
        ndarray of shape (epochs,)
            The mean objective of every epoch.
        """
        data = self._rows(X, y, exposure, trials, offset)
        n, trains = len(data[0]), learning_rate > 0
        random = np.random.default_rng(seed_of(random_state))
        first, second, count, losses = np.zeros_like(self.theta), np.zeros_like(self.theta), 0, []
        for _ in range(int(epochs)):
            order, sums = random.permutation(n), []
            for rows in np.array_split(order, max(1, -(-n // int(batch_size)))):
                part = tuple(None if values is None else values[rows] for values in data)
                sums.append(self._svgp.loss(part, n / len(rows), trains))
                gradient = self.theta_gradient if trains else None
                self.step(step)
                if gradient is None:
                    continue
                count += 1
                first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
                rate = learning_rate * np.sqrt(1 - 0.999**count) / (1 - 0.9**count)
                self.theta = self.theta - rate * first / (np.sqrt(second) + 1e-8)
            losses.append(np.mean(sums))
        return np.array(losses)

    def to_estimator(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        exposure: ArrayLike | None = None,
        trials: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> SparseGPRegressor | SparseGPClassifier | SparseGPCountRegressor:
        """Return a fitted estimator with a copy of the model, which can predict, be saved, and learn from new rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The inputs that the model was trained on. The estimator takes inputs on the same scale and does not
            standardise them.
        y : array-like of shape (n,)
            Their targets, with at least one row of every class or ordered level.
        exposure : array-like of shape (n,), optional
            Exposures of counts.
        trials : array-like of shape (n,), optional
            The numbers of trials, for ``"binomial"`` and ``"beta-binomial"``.
        offset : array-like of shape (n,) or (n, functions), optional
            Known additions to the latent functions.

        Returns
        -------
        SparseGPRegressor, SparseGPClassifier or SparseGPCountRegressor
            The estimator for the kind of target, with a copy of the model.

        Raises
        ------
        ValueError
            If shapes do not match, or if ``y`` lacks a class.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsegp import SVGP
        >>> X = np.linspace(-3, 3, 50)[:, None]
        >>> model = SVGP("rbf", X[::5], "bernoulli-logit")
        >>> _ = model.optimize(X, X[:, 0] > 0, epochs=5, random_state=0)
        >>> model.to_estimator(X, X[:, 0] > 0).predict([[-2.0], [2.0]])
        array([0, 1])
        """
        from ._processes import SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor

        X, y, exposure, offset = rows = self._rows(X, y, exposure, trials, offset)
        if not len(X) == len(y) == len(y if exposure is None else exposure):
            raise ValueError(f"X has {len(X)} rows and y {len(y)}, expected equal numbers, also of exposures if they are given")
        table, more = _tables.matrix_table(X), [("y", ("number", y))]
        columns = dict.fromkeys(("exposure", "trials", "noise_std", "censored", "weights", "positive_label"))
        columns |= {"target": "y", "keep": table.names, "exclude": [], "categorical": [], "ordered": [], "groups": []}
        if exposure is not None:
            columns["trials" if self._counts_successes() else "exposure"] = "exposure"
            more.append(("exposure", ("number", exposure)))
        columns["offset"], new = _offsets.training_columns(offset, len(X), {*table.names, "y", "exposure"})
        more.extend(new)
        table = table.with_columns(_sparsegp.Table.of_columns("y", more))
        model = self._svgp.table_model(table, columns, rows)
        kind, given = model.columns()["kind"], self._arguments
        cls = next(one for one in (SparseGPCountRegressor, SparseGPClassifier, SparseGPRegressor) if kind in one._kinds)
        shared = {name: given[name] for name in ("kernel", "likelihood", "objective", "beta", "n_threads", "random_state")}
        estimator = cls(**shared, auto="none", n_inducing=len(given["inducing_points"]), standardize=False)
        return estimator._with_model(model, **custom_parts(given))

    def log_density(
        self,
        X: ArrayLike,
        y: ArrayLike,
        exposure: ArrayLike | None = None,
        *,
        trials: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Array:
        """The log predictive density of every target.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The inputs.
        y : array-like of shape (n,)
            The targets.
        exposure : array-like of shape (n,), optional
            Exposures of counts.
        trials : array-like of shape (n,), optional
            The numbers of trials, for ``"binomial"`` and ``"beta-binomial"``.
        offset : array-like of shape (n,) or (n, functions), optional
            Known additions to the latent functions.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._svgp.log_density(self._rows(X, y, exposure, trials, offset))

    @property
    def hyperparameters(self) -> dict[str, float]:
        """Hyper-parameters by name, without the inducing inputs."""
        return dict(self._svgp.hyperparameters())

    @property
    def inducing_points(self) -> Array:
        """The inducing inputs."""
        return self._svgp.inducing_points()

    @property
    def theta(self) -> Array:
        """Hyper-parameters and inducing inputs as one unconstrained vector, for an optimiser. Setting it
        leaves q(w) unchanged. If the model cannot be evaluated there, ``FitError`` is raised and nothing changes."""
        return self._svgp.theta()

    @theta.setter
    def theta(self, values: ArrayLike) -> None:
        if not self._svgp.move_to(_array(values, 1, "theta")):
            raise _sparsegp.FitError("the covariance of the inducing inputs has no Cholesky factor at theta")

    @property
    def theta_names(self) -> list[str]:
        """The name of every entry of :attr:`theta`: a hyper-parameter, or ``inducing.i.d`` for column d of inducing input i."""
        return self._svgp.theta_names()

    @property
    def theta_gradient(self) -> Array:
        """The gradient of the last ``loss(…, hyper=True)`` with respect to :attr:`theta`."""
        return self._svgp.theta_gradient()


def _array(values: ArrayLike, dimensions: int, name: str) -> Array:
    values = np.asarray(_tables.unmasked(values), dtype=np.float64)
    if values.ndim != dimensions:
        raise ValueError(f"{name} has {values.ndim} dimensions, expected {dimensions}")
    return values


__all__ = ["SVGP"]
