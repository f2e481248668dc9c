"""Training: defaults that follow from the data, the loop, and the trained model."""

from .checkpoint import CheckpointError as CheckpointError
from .config import TrainingConfig as TrainingConfig
from .devices import make_mesh as make_mesh
from .evaluation import Evaluation as Evaluation
from .loop import Fitted as Fitted, first_model as first_model, fit as fit
from .metrics import evaluate as evaluate, predict as predict
from .recipe import Facts as Facts, recipe as recipe
from .trained import Trained as Trained
