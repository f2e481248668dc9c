"""Training on ever longer sequences: time for each of their steps, and memory.

One step of training is everything that `training.step.train_step` does. The model takes a long sequence in chunks (see
`models/chunks.py`), so its memory is not proportional to the length.
"""

import textwrap
from typing import Any

import jax
import jax.numpy as jnp

from ..models import ModelConfig, SequenceModel, flops_per_step
from . import LongBenchmark
from .layer import make_record, measuring, run_benchmark
from .step import arguments, compiled_in, fresh_compilations, measured, megabytes, too_large
from .table import doubts, number, print_table
from .timing import environment, interleave, resident_bytes

# Seconds of rounds for each length.
_BUDGET = 60.0
REFERENCE, TARGET = 16_384, 1.2
"""The time for each step of the sequence may be this many times that at the reference length."""


def run(options: LongBenchmark) -> None:
    """Measures what the options ask for, prints a table and writes the record."""
    run_benchmark(options, measure, show, keep=not options.return_memory)


def configuration(options: LongBenchmark) -> ModelConfig:
    """The model that is trained."""
    return ModelConfig(
        input_dim=options.channels, output_dim=options.classes, width=options.width, state=options.state,
        depth=options.depth, cell=options.cell, encoder="linear", matmul=options.matmul,
    )  # fmt: skip


def measure(options: LongBenchmark) -> dict[str, Any]:
    """Measures what the options ask for.

    **Returns:**

    A record for JSON: `command`, `environment`, `options`, `flops` and `rows`. Of a row, `step` is the time of a training
    step in milliseconds, `microseconds` that for one step of one sequence, `memory_mb` what the compiler plans beyond the
    arguments, `peak_mb` the most that a fresh process has in memory, with Python and the compiler, and `gflops` the
    products in a second.
    """
    facts, rows, thunks = environment(), {}, {}
    config = configuration(options)
    model = SequenceModel(config, jax.random.key(0))
    flops = flops_per_step(model)
    with measuring("--lengths, --width, --state or --batch") as say, fresh_compilations():
        for length in sorted(set(options.lengths)):
            say(f"T = {length:,}: compiling")
            given = arguments(model, length, options.batch)
            step, seconds = compiled_in(given)
            rows[length] = {"length": length, "compile_s": seconds, "memory_mb": megabytes(step), "step": None,
                            "microseconds": None, "peak_mb": None, "gflops": None, "note": None}  # fmt: skip
            if note := too_large(rows[length]["memory_mb"]):
                rows[length]["note"] = note
            else:
                thunks[length] = lambda step=step, given=given: step(*given)
        timings = interleave(
            thunks, rounds=options.rounds, budget=_BUDGET, compiled=True, say=lambda text: say(f"T = {text}")
        )
        for length, timing in timings.items():
            tokens = length * options.batch
            rows[length] |= {"step": measured(timing), "microseconds": 1e6 * timing.best / tokens,
                             "gflops": 1e-9 * tokens * flops.training / timing.best}  # fmt: skip
        del thunks
        for length in timings:
            say(f"T = {length:,}: memory")
            rows[length]["peak_mb"] = _peak(config, length, options)
    more = {"dtype": jnp.result_type(float).name, "flops": flops._asdict()}
    return make_record("lrcssm benchmark long", options, facts, list(rows.values())) | more


def _peak(config: ModelConfig, length: int, options: LongBenchmark) -> float | None:
    """Megabytes of a fresh process that makes two steps."""
    source = f"""
        import jax
        from lrcssm.benchmark.step import arguments, compiled
        from lrcssm.memory import keep_memory
        from lrcssm.models import ModelConfig, SequenceModel
        {"" if options.return_memory else "keep_memory()"}
        config = ModelConfig.from_json({config.to_json()!r})
        given = arguments(SequenceModel(config, jax.random.key(0)), {length}, {options.batch})
        step = compiled(*given)
        for _ in range(2):
            jax.block_until_ready(step(*given))
    """
    grown = resident_bytes("", textwrap.dedent(source), timeout=1800)
    return None if grown is None else grown[0] / 1e6


def show(record: dict[str, Any]) -> None:
    """Prints a record as a table."""
    options, facts, rows = record["options"], record["environment"], record["rows"]
    flops = record["flops"]
    base = next((row["microseconds"] for row in rows if row["length"] == REFERENCE), None)
    times = {row["length"]: row["microseconds"] for row in rows if row["microseconds"]}
    notes = [f"T = {row['length']:,}: {row['note']}." for row in rows if row["note"]]
    notes += [
        f"Products: {flops['training']:,.0f} operations for each step of a sequence, c_f = {flops['constant']:.0f} for each of "
        "width and depth; what is computed a second time is not counted.",
        "µs: for one step of one sequence. planned: by the compiler, beyond the arguments. peak: of a fresh process, with "
        "Python and the compiler.",
    ]
    if base and times and max(times) > REFERENCE:
        ratio = times[max(times)] / base
        notes.append(
            f"At T = {max(times):,} a step of the sequence takes {ratio:.2f} times as long as at {REFERENCE:,} (at most "
            f"{TARGET}: {'met' if ratio <= TARGET else 'missed'})."
        )
    print_table(
        ["T", "comp.\ns", "step\nms", "µs", "GFLOP/s", "planned\nMB", "peak\nMB"],
        [
            [
                f"{row['length']:,}",
                *map(number, (
                    row["compile_s"], (row["step"] or {}).get("best_ms"), row["microseconds"], row["gflops"],
                    row["memory_mb"], row["peak_mb"],
                )),
            ]
            for row in rows
        ],
        title=f"One training step of {options['cell']}, batch {options['batch']}, width {options['width']}, state "
        f"{options['state']}, depth {options['depth']}, products in {options['matmul']}; {facts['processor']}, "
        f"{facts['cores']} cores",
        notes=[*notes, *doubts(facts, [])],
    )  # fmt: skip
