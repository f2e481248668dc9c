"""Measurements of speed, memory and accuracy: `lrcssm benchmark`.

The options of each benchmark are here, without heavy imports, so that their help appears at once; the measurements are in the
module that a benchmark names.
"""

import dataclasses
import importlib
from typing import Annotated, Any, ClassVar, Literal

from lrcssm.cli.parser import Arg
from lrcssm.errors import InvalidValue

Method = Literal["sequential", "deer", "elk", "jacobi", "scan", "lstm"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Options of every benchmark, and its execution."""

    module: ClassVar[str]
    """Module with the functions `measure` and `show`, and `draw` if there is a picture."""
    keeps_memory: ClassVar[bool] = False
    """Measure under `lrcssm.keep_memory`, as `lrcssm train` runs."""

    json: Annotated[str | None, Arg("PATH|-")] = None
    """Also write a JSON record to this path; "-" prints the record to standard output and nothing else."""

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value == () and field.default != ():
                raise InvalidValue(f"--{field.name.replace('_', '-')} got no value; give at least one.")
            for size in value if isinstance(value, tuple) else (value,):
                if type(size) is int and size < 1 and field.name != "seed":
                    raise InvalidValue(f"--{field.name.replace('_', '-')} got {size}; give numbers of at least 1.")

    def run(self) -> None:
        """Measure, print a table, and write the record and the picture if their options are given."""
        from .record import run_benchmark

        run_benchmark(self, importlib.import_module(f".{self.module}", __name__))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timed(Benchmark):
    """Options of a benchmark that measures times."""

    rounds: int = 5
    """Rounds in which everything is measured in turn; the best time counts. Slow programs get fewer rounds, but at least 2."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limited(Timed):
    """Options of a benchmark that leaves out slow programs."""

    limit: float = 10.0
    """Programs are left out if, by the measurements so far, one call would take more seconds than this."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layer(Limited):
    """Sizes of one layer."""

    input_dim: int = 64
    """Input features."""
    state_dim: int = 64
    """Units of the layer."""
    batch: int = 4
    """Sequences at a time."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes(Timed):
    """Sizes of a model."""

    keeps_memory: ClassVar[bool] = True

    hidden_dim: int = 64
    """Features between the blocks."""
    state_dim: int = 16
    """Units of each cell."""
    num_blocks: int = 4
    """Number of blocks."""
    batch: int = 4
    """Sequences at a time."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drawn(Benchmark):
    """Options of a benchmark with a picture."""

    picture: Annotated[str | None, Arg("FILE.png|.svg|.pdf")] = None
    """Also draw the results."""

    def __post_init__(self):
        super().__post_init__()
        if self.picture is not None and not self.picture.endswith((".png", ".svg", ".pdf")):
            raise InvalidValue(f"--picture got {self.picture!r}; give a file that ends in .png, .svg or .pdf.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class EngineBenchmark(Layer):
    """Time and memory of one LRC layer under each solver, against lax.scan with autodiff and torch.nn.LSTM."""

    module: ClassVar[str] = "engine"

    lengths: tuple[int, ...] = (1000, 17984, 100000)
    """Sequence lengths T."""
    methods: tuple[Method, ...] = ("sequential", "deer", "elk", "jacobi", "scan", "lstm")
    """Solvers and programs; lstm needs PyTorch: pip install "lrcssm[bench]"."""
    form: Literal["paper", "released"] = "paper"
    """Equations of the LRC cell."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CellsBenchmark(Layer):
    """Time, memory and number of parameters of one layer of each cell, against LRC in the paper's form."""

    module: ClassVar[str] = "cells"

    cells: tuple[str, ...] = ("all",)
    """Cells and variants, or all. LRC is always measured."""
    length: int = 2000
    """Sequence length T."""
    solver: Literal["sequential", "deer"] = "sequential"
    """Solver of the layers; for dense cells deer is DEER(quasi=True)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainBenchmark(Limited):
    """Time, memory and compilation of a training step of the published models, against its matrix products alone."""

    module: ClassVar[str] = "train"
    keeps_memory: ClassVar[bool] = True

    datasets: tuple[str, ...] = ("all",)
    """The paper's data sets whose published models are measured, or all six."""
    batches: tuple[int, ...] = (4, 32)
    """Sequences at a time, each of them with each model."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelsBenchmark(Sizes, Limited):
    """Time, memory, compilation and parameters of a training step of every architecture at equal sizes."""

    module: ClassVar[str] = "models"

    architectures: tuple[str, ...] = ("all",)
    """Names of lrcssm.models.ARCHITECTURES, or all. LrcSSM is always measured."""
    published: Annotated[str | None, Arg("DATASET")] = None
    """Measure each architecture with the sizes, batch and length published for this data set, such as EigenWorms."""
    length: int = 17984
    """Sequence length T."""
    limit: float = 20.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScalingBenchmark(Sizes, Limited, Drawn):
    """Time and memory of a training step of every architecture over the length, and the powers with which they grow."""

    module: ClassVar[str] = "scaling"

    architectures: tuple[str, ...] = ("all",)
    """Names of lrcssm.models.ARCHITECTURES, or all. LrcSSM is always measured."""
    lengths: tuple[int, ...] = (1024, 4096, 16384, 65536)
    """Sequence lengths T; an architecture that cannot be measured at one is not tried at longer ones."""
    num_blocks: int = 2
    batch: int = 1
    limit: float = 20.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongBenchmark(Sizes):
    """Time and memory of training on sequences of up to a million steps."""

    module: ClassVar[str] = "long"

    lengths: tuple[int, ...] = (1024, 16384, 131072, 1048576)
    """Sequence lengths T."""
    state_dim: int = 64
    num_blocks: int = 6
    batch: int = 1
    chunks: tuple[int, ...] = ()
    """Also measure each length in chunks of this many steps, next to the model's own choice."""
    memory: Annotated[str | None, Arg("BYTES")] = None
    """Largest memory of a training step, such as 500MB, for the model's own choice of chunks."""
    released: bool = False
    """Measure the block of the code released with the paper."""
    matmul: Literal["float32", "bfloat16"] = "float32"
    """Precision of the factors of matrix products."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamBenchmark(Timed):
    """Time of a published model for one sample of a stream, and of its exported step in onnxruntime."""

    module: ClassVar[str] = "stream"

    dataset: str = "EigenWorms"
    """Data set whose published model is measured."""
    streams: tuple[int, ...] = (1, 1000)
    """Numbers of streams that advance at once."""
    steps: int = 2000
    """Samples in each round, over all streams."""
    threads: bool = False
    """Run each step in a separate thread, which is JAX's default."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArchiveBenchmark(Drawn):
    """Accuracy and time of classifiers over a folder of pairs NAME_TRAIN.ts and NAME_TEST.ts, with ranks."""

    module: ClassVar[str] = "archive"

    folder: Annotated[str, Arg("DIR", positional=True)]
    """Folder of the pairs."""
    models: tuple[str, ...] = ("LrcRidgeClassifier", "MiniRocket", "MultiRocketHydra")
    """Classifiers: names of lrcssm, such as LrcSSMClassifier, and of aeon if it is installed. The first is compared with the
    others."""
    datasets: tuple[str, ...] = ("all",)
    """Names of the pairs, or all."""
    seed: int = 0
    """Seed of all classifiers."""
    threads: Annotated[int | None, Arg("INT")] = None
    """Threads of each classifier; by default all cores."""
    results: Annotated[str, Arg("FILE.jsonl")] = "runs/archive.jsonl"
    """File for the results, one line for each classifier and data set; finished ones are not repeated."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForecastBenchmark(Drawn):
    """Errors of forecasters by rolling origins over eight series, relative to ridge on lags."""

    module: ClassVar[str] = "forecast"

    series: tuple[str, ...] = ("all",)
    """Series, or all: airline, lynx, solar and pbs, which come with aeon, and chaotic, seasonal, autoregressive and driven."""
    models: tuple[str, ...] = ("all",)
    """Forecasters, or all. Ridge on lags is always measured."""
    origins: int = 10
    """Rolling origins in the last 40 % of each series."""
    coverage: float = 0.9
    """Coverage of the intervals."""
    seed: int = 0
    """Seed of all forecasters."""


COMMANDS: dict[str, Any] = {
    "": "Measure speed, memory and accuracy.",
    "engine": EngineBenchmark,
    "cells": CellsBenchmark,
    "train": TrainBenchmark,
    "models": ModelsBenchmark,
    "scaling": ScalingBenchmark,
    "long": LongBenchmark,
    "stream": StreamBenchmark,
    "archive": ArchiveBenchmark,
    "forecast": ForecastBenchmark,
}
"""Benchmarks by name, described under the empty one."""
