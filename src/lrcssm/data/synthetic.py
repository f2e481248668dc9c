"""Synthetic data sets of any length, generated from a seed, with a known best score.

| name | target | best constant | best prediction |
|---|---|---|---|
| `adding` | the sum of two marked numbers | MSE 1/6 | MSE 0 |
| `copying` | which symbol was the j-th marked one | 1/8 right | all right |
| `parity` | is the number of ones odd | 1/2 right | all right |
| `oscillators` | the frequency of a damped oscillation, sampled irregularly | 1/4 right | all right |
| `lorenz` | the parameter ρ of a chaotic system, from one noisy coordinate | MSE 100/3 | R² above 0.99 |
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .dataset import Dataset
from .download import DataError
from .splits import Split

_MOST_VALUES = 2**30


def adding(cases: int = 2000, length: int = 400, *, seed: int = 0) -> Dataset:
    """Make the adding problem (Hochreiter and Schmidhuber, 1997).

    The first channel is uniform in [0, 1], the second is 1 at one step of each half and 0 elsewhere. The target is the sum of the
    two marked numbers. Its variance is 2/12, the mean squared error of the best constant.

    ```python
    from lrcssm.data.synthetic import adding

    dataset = adding(cases=100, length=50, seed=1)
    values, marks = dataset.series[0].T
    print(abs(values @ marks - dataset.targets[0]) < 1e-6)  # True
    ```

    **Arguments:**

    - `cases`, `length`: number of series, and of steps of each.
    - `seed`: the same seed gives the same data.
    """
    rng = _checked("adding", cases, length, 2, 2, seed)
    series = np.zeros((cases, length, 2), np.float32)
    series[..., 0] = rng.random((cases, length), np.float32)
    half, rows = length // 2, np.arange(cases)
    first, second = rng.integers(half, size=cases), rng.integers(half, length, size=cases)
    series[rows, first, 1] = series[rows, second, 1] = 1
    targets = series[rows, first, 0].astype(np.float64) + series[rows, second, 0]
    return _dataset(
        "adding", 400, series, targets, channel_names=("value", "mark"),
        about="The adding problem (Hochreiter and Schmidhuber, 1997): the sum of the two marked numbers. The best mean "
        "squared error is 0; that of the best constant is 1/6 = 0.1667.",
    )  # fmt: skip


def copying(cases: int = 2000, length: int = 200, *, symbols: int = 8, marked: int = 4, seed: int = 0) -> Dataset:
    """Make selective copying as a classification (after Gu and Dao, 2023): find the symbol that was the j-th marked one.

    Each step but the last shows one of `symbols` symbols, one channel for each. At `marked` of these steps the next channel is
    1. At the last step channel j of the remaining ones is 1: only then is the requested symbol known, so all marked symbols
    have to be kept. Classes are equally frequent.

    **Arguments:**

    - `cases`, `length`, `seed`: as for `adding`.
    - `symbols`, `marked`: number of symbols, and of marked symbols.
    """
    if symbols < 2 or marked < 1:
        raise DataError(
            f"copying got {symbols} symbols, {marked} of them marked; give at least 2 symbols and 1 marked one."
        )
    rng = _checked("copying", cases, length, marked + 1, symbols + 1 + marked, seed)
    shown = rng.integers(symbols, size=(cases, length - 1))
    rows = np.arange(cases)
    # The smallest of random numbers stand at random places, each choice of places as likely as any other.
    places = np.sort(np.argpartition(rng.random((cases, length - 1)), marked - 1, axis=1)[:, :marked], axis=1)
    asked, targets = rng.integers(marked, size=cases), _balanced(rng, cases, symbols)
    shown[rows, places[rows, asked]] = targets
    series = np.zeros((cases, length, symbols + 1 + marked), np.float32)
    series[rows[:, None], np.arange(length - 1), shown] = 1
    series[rows[:, None], places, symbols] = 1
    series[rows, -1, symbols + 1 + asked] = 1
    names = (*(f"symbol {i}" for i in range(symbols)), "mark", *(f"ask {j + 1}" for j in range(marked)))
    return _dataset(
        "copying", 200, series, targets, classes=tuple(str(i) for i in range(symbols)), channel_names=names,
        about=f"Selective copying (after Gu and Dao, 2023): which of {symbols} symbols was the j-th of the {marked} marked "
        f"ones, where the last step gives j. The best accuracy is 100 %; chance is {100 / symbols:.4g} %.",
    )  # fmt: skip


def parity(cases: int = 2000, length: int = 40, *, seed: int = 0) -> Dataset:
    """Make the parity problem: the class is the parity of the number of ones.

    A part of the series carries no information about the class, and the state has to be kept exactly. Diagonal linear
    recurrences with positive eigenvalues cannot do that for all lengths (Sarrof, Veitsman and Hahn, 2024). Both classes are
    equally frequent.

    **Arguments:**

    - `cases`, `length`, `seed`: as for `adding`.
    """
    rng = _checked("parity", cases, length, 1, 1, seed)
    bits, targets = rng.integers(2, size=(cases, length)), _balanced(rng, cases, 2)
    bits[:, -1] ^= bits.sum(1) % 2 ^ targets
    return _dataset(
        "parity", 40, (2.0 * bits[..., None] - 1).astype(np.float32), targets, classes=("even", "odd"),
        channel_names=("bit",),
        about="Parity: is the number of ones (against minus ones) odd? The best accuracy is 100 %; chance is 50 %, also "
        "for a prediction that misses a single step.",
    )  # fmt: skip


def oscillators(cases: int = 2000, length: int = 200, *, noise: float = 0.3, seed: int = 0) -> Dataset:
    """Make damped oscillations that are sampled at random times; the class is the frequency.

    x(t) = A exp(−γt) cos(2πft + φ) + noise, at times drawn uniformly from [0, S]. The four classes are frequencies f within
    8 % of 0.5, 0.71, 1 and 1.41. S is between 0.05 and 0.2 for each step and differs from case to case, so that the times are
    needed. A is between 0.5 and 1.5, and the amplitude falls to between 1/e and 1/e³ of that at the end.

    A frequency can be estimated with a standard deviation of about √(6/N)·noise/(π A S) (the Cramér–Rao bound without
    damping; Rife and Boorstyn, 1974): 0.003 for the worst case of 200 steps. Bands are 0.11 apart, so the best accuracy
    is 100 %, to well below one case in a thousand.

    **Arguments:**

    - `cases`, `length`, `seed`: as for `adding`; at least 100 steps.
    - `noise`: its standard deviation.
    """
    rng = _checked("oscillators", cases, length, 100, 2, seed)
    targets = _balanced(rng, cases, 4)
    column = lambda low, high: rng.uniform(low, high, (cases, 1))
    span = length * 0.05 * 4 ** column(0, 1)
    times = np.sort(span * rng.random((cases, length)), axis=1)
    # Equal times would be one measurement; this moves only what is closer than rounding.
    times += span * 1e-9 * np.arange(length)
    frequency = 0.5 * 2 ** (targets[:, None] / 2) * column(0.92, 1.08)
    amplitude = column(0.5, 1.5) * np.exp(-column(1, 3) * times / span)
    wave = amplitude * np.cos(2 * np.pi * (frequency * times + column(0, 1)))
    series = (wave + noise * rng.normal(size=wave.shape))[..., None].astype(np.float32)
    return _dataset(
        "oscillators", 200, series, targets, classes=("0.50", "0.71", "1.00", "1.41"), times=tuple(times),
        channel_names=("displacement",),
        about="Damped oscillators at irregular times: which of four frequencies? Chance is 25 %; with the times, and noise of "
        f"up to 0.3 (here {noise:g}), the best accuracy is 100 %, to well below one case in a thousand.",
    )  # fmt: skip


def lorenz(cases: int = 1000, length: int = 500, *, noise: float = 0.3, seed: int = 0) -> Dataset:
    """Make Lorenz systems; the target is the parameter ρ, to be found from the first coordinate with noise.

    ẋ = 10 (y − x), ẏ = x (ρ − z) − y, ż = xy − 8z/3 (Lorenz, 1963), with ρ uniform in [30, 50], where the system is
    chaotic, started on its attractor and observed every 0.02. The best constant has a mean squared error of 20²/12 =
    33.3.

    Eliminating y and z leaves an equation in x alone that is linear in ρ, so ρ can be computed exactly without noise. Its
    average over a long time is (8/3)(ρ − 1)⟨x²⟩ = ⟨x⁴⟩ − (2 + (2 + 8/3)/10)⟨ẋ²⟩. With a window that is 0 at both ends it also
    holds for a short one; this alone, with the moments of the noise taken out, gives R² above 0.99.

    **Arguments:**

    - `cases`, `length`, `seed`: as for `adding`; at least 50 steps.
    - `noise`: its standard deviation; that of x is about 9.
    """
    rng = _checked("lorenz", cases, length, 50, 1, seed)
    rho = rng.uniform(30, 50, cases)
    state = rng.normal(size=(3, cases)) + np.array([[1.0], [1.0], [25.0]])
    step, warm = 0.01, 500
    observed = np.empty((length, cases))
    for i in range(warm + 2 * length):
        if i >= warm and i % 2 == 0:
            observed[(i - warm) // 2] = state[0]
        state = _runge_kutta(state, rho, step)
    series = observed.T + noise * rng.normal(size=(cases, length))
    return _dataset(
        "lorenz", 500, series[..., None].astype(np.float32), rho, channel_names=("x",),
        about="Chaotic Lorenz systems: the parameter rho, uniform in [30, 50], from x with noise of standard deviation "
        f"{noise:g}. The mean squared error of the best constant is 33.3; without noise the best is 0, and at noise 0.3 and "
        "500 steps R² above 0.99 is possible without training.",
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Kind:
    """A generator and its default sizes."""

    make: Callable[..., Dataset]
    cases: int
    length: int
    channels: int
    classes: int | None


KINDS = {
    "adding": Kind(adding, 2000, 400, 2, None),
    "copying": Kind(copying, 2000, 200, 13, 8),
    "parity": Kind(parity, 2000, 40, 1, 2),
    "oscillators": Kind(oscillators, 2000, 200, 1, 4),
    "lorenz": Kind(lorenz, 1000, 500, 1, None),
}
"""Generators by name."""


def _dataset(name: str, usual: int, series: np.ndarray, targets: np.ndarray, **more: Any) -> Dataset:
    """Add a split: cases are drawn independently, so the first 70 % are for training."""
    length = series.shape[1]
    return Dataset(
        name if length == usual else f"{name}:{length}",
        tuple(series),
        targets,
        split=Split.of(np.arange(len(series))) if len(series) >= 10 else None,
        **more,
    )


def _checked(name: str, cases: int, length: int, shortest: int, channels: int, seed: int) -> np.random.Generator:
    if cases < 1 or length < shortest:
        raise DataError(
            f"{name} got {cases} cases of {length} steps; give at least 1 case and {shortest} step"
            f"{'s' if shortest > 1 else ''}."
        )
    if cases * length * channels > _MOST_VALUES:
        raise DataError(
            f"{name} with {cases} cases of {length} steps would hold {cases * length * channels:.2g} numbers; give at "
            f"most {_MOST_VALUES:.2g}."
        )
    return np.random.default_rng([seed, *name.encode()])


def _balanced(rng: np.random.Generator, cases: int, classes: int) -> np.ndarray:
    """Draw each class equally often, in random order."""
    return rng.permutation(np.arange(cases) % classes)


def _runge_kutta(state: np.ndarray, rho: np.ndarray, step: float) -> np.ndarray:
    """Take one classical step of fourth order for all cases at once."""
    first = _slope(state, rho)
    second = _slope(state + step / 2 * first, rho)
    third = _slope(state + step / 2 * second, rho)
    fourth = _slope(state + step * third, rho)
    return state + step / 6 * (first + 2 * second + 2 * third + fourth)


def _slope(state: np.ndarray, rho: np.ndarray) -> np.ndarray:
    x, y, z = state
    return np.stack([10 * (y - x), x * (rho - z) - y, x * y - 8 / 3 * z])
