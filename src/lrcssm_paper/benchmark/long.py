"""Training on ever longer sequences: time for each of their steps, and memory.

One step of training is everything that `training.step.train_step` does. The model takes a long sequence in chunks (see
`models/plan.py`), so its memory is not proportional to the length.
"""

import textwrap
from typing import Any

import jax
import jax.numpy as jnp

from lrcssm.machine import environment
from lrcssm.models import RELEASED, ModelConfig, SequenceModel, flops_per_step
from lrcssm.models.budget import as_bytes
from lrcssm.report.table import doubts, number, print_table

from . import LongBenchmark
from .layer import make_record, measuring, run_benchmark
from .step import arguments, compiled_in, fresh_compilations, measured, megabytes, too_large
from .timing import interleave, resident_bytes

# Seconds of rounds for each length.
_BUDGET = 60.0
REFERENCE, TARGET = 16_384, 1.2
"""The time for each step of the sequence may be this many times that at the reference length."""


def run(options: LongBenchmark) -> None:
    """Measures what the options ask for, prints a table and writes the record."""
    run_benchmark(options, measure, show, keep=not options.return_memory)


def configuration(options: LongBenchmark) -> ModelConfig:
    """The model that is trained."""
    block: dict[str, Any] = RELEASED if options.released else {"encoder": "linear"}
    return ModelConfig(
        input_dim=options.channels, output_dim=options.classes, width=options.width, state=options.state,
        depth=options.depth, cell=options.cell, matmul=options.matmul, **block,
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
    config, memory = configuration(options), _memory(options)
    model = SequenceModel(config, jax.random.key(0))
    flops = flops_per_step(model)
    with measuring("--lengths, --hidden-dim, --state or --batch") as say, fresh_compilations():
        for way in ((length, chunk) for length in sorted(set(options.lengths)) for chunk in (None, *options.chunks)):
            say(f"T = {_words(way)}: compiling")
            given = (*arguments(model, way[0], options.batch), None, way[1], memory)
            step, seconds = compiled_in(given)
            rows[way] = {"length": way[0], "chunk": way[1], "compile_s": seconds, "memory_mb": megabytes(step), "step": None,
                         "microseconds": None, "peak_mb": None, "gflops": None, "note": None}  # fmt: skip
            if note := too_large(rows[way]["memory_mb"]):
                rows[way]["note"] = note
            else:
                thunks[way] = lambda step=step, given=given: step(*given)
        timings = interleave(
            thunks, rounds=options.rounds, budget=_BUDGET, compiled=True, say=lambda text: say(f"T, chunk = {text}")
        )
        for way, timing in timings.items():
            tokens = way[0] * options.batch
            rows[way] |= {"step": measured(timing), "microseconds": 1e6 * timing.best / tokens,
                          "gflops": 1e-9 * tokens * flops.training / timing.best}  # fmt: skip
        del thunks
        for length, chunk in timings:
            say(f"T = {_words((length, chunk))}: memory")
            rows[length, chunk]["peak_mb"] = _peak(config, length, chunk, options)
    more = {"dtype": jnp.result_type(float).name, "flops": flops._asdict()}
    return make_record("lrcssm benchmark long", options, facts, list(rows.values())) | more


def _memory(options: LongBenchmark) -> int | None:
    return None if options.memory is None else as_bytes(options.memory, "The benchmark")


def _words(way: tuple[int, int | None]) -> str:
    length, chunk = way
    return f"{length:,}" + ("" if chunk is None else f" in chunks of {chunk:,}")


def _peak(config: ModelConfig, length: int, chunk: int | None, options: LongBenchmark) -> float | None:
    """Megabytes of a fresh process that makes two steps."""
    source = f"""
        import jax
        from lrcssm_paper.benchmark.step import arguments, compiled
        from lrcssm.memory import keep_memory
        from lrcssm.models import ModelConfig, SequenceModel
        {"" if options.return_memory else "keep_memory()"}
        config = ModelConfig.from_json({config.to_json()!r})
        given = (*arguments(SequenceModel(config, jax.random.key(0)), {length}, {options.batch}), None, {chunk}, {_memory(options)})
        step = compiled(*given)
        for _ in range(2):
            jax.block_until_ready(step(*given))
    """
    grown = resident_bytes("", textwrap.dedent(source), timeout=1800.0)
    return None if grown is None else grown[0] / 1e6


def show(record: dict[str, Any]) -> None:
    """Prints a record as a table."""
    options, facts, rows = record["options"], record["environment"], record["rows"]
    flops = record["flops"]
    times = {row["length"]: row["microseconds"] for row in rows if row["microseconds"] and row["chunk"] is None}
    base = times.get(REFERENCE)
    notes = [f"T = {_words((row['length'], row['chunk']))}: {row['note']}." for row in rows if row["note"]]
    notes += [
        f"Products: {flops['training']:,.0f} operations for each step of a sequence, c_f = {flops['constant']:.0f} for each of "
        "width and depth; what is computed a second time is not counted.",
        "chunk: – is what the model chooses by itself. µs: for one step of one sequence. planned: by the compiler, beyond the arguments. peak: of a fresh process, with "
        "Python and the compiler.",
    ]
    if base and times and max(times) > REFERENCE:
        ratio = times[max(times)] / base
        notes.append(
            f"At T = {max(times):,} a step of the sequence takes {ratio:.2f} times as long as at {REFERENCE:,} (at most "
            f"{TARGET}: {'met' if ratio <= TARGET else 'missed'})."
        )
    print_table(
        ["T", "chunk", "comp.\ns", "step\nms", "µs", "GFLOP/s", "planned\nMB", "peak\nMB"],
        [
            [
                f"{row['length']:,}",
                "–" if row["chunk"] is None else f"{row['chunk']:,}",
                *map(number, (
                    row["compile_s"], (row["step"] or {}).get("best_ms"), row["microseconds"], row["gflops"],
                    row["memory_mb"], row["peak_mb"],
                )),
            ]
            for row in rows
        ],
        title=f"One training step of {options['cell']}, batch {options['batch']}, width {options['width']}, state "
        f"{options['state']}, depth {options['depth']}{', released block' if options['released'] else ''}, products in {options['matmul']}{', at most ' + options['memory'] if options['memory'] else ''}; {facts['processor']}, "
        f"{facts['cores']} cores",
        notes=[*notes, *doubts(facts, [])],
    )  # fmt: skip
