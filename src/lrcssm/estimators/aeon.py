"""Classifiers and regressors with aeon's base classes, as required by its benchmarking and ensembles.

Needs aeon: `pip install "lrcssm[uea]"`. aeon's readers and transformers also work with the plain estimators of `lrcssm`.
"""

import dataclasses
import typing
from typing import Any, Literal

from ..errors import MissingExtra

try:
    from aeon.classification import BaseClassifier  # pyright: ignore[reportMissingImports]
    from aeon.regression import BaseRegressor  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise MissingExtra('lrcssm.estimators.aeon needs aeon; install it with pip install "lrcssm[uea]".') from error

from .classifier import LrcSSMClassifier
from .parameters import ClassifierParameters, SeriesParameters
from .regressor import LrcSSMRegressor
from .ridge import LrcRidgeClassifier, LrcRidgeRegressor
from .transformer import FeatureParameters

_TAGS = {
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:missing_values": True,
    "X_inner_type": ["np-list", "numpy3D"],
}
_GRADIENT, _RIDGE = _TAGS | {"algorithm_type": "deeplearning"}, _TAGS | {"algorithm_type": "convolution"}
_QUICK = {"hidden_dim": 8, "state_dim": 8, "num_blocks": 1, "steps": 4, "batch": 4, "bidirectional": False}


@typing.no_type_check
class _Adapter:
    """Common base: `_wrapped` is the wrapped estimator, and `_base` aeon's class."""

    _tags = _GRADIENT
    _quick = _QUICK
    _wrapped: Any
    _base: Any
    get_params: Any

    def __post_init__(self):
        # What aeon's class sets, without its reaching our parameters, whose `__init__` is the next in line.
        chosen = dict(vars(self))
        self._base.__init__(self)
        vars(self).update(chosen)

    def _fit(self, X, y) -> Any:
        self.estimator_ = self._wrapped(**self.get_params(deep=False)).fit(X, y)
        return self

    def _predict(self, X):
        return self.estimator_.predict(X)

    def _predict_proba(self, X):
        return self.estimator_.predict_proba(X)  # of classifiers

    @classmethod
    def _get_test_params(cls, parameter_set="default"):
        return cls._quick


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class AeonLrcSSMClassifier(_Adapter, BaseClassifier, ClassifierParameters):
    """`LrcSSMClassifier` as an aeon classifier; missing values are filled in by default.

    **Arguments:**

    As for `lrcssm.LrcSSMClassifier`, which is its `estimator_` after `fit`.
    """

    _wrapped, _base = LrcSSMClassifier, BaseClassifier
    missing: Literal["error", "mask", "fill"] = "fill"


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class AeonLrcSSMRegressor(_Adapter, BaseRegressor, SeriesParameters):
    """`LrcSSMRegressor` as an aeon regressor; missing values are filled in by default.

    **Arguments:**

    As for `lrcssm.LrcSSMRegressor`, which is its `estimator_` after `fit`.
    """

    _wrapped, _base = LrcSSMRegressor, BaseRegressor
    missing: Literal["error", "mask", "fill"] = "fill"


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class AeonLrcRidgeClassifier(_Adapter, BaseClassifier, FeatureParameters):
    """`LrcRidgeClassifier` as an aeon classifier; missing values are filled in by default.

    **Arguments:**

    As for `lrcssm.LrcFeatures`. The `lrcssm.LrcRidgeClassifier` is its `estimator_` after `fit`.
    """

    _wrapped, _base, _tags, _quick = LrcRidgeClassifier, BaseClassifier, _RIDGE, {"n_features": 280}
    missing: Literal["error", "mask", "fill"] = "fill"


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class AeonLrcRidgeRegressor(_Adapter, BaseRegressor, FeatureParameters):
    """`LrcRidgeRegressor` as an aeon regressor; missing values are filled in by default.

    **Arguments:**

    As for `lrcssm.LrcFeatures`. The `lrcssm.LrcRidgeRegressor` is its `estimator_` after `fit`.
    """

    _wrapped, _base, _tags, _quick = LrcRidgeRegressor, BaseRegressor, _RIDGE, {"n_features": 280}
    missing: Literal["error", "mask", "fill"] = "fill"
