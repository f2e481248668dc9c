"""Training on ever longer sequences: time for each of their steps, and memory.

The model processes a long sequence in chunks, so its memory does not grow in proportion to the length.
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
from .models import sizes_of
from .record import make_record, measuring
from .step import arguments, compiled_in, fresh_compilations, megabytes, too_large
from .timing import interleave, measured, resident_bytes

# Seconds of rounds for each length.
_BUDGET = 60.0


def configuration(options: LongBenchmark) -> ModelConfig:
    """The model that is trained: channels and classes are those of EigenWorms."""
    block: dict[str, Any] = {"encoder": "linear", "layout": "pre-norm", "dropout": 0.0, "pool": "mean"}
    sizes = {name: getattr(options, name) for name in ("hidden_dim", "state_dim", "num_blocks", "matmul")}
    return ModelConfig(input_dim=6, output_dim=5, **sizes, **(RELEASED if options.released else block))


def measure(options: LongBenchmark) -> dict[str, Any]:
    """Measure a training step at all lengths.

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
    with measuring("--lengths, --hidden-dim, --state-dim or --batch") as say, fresh_compilations():
        for way in ((length, chunk) for length in sorted(set(options.lengths)) for chunk in (None, *options.chunks)):
            say(f"T = {_words(way)}: compiling")
            given = arguments(model, way[0], options.batch, way[1], memory)
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
    return make_record("long", options, facts, list(rows.values())) | more


def _memory(options: LongBenchmark) -> int | None:
    return None if options.memory is None else as_bytes(options.memory, "The benchmark")


def _words(way: tuple[int, int | None]) -> str:
    length, chunk = way
    return f"{length:,}" + ("" if chunk is None else f" in chunks of {chunk:,}")


def _peak(config: ModelConfig, length: int, chunk: int | None, options: LongBenchmark) -> float | None:
    """Peak megabytes of a fresh process that makes two steps."""
    source = f"""
        import jax
        from lrcssm_paper.benchmark.step import arguments, compiled
        from lrcssm.memory import keep_memory
        from lrcssm.models import ModelConfig, SequenceModel
        keep_memory()
        config = ModelConfig.from_json({config.to_json()!r})
        given = arguments(SequenceModel(config, jax.random.key(0)), {length}, {options.batch}, {chunk}, {_memory(options)})
        step = compiled(*given)
        for _ in range(2):
            jax.block_until_ready(step(*given))
    """
    grown = resident_bytes("", textwrap.dedent(source), timeout=1800.0)
    return None if grown is None else grown[0] / 1e6


def show(record: dict[str, Any]) -> None:
    """Print a record as a table."""
    options, facts, rows = record["options"], record["environment"], record["rows"]
    flops = record["flops"]
    notes = [f"T = {_words((row['length'], row['chunk']))}: {row['note']}." for row in rows if row["note"]]
    notes += [
        f"Products: {flops['training']:,.0f} operations for each step of a sequence, c_f = {flops['constant']:.0f} for each of "
        "hidden dimension and blocks; recomputation is not counted.",
        "chunk: – is the model's own choice. µs: for one step of one sequence. planned: by the compiler, beyond the arguments. "
        "peak: of a fresh process, with Python and the compiler.",
    ]
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
        title=f"One training step of LRC, {sizes_of(options)}{_variant(options)}; {facts['processor']}, {facts['cores']} cores",
        notes=[*notes, *doubts(facts, [])],
    )  # fmt: skip


def _variant(options: dict[str, Any]) -> str:
    parts = ["released block"] if options["released"] else []
    parts += [f"products in {options['matmul']}"] if options["matmul"] != "float32" else []
    parts += [f"at most {options['memory']}"] if options["memory"] else []
    return "".join(f", {part}" for part in parts)
