"""A training step of the published models, against programs that do less:

- the model's *matrix products* alone, with their shapes, each forward and in both of its gradients;
- the same step *without recurrence*: the states of a cell are a weighted sum of its drive, with the same parameters and
  products, and nothing that leads from one step of time to the next.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from lrcssm.machine import environment
from lrcssm.models import RELEASED, ModelConfig, SequenceModel, parameter_count
from lrcssm.models.time import Outcome, Recurrent
from lrcssm.report.table import doubts, number, print_table

from ..published import DATASETS, SIZES, configured, published
from . import TrainBenchmark
from .record import chosen, make_record, measuring
from .step import arguments, compiled, compiled_in, fresh_compilations, megabytes, too_large
from .timing import interleave, is_uneven, measured, ratio


class Configuration(NamedTuple):
    """A published model and the size of its data."""

    length: int
    channels: int
    classes: int
    hidden_dim: int
    state_dim: int
    num_blocks: int

    def model(self) -> ModelConfig:
        """The model in the blocks of the released code."""
        sizes = {name: getattr(self, name) for name in ("hidden_dim", "state_dim", "num_blocks")}
        return ModelConfig(input_dim=self.channels, output_dim=self.classes, **sizes, **RELEASED)


def _published() -> Iterator[tuple[str, Configuration]]:
    for short in configured("lrcssm"):
        size, model = SIZES[short], published("lrcssm", short).model
        sizes = (model[name] for name in ("hidden_dim", "state_dim", "num_blocks"))
        yield DATASETS[short], Configuration(size.length, size.channels, size.classes, *sizes)


CONFIGURATIONS = dict(_published())
PROGRAMS = ("step", "sum", "matmuls")

# Seconds of rounds for each program.
_BUDGET = 20.0


class Sums(Recurrent):
    """A layer with the parameters of another one, and no recurrence."""

    def __init__(self, layer: Recurrent):
        self.cell, self.size = layer.cell, layer.size

    def __call__(self, inputs, state, context):
        del state, context
        # With equal weights all terms had the same cotangent, and the compiler would compute its product with the inputs
        # only once.
        first, *others = self.cell.drive(inputs)
        states = first + sum((term / (2 + i) for i, term in enumerate(others)), start=jnp.zeros_like(first))
        return Outcome(self.cell.read(states, inputs), states[-1], None)


def without_recurrence(model: SequenceModel) -> SequenceModel:
    """The model with the states of its cells replaced by sums of their drives."""
    layers = lambda model: tuple(block.layer for block in model.blocks)
    return eqx.tree_at(layers, model, tuple(map(Sums, layers(model))))


def products(size: Configuration, batch: int) -> list[tuple[int, int, int]]:
    """The linear maps of the model in their order, as rows, inputs and outputs."""
    rows, width, state = size.length * batch, size.hidden_dim, size.state_dim
    block = [(width, state), (width, state), (state, width), (width, width)]  # two drives, two of the mixer
    maps = [(size.channels, width), (width, width), *block * size.num_blocks, (width, width)]
    # The last map commutes with the mean over time, so that it is needed once for each sequence.
    return [*((rows, *one) for one in maps), (batch, width, size.classes)]


def operations(size: Configuration, batch: int) -> int:
    """Floating-point operations of all products: each map forward and in its two gradients, except for the inputs of the model,
    which have none."""
    first, *others = (2 * rows * inputs * outputs for rows, inputs, outputs in products(size, batch))
    return 2 * first + 3 * sum(others)


def matmuls(size: Configuration, batch: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A jitted function that computes these products and almost nothing else, and its arguments.

    The maps are chained as in the model, so that each reads the output of the previous one. The two drives of a block are
    added, which takes one pass over memory; nothing else is elementwise.
    """
    maps = products(size, batch)
    keys = iter(jax.random.split(jax.random.key(0), len(maps) + 4))
    weights = [jax.random.normal(next(keys), (n, m)) / n**0.5 for _, n, m in maps]
    rows, pooled = maps[0][0], maps[-1]
    shapes = [(rows, size.channels), (batch, size.hidden_dim), (rows, size.hidden_dim), (batch, pooled[2])]
    arrays = [jax.random.normal(next(keys), shape) for shape in shapes]

    def chain(weights, inputs, mean):
        remaining = iter(weights)
        h = inputs @ next(remaining)
        h = h @ next(remaining)
        for _ in range(size.num_blocks):
            h = h @ next(remaining) + (h @ next(remaining)) / 2  # as in `Sums`
            h = h @ next(remaining)
            h = h @ next(remaining)
        return h @ next(remaining), mean @ next(remaining)

    @jax.jit
    def compute(weights, inputs, mean, *cotangents):
        # A linear map needs no output for its gradient: the last ones are computed because they are returned.
        outputs, pullback = jax.vjp(lambda weights, mean: chain(weights, inputs, mean), weights, mean)
        return outputs, pullback(cotangents)

    return compute, (weights, *arrays)


