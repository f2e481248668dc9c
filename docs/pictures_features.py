"""Draws the pictures of features.md: python docs/pictures_features.py (about a minute)."""

import pathlib

import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import lrcssm
from lrcssm.data import Cases
from lrcssm.features import STATISTICS, FeatureMap, sweep
from lrcssm.features.explain import KINDS, time_scales
from lrcssm.features.signals import Batches
from lrcssm.report.headline import STATISTIC_WORDS
from lrcssm.report.outcome import diagram
from lrcssm.training.reliability import reliability

matplotlib.use("Agg")

FOLDER = pathlib.Path(__file__).parent / "img"
LENGTH = 300
CLASSES = ("calm", "burst", "drift")
CHANNELS = ("vibration", "temperature", "current")
COLOURS = ("#4c72b0", "#dd8452", "#55a868")


def machine(rng, kind):
    """Three sensors of a machine: a burst shakes the first for 20 steps, a drift moves the second slowly."""
    series = rng.standard_normal((LENGTH, 3)) * [0.3, 0.3, 0.5]
    if kind == "burst":
        start = rng.integers(60, LENGTH - 60)
        series[start : start + 20, 0] += 1.2 * (-1.0) ** np.arange(20)
    if kind == "drift":
        series[:, 1] += 0.6 * np.sin(2 * np.pi * np.arange(LENGTH) / 220 + rng.uniform(0, 6))
    return series


def machines(count, seed):
    rng = np.random.default_rng(seed)
    labels = np.array(CLASSES)[np.arange(count) % 3]
    return np.stack([machine(rng, kind).T for kind in labels]), labels


