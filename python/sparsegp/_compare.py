"""The comparison of objectives on held-out rows. The engine runs all fits; this module returns its tables as arrays."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from . import _exposures, _sparsegp, _tables
from ._options import custom_of, engine_options
from ._types import Column, Rows, Seed, Texts
from .kernels import Kernel
from .likelihoods import CustomLikelihood


#: The metrics in the printed table of a comparison, if its task has them.
FIGURES = {
    "nll": "NLL",
    "error_rate": "error rate",
    "auc": "AUC",
    "rmse": "RMSE",
    "crps": "CRPS",
    "coverage_95": "95 % coverage",
    "seconds": "seconds",
}


@dataclass(repr=False)
class Comparison:
    """The result of a comparison.

    Parameters
    ----------
    results : dict of ndarray
        A row per fit: ``objective``, ``beta``, ``train_size``, ``repeat``, ``seconds``, metrics of the test rows, and
        more. ``pandas.DataFrame(results)`` converts it to a frame.
    summary : dict of ndarray
        Means and standard errors over the repeats, a row per objective and number of training rows.
    notes : list of str
        Notes about the data.
    """

    results: dict[str, NDArray[Any]]
    summary: dict[str, NDArray[Any]]
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        """The summary as a table: means over the repeats, with standard errors if there are several repeats."""
        summary = self.summary
        shown = [name for name in FIGURES if not np.all(np.isnan(summary.get(f"{name}_mean", np.nan)))]
        if "error_rate" in shown:  # For classes, the CRPS is the Brier score.
            shown.remove("crps")
        cells = [["objective", "train size", "runs", *(FIGURES[name] for name in shown)]]
        for row, objective in enumerate(summary["objective"]):
            cells.append([objective, *(f"{summary[name][row]:.0f}" for name in ("train_size", "runs"))])
            for name in shown:
                mean, error = (summary.get(f"{name}_{of}", {row: np.nan})[row] for of in ("mean", "se"))
                cells[-1].append(f"{mean:.4g}" + ("" if np.isnan(error) else f" ± {error:.2g}"))
        widths = [max(map(len, column)) for column in zip(*cells)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)

    @property
    def frame(self) -> Any:
        """``summary`` as a pandas frame, which needs pandas: a row per objective and number of training rows."""
        import pandas

        return pandas.DataFrame(self.summary)

    def plot(self, figure: str = "nll", ax: Any = None) -> Any:
        """Plot a metric of the test rows against the number of training rows, with standard errors.

        Parameters
        ----------
        figure : str, default="nll"
            The metric, by its name in ``summary`` without ``_mean``.
        ax : matplotlib Axes, optional
            The axes to plot on; new ones by default.

        Returns
        -------
        matplotlib Axes
        """
        from .plot import comparison

        return comparison(self, figure, ax=ax)


def compare(
    X: Rows,
    y: Column,
    objectives: Sequence[str] = ("elbo", "dlm-log"),
    *,
    likelihood: str | CustomLikelihood | None = None,
    task: str | None = None,
    kernel: str | Kernel | None = None,
    betas: str | Sequence[float] | None = None,
    repeats: int = 1,
    train_sizes: Sequence[int] = (),
    test_fraction: float = 0.2,
    exposure: Column = None,
    keep: Texts = None,
    exclude: Texts = None,
    categorical: Texts = None,
    ordered: Mapping[str, Sequence[Any]] | None = None,
    folder: str | PathLike[str] | None = None,
    n_threads: int | None = None,
    random_state: Seed = None,
    options: dict[str, Any] | None = None,
    trials: Column = None,
) -> Comparison:
    """Compare objectives by held-out rows, over repeats and numbers of training rows.

    Ctrl-C takes effect only after all fits have finished.

    Parameters
    ----------
    X : array-like or table of shape (n, d)
        The inputs.
    y : array-like of shape (n,)
        The targets.
    objectives : sequence of str, default=("elbo", "dlm-log")
        The objectives: ``"elbo"``, ``"beta-elbo"``, ``"dlm-log"``, ``"dlm-square"``, ``"vfe"``, ``"fitc"`` and others. The suffix
        ``":fixed"`` trains only the posterior, at the hyper-parameters of the ELBO fit.
    likelihood, task, kernel : str, optional
        As for the estimators, except that unset parameters have fixed defaults and are not chosen by held-out rows.
    betas : "auto" or list of float, optional
        The grid of β for objectives with a KL weight.
    repeats : int, default=1
        The number of repeats, each with other test rows.
    train_sizes : sequence of int, optional
        Numbers of training rows; all by default.
    test_fraction : float, default=0.2
        The share of the rows to hold out for testing.
    exposure : array-like of shape (n,), optional
        Exposures, for counts.
    keep, exclude : str or list of str, optional
        Columns of a table to keep as inputs although they look like identifiers, and columns to leave out.
    categorical : list of str, optional
        Columns that are categories although they look like numbers.
    ordered : dict of str to list, optional
        Columns of ordered levels, each with its levels from the lowest to the highest.
    folder : path-like, optional
        The folder to keep finished fits in, to continue after an interruption.
    n_threads : int, optional
        The number of fits that run at the same time.
    random_state : int, RandomState or None
        The random seed.
    options : dict, optional
        Other options of the command line's ``compare``, by name.
    trials : array-like of shape (n,), optional
        Numbers of trials, for targets that are numbers of successes.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegp import compare
    >>> X = np.linspace(0, 10, 120)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.2 * np.cos(31 * X[:, 0])
    >>> found = compare(X, y, ["vfe", "fitc"], repeats=2, options={"inducing": 10, "epochs": 20})
    >>> sorted(set(found.results["objective"].tolist())), len(found.results["nll"])
    (['fitc', 'vfe'], 4)
    """
    params = {"likelihood": likelihood, "kernel": kernel, "random_state": random_state, "auto": "none", "beta": betas}
    text, betas = engine_options(params | {"options": options}, task=task)
    array = not _tables.is_named(X)
    table = _tables.matrix_table(check_array(X, dtype=np.float64)) if array else _tables.named_table(X)
    names = set(table.names)
    name = getattr(y, "name", None)
    target = _tables.free_name(name if isinstance(name, str) and name else "y", names)
    more = [(target, _tables.column(np.asarray(y), target))]
    columns = {"target": target, **dict.fromkeys(("exposure", "trials", "noise_std", "censored", "lower", "upper", "weights"))}
    columns["keep"] = table.names if array else _tables.names_of(keep)
    columns["exclude"] = _tables.names_of(exclude)
    columns |= _tables.category_columns(X, categorical, ordered) | {"positive_label": None}
    role, values = _exposures.unwrapped(_exposures.given(exposure, trials))
    if values is not None:
        columns[role] = _tables.free_name(role, names | {target})
        more.append((columns[role], ("number", np.asarray(values, dtype=np.float64))))
    table = table.with_columns(_sparsegp.Table.of_columns("y", more))
    with tempfile.TemporaryDirectory() as own:
        results, summary, notes = _sparsegp.compare(
            table,
            columns,
            text,
            [str(word) for word in objectives],
            betas=betas,
            repeats=int(repeats),
            train_sizes=[int(size) for size in train_sizes],
            test_fraction=float(test_fraction),
            folder=own if folder is None else folder,
            custom=custom_of(params),
            threads=n_threads,
        )
    return Comparison(_arrays(results), _arrays(summary), notes)


def _arrays(text: str) -> dict[str, NDArray[Any]]:
    """The columns of a CSV text: numbers if all cells of a column are numbers, with NaN for empty cells."""
    rows = list(csv.reader(io.StringIO(text)))
    columns = {}
    for name, *cells in zip(*rows):
        try:
            columns[name] = np.array([float(cell) if cell else np.nan for cell in cells])
        except ValueError:
            columns[name] = np.array(cells, dtype=object)
    return columns


__all__ = ["Comparison", "compare"]
