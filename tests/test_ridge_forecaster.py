"""Forecasts by ridge regression on lags and liquid states: against plain loops, without leaks, with honest intervals."""

import types

import jax
import numpy as np
import pytest
import reference
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import lrcssm
from lrcssm import LrcRidgeForecaster
from lrcssm.data import Cases
from lrcssm.estimators.backtest import RidgeOnLags, SeasonalNaive, backtest, judge, origins_of
from lrcssm.features import ForecastModel
from lrcssm.features.lags import LagMap
from lrcssm.features.rolling import Ridge, conformal_margin, rolling_folds
from lrcssm.features.season import guess_season
from lrcssm.features.units import Design

SMALL = {"n_units": 16, "random_state": 0}


@pytest.fixture(autouse=True)
def as_a_user_has_it():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


def wave(length=160, season=12, noise=0.1, trend=0.0, seed=0):
    t = np.arange(length)
    return np.sin(2 * np.pi * t / season) + trend * t + noise * np.random.default_rng(seed).normal(size=length)


def windows(y, window, horizon):
    pieces = np.stack([y[i : i + window + horizon] for i in range(len(y) - window - horizon + 1)])
    return pieces[:, :window], pieces[:, window:]


def test_no_fold_sees_the_future():
    series = np.repeat([0, 1], [60, 25])
    begins = np.concatenate([np.arange(60), np.arange(25)])
    found = rolling_folds(series, begins, horizon=5)
    assert len(found) == 4
    for train, test in found:
        for one in (0, 1):
            first = begins[test][series[test] == one].min()
            # The last value that a training window is fitted to comes before the first that is forecast.
            assert begins[train][series[train] == one].max() + 5 - 1 < first
    tested = np.concatenate([fold.test for fold in found])
    assert len(np.unique(tested)) == len(tested) and np.array_equal(
        begins[tested][series[tested] == 0], np.arange(30, 60)
    )
    assert rolling_folds(np.zeros(6, int), np.arange(6), 12) == []


