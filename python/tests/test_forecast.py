"""Forecasts of series from frames."""

import numpy as np
import pytest

from sparsegp import Forecaster

pandas = pytest.importorskip("pandas")


def monthly(series=("a",), months=60, **more):
    """A frame of monthly series with a trend and a season, and no value in one month."""
    rows = []
    for number, name in enumerate(series):
        for month in range(months):
            value = 100 + (1 + number) * month + 10 * np.sin(2 * np.pi * month / 12) + np.sin(7 * month)
            when = pandas.Timestamp(2010 + month // 12, month % 12 + 1, 1)
            rows.append({"shop": name, "when": when, "sales": np.nan if month == 20 else value})
    return pandas.DataFrame(rows)


def test_series_continue_their_trend_and_their_season():
    forecaster = Forecaster("when", "sales", by="shop", random_state=1).fit(monthly(("a", "b")))
    forecast = forecaster.predict(12, quantiles=[0.1, 0.9], draws=50)
    assert list(forecast.columns[:8]) == ["shop", "when", "mean", "median", "lower", "upper", "q0.1", "q0.9"]
    assert len(forecast) == 24 and forecast["when"].iloc[0] == pandas.Timestamp(2015, 1, 1)
    month = np.arange(60, 72)
    for number, name in enumerate("ab"):
        own = forecast[forecast["shop"] == name]
        exact = 100 + (1 + number) * month + 10 * np.sin(2 * np.pi * month / 12)
        assert np.abs(own["median"] - exact).max() < 6
        assert ((own["lower"] < exact) & (exact < own["upper"])).mean() > 0.9
        assert (own["lower"] < own["q0.1"]).all() and (own["q0.9"] < own["upper"]).all()
    scores = forecaster.scores_
    assert set(scores) == {"sparsegp", "seasonal naive", "drift", "ETS"}
    assert scores["sparsegp"]["mase"].mean() < scores["drift"]["mase"].mean()
    again = forecaster.predict(12, quantiles=[0.1, 0.9], draws=50)
    assert forecast.equals(again)


def test_draws_are_joint_over_the_horizon():
    step = np.arange(80)
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame({"step": step, "y": np.cumsum(rng.normal(size=80)) + 50})
    forecast = Forecaster("step", "y", seasons=[], random_state=0).fit(frame).predict(6, draws=400)
    draws = forecast.filter(like="draw").to_numpy()
    assert draws.shape == (6, 400)
    # The value of a random walk six steps ahead depends on the value one step before.
    assert np.corrcoef(draws[4], draws[5])[0, 1] > 0.5


def test_known_inputs_and_holidays_are_used():
    rng = np.random.default_rng(5)
    day = np.arange(120)
    price, holiday = rng.normal(size=120), np.where(day % 17 == 3, "feast", None)
    y = 20 + 3 * price + np.where(day % 17 == 3, 15, 0) + 0.3 * rng.normal(size=120)
    frame = pandas.DataFrame({"day": day, "y": np.where(day < 100, y, np.nan), "price": price, "holiday": holiday})
    forecaster = Forecaster("day", "y", known="price", holidays="holiday", seasons=[])
    forecast = forecaster.fit(frame).predict(20)
    assert len(forecast) == 20
    assert np.abs(forecast["median"] - y[100:]).mean() < 1.5


def test_messages_name_the_column_and_the_series():
    frame = monthly(("a", "b"))
    with pytest.raises(ValueError, match="X has no column 'month'"):
        Forecaster("month", "sales").fit(frame)
    with pytest.raises(TypeError, match="expected a table with named columns"):
        Forecaster().fit(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="found two values at the time 2010-01-01"):
        Forecaster("when", "sales").fit(frame).predict(3)
    with pytest.raises(ValueError, match="found no row after 2014-12-01"):
        Forecaster("when", "sales", by="shop", holidays="holiday").fit(frame.assign(holiday=None)).predict(3)
