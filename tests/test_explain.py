"""Explanations of ridge models: against a plain loop over the features, and on data where one channel or one time scale decides."""

import numpy as np
import pytest

from lrcssm.data import Cases
from lrcssm.errors import InvalidType, InvalidValue
from lrcssm.features import STATISTICS, FeatureMap, LiquidModel, explain
from lrcssm.features.explain import KINDS, time_bands, time_scales
from lrcssm.features.units import SPEED, TAPS


def noise(count=30, steps=40, channels=3, seed=0, classes=3):
    rng = np.random.default_rng(seed)
    targets = np.arange(count) % classes
    series = rng.standard_normal((count, steps, channels)) + 0.5 * targets[:, None, None]
    return Cases.of(series, targets=targets)


def loop(model, cases, weights, rows):
    """Contributions of rows of compressed features to outputs of some weights, feature by feature."""
    units = model.map.units
    bands, names = time_bands(units)
    found = np.zeros((len(rows), units.mixes.shape[1], len(names), len(KINDS)))
    for f, name in enumerate(model.map.names()):
        statistic, group, unit = name.rsplit("_", 2)
        kind = KINDS.index(statistic.rstrip("0123456789").rstrip("-"))
        kernel, sources = np.asarray(units.cell.a_u)[int(group), :, int(unit)], np.asarray(units.sources)[int(group)]
        squares = [
            sum(
                units.mixes[v, c, source] ** 2 * weight**2
                for v in range(units.mixes.shape[0]) for source, weight in zip(sources, kernel, strict=True)
            )
            for c in range(cases.channels)
        ]  # fmt: skip
        for c in range(cases.channels):
            share = squares[c] / sum(squares)
            for i, row in enumerate(rows):
                found[i, c, bands[int(group), int(unit)], kind] += share * weights[i][f] * row[f]
    return found


def compressed_rows(model, cases):
    z = (model.map(cases).astype(np.float64) - model.readout.mean) / model.readout.scale
    return np.sign(z) * np.sqrt(np.abs(z))


def test_contributions_against_a_loop_over_features():
    cases = noise()
    model = LiquidModel.fit(cases, "classify", 3, n_features=len(STATISTICS) * 20, seed=1)
    found = explain(model, cases, classes=np.array(["a", "b", "c"]))
    rows = compressed_rows(model, cases)
    logits = model.factor * (rows @ model.readout.weights + model.readout.intercept)
    assert found.classes == ("a", "b", "c") and (found.predicted == logits.argmax(1)).all()
    scaled = model.factor * model.readout.weights.T
    wanted = loop(model, cases, scaled[found.predicted], rows)
    np.testing.assert_allclose(found.contributions, wanted, atol=1e-5)
    # Nothing is left over but the intercept.
    total = found.contributions.sum((1, 2, 3)) + model.factor * model.readout.intercept[found.predicted]
    np.testing.assert_allclose(total, logits.max(1), atol=1e-5)
    means = [rows[found.predicted == k].mean(0) - rows.mean(0) for k in range(3)]
    np.testing.assert_allclose(found.by_class, loop(model, cases, scaled, means), atol=1e-5)
    for k in range(3):
        gap = logits[found.predicted == k, k].mean() - logits[:, k].mean()
        np.testing.assert_allclose(found.by_class[k].sum(), gap, atol=1e-5)


def test_shares_of_numbers_add_up_to_one():
    cases = noise()
    targets = np.stack([one.mean(0)[:2] for one in cases.series])
    cases = Cases.of(np.stack(cases.series), targets=targets)
    model = LiquidModel.fit(cases, "regress", 2, n_features=len(STATISTICS) * 20)
    found = explain(model, cases, channels=("x", "y", "z"))
    assert found.classes is None and found.channels == ("x", "y", "z")
    np.testing.assert_allclose(found.by_class.sum((1, 2, 3)), 1, atol=1e-5)
    rows, outputs = compressed_rows(model, cases), model.outputs(cases)
    parts = loop(model, cases, np.tile(model.readout.weights[:, 1], (len(cases), 1)), rows)
    centred = outputs[:, 1] - outputs[:, 1].mean()
    wanted = np.einsum("i,icbs->cbs", centred, parts) / np.sum(centred**2)
    np.testing.assert_allclose(found.by_class[1], wanted, atol=1e-5)


