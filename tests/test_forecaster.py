"""The forecaster: windows without leaks, iterated forecasts, and scores next to those of the naive forecast."""

import copy
import pickle
import re

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import lrcssm
from lrcssm import LrcSSMForecaster
from lrcssm.data import Cases
from lrcssm.estimators.parameters import method_of
from lrcssm.estimators.windows import as_cases, cut, levels, naive_error, positions, seasonal_naive, usable, window_of
from lrcssm.features import ForecastModel

TINY = {
    "hidden_dim": 8, "state_dim": 8, "num_blocks": 1, "batch": 8, "steps": 4, "check_every": 2, "window": 12, "horizon": 3, "season": 1,
    "random_state": 0,
}  # fmt: skip

# predict takes a series and gives what comes after it: one row for each step ahead, not for each row of X.
NOT_BY_ROWS = {
    "check_methods_sample_order_invariance": "the rows of X are steps of time, so their order is what matters",
    "check_methods_subset_invariance": "a row of X alone is a series of one step, from which nothing can be forecast",
}


@pytest.fixture(autouse=True)
def as_a_user_has_it():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


def sines(length=120, seed=0, noise=0.0):
    t = np.arange(length)
    clean = np.sin(2 * np.pi * t / 12) + 0.5 * np.sin(2 * np.pi * t / 7.3)
    return clean + noise * np.random.default_rng(seed).normal(size=length)


@pytest.fixture(scope="module")
def fitted():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        return LrcSSMForecaster(**TINY).fit(sines())


def test_windows():
    series = np.arange(20.0).reshape(10, 2)
    assert positions(10, 4, 3).tolist() == [0, 1, 2, 3] and positions(6, 4, 3).tolist() == []
    assert positions(10, 4, 3, start=6).tolist() == [2, 3] and positions(10, 4, 3, most=2).tolist() == [0, 3]
    pieces, after = cut(series, np.array([0, 3]), 4, 3)
    np.testing.assert_array_equal(pieces[1], series[3:7])
    np.testing.assert_array_equal(after[1], series[7:10])
    np.testing.assert_array_equal(levels(pieces, "mean")[0], [[3.0, 4.0]])
    cases = as_cases(pieces, after, "last", np.dtype(np.float32))
    np.testing.assert_array_equal(cases.series[0][-1], [0, 0])
    np.testing.assert_array_equal(cases.targets[0], [2, 2, 4, 4, 6, 6])


def test_the_naive_forecast_against_a_loop():
    series = np.random.default_rng(0).normal(size=(30, 2))
    pieces, _ = cut(series, np.arange(4), 9, 11)
    got = seasonal_naive(pieces, 11, 4)
    for case in range(4):
        for step in range(11):
            source = 9 + step
            while source >= 9:
                source -= 4
            np.testing.assert_array_equal(got[case, step], pieces[case, source])
    want = [np.mean([abs(series[t, c] - series[t - 4, c]) for t in range(4, 30)]) for c in range(2)]
    np.testing.assert_allclose(naive_error([series], 4), want)
    assert naive_error([np.ones((5, 1))], 1).tolist() == [1.0]


def test_validation_comes_after_training_and_is_never_trained_on(monkeypatch):
    seen = {}

    def fit(model, train, validation, config, **options):
        seen.update(train=train, validation=validation)
        raise KeyboardInterrupt

    monkeypatch.setattr("lrcssm.estimators.base.fit", fit)
    with pytest.raises(KeyboardInterrupt):
        LrcSSMForecaster(**TINY | {"level": "none", "validation_fraction": 0.2}).fit(np.arange(100.0))
    inputs = [max(one.max() for one in seen["train"].series), min(one.min() for one in seen["validation"].series)]
    # Of the 66 windows that lie with what follows them in the first 80 values, 4 steps of 8 cases see 32; what follows the 18
    # others begins there or later.
    assert len(seen["train"].series) == 32 and len(seen["validation"].series) == 18
    assert inputs == [76, 68]


