"""The work on a partition: its table, its answers to the engine, scaled rows, sums, scores."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_array

from .. import _sparsegp, _tables
from .._targets import checked_target
from ._tree import Tree


class Block(NamedTuple):
    """A partition in its original form: inputs, target, and exposures and weights or None."""

    X: object
    y: object
    exposure: object
    weights: object


class Rows(NamedTuple):
    """The training rows of a partition on the scale that the model sees; exposures and weights or None."""

    x: np.ndarray
    y: np.ndarray
    exposure: np.ndarray | None
    weights: np.ndarray | None


@dataclass(frozen=True)
class Job:
    """The settings that all partitions of a fit share."""

    #: The arguments of the engine: the roles of columns, and the options as JSON text.
    columns: dict
    options: str
    #: The names of the columns of X, and for a dataframe the kind of values of each column.
    names: list
    kinds: dict | None
    #: The classes, for a classifier.
    classes: np.ndarray | None

    @property
    def numeric(self) -> bool:
        return self.classes is None


def kind(dtype) -> str:
    """Returns the kind of values of a column of a dataframe, in words."""
    if hasattr(dtype, "categories"):
        return "text"
    return {"i": "numbers", "u": "numbers", "f": "numbers", "b": "truth values", "M": "dates"}.get(
        getattr(dtype, "kind", "O"), "text"
    )


def threads() -> int | None:
    """Returns the number of threads of the calling worker, which all of its tasks share; None outside a worker."""
    from distributed import get_worker

    try:
        return get_worker().state.nthreads
    except ValueError:
        return None


@contextmanager
def _of_partition(part: int):
    """Adds the number of the partition to errors."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise type(error)(f"partition {part}: {error}") from None
    except BaseException as error:
        # Dask does not notice a ``BaseException`` that is not an ``Exception``, and would wait for the task.
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(f"partition {part}: a defect of sparsegp, please report it: {error}") from None


def length(block) -> int:
    """Returns the number of rows of a block."""
    return len(block)


def labels(part: int, y) -> np.ndarray:
    """The distinct classes of a partition."""
    with _of_partition(part):
        return np.unique(checked_target(y, numeric=False))


def _inputs(job: Job, X) -> _sparsegp.Table:
    if job.kinds is None:
        X = check_array(X, dtype=np.float64, input_name="X")
        if X.shape[1] != len(job.names):
            raise ValueError(f"X has {X.shape[1]} columns, expected {len(job.names)}")
        return _tables.matrix_table(X, job.names)
    names = _tables.frame_names(X)
    absent = [name for name in job.names if name not in names]
    if absent:
        raise ValueError(f"X has no column {absent[0]!r}, expected {', '.join(job.names)}")
    for name, dtype in zip(names, X.dtypes):
        if name in job.kinds and kind(dtype) != job.kinds[name]:
            raise ValueError(f"column {name!r} holds {kind(dtype)} ({dtype}), expected {job.kinds[name]} as in other partitions")
    return _tables.named_table(X)


def _table(job: Job, block: Block) -> _sparsegp.Table:
    """Returns the table of a partition, with columns of targets, exposures and weights."""
    table = _inputs(job, block.X)
    y = checked_target(block.y, numeric=job.numeric)
    if job.numeric:
        target = ("number", np.asarray(y, dtype=np.float64))
    else:
        target = _tables.classes_column(y, job.classes, np.searchsorted(job.classes, y))
    more = [(job.columns["target"], target)]
    exposed = job.columns["exposure"] or job.columns["trials"]
    for name, values in ((exposed, block.exposure), (job.columns["weights"], block.weights)):
        if values is not None:
            more.append((name, ("number", check_array(values, ensure_2d=False, dtype=np.float64, input_name=name))))
    for name, (_, values) in more:
        if len(values) != len(table):
            raise ValueError(f"{name} has {len(values)} rows, X has {len(table)}")
    return table.with_columns(_sparsegp.Table.of_columns("y", more))


def survey(job: Job, part: int, first_row: int, readings: bytes, *block) -> bytes:
    """Returns the statistics of columns and scaling of a partition, with samples of its rows."""
    with _of_partition(part):
        return _sparsegp.survey_part(
            _table(job, Block(*block)), part, first_row, job.columns, job.options, readings, threads=threads()
        )


def prepare(job: Job, part: int, first_row: int, preparation: _sparsegp.Preparation, *block) -> Rows:
    """The training rows of a partition."""
    with _of_partition(part):
        return Rows(*preparation.rows(_table(job, Block(*block)), first_row, threads=threads()))


def question(work: bytes) -> bytes:
    """Returns the question of a round. It is a separate task, so workers pass it on, and it is recomputed if it is lost."""
    return work


def answers(work: bytes, tree: Tree, nodes: list, parts: list, *rows: Rows) -> list:
    """Returns the sums of a round for each of ``nodes``, merged over the partitions of the node. ``parts`` and ``rows``
    are the numbers and the rows of the partitions."""
    round_ = _sparsegp.Round(work, threads=threads())
    own = dict(zip((place for first, end in nodes for place in range(first, end)), zip(parts, rows)))

    def known(node):
        if node[1] - node[0] > 1:
            return None
        part, values = own[node[0]]
        with _of_partition(part):
            return round_.sums(part, *values, threads=threads())

    return [tree.merged(node, known, lambda front, back, _: merge_sums([front, back])) for node in nodes]


def merge_surveys(surveys: list) -> bytes:
    """Merges the surveys of adjacent partitions."""
    return _sparsegp.merge_surveys(surveys)


def merge_sums(sums: list) -> bytes:
    """Merges the answers of several partitions to a round."""
    return _sparsegp.merge_sums(sums)


def role(local) -> str:
    """Returns the argument of a local estimator for what its exposures are: ``"exposure"`` or ``"trials"``."""
    return "exposure" if local._columns["trials"] is None else "trials"


def predicted(local, method: str, wanted: dict, names: list, dtype, X, exposure=None):
    """Returns the predictions of a method of the local estimator for a block, with a column for each of ``names``, as a
    frame if the block is a frame."""
    wanted = wanted if exposure is None else {**wanted, role(local): np.asarray(exposure).reshape(-1)}
    found = getattr(local, method)(X, **wanted) if len(X) else ()
    found = found if isinstance(found, tuple) else (found,)
    values = np.column_stack(found) if found else np.empty((0, len(names)), dtype=dtype)
    if not _tables.is_pandas(X):
        return values
    import pandas as pd

    return pd.DataFrame(values, columns=names, index=X.index)


def squares(local, part: int, *block) -> np.ndarray:
    """Returns for a partition the weight, the mean of the target, and the sums of squares around the mean and around
    predictions."""
    with _of_partition(part):
        block = Block(*block)
        y = np.asarray(checked_target(block.y, numeric=True), dtype=np.float64)
        more = {} if block.exposure is None else {role(local): np.asarray(block.exposure)}
        weights = np.ones(len(y)) if block.weights is None else np.asarray(block.weights, dtype=np.float64)
        errors = y - local.predict(block.X, **more)
        mean = np.average(y, weights=weights)
        return np.array([weights.sum(), mean, weights @ (y - mean) ** 2, weights @ errors**2])


def hits(local, part: int, *block) -> np.ndarray:
    """Returns the weight of a partition, and the weight of the rows whose class is predicted correctly."""
    with _of_partition(part):
        block = Block(*block)
        y = checked_target(block.y, numeric=False)
        weights = np.ones(len(y)) if block.weights is None else np.asarray(block.weights, dtype=np.float64)
        return np.array([weights.sum(), weights @ (local.predict(block.X) == y)])
