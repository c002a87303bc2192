"""What the parameters of estimators mean, for their docstrings, and whose name messages say; no estimators."""

from __future__ import annotations

from types import FunctionType
from typing import TypeVar

T = TypeVar("T")

#: The meaning of the parameters, for the docstrings of all estimators of sparse processes.
PARAMETERS = """kernel : str or Kernel, optional
        The kernel, one of :mod:`sparsegp.kernels` or a text, for example ``"matern52(ard)"`` or ``"rbf[0] + periodic[0] * rbf[0]"``. Held-out rows choose
        it by default; with ``auto="none"`` it is ``"rbf(ard)"``.
    likelihood : str or CustomLikelihood, optional
        The distribution of the target around the latent function. Held-out rows choose it by default. For numbers
        ``"gaussian"``, ``"gaussian-heteroskedastic"``, ``"student-t"``, ``"student-t-heteroskedastic"``; of positive numbers ``"gamma"``,
        ``"gamma-shaped"``, ``"exponential"``; of shares ``"beta-logit"``, ``"beta-probit"``, ``"beta-precise"``; of counts
        ``"poisson"``, ``"poisson-softplus"``, ``"negative-binomial"``, ``"negative-binomial-dispersed"``, ``"zero-inflated-poisson"``,
        ``"zero-inflated-negative-binomial"``, ``"hurdle-poisson"``, ``"hurdle-negative-binomial"``; of two classes
        ``"bernoulli-probit"``, ``"bernoulli-logit"``; of more ``"softmax"``; of ordered levels ``"ordinal"``.
    objective : {"elbo", "dlm-log", "dlm-square", "vfe", "fitc"}, optional
        What is minimised.
    beta : float, "auto" or list of float, default=1.0
        The weight of the KL term; a list is a grid of which held-out rows choose one, ``"auto"`` a grid that suits the data.
    n_inducing : int or "auto", optional
        The number of inducing inputs, or ``"auto"`` for as many as it takes. By default held-out rows choose few of them or the
        default for the number of rows.
    neighbours : int, "auto" or "none", optional
        The number of nearest training rows in addition to the inducing inputs. Held-out rows choose it by default.
    auto : str or list of str, default="all"
        What held-out training rows decide where no parameter does: ``"all"``, ``"none"``, or some of ``"likelihood"``,
        ``"warp-inputs"``, ``"warp-target"``, ``"kernel"``, ``"neighbours"``, ``"objective"`` and ``"inducing"``.
    warp_inputs : {"none", "normal-scores"}, optional
        The map of every input before it is standardised. Held-out rows choose it by default.
    warp_target : {"none", "log", "softplus"}, optional
        The map of a positive target before it is standardised. Held-out rows choose it by default.
    mean : {"constant", "zero"}, default="constant"
        The prior mean of the latent function.
    hyper : {"joint", "dual", "alternating", "collapsed", "fixed"}, optional
        How hyper-parameters and inducing inputs are tuned.
    batch_size : int, default=1024
        Rows of a mini-batch.
    learning_rate : float, default=0.01
        Adam's rate.
    epochs, max_seconds, tolerance : optional
        The most epochs (by the number of rows), the most seconds of choices and training together (no limit), and the progress
        below which training ends (by the way to train).
    validation_fraction : float, default=0
        The share of the rows held out to choose when to stop.
    patience : int, default=20
        Epochs without a better score of these rows before stopping.
    restarts : int, default=1
        The number of starts that are compared by short fits.
    fix, bounds, prior, tie : list of str, optional
        What is known of hyper-parameters, as ``"likelihood.noise_variance=0.1"`` or ``"*.lengthscales=0.1,"``.
    standardize : bool, default=True
        Whether inputs and target are standardised.
    keep, exclude : str or list of str, optional
        Columns of a table that are inputs although they look like identifiers, and columns that are none. Every column that is left
        out unasked is told in a warning; identifiers that the target follows are kept.
    categorical : list of str, optional
        Columns of a table that are categories although they look like numbers.
    ordered : dict of str to list, optional
        Columns of a table that have ordered levels, each with its levels from the least to the most: one input that counts them.
        Ordered categories of pandas are such columns unless ``categorical`` names them.
    unseen : {"new", "error"}, default="new"
        How levels of categories that training did not see are treated when predicting: each as a level unlike all others, so that
        predictions fall back to what all levels share, with a warning; or as an error.
    options : dict, optional
        Any other option of the command line's ``fit``, by its name with ``_`` for ``-``.
    callbacks : list of callable, optional
        Called after every epoch with its record, a dict of ``epoch``, ``epochs`` (the most), ``seconds``, ``objective`` and
        ``validation_nll``; one that returns True ends the training with what it has got to.
    verbose : bool, default=False
        Whether progress is shown.
    n_threads : int, optional
        The number of threads; by default what ``OMP_NUM_THREADS`` allows, or one per core. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        The seed of everything random. None stands for 0, so that the same call gives the same model."""


def named_init(cls: type[T]) -> type[T]:
    """Gives an estimator an ``__init__`` that goes by its own name in messages, where it shares one."""
    if "__init__" not in cls.__dict__:
        shared = cls.__init__
        own = FunctionType(shared.__code__, shared.__globals__, "__init__", shared.__defaults__, shared.__closure__)  # type: ignore[attr-defined]
        own.__kwdefaults__, own.__annotations__ = shared.__kwdefaults__, shared.__annotations__  # type: ignore[attr-defined]
        own.__qualname__ = f"{cls.__name__}.__init__"
        cls.__init__ = own  # type: ignore[assignment, misc]
    return cls


def documented(cls: type[T]) -> type[T]:
    """Writes the shared parameters into the docstring of an estimator."""
    if cls.__doc__:
        cls.__doc__ = cls.__doc__.replace("{parameters}", PARAMETERS)
    return named_init(cls)
