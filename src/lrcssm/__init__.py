"""Non-linear recurrent models that train on very long sequences as fast as linear state-space models."""

from typing import TYPE_CHECKING, Any

from . import cells as cells, data as data, models as models, stability as stability
from .checks import check_agreement as check_agreement, check_structure as check_structure
from .compilation import remember_compilations as remember_compilations
from .engine import (
    DEER as DEER,
    ELK as ELK,
    Auto as Auto,
    Jacobi as Jacobi,
    Sequential as Sequential,
    Solution as Solution,
    SolveError as SolveError,
    Status as Status,
    linear_recurrence as linear_recurrence,
    solve as solve,
)
from .files import FileError as FileError, load as load, save as save
from .memory import keep_memory as keep_memory
from .models import ModelConfig as ModelConfig, SequenceModel as SequenceModel

if TYPE_CHECKING:
    from .estimators import (
        LrcSSMClassifier as LrcSSMClassifier,
        LrcSSMForecaster as LrcSSMForecaster,
        LrcSSMRegressor as LrcSSMRegressor,
    )

__version__ = "0.1.0"

_ESTIMATORS = ("LrcSSMClassifier", "LrcSSMForecaster", "LrcSSMRegressor")


def __getattr__(name: str) -> Any:
    # They stand on scikit-learn, which takes as long to import as everything else.
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import estimators

    return getattr(estimators, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_ESTIMATORS})
