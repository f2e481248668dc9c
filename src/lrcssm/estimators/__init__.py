"""Estimators to scikit-learn's contract; importing this package alone does not import scikit-learn."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .classifier import LrcSSMClassifier as LrcSSMClassifier
    from .forecaster import LrcSSMForecaster as LrcSSMForecaster
    from .regressor import LrcSSMRegressor as LrcSSMRegressor

PUBLIC = {"LrcSSMClassifier": "classifier", "LrcSSMForecaster": "forecaster", "LrcSSMRegressor": "regressor"}


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{PUBLIC[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC})
