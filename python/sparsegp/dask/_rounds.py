"""Questions of a fit to all partitions, and their merged answers: graphs that Dask runs; no meaning of questions."""

from __future__ import annotations

import time

import dask
from distributed import wait
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from .. import _sparsegp
from . import _tasks
from ._tree import Tree

#: How many rows that are read again in every round are summed in one task, where partitions are smaller.
ROWS = 65_536

#: How many seconds a fit waits if no worker is left or no worker runs its tasks: new workers take some time to start.
PATIENCE = 60.0

#: How often a fit looks after the workers, in seconds.
LOOKING = 0.5


class Lost(RuntimeError):
    """A worker that had tasks is gone, or its tasks make no progress: they have to run elsewhere."""


class Cluster:
    """A client, with what a fit wants of it: results, and errors in one line where there will be none."""

    def __init__(self, client):
        if client is None:
            from distributed import default_client

            try:
                client = default_client()
            except ValueError:
                raise ValueError("there is no Dask client: give client=, or make one: distributed.Client(...)") from None
        if getattr(client, "asynchronous", False):
            raise ValueError("the Dask client is asynchronous, expected one that waits for results: Client(..., asynchronous=False)")
        self.client = client
        self._check()

    def _check(self) -> None:
        """Refuses workers without this package, or with another version of it."""

        # Workers that lack the package could not read a function of it: this one is sent as code.
        def version():
            try:
                import sparsegp

                return sparsegp.__version__
            except ImportError:
                return None

        try:
            self.client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise RuntimeError(f"the Dask cluster has no workers after {PATIENCE:g} s, expected at least one") from None
        for address, found in self.client.run(version, on_error="return").items():
            # A worker that could not be asked is about to leave.
            if found != _sparsegp.__version__ and not isinstance(found, OSError):
                what = "no sparsegp" if found is None else f"sparsegp {found}"
                raise RuntimeError(f"the worker {address} has {what}, expected version {_sparsegp.__version__}: install it there")

    def workers(self) -> list:
        """The addresses of all workers, in an order that does not change. Waits until there is a worker."""
        alone_since = time.monotonic()
        while time.monotonic() - alone_since <= PATIENCE:
            if self.client.status != "running":
                raise RuntimeError("the connection to the Dask scheduler is lost")
            if found := self.client.nthreads():
                return sorted(found)
            time.sleep(LOOKING)
        raise RuntimeError(f"all workers are lost, and no new one came within {PATIENCE:g} s")

    def results(self, tasks: list, needed=frozenset()) -> list:
        """The results of tasks, as soon as all have arrived; raises ``Lost`` if a worker that they need is gone."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GiB"}):
            futures = self.client.compute(tasks, optimize_graph=False)
        try:
            self._wait(futures, needed)
            return self.client.gather(futures)
        except KilledWorker as error:
            text = str(error).split("\n")[0]
            raise RuntimeError(f"a task was given up after its workers were lost one after the other: {text}") from None
        except FutureCancelledError as error:
            raise RuntimeError(f"rows were lost with a worker, and nobody knows how to have them again: {error}") from None
        except BaseException:
            self.client.cancel(futures)
            raise

    def _wait(self, futures: list, needed) -> None:
        """Waits for tasks as long as the workers that they need are there and something comes of them."""
        quiet_since = time.monotonic()
        while True:
            try:
                wait(futures, timeout=LOOKING)
                return
            except TimeoutError:
                pass
            if not needed <= set(self.workers()):
                raise Lost("a worker is lost")
            # Only long fits ask, and they ask all workers, whether a task is running.
            if time.monotonic() - quiet_since > PATIENCE / 2:
                if self._is_busy():
                    quiet_since = time.monotonic()
                elif time.monotonic() - quiet_since > PATIENCE:
                    raise Lost(f"the workers did nothing for {PATIENCE:g} s")

    def _is_busy(self) -> bool:
        """True if a worker is running a task. A worker that leaves while it is asked is noticed at the next look at the workers."""
        try:
            return any(self.client.call_stack().values())
        except OSError:
            return True


class Questions:
    """The questions that the engine asks of partitions, by their names."""

    def __init__(self, cluster: Cluster, partitions, job: _tasks.Job, persist: bool):
        self._cluster, self._persist = cluster, persist
        self._blocks = list(partitions.with_rows())
        self._tree = Tree([partitions.sizes[part] for part, _, _ in self._blocks])
        self._job = dask.delayed(job, pure=False, traverse=False)
        self._preparation = None
        #: Which workers have shares, in their order; and for every partition its worker and its rows there.
        self._workers: list = []
        self._places: list = []
        self._rows: list = []

    def __call__(self, name: str, work: bytes) -> bytes:
        """The merged answer of all partitions."""
        return {"survey": self._survey, "prepare": self._prepare, "sums": self._sums}[name](work)

    def _survey(self, readings: bytes) -> bytes:
        survey = dask.delayed(_tasks.survey, pure=False, traverse=False)
        merge = dask.delayed(_tasks.merge_surveys, pure=False)
        found = [survey(self._job, part, first, readings, *block) for part, first, block in self._blocks]
        whole = self._tree.merged(
            (0, len(found)),
            lambda node: found[node[0]] if node[1] - node[0] == 1 else None,
            lambda front, back, _: merge([front, back]),
        )
        return self._cluster.results([whole])[0]

    def _prepare(self, work: bytes) -> bytes:
        self._preparation = dask.delayed(_sparsegp.Preparation, pure=False)(work)
        self._workers, self._places, self._rows = [], [None] * len(self._blocks), [None] * len(self._blocks)
        if not self._persist:
            self._rows = [self._prepared(place, None) for place in range(len(self._blocks))]
        return b""

    def _prepared(self, place: int, worker):
        """The training rows of a partition, on the given worker if there is one."""
        prepare = dask.delayed(_tasks.prepare, pure=False, traverse=False)
        part, first, block = self._blocks[place]
        return _on(worker, prepare(self._job, part, first, self._preparation, *block))

    def _settle(self) -> list:
        """Gives the workers that are there equal shares, and has the rows prepared that are not in their place. Neighbours are together, so
        that most of what is merged is in one place."""
        there = self._cluster.workers()
        if set(there) != set(self._workers):
            # A new worker takes the place of one that is lost.
            new = iter([worker for worker in there if worker not in self._workers])
            kept = [worker if worker in there else next(new, None) for worker in self._workers]
            self._workers = [*filter(None, kept), *new]
        shares = list(zip(self._tree.shares(len(self._workers)), self._workers))
        moving = [(at, worker) for share, worker in shares for at in range(*share) if self._places[at] != worker]
        if moving:
            kept = self._cluster.client.persist([self._prepared(*move) for move in moving], optimize_graph=False)
            for (at, worker), rows in zip(moving, kept):
                self._places[at], self._rows[at] = worker, rows
        return shares

    def _sums(self, work: bytes) -> bytes:
        last = None
        while True:
            shares = self._settle() if self._persist else [(group, None) for group in self._tree.groups(ROWS)]
            needed = {worker for _, worker in shares if worker is not None}
            try:
                return self._cluster.results([self._round(work, shares)], needed)[0]
            except Lost as lost:
                if needed <= set(self._cluster.workers()):
                    # Nobody is lost, and yet nothing comes: once more, from the beginning.
                    if last is not None:
                        raise RuntimeError(f"a round was asked twice, and {lost}") from None
                    last, self._places = lost, [None] * len(self._places)

    def _round(self, work: bytes, shares: list):
        """The answer to a round: a task for every share, with what is merged inside of it, and one for every other merge."""
        answers, merge = (dask.delayed(task, pure=False, traverse=False) for task in (_tasks.answers, _tasks.merge_sums))
        asked = _on(shares[0][1], dask.delayed(_tasks.question, pure=False, traverse=False)(work))
        found, places = {}, {}
        for share, worker in shares:
            nodes = self._tree.nodes(share)
            parts = [part for part, _, _ in self._blocks[slice(*share)]]
            own = _on(worker, answers(asked, self._tree, nodes, parts, *self._rows[slice(*share)]))
            found.update((node, _on(worker, own[at])) for at, node in enumerate(nodes))
            places.update((first, worker) for first in range(*share))

        def merged(front, back, node):
            return _on(places[node[0]], merge([front, back]))

        return self._tree.merged((0, len(self._tree)), found.get, merged)


def _on(worker, task):
    """The task, for the given worker if there is one. Its inputs may come from any worker. ``dask.annotate`` would also bind the job and
    the user's tasks, which are new layers of its graph, to this worker, and they could not be recomputed once it is lost."""
    if worker is not None:
        (layer,) = task.__dask_layers__()
        task.__dask_graph__().layers[layer].annotations = {"workers": [worker], "allow_other_workers": False}
    return task
