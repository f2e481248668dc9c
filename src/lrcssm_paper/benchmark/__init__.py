"""Measurements of speed and memory.

What each benchmark can be asked is here and imports nothing heavy, so that the command line can show it at once; what
it does is in the module of its name.
"""

import dataclasses
from typing import Annotated, Any, Literal

import tyro

from lrcssm.errors import InvalidValue

Method = Literal["sequential", "deer", "elk", "jacobi", "scan", "lstm"]


@dataclasses.dataclass(frozen=True)
class EngineBenchmark:
    """Time and memory of one LRC layer under each solver, against lax.scan with autodiff and torch.nn.LSTM."""

    lengths: tuple[int, ...] = (1000, 17984, 100000)
    """Sequence lengths T."""
    states: tuple[int, ...] = (64,)
    """Numbers of states N, each of them with each length."""
    inputs: int = 64
    """Input features."""
    batch: int = 4
    """Sequences at a time."""
    rounds: int = 7
    """Times that everything is measured, in turn; the best one counts. A method that would take more than about 10
    seconds gets fewer rounds, but at least 2."""
    limit: float = 3.0
    """Seconds: a method is not measured at a length at which, by its time per step so far, one pass would take more."""
    methods: tuple[Method, ...] = ("sequential", "deer", "elk", "jacobi", "scan", "lstm")
    """What to measure; lstm needs PyTorch: pip install "lrcssm[bench]"."""
    form: Literal["paper", "released"] = "paper"
    """The equations of the LRC cell."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision of everything."""
    keep_memory: bool = False
    """Keep memory with the process by lrcssm.keep_memory; all methods profit from that."""
    json: Annotated[str | None, tyro.conf.arg(metavar="PATH|-")] = None
    """Also write a JSON record to this path; "-" writes nothing but the record, to standard output."""

    def __post_init__(self):
        _check(self, given=("lengths", "states", "methods"), sizes=("lengths", "states", "inputs", "batch", "rounds"))

    def run(self) -> None:
        """Measures, and prints a table, or the record if that goes to standard output."""
        from .engine import run

        run(self)


@dataclasses.dataclass(frozen=True)
class CellsBenchmark:
    """Time, memory and number of parameters of one layer of each cell, against LRC in the paper's form."""

    cells: tuple[str, ...] = ("all",)
    """Names of cells and variants; a wrong one is answered with all of them. LRC is always measured."""
    length: int = 2000
    """Sequence length T."""
    states: int = 64
    """Units N of each layer."""
    inputs: int = 64
    """Input features."""
    batch: int = 4
    """Sequences at a time."""
    rounds: int = 5
    """Times that everything is measured, in turn; the best one counts. A cell that would take more than about 10
    seconds gets fewer rounds, but at least 2."""
    limit: float = 5.0
    """Seconds: a dense cell is not measured if, by its time for the first few steps, one pass would take more."""
    solver: Literal["sequential", "deer"] = "sequential"
    """How the layers are evaluated. For dense cells deer is DEER(quasi=True)."""
    keep_memory: bool = False
    """Keep memory with the process by lrcssm.keep_memory; all methods profit from that."""
    json: Annotated[str | None, tyro.conf.arg(metavar="PATH|-")] = None
    """Also write a JSON record to this path; "-" writes nothing but the record, to standard output."""

    def __post_init__(self):
        _check(self, given=("cells",), sizes=("length", "states", "inputs", "batch", "rounds"))

    def run(self) -> None:
        """Measures, and prints a table, or the record if that goes to standard output."""
        from .cells import run

        run(self)


@dataclasses.dataclass(frozen=True)
class TrainBenchmark:
    """Time, memory and compilation of a training step of the published models, against the least it could take."""

    configurations: tuple[str, ...] = ("all",)
    """Names of the paper's data sets, which stand for the models that it published for them; all for all six."""
    batches: tuple[int, ...] = (4, 32)
    """Sequences at a time, each of them with each configuration."""
    rounds: int = 9
    """Times that everything is measured, in turn; the best one counts. What would take more than about 20 seconds gets
    fewer rounds, but at least 2."""
    limit: float = 10.0
    """Seconds: what is not measured if, by the time of the steps so far, one step would take more."""
    return_memory: bool = False
    """Give memory back to the system after each step, as without lrcssm.keep_memory, which lrcssm train calls."""
    json: Annotated[str | None, tyro.conf.arg(metavar="PATH|-")] = None
    """Also write a JSON record to this path; "-" writes nothing but the record, to standard output."""

    def __post_init__(self):
        _check(self, given=("configurations", "batches"), sizes=("batches", "rounds"))

    def run(self) -> None:
        """Measures, and prints a table, or the record if that goes to standard output."""
        from .train import run

        run(self)


