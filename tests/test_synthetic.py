"""Synthetic data sets: their content, and their best scores, each reached by a method that computes the target from the series."""

import inspect

import numpy as np
import pytest

from lrcssm.data.download import DataError
from lrcssm.data.synthetic import KINDS, adding, copying, lorenz, oscillators, parity


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def test_the_table_says_what_is_made(kind):
    dataset = kind.make()
    arguments = inspect.signature(kind.make).parameters
    assert (arguments["cases"].default, arguments["length"].default) == (kind.cases, kind.length)
    assert KINDS[dataset.name] is kind
    assert {one.shape for one in dataset.series} == {(kind.length, kind.channels)}
    assert len(dataset) == kind.cases == len(dataset.targets)
    assert dataset.classes is None if kind.classes is None else len(dataset.classes) == kind.classes
    assert len(dataset.channel_names) == kind.channels
    assert "best" in dataset.about


def test_the_seed_decides(kind):
    one, same, other = (kind.make(20, 120, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.series, same.series)
    np.testing.assert_array_equal(one.targets, same.targets)
    assert not np.array_equal(one.series, other.series)
    assert one.series[0].dtype == np.float32 and np.isfinite(one.series).all()
    assert one.name.endswith(":120")


def test_parts_are_a_partition_and_can_be_trained_on(kind):
    dataset = kind.make(100, 120)
    assert sorted(np.concatenate(dataset.split).tolist()) == list(range(100))
    assert [len(part) for part in dataset.parts()] == [70, 15, 15]


def test_classes_are_equally_frequent(kind):
    if kind.classes is not None:
        counts = np.bincount(kind.make(403, 120).targets)
        assert len(counts) == kind.classes and np.ptp(counts) <= 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: adding(0, 10), "adding got 0 cases of 10 steps; give at least 1 case and 2 steps"),
        (lambda: adding(1, 1), "1 case and 2 steps"),
        (lambda: parity(1, 0), "1 case and 1 step."),
        (lambda: copying(1, 4), "5 steps"),
        (lambda: copying(symbols=1), "1 symbols"),
        (lambda: oscillators(1, 99), "100 steps"),
        (lambda: adding(10**6, 10**6), "2e.12 numbers"),
    ],
)
def test_mistakes(call, says):
    with pytest.raises(DataError, match=says):
        call()


