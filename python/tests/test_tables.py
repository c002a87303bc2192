"""Tables of pandas, polars and Arrow, and arrays in any layout: the same rows give the same model."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sparsegp
from conftest import out_of_place

SMALL = {"kernel": "rbf(ard)", "n_inducing": 20, "auto": "none", "epochs": 20}


def test_the_same_table_in_every_form_is_the_same_model(loads):
    y = loads["load"].to_numpy()
    plain = loads.drop(columns="load")
    forms = [
        plain,
        plain.astype({"side": "category"}),
        plain.astype({"side": "string"}),
        pl.DataFrame(plain.to_dict("list")),
        pl.DataFrame(plain.to_dict("list")).with_columns(pl.col("side").cast(pl.Categorical)),
        pa.table(plain.to_dict("list")),
        pa.table(plain.to_dict("list")).set_column(1, "side", pa.array(plain["side"].tolist()).dictionary_encode()),
    ]
    means = []
    for form in forms:
        model = sparsegp.SparseGPRegressor(**SMALL).fit(form, y)
        assert model.feature_names_in_.tolist() == ["hour", "side"] and model.n_features_in_ == 2
        means.append(model.predict(form))
    assert all(np.array_equal(mean, means[0]) for mean in means)
    assert np.corrcoef(means[0], y)[0, 1] > 0.95


def test_columns_are_found_by_name(loads):
    table = pl.DataFrame(loads.to_dict("list"))
    model = sparsegp.SparseGPRegressor(**SMALL).fit(table.drop("load"), table["load"])
    assert np.array_equal(model.predict(table.select("load", "side", "hour")), model.predict(table.drop("load")))
    shifted = table.with_columns(pl.col("load") + 1.0)
    assert np.array_equal(model.log_density(shifted, table["load"]), model.log_density(table.drop("load"), table["load"]))
    with pytest.raises(ValueError, match="hour"):
        model.predict(table.select("side"))
    with pytest.raises(ValueError, match="feature names"):
        model_pandas = sparsegp.SparseGPRegressor(**SMALL).fit(loads[["hour", "side"]], loads["load"])
        model_pandas.predict(loads[["side", "hour"]])


def test_ordered_levels_are_one_input_with_the_number_of_the_level(loads):
    y, plain = loads["load"], loads[["hour", "side"]]
    order = ["left", "both", "right", "top"]
    typed = plain.astype({"side": pd.CategoricalDtype(order, ordered=True)})
    counted = plain.assign(side=[float(order.index(side)) for side in plain["side"]])
    means = [
        sparsegp.SparseGPRegressor(**SMALL, ordered=ordered).fit(form, y).predict(form)
        for form, ordered in [(typed, None), (plain, {"side": order}), (counted, None)]
    ]
    assert np.array_equal(means[0], means[1]) and np.array_equal(means[0], means[2])
    named = sparsegp.SparseGPRegressor(**SMALL, categorical=["side"]).fit(typed, y)
    assert np.array_equal(named.predict(typed), sparsegp.SparseGPRegressor(**SMALL).fit(plain, y).predict(plain))
    with pytest.raises(ValueError, match="both"):
        sparsegp.SparseGPRegressor(**SMALL, ordered={"side": ["left", "right"]}).fit(plain, y)


def test_missing_cells_of_tables_have_separate_inputs(loads):
    holes = loads.copy()
    holes.loc[::7, "hour"] = np.nan
    model = sparsegp.SparseGPRegressor(**SMALL).fit(holes[["hour", "side"]], holes["load"])
    assert np.isfinite(model.predict(holes[["hour", "side"]])).all()
    nullable = holes.astype({"hour": "Float64"})
    assert np.array_equal(model.predict(nullable[["hour", "side"]]), model.predict(holes[["hour", "side"]]))


def test_dates_and_booleans_are_read_alike():
    days = pd.date_range("2020-01-01", periods=120, freq="D")
    frame = pd.DataFrame({"day": days, "open": np.arange(120) % 3 == 0})
    y = np.sin(np.arange(120) / 9) + frame["open"]
    model = sparsegp.SparseGPRegressor(**SMALL).fit(frame, y)
    table = pl.DataFrame({"day": days.to_pydatetime().tolist(), "open": frame["open"].tolist()})
    assert np.array_equal(model.predict(table), model.predict(frame))
    aware = frame.assign(day=frame["day"].dt.tz_localize("UTC"))
    assert np.array_equal(model.predict(aware), model.predict(frame))


def test_categories_that_look_like_numbers_are_categories():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"kind": pd.Categorical(rng.integers(1, 5, 100)), "size": rng.normal(size=100)})
    y = np.where(frame["kind"] == 2, 3.0, 0.0) + frame["size"]
    declared = sparsegp.SparseGPRegressor(**SMALL).fit(frame, y)
    asked = sparsegp.SparseGPRegressor(**SMALL, categorical=["kind"]).fit(frame.astype({"kind": int}), y)
    assert np.array_equal(declared.predict(frame), asked.predict(frame.astype({"kind": int})))
    assert declared.document_["config"]["input_names"] == ["kind", "size"]
    with pytest.raises(TypeError, match="durations"):
        declared.fit(frame.assign(size=pd.to_timedelta(frame["size"], unit="D")), y)


def test_layouts_and_types_of_arrays_do_not_matter():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 50, (90, 3)).astype(float)
    y = X[:, 0] - np.sqrt(X[:, 1])
    model = sparsegp.SparseGPRegressor(**SMALL).fit(X, y)
    wide = np.zeros((180, 6))
    wide[::2, ::2] = X
    for same in (np.asfortranarray(X), wide[::2, ::2], X.astype(np.float32), X.astype(np.int64), X.tolist()):
        again = sparsegp.SparseGPRegressor(**SMALL).fit(same, y.tolist())
        assert np.array_equal(again.predict(X), model.predict(X))


def test_arrays_may_lie_anywhere():
    rng = np.random.default_rng(1)
    X, exposure = rng.uniform(0, 3, (90, 2)), rng.uniform(0.5, 2, 90)
    y = rng.poisson(exposure * np.exp(X[:, 0] - 1)).astype(float)
    labels = (y > 1).astype(np.int64)
    frame = pd.DataFrame(out_of_place(X.T).T, columns=["a", "b"], copy=False)
    plain, odd = [X, y, exposure, labels], [*map(out_of_place, (X, y, exposure, labels))]

    def found(x, y, exposure, labels):
        numbers = sparsegp.SparseGPRegressor(**SMALL).fit(x, y, exposure)
        counts = sparsegp.SparseGPCountRegressor(**SMALL).fit(x, y, exposure=exposure)
        classes = sparsegp.SparseGPClassifier(**SMALL).fit(x, labels)
        yield from numbers.predict(x, return_std=True, quantiles=[0.1, 0.9])
        yield from (numbers.log_density(x, y), numbers.predict_f(x)[0], [numbers.score(x, y)])
        yield from (counts.predict(x, exposure=exposure), counts.log_density(x, y, exposure=exposure))
        yield from (classes.predict_proba(x), [classes.score(x, labels)])
        yield sparsegp.kernels.RBF()(x)

    want = [*found(*plain)]
    for others in (odd, [frame, *odd[1:]]):
        for got, values in zip(found(*others), want, strict=True):
            np.testing.assert_array_equal(got, values)


def test_labels_may_be_anything():
    X = np.linspace(-1, 1, 80)[:, None]
    for labels in (["no", "yes"], [3, 7], [-1.0, 1.0], [False, True], ["true", "a"], ["NA", "?"]):
        y = np.array(labels, dtype=object if isinstance(labels[0], str) else None)[(X[:, 0] > 0).astype(int)]
        model = sparsegp.SparseGPClassifier("rbf", n_inducing=10, epochs=5, auto="none").fit(X, y)
        assert model.predict(X).tolist() == y.tolist()
        assert np.array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], y)
        assert model.predict_f(X)[0][-1] * (1 if model.classes_[1] == y[-1] else -1) > 0


def test_weights_of_zero_leave_rows_out():
    rng = np.random.default_rng(2)
    X, weights = rng.normal(size=(80, 2)), np.repeat([0.0, 1.0], 40)
    y = X[:, 0] + rng.normal(size=80) * 0.1
    model = sparsegp.SparseGPRegressor(**SMALL)
    left_out = model.fit(X, y, sample_weight=weights).predict(X)
    assert np.array_equal(left_out, model.fit(X[40:], y[40:]).predict(X))
    heavier = model.fit(X, y, sample_weight=np.repeat([1.0, 5.0], 40)).predict(X)
    assert not np.array_equal(heavier, model.fit(X, y).predict(X))


def test_masked_cells_are_missing():
    random = np.random.default_rng(0)
    X, gap = random.normal(size=(80, 2)), np.zeros((80, 2), dtype=bool)
    gap[::7, 1] = True
    y = np.sin(X[:, 0])
    missing, masked = np.where(gap, np.nan, X), np.ma.masked_array(np.where(gap, 1e6, X), gap)
    models = [sparsegp.SparseGPRegressor(**SMALL).fit(rows, y) for rows in (missing, masked)]
    assert np.array_equal(models[0].predict(missing), models[1].predict(masked))
    with pytest.raises(ValueError, match="NaN"):
        sparsegp.SparseGPRegressor(**SMALL).fit(X, np.ma.masked_array(y, gap[:, 1]))
    with pytest.raises(ValueError, match="NaN"):
        sparsegp.SparseGPRegressor(**SMALL).fit(X, y, sample_weight=np.ma.masked_array(np.ones(80), gap[:, 1]))
