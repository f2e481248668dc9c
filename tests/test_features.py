"""Random liquid features: a plain loop gives the same numbers, and steps that are not observed have no effect."""

import subprocess
import sys
import textwrap
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from lrcssm.data import Cases
from lrcssm.features import STATISTICS, VIEWS, FeatureMap, sweep
from lrcssm.features.map import GROUPS
from lrcssm.features.signals import Batches, buffer_length
from lrcssm.features.statistics import THRESHOLDS

LENGTHS = (7, 23, 40, 90)


def series(lengths=LENGTHS, channels=2, seed=0, gaps=0.0):
    """Random walks `(time, channels)`, some values of which may be missing."""
    rng = np.random.default_rng(seed)
    made = [np.cumsum(rng.standard_normal((length, channels)), 0) for length in lengths]
    for one in made:
        one[1:][rng.random((len(one) - 1, channels)) < gaps] = np.nan
    return made


def doubled(features):
    """The same map in float64."""
    cast = lambda a: a.astype(jnp.float64) if jnp.issubdtype(a.dtype, jnp.floating) else a
    cell = jax.tree.map(cast, features.units.cell)
    reference = type(features.reference)(*map(cast, features.reference))
    return features._replace(units=features.units._replace(cell=cell), reference=reference)


def by_loop(features, values, dt):
    """Statistics of one case, step by step; `values` `(time, views, channels)` and `dt` `(time,)`, 0 where skipped."""
    units, about = features.units, features.reference
    found = []
    for g, dilation in enumerate(np.asarray(units.dilations)):
        fields = {name: None if a is None else np.asarray(a)[g] for name, a in vars(units.cell).items() if _array(a)}
        plain = {name: a for name, a in vars(units.cell).items() if not _array(a)}
        cell = types.SimpleNamespace(**plain | fields)
        mean, scale = (np.asarray(a)[g, :, 0] for a in (about.mean, about.scale))
        thresholds = np.asarray(about.thresholds)[:, g, :, 0]
        signals = [(values * units.mixes[:, :, source]).sum((1, 2)) for source in np.asarray(units.sources)[g]]
        state, states, rises = np.zeros_like(mean), [], []
        for t in range(len(values)):
            if dt[t] == 0:
                continue
            taps = np.array([signal[max(t - k * dilation, 0)] for k, signal in enumerate(signals)])
            before, state = state, reference.lrc(cell, state, taps, 16.0 * dt[t])
            states.append(state)
            rises.append(state > before)
        states = np.array(states)
        scaled = (states - mean) / scale
        above = [states > threshold for threshold in thresholds]
        position = np.arange(len(states))[:, None] / len(states)
        rows = [one.mean(0) for one in above]
        rows += [(one * position).mean(0) for one in above[1:3]]
        rows += [np.array([longest_run(column) for column in one.T]) / len(one) for one in above[1:3]]
        rows += [scaled.mean(0), scaled.std(0), scaled.max(0), scaled.min(0), np.mean(rises, 0), scaled[-1]]
        everyone = np.arange(scaled.shape[1])
        rows += [np.where(best(scaled, 1)[:, None] == everyone, scaled, 0).mean(0) for best in (np.argmax, np.argmin)]
        found.append(rows)
    return np.array(found).transpose(1, 0, 2).ravel()  # statistic, group, unit


def longest_run(flags):
    return max(map(len, "".join("x" if flag else " " for flag in flags).split()), default=0)


def _array(a):
    return a is None or hasattr(a, "shape")


@pytest.mark.parametrize("missing", ["mask", "fill"])
@pytest.mark.parametrize("irregular", [False, True])
def test_features_equal_a_plain_loop(missing, irregular):
    data = series(gaps=0.1)
    data[2][10] = np.nan
    times = [np.cumsum(0.2 + np.random.default_rng(1).random(len(one))) for one in data] if irregular else None
    cases = Cases.of(data, times=times, missing=missing, dtype=np.float64)
    count = 3 * GROUPS  # units of a group compete
    features = doubled(FeatureMap.of(cases, n_features=count * len(STATISTICS), batch=3))
    assert features.views.names == VIEWS
    assert cases.valid is not None and not all(one.all() for one in cases.valid)
    assert len(features.names()) == count * len(STATISTICS)
    equals_a_loop(features, cases)


