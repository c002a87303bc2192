"""The requests of the engine to all partitions during a fit, and the merged answers, as graphs that Dask runs."""

from __future__ import annotations

import time

import dask
from distributed import wait
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from .. import _sparsegp
from . import _tasks
from ._tree import Tree

#: The number of rows that one task sums if rows are read again in every round. Larger partitions are separate tasks.
ROWS = 65_536

#: The number of seconds that a fit waits if no worker is left or no worker runs its tasks: new workers take some time to start.
PATIENCE = 60.0

#: The interval between checks of the workers, in seconds.
LOOKING = 0.5


class Lost(RuntimeError):
    """A worker with tasks was lost, or its tasks make no progress, so the tasks have to run elsewhere."""


class Cluster:
    """A client that returns results of tasks, or raises errors of one line if there will be no results."""

    def __init__(self, client):
        if client is None:
            from distributed import default_client

            try:
                client = default_client()
            except ValueError:
                raise ValueError("there is no Dask client: give client=, or create one with distributed.Client(...)") from None
        if getattr(client, "asynchronous", False):
            raise ValueError("the Dask client is asynchronous, expected a synchronous client: Client(..., asynchronous=False)")
        self.client = client
        self._check()

    def _check(self) -> None:
        """Refuses workers without this package, or with another version of it."""

        # Workers without the package could not load a function of the package, so this function is sent as code.
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
            # A worker that does not respond is about to leave.
            if found != _sparsegp.__version__ and not isinstance(found, OSError):
                what = "no sparsegp" if found is None else f"sparsegp {found}"
                raise RuntimeError(f"the worker {address} has {what}, expected version {_sparsegp.__version__}: install it there")

    def workers(self) -> list:
        """Returns the addresses of all workers, in a stable order. Waits until there is a worker."""
        alone_since = time.monotonic()
        while time.monotonic() - alone_since <= PATIENCE:
            if self.client.status != "running":
                raise RuntimeError("the connection to the Dask scheduler is lost")
            if found := self.client.nthreads():
                return sorted(found)
            time.sleep(LOOKING)
        raise RuntimeError(f"all workers are lost, and no new worker started within {PATIENCE:g} s")

    def results(self, tasks: list, needed=frozenset()) -> list:
        """Returns the results of tasks when all have arrived; raises ``Lost`` if a worker that they need is lost."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GiB"}):
            futures = self.client.compute(tasks, optimize_graph=False)
        try:
            self._wait(futures, needed)
            return self.client.gather(futures)
        except KilledWorker as error:
            text = str(error).split("\n")[0]
            raise RuntimeError(f"a task failed because several of its workers were lost in turn: {text}") from None
        except FutureCancelledError as error:
            raise RuntimeError(f"rows were lost with a worker, and their source is not known to Dask: {error}") from None
        except BaseException:
            self.client.cancel(futures)
            raise

    def _wait(self, futures: list, needed) -> None:
        """Waits for tasks while the workers that they need exist and make progress."""
        quiet_since = time.monotonic()
        while True:
            try:
                wait(futures, timeout=LOOKING)
                return
            except TimeoutError:
                pass
            if not needed <= set(self.workers()):
                raise Lost("a worker is lost")
            # Only long fits get here. Every worker is asked whether it runs a task.
            if time.monotonic() - quiet_since > PATIENCE / 2:
                if self._is_busy():
                    quiet_since = time.monotonic()
                elif time.monotonic() - quiet_since > PATIENCE:
                    raise Lost(f"the workers did nothing for {PATIENCE:g} s")

    def _is_busy(self) -> bool:
        """Returns True if a worker is running a task. If a worker leaves while it is asked, the next check of the workers
        notices this."""
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
        #: The workers with shares, in their order; and for every partition its worker and its rows on that worker.
        self._workers: list = []
        self._places: list = []
        self._rows: list = []

    def __call__(self, name: str, work: bytes) -> bytes:
        """Returns the merged answer of all partitions."""
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
        """Returns the training rows of a partition, on the given worker if there is one."""
        prepare = dask.delayed(_tasks.prepare, pure=False, traverse=False)
        part, first, block = self._blocks[place]
        return _on(worker, prepare(self._job, part, first, self._preparation, *block))

    def _settle(self) -> list:
        """Gives the current workers equal shares, and has rows prepared that are not on their worker. Adjacent
        partitions are together, so that most merges are local to a worker."""
        there = self._cluster.workers()
        if set(there) != set(self._workers):
            # A new worker replaces a lost one.
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
                    # No worker is lost, but there is no progress: start again, once.
                    if last is not None:
                        raise RuntimeError(f"a round was asked twice, and {lost}") from None
                    last, self._places = lost, [None] * len(self._places)

    def _round(self, work: bytes, shares: list):
        """Returns the answer to a round: a task for every share, including the merges within the share, and a task for
        every other merge."""
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
    """Returns the task, bound to the given worker if there is one. Its inputs may come from any worker.
    ``dask.annotate`` would also bind the job and the user's tasks, which are new layers of its graph, to this worker,
    and they could not be recomputed once it is lost."""
    if worker is not None:
        (layer,) = task.__dask_layers__()
        task.__dask_graph__().layers[layer].annotations = {"workers": [worker], "allow_other_workers": False}
    return task
