"""Models: blocks around a recurrence, between an encoder and a head."""

from typing import Any

from .config import ModelConfig as ModelConfig, released as released
from .sequence import (
    ModelState as ModelState,
    SequenceModel as SequenceModel,
    parameter_count as parameter_count,
    trainable as trainable,
)
from .time import LAYERS as LAYERS

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "lrcssm": {"cell": "LRC"},
    "stcssm": {"cell": "STC"},
    "ltcssm": {"cell": "LTC"},
    "grussm": {"cell": "GRU"},
    "mgussm": {"cell": "MGU"},
    "lstmssm": {"cell": "LSTM"},
    "lrc-dense": {"cell": "DenseLRC"},
    "stc-dense": {"cell": "DenseSTC"},
    "ltc-dense": {"cell": "DenseLTC"},
}
"""Every architecture by its name: the fields of `ModelConfig` that make it."""