@dataclasses.dataclass(frozen=True)
class ModelsBenchmark:
    """Time, memory, compilation and parameters of a training step of every architecture at equal sizes."""

    architectures: tuple[str, ...] = ("all",)
    """Names of lrcssm.models.ARCHITECTURES, or all; a wrong one is answered with all of them. LrcSSM is always measured."""
    published: Annotated[str | None, tyro.conf.arg(metavar="DATASET")] = None
    """Measure each architecture with the sizes and the batch that were published for this data set, such as EigenWorms, at
    its length, in the place of equal sizes: the paper's table of run times."""
    length: int = 17984
    """Sequence length T."""
    width: int = 64
    """Features between the layers."""
    state: int = 16
    """Units of each layer."""
    depth: int = 4
    """Blocks."""
    batch: int = 4
    """Sequences at a time."""
    channels: int = 6
    """Channels of the data."""
    classes: int = 5
    """Classes."""
    rounds: int = 7
    """Times that everything is measured, in turn; the best one counts. What would take more than about 20 seconds gets
    fewer rounds, but at least 2."""
    limit: float = 20.0
    """Seconds: what is not measured if, by the time of a short sequence, one step would take more."""
    return_memory: bool = False
    """Give memory back to the system after each step, as without lrcssm.keep_memory, which lrcssm train calls."""
    json: Annotated[str | None, tyro.conf.arg(metavar="PATH|-")] = None
    """Also write a JSON record to this path; "-" writes nothing but the record, to standard output."""

    def __post_init__(self):
        sizes = ("length", "hidden_dim", "state_dim", "num_blocks", "batch", "channels", "classes", "rounds")
        _check(self, given=("architectures",), sizes=sizes)

    def run(self) -> None:
        """Measures, and prints a table, or the record if that goes to standard output."""
        from .models import run

        run(self)


@dataclasses.dataclass(frozen=True)
class ScalingBenchmark:
    """Time and memory of a training step of every architecture over the length, and the power with which they grow."""

    architectures: tuple[str, ...] = ("all",)
    """Names of lrcssm.models.ARCHITECTURES, or all; a wrong one is answered with all of them. LrcSSM is always measured."""
    lengths: tuple[int, ...] = (1024, 4096, 16384, 65536)
    """Sequence lengths T; an architecture that cannot be measured at one is not tried at longer ones."""
    width: int = 64
    """Features between the layers."""
    state: int = 16
    """Units of each layer."""
    depth: int = 2
    """Blocks."""
    batch: int = 1
    """Sequences at a time."""
    channels: int = 6
    """Channels of the data."""
    classes: int = 5
    """Classes."""
    rounds: int = 3
    """Times that everything is measured, in turn; the best one counts. What would take more than about 20 seconds gets
    fewer rounds, but at least 2."""
    limit: float = 20.0
    """Seconds: what is not measured if, by the time of a short sequence, one step would take more."""
    return_memory: bool = False
    """Give memory back to the system after each step, as without lrcssm.keep_memory, which lrcssm train calls."""
    picture: Annotated[str | None, tyro.conf.arg(metavar="FILE.png|.svg|.pdf")] = None
    """Also draw the times against the length."""
    json: Annotated[str | None, tyro.conf.arg(metavar="PATH|-")] = None
    """Also write a JSON record to this path; "-" writes nothing but the record, to standard output."""

    def __post_init__(self):
        sizes = ("lengths", "hidden_dim", "state_dim", "num_blocks", "batch", "channels", "classes", "rounds")
        _check(self, given=("architectures", "lengths"), sizes=sizes)

    def run(self) -> None:
        """Measures, and prints a table, or the record if that goes to standard output."""
        from .models import run_scaling

        run_scaling(self)


