"""What a model is, as data: a frozen dataclass that goes to JSON and back."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal

from ..cells import ALL, Cell
from .signature import VIEWS
from .time import names, options_of, takes_any_option

Task = Literal["classify", "regress", "per-step", "forecast"]
Pool = Literal["mean", "last", "mean-max-std", "attention", "logits"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "task": ("classify", "regress", "per-step", "forecast"),
    "encoder": ("mlp", "linear", "none"),
    "standardise": ("none", "channel", "case"),
    "layout": ("pre-norm", "post-norm", "plain", "released", "bare"),
    "norm": ("layer", "batch"),
    "mixer": ("mlp", "glu", "none"),
    "activation": ("relu", "gelu", "silu", "tanh", "sigmoid", "identity"),
    "pool": ("mean", "last", "mean-max-std", "attention", "logits"),
    "matmul": ("float32", "bfloat16"),
}
_MAPPINGS = ("cell_options", "signature")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Everything that a `SequenceModel` is made from.

    ```python
    import lrcssm

    config = lrcssm.ModelConfig(input_dim=6, output_dim=2, patch=8)
    assert lrcssm.ModelConfig.from_json(config.to_json()) == config
    ```

    **Arguments:**

    - `input_dim`: channels of the data.
    - `output_dim`: classes, targets, outputs for each step, or (forecast) horizon × channels.
    - `task`: `"classify"` and `"regress"` give one output for a sequence, `"per-step"` one for each step, `"forecast"`
        the next `output_dim` values after the last step.
    - `cell`, `cell_options`: what goes along time, a name of `lrcssm.cells.ALL` or `lrcssm.models.LAYERS`, or of a cell of your
        own that `lrcssm.cells.register` was given; and more arguments for it.
    - `width`, `state`, `depth`: features between the layers, units of each cell, blocks.
    - `encoder`: of each step: `"mlp"` (linear, ReLU, linear), `"linear"` or `"none"`.
    - `patch`: how many steps become one before the encoder.
    - `signature`: how a sequence becomes windows, each given by signatures of the path, before the encoder: `windows`,
        how many; `level`, of the signatures (2 if not given); `view`, `"local"` (of each window), `"global"` (from the
        start to its end) or `"both"`; `univariate`, of each channel together with time instead of all channels
        together.
    - `differences`: first differences of all channels as more channels.
    - `time`: the share of the sequence's time that has passed, from 0 to below 1, as one more channel.
    - `standardise`: `"channel"`, by the mean and scale of each channel in the training data
        (`SequenceModel.with_statistics`); `"case"`, by those of each sequence; or `"none"`.
    - `layout`: `"pre-norm"`, h + mixer(cell(norm(h))); `"post-norm"`, norm(h + mixer(cell(h))); `"plain"`,
        h + mixer(cell(h)), for a few blocks where the size of the signal matters; `"released"`, that of the code
        released with the paper; or `"bare"`, cell(h) and nothing else.
    - `norm`: of `layout="pre-norm"`: `"layer"`, over the features of each step, or `"batch"`, over all steps of a batch
        for each feature, which leaves the size of each signal.
    - `final_norm`: normalise each step's features once more before the pool or head, for `layout="pre-norm"`. Without it
        the size of a signal reaches the head, which is often what tells classes apart.
    - `mixer`, `activation`: what follows the cell: `"mlp"`, `"glu"` or `"none"` (then a linear map to `width`).
    - `dropout`: share of features that a block drops while training.
    - `bidirectional`: a second cell in each block goes from the last step to the first.
    - `pool`: how a sequence becomes one vector: over valid steps `"mean"`, `"last"`, `"mean-max-std"` or learned
        `"attention"`; `"logits"` applies the head to each step and averages its outputs.
    - `matmul`: `"bfloat16"` rounds the factors of all matrix products to 8 bits of precision and sums in float32;
        parameters, states and everything else stay in float32. For devices that multiply such numbers faster.
    """

    input_dim: int
    output_dim: int
    task: Task = "classify"
    cell: str = "LRC"
    cell_options: Any = ()
    width: int = 64
    state: int = 64
    depth: int = 4
    encoder: Literal["mlp", "linear", "none"] = "mlp"
    patch: int = 1
    signature: Any = ()
    differences: bool = False
    time: bool = False
    standardise: Literal["none", "channel", "case"] = "channel"
    layout: Literal["pre-norm", "post-norm", "plain", "released", "bare"] = "pre-norm"
    norm: Literal["layer", "batch"] = "layer"
    final_norm: bool = False
    mixer: Literal["mlp", "glu", "none"] = "glu"
    activation: Literal["relu", "gelu", "silu", "tanh", "sigmoid", "identity"] = "gelu"
    dropout: float = 0.0
    bidirectional: bool = False
    pool: Pool = "mean"
    matmul: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self):
        for name in _MAPPINGS:
            pairs = getattr(self, name)
            pairs = pairs.items() if isinstance(pairs, Mapping) else pairs
            object.__setattr__(self, name, tuple(sorted((str(k), v) for k, v in pairs)))
        for name, options in _CHOICES.items():
            if getattr(self, name) not in options:
                given = getattr(self, name)
                raise ValueError(f"ModelConfig got {name}={given!r}; give one of {', '.join(options)}.")
        for name in ("input_dim", "output_dim", "width", "state", "depth", "patch"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"ModelConfig got {name}={value!r}; give a whole number of at least 1.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"ModelConfig got dropout={self.dropout!r}; give a number from 0 to below 1.")
        if self.task == "per-step" and self.pool != "mean":
            raise ValueError(f'ModelConfig got task="per-step" with pool={self.pool!r}; each step has its own output.')
        if self.task == "per-step" and self.patch > 1:
            raise ValueError(f'ModelConfig got task="per-step" with patch={self.patch}; give patch=1.')
        if self.norm == "batch" and self.layout != "pre-norm":
            raise ValueError(
                f'ModelConfig got norm="batch" with layout={self.layout!r}; it goes with layout="pre-norm".'
            )
        if self.encoder == "none" and self.layout != "bare":
            raise ValueError(f'ModelConfig got encoder="none" with layout={self.layout!r}; it goes with layout="bare".')
        if self.signature:
            self._check_signature()
        self._check_cell()

    def _check_cell(self):
        given: Any = self.cell
        kind = given if isinstance(given, type) else type(given)
        if issubclass(kind, Cell):
            own = "" if kind in ALL.values() else f"register it, lrcssm.cells.register({kind.__name__}), and "
            what = "class" if kind is given else "cell"
            raise ValueError(
                f'ModelConfig got cell=the {what} {kind.__name__}; {own}give its name, cell="{kind.__name__}".'
            )
        if given not in names():
            raise ValueError(
                f"ModelConfig got cell={given!r}; give one of {', '.join(names())}, or register a cell of your own "
                "(lrcssm.cells.register)."
            )
        known = options_of(given)
        for name, _ in self.cell_options:
            if name not in known and not takes_any_option(given):
                raise ValueError(
                    f"ModelConfig got cell_options with {name!r}; {given} has {', '.join(known) or 'none'}."
                )

    def _check_signature(self):
        given = dict(self.signature)
        known = {"windows": None, "level": 2, "view": "both", "univariate": False}
        if unknown := set(given) - set(known):
            raise ValueError(
                f"ModelConfig got a signature with {', '.join(sorted(unknown))}; give some of {', '.join(known)}."
            )
        chosen = known | given
        for name in ("windows", "level"):
            if type(chosen[name]) is not int or chosen[name] < 1:
                raise ValueError(
                    f"ModelConfig got a signature with {name}={chosen[name]!r}; give a whole number of at least 1."
                )
        if chosen["view"] not in VIEWS:
            raise ValueError(
                f"ModelConfig got a signature with view={chosen['view']!r}; give one of {', '.join(VIEWS)}."
            )
        if type(chosen["univariate"]) is not bool:
            raise ValueError(
                f"ModelConfig got a signature with univariate={chosen['univariate']!r}; give true or false."
            )
        if self.patch > 1:
            raise ValueError(
                f"ModelConfig got a signature and patch={self.patch}; windows are patches, so give patch=1."
            )
        if self.task == "per-step":
            raise ValueError('ModelConfig got a signature with task="per-step"; windows have outputs, but not steps.')
        if chosen["univariate"] and self.time:
            raise ValueError(
                "ModelConfig got a univariate signature, which has the time, and time=True; give time=False."
            )
        object.__setattr__(self, "signature", tuple(sorted(chosen.items())))

    def replace(self, **changes: Any) -> "ModelConfig":
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_json(self) -> str:
        """All fields as a JSON object."""
        mappings = {name: dict(getattr(self, name)) for name in _MAPPINGS}
        return json.dumps(dataclasses.asdict(self) | mappings, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "ModelConfig":
        """The inverse of `to_json`; a field that does not exist is refused by name, and so is a cell that nobody registered."""
        fields = json.loads(text)
        if not isinstance(fields, dict):
            raise ValueError(f"A model's configuration is a JSON object, not {type(fields).__name__}.")
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := set(fields) - known:
            raise ValueError(f"A model's configuration has no field {', '.join(sorted(unknown))}.")
        if isinstance(cell := fields.get("cell"), str) and cell not in names():
            raise ValueError(
                f"The cell {cell!r} is not one of lrcssm's; import the module that registers it (lrcssm.cells.register) and try again."
            )
        return cls(**fields)


RELEASED: dict[str, Any] = {
    "cell_options": {"form": "released"}, "standardise": "none", "layout": "released", "mixer": "mlp",
    "activation": "relu", "pool": "logits",
}  # fmt: skip
"""The fields of `ModelConfig` that make the model of the code released with the paper."""


def released(input_dim: int, output_dim: int, *, width: int, state: int, depth: int, **changes: Any) -> ModelConfig:
    """The model of the code released with the paper: its cell, its blocks, and a classifier for each step whose logits
    are averaged. (Its dropout was never applied; its elastance shift never used, so it is not here.)"""
    sizes: dict[str, Any] = {"input_dim": input_dim, "output_dim": output_dim, "width": width, "state": state}
    fields: dict[str, Any] = sizes | {"depth": depth} | RELEASED | changes
    return ModelConfig(**fields)
