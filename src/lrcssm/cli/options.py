"""Runs: from a data file to a trained model, its scores and a report, in one folder.

What each command can be asked is here and imports nothing heavy, so that the command line can show it at once; what it
does is in the module of its name.
"""

import dataclasses
from typing import Annotated, Any, Literal

import tyro

AS_PRESET = tyro.conf.arg(help_behavior_hint="(default: as the preset says)")
YesNo = Annotated[Literal["yes", "no"] | None, AS_PRESET]
Int = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: as the preset says)")]
Float = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="(default: as the preset says)")]
Bytes = Annotated[str | None, tyro.conf.arg(metavar="BYTES", help_behavior_hint="(default: as the preset says)")]
Name = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: as the preset says)")]


@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """The model. What is not given is as the preset says."""

    architecture: Name = None
    """A model of lrcssm.models.ARCHITECTURES, such as s5, mamba or log-ncde, in the place of lrcssm; a wrong name is
    answered with all."""
    cell: Name = None
    """The recurrence: a name of lrcssm.cells.ALL, such as LRC, GRU or DenseLTC; a wrong one is answered with all."""
    cell_options: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE", help_behavior_hint="")] = ()
    """More for the cell, as name=value: init=spread max_time=500 rho=0.99 integrator=exponential."""
    width: Int = None
    """Features between the layers."""
    state: Int = None
    """Units of each cell."""
    depth: Int = None
    """Blocks."""
    patch: Int = None
    """How many steps become one before the first block."""
    differences: YesNo = None
    """First differences of all channels as more channels."""
    include_time: YesNo = None
    """The share of time that has passed as one more channel."""
    standardise: Annotated[Literal["none", "channel", "case"] | None, AS_PRESET] = None
    """Unit scale for each channel (over the training cases), for each case, or not at all."""
    encoder: Annotated[Literal["mlp", "linear", "none"] | None, AS_PRESET] = None
    """What each step goes through before the first block; "none" goes with --layout bare."""
    layout: Annotated[Literal["pre-norm", "post-norm", "plain", "released", "bare"] | None, AS_PRESET] = None
    """Where a block's norms are; "bare" is the cell and nothing else."""
    norm: Annotated[Literal["layer", "batch"] | None, AS_PRESET] = None
    """What they are over: the features of a step, or all steps of a batch."""
    final_norm: YesNo = None
    """Once more before the pool, for --layout pre-norm."""
    mixer: Annotated[Literal["mlp", "glu", "none"] | None, AS_PRESET] = None
    """What follows the cell in a block."""
    activation: Annotated[Literal["relu", "gelu", "silu", "tanh", "sigmoid", "identity"] | None, AS_PRESET] = None
    """The function in it."""
    pool: Annotated[Literal["mean", "last", "mean-max-std", "attention", "logits"] | None, AS_PRESET] = None
    """How a sequence becomes one vector."""
    dropout: Float = None
    """Share of the features that a block drops while training."""
    bidirectional: YesNo = None
    """A second cell in each block that goes from the last step to the first."""
    matmul: Annotated[Literal["float32", "bfloat16"] | None, AS_PRESET] = None
    """Precision of the factors of matrix products; everything else is in float32."""


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """The training. What is not given is as the preset says."""

    steps: Int = None
    """Steps of the optimiser, at most."""
    batch: Int = None
    """Cases for each step."""
    learning_rate: Float = None
    """The largest learning rate."""
    schedule: Annotated[Literal["cosine", "constant"] | None, AS_PRESET] = None
    """How the learning rate goes on after its rise."""
    warmup: Float = None
    """The share of the steps in which the learning rate rises."""
    weight_decay: Float = None
    """Of AdamW; 0 is Adam."""
    clip: Float = None
    """The largest norm of a gradient."""
    ema: Float = None
    """Decay of the averaged weights; 0 for none."""
    label_smoothing: Float = None
    """The share of certainty that is taken from the right class."""
    class_weights: Annotated[Literal["balanced"] | None, AS_PRESET] = None
    """Let each class count the same."""
    monitor: Annotated[Literal["score", "loss", "last"] | None, AS_PRESET] = None
    """What makes a model the best one on the validation data; "last" keeps the last weights."""
    check_every: Int = None
    """Steps between two looks at the validation data."""
    patience: Int = None
    """Looks without improvement after which to stop."""
    chunk: Int = None
    """Steps that go through all blocks at a time: fewer take less memory, the result is the same to rounding. Chosen by
    the length if not given."""
    memory: Bytes = None
    """The most that a step of training may take on each device, such as 500MB or 1.5GB: what is computed twice, and in which
    chunks, is chosen so that it fits."""
    truncate: Int = None
    """Steps after which gradients end on their way back (truncated back-propagation); all the way if not given."""


