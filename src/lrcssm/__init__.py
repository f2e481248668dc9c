"""Non-linear recurrent models that train on very long sequences as fast as linear state-space models."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import cells as cells
from .engine import (
    DEER as DEER,
    ELK as ELK,
    Auto as Auto,
    Jacobi as Jacobi,
    Sequential as Sequential,
    Sharded as Sharded,
    Solution as Solution,
    SolveError as SolveError,
    Status as Status,
    linear_recurrence as linear_recurrence,
    solve as solve,
)
from .errors import FileError as FileError, LrcssmError as LrcssmError
from .lazy import lazily as _lazily

if _TYPE_CHECKING:
    from . import data as data, estimators as estimators, models as models, stability as stability, training as training
    from .checks import check_agreement as check_agreement, check_structure as check_structure
    from .compilation import remember_compilations as remember_compilations
    from .deploy import export as export
    from .estimators import (
        LrcFeatures as LrcFeatures,
        LrcRidgeClassifier as LrcRidgeClassifier,
        LrcRidgeForecaster as LrcRidgeForecaster,
        LrcRidgeRegressor as LrcRidgeRegressor,
        LrcSSMClassifier as LrcSSMClassifier,
        LrcSSMForecaster as LrcSSMForecaster,
        LrcSSMRegressor as LrcSSMRegressor,
    )
    from .memory import keep_memory as keep_memory
    from .models import ModelConfig as ModelConfig, SequenceModel as SequenceModel
    from .training.trained import load as load, save as save

__version__ = "0.2.0"

__all__ = [
    "DEER", "ELK", "Auto", "FileError", "Jacobi", "LrcFeatures", "LrcRidgeClassifier", "LrcRidgeForecaster",
    "LrcRidgeRegressor", "LrcSSMClassifier",
    "LrcSSMForecaster", "LrcSSMRegressor", "LrcssmError", "ModelConfig", "SequenceModel", "Sequential", "Sharded", "Solution",
    "SolveError", "Status", "cells", "check_agreement",
    "check_structure", "data", "estimators", "export", "keep_memory", "linear_recurrence", "load", "models",
    "remember_compilations", "save", "solve", "stability", "training",
]  # fmt: skip

# Whoever brings a cell of their own waits for the engine alone.
__getattr__, __dir__ = _lazily(
    __name__,
    {
        "data": None, "estimators": None, "models": None, "stability": None, "training": None, "export": "deploy",
        "check_agreement": "checks", "check_structure": "checks",
        "remember_compilations": "compilation",
        "LrcFeatures": "estimators", "LrcRidgeClassifier": "estimators", "LrcRidgeForecaster": "estimators", "LrcRidgeRegressor": "estimators",
        "LrcSSMClassifier": "estimators", "LrcSSMForecaster": "estimators", "LrcSSMRegressor": "estimators",
        "keep_memory": "memory",
        "ModelConfig": "models", "SequenceModel": "models",
        "load": "training.trained", "save": "training.trained",
    },
    __all__,
)  # fmt: skip
