"""Measurements of speed and memory.

What each benchmark can be asked is here and imports nothing heavy, so that the command line can show it at once; what
it does is in the module of its name.
"""

import dataclasses
from typing import Annotated, Literal

import tyro

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
    methods: tuple[Method, ...] = ("sequential", "deer", "elk", "jacobi", "scan", "lstm")
    """What to measure; lstm needs PyTorch: pip install "lrcssm[bench]"."""
    form: Literal["paper", "released"] = "paper"
    """The equations of the LRC cell."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision of everything."""
    json: Annotated[str | None, tyro.conf.arg(metavar="PATH|-")] = None
    """Also write a JSON record to this path; "-" writes nothing but the record, to standard output."""

    def __post_init__(self):
        for name in ("lengths", "states", "methods"):
            if not getattr(self, name):
                raise ValueError(f"--{name} got no value; give at least one.")
        for name in ("lengths", "states", "inputs", "batch", "rounds"):
            given = getattr(self, name)
            for value in given if isinstance(given, tuple) else (given,):
                if value < 1:
                    raise ValueError(f"--{name} got {value}; give numbers of at least 1.")

    def run(self) -> None:
        """Measures, and prints a table, or the record if that goes to standard output."""
        from .engine import run

        run(self)