def equals_a_loop(features, cases):
    """Compare the features of each case with those of a plain loop."""
    found = features(cases)
    assert len(found) == len(cases)
    for i in range(len(cases)):
        dt = np.ones(len(cases.series[i])) if cases.dt is None else cases.dt[i].astype(np.float32)
        dt = dt if cases.valid is None else dt * cases.valid[i]
        expected = by_loop(features, features.views(cases, i).astype(np.float64), dt)
        np.testing.assert_allclose(found[i], expected, atol=2e-5, rtol=2e-5)


def test_case_does_not_depend_on_its_batch():
    cases = Cases.of(series())
    features = FeatureMap.of(cases, n_features=20 * len(STATISTICS), batch=4)
    together = features(cases)
    for i in range(len(cases)):
        np.testing.assert_array_equal(features(cases.take([i]))[0], together[i])
    order = np.array([2, 0, 3, 1])
    np.testing.assert_array_equal(features(cases.take(order)), together[order])
    np.testing.assert_allclose(features._replace(batch=1)(cases), together, atol=1e-6)


def test_padding_and_skipped_steps_are_inert():
    cases = Cases.of(series(gaps=0.2), missing="mask")
    features = FeatureMap.of(cases, n_features=20 * len(STATISTICS), batch=4)
    parts = Batches.of(cases, features.views, features.units, features.batch)
    signals = parts.signals(next(iter(parts)))
    expected = sweep.pooled(features.units, features.reference, signals)
    skipped = np.asarray(signals.dt) == 0
    # After a series' end nothing is read; a skipped step within it is seen by the taps of later ones, as its filled value.
    after = np.cumsum(~skipped[::-1], 0)[::-1] == 0
    garbage = np.where(after[:, None], 1e6, np.asarray(signals.values))
    found = sweep.pooled(features.units, features.reference, signals._replace(values=jnp.asarray(garbage)))
    assert after.any() and (skipped & ~after).any()
    np.testing.assert_array_equal(found, expected)
    longer = signals._replace(steps=jnp.asarray(len(skipped), jnp.int32))
    np.testing.assert_array_equal(sweep.pooled(features.units, features.reference, longer), expected)


def test_masked_steps_are_inert():
    """At a step with a missing channel the others have no effect, also before the first observed step."""
    data = series(lengths=(30, 30))
    for one, steps in zip(data, ([0, 1, 5], [20, 29]), strict=True):
        one[steps, 0] = np.nan
    cases = Cases.of(data, missing="mask")
    features = FeatureMap.of(cases, n_features=10 * len(STATISTICS))
    other = [np.where(np.isnan(one[:, :1]), [[np.nan, 1e6]], one) for one in data]
    changed = Cases.of(other, missing="mask")
    assert not np.array_equal(changed.series[0], cases.series[0])
    np.testing.assert_array_equal(features(changed), features(cases))
    again = FeatureMap.of(changed, n_features=10 * len(STATISTICS))
    np.testing.assert_array_equal(again(changed), features(cases))


def test_views_of_a_masked_series():
    cases = Cases.of([np.array([[np.nan], [1.0], [np.nan], [4.0], [4.0]])], missing="mask")
    views = FeatureMap.of(cases, n_features=100, views=["levels", "differences"]).views
    levels = (np.array([1, 1, 1, 4, 4]) - 3) / np.std([1, 4, 4])
    changes = np.diff(levels, prepend=levels[0])
    scale = np.std(np.diff([levels[1], levels[3], levels[4]], prepend=levels[1]))
    np.testing.assert_allclose(views(cases, 0)[:, :, 0], np.stack([levels, changes / scale], 1), rtol=1e-6)