def test_it_goes_on_with_its_own_forecasts(fitted):
    far = fitted.predict(horizon=8)
    assert far.shape == (8,) and fitted.predict().shape == (3,)
    np.testing.assert_allclose(far[:3], fitted.predict(), rtol=1e-5)
    # The same, in one go over all inputs instead of piece by piece with a state.
    series, level = fitted.tails_[0], fitted.tails_[0].mean(0)
    for start in (3, 6):
        whole = np.concatenate([series, far[:start, None]])
        base = fitted.base_(Cases.of(whole[None, -12:], dtype=np.float64))[0, :, 0]
        want = base + fitted.gain_ * np.asarray(fitted.model_(jax.numpy.asarray((whole - level).astype(np.float32)))[0])
        np.testing.assert_allclose(far[start : start + 3], want[: len(far) - start], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "irregular"),
    [pytest.param({"architecture": "transformer"}, False, marks=pytest.mark.slow), ({"standardise": "case"}, True)],
)
def test_without_a_state_the_window_goes_on(changes, irregular):
    y, gaps = sines(60), np.random.default_rng(0).uniform(0.2, 1.8, 60)
    times = np.cumsum(gaps) if irregular else None
    model = LrcSSMForecaster(**TINY | {"steps": 2} | changes).fit(y, times=times)
    assert model.model_.whole() is not None
    far, seen = model.predict(horizon=8), y
    for start in (0, 3, 6):
        want = model.predict(seen, times=times)
        np.testing.assert_allclose(far[start : start + 3], want[: 8 - start], rtol=1e-5)
        seen = np.concatenate([seen, want])
        if irregular:
            times = np.concatenate([times, times[-1] + model.unit_ * np.arange(1, 4)])
    # Missing steps at the end are forecast with them.
    if not irregular:
        holes = np.concatenate([y, [np.nan] * 2])
        np.testing.assert_allclose(model.set_params(missing="mask").predict(holes, horizon=6), far[2:], rtol=1e-5)


def test_an_array_of_arrays_is_a_list(fitted):
    y = np.empty(2, object)
    y[:] = [sines(50), sines(40)]
    for got, one in zip(fitted.predict(y), y, strict=True):
        np.testing.assert_allclose(got, fitted.predict(one), rtol=1e-5)


def test_new_observations(fitted):
    y = sines(200)
    model = copy.copy(fitted).update(y[120:125]).update(y[125:150])
    np.testing.assert_allclose(model.predict(), fitted.predict(y[:150]), rtol=1e-6)
    np.testing.assert_array_equal(fitted.tails_[0][:, 0], y[108:120])
    with pytest.raises(ValueError, match="got 2 series, but fit had 1"):
        fitted.update([y, y])


def test_scores_against_a_loop(fitted):
    y = sines(40, seed=1, noise=0.3)
    errors, naive = [], []
    for start in range(40 - 12 - 3 + 1):
        after = y[start + 12 : start + 15]
        errors.append(fitted.predict(y[start : start + 12]) - after)
        naive.append(y[start + 11] - after)
    scores = fitted.scores(y)
    scale = np.abs(np.diff(sines())).mean()
    want = {"mse": np.mean(np.square(errors)), "mae": np.mean(np.abs(errors)), "mase": np.mean(np.abs(errors)) / scale}
    want |= {"naive_mse": np.mean(np.square(naive)), "naive_mae": np.mean(np.abs(naive))}
    want |= {"naive_mase": want["naive_mae"] / scale}
    assert scores == pytest.approx(want, rel=1e-4)
    assert fitted.score(y) == pytest.approx(1 - want["mae"] / want["naive_mae"], rel=1e-4)


@pytest.mark.slow
def test_channels_and_several_series(tmp_path):
    one, other = np.stack([sines(), 2 * sines(seed=1)], 1), np.stack([sines(90), sines(90)], 1)
    model = LrcSSMForecaster(**TINY).fit([one, other])
    found = model.predict(horizon=5)
    assert [a.shape for a in found] == [(5, 2), (5, 2)] and model.n_channels_ == 2
    np.testing.assert_allclose(model.predict(other, horizon=5), found[1], rtol=1e-5)
    assert model.scores([one, other])["mae"] > 0
    model.save(tmp_path / "model")
    for same in (LrcSSMForecaster.load(tmp_path / "model"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(np.stack(same.predict(horizon=5)), np.stack(found))
        assert same.get_params() == model.get_params() and same.scores(one) == model.scores(one)
    assert clone(model).fit([one, other]).predict(horizon=5)[0] == pytest.approx(found[0], rel=1e-6)


def test_a_level_never_seen_before_is_no_obstacle(fitted):
    y = sines(40)
    np.testing.assert_allclose(fitted.predict(y + 1000) - 1000, fitted.predict(y), atol=1e-3)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"horizon": 0}, "got horizon=0; give a whole number"),
        ({"window": 200}, "got a series of 120 steps .* needs at least 203"),
        ({"season": 13}, "got window=12, less than one season of 13"),
        ({"level": "first"}, "got level='first'"),
        ({"patch": 2}, "give multiples of the patch"),
    ],
)
def test_mistakes(changes, says):
    with pytest.raises(ValueError, match=says):
        LrcSSMForecaster(**TINY | changes).fit(sines())