@pytest.mark.parametrize("shape", [(40, 7), (6, 20)])
def test_ridge_against_the_normal_equations(shape):
    rng = np.random.default_rng(0)
    rows, targets, new = rng.normal(size=shape) + 3, rng.normal(size=(shape[0], 2)), rng.normal(size=(3, shape[1]))
    ridge, z, y = Ridge.of(rows, targets), rows - rows.mean(0), targets - targets.mean(0)
    for penalty, got in zip((0.1, 10.0), ridge.path(new, np.array([0.1, 10.0])), strict=True):
        want = np.linalg.solve(z.T @ z + penalty * np.eye(shape[1]), z.T @ y)
        weights, intercept = ridge.weights(penalty)
        np.testing.assert_allclose(weights, want, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(got, (new - rows.mean(0)) @ want + targets.mean(0), rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(got, new @ weights + intercept, rtol=1e-7, atol=1e-9)


def test_columns_and_states_against_a_loop():
    rng = np.random.default_rng(0)
    pieces, future = rng.normal(size=(12, 20, 3)), rng.normal(size=(12, 4, 1))
    made = LagMap.of(
        Cases.of(pieces, dtype=np.float64), 2, known=1, season=5, horizon=4, design=Design(4, 2), max_time=None, seed=0
    )
    rows = made(Cases.of(pieces, dtype=np.float64), future)
    relative = pieces[..., :2] - pieces[:, -5:, :2].mean(1, keepdims=True)
    scale = relative.std((0, 1))
    middle, spread = pieces[..., 2].mean(), pieces[..., 2].std()
    units = made.units
    for i in range(12):
        level = np.array([np.mean([pieces[i, t, c] for t in range(15, 20)]) for c in range(2)])
        steps = np.array(
            [[*((pieces[i, t, :2] - level) / scale), (pieces[i, t, 2] - middle) / spread] for t in range(20)]
        )
        np.testing.assert_allclose(rows.far[i], steps[:12].ravel(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(rows.near[i, :24], steps[12:].ravel(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(rows.near[i, 24:], (future[i, :, 0] - middle) / spread, rtol=1e-9)
        seen = made.views(Cases((steps,)), 0).astype(np.float64)  # (time, views, channels)
        states = []
        for g, dilation in enumerate(np.asarray(units.dilations)):
            arrays = {n: None if a is None else np.asarray(a)[g] for n, a in vars(units.cell).items() if _array(a)}
            cell = types.SimpleNamespace(**{n: a for n, a in vars(units.cell).items() if not _array(a)} | arrays)
            signals = [(seen * units.mixes[:, :, source]).sum((1, 2)) for source in np.asarray(units.sources)[g]]
            state = np.zeros(2)
            for t in range(20):
                taps = np.array([signal[max(t - k * dilation, 0)] for k, signal in enumerate(signals)])
                state = reference.lrc(cell, state, taps, 16.0)
            states.append(state)
        want = (np.concatenate(states) - made.state_mean) / made.state_scale * np.sqrt((24 + 4 + 36) / 8)
        np.testing.assert_allclose(rows.states[i], want, atol=2e-3)


def _array(a):
    return a is None or hasattr(a, "shape")


def test_the_forecast_is_the_weighted_sum_of_its_choices():
    y = np.exp(wave(90, season=6, noise=0.05))
    pieces, after = windows(y[:, None], 12, 3)
    model = ForecastModel.fit(Cases.of(pieces, dtype=np.float64), after, season=6, units=0)
    assert sum(choice.weight for choice in model.choices) == pytest.approx(1) and len(model.parts) == 2
    last, total = y[-12:], {"linear": np.zeros(3), "log": np.zeros(3)}
    for choice in model.choices:
        change = np.log if choice.transform == "log" else np.asarray
        past, then, now = change(pieces[..., 0]), change(after[..., 0]), change(last)
        level, here = past[:, -6:].mean(1, keepdims=True), now[-6:].mean()
        scale, spread, middle = (past - level).std(), level.std(), level.mean()
        near = slice(4, 12) if not choice.far else slice(0, 12)
        rows, row = (past - level)[:, near] / scale, (now - here)[near] / scale
        if choice.level:
            rows, row = np.hstack([rows, (level - middle) / spread]), np.append(row, (here - middle) / spread)
        starts = {"last": past[:, -1:], "season": past[:, -6:-3], "mean": level}[choice.base]
        start = {"last": now[-1], "season": now[-6:-3], "mean": here}[choice.base]
        if choice.penalty is None:
            total[choice.transform] += choice.weight * (start + np.zeros(3))
            continue
        z, targets = rows - rows.mean(0), (then - starts) / scale
        weights = np.linalg.solve(z.T @ z + choice.penalty * np.eye(z.shape[1]), z.T @ (targets - targets.mean(0)))
        total[choice.transform] += choice.weight * (start + scale * ((row - rows.mean(0)) @ weights + targets.mean(0)))
    shares = {part.transform: part.share for part in model.parts}
    want = total["linear"] + shares["log"] * np.exp(total["log"] / shares["log"])
    np.testing.assert_allclose(model(Cases.of(last[None, :, None], dtype=np.float64))[0, :, 0], want, rtol=1e-6)


def test_a_level_far_from_those_of_training_does_no_harm():
    y = wave(120)
    model = LrcRidgeForecaster(horizon=3, season=12, **SMALL).fit(y)
    np.testing.assert_allclose(model.predict(y + 1000) - 1000, model.predict(), atol=3)


def test_the_margin_against_a_loop():
    errors = np.random.default_rng(0).normal(size=(19, 2))
    got = conformal_margin(errors, 0.9)
    for k in range(2):
        assert sum(abs(e) <= got[k] for e in errors[:, k]) == 18  # ⌈20 · 0.9⌉
    assert conformal_margin(errors, 0.95) is not None and conformal_margin(errors, 0.96) is None


def test_intervals_cover_what_they_say():
    y = wave(700, noise=0.5)
    model = LrcRidgeForecaster(horizon=3, season=12, window=24, **SMALL).fit(y[:400])
    for coverage in (0.5, 0.9):
        inside, wide = [], []
        for origin in range(400, 697):
            low, high = model.predict_interval(y[:origin], coverage=coverage)
            inside.append((low <= y[origin : origin + 3]) & (y[origin : origin + 3] <= high))
            wide.append(high - low)
        assert np.mean(inside) == pytest.approx(coverage, abs=0.06)
        # Not wider than needed: the noise alone asks for this much.
        assert np.mean(wide) < 1.5 * 2 * 0.5 * {0.5: 0.674, 0.9: 1.645}[coverage]


@pytest.mark.parametrize(
    ("y", "season"),
    [
        (wave(200), 12),
        (wave(200, season=7, trend=0.5), 7),
        (np.random.default_rng(0).normal(size=300), 1),
        (np.arange(100.0), 1),
        (np.ones(50), 1),
        (wave(20), 1),
    ],
)
def test_the_season_is_guessed(y, season):
    assert guess_season([y[:, None]]) == season
    holes = np.where(np.arange(len(y)) % 17 == 3, np.nan, y)
    assert guess_season([holes[:, None], holes[:, None]]) == season


def test_the_season_is_used():
    rng = np.random.default_rng(0)
    pattern = 3 * rng.normal(size=20)
    y = np.tile(pattern, 6) + 0.3 * rng.normal(size=120)
    model = LrcRidgeForecaster(horizon=20, **SMALL).fit(y[:100])
    assert model.season_ == 20 and model.season_guessed_ and model.window_ >= 20
    without = LrcRidgeForecaster(horizon=20, season=1, window=model.window_, **SMALL).fit(y[:100])
    assert not without.season_guessed_
    errors = [np.abs(one.predict() - y[100:]).mean() for one in (model, without)]
    assert errors[0] < 0.9 * errors[1] and errors[0] < 0.6 and any(choice.base == "season" for choice in model.choices_)
    assert model.baseline_ < without.baseline_ and model.baseline_ == model.rolling_["naive_mae"]


def test_trend_and_growth():
    t = np.arange(150)
    line = LrcRidgeForecaster(horizon=8, **SMALL).fit(5 + 0.5 * t)
    np.testing.assert_allclose(line.predict(), 5 + 0.5 * np.arange(150, 158), rtol=0.01)
    grown = np.exp(0.02 * t + 0.2 * wave(150))
    model = LrcRidgeForecaster(horizon=12, season=12, **SMALL).fit(grown[:138])
    assert sum(choice.weight for choice in model.choices_ if choice.transform == "log") > 0.5
    assert np.abs(model.predict() / grown[138:] - 1).mean() < 0.05
    low, high = model.predict_interval()
    assert (low > 0).all() and (low < model.predict()).all() and (model.predict() < high).all()
    # The interval is in proportion to the level, as the errors are.
    np.testing.assert_allclose(high / model.predict(), model.predict() / low, rtol=1e-9)
    with pytest.raises(lrcssm.LrcssmError, match=r'not above 0, but the forecaster takes logarithms.*scale="linear"'):
        model.predict(-grown)
    with pytest.raises(lrcssm.LrcssmError, match='scale="log" needs values above 0'):
        LrcRidgeForecaster(scale="log", **SMALL).fit(grown - grown.mean())


def test_states_learn_what_lags_cannot():
    rng = np.random.default_rng(0)
    y = np.zeros(500)
    for i in range(1, 500):
        y[i] = 1.8 * np.sin(2.0 * y[i - 1]) + 0.02 * rng.normal()
    found = LrcRidgeForecaster(season=1, window=8, random_state=0).fit(y).rolling_
    assert found["mae"] < 0.8 * found["lags_mae"] and found["mae"] < 0.5 * found["naive_mae"]


def test_covariates_are_used():
    rng = np.random.default_rng(0)
    drive = rng.normal(size=(201, 1))
    y = 2 * np.concatenate([[0], drive[:199, 0]]) + 0.1 * rng.normal(size=200)
    past, future = drive[:200], np.concatenate([[[0]], drive[:200]])
    how = {"season": 1, "window": 8} | SMALL
    alone = LrcRidgeForecaster(**how).fit(y)
    driven = LrcRidgeForecaster(**how).fit(y, past_covariates=past)
    planned = LrcRidgeForecaster(**how).fit(y, future_covariates=future[:200])
    assert (
        driven.rolling_["mae"] < 0.2 * alone.rolling_["mae"] and planned.rolling_["mae"] < 0.2 * alone.rolling_["mae"]
    )
    np.testing.assert_allclose(driven.predict(), 2 * past[-1], atol=0.4)
    for value in (-1.0, 1.0):
        np.testing.assert_allclose(planned.predict(future_covariates=[[value]]), [2 * value], atol=0.4)
    whole = planned.predict(y, future_covariates=np.concatenate([future[:200], [[1.0]]]))
    np.testing.assert_array_equal(whole, planned.predict(future_covariates=[[1.0]]))
    np.testing.assert_array_equal(driven.predict(y, past_covariates=past), driven.predict())
    assert driven.score(y, past_covariates=past) > 0.8 > alone.score(y)
    new = clone(driven).fit(y[:150], past_covariates=past[:150]).update(y[150:], past_covariates=past[150:])
    np.testing.assert_array_equal(
        new.predict(), clone(driven).fit(y[:150], past_covariates=past[:150]).predict(y, past_covariates=past)
    )
    for message, call in {
        r"past covariates are known up to the end of X; give at most horizon_=1": lambda: driven.predict(horizon=3),
        r"got no past_covariates, but fit had 1": lambda: driven.predict(y),
        r"got future_covariates, but fit had none": lambda: driven.predict(future_covariates=[[1.0]]),
        r"future_covariates have shape \(200, 1\); expected \(at least 201": lambda: planned.predict(
            y, future_covariates=future[:200]
        ),
        r"got no future_covariates": lambda: planned.predict(),
        r"past_covariates have shape \(3, 1\)": lambda: LrcRidgeForecaster(**how).fit(y, past_covariates=past[:3]),
        r"hold infinity": lambda: LrcRidgeForecaster(**how).fit(y, past_covariates=past / 0.0),
    }.items():
        with pytest.raises(lrcssm.LrcssmError, match=message), np.errstate(all="ignore"):
            call()


def test_shapes_rolling_and_several_series():
    y = np.stack([wave(120), wave(120, seed=1)], 1)
    model = LrcRidgeForecaster(horizon=4, **SMALL).fit(y)
    assert model.predict().shape == (4, 2) and model.predict(horizon=11).shape == (11, 2)
    far = model.predict(horizon=8)
    again = model.predict(np.concatenate([y, far[:4]]))
    np.testing.assert_allclose(far[4:], again, rtol=1e-9)
    low, high = model.predict_interval(horizon=2)
    assert low.shape == (2, 2) and (low < high).all()
    two = LrcRidgeForecaster(horizon=4, **SMALL).fit([wave(100), wave(80, seed=1)])
    found = two.predict()
    assert len(found) == 2 and found[0].shape == (4,)
    np.testing.assert_array_equal(two.predict([wave(100)])[0], found[0])
    np.testing.assert_array_equal(two.predict(wave(100)), found[0])
    with pytest.raises(lrcssm.LrcssmError, match="cover 4 steps"):
        model.predict_interval(horizon=5)


def test_save_and_load(tmp_path):
    y, drive = np.exp(wave(90)), np.random.default_rng(0).normal(size=(96, 2))
    model = LrcRidgeForecaster(horizon=6, **SMALL).fit(y, past_covariates=drive[:90], future_covariates=drive[:90])
    model.save(tmp_path / "model")
    same = LrcRidgeForecaster.load(tmp_path / "model")
    ahead = {"future_covariates": drive[90:]}
    np.testing.assert_array_equal(same.predict(**ahead), model.predict(**ahead))
    np.testing.assert_array_equal(same.predict_interval(**ahead), model.predict_interval(**ahead))
    assert (
        same.rolling_ == model.rolling_ and same.choices_ == model.choices_ and same.get_params() == model.get_params()
    )
    assert lrcssm.load(tmp_path / "model").task == "forecast"
    with pytest.raises(lrcssm.FileError, match="holds LrcRidgeForecaster, not LrcSSMForecaster"):
        lrcssm.LrcSSMForecaster.load(tmp_path / "model")


def test_missing_values_and_times():
    y = wave(150)
    y[[20, 21, 90]] = y[-2:] = np.nan
    with pytest.raises(lrcssm.LrcssmError, match="holds NaN"):
        LrcRidgeForecaster(**SMALL).fit(y)
    for missing in ("mask", "fill"):
        model = LrcRidgeForecaster(horizon=6, missing=missing, **SMALL).fit(y)
        # The two missing steps at the end are forecast too, and what comes after them is given.
        np.testing.assert_allclose(model.predict(horizon=4), model.predict(y[:-2])[2:], rtol=1e-9)
        assert np.isfinite(list(model.scores(y).values())).all()
    times = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 150))
    hours = LrcRidgeForecaster(horizon=2, missing="mask", **SMALL).fit(y, times=times)
    minutes = LrcRidgeForecaster(horizon=2, missing="mask", **SMALL).fit(y, times=60 * times)
    np.testing.assert_allclose(hours.predict(horizon=5), minutes.predict(horizon=5), rtol=1e-4, atol=1e-5)


def test_a_short_series_gets_a_cautious_forecast():
    y = np.arange(8.0)
    model = LrcRidgeForecaster(horizon=3, window=2, season=1, **SMALL).fit(y)
    assert np.abs(model.predict() - [8, 9, 10]).max() < 3
    with pytest.raises(
        lrcssm.LrcssmError, match=r"coverage=0.9 needs more than the 0 rolling errors there are; give a longer series"
    ):
        model.predict_interval()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"horizon": 0}, "horizon=0; give a whole number of at least 1"),
        ({"season": 0}, "season=0; give a whole number of at least 1, or None"),
        ({"window": -1}, "window=-1"),
        ({"window": 5, "season": 12}, "window=5, less than one season of 12 steps"),
        ({"n_units": -1}, "n_units=-1"),
        ({"scale": "sqrt"}, 'scale=\'sqrt\'; give "auto", "linear" or "log"'),
        ({"max_time": 0.5}, "max_time=0.5"),
        ({"missing": "drop"}, 'missing=\'drop\'; give "error", "mask" or "fill"'),
        ({"horizon": 100}, "got a series of 60 steps"),
    ],
)
def test_mistakes(given, message):
    with pytest.raises(lrcssm.LrcssmError, match=message):
        LrcRidgeForecaster(**SMALL | given).fit(wave(60))


