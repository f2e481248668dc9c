"""The season of a series: the lag at which it resembles itself most."""

from collections.abc import Sequence

import numpy as np

_LEAST = 0.3  # autocorrelation of a season, at least
_NEAR = 0.9  # a shorter lag is preferred if its autocorrelation is this share of the largest
_LONGEST = 2000


def guess_season(series: Sequence[np.ndarray]) -> int:
    """Guess the season from the autocorrelation.

    ```python
    import numpy as np
    from lrcssm.features.season import guess_season

    t = np.arange(200)
    print(guess_season([np.sin(2 * np.pi * t / 12)[:, None] + 0.1 * t[:, None]]))  # 12
    ```

    **Arguments:**

    - `series`: arrays `(time, channels)`, NaN where values are missing.

    **Returns:**

    A lag whose autocorrelation, after the straight line through each channel is subtracted, is a local maximum of at least 0.3
    beyond the first lag with a negative one; 1 if there is none. At least three seasons must be in the longest series.
    """
    curves, longest = [], min(max(len(one) for one in series) // 3, _LONGEST)
    for one in series:
        for channel in one.T:
            if (curve := _autocorrelation(channel, longest)) is not None:
                curves.append(curve)
    if not curves or longest < 2:
        return 1
    known = np.isfinite(curves)
    mean = np.where(known, curves, 0.0).sum(0) / np.maximum(known.sum(0), 1)
    negative = np.flatnonzero(mean < 0)
    if not len(negative):
        return 1
    inner = np.arange(max(int(negative[0]), 2), longest)
    peaks = [k for k in inner if mean[k] >= _LEAST and mean[k] >= mean[k - 1] and mean[k] >= mean[k + 1]]
    if not peaks:
        return 1
    best = max(mean[k] for k in peaks)
    return int(next(k for k in peaks if mean[k] >= _NEAR * best))


def _autocorrelation(values: np.ndarray, longest: int) -> np.ndarray | None:
    """Autocorrelation at lags from 0 to `longest`, of values without their straight line; `None` for a constant channel, NaN
    beyond a third of the length."""
    known = np.isfinite(values)
    time = np.arange(len(values))
    if known.sum() < 8:
        return None
    rest = values - np.polyval(np.polyfit(time[known], values[known], 1), time)
    scale = np.mean(rest[known] ** 2)
    if not scale > 1e-12 * (1 + np.mean(values[known] ** 2)):
        return None
    rest, known = np.where(known, rest, 0.0), known.astype(float)
    size = 2 ** int(np.ceil(np.log2(2 * len(values))))
    correlate = lambda x: np.fft.irfft(np.abs(np.fft.rfft(x, size)) ** 2, size)[: longest + 1]
    sums, counts = correlate(rest), correlate(known)
    found = np.full(longest + 1, np.nan)
    enough = counts[: len(found)] > 0.5
    found[: len(sums)][enough] = sums[enough] / counts[enough] / scale
    found[len(values) // 3 + 1 :] = np.nan
    return found
