"""Views of a series, the signals from which the units get their inputs.

    levels              each channel, centred and scaled by its mean and scale over the training cases
    differences         from step to step, scaled by their scale over the training cases
    case-levels         each channel, centred and scaled by its mean and scale over the case itself
    case-differences    from step to step of the case levels, scaled by their scale over the training cases

The views by case need the whole series; a model without them can take one sample at a time.
If the series are already standardised case by case, these views are redundant and are left out.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ..data import Cases
from ..errors import InvalidValue

VIEWS = ("levels", "differences", "case-levels", "case-differences")
STREAMED = VIEWS[:2]
"""Views that need no later step of a series."""
ARRAYS = ("mean", "scale", "difference_scale", "case_difference_scale")
"""Fields of `Views` that are arrays, one number for each channel."""
_TINY = 1e-9


@dataclasses.dataclass(frozen=True)
class Views:
    """Views with the scales of the training cases.

    **Attributes:**

    - `names`: some of `VIEWS`.
    - `mean`, `scale`: of each channel over the training cases.
    - `difference_scale`, `case_difference_scale`: of the differences of the levels and of the case levels.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    scale: np.ndarray
    difference_scale: np.ndarray
    case_difference_scale: np.ndarray

    @classmethod
    def of(cls, cases: Cases, names: Sequence[str] | None = None) -> "Views":
        """Views with the scales of these cases.

        **Arguments:**

        - `cases`: the training cases.
        - `names`: some of `VIEWS`; by default all that are not redundant.
        """
        if names is not None and (not len(names) or any(name not in VIEWS for name in names)):
            raise InvalidValue(f"views is {names!r}; give one or more of {', '.join(VIEWS)}.")
        everyone = range(len(cases))
        mean, scale = _moments(lambda: (_observed(cases, i) for i in everyone))
        levels = lambda: ((_observed(cases, i) - mean) / scale for i in everyone)
        difference_scale = _moments(lambda: map(_differences, levels()))[1]
        case_difference_scale = _moments(lambda: (_differences(_by_case(one, one)) for one in levels()))[1]
        if names is None:
            centres, scales = (
                np.array(part) for part in zip(*((one.mean(0), one.std(0)) for one in levels()), strict=True)
            )
            varied = scales > _TINY
            repeats = np.abs(centres).max() < 0.05 and np.abs(scales[varied] - 1).max(initial=0) < 0.1
            names = VIEWS[:2] if repeats else VIEWS
        return cls(tuple(names), mean, scale, difference_scale, case_difference_scale)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return {f"views.{name}": getattr(self, name) for name in ARRAYS}

    @classmethod
    def from_arrays(cls, names: Sequence[str], arrays: dict[str, np.ndarray]) -> "Views":
        """The inverse of `to_arrays`, among further arrays."""
        return cls(tuple(names), *(arrays[f"views.{name}"] for name in ARRAYS))

    def __call__(self, cases: Cases, i: int) -> np.ndarray:
        """All views of case `i`, `(time, views, channels)`. A skipped step repeats the last observed one."""
        levels = (cases.series[i].astype(np.float64) - self.mean) / self.scale
        observed = levels
        if cases.valid is not None:
            observed, levels = levels[cases.valid[i]], levels[_last_observed(cases.valid[i])]
        parts = []
        for name in self.names:
            part = _by_case(levels, observed) if name.startswith("case") else levels
            if name == "differences":
                part = _differences(part) / self.difference_scale
            elif name == "case-differences":
                part = _differences(part) / self.case_difference_scale
            parts.append(part)
        return np.stack(parts, 1).astype(np.float32)


def _observed(cases: Cases, i: int) -> np.ndarray:
    one = cases.series[i].astype(np.float64)
    return one if cases.valid is None else one[cases.valid[i]]


def _last_observed(valid: np.ndarray) -> np.ndarray:
    """The position of the last observed step up to each step, or of the first one where there is none yet."""
    last = np.maximum.accumulate(np.where(valid, np.arange(len(valid)), -1))
    return np.where(last < 0, valid.argmax(), last)


def _by_case(levels: np.ndarray, observed: np.ndarray) -> np.ndarray:
    scale = observed.std(0)
    return (levels - observed.mean(0)) / np.where(scale > _TINY, scale, 1.0)


def _differences(one: np.ndarray) -> np.ndarray:
    return np.diff(one, axis=0, prepend=one[:1])


def _moments(arrays: Callable[[], Iterable[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale of each column over the rows of all arrays, which are made twice and never kept."""
    count, total = 0, 0.0
    for one in arrays():
        count, total = count + len(one), total + one.sum(0)
    mean = np.asarray(total) / count
    scale = np.sqrt(sum(((one - mean) ** 2).sum(0) for one in arrays()) / count)
    return mean, np.where(scale > _TINY * (1 + np.abs(mean)), scale, 1.0)
