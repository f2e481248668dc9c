"""Comparison of a run with aeon's MiniRocket."""

from typing import Any

import numpy as np

from ..data import Cases
from ..errors import MissingExtra
from ..training.metrics import scores

_SHORTEST = 9


def check_aeon() -> None:
    """Raise an error if aeon is not installed."""
    try:
        import aeon  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtra('--compare needs aeon for MiniRocket; install it with pip install "lrcssm[uea]".') from error


def minirocket(train: Cases, test: Cases, *, classify: bool, seed: int) -> dict[str, Any] | str:
    """Train MiniRocket (Dempster et al., 2021) and score it.

    **Arguments:**

    - `train`, `test`: cases with one target each.
    - `classify`: true for classes.
    - `seed`: of its random features.

    **Returns:**

    Its accuracy or regression scores; or a message if it does not accept the data.
    """
    lengths = {len(one) for cases in (train, test) for one in cases.series}
    if isinstance(train.targets, tuple) or train.valid is not None or test.valid is not None or len(lengths) > 1:
        return "MiniRocket is left out: it needs series of equal length without missing values, and one target each."
    if min(lengths) < _SHORTEST:
        return f"MiniRocket is left out: it needs at least {_SHORTEST} steps."
    if classify:
        from aeon.classification.convolution_based import MiniRocketClassifier as Model  # pyright: ignore[reportMissingImports]
    else:
        from aeon.regression.convolution_based import MiniRocketRegressor as Model  # pyright: ignore[reportMissingImports]
    shaped = lambda cases: np.stack(cases.series).swapaxes(1, 2).astype(np.float32)  # (cases, channels, time)
    wanted = np.asarray(test.targets)
    given = np.asarray(train.targets)
    if not classify and given.ndim > 1 and given.shape[1] > 1:
        return "MiniRocket is left out: it predicts one number."
    rival: Any = Model(random_state=seed)
    predicted = np.asarray(rival.fit(shaped(train), given.ravel()).predict(shaped(test)))
    if classify:
        return {"accuracy": float(np.mean(predicted == wanted))}
    return scores(predicted.reshape(-1, 1), wanted, classify=False)