def features_method():
    """A series, the states of three units of different time scales, and the statistics of these states."""
    rng = np.random.default_rng(5)
    both = lambda: machine(rng, "burst")[:, :1] + machine(rng, "drift")[:, 1:2]
    cases = Cases.of(np.stack([both() for _ in range(16)]))
    drawn = FeatureMap.of(cases, n_features=len(STATISTICS) * 64 * 16, views=("levels",), seed=1)
    units, reference = drawn.units, drawn.reference
    parts = Batches.of(cases, drawn.views, units, len(cases))
    which = next(iter(parts))
    signals = parts.signals(which)
    slots = np.full(len(signals.dt), LENGTH, np.int32)
    slots[:LENGTH] = np.arange(LENGTH)
    states = np.asarray(sweep.recorded(units, signals, jnp.asarray(slots), LENGTH + 1))[:LENGTH]
    statistics = drawn(cases).reshape(len(cases), len(STATISTICS), *units.cell.v.shape)
    case = 3
    column, scales = list(which).index(case), time_scales(units)
    level = lambda steps: np.convolve(cases.series[case][:, 0], np.ones(steps) / steps)[:LENGTH]
    figure = plt.figure(figsize=(9, 6.2), layout="constrained")
    grid = figure.add_gridspec(4, 2, width_ratios=(2.2, 1))
    axes = figure.add_subplot(grid[0, 0])
    axes.plot(cases.series[case][:, 0], color="0.2", linewidth=0.8)
    axes.set_title("a series: a slow wave, a burst, noise", fontsize=10, loc="left")
    axes.tick_params(labelbottom=False)
    axes.set_xlim(0, LENGTH)
    words = figure.add_subplot(grid[0, 1])
    words.axis("off")
    words.text(0, 0.5, "of each state:\nits statistics, in units of\nthe training states", va="center", fontsize=10)
    for row, (wanted, name) in enumerate(((9, "fast"), (30, "slower"), (150, "slow"))):
        # Of the units of this time scale, the one that follows the series best: its shapes, or its level.
        near = np.abs(np.log(scales / wanted)) < 0.35
        followed = level(wanted // 3) if row else cases.series[case][:, 0] - level(30)
        late = states[100:, ..., column]
        match = np.einsum("t,tgu->gu", followed[100:] - followed[100:].mean(), late - late.mean(0))
        match = np.where(near, np.abs(match) / np.maximum(late.std(0), 1e-3), 0)
        g, u = np.unravel_index(match.argmax(), match.shape)
        axes = figure.add_subplot(grid[row + 1, 0])
        axes.plot(states[:, g, u, column], color=COLOURS[row], linewidth=1)
        for threshold in np.asarray(reference.thresholds)[:, g, u, 0]:
            axes.axhline(threshold, color="0.85", linewidth=0.6, zorder=0)
        axes.set_title(
            f"a {name} unit, which looks back {scales[g, u]:.0f} steps; thresholds in grey", fontsize=10, loc="left"
        )
        axes.set_xlim(0, LENGTH)
        axes.tick_params(labelbottom=row == 2)
        bars = figure.add_subplot(grid[row + 1, 1])
        bars.bar(range(len(STATISTICS)), statistics[case, :, g, u], color=COLOURS[row])
        bars.axhline(0, color="0.4", linewidth=0.6)
        bars.set_xticks(range(len(STATISTICS)), STATISTICS if row == 2 else [], rotation=90, fontsize=8)
        for one in (axes, bars):
            one.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("step")
    return figure


def features_weights():
    """The three classes of a machine, and the contributions to each of them in the test cases."""
    X, y = machines(120, 0)
    test, labels = machines(90, 1)
    model = lrcssm.LrcRidgeClassifier(random_state=0).fit(X, y)
    print(f"three classes of a machine: {model.score(test, labels):.1%} of {len(test)} test cases are right")
    found = model.explain(test)
    shares = found.by_class / found.by_class.sum((1, 2, 3), keepdims=True)
    figure = plt.figure(figsize=(9.6, 5.6), layout="constrained")
    top, below = figure.subfigures(2, 1, height_ratios=(1, 1.15))
    for axes, kind in zip(top.subplots(1, 3, sharey=True), CLASSES, strict=True):
        one = test[list(labels).index(kind)]
        for channel, offset in enumerate((3.2, 0, -3.2)):
            axes.plot(one[channel] + offset, color=COLOURS[channel], linewidth=0.7, label=CHANNELS[channel])
        axes.set_title(kind, fontsize=10)
        axes.set(xlabel="step", yticks=[])
        axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    names = list(found.classes)
    panels = (
        ("by channel", shares.sum((2, 3)), CHANNELS),
        ("by time scale", shares.sum((1, 3)), found.time_scales),
        (
            "by statistic",
            shares.sum((1, 2)),
            [STATISTIC_WORDS[one].replace("share of steps", "share") for one in KINDS],
        ),
    )
    order = [names.index(kind) for kind in CLASSES]
    for axes, (title, values, rows) in zip(below.subplots(1, 3), panels, strict=True):
        drawn = values[order].T
        strength = np.clip(np.abs(drawn) / np.abs(drawn).max(), 0, 1)[..., None]
        colours = np.where(drawn[..., None] >= 0, [0.30, 0.45, 0.69], [0.77, 0.31, 0.32])
        axes.imshow(1 - strength + strength * colours, aspect="auto")
        for (i, j), value in np.ndenumerate(drawn):
            axes.text(j, i, f"{100 * value:.0f} %", ha="center", va="center", fontsize=9,
                      color="white" if strength[i, j] > 0.6 else "black")  # fmt: skip
        axes.set_xticks(range(3), CLASSES)
        axes.set_yticks(range(len(rows)), rows, fontsize=9)
        axes.set_title(title, fontsize=10)
    return figure


def features_reliability():
    """Reliability diagram of held-out digits."""
    X, y = load_digits(return_X_y=True)
    model = lrcssm.LrcRidgeClassifier(random_state=0).fit(X[:200], y[:200])
    found = reliability(model.predict_proba(X[200:]), y[200:])
    print(f"digits: {model.score(X[200:], y[200:]):.1%} right, expected calibration error {found.error:.1%}")
    return diagram(found)


def main():
    FOLDER.mkdir(exist_ok=True)
    for draw in (features_method, features_weights, features_reliability):
        path = FOLDER / f"{draw.__name__.replace('_', '-')}.png"
        draw().savefig(path, dpi=110, metadata={"Software": None})
        print(path.relative_to(FOLDER.parent.parent))


if __name__ == "__main__":
    main()