def test_time_scales_are_reach_and_time_constant():
    """Without inputs a unit forgets at the rate of its time constant; levels have no reach."""
    model = FeatureMap.of(noise(steps=200), n_features=len(STATISTICS) * 64 * 4, max_time=50.0)
    scales, cell = time_scales(model.units), model.units.cell
    sigmoid = lambda x: 1 / (1 + np.exp(-np.asarray(x, np.float64)))
    for g in range(0, 64, 5):
        reach = (TAPS - 1) * int(model.units.dilations[g])
        # All synapses half open.
        leak, own, inputs = (np.asarray(part[g], np.float64) for part in (cell.g_leak, cell.g_x, cell.g_u))
        kept = 1 / (1 + SPEED * sigmoid(cell.v[g]) * sigmoid(leak + own / 2 + inputs / 2))
        np.testing.assert_allclose(scales[g], reach - 1 / np.log(kept), rtol=1e-4)
    bands, names = time_bands(model.units)
    assert names[0].startswith(("up to 3", "3 to 10")) and bands.max() == len(names) - 1
    assert scales[bands == 0].max() <= scales[bands == 1].min() and len(set(names)) == len(names)


def waves(count, kind, seed, steps=200):
    """Three channels of noise. The classes differ in channel 1 alone: by a slow wave, or by pulses up and down or down and up."""
    rng = np.random.default_rng(seed)
    targets = np.arange(count) % 2
    series = rng.standard_normal((count, steps, 3))
    for one, target in zip(series, targets, strict=True):
        if kind == "slow":
            one[:, 1] += 1.5 * target * np.sin(2 * np.pi * np.arange(steps) / 100 + rng.uniform(0, 6))
        else:
            where = rng.choice(steps // 2, 12, replace=False) * 2
            one[:, 1] *= 0.3
            one[where, 1] += 4 * (1 - 2 * target)
            one[where + 1, 1] -= 4 * (1 - 2 * target)
    return Cases.of(series, targets=targets)


def test_the_channel_and_the_time_scale_that_decide_are_found():
    shares = {}
    for kind in ("slow", "fast"):
        model = LiquidModel.fit(waves(80, kind, 0), "classify", 2, n_features=4000)
        test = waves(40, kind, 1)
        found = explain(model, test)
        assert np.mean(found.predicted == test.targets) > 0.85
        for k in range(2):
            channels = found.by_channel()[k] / found.by_class[k].sum()
            assert channels.argmax() == 1 and channels[1] > 0.8
        shares[kind] = dict(zip(found.time_scales, found.by_time_scale()[1] / found.by_class[1].sum(), strict=True))
    # Levels, the first band, are large in both; the others differ.
    slow, fast = shares["slow"], shares["fast"]
    assert fast["3 to 10 steps"] > 1.3 * slow["3 to 10 steps"]
    assert slow["30 to 100 steps"] > 1.3 * fast["30 to 100 steps"] and slow["10 to 30 steps"] > fast["10 to 30 steps"]


def test_refusals():
    with pytest.raises(InvalidType, match="give a LiquidModel"):
        explain("model", noise())  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match="without a read-out"):
        explain(LiquidModel("features", FeatureMap.of(noise(), n_features=len(STATISTICS))), noise())


def test_a_class_that_is_never_predicted_has_no_explanation():
    cases = noise(classes=2)
    model = LiquidModel.fit(Cases.of(np.stack(cases.series), targets=cases.targets), "classify", 3, n_features=280)
    found = explain(model, cases)
    assert np.isnan(found.by_class[2]).all() and np.isfinite(found.by_class[:2]).all()
    assert found.classes == ("0", "1", "2")
