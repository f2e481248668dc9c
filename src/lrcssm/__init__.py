"""Non-linear recurrent models that train on very long sequences as fast as linear state-space models."""

import importlib
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from . import data as data, models as models, stability as stability
    from .checks import check_agreement as check_agreement, check_structure as check_structure
    from .compilation import remember_compilations as remember_compilations
    from .estimators import (
        LrcSSMClassifier as LrcSSMClassifier,
        LrcSSMForecaster as LrcSSMForecaster,
        LrcSSMRegressor as LrcSSMRegressor,
    )
    from .files import FileError as FileError, load as load, save as save
    from .memory import keep_memory as keep_memory
    from .models import ModelConfig as ModelConfig, SequenceModel as SequenceModel

__version__ = "0.1.0"

# Imported when they are first asked for: whoever brings a cell of their own waits for the engine alone.
_MODULES = ("data", "models", "stability")
_NAMES = {
    "checks": ("check_agreement", "check_structure"),
    "compilation": ("remember_compilations",),
    "estimators": ("LrcSSMClassifier", "LrcSSMForecaster", "LrcSSMRegressor"),
    "files": ("FileError", "load", "save"),
    "memory": ("keep_memory",),
    "models": ("ModelConfig", "SequenceModel"),
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _WHERE:
        return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_WHERE})
