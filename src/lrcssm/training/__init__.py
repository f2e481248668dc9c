"""Training: what to minimise, the loop, and what comes out of it."""

from .checkpoint import CheckpointError as CheckpointError
from .config import TrainingConfig as TrainingConfig
from .devices import make_mesh as make_mesh
from .loop import Epoch as Epoch, Fitted as Fitted, fit as fit
from .metrics import evaluate as evaluate, predict as predict