@dataclasses.dataclass(frozen=True)
class LongBenchmark:
    """Time and memory of training on sequences of up to a million steps."""

    lengths: tuple[int, ...] = (1024, 16384, 131072, 1048576)
    """Sequence lengths T."""
    cell: str = "LRC"
    """The recurrence, a name of lrcssm.cells.ALL."""
    width: int = 64
    """Features between the layers."""
    state: int = 64
    """Units of each layer."""
    depth: int = 6
    """Blocks."""
    batch: int = 1
    """Sequences at a time."""
    channels: int = 6
    """Channels of the data."""
    classes: int = 5
    """Classes."""
    chunks: tuple[int, ...] = ()
    """Also measure each length in chunks of so many steps, beside what the model chooses by itself."""
    memory: Annotated[str | None, tyro.conf.arg(metavar="BYTES")] = None
    """The most that a training step may take, such as 500MB: chunks that the model chooses then fit into it."""
    released: bool = False
    """In the block of the code released with the paper."""
    matmul: Literal["float32", "bfloat16"] = "float32"
    """Precision of the factors of matrix products."""
    rounds: int = 5
    """Times that everything is measured, in turn; the best one counts. What would take more than a minute gets fewer
    rounds, but at least 2."""
    return_memory: bool = False
    """Give memory back to the system after each step, as without lrcssm.keep_memory, which lrcssm train calls."""
    json: Annotated[str | None, tyro.conf.arg(metavar="PATH|-")] = None
    """Also write a JSON record to this path; "-" writes nothing but the record, to standard output."""

    def __post_init__(self):
        sizes = ("lengths", "hidden_dim", "state_dim", "num_blocks", "batch", "channels", "classes", "chunks", "rounds")
        _check(self, given=("lengths",), sizes=sizes)

    def run(self) -> None:
        """Measures, and prints a table, or the record if that goes to standard output."""
        from .long import run

        run(self)


@dataclasses.dataclass(frozen=True)
class TogetherBenchmark:
    """Time of a training step for each of several runs, side by side in one program and one after the other."""

    sizes: tuple[str, ...] = ("all",)
    """Models by the beginnings of their names, or all; a wrong one is answered with all names."""
    runs: int = 3
    """Runs side by side; each has its own learning rate, weights and data."""
    steps: int = 3
    """Steps of each run that are timed at once."""
    rounds: int = 9
    """Times that both are measured, in turn; the best one counts. What would take more than about 30 seconds gets fewer
    rounds, but at least 2."""
    return_memory: bool = False
    """Give memory back to the system after each step, as without lrcssm.keep_memory, which lrcssm tune calls."""
    json: Annotated[str | None, tyro.conf.arg(metavar="PATH|-")] = None
    """Also write a JSON record to this path; "-" writes nothing but the record, to standard output."""

    def __post_init__(self):
        _check(self, given=("sizes",), sizes=("runs", "steps", "rounds"))

    def run(self) -> None:
        """Measures, and prints a table, or the record if that goes to standard output."""
        from .together import run

        run(self)


@dataclasses.dataclass(frozen=True)
class StreamBenchmark:
    """How long a published model takes for one sample of a stream, and its exported step in onnxruntime."""

    configuration: str = "EigenWorms"
    """The data set whose published model is measured."""
    streams: tuple[int, ...] = (1, 1000)
    """How many streams get a sample at once."""
    steps: int = 2000
    """Samples in each round, over all streams."""
    rounds: int = 5
    """Times that everything is measured, in turn."""
    threads: bool = False
    """Let JAX hand each step to a thread of its own, as it does by default."""
    json: Annotated[str | None, tyro.conf.arg(metavar="PATH|-")] = None
    """Also write a JSON record to this path; "-" writes nothing but the record, to standard output."""

    def __post_init__(self):
        _check(self, given=("streams",), sizes=("streams", "steps", "rounds"))

    def run(self) -> None:
        """Measures, and prints a table, or the record if that goes to standard output."""
        from .stream import run

        run(self)


def _check(options: Any, *, given: tuple[str, ...], sizes: tuple[str, ...]) -> None:
    """Raises `ValueError` if an option in `given` has no value, or one in `sizes` a value below 1."""
    for name in given:
        if not getattr(options, name):
            raise InvalidValue(f"--{name} got no value; give at least one.")
    for name in sizes:
        value = getattr(options, name)
        for size in value if isinstance(value, tuple) else (value,):
            if size < 1:
                raise InvalidValue(f"--{name} got {size}; give numbers of at least 1.")
