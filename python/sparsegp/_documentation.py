"""The documentation of the estimators' parameters, for their docstrings, and the names of estimators in error messages;
no estimators."""

from __future__ import annotations

from types import FunctionType
from typing import TypeVar

T = TypeVar("T")


def filled(doc: str, texts: dict[str, str]) -> str:
    """Returns a class's docstring with texts, indented as in the source, in place of words. Python strips the indentation of docstrings from
    3.13 on."""
    is_stripped = "\n    Parameters" not in doc
    for word, text in texts.items():
        doc = doc.replace(word, text.replace("\n    ", "\n") if is_stripped else text)
    return doc


#: The meaning of the parameters, for the docstrings of all estimators of sparse processes.
PARAMETERS = """kernel : str or Kernel, optional
        The kernel: an object of :mod:`sparsegp.kernels` or a string, such as ``"matern52(ard)"`` or
        ``"rbf[0] + periodic[0] * rbf[0]"``. Held-out rows choose it by default; with ``auto="none"`` it is ``"rbf(ard)"``.
    likelihood : str or CustomLikelihood, optional
        The distribution of the target around the latent function. Held-out rows choose it by default. For numbers
        ``"gaussian"``, ``"gaussian-heteroskedastic"``, ``"student-t"``, ``"student-t-heteroskedastic"``; for positive numbers
        ``"gamma"``, ``"gamma-shaped"``, ``"exponential"``; for shares ``"beta-logit"``, ``"beta-probit"``, ``"beta-precise"``; for
        counts ``"poisson"``, ``"poisson-softplus"``, ``"negative-binomial"``, ``"negative-binomial-dispersed"``,
        ``"zero-inflated-poisson"``, ``"zero-inflated-negative-binomial"``, ``"hurdle-poisson"``, ``"hurdle-negative-binomial"``;
        for two classes ``"bernoulli-probit"``, ``"bernoulli-logit"``; for more classes ``"softmax"``; for ordered levels ``"ordinal"``.
    objective : {"elbo", "dlm-log", "dlm-square", "vfe", "fitc"}, optional
        The objective that training minimises. By default ``"elbo"``, or ``"dlm-log"`` if held-out rows choose it.
    beta : float, "auto" or list of float, default=1.0
        The weight of the KL term. From a list, held-out rows choose one value; ``"auto"`` creates a list that suits the data.
    n_inducing : int or "auto", optional
        The number of inducing inputs, or ``"auto"`` to add inputs until they suffice. By default held-out rows choose between a
        small number and the default for the number of rows.
    neighbours : int, "auto" or "none", optional
        The number of nearest training rows that a prediction uses in addition to the inducing inputs. Held-out rows choose it by default.
    auto : str or list of str, default="all"
        The settings that held-out training rows choose if no parameter sets them: ``"all"``, ``"none"``, or some of ``"mean"``,
        ``"likelihood"``, ``"warp-inputs"``, ``"warp-target"``, ``"kernel"``, ``"neighbours"``, ``"objective"`` and ``"inducing"``.
    warp_inputs : {"none", "normal-scores"}, optional
        The map of every input before it is standardised. Held-out rows choose it by default.
    warp_target : {"none", "log", "softplus"}, optional
        The map of a positive target before it is standardised. Held-out rows choose it by default.
    mean : {"constant", "zero", "trees"}, estimator or callable, optional
        The prior mean of the latent function. ``"trees"`` adds cross-fitted predictions of boosted trees as inputs; held-out rows choose
        between a constant and trees by default. Predictions of clones of an estimator, each fitted outside of a fold, are inputs likewise:
        log odds or log probabilities if it has ``predict_proba``, else ``predict``. A function of ``X`` is used as it is.
    cv : int or splitter, default=5
        The folds of an estimator given as ``mean``, as in scikit-learn.
    hyper : {"joint", "dual", "alternating", "collapsed", "fixed"}, optional
        The training mode of hyper-parameters and inducing inputs. The default depends on objective, likelihood and number of rows.
    batch_size : int, default=1024
        The number of rows in a mini-batch.
    learning_rate : float, default=0.01
        The learning rate of Adam.
    epochs, max_seconds, tolerance : optional
        The maximum number of epochs (the default depends on the number of rows), the maximum number of seconds for choices and
        training together (no limit by default), and the progress per epoch below which training ends (the default depends on
        ``hyper``).
    hyper_posterior : {"none", "auto", "laplace"}, optional
        Whether predictions are averaged over the posterior of the hyper-parameters, whose intervals are then
        ``hyperparameter_intervals_``. The default is ``"auto"``: for at most 2000 rows, if that changes the widths of intervals by more
        than 2 %; with ``auto="none"`` it is ``"none"``.
    validation_fraction : float, default=0
        The share of the rows held out to choose when to stop.
    patience : int, default=20
        The number of epochs without a better score on the validation rows after which training stops.
    restarts : int, default=1
        The number of starting points. Short fits compare them, and training continues from the best one.
    start, fix, bounds, prior, tie : list of str, optional
        Starting values, fixed values, bounds, priors and ties of hyper-parameters, such as ``"likelihood.noise_variance=0.1"``
        or ``"*.lengthscales=0.1,"``, on the scale the model sees (standardised columns). A name with a column in brackets takes
        numbers in units of that column: ``"kernel.periodic.period[hour]=24"``, ``"kernel.lengthscales[x0]=0.5,2"`` for the
        first column of an array, and ``"likelihood.noise_variance[y]=0.1"`` for Gaussian noise around the target ``y``. Columns
        are those of ``input_names_``.
    standardize : bool, default=True
        Standardise inputs and target.
    keep, exclude : str or list of str, optional
        Columns of a table to keep as inputs although they look like identifiers, and columns to leave out. A warning names every
        column that is left out automatically. Identifiers that help to predict the target are kept.
    categorical : list of str, optional
        Columns of a table that are categories although they look like numbers.
    ordered : dict of str to list, optional
        Columns of a table that have ordered levels, each with its levels from the lowest to the highest. Each becomes one input,
        the number of the level. Ordered categoricals of pandas are such columns unless ``categorical`` names them.
    places : list of str, optional
        The columns of longitude and latitude in degrees, in this order. They become one input, a point on the sphere, with one
        lengthscale in km.
    plane : list of str, optional
        Two columns of coordinates in a plane, which become one input with one lengthscale.
    unseen : {"new", "error"}, default="new"
        The treatment of a category that training did not see. ``"new"`` warns and treats it as unlike all others, so predictions
        use only the part that all categories share; ``"error"`` refuses it.
    options : dict, optional
        Any other option of the command line's ``fit``, by its name with ``_`` for ``-``.
    callbacks : list of callable, optional
        Called after every epoch with its record, a dict of ``epoch``, ``epochs`` (the maximum), ``seconds``, ``objective`` and
        ``validation_nll``. A callback that returns True ends the training and keeps the model reached so far.
    verbose : bool, default=False
        Show progress.
    n_threads : int, optional
        The number of threads. By default the value of ``OMP_NUM_THREADS``, or one per core. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        The random seed. None means 0, so that the same call gives the same model."""


#: The parameter of regressors of sparse processes, with the text that follows it.
CONFORMAL = """conformal : bool, default=False
        Calibrate quantiles by the conformity scores of held-out rows (conformalised quantiles), for each level of the first of ``groups``.
        Up to 1000 rows, five further fits hold out a fifth of the rows each; with more rows, a fifth is held out of the fit. Means,
        variances and densities stay as they are.
    options : dict, optional"""


def named_init(cls: type[T]) -> type[T]:
    """Gives an estimator that inherits ``__init__`` a copy of the method, so that error messages contain the name of the
    estimator."""
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
        has = "conformal" in cls.__init__.__code__.co_varnames  # type: ignore[misc]
        text = PARAMETERS.replace("options : dict, optional", CONFORMAL) if has else PARAMETERS
        cls.__doc__ = filled(cls.__doc__, {"{parameters}": text})
    return named_init(cls)