def measure(options: TrainBenchmark) -> dict[str, Any]:
    """Measure the three programs of each model.

    **Returns:**

    A record for JSON: `command`, `environment`, `options`, `dtype` and `rows`. Of a row, `step`, `sum` and `matmuls` are the
    times of the three programs in milliseconds, `to_sum` and `to_matmuls` the best time of the first over that of the other;
    `compile_s` is the time of tracing and compiling the step; `memory_mb` its arrays beyond the arguments, in MB of 10⁶
    bytes; `matmul_gflops` the speed of the products alone, in 10⁹ operations a second.
    """
    names, facts, rows = chosen(options.datasets, CONFIGURATIONS, "datasets"), environment(), []
    with measuring("--datasets or --batches") as say, fresh_compilations():
        for batch in dict.fromkeys(options.batches):
            for name in names:
                rows.append(_row(name, batch, options, rows, say))
    return make_record("train", options, facts, rows) | {"dtype": jnp.result_type(float).name}


def _row(
    name: str, batch: int, options: TrainBenchmark, known: list[dict[str, Any]], say: Callable[[str], None]
) -> dict[str, Any]:
    size, where = CONFIGURATIONS[name], f"{name}, batch {batch}"
    model = SequenceModel(size.model(), jax.random.key(0))
    work = operations(size, batch) / 1e9
    row: dict[str, Any] = {
        "dataset": name, "batch": batch, **size._asdict(), "parameters": parameter_count(model), "gflop": work,
        "note": None, "compile_s": None, "memory_mb": None, **dict.fromkeys(PROGRAMS),
        "to_matmuls": None, "to_sum": None, "matmul_gflops": None,
    }  # fmt: skip
    expected = max((work * one["step"]["best_ms"] / one["gflop"] / 1e3 for one in known if one["step"]), default=0)
    if expected > options.limit:
        return row | {"note": f"not measured, about {expected:.0f} s a step; raise --limit to have it"}
    say(f"{where}: compiling")
    given = arguments(model, size.length, batch)
    step, row["compile_s"] = compiled_in(given)
    row["memory_mb"] = megabytes(step)
    if note := too_large(row["memory_mb"]):
        return row | {"note": note}
    less = arguments(without_recurrence(model), size.length, batch)
    other = compiled(*less)
    multiply, arrays = matmuls(size, batch)
    thunks = {"step": lambda: step(*given), "sum": lambda: other(*less), "matmuls": lambda: multiply(*arrays)}
    # The matrix products are compiled at their first call, which is not timed.
    timings = interleave(
        thunks, rounds=options.rounds, budget=_BUDGET, say=lambda text: say(f"{where}: {text}")
    )  # fmt: skip
    row |= {each: measured(timings[each]) for each in PROGRAMS}
    row["to_matmuls"], row["to_sum"] = ratio(row["step"], row["matmuls"]), ratio(row["step"], row["sum"])
    row["matmul_gflops"] = 1e3 * work / row["matmuls"]["best_ms"]
    return row


def show(record: dict[str, Any]) -> None:
    """Print a record as a table, and explain its columns."""
    facts = record["environment"]
    heads = "model<|batch|T|comp.\ns|MB|step\nms|to mat-\nmuls|to\nsum|matmuls\nGFLOP/s"
    rows: list[list[str] | None] = []
    for i, row in enumerate(record["rows"]):
        if i and record["rows"][i - 1]["batch"] != row["batch"]:
            rows.append(None)
        numbers = (
            row["compile_s"], row["memory_mb"], (row["step"] or {}).get("best_ms"), row["to_matmuls"], row["to_sum"],
            row["matmul_gflops"],
        )  # fmt: skip
        rows.append([row["dataset"], str(row["batch"]), f"{row['length']:,}", *map(number, numbers)])
    uneven = [
        f"{row['dataset']} at batch {row['batch']}"
        for row in record["rows"]
        if any(is_uneven(row[name]) for name in PROGRAMS)
    ]
    print_table(
        heads.split("|"),
        rows,
        title=f"One training step of the published models, {record['dtype']}; {facts['processor']}, "
        f"{facts['cores']} cores",
        notes=[
            *(f"{row['dataset']}, batch {row['batch']}: {row['note']}." for row in record["rows"] if row["note"]),
            "Best times of several rounds, in turn. To matmuls: over the model's matrix products alone, forward and "
            "backward. To sum: over the same step with each recurrence replaced by a sum of its drives. Comp.: tracing "
            "and compiling the step. MB: arrays beyond the arguments, as planned by XLA.",
            *doubts(facts, uneven),
        ],
    )
