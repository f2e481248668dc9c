"""Estimators that follow scikit-learn's contract. Importing this package alone does not import scikit-learn."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .classifier import LrcSSMClassifier as LrcSSMClassifier
    from .forecaster import LrcSSMForecaster as LrcSSMForecaster
    from .regressor import LrcSSMRegressor as LrcSSMRegressor
    from .ridge import LrcRidgeClassifier as LrcRidgeClassifier, LrcRidgeRegressor as LrcRidgeRegressor
    from .ridge_forecaster import LrcRidgeForecaster as LrcRidgeForecaster
    from .transformer import LrcFeatures as LrcFeatures

PUBLIC = {
    "LrcFeatures": "transformer", "LrcRidgeClassifier": "ridge", "LrcRidgeForecaster": "ridge_forecaster",
    "LrcRidgeRegressor": "ridge",
    "LrcSSMClassifier": "classifier", "LrcSSMForecaster": "forecaster", "LrcSSMRegressor": "regressor",
}  # fmt: skip
__getattr__, __dir__ = lazily(__name__, PUBLIC)
