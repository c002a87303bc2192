"""Estimators on Dask: equality with fits in memory for any partitions, reproducible bits, lost workers, bad input. Time
limits keep tests from hanging."""

import os
import signal
import threading

import numpy as np
import pytest

import sparsegp
from conftest import out_of_place

pytest.importorskip("distributed")

import dask  # noqa: E402
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import pandas as pd  # noqa: E402
from distributed import Client, LocalCluster, Status  # noqa: E402

from sparsegp.dask import (  # noqa: E402
    DaskSparseGPClassifier,
    DaskSparseGPCountRegressor,
    DaskSparseGPMultiOutputRegressor,
    DaskSparseGPRegressor,
    _rounds,
)
from sparsegp.dask._tree import Tree  # noqa: E402

#: The time limit of one test, in seconds.
LIMIT = 60

SMALL = {"kernel": "rbf(ard)", "n_inducing": 12, "auto": "none", "epochs": 4}
BATCHES = {**SMALL, "batch_size": 100, "options": {"warm_start": 5}}


@pytest.fixture(autouse=True)
def in_time():
    """Ends a test that hangs."""

    def late(*_):
        raise AssertionError(f"the test took more than {LIMIT} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def cluster_of(workers, **more):
    return LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=None, memory_limit=0, **{"host": "127.0.0.1", **more}
    )


@pytest.fixture(scope="module")
def client():
    # A local cluster gives up a worker that is lost twice within this time, even if it came back in between.
    patience = dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    with patience, cluster_of(2, worker_dashboard_address=None) as cluster, Client(cluster) as client:
        yield client


def rows(n=600):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 4, (n, 2))
    f = np.sin(2 * X[:, 0]) + X[:, 1]
    return X, f, f + 0.3 * rng.normal(size=n)


