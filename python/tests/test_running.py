"""Events during a fit: callbacks, progress, Ctrl-C, threads, forks, other processes."""

import multiprocessing
import os
import signal
import sys
import subprocess
import threading

import joblib
import numpy as np
import pytest

import sparsegp

#: A fit that would take minutes.
LONG = {"kernel": "rbf", "n_inducing": 50, "auto": "none", "batch_size": 100, "epochs": 100_000, "tolerance": 0.0}


@pytest.fixture(autouse=True)
def interruptible():
    """Enables Ctrl-C as at a terminal: Python ignores it if a shell started Python in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def rows(n=400):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (n, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)


def test_callbacks_receive_every_epoch_and_may_end_the_fit():
    X, y = rows()
    seen = []

    def enough(record):
        seen.append(record)
        return record["epoch"] == 4

    model = sparsegp.SparseGPRegressor(**LONG, callbacks=[enough, len]).fit(X, y)
    assert [record["epoch"] for record in seen] == [1, 2, 3, 4]
    assert model.document_["fit"]["stop_reason"] == "stopped" and len(model.history_["epoch"]) >= 4
    assert seen[0]["objective"] == model.history_["objective"][0]
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize("threads", [1, 2])
def test_callbacks_may_predict_and_fit(threads):
    X, y = rows(200)
    other = sparsegp.SparseGPRegressor("rbf", n_inducing=10, auto="none", n_threads=threads).fit(X, y)
    found = []

    def work(record):
        found.append(other.predict(X).sum())
        sparsegp.BayesianLinearRegressor(likelihood="gaussian", n_threads=threads).fit(X, y)

    model = sparsegp.SparseGPRegressor("rbf", n_inducing=10, auto="none", epochs=3, n_threads=threads, callbacks=[work])
    model.fit(X, y)
    assert found and set(found) == {other.predict(X).sum()}


def test_an_exception_of_a_callback_is_raised_and_leaves_nothing():
    X, y = rows()

    def fail(record):
        raise RuntimeError("enough of this")

    model = sparsegp.SparseGPRegressor(**LONG, callbacks=[fail])
    with pytest.raises(RuntimeError, match="enough of this"):
        model.fit(X, y)
    assert not model.__sklearn_is_fitted__()


def test_a_signal_ends_the_fit():
    X, y = rows()
    model = sparsegp.SparseGPRegressor(**LONG)
    started = threading.Event()
    model.set_params(callbacks=[lambda record: started.set()])

    def press():
        started.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    thread.join()
    assert not model.__sklearn_is_fitted__()
    # The fit leaves no model.
    short = {**LONG, "epochs": 2}
    assert sparsegp.SparseGPRegressor(**short).fit(X, y).score(X, y) > 0.5


def test_a_signal_ends_a_fit_without_callbacks():
    code = (
        "import numpy as np, sparsegp, threading, os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "X = np.random.default_rng(0).normal(size=(400, 2)); y = X[:, 0] ** 2\n"
        "sparsegp.BayesianLinearRegressor().fit(X, y)\n"
        f"model = sparsegp.SparseGPRegressor(**{LONG!r})\n"
        "threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "try:\n    model.fit(X, y)\nexcept KeyboardInterrupt:\n    print('ended'); sys.exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "ended\n", done.stderr


def test_a_signal_ends_predictions():
    # The predictions would take minutes.
    code = (
        "import numpy as np, sparsegp, threading, os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "X = np.random.default_rng(0).normal(size=(800, 2)); y = X[:, 0] ** 2\n"
        "model = sparsegp.SparseGPRegressor(n_inducing=500, auto='none', objective='vfe', epochs=1).fit(X, y)\n"
        "rows = np.resize(X, (6_000_000, 2))\n"
        "threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "try:\n    model.predict(rows)\nexcept KeyboardInterrupt:\n    print('ended'); sys.exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "ended\n", done.stderr


def test_rows_are_predicted_alike_in_blocks_and_together():
    X, y = rows()
    model = sparsegp.SparseGPRegressor("rbf", n_inducing=8, auto="none", epochs=5).fit(X, y)
    many = np.resize(X, (70_000, 2))
    mean, std = model.predict(many, return_std=True)
    few = model.predict(many[-5000:], return_std=True)
    np.testing.assert_array_equal(mean[-5000:], few[0])
    np.testing.assert_array_equal(std[-5000:], few[1])
    # A draw depends on the seed and on the index of its row.
    draws = model.sample_y(many, 1, random_state=3)
    np.testing.assert_array_equal(draws[:1000], model.sample_y(many[:1000], 1, random_state=3))


def test_progress_is_shown_on_standard_error(capfd):
    X, y = rows(100)
    sparsegp.SparseGPRegressor("rbf", n_inducing=10, auto="none", epochs=20, verbose=True).fit(X, y)
    told = capfd.readouterr()
    assert told.out == "" and "epoch" in told.err
    sparsegp.SparseGPRegressor("rbf", n_inducing=10, auto="none", epochs=20).fit(X, y)
    assert capfd.readouterr() == ("", "")


def test_any_number_of_threads_gives_the_same_model():
    X, y = rows(300)
    first, *others = (
        sparsegp.SparseGPRegressor("rbf", n_inducing=20, auto="none", n_threads=n).fit(X, y).predict(X) for n in (1, 2, 3)
    )
    assert all(np.array_equal(first, other) for other in others)


def test_two_threads_of_python_fit_side_by_side():
    X, y = rows(300)
    both = threading.Barrier(2, timeout=60)
    model = {"kernel": "rbf", "n_inducing": 20, "auto": "none", "epochs": 5}
    met, out = [], [None, None]

    def meet(record):
        # Neither continues until the other is in the middle of its own fit.
        if record["epoch"] == 1:
            met.append(both.wait())

    def work(place):
        out[place] = sparsegp.SparseGPRegressor(**model, callbacks=[meet], n_threads=1).fit(X, y).predict(X)

    threads = [threading.Thread(target=work, args=(place,)) for place in (0, 1)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(met) == [0, 1] and np.array_equal(*out)


def fitted_sum(seed: int) -> float:
    X, y = rows(150)
    return float(sparsegp.SparseGPRegressor("rbf", n_inducing=10, auto="none", random_state=seed).fit(X, y).predict(X).sum())


@pytest.mark.filterwarnings("ignore:This process")
def test_processes_of_loky_and_forks_work():
    here = fitted_sum(0)
    assert joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(fitted_sum)(0) for _ in range(3)) == [here] * 3
    if "fork" in multiprocessing.get_all_start_methods():
        # The pool of this process already exists, but its threads do not exist in the fork.
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, repr(fitted_sum(0)).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert float(os.read(read, 100)) == here
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(fitted_sum, (0,)) == here


def resident() -> int:
    with open("/proc/self/statm") as text:
        return int(text.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth() -> float:
    """Returns the memory that a hundred fits and predictions leave after pools and caches exist, in copies of their rows."""
    X, y = rows(20_000)
    model = sparsegp.SparseGPRegressor("rbf", n_inducing=5, auto="none", objective="vfe", epochs=1)
    [model.fit(X, y).predict(X) for _ in range(30)]
    before = resident()
    [model.fit(X, y).predict(X) for _ in range(100)]
    return (resident() - before) / X.nbytes


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the system does not say what is resident")
def test_memory_stays_flat_over_many_fits():
    """In a new process, a hundred fits and predictions leave less memory than the rows of twenty of them."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(growth) < 20


@pytest.mark.parametrize("threads", [1, 2])
def test_endless_recursion_of_callbacks_is_an_exception(threads):
    X, y = rows(60)
    fits = []

    def again(record):
        fits.append(record)
        how = {"n_inducing": 5, "auto": "none", "epochs": 3, "n_threads": threads}
        sparsegp.SparseGPRegressor("rbf", **how, callbacks=[again]).fit(X, y)

    with pytest.raises(RecursionError, match="not recursively without limit"):
        again(None)
    assert 3 < len(fits) < 20