@pytest.mark.parametrize("length", [2, 3, 400])
def test_adding(length):
    dataset = adding(4000, length, seed=1)
    values, marks = np.stack(dataset.series).astype(np.float64).transpose(2, 0, 1)
    assert set(np.unique(marks)) <= {0, 1}
    assert (marks[:, : length // 2].sum(1) == 1).all() and (marks[:, length // 2 :].sum(1) == 1).all()
    assert values.min() >= 0 and values.max() <= 1
    np.testing.assert_array_equal((values * marks).sum(1), dataset.targets)
    # The fourth central moment of the sum of two uniforms is 1/15, which gives the error of the variance.
    assert abs(dataset.targets.var() - 1 / 6) < 4 * np.sqrt((1 / 15 - 1 / 36) / 4000)
    assert abs(dataset.targets.mean() - 1) < 4 * np.sqrt(1 / 6 / 4000)


def test_marks_of_adding_are_anywhere():
    marks = np.stack(adding(4000, 10).series)[..., 1].sum(0)
    assert (abs(marks - 800) < 4 * np.sqrt(4000 * 0.2 * 0.8)).all()


@pytest.mark.parametrize(("symbols", "marked", "length"), [(8, 4, 200), (2, 1, 2), (3, 5, 6)])
def test_copying(symbols, marked, length):
    dataset = copying(1000, length, symbols=symbols, marked=marked, seed=2)
    found = []
    for one in dataset.series:
        shown, mark, ask = one[:-1, :symbols], one[:, symbols], one[-1, symbols + 1 :]
        assert (shown.sum(1) == 1).all() and mark.sum() == marked and mark[-1] == 0
        assert ask.sum() == 1 and not one[:-1, symbols + 1 :].any() and not one[-1, :symbols].any()
        found.append(np.flatnonzero(shown[np.flatnonzero(mark)[ask.argmax()]])[0])
    np.testing.assert_array_equal(found, dataset.targets)


def test_copying_needs_all_that_is_marked():
    """A memory of only one of the four marked symbols is right whenever that one is requested, and at chance otherwise."""
    dataset = copying(4000, 50, seed=3)
    last = np.array([one[np.flatnonzero(one[:, 8])[-1], :8].argmax() for one in dataset.series])
    share = 1 / 4 + 3 / 4 / 8
    assert abs((last == dataset.targets).mean() - share) < 4 * np.sqrt(share * (1 - share) / 4000)


@pytest.mark.parametrize("length", [1, 2, 40])
def test_parity(length):
    dataset = parity(1000, length, seed=4)
    bits = np.stack(dataset.series)[..., 0]
    assert set(np.unique(bits)) == {-1, 1}
    np.testing.assert_array_equal((bits > 0).sum(1) % 2, dataset.targets)


def test_parity_is_chance_without_one_step():
    bits = np.stack(parity(4000, 10, seed=5).series)[..., 0]
    targets = parity(4000, 10, seed=5).targets
    for step in range(10):
        rest = (np.delete(bits, step, axis=1) > 0).sum(1) % 2
        assert abs((rest == targets).mean() - 0.5) < 4 * np.sqrt(0.25 / 4000)


def fitted_frequency(values, times):
    """Least squares of a sine and a cosine that fall off, over a grid of frequencies and dampings."""
    frequencies = np.arange(0.43, 1.56, 0.01)
    best = np.inf, 0.0
    for damping in (1.0, 2.0, 3.0):
        wave = np.exp((2j * np.pi * frequencies[:, None] - damping / times[-1]) * times)
        basis = np.stack([wave.real, wave.imag], 1)
        inner = np.linalg.solve(basis @ basis.transpose(0, 2, 1), (basis @ values)[..., None])[..., 0]
        left = values @ values - (inner * (basis @ values)).sum(1)
        best = min(best, (left.min(), frequencies[left.argmin()]))
    return best[1]


def test_oscillators():
    dataset = oscillators(400, seed=6)
    centres = np.array([0.5, 0.5**0.5, 1, 2**0.5])
    assert [float(name) for name in dataset.classes] == pytest.approx(centres, abs=0.005)
    found = [fitted_frequency(one[:, 0], when) for one, when in zip(dataset.series, dataset.times, strict=True)]
    guess = abs(np.log(np.array(found)[:, None] / centres)).argmin(1)
    assert (guess == dataset.targets).mean() > 0.995


def test_oscillators_need_their_times():
    """A frequency for each step, without the time that a step takes, leaves two classes or more open."""
    dataset = oscillators(300, seed=7)
    assert all((np.diff(when) > 0).all() for when in dataset.times)
    spans = np.array([when[-1] for when in dataset.times])
    assert 9 < spans.min() < 12 and 33 < spans.max() <= 40.01
    per_step = np.array([fitted_frequency(one[:, 0], when) for one, when in
                         zip(dataset.series, dataset.times, strict=True)]) * spans  # fmt: skip
    train, test = np.arange(150), np.arange(150, 300)
    nearest = abs(per_step[test, None] - per_step[train]).argsort(1)[:, :15]
    votes = [np.bincount(dataset.targets[train][near], minlength=4).argmax() for near in nearest]
    assert (votes == dataset.targets[test]).mean() < 0.7


def fitted_rho(dataset, noise, window):
    """ρ from the equation that x alone obeys, βρx² = xu' − ux' + βux + x³y with y = x + x'/10 and u = y' + y, averaged with
    a window h. Integration by parts leaves x², x⁴ and x'², whose bias by the noise is known."""
    step, sigma, beta = 0.02, 10, 8 / 3
    raw = np.stack(dataset.series)[..., 0].astype(np.float64)
    # The value and slope at the middle of a polynomial of degree 6 that is fitted to 11 steps.
    value, slope = np.linalg.pinv((step * np.arange(-5, 6))[:, None] ** np.arange(7))[:2]
    pieces = np.lib.stride_tricks.sliding_window_view(raw, 11, axis=1)
    error = noise**2 * (value @ value)
    x, moved = pieces @ value, (pieces @ slope) ** 2 - noise**2 * (slope @ slope)
    second = x**2 - error
    fourth = x**4 - 6 * error * second - 3 * error**2
    h = window(x.shape[1], step)
    a = 1 + 1 / sigma
    right = h[0] @ fourth.T - h[1] @ fourth.T / (4 * sigma)
    right += ((2 / sigma) * h[1] - (2 * a + beta / sigma) * h[0]) @ moved.T
    right += (beta * h[0] - beta * a / 2 * h[1] + (a + beta / sigma) / 2 * h[2] - h[3] / (2 * sigma)) @ second.T
    return right / (beta * h[0] @ second.T)


def bump(steps, step):
    """sin⁴ over the whole, and its first three derivatives: there is nothing at the ends."""
    phase, rate = np.pi * (np.arange(steps) + 0.5) / steps, np.pi / (steps * step)
    # sin⁴(p) = 3/8 − cos(2p)/2 + cos(4p)/8
    return [
        3 / 8 - np.cos(2 * phase) / 2 + np.cos(4 * phase) / 8,
        rate * (np.sin(2 * phase) - np.sin(4 * phase) / 2),
        rate**2 * (2 * np.cos(2 * phase) - 2 * np.cos(4 * phase)),
        rate**3 * (-4 * np.sin(2 * phase) + 8 * np.sin(4 * phase)),
    ]


def flat(steps, step):
    """The plain average, as if the ends did not matter."""
    return [np.ones(steps), *np.zeros((3, steps))]


def score(found, dataset):
    """R²."""
    return 1 - ((found - dataset.targets) ** 2).mean() / dataset.targets.var()


def test_lorenz_reaches_its_score():
    dataset = lorenz(seed=8)
    assert dataset.targets.min() >= 30 and dataset.targets.max() <= 50
    assert abs(dataset.targets.var() - 400 / 12) < 4 * np.sqrt(400**2 / 180 / 1000)
    found = score(fitted_rho(dataset, 0.3, bump), dataset)
    assert found > 0.99


def test_lorenz_is_known_without_noise():
    dataset = lorenz(100, noise=0.0, seed=9)
    found = score(fitted_rho(dataset, 0.0, bump), dataset)
    assert found > 0.9995


def test_lorenz_obeys_the_average():
    dataset = lorenz(100, 4000, seed=10)
    found = score(fitted_rho(dataset, 0.3, flat), dataset)
    assert found > 0.99
