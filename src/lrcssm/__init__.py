"""Non-linear recurrent models that train on very long sequences as fast as linear state-space models."""

from . import cells as cells, models as models, stability as stability
from .checks import check_agreement as check_agreement, check_structure as check_structure
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
from .models import ModelConfig as ModelConfig, SequenceModel as SequenceModel

__version__ = "0.1.0"
