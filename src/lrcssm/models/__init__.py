"""Models: blocks around a recurrence, between an encoder and a head."""

from typing import Any

from .config import RELEASED as RELEASED, ModelConfig as ModelConfig
from .context import Context as Context
from .flops import Flops as Flops, flops_per_step as flops_per_step
from .plan import Plan as Plan, make_plan as make_plan
from .sequence import (
    ModelState as ModelState,
    SequenceModel as SequenceModel,
    parameter_count as parameter_count,
    trainable as trainable,
)
from .sizes import check_size as check_size
from .step import StepState as StepState
from .stream import Stream as Stream
from .time import LAYERS as LAYERS

# In most tasks the whole series is available, so a block can read it in both directions.
_OURS = {"bidirectional": True}
# The block with which LRU, S5 and LinOSS were published; that of S6 and Mamba has a layer norm.
_LINEAR = {
    "encoder": "linear",
    "layout": "pre-norm",
    "norm": "batch",
    "mixer": "glu",
    "bidirectional": False,
    "pool": "mean",
}
_SELECTIVE = _LINEAR | {"norm": "layer"}
# One equation from the first to the last step, whose state at the end is read.
_CONTROLLED = {
    "encoder": "none", "layout": "bare", "num_blocks": 1, "patch": 1, "dropout": 0.0, "bidirectional": False, "pool": "last",
}  # fmt: skip
_TOKENS = {"encoder": "none", "layout": "bare", "num_blocks": 1, "dropout": 0.0, "bidirectional": False, "pool": "mean"}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "lrcssm": {"cell": "LRC"} | _OURS,
    "stcssm": {"cell": "STC"} | _OURS,
    "ltcssm": {"cell": "LTC"} | _OURS,
    "grussm": {"cell": "GRU"} | _OURS,
    "mgussm": {"cell": "MGU"} | _OURS,
    "lstmssm": {"cell": "LSTM"} | _OURS,
    "lrc-dense": {"cell": "DenseLRC"} | _OURS,
    "stc-dense": {"cell": "DenseSTC"} | _OURS,
    "ltc-dense": {"cell": "DenseLTC"} | _OURS,
    "lru": {"cell": "LRU"} | _LINEAR,
    "s5": {"cell": "S5"} | _LINEAR,
    "linoss-im": {"cell": "LinOSS", "cell_options": {"discretisation": "im"}} | _LINEAR,
    "linoss-imex": {"cell": "LinOSS", "cell_options": {"discretisation": "imex"}} | _LINEAR,
    "linoss-damped": {"cell": "LinOSS", "cell_options": {"discretisation": "damped"}} | _LINEAR,
    "s6": {"cell": "S6"} | _SELECTIVE,
    "mamba": {"cell": "Mamba"} | _SELECTIVE,
    "s4d": {"cell": "S4D"} | _LINEAR,
    "liquid-s4": {"cell": "LiquidS4"} | _LINEAR,
    "hyena": {"cell": "Hyena"} | _SELECTIVE,
    "ncde": {"cell": "NCDE"} | _CONTROLLED,
    "nrde": {"cell": "NRDE"} | _CONTROLLED,
    "log-ncde": {"cell": "LogNCDE"} | _CONTROLLED,
    "transformer": {"cell": "Transformer"} | _TOKENS,
    "rformer": {"cell": "Transformer", "patch": 1, "signature": {"windows": 50, "level": 2, "view": "global"}}
    | _TOKENS,
}
"""Fields of `ModelConfig` for each architecture, by name."""
