"""What training several runs in one program saves (`lrcssm.tuning.together`): the time of a step for each run, side by side
over one after the other."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from lrcssm.engine import Auto
from lrcssm.errors import InvalidValue
from lrcssm.machine import environment
from lrcssm.models import RELEASED, ModelConfig, SequenceModel
from lrcssm.report.table import doubts, number, print_table
from lrcssm.training import TrainingConfig
from lrcssm.training.step import TrainState, train_step

from . import TogetherBenchmark
from .layer import make_record, measuring, ratio, run_benchmark
from .step import measured
from .timing import interleave

_DEFAULT = {"layout": "plain", "dropout": 0.1, "pool": "mean-max-std", "bidirectional": True}
SIZES: dict[str, tuple[int, int, int, dict[str, Any]]] = {
    "digits-small": (64, 16, 1, _DEFAULT | {"hidden_dim": 8, "state_dim": 8, "num_blocks": 1, "patch": 8}),
    "digits": (64, 16, 1, _DEFAULT | {"hidden_dim": 64, "state_dim": 64, "num_blocks": 2, "patch": 8}),
    "scp1": (896, 16, 6, _DEFAULT | {"hidden_dim": 64, "state_dim": 64, "num_blocks": 2, "patch": 29}),
    "paper-16-16-2": (896, 4, 6, RELEASED | {"hidden_dim": 16, "state_dim": 16, "num_blocks": 2}),
    "paper-64-16-2": (896, 4, 6, RELEASED | {"hidden_dim": 64, "state_dim": 16, "num_blocks": 2}),
    "paper-64-64-6": (896, 4, 6, RELEASED | {"hidden_dim": 64, "state_dim": 64, "num_blocks": 6}),
    "paper-128-256-2": (896, 4, 6, RELEASED | {"hidden_dim": 128, "state_dim": 256, "num_blocks": 2}),
}
"""Length, batch, channels and model by name: the default preset for digits and SelfRegulationSCP1, and points of the paper's
grid (width, state, depth) on SelfRegulationSCP1."""

# Seconds of rounds for each way.
_BUDGET = 30.0


def run(options: TogetherBenchmark) -> None:
    """Measures what the options ask for, prints a table and writes the record."""
    run_benchmark(options, measure, show, keep=not options.return_memory)


def measure(options: TogetherBenchmark) -> dict[str, Any]:
    """Measures what the options ask for.

    **Returns:**

    A record for JSON: `command`, `environment`, `options`, `dtype` and `rows`. Of a row, `alone` and `together` are the times
    of a step of one run in milliseconds, and `ratio` is that of their best.
    """
    for asked in options.sizes:
        if asked != "all" and not any(name.startswith(asked) for name in SIZES):
            raise InvalidValue(f"--sizes got {asked!r}; give all, or beginnings of {', '.join(SIZES)}.")
    facts, rows = environment(), []
    with measuring("--runs") as say:
        for name, size in SIZES.items():
            if any(asked == "all" or name.startswith(asked) for asked in options.sizes):
                say(f"{name}: compiling")
                rows.append({"size": name} | _row(*size, options, lambda text, name=name: say(f"{name}: {text}")))
    return make_record("lrcssm benchmark together", options, facts, rows) | {"dtype": jnp.result_type(float).name}


def _row(
    length: int, batch: int, channels: int, fields: dict[str, Any], options: TogetherBenchmark, say: Any
) -> dict[str, Any]:
    runs, steps, rng = options.runs, options.steps, np.random.default_rng(0)
    config = ModelConfig(input_dim=channels, output_dim=2, **fields)
    knobs = [TrainingConfig(learning_rate=1e-4 * 2**i).knobs() for i in range(runs)]
    keys = [jax.random.key(i) for i in range(runs)]
    states = [TrainState.start(SequenceModel(config, key), own) for key, own in zip(keys, knobs, strict=True)]
    inputs = rng.normal(size=(runs, length, batch, channels)).astype(np.float32)
    targets = rng.integers(0, 2, (runs, batch)).astype(np.int32)
    batches = [(inputs[i], None, None, targets[i], np.ones(batch, np.float32)) for i in range(runs)]
    stacked = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees) for trees in (states, batches, knobs)]
    side_by_side = eqx.filter_jit(eqx.filter_vmap(train_step))

    def alone():
        ends = []
        for state, data, own, key in zip(states, batches, knobs, keys, strict=True):
            for _ in range(steps):
                state = train_step(state, data, own, key, Auto())[0]
            ends.append(state.step)
        return ends

    def together():
        state, *rest = stacked
        for _ in range(steps):
            state = side_by_side(state, *rest, jnp.stack(keys), Auto())[0]
        return state.step

    found = interleave({"alone": alone, "together": together}, rounds=options.rounds, budget=_BUDGET, say=say)
    row = {name: measured(timing) for name, timing in found.items()}
    for each in row.values():
        each["best_ms"], each["median_ms"] = (each[name] / runs / steps for name in ("best_ms", "median_ms"))
    return row | {"ratio": ratio(row["together"], row["alone"])}


def show(record: dict[str, Any]) -> None:
    """Prints a record as a table."""
    options, facts, rows = record["options"], record["environment"], record["rows"]
    uneven = [
        row["size"] for row in rows
        if any(row[name]["median_ms"] > 1.5 * row[name]["best_ms"] for name in ("alone", "together"))
    ]  # fmt: skip
    print_table(
        ["model<", "alone\nms", "together\nms", "together\n/ alone"],
        [
            [row["size"], *(number(row[name]["best_ms"]) for name in ("alone", "together")), number(row["ratio"])]
            for row in rows
        ],
        title=f"A training step of one run, {options['runs']} runs, {record['dtype']}; {facts['processor']}, "
        f"{facts['cores']} cores",
        notes=["Best times of several rounds, in turn.", *doubts(facts, uneven)],
    )