@pytest.mark.parametrize("length", [1, 2, 9])
def test_short_series(length):
    """Of one step too, whose kernels look back to before the series."""
    cases = Cases.of(series(lengths=(length,) * 3), dtype=np.float64)
    equals_a_loop(doubled(FeatureMap.of(cases, n_features=5 * len(STATISTICS))), cases)


def test_constant_series():
    cases = Cases.of(np.ones((3, 20, 1)))
    found = FeatureMap.of(cases, n_features=5 * len(STATISTICS))(cases)
    np.testing.assert_array_equal(found, np.broadcast_to(found[:1], found.shape))
    assert np.isfinite(found).all()


def test_views_that_repeat_others_are_left_out():
    data = np.array([(one - one.mean(0)) / one.std(0) for one in series(lengths=(50,) * 5)])
    assert FeatureMap.of(Cases.of(data), n_features=100).views.names == VIEWS[:2]
    assert FeatureMap.of(Cases.of(data + np.arange(5)[:, None, None]), n_features=100).views.names == VIEWS
    with pytest.raises(ValueError, match="give one or more of levels"):
        FeatureMap.of(Cases.of(data), n_features=100, views=["level"])


def test_thresholds_are_quantiles_of_the_training_states():
    cases = Cases.of(series(lengths=(200,) * 20, channels=1))
    features = FeatureMap.of(cases, n_features=40 * len(STATISTICS))
    shares = features(cases).reshape(20, len(STATISTICS), -1)[:, :THRESHOLDS].mean((0, 2))
    expected = 1 - (0.05 + 0.9 * (np.arange(THRESHOLDS) + 0.5) / THRESHOLDS)
    np.testing.assert_allclose(shares, expected, atol=0.06)


def test_thresholds_keep_away_from_states_that_many_cases_have():
    """Before a series moves, kernels of mean 0 see nothing: the first state of a unit is the same in all cases, to rounding."""
    cases = Cases.of(series(lengths=(30,) * 12, channels=1))
    features = FeatureMap.of(cases, n_features=20 * len(STATISTICS), views=["levels", "differences"])
    first = Cases.of([one[:1] for one in series(lengths=(1,) * 5, channels=1, seed=3)])
    after = features(first).reshape(5, len(STATISTICS), -1)[:, STATISTICS.index("last")]
    same = np.ptp(after, 0) < 1e-5
    thresholds = (features.reference.thresholds - features.reference.mean) / features.reference.scale
    apart = np.abs(np.asarray(thresholds).reshape(THRESHOLDS, -1) - after.mean(0))[:, same]
    assert same.sum() >= 10 and apart.min() > 5e-5


def test_states_are_bounded_for_any_gap():
    data = series(lengths=(40,) * 3)
    times = np.cumsum(np.where(np.arange(40) == 20, 1e6, 1.0))
    cases = Cases.of(data, times=[times] * 3, dtype=np.float64)
    features = doubled(FeatureMap.of(cases, n_features=10 * len(STATISTICS)))
    equals_a_loop(features, cases)
    assert np.abs(features(cases)).max() < 20  # in units of the training states


def test_few_lengths_are_compiled():
    lengths = [buffer_length(n) for n in range(1, 20_000)]
    assert len(set(lengths)) < 10
    assert all(length >= n for n, length in enumerate(lengths, 1))


@pytest.mark.slow
def test_memory_of_long_series():
    """1,000 series of 10,000 steps: no more than 1 GB for all, of which the series are 80 MB."""
    code = """
        import pathlib, numpy as np, lrcssm
        rng = np.random.default_rng(0)
        X = rng.standard_normal((1000, 10_000)).cumsum(1)
        lrcssm.LrcFeatures(n_features=1400, random_state=0).fit_transform(X)
        # Not `ru_maxrss`, which counts the memory of the process that started this one.
        status = pathlib.Path("/proc/self/status").read_text()
        print(status.split("VmHWM:")[1].split()[0])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 2**20  # kilobytes
