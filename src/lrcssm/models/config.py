"""The configuration of a model: a frozen dataclass that round-trips through JSON."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal, get_args

from ..cells import ALL, Cell
from ..errors import InvalidValue
from .signature import VIEWS
from .time import names, options_of, takes_any_option

Task = Literal["classify", "regress", "per-step", "forecast"]
Encoder = Literal["mlp", "linear", "none"]
Standardise = Literal["none", "channel", "case"]
Layout = Literal["plain", "pre-norm", "post-norm", "released", "bare"]
Norm = Literal["layer", "batch"]
Mixer = Literal["mlp", "glu", "none"]
Activation = Literal["relu", "gelu", "silu", "tanh", "sigmoid", "identity"]
Pool = Literal["mean", "last", "mean-max-std", "attention", "logits"]
Matmul = Literal["float32", "bfloat16"]
_CHOICES: dict[str, Any] = {
    "task": Task, "encoder": Encoder, "standardise": Standardise, "layout": Layout, "norm": Norm, "mixer": Mixer,
    "activation": Activation, "pool": Pool, "matmul": Matmul,
}  # fmt: skip
_MAPPINGS = ("cell_options", "signature")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The configuration of a `SequenceModel`.

    ```python
    import lrcssm

    config = lrcssm.ModelConfig(input_dim=6, output_dim=2, patch=8)
    assert lrcssm.ModelConfig.from_json(config.to_json()) == config
    ```
    """

    input_dim: int
    """Channels of the data."""
    output_dim: int
    """Classes, targets, outputs of each step, or (forecast) horizon × channels."""
    task: Task = "classify"
    """`"classify"` and `"regress"` give one output for a sequence, `"per-step"` one for each step, `"forecast"` the next
    `output_dim` values after the last step."""
    cell: str = "LRC"
    """The layer along time: a name of `lrcssm.cells.ALL`, of `lrcssm.models.LAYERS`, or of a cell given to
    `lrcssm.cells.register`."""
    cell_options: Any = ()
    """Further arguments of the cell, as a mapping."""
    hidden_dim: int = 64
    """Features between the blocks."""
    state_dim: int = 64
    """Units of each cell."""
    num_blocks: int = 2
    """Number of blocks."""
    encoder: Encoder = "mlp"
    """Map of each step before the first block: `"mlp"` (linear, ReLU, linear), `"linear"` or `"none"`, which goes with
    `layout="bare"`."""
    patch: int = 1
    """Steps that are joined into one before the encoder."""
    signature: Any = ()
    """Replace steps by signatures of windows: a mapping with `windows`, their number; `level`, of the signatures (2 if not
    given); `view`, `"local"` (of each window), `"global"` (from the start to its end) or `"both"`; and `univariate`, to take
    each channel together with time instead of all channels together."""
    differences: bool = False
    """Add the first differences of all channels as channels."""
    include_time: bool = False
    """Add the elapsed share of the sequence's time, from 0 to below 1, as a channel."""
    standardise: Standardise = "channel"
    """Scale inputs by the mean and scale of each `"channel"` of the training data (`SequenceModel.with_statistics`), by those
    of each `"case"`, or `"none"`."""
    layout: Layout = "plain"
    """Order of a block: `"plain"`, h + mixer(cell(h)), for a few blocks where the size of the signal matters; `"pre-norm"`,
    h + mixer(cell(norm(h))); `"post-norm"`, norm(h + mixer(cell(h))); `"released"`, that of the code released with the paper;
    or `"bare"`, cell(h) alone."""
    norm: Norm = "layer"
    """Norm of `layout="pre-norm"`: `"layer"`, over the features of each step, or `"batch"`, over all steps of a batch for each
    feature, which keeps the size of each signal."""
    final_norm: bool = False
    """Normalise the features of each step once more before the pool or head, for `layout="pre-norm"`. Without it the head also
    receives the size of a signal, which often distinguishes classes."""
    mixer: Mixer = "glu"
    """Map after the cell: `"mlp"`, `"glu"` or `"none"` (then a linear map to `hidden_dim`)."""
    activation: Activation = "gelu"
    """Activation of the mixer."""
    dropout: float = 0.1
    """Share of the features that a block drops while training."""
    bidirectional: bool = False
    """Add a second cell to each block that runs from the last step to the first."""
    pool: Pool | None = None
    """Reduction of a sequence to one vector, over observed steps: `"mean"`, `"last"`, `"mean-max-std"`, a learned
    `"attention"`, or `"logits"`, which applies the head to each step and averages its outputs. `None` is `"mean-max-std"`, and
    `"last"` for a forecast."""
    matmul: Matmul = "float32"
    """Precision of the factors of matrix products. `"bfloat16"` rounds them to 8 bits and sums in float32; parameters, states and
    everything else stay in float32. For devices that multiply such numbers faster."""

    def __post_init__(self):
        for name in _MAPPINGS:
            pairs = getattr(self, name)
            pairs = pairs.items() if isinstance(pairs, Mapping) else pairs
            object.__setattr__(self, name, tuple(sorted((str(k), v) for k, v in pairs)))
        if self.pool is None:
            pools: dict[str, Pool] = {"forecast": "last", "per-step": "mean"}
            object.__setattr__(self, "pool", pools.get(self.task, "mean-max-std"))
        for name, kind in _CHOICES.items():
            if getattr(self, name) not in get_args(kind):
                given = getattr(self, name)
                raise InvalidValue(f"ModelConfig got {name}={given!r}; give one of {', '.join(get_args(kind))}.")
        for name in ("input_dim", "output_dim", "hidden_dim", "state_dim", "num_blocks", "patch"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InvalidValue(f"ModelConfig got {name}={value!r}; give a whole number of at least 1.")
        per_step, layout = self.task == "per-step", f"layout={self.layout!r}; give layout"
        _refuse(
            {
                f"dropout={self.dropout!r}; give a number from 0 to below 1": not 0 <= self.dropout < 1,
                f'task="per-step" with pool={self.pool!r}; each step has its own output, so give pool=None': (
                    per_step and self.pool != "mean"
                ),
                f'task="per-step" with patch={self.patch}; give patch=1': per_step and self.patch > 1,
                f'norm="batch" with {layout}="pre-norm"': self.norm == "batch" and self.layout != "pre-norm",
                f'encoder="none" with {layout}="bare"': self.encoder == "none" and self.layout != "bare",
            }
        )
        if self.signature:
            self._check_signature()
        self._check_cell()

    def _check_cell(self):
        given: Any = self.cell
        kind = given if isinstance(given, type) else type(given)
        if issubclass(kind, Cell):
            own = "" if kind in ALL.values() else f"register it, lrcssm.cells.register({kind.__name__}), and "
            what = "class" if kind is given else "cell"
            raise InvalidValue(
                f'ModelConfig got cell=the {what} {kind.__name__}; {own}give its name, cell="{kind.__name__}".'
            )
        if given not in names():
            raise InvalidValue(
                f"ModelConfig got cell={given!r}; give one of {', '.join(names())}, or register your own cell "
                "(lrcssm.cells.register)."
            )
        known = options_of(given)
        for name, _ in self.cell_options:
            if name not in known and not takes_any_option(given):
                raise InvalidValue(
                    f"ModelConfig got cell_options with {name!r}; {given} has {', '.join(known) or 'none'}."
                )

    def _check_signature(self):
        known = {"windows": None, "level": 2, "view": "both", "univariate": False}
        chosen: dict[str, Any] = known | dict(self.signature)
        unknown = sorted(set(chosen) - set(known))
        view, univariate = chosen["view"], chosen["univariate"]
        _refuse(
            {
                f"a signature with {', '.join(unknown)}; give some of {', '.join(known)}": bool(unknown),
                **{
                    f"a signature with {name}={chosen[name]!r}; give a whole number of at least 1": (
                        type(chosen[name]) is not int or chosen[name] < 1
                    )
                    for name in ("windows", "level")
                },
                f"a signature with view={view!r}; give one of {', '.join(VIEWS)}": view not in VIEWS,
                f"a signature with univariate={univariate!r}; give true or false": type(univariate) is not bool,
                f"a signature and patch={self.patch}; windows are patches, so give patch=1": self.patch > 1,
                'a signature with task="per-step"; windows have outputs, but not steps': self.task == "per-step",
                "a univariate signature, which has the time, and include_time=True; give include_time=False": (
                    univariate and self.include_time
                ),
            }
        )
        object.__setattr__(self, "signature", tuple(sorted(chosen.items())))

    def replace(self, **changes: Any) -> "ModelConfig":
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_json(self) -> str:
        """Write all fields as a JSON object."""
        mappings = {name: dict(getattr(self, name)) for name in _MAPPINGS}
        return json.dumps(dataclasses.asdict(self) | mappings, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "ModelConfig":
        """The inverse of `to_json`. Raise `InvalidValue` for unknown fields and for cells that are not registered."""
        fields = json.loads(text)
        if not isinstance(fields, dict):
            raise InvalidValue(f"A model's configuration is a JSON object, not {type(fields).__name__}.")
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := set(fields) - known:
            raise InvalidValue(f"A model's configuration has no field {', '.join(sorted(unknown))}.")
        if isinstance(cell := fields.get("cell"), str) and cell not in names():
            raise InvalidValue(
                f"The cell {cell!r} is not one of lrcssm's; import the module that registers it (lrcssm.cells.register) and try again."
            )
        return cls(**fields)


def _refuse(mistakes: dict[str, bool]) -> None:
    """Raise `InvalidValue` for the first of several checks that fails."""
    for mistake, made in mistakes.items():
        if made:
            raise InvalidValue(f"ModelConfig got {mistake}.")


RELEASED: dict[str, Any] = {
    "cell_options": {"form": "released"}, "standardise": "none", "layout": "released", "mixer": "mlp",
    "activation": "relu", "pool": "logits", "dropout": 0.0, "bidirectional": False,
}  # fmt: skip
"""Fields of `ModelConfig` for the model of the code released with the paper: its cell, its blocks, and a classifier for each
step whose logits are averaged. (That code never applies its dropout and never uses its elastance shift, so both are left out.)"""
