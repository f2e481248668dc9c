"""Estimators to scikit-learn's contract; importing this package alone does not import scikit-learn."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .classifier import LrcSSMClassifier as LrcSSMClassifier
    from .forecaster import LrcSSMForecaster as LrcSSMForecaster
    from .regressor import LrcSSMRegressor as LrcSSMRegressor

PUBLIC = {"LrcSSMClassifier": "classifier", "LrcSSMForecaster": "forecaster", "LrcSSMRegressor": "regressor"}
__getattr__, __dir__ = lazily(__name__, PUBLIC)