def cuts(n):
    return [(n,), (n // 3, n - n // 3), (5, 0, n // 2, 1, 0, 2, n - n // 2 - 8)]


def cut(sizes, *arrays):
    return [da.from_array(array, chunks=(sizes, *array.shape[1:])) for array in arrays]


def bits(model, X):
    return np.asarray(model.to_local().predict(X)).tobytes()


@pytest.mark.parametrize("objective", ["elbo", "fitc"])
def test_collapsed_fits_are_those_of_one_process(client, objective):
    X, _, y = rows()
    local = sparsegp.SparseGPRegressor(**SMALL, objective=objective).fit(X, y)
    want, std = local.predict(X, return_std=True)
    for sizes in cuts(len(y)):
        model = DaskSparseGPRegressor(**SMALL, objective=objective, client=client).fit(*cut(sizes, X, y))
        # Every step except the first depends on earlier gradients.
        np.testing.assert_allclose(model.history_["objective"], local.history_["objective"], rtol=1e-9, atol=1e-10)
        assert abs(model.objective_ - local.objective_) < 1e-10
        got, got_std = model.to_local().predict(X, return_std=True)
        np.testing.assert_allclose(got, want, atol=1e-8)
        np.testing.assert_allclose(got_std, std, atol=1e-8)


def test_rows_need_not_stay_with_workers(client):
    X, _, y = rows()
    kept, read = (
        DaskSparseGPRegressor(**SMALL, client=client, persist=persist).fit(*cut((200, 400), X, y)) for persist in (True, False)
    )
    assert bits(kept, X) == bits(read, X)


def test_mini_batches_are_reproducible_bit_for_bit(client):
    X, f, _ = rows()
    rng = np.random.default_rng(1)
    years = rng.uniform(0.5, 2, len(f))
    counts = rng.poisson(years * np.exp(0.5 * f)).astype(float)
    labels = np.where(f > 1.5, "high", np.where(f > 0.5, "middle", "low"))
    sizes = cuts(len(f))[2]
    x, c, e, w, classes = cut(sizes, X, counts, years, rng.uniform(0.5, 1.5, len(f)), labels)
    fit = lambda: DaskSparseGPCountRegressor(  # noqa: E731
        **BATCHES, likelihood="negative-binomial", objective="dlm-log", client=client
    ).fit(x, c, w, exposure=e)
    first, again = fit(), fit()
    assert np.array_equal(first.predict(x, exposure=e).compute(), again.predict(x, exposure=e).compute())
    assert first.score(x, c, exposure=e) > 0.2
    model = DaskSparseGPClassifier(**BATCHES, client=client).fit(x, classes)
    assert bits(model, X) == bits(DaskSparseGPClassifier(**BATCHES, client=client).fit(x, classes), X)
    assert list(model.classes_) == ["high", "low", "middle"] and model.score(x, classes) > 0.8
    assert np.mean(model.to_local().predict(X) == labels) == model.score(x, classes)


def test_predictions_are_lazy_and_keep_partitions(client):
    X, _, y = rows(300)
    x, target = cut((100, 0, 150, 50), X, y)
    model = DaskSparseGPRegressor(**SMALL, client=client).fit(x, target)
    mean, std, quantiles = model.predict(x, return_std=True, quantiles=[0.1, 0.9])
    assert isinstance(mean, da.Array) and mean.chunks == x.chunks[:1] and quantiles.chunks == (x.chunks[0], (2,))
    wants = model.to_local().predict(X, return_std=True, quantiles=[0.1, 0.9])
    for got, want in zip((mean, std, quantiles), wants):
        np.testing.assert_allclose(got.compute(), want, rtol=1e-12)
    assert model.score(x, target) == pytest.approx(model.to_local().score(X, y), abs=1e-12)
    assert model.get_params()["n_inducing"] == 12 and model.noise_variance_ > 0


def test_blocks_may_lie_anywhere(client):
    X, _, y = rows(300)
    high = (y > 2).astype(np.int64)

    def off(values):
        parts = [dask.delayed(out_of_place)(values[first : first + 150]) for first in (0, 150)]
        return da.concatenate([da.from_delayed(part, (150, *values.shape[1:]), values.dtype) for part in parts])

    plain, odd = [cut((150, 150), X, y, high), [*map(off, (X, y, high))]]

    def found(x, target, classes):
        numbers = DaskSparseGPRegressor(**SMALL, client=client).fit(x, target)
        chances = DaskSparseGPClassifier(**BATCHES, client=client).fit(x, classes)
        lazy = [*numbers.predict(x, return_std=True, quantiles=[0.1, 0.9]), chances.predict_proba(x), chances.predict(x)]
        return [*dask.compute(*lazy), numbers.score(x, target), chances.score(x, classes)]

    for got, want in zip(found(*odd), found(*plain), strict=True):
        np.testing.assert_array_equal(got, want)


def test_dataframes_with_categories_and_unknown_sizes(client, tmp_path):
    X, f, y = rows(400)
    frame = pd.DataFrame({"a": X[:, 0], "side": np.where(X[:, 1] > 2, "left", "right"), "y": y})
    table = dd.from_pandas(frame, npartitions=3)
    table = table[table.a > 0.5]
    features = table[["a", "side"]]
    model = DaskSparseGPRegressor(**SMALL, client=client).fit(features, table["y"])
    kept = frame[frame.a > 0.5]
    local = sparsegp.SparseGPRegressor(**SMALL).fit(kept[["a", "side"]], kept["y"])
    mean, std = model.predict(features, return_std=True)
    assert isinstance(mean, dd.Series) and mean.npartitions == 3
    np.testing.assert_allclose(mean.compute(), local.predict(kept[["a", "side"]]), atol=1e-8)
    assert list(mean.compute().index) == list(kept.index)
    model.save(tmp_path / "model.safetensors")
    again = sparsegp.SparseGPRegressor.load(tmp_path / "model.safetensors")
    assert np.array_equal(again.predict(kept[["a", "side"]]), model.to_local().predict(kept[["a", "side"]]))
    # An array with unknown chunks.
    x, target = cut((200, 200), X, y)
    inside = x[:, 0] > 1.0
    model = DaskSparseGPRegressor(**SMALL, client=client).fit(x[inside], target[inside])
    assert model.document_["data"]["rows"] == int((X[:, 0] > 1.0).sum())


def test_one_grouping_is_that_of_one_process(client):
    X, _, y = rows()
    rng = np.random.default_rng(1)
    firm = rng.integers(0, 9, len(y))
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(firm=[f"firm {k}" for k in firm])
    y = pd.Series(y + rng.normal(size=9)[firm], name="pay")
    local = sparsegp.SparseGPRegressor(**SMALL).fit(frame, y, groups="a | firm")
    parts, targets = dd.from_pandas(frame, npartitions=3), dd.from_pandas(y, npartitions=3)
    model = DaskSparseGPRegressor(client=client, **SMALL).fit(parts, targets, groups="a | firm")
    mean, std = model.predict(parts, return_std=True)
    for found, wanted in zip((mean, std), local.predict(frame, return_std=True)):
        np.testing.assert_allclose(found.compute(), wanted, rtol=1e-6, atol=1e-7)
    pd.testing.assert_frame_equal(model.effects_, local.effects_, rtol=1e-5, atol=1e-6)
    assert model.variance_components_["lower"].isna().all()
    crossed = DaskSparseGPRegressor(client=client, **SMALL).fit(parts, targets, groups=["firm", "b"])
    assert set(crossed.effects_["group"]) == {"firm", "b"}
    assert crossed.score(parts, targets) > 0.3
    classifier = DaskSparseGPClassifier(client=client, **SMALL).fit(parts, targets > targets.mean(), groups="firm")
    assert len(classifier.effects_) == 9
    with pytest.raises(TypeError, match="formula"):
        model.fit(parts, targets, groups=targets)


def kill_soon(client):
    """Returns a callback that ends the process of a worker once, within the rounds after the second epoch."""
    killed = []

    def callback(record):
        if record["epoch"] == 2 and not killed:
            process = next(iter(client.run(os.getpid).values()))
            killed.append(process)
            threading.Timer(0.01, os.kill, (process, signal.SIGKILL)).start()

    return killed, callback


@pytest.mark.parametrize(
    "more",
    [{}, {"batch_size": 100, "options": {"warm_start": 5}}],
    ids=["collapsed", "mini-batches"],
)
def test_a_lost_worker_costs_its_tasks_only(client, more):
    X, _, y = rows(800)
    x, target = cut((200, 200, 200, 200), X, y)
    want = DaskSparseGPRegressor(**{**SMALL, **more}, client=client).fit(x, target)
    killed, callback = kill_soon(client)
    model = DaskSparseGPRegressor(**{**SMALL, **more}, client=client, callbacks=[callback]).fit(x, target)
    assert killed and bits(model, X) == bits(want, X)
    client.wait_for_workers(2, timeout=30)
    assert killed[0] not in client.run(os.getpid).values()


def test_the_sources_of_rows_are_recomputed_on_other_workers(client, tmp_path):
    X, _, y = rows(200)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    processes = list(client.run(os.getpid).values())

    def read(first):
        with open(tmp_path / "reads", "a+") as reads:
            reads.write(f"{first}\n")
            reads.seek(0)
            # The source is read for its length, for the survey, and by the workers that keep it. Then all workers end.
            lost = first == 100 and reads.read().splitlines().count("100") == 3
        if lost:
            for process in sorted(processes, key=lambda process: process == os.getpid()):
                os.kill(process, signal.SIGKILL)
        return frame[first : first + 100]

    table = dd.from_delayed([dask.delayed(read, pure=False)(first) for first in (0, 100)], meta=frame.iloc[:0])
    model = DaskSparseGPRegressor(**SMALL, client=client).fit(table[["a", "b"]], table["y"])
    client.wait_for_workers(2, timeout=30)
    assert not set(processes) & set(client.run(os.getpid).values())
    want = DaskSparseGPRegressor(**SMALL, client=client).fit(*cut((100, 100), X, y))
    assert bits(model, frame[["a", "b"]]) == bits(want, X)


def test_several_targets_are_fits_to_the_rows_that_have_them(client, tmp_path):
    X, f, y = rows()
    Y = np.column_stack([y, f - 2 * y])
    Y[::3, 0] = Y[7:500:5, 1] = np.nan
    how = DaskSparseGPRegressor(**SMALL, client=client)
    sizes = (100, 250, 250)
    frames = [
        dd.from_delayed([dask.delayed(table)[i : i + 200] for i in (0, 200, 400)], meta=table.iloc[:0])
        for table in (pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(Y, columns=["u", "v"]))
    ]
    arrays = DaskSparseGPMultiOutputRegressor(how).fit(*cut(sizes, X, Y))
    tables = DaskSparseGPMultiOutputRegressor(how).fit(*frames)
    assert tables.target_names_ == ["u", "v"] and arrays.target_names_ == ["y0", "y1"]
    for p in range(2):
        known = ~np.isnan(Y[:, p])
        for model, edges in ((arrays, np.cumsum(sizes)), (tables, np.array([200, 400, 600]))):
            own = tuple(int(rows.sum()) for rows in np.split(known, edges[:-1]))
            single = DaskSparseGPRegressor(**SMALL, client=client).fit(*cut(own, X[known], Y[known, p]))
            assert bits(model.estimators_[p], X) == bits(single, X)
    mean, std = arrays.predict(da.from_array(X, chunks=(200, 2)), return_std=True)
    want = arrays.to_local().predict(X, return_std=True)
    assert np.array_equal(mean.compute(), want[0]) and np.array_equal(std.compute(), want[1])
    assert list(tables.predict(frames[0]).compute().columns) == ["mean_u", "mean_v"]
    assert np.isclose(arrays.score(*cut(sizes, X, Y)), arrays.to_local().score(X, Y))
    arrays.save(tmp_path / "both.model")
    assert np.array_equal(sparsegp.SparseGPMultiOutputRegressor.load(tmp_path / "both.model").predict(X), want[0])
    with pytest.raises(ValueError, match="expected a dask dataframe or a dask array of two dimensions"):
        DaskSparseGPMultiOutputRegressor(how).fit(*cut(sizes, X, y))
    with pytest.raises(ValueError, match="y has 1 columns, expected 2"):
        arrays.score(*cut(sizes, X, Y[:, :1]))


@pytest.mark.parametrize("plan", [SMALL, BATCHES], ids=["collapsed", "mini-batches"])
def test_a_fit_continues_from_a_checkpoint_with_the_same_bits(client, tmp_path, plan):
    X, _, y = rows()
    x, target = cut((300, 300), X, y)
    want = bits(DaskSparseGPRegressor(**plan, client=client).fit(x, target), X)

    def fail(record):
        if record["epoch"] == 3:
            raise RuntimeError("enough")

    path = tmp_path / "fit.checkpoint"
    kept = {"client": client, "checkpoint": path, "checkpoint_every": 0.0}
    with pytest.raises(RuntimeError, match="enough"):
        DaskSparseGPRegressor(**plan, **kept, callbacks=[fail]).fit(x, target)
    assert path.exists()
    with pytest.raises(ValueError, match="belongs to another fit"):
        DaskSparseGPRegressor(**{**plan, "n_inducing": 11}, **kept).fit(x, target)
    assert bits(DaskSparseGPRegressor(**plan, **kept).fit(x, target), X) == want
    assert not path.exists()


def frame_of(parts):
    """Returns a dataframe of unchanged partitions, with the metadata of the first one."""
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=parts[0].iloc[:0], verify_meta=False)


def one_line(error) -> str:
    text = str(error.value)
    assert "\n" not in text.strip(), text
    return text


def test_bad_input_is_refused_in_one_line(client):
    X, _, y = rows(200)
    fit = DaskSparseGPRegressor(**SMALL, client=client).fit
    x, target = cut((100, 100), X, y)
    holed = X.copy()
    holed[150, 1] = np.nan
    cases = [
        (TypeError, "X is of type ndarray, expected a dask array", (X, y)),
        (TypeError, "y is of type ndarray, expected a dask array", (x, y)),
        (ValueError, "y has 3 partitions, X has 2", (x, da.from_array(y, chunks=((50, 50, 100),)))),
        (ValueError, "partition 0: y has 50 rows, X has 100", (x, da.from_array(y, chunks=((50, 150),)))),
        (ValueError, "partition 1: Input X contains NaN", (da.from_array(holed, chunks=((100, 100), 2)), target)),
        (ValueError, "partition [01]: Input y contains NaN", (x, da.where(target > y[0] - 1e-9, np.nan, target))),
        (ValueError, "no rows in any partition", (x[:0], target[:0])),
        (ValueError, "expected a vector", (x, x)),
        (ValueError, "requires y to be passed", (x, None)),
        (ValueError, "expected values that vary", (x, da.zeros_like(target))),
    ]
    for kind, text, given in cases:
        with pytest.raises(kind, match=text) as error:
            fit(*given)
        one_line(error)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    halves = [frame[:100], frame[100:]]
    series = dd.from_pandas(pd.Series(y, name="y"), npartitions=2)
    for text, second in [
        ("partition 1: X has no column 'b'", halves[1][["a"]]),
        ("partition 1: column 'b' holds text .*, expected numbers", halves[1].assign(b="text")),
    ]:
        with pytest.raises(ValueError, match=text) as error:
            fit(frame_of([halves[0], second]), series)
        one_line(error)
    for refused in [{"neighbours": 5}, {"beta": "auto"}, {"n_inducing": "auto"}, {"restarts": 3}]:
        with pytest.raises(ValueError, match="one place") as error:
            DaskSparseGPRegressor(**{**SMALL, **refused}, client=client).fit(x, target)
        one_line(error)
    with pytest.raises(TypeError, match="unexpected keyword"):
        DaskSparseGPRegressor(nothing=1)


def test_unsuitable_clusters_are_refused(client, monkeypatch):
    X, _, y = rows(200)
    x, target = cut((100, 100), X, y)

    def forget():
        import sys

        before = {name: sys.modules.get(name) for name in ("sparsegp",)}
        sys.modules["sparsegp"] = None
        return before["sparsegp"] is not None

    def remember():
        import sys

        del sys.modules["sparsegp"]

    client.run(forget)
    try:
        with pytest.raises(RuntimeError, match="has no sparsegp, expected version") as error:
            DaskSparseGPRegressor(**SMALL, client=client).fit(x, target)
        one_line(error)
    finally:
        client.run(remember)
    monkeypatch.setattr(_rounds, "PATIENCE", 1.0)
    monkeypatch.setattr(_rounds, "LOOKING", 0.2)
    with cluster_of(1, processes=False, host=None) as cluster, Client(cluster, set_as_default=False) as other:
        lose = lambda record: cluster.scale(0)  # noqa: E731
        with pytest.raises(RuntimeError, match="all workers are lost") as error:
            DaskSparseGPRegressor(**SMALL, client=other, callbacks=[lose]).fit(x, target)
        one_line(error)
        with pytest.raises(RuntimeError, match="has no workers after 1 s") as error:
            DaskSparseGPRegressor(**SMALL, client=other).fit(x, target)
        one_line(error)


def test_workers_that_do_nothing_end_a_fit_in_one_line(client, monkeypatch):
    X, _, y = rows(200)
    x, target = cut((100, 100), X, y)

    def be(status, dask_worker):
        dask_worker.status = Status[status]

    def pause(record):
        client.run(be, "paused")
        monkeypatch.setattr(_rounds, "PATIENCE", 1.0)

    try:
        with pytest.raises(RuntimeError, match="asked twice, and the workers did nothing for 1 s") as error:
            DaskSparseGPRegressor(**SMALL, client=client, callbacks=[pause]).fit(x, target)
        one_line(error)
    finally:
        client.run(be, "running")


def test_answers_are_merged_in_one_order_for_any_number_of_workers():
    leaf = lambda node: str(node[0]) if node[1] - node[0] == 1 else None  # noqa: E731
    merge = lambda front, back, node: f"({front} {back})"  # noqa: E731
    for sizes in ([7], [5] * 8, [*range(1, 24)], [1000, *[1] * 9], [3, 1, 4, 1, 5, 9, 2, 6]):
        tree = Tree(sizes)
        everything = (0, len(sizes))
        whole = tree.merged(everything, leaf, merge)
        for cuts in [*map(tree.shares, (1, 2, 3, 4, 8, 40)), *map(tree.groups, (1, 6, 10**6))]:
            assert [first for first, _ in cuts[1:]] == [end for _, end in cuts[:-1]]
            known = {node: tree.merged(node, leaf, merge) for share in cuts for node in tree.nodes(share)}
            assert tree.merged(everything, known.get, merge) == whole
        assert all(tree.rows(*group) <= 10 or group[1] - group[0] == 1 for group in tree.groups(10))
    for count in (1, 2, 4, 8):
        # Equal partitions are shared equally, and every worker returns one answer.
        shares = Tree([5] * 16).shares(count)
        assert {end - first for first, end in shares} == {16 // count}
        assert all(len(Tree([5] * 16).nodes(share)) == 1 for share in shares)


def test_the_recipe_for_other_schedulers(tmp_path):
    """The example of docs/distributed.md, with partitions in this process."""
    import json
    import re
    from pathlib import Path

    text = (Path(__file__).resolve().parents[2] / "docs" / "distributed.md").read_text()
    (recipe,) = [code for code in re.findall(r"```python\n(.*?)```", text, re.S) if "def fit(" in code]
    names = {}
    exec(recipe, names)
    X, _, y = rows(300)
    parts = [(X[first : first + 100], y[first : first + 100], first) for first in (0, 100, 200)]
    options = json.dumps({"kernel": "rbf(ard)", "inducing": 12, "auto": "none", "epochs": 4, "task": "regression"})
    model = names["fit"](parts, ["x0", "x1"], options, lambda function, parts: [function(*part) for part in enumerate(parts)])
    got = sparsegp.SparseGPRegressor()._with_model(model).predict(X)
    np.testing.assert_allclose(got, sparsegp.SparseGPRegressor(**SMALL).fit(X, y).predict(X), atol=1e-8)
