"""Measures sparsegp.dask on one machine: agreement, speed-up, overhead, bytes, lost workers, memory, and what many workers would take.

    python python/benches/dask_scaling.py agreement scaling killed memory model [--rows N] [--inducing M]

Workers are processes with one thread each, connected over loopback. Every line of the output is a JSON object. Seconds
are wall-clock seconds, unless they are named processor seconds, which are more reliable on a shared machine.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

from sparsegp import SparseGPRegressor
from sparsegp.dask import DaskSparseGPRegressor, _estimators, _rounds, _tasks

INPUTS = 8


def say(what: str, **figures) -> None:
    """Prints figures as a line of JSON."""
    short = {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in figures.items()}
    print(json.dumps({"what": what, **short}), flush=True)


def block(first: int, rows: int) -> np.ndarray:
    """Returns inputs, and as the last column a smooth function of the inputs plus noise with standard deviation 0.3."""
    random = np.random.default_rng(first)
    X = random.uniform(-2, 2, (rows, INPUTS))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(X[:, 3])
    return np.column_stack([X, f + 0.3 * random.standard_normal(rows)])


def generated(rows: int, size: int):
    """Returns lazy dask arrays of inputs and targets, which are generated partition by partition."""
    sizes = [min(size, rows - first) for first in range(0, rows, size)]
    make = dask.delayed(block, pure=False)
    parts = [
        da.from_delayed(make(part * size, own), (own, INPUTS + 1), dtype=float) for part, own in enumerate(sizes)
    ]
    whole = da.concatenate(parts)
    return whole[:, :INPUTS], whole[:, INPUTS]


def cluster_of(workers: int):
    cluster = LocalCluster(
        n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None,
        worker_dashboard_address=None, memory_limit=0,
    )
    return cluster, Client(cluster)


def processor_seconds() -> float:
    """Returns the processor seconds of the calling process."""
    times = os.times()
    return times.user + times.system


def most_memory() -> int:
    """Returns the peak memory of the calling process, in bytes."""
    status = Path("/proc/self/status").read_text()
    return next(1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def moved(dask_worker) -> int:
    """Returns the number of bytes that a worker received from other workers."""
    return sum(transfer["total"] for transfer in dask_worker.transfer_incoming_log)


class Timed(_rounds.Questions):
    """Questions with timed rounds of sums. Before the first round, when workers have their rows, the processor seconds
    and the transferred bytes of all workers are recorded."""

    rounds: list = []
    before: tuple = ()

    def _sums(self, work: bytes) -> bytes:
        if not Timed.rounds:
            if self._persist:
                self._settle()
                wait(self._rows)
            Timed.before = used(self._cluster.client)
        started = time.perf_counter()
        found = super()._sums(work)
        Timed.rounds.append((time.perf_counter() - started, len(work), len(found)))
        return found


def used(client) -> tuple[dict, int]:
    """Returns the processor seconds of every worker, and the number of bytes that workers received from each other."""
    return client.run(processor_seconds), sum(client.run(moved).values())


_estimators.Questions = Timed


def plan(inducing: int, epochs: int, **more) -> dict:
    return {
        "kernel": "rbf(ard)", "n_inducing": inducing, "auto": "none", "epochs": epochs, "objective": "vfe",
        "options": {"inducing_init": "random"}, **more,
    }


def fit(X, y, client, inducing: int, epochs: int, **more):
    """Returns a fitted model, and the seconds and bytes of its rounds."""
    Timed.rounds = []
    model = DaskSparseGPRegressor(**plan(inducing, epochs, **more), client=client).fit(X, y)
    return model, list(Timed.rounds)


def agreement(args) -> None:
    """Compares one worker, two workers, and one process with all rows, at the same hyper-parameters and inducing inputs."""
    import pyarrow
    import pyarrow.parquet

    size = args.rows // 8
    X, y = generated(args.rows, size)
    models = {}
    for workers in (1, 2):
        cluster, client = cluster_of(workers)
        with cluster, client:
            models[workers] = fit(X, y, client, args.inducing, 1)[0].to_local()
    new = block(10**9, 10_000)[:, :INPUTS]
    mean = models[2].predict(new)
    with tempfile.TemporaryDirectory() as folder:
        data = np.vstack([block(part * size, size) for part in range(8)])
        names = [f"x{i}" for i in range(INPUTS)] + ["y"]
        pyarrow.parquet.write_table(pyarrow.table(dict(zip(names, data.T))), f"{folder}/data.parquet")
        models[2].save(f"{folder}/start")
        command = [
            sys.executable, "-m", "sparsegp", "fit", f"{folder}/data.parquet", "--target", "y", "--from", f"{folder}/start",
            "--objective", "vfe", "--hyper", "fixed", "--quiet", "--model-out", f"{folder}/whole", "--metrics", f"{folder}/metrics",
        ]
        subprocess.run(command, check=True)
        whole = SparseGPRegressor.load(f"{folder}/whole")
    say(
        "agreement", rows=8 * size, inducing=args.inducing,
        one_and_two_workers_the_same_bits=bool(np.array_equal(mean, models[1].predict(new))),
        largest_difference_of_predictions=float(np.abs(whole.predict(new) - mean).max()),
        difference_of_objective=abs(whole.objective_ - models[2].objective_), deviation_of_targets=float(data[:, -1].std()),
    )


def engine(rows: int, inducing: int, epochs: int) -> dict:
    """Returns the seconds of an evaluation by the engine alone, in a separate process with one thread."""
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); import dask_scaling as own; "
        f"print(json.dumps(own.engine_here({rows}, {inducing}, {epochs})))"
    )
    folder = str(Path(__file__).resolve().parent)
    done = subprocess.run([sys.executable, "-c", code, folder], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def engine_here(rows: int, inducing: int, epochs: int) -> dict:
    data = np.vstack([block(part * (rows // 8), rows // 8) for part in range(8)])
    at = []
    note = lambda record: at.append((time.perf_counter(), processor_seconds()))  # noqa: E731
    model = SparseGPRegressor(**plan(inducing, epochs, n_threads=1, callbacks=[note], tolerance=0.0))
    started = (time.perf_counter(), processor_seconds())
    model.fit(data[:, :INPUTS], data[:, INPUTS])
    wall, processor = (b - a for a, b in zip(started, (time.perf_counter(), processor_seconds())))
    # After the last iteration, a value and the upper bound are computed, which take half an evaluation each.
    evaluations = model.document_["fit"]["evaluations"] + 1
    return {"seconds": wall / evaluations, "processor_seconds": processor / evaluations, "evaluations": evaluations}


def scaling(args) -> None:
    """Measures an evaluation by one process with one thread, by one worker and by two workers, and the transferred bytes."""
    alone = engine(args.rows, args.inducing, args.epochs)
    say("engine", rows=args.rows, inducing=args.inducing, **alone)
    size = args.rows // 8
    for workers in (1, 2):
        cluster, client = cluster_of(workers)
        with cluster, client:
            X, y = generated(args.rows, size)
            _, rounds = fit(X, y, client, args.inducing, args.epochs, tolerance=0.0)
            (before, bytes_before), (after, bytes_after) = Timed.before, used(client)
        evaluations = len(rounds) / 2
        spent = [(after[address] - before[address]) / evaluations for address in after]
        seconds = sum(seconds for seconds, _, _ in rounds) / evaluations
        answers = [found for _, _, found in rounds]
        # Up and down once for every worker.
        expected = sum(sent + found for _, sent, found in rounds) / evaluations * (workers - 1)
        say(
            "workers", workers=workers, rows=args.rows, inducing=args.inducing, evaluations=evaluations, seconds=seconds,
            processor_seconds_of_workers=spent, speed_up=alone["seconds"] / seconds,
            speed_up_by_processors=alone["processor_seconds"] / max(spent),
            overhead_by_processors=sum(spent) / alone["processor_seconds"] - 1.0,
            bytes_of_an_answer=max(answers), bytes_between_workers=(bytes_after - bytes_before) / evaluations, of_the_model=expected,
        )


def killed(args) -> None:
    """Compares fits during which the process of a worker is ended ten times with undisturbed fits."""
    # A local cluster gives up a worker that is absent some time after it was lost, even if it came back in between and
    # was lost again.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    cluster, client = cluster_of(2)
    new = block(10**9, 1000)[:, :INPUTS]
    plans = {
        "collapsed": {"tolerance": 0.0},
        "mini-batches": {"objective": "elbo", "batch_size": 32_768},
        "q on all rows": {"objective": "elbo", "hyper": "fixed", "likelihood": "student-t"},
    }
    with cluster, client:
        X, y = client.persist([*generated(args.rows, args.rows // 16)])
        for name, own in plans.items():
            ended = []

            def end(record, ended=ended):
                # Dask starts a new process for a process that ended, which takes seconds.
                client.wait_for_workers(2, timeout=60)
                if record["epoch"] % 2 == 0 and len(ended) < 10:
                    process = sorted(client.run(os.getpid).values())[len(ended) % 2]
                    ended.append(process)
                    threading.Timer(0.05, os.kill, (process, signal.SIGKILL)).start()

            def predicted(**more):
                started = time.perf_counter()
                mean = fit(X, y, client, 100, 30, **own, **more)[0].to_local().predict(new)
                return mean, time.perf_counter() - started

            want, plain = predicted()
            got, seconds = predicted(callbacks=[end])
            say(
                "killed", training=name, rows=args.rows, workers_ended=len(ended), the_same_bits=bool(np.array_equal(got, want)),
                seconds_left_alone=plain, seconds=seconds,
            )


def memory(args) -> None:
    """Measures an evaluation on rows that are generated again in every round, and the memory of all processes."""
    for rows in args.many:
        cluster, client = cluster_of(2)
        with cluster, client:
            X, y = generated(rows, 100_000)
            started = time.perf_counter()
            _, rounds = fit(X, y, client, args.few_inducing, 0 + 1, persist=False, hyper="fixed")
            whole = time.perf_counter() - started
            peak = sum(client.run(most_memory).values()) + client.run_on_scheduler(most_memory)
        say(
            "memory", rows=rows, inducing=args.few_inducing, seconds_of_a_round=[seconds for seconds, _, _ in rounds],
            seconds_of_a_round_and_million_rows=1e6 * rounds[0][0] / rows, seconds_of_the_fit=whole, most_bytes_of_all_processes=peak,
        )


def simulated(tasks: np.ndarray, workers: int, latency: float, transfer: float, merge: float) -> float:
    """Returns the seconds of a round: every worker runs its share of tasks and merges their answers; then workers merge
    their results in pairs."""
    done = [latency + share.sum() + merge * len(share) for share in np.array_split(tasks, workers)]
    while len(done) > 1:
        pairs = [done[at : at + 2] for at in range(0, len(done), 2)]
        done = [max(pair) + latency + transfer + merge * len(pair) for pair in pairs]
    return done[0]


def model(args) -> None:
    """Estimates the seconds of an evaluation of 10⁹ rows on many workers, by a cost model and by a simulation with
    measured tasks."""
    from sparsegp import _sparsegp

    rows, repeats = 50_000, 6
    data = block(0, rows)
    X, y = da.from_array(data[:, :INPUTS], chunks=(rows, INPUTS)), da.from_array(data[:, INPUTS], chunks=rows)
    asked, cluster = [], Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None, memory_limit=0)

    class Kept(Timed):
        def _sums(self, work):
            asked.append(work)
            self.kept = self._rows
            return super()._sums(work)

    with cluster:
        _estimators.Questions = Kept
        fit(X, y, cluster, args.inducing, 1)
        _estimators.Questions = Timed
        latencies = [_latency(cluster) for _ in range(50)]
    x, target = (data[:, :INPUTS] - data[:, :INPUTS].mean(0)) / data[:, :INPUTS].std(0), data[:, INPUTS]
    own = _tasks.Rows(np.ascontiguousarray(x), np.ascontiguousarray(target), None, None)
    times = {"factor": [], "statistics": [], "gradient": [], "merge": []}
    for _ in range(repeats):
        for name, work in zip(("statistics", "gradient"), asked[:2]):
            started = processor_seconds()
            round_ = _sparsegp.Round(work)
            built = processor_seconds()
            found = round_.sums(0, *own, threads=1)
            times["factor"].append(built - started)
            times[name].append(processor_seconds() - built)
            started = processor_seconds()
            _sparsegp.merge_sums([found, found])
            times["merge"].append((processor_seconds() - started) / 2)
    per_row = {name: np.array(times[name]) / rows for name in ("statistics", "gradient")}
    latency, size = float(np.median(latencies)), len(asked[0]) + 0.0
    say(
        "tasks", rows=rows, inducing=args.inducing, microseconds_a_row={name: float(1e6 * np.median(t)) for name, t in per_row.items()},
        flops=float(4 * args.inducing**2 / sum(np.median(t) for t in per_row.values())), seconds_to_factorise=float(np.median(times["factor"])),
        seconds_to_merge=float(np.median(times["merge"])), seconds_of_an_empty_round=latency,
    )
    total, part, bandwidth = 10**9, 250_000, 1e9
    random, triangle = np.random.default_rng(0), 4.0 * args.inducing * (args.inducing + 1)
    for workers in (64, 256):
        by_model = by_simulation = 0.0
        for name, measured in per_row.items():
            depth = np.log2(workers)
            fixed = np.median(times["factor"]) + (triangle / bandwidth + latency) * depth
            by_model += total * np.median(measured) / workers + fixed
            tasks = random.choice(measured, total // part) * part
            tasks[:workers] += np.median(times["factor"])
            by_simulation += simulated(tasks, workers, latency, triangle / bandwidth, float(np.median(times["merge"])))
        alone = total * sum(np.median(t) for t in per_row.values())
        say(
            "many workers", rows=total, inducing=args.inducing, workers=workers, seconds_by_the_model=float(by_model),
            seconds_by_simulation=float(by_simulation), efficiency_by_simulation=float(alone / workers / by_simulation),
        )


def _latency(client) -> float:
    started = time.perf_counter()
    client.submit(int, pure=False).result()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    measures = {"agreement": agreement, "scaling": scaling, "killed": killed, "memory": memory, "model": model}
    parser.add_argument("measures", nargs="+", choices=measures)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--inducing", type=int, default=500)
    parser.add_argument("--few-inducing", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--many", type=int, nargs="+", default=[10**6, 10**7, 10**8])
    args = parser.parse_args()
    for name in args.measures:
        measures[name](args)


if __name__ == "__main__":
    main()
