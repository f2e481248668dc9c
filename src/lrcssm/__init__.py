"""Non-linear recurrent models that train on very long sequences as fast as linear state-space models."""

from typing import TYPE_CHECKING

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
from .lazy import lazily

if TYPE_CHECKING:
    from . import data as data, features as features, models as models, stability as stability
    from .checks import check_agreement as check_agreement, check_structure as check_structure
    from .compilation import remember_compilations as remember_compilations
    from .estimators import (
        LrcFeatures as LrcFeatures,
        LrcRidgeClassifier as LrcRidgeClassifier,
        LrcRidgeRegressor as LrcRidgeRegressor,
        LrcSSMClassifier as LrcSSMClassifier,
        LrcSSMForecaster as LrcSSMForecaster,
        LrcSSMRegressor as LrcSSMRegressor,
    )
    from .files import FileError as FileError, load as load, save as save
    from .memory import keep_memory as keep_memory
    from .models import ModelConfig as ModelConfig, SequenceModel as SequenceModel

__version__ = "0.1.0"

__all__ = [
    "DEER", "ELK", "Auto", "FileError", "Jacobi", "LrcFeatures", "LrcRidgeClassifier", "LrcRidgeRegressor", "LrcSSMClassifier", "LrcSSMForecaster", "LrcSSMRegressor", "ModelConfig",
    "SequenceModel", "Sequential", "Sharded", "Solution", "SolveError", "Status", "cells", "check_agreement",
    "check_structure", "data", "features", "keep_memory", "linear_recurrence", "load", "models", "remember_compilations", "save", "solve",
    "stability",
]  # fmt: skip

# Whoever brings a cell of their own waits for the engine alone.
__getattr__, __dir__ = lazily(
    __name__,
    {
        "data": None, "features": None, "models": None, "stability": None,
        "check_agreement": "checks", "check_structure": "checks",
        "remember_compilations": "compilation",
        "LrcFeatures": "estimators", "LrcRidgeClassifier": "estimators", "LrcRidgeRegressor": "estimators",
        "LrcSSMClassifier": "estimators", "LrcSSMForecaster": "estimators", "LrcSSMRegressor": "estimators",
        "FileError": "files", "load": "files", "save": "files",
        "keep_memory": "memory",
        "ModelConfig": "models", "SequenceModel": "models",
    },
)  # fmt: skip