@dataclasses.dataclass(frozen=True)
class DeviceOptions:
    """The devices; one if nothing is given."""

    devices: Annotated[str | None, tyro.conf.arg(metavar="N|BxS")] = None
    """How many devices to train on: 4 share each batch; of 2x4, 2 share the batch and 4 share time. On a processor they
    are threads."""
    coordinator: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT")] = None
    """For several processes that train one model: the address of the first of them. Under SLURM it is found by itself."""
    processes: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """How many processes there are."""
    process: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Which of them this is, counted from 0. The folder of the run must be one that all of them see."""


SolverName = Literal["auto", "sequential", "deer", "elk"]
Missing = Literal["error", "mask", "fill"]
DataDir = Annotated[str | None, tyro.conf.arg(metavar="DIR")]
Column = Annotated[str | None, tyro.conf.arg(metavar="COLUMN")]


@dataclasses.dataclass(frozen=True)
class Train:
    """Train a model on a data set, and leave a folder with the model, its predictions and a report."""

    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
    """A name (lrcssm data list), a file (.ts, .arff, .npz, .csv) or a folder of them."""
    out: Annotated[str | None, tyro.conf.arg(metavar="DIR")] = None
    """The run's folder; runs/NAME if not given."""
    preset: Annotated[str, tyro.conf.arg(metavar="PRESET")] = "default"
    """Where to start: default, settings that do well on most data; released, the code released with the paper, with the
    paper's choice of sizes where it has one for this data set; or paper:ARCHITECTURE:DATASET, the configuration that a row
    of its tables comes from, as in paper:s5:EthanolConcentration."""
    model: Annotated[ModelOptions, tyro.conf.arg(name="")] = ModelOptions()
    training: Annotated[TrainingOptions, tyro.conf.arg(name="")] = TrainingOptions()
    split: Literal["source", "paper", "random"] = "source"
    """Who decides on training, validation and test cases: the source (as far as it does), the paper (its five seeds are 2345,
    3456, 4567, 5678 and 6789) or chance."""
    split_seed: int = 0
    """Of what is drawn at random there; for the paper's splits one of its seeds, 2345 if not given."""
    seed: int = 0
    """Of the first weights, the order of the data and dropout."""
    target: Column = None
    """The column of a .csv that holds the targets; one called target, label, class or y if not given."""
    missing: Missing = "error"
    """What to do with missing values: refuse them, skip their steps, or carry the last value forward."""
    solver: SolverName = "auto"
    """How the recurrences are solved while training."""
    on: Annotated[DeviceOptions, tyro.conf.arg(name="")] = DeviceOptions()
    resume: bool = False
    """Go on with the run in the folder, to the same result as without an interruption."""
    overwrite: bool = False
    """Replace a run that the folder holds."""
    data_dir: DataDir = None
    """Where data sets are; the variable LRCSSM_DATA or the cache if not given."""
    quiet: bool = False
    """Print the final scores only."""
    json: bool = False
    """Print one JSON object for each look at the validation data, and the scores as the last one."""

    def run(self) -> None:
        from .supervise import supervised

        if supervised(self.on):
            return
        from .train import run

        run(self)


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Score a trained model on data with targets."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A run's folder or a model's file."""
    source: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[SOURCE]")] = None
    """A name, file or folder of data, all of whose cases are scored; the test cases of the run if not given."""
    target: Column = None
    """The column of a .csv that holds the targets, or none if there is no such column; as in training if not given."""
    missing: Missing | None = None
    """What to do with missing values: refuse them, skip their steps, or carry the last value forward; as in training if not
    given."""
    solver: SolverName = "auto"
    """How the recurrences are solved."""
    data_dir: DataDir = None
    """Where data sets are; the variable LRCSSM_DATA or the cache if not given."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        from .evaluate import run_evaluate

        run_evaluate(self)


@dataclasses.dataclass(frozen=True)
class Predict:
    """Apply a trained model to data, with or without targets."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A run's folder or a model's file."""
    source: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[SOURCE]")] = None
    """A name, file or folder of data."""
    stream: bool = False
    """Read samples from standard input instead, one in each line, as CSV or JSON, and answer each with a line of JSON."""
    out: Annotated[str | None, tyro.conf.arg(metavar="FILE.csv")] = None
    """Write there instead of to standard output."""
    target: Column = None
    """The column of a .csv that holds the targets, or none if there is no such column; as in training if not given."""
    missing: Missing | None = None
    """What to do with missing values: refuse them, skip their steps, or carry the last value forward; as in training if not
    given."""
    solver: SolverName = "auto"
    """How the recurrences are solved."""
    data_dir: DataDir = None
    """Where data sets are; the variable LRCSSM_DATA or the cache if not given."""
    json: bool = False
    """Write one JSON object for each case instead of CSV."""

    def run(self) -> None:
        if self.stream:
            from .stream import run_stream

            run_stream(self)
        else:
            from .evaluate import run_predict

            run_predict(self)


def given(options: Any) -> dict[str, Any]:
    """The options that were given, yes and no as true and false."""
    fields = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    words = {"yes": True, "no": False}
    return {
        name: words.get(value, value) if isinstance(value, str) else value
        for name, value in fields.items()
        if value is not None and value != ()
    }