def test_more_mistakes(fitted):
    with pytest.raises(ValueError, match="leave y out"):
        LrcSSMForecaster(**TINY).fit(sines(), sines())
    with pytest.raises(ValueError, match="needs at least window_=12"):
        fitted.predict(np.ones(5))
    with pytest.raises(ValueError, match="got horizon=-1"):
        fitted.predict(horizon=-1)
    with pytest.raises(ValueError, match="scores got a series of 14 steps; it needs at least 15"):
        fitted.scores(np.ones(14))
    with pytest.raises(ValueError, match="scores got series 1 of 14 steps; it needs at least 15"):
        fitted.scores([np.ones(50), np.ones(14)])
    with pytest.raises(
        ValueError, match="a list of 2 lists of unequal lengths; give several series as a list of arrays"
    ):
        LrcSSMForecaster(**TINY).fit([[1.0, 2.0, 3.0], [1.0, 2.0]])
    with pytest.raises(ValueError, match="some two"):
        LrcSSMForecaster(**TINY).fit([np.ones(50), np.ones((50, 1))])
    with pytest.raises(lrcssm.FileError, match="holds LrcSSMForecaster"):
        _wrong_file(fitted)


def _wrong_file(model):
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        model.save(pathlib.Path(folder) / "model")
        lrcssm.LrcSSMRegressor.load(pathlib.Path(folder) / "model")


def test_a_fit_that_fails_changes_nothing(fitted):
    model, want = copy.copy(fitted), fitted.predict()
    with pytest.raises(ValueError, match="steps=0"):
        model.set_params(steps=0).fit(np.ones((60, 2)))
    np.testing.assert_array_equal(model.predict(), want)


def test_missing_values_are_refused_unless_something_is_said():
    y = sines(60)
    y[20] = np.nan
    for holes in (y, y[:, None], [y[:30], y[30:]]):
        with pytest.raises(ValueError, match=r'Series 0 holds NaN; give missing="mask" .* missing="fill"'):
            LrcSSMForecaster(**TINY).fit(holes)
    with pytest.raises(ValueError, match="no window of 12 steps with 3 known values after it"):
        LrcSSMForecaster(**TINY, missing="mask").fit(np.where(np.arange(60) % 3, y, np.nan))


def test_windows_with_missing_values():
    series = np.arange(20.0).reshape(10, 2)
    series[[2, 5], [0, 1]] = np.nan
    pieces = cut(series, np.arange(5), 3, 2)[0]
    assert usable(pieces, "mask").tolist() == [False, True, True, False, True]
    assert usable(pieces, "fill").tolist() == [True, True, True, True, True]
    np.testing.assert_array_equal(levels(pieces, "mean")[0], [[1.0, 3.0]])
    np.testing.assert_array_equal(levels(pieces, "last")[0], [[2.0, 5.0]])
    np.testing.assert_array_equal(seasonal_naive(pieces, 2, 2)[0], [[2, 3], [2, 5]])
    np.testing.assert_array_equal(naive_error([series], 1), [2.0, 2.0])


@pytest.mark.parametrize("missing", ["mask", "fill"])
def test_missing_values(missing, monkeypatch, tmp_path):
    y = np.stack([sines(), 2 * sines(seed=1)], 1)
    y[[30, 31, 60, 119], [0, 1, 0, 0]] = np.nan
    y[45] = y[118:] = np.nan
    seen = {}
    learn = LrcSSMForecaster._learn
    monkeypatch.setattr(
        LrcSSMForecaster, "_learn", lambda self, *of, **more: seen.update(train=of[2]) or learn(self, *of, **more)
    )
    model = LrcSSMForecaster(**TINY, missing=missing).fit(y)
    # No window is trained on that a hole follows; holes within them are there.
    assert np.isfinite(seen["train"].targets).all() and not all(one.all() for one in seen["train"].valid[:40])
    found = model.predict()
    # The last two steps are missing: they are forecast too, and what comes after them is given.
    np.testing.assert_allclose(found, model.predict(y[:118], horizon=5)[2:], rtol=1e-5)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(LrcSSMForecaster.load(tmp_path / "model").predict(), found)
    np.testing.assert_allclose(copy.copy(model).update(y[:40]).predict(), model.predict(y[:40]), rtol=1e-5)
    assert np.isfinite(list(model.scores(y).values())).all() and np.isfinite(model.predict(y[:31])).all()
    with pytest.raises(ValueError, match="a series of 0 steps up to its last known one"):
        model.predict(np.full((20, 2), np.nan))


