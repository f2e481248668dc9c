"""Series for the forecasting benchmark: four real ones that come with aeon, and four synthetic ones."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Series(NamedTuple):
    """A series to forecast.

    **Attributes:**

    - `make`: gives `(time, channels)`, and past covariates `(time, covariates)` or `None`.
    - `season`, `horizon`: in steps.
    - `about`: one phrase.
    - `package`: that it needs, or empty.
    """

    make: Callable[[], tuple[np.ndarray, np.ndarray | None]]
    season: int
    horizon: int
    about: str
    package: str = ""


def _real(name: str) -> Callable[[], tuple[np.ndarray, np.ndarray | None]]:
    def load() -> tuple[np.ndarray, np.ndarray | None]:
        import aeon.datasets  # pyright: ignore[reportMissingImports]

        loader: Any = getattr(aeon.datasets, f"load_{name}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # aeon 1.6 says that some of them will go
            return np.asarray(loader(), np.float64).reshape(-1, 1), None

    return load


def chaotic(length: int = 2000, seed: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
    """The equation of Mackey and Glass (1977) with delay 17, and noise of scale 0.02."""
    rng, delay, parts = np.random.default_rng(seed), 17, 10
    x = np.full((length + 300) * parts, 1.2)
    for i in range(delay * parts, len(x) - 1):
        late = x[i - delay * parts]
        x[i + 1] = x[i] + (0.2 * late / (1 + late**10) - 0.1 * x[i]) / parts
    return x[300 * parts :: parts][:length, None] + 0.02 * rng.normal(size=(length, 1)), None


def seasonal(length: int = 600, seed: int = 1) -> tuple[np.ndarray, np.ndarray | None]:
    """A straight line, two harmonics of a season of 24, and autoregressive noise."""
    rng, t = np.random.default_rng(seed), np.arange(length)
    noise = _autoregressive(rng.normal(size=length), (0.7,))
    cycle = 6 * np.sin(2 * np.pi * t / 24) + 3 * np.sin(4 * np.pi * t / 24 + 1)
    return (50 + 0.08 * t + cycle + noise)[:, None], None


def autoregressive(length: int = 1000, seed: int = 2) -> tuple[np.ndarray, np.ndarray | None]:
    """A linear autoregressive series of order 3: ridge on lags is the right model."""
    noise = np.random.default_rng(seed).normal(size=length + 100)
    return _autoregressive(noise, (1.1, -0.5, 0.2))[100:, None], None


def driven(length: int = 1500, seed: int = 3) -> tuple[np.ndarray, np.ndarray | None]:
    """Two channels, driven by a covariate in a non-linear way."""
    rng = np.random.default_rng(seed)
    drive = _autoregressive(0.45 * rng.normal(size=length), (0.9,))
    y = np.zeros((length, 2))
    for i in range(1, length):
        noise = 0.1 * rng.normal(size=2)
        y[i, 0] = 0.8 * y[i - 1, 0] + 0.6 * np.tanh(2 * drive[i - 1]) + noise[0]
        y[i, 1] = 0.7 * y[i - 1, 1] + 0.5 * y[i - 1, 0] * drive[i - 1] + noise[1]
    return y, drive[:, None]


def _autoregressive(noise: np.ndarray, weights: tuple[float, ...]) -> np.ndarray:
    y = np.zeros(len(noise))
    for i in range(len(weights), len(noise)):
        y[i] = sum(weight * y[i - 1 - k] for k, weight in enumerate(weights)) + noise[i]
    return y


SERIES = {
    "airline": Series(_real("airline"), 12, 12, "passengers a month, 144 steps", "aeon"),
    "lynx": Series(_real("lynx"), 10, 8, "lynx trapped a year, 114 steps", "aeon"),
    "solar": Series(_real("solar"), 48, 24, "solar power each half-hour, 289 steps", "aeon"),
    "pbs": Series(_real("PBS_dataset"), 12, 12, "prescriptions a month, mostly 0 to 10, 204 steps", "aeon"),
    "chaotic": Series(chaotic, 1, 20, "Mackey–Glass with noise, 2,000 steps"),
    "seasonal": Series(seasonal, 24, 24, "trend, season and autoregressive noise, 600 steps"),
    "autoregressive": Series(autoregressive, 1, 8, "linear, order 3, 1,000 steps"),
    "driven": Series(driven, 1, 6, "2 channels and a covariate, 1,500 steps"),
}
"""Series by name."""