def test_rolling_origins_against_a_loop():
    y = wave(80)[:, None]
    origins = origins_of(80, 6, 3)
    assert origins.tolist() == [48, 61, 74]
    rolled = backtest(lambda: SeasonalNaive(6, 12), y, origins)
    found = judge(rolled, y, origins, 12)
    errors = [y[o - 12 + h, 0] - y[o + h, 0] for o in origins for h in range(6)]
    unit = np.mean([abs(y[t, 0] - y[t - 12, 0]) for t in range(12, 48)])
    assert found["mae"] == pytest.approx(np.mean(np.abs(errors)))
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean(np.square(errors))))
    assert found["mase"] == pytest.approx(np.mean(np.abs(errors)) / unit) and found["coverage"] is None
    own = backtest(lambda: LrcRidgeForecaster(horizon=6, season=12, **SMALL), y, origins, coverage=0.8)
    for i, origin in enumerate(origins):
        model = LrcRidgeForecaster(horizon=6, season=12, **SMALL).fit(y[:origin])
        np.testing.assert_array_equal(own.forecasts[i], model.predict())
        np.testing.assert_array_equal(own.low[i], model.predict_interval(coverage=0.8)[0])
    with pytest.raises(lrcssm.LrcssmError, match="no origin with a horizon of 40"):
        origins_of(80, 40, 3)


def test_ridge_on_lags_is_ridge_on_lags():
    y = np.zeros(200)
    for i in range(2, 200):
        y[i] = 1.5 * y[i - 1] - 0.8 * y[i - 2] + 0.01 * np.sin(i * i)
    want = [y[-1], y[-2]]
    for _ in range(3):
        want.insert(0, 1.5 * want[0] - 0.8 * want[1])
    got = RidgeOnLags(3, 1).forecast(y[:, None], None, None)
    np.testing.assert_allclose(got[:, 0], want[2::-1], atol=0.02)


@pytest.mark.slow
def test_scikit_learn_checks():
    rows = "the rows of X are steps of time"
    results = check_estimator(
        LrcRidgeForecaster(window=3, season=1, **SMALL), on_skip=None,
        expected_failed_checks={"check_methods_sample_order_invariance": rows, "check_methods_subset_invariance": rows},
    )  # fmt: skip
    count = lambda status: sum(result["status"] == status for result in results)
    skipped = {result["check_name"] for result in results if result["status"] == "skipped"}
    assert count("passed") + 2 + len(skipped) == len(results) and count("xfail") == 2