def test_times(tmp_path):
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.uniform(0.2, 1.8, 100))
    y = np.sin(times / 2)
    hours, minutes = LrcSSMForecaster(**TINY).fit(y, times=times), LrcSSMForecaster(**TINY).fit(y, times=60 * times)
    np.testing.assert_allclose(hours.predict(horizon=7), minutes.predict(horizon=7), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(hours.predict(), hours.predict(y, times=times), rtol=1e-5)
    eager = copy.copy(hours)
    eager.gain_ = 1.0  # ridge on lags counts steps; the network sees the time between them
    assert np.abs(eager.predict(y, times=3 * times) - eager.predict()).max() > 1e-5
    new = copy.copy(hours).update(y[:5], times=times[-1] + times[:5])
    both = np.concatenate([y, y[:5]]), np.concatenate([times, times[-1] + times[:5]])
    np.testing.assert_allclose(new.predict(), hours.predict(both[0], times=both[1]), rtol=1e-5)
    assert hours.score(y, times=times) == pytest.approx(minutes.score(y, times=60 * times), rel=1e-3)
    hours.save(tmp_path / "model")
    np.testing.assert_array_equal(LrcSSMForecaster.load(tmp_path / "model").predict(), hours.predict())
    with pytest.raises(ValueError, match="no times, but the data for training had them"):
        hours.predict(y)
    with pytest.raises(ValueError, match="do not increase"):
        hours.update(y[:5], times=times[:5])
    with pytest.raises(ValueError, match="The times of series 0 have shape"):
        hours.scores(y, times=times[:50])


def test_architectures():
    assert LrcSSMForecaster(**TINY, architecture="s5").fit(sines(40)).model_.config.pool == "last"


@pytest.mark.parametrize(("window", "wants"), [(None, [64, 28]), (24, [24, 24])])
def test_the_window_is_chosen(window, wants):
    model = LrcSSMForecaster(window=window, horizon=4, patch=4)
    assert [window_of(model, length, 12) for length in (300, 80)] == wants


def test_methods(capsys, tmp_path):
    """Ridge by default, as for the classifiers; any parameter of gradient steps selects them."""
    y = sines(90, noise=0.1)
    model = LrcSSMForecaster(horizon=3, season=12, random_state=0, verbose=1).fit(y)
    assert isinstance(model.model_, ForecastModel) and "ridge on lags and liquid states" in capsys.readouterr().out
    same = lrcssm.LrcRidgeForecaster(horizon=3, season=12, random_state=0).fit(y)
    np.testing.assert_array_equal(model.predict(horizon=7), same.predict(horizon=7))
    np.testing.assert_array_equal(model.predict_interval(), same.predict_interval())
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(LrcSSMForecaster.load(tmp_path / "model").predict(), model.predict())
    for changes in ({"level": "last"}, {"hidden_dim": 8}, {"validation_fraction": 0.3}, {"warm_start": True}):
        assert method_of(LrcSSMForecaster(**changes), "forecast", 1) == "gradient"
    assert method_of(LrcSSMForecaster(horizon=4, window=8, season=2, missing="fill"), "forecast", 1) == "ridge"
    with pytest.raises(ValueError, match="The method ridge does not use steps"):
        LrcSSMForecaster(method="ridge", steps=3).fit(y)
    with pytest.raises(ValueError, match="got covariates, which gradient steps do not take"):
        LrcSSMForecaster(**TINY).fit(y, past_covariates=y)


def test_gradients_start_from_ridge_on_lags(fitted, tmp_path):
    """The gain is the best of eleven on the held-out part: without the network it would be ridge on lags."""
    y = sines()
    assert fitted.base_.config.season == 1
    base = fitted.base_(Cases.of(y[None, -12:, None], dtype=np.float64))[0, :, 0]
    outputs = fitted.model_(jax.numpy.asarray((y[-12:] - y[-12:].mean()).astype(np.float32))[:, None])[0]
    np.testing.assert_allclose(fitted.predict(), base + fitted.gain_ * np.asarray(outputs), rtol=1e-4, atol=1e-5)
    held = [
        y[begin : begin + 15] for begin in range(len(y) - round(fitted.validation_fraction * len(y)) - 12, len(y) - 14)
    ]
    errors = np.zeros(11)
    for one in held:
        start = fitted.base_(Cases.of(one[None, :12, None], dtype=np.float64))[0, :, 0]
        own = fitted.model_(jax.numpy.asarray((one[:12] - one[:12].mean()).astype(np.float32))[:, None])[0]
        errors += [np.abs(start + gain * np.asarray(own) - one[12:]).mean() for gain in np.linspace(0, 1, 11)]
    assert fitted.gain_ == np.linspace(0, 1, 11)[errors.argmin()] and errors.argmin() < 10
    low, high = fitted.predict_interval(coverage=0.5)
    assert (low < fitted.predict()).all() and (fitted.predict() < high).all()
    np.testing.assert_allclose(high - fitted.predict(), fitted.predict() - low, rtol=1e-6)
    fitted.save(tmp_path / "model")
    np.testing.assert_array_equal(LrcSSMForecaster.load(tmp_path / "model").predict_interval(coverage=0.5), (low, high))


@pytest.mark.parametrize("kind", [LrcSSMForecaster, lrcssm.LrcRidgeForecaster])
def test_values_that_are_too_large_are_no_forecast(kind, fitted):
    """A fill value at the end: a finite forecast or one sentence, and no warning."""
    y = sines()
    model = (
        fitted if kind is LrcSSMForecaster else kind(horizon=3, window=12, season=1, n_units=4, random_state=0).fit(y)
    )
    for value, says in (
        (1e20, ""),
        (3.3e38, "not finite|NaN or infinity"),
        (1e39, "X holds 1e.39, which is beyond single"),
    ):
        y[-2] = value
        for call in (model.predict, model.predict_interval):
            try:
                found = call(y)
            except lrcssm.LrcssmError as error:
                assert re.search(says, str(error)) and says and str(error).isprintable()
            else:
                assert np.isfinite(found).all() and value < 1e39


def test_a_solve_without_an_end_is_no_forecast(fitted):
    hasty = copy.copy(fitted).set_params(solver=lrcssm.DEER(max_steps=1))
    with pytest.raises(
        lrcssm.SolveError, match=r"The forecast could not be computed\. The iteration used up max_steps"
    ):
        hasty.predict()


def test_the_season_is_used():
    """With a season the window holds it, the base repeats it, and the naive forecast is another one."""
    rng = np.random.default_rng(0)
    y = np.tile(3 * rng.normal(size=15), 7) + 0.2 * rng.normal(size=105)
    how = {name: value for name, value in TINY.items() if name not in ("window", "season", "horizon")}
    with_season, without = (LrcSSMForecaster(**how, horizon=15, season=season).fit(y[:90]) for season in (15, 1))
    errors = [np.abs(model.predict() - y[90:]).mean() for model in (with_season, without)]
    assert errors[0] < 0.8 * errors[1] and with_season.naive_error_ < without.naive_error_
    guessed = LrcSSMForecaster(**how, horizon=15).fit(y[:90])
    assert guessed.season_ == 15 and guessed.season_guessed_ and not with_season.season_guessed_
    np.testing.assert_array_equal(guessed.predict(), with_season.predict())


@pytest.mark.slow
def test_scikit_learn_checks():
    model = LrcSSMForecaster(**TINY | {"window": 3, "horizon": 1, "steps": 10, "validation_fraction": 0.0})
    results = check_estimator(model, on_skip=None, expected_failed_checks=NOT_BY_ROWS)
    count = lambda status: sum(result["status"] == status for result in results)
    skipped = {result["check_name"] for result in results if result["status"] == "skipped"}
    print(
        f"LrcSSMForecaster: {count('passed')} of {len(results)} checks passed, {count('xfail')} cannot, skipped: {skipped}"
    )
    assert count("passed") + 2 + len(skipped) == len(results) and count("xfail") == 2
    assert skipped <= {"check_array_api_input"}


@pytest.mark.slow
def test_it_beats_the_seasonal_naive_forecast():
    y = sines(1200, noise=0.3)
    model = LrcSSMForecaster(horizon=12, season=12, steps=500, random_state=0).fit(y[:1000])
    found = model.scores(y[1000 - model.window_ :])
    assert model.score(y[1000 - model.window_ :]) > 0.3 and found["mase"] < found["naive_mase"]
    # Beyond its horizon too.
    assert np.abs(model.predict(horizon=36) - y[1000:1036]).mean() < found["naive_mae"]
