"""Questions of a fit to all partitions, and their merged answers: graphs that Dask runs; no meaning of questions."""

from __future__ import annotations

import time

import dask
from distributed import wait
from distributed.scheduler import KilledWorker

from .. import _sparsegp
from . import _tasks

#: How many answers are merged in one task. The tree depends on the number of partitions alone.
FAN_IN = 4

#: How long a fit waits where there is no worker left, in seconds: new ones take some time to start.
PATIENCE = 60.0

#: How often a fit looks whether there are workers, in seconds.
LOOKING = 2.0


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
        for address, found in self.client.run(version).items():
            if found != _sparsegp.__version__:
                what = "no sparsegp" if found is None else f"sparsegp {found}"
                raise RuntimeError(f"the worker {address} has {what}, expected version {_sparsegp.__version__}: install it there")

    def workers(self) -> list:
        """The addresses of all workers, in an order that does not change."""
        return sorted(self.client.scheduler_info(n_workers=-1)["workers"])

    def results(self, tasks: list) -> list:
        """What tasks come to, as soon as all are there."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GiB"}):
            futures = self.client.compute(tasks, optimize_graph=False)
        try:
            self._wait(futures)
            return self.client.gather(futures)
        except KilledWorker as error:
            text = str(error).split("\n")[0]
            raise RuntimeError(f"a task was given up after its workers were lost one after the other: {text}") from None
        except BaseException:
            self.client.cancel(futures)
            raise

    def _wait(self, futures: list) -> None:
        """Waits for tasks as long as there are workers, or might be again."""
        alone_since = None
        while True:
            try:
                wait(futures, timeout=LOOKING)
                return
            except TimeoutError:
                pass
            if self.client.status != "running":
                raise RuntimeError("the connection to the Dask scheduler is lost")
            if self.client.nthreads():
                alone_since = None
                continue
            alone_since = time.monotonic() if alone_since is None else alone_since
            if time.monotonic() - alone_since > PATIENCE:
                raise RuntimeError(f"all workers are lost, and no new one came within {PATIENCE:g} s")


class Questions:
    """What the engine asks of partitions, by the names that it has for questions."""

    def __init__(self, cluster: Cluster, partitions, job: _tasks.Job, persist: bool):
        self._cluster, self._partitions, self._persist = cluster, partitions, persist
        self._job = dask.delayed(job, pure=False, traverse=False)
        self._rows: list = []

    def __call__(self, name: str, work: bytes) -> bytes:
        """The merged answer of all partitions."""
        return {"survey": self._survey, "prepare": self._prepare, "sums": self._sums}[name](work)

    def _places(self):
        """For every partition where it is best kept: neighbours together, so that most of what is merged is in one place already. Values
        that are with workers stay there."""
        workers, count = self._cluster.workers(), len(self._partitions)
        for part in range(count):
            stays = self._partitions.held or not self._persist or not workers
            yield {} if stays else {"workers": [workers[part * len(workers) // count]], "allow_other_workers": True}

    def _survey(self, readings: bytes) -> bytes:
        survey = dask.delayed(_tasks.survey, pure=False, traverse=False)
        with_rows = self._partitions.with_rows()
        found = [survey(self._job, part, first, readings, *block) for part, first, block in with_rows]
        return self._merged(found, _tasks.merge_surveys)

    def _prepare(self, work: bytes) -> bytes:
        preparation = dask.delayed(_sparsegp.Preparation, pure=False)(work)
        prepare = dask.delayed(_tasks.prepare, pure=False, traverse=False)
        places, rows = list(self._places()), []
        for part, first, block in self._partitions.with_rows():
            with dask.annotate(**places[part]):
                rows.append((part, prepare(self._job, part, first, preparation, *block)))
        if self._persist:
            kept = self._cluster.client.persist([own for _, own in rows], optimize_graph=False)
            rows = [(part, own) for (part, _), own in zip(rows, kept)]
        self._rows = rows
        return b""

    def _sums(self, work: bytes) -> bytes:
        round_ = dask.delayed(_sparsegp.Round, pure=False)(work)
        answer = dask.delayed(_tasks.answer, pure=False, traverse=False)
        return self._merged([answer(round_, rows, part) for part, rows in self._rows], _tasks.merge_sums)

    def _merged(self, found: list, merge) -> bytes:
        """The answers merged in a tree, neighbours first."""
        merge = dask.delayed(merge, pure=False)
        while len(found) > 1:
            found = [
                merge(found[at : at + FAN_IN]) if len(found[at : at + FAN_IN]) > 1 else found[at]
                for at in range(0, len(found), FAN_IN)
            ]
        return self._cluster.results(found)[0]
