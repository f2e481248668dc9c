"""One LRC layer, forward and with its gradient: every solver, the straightforward JAX program, and PyTorch's LSTM.

The gradient is that of all parameters and of the inputs, for a fixed random cotangent of all states.
"""

import dataclasses
import importlib
import logging
import os
import re
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ..cells import LRC
from ..engine import DEER, ELK, Jacobi, Sequential, solve
from . import EngineBenchmark
from .timing import (
    Timing,
    check_destination,
    command_line,
    compiled_bytes,
    environment,
    interleave,
    progress,
    resident_bytes,
    write_record,
)

LABELS = {
    "sequential": "Sequential",
    "deer": "DEER",
    "elk": "ELK",
    "jacobi": "Jacobi",
    "scan": "lax.scan",
    "lstm": "torch.nn.LSTM",
}
SOLVERS = {"sequential": Sequential(), "deer": DEER(), "elk": ELK(), "jacobi": Jacobi()}
PASSES = ("forward", "forward_backward")
# The length at which the engine's speed has targets: that of the longest of the paper's data sets.
TARGET_LENGTH = 17984

# For each method at most 10 seconds of rounds, half of them for each pass.
_BUDGET = 5.0
# PyTorch's threads spin for a while after each call, on the cores that the next one is timed on.
_SPIN = 0.25


@dataclasses.dataclass(frozen=True)
class Case:
    """The data that all methods share."""

    cell: LRC
    inputs: jax.Array  # (time, batch, input)
    state: jax.Array  # (batch, state)
    cotangent: jax.Array  # (time, batch, state)


@dataclasses.dataclass
class Program:
    """One method. `memory` waits until a pass is compiled and gives its peak in bytes; `iterations` is known after the
    first forward pass."""

    forward: Callable[[], Any]
    forward_backward: Callable[[], Any]
    memory: dict[str, Callable[[], int | None]]
    iterations: Any = None


def run(options: EngineBenchmark) -> None:
    """Measures what the options ask for, prints a table and writes the record."""
    check_destination(options.json)
    record = measure(options)
    if options.json != "-":
        show(record)
    if options.json is not None:
        write_record(options.json, record)


def measure(options: EngineBenchmark) -> dict[str, Any]:
    """Measures what the options ask for.

    **Returns:**

    A record for JSON: `command`, `environment`, `options`, `rows` and `summary`. Times are in milliseconds, that of one
    step (of `forward_backward`) in microseconds, memory in MB of 10⁶ bytes; `..._to_scan` and `..._to_lstm` are the
    method's best time over that of the other.
    """
    if options.methods == ("lstm",):
        importlib.import_module("torch")
    facts = environment("torch")
    wide = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", wide or options.dtype == "float64")
    # A solver that fails says so in its row; jax would log the traceback of the callback that told it.
    logging.disable(logging.ERROR)
    try:
        with progress() as say:
            rows = [row for n in options.states for t in options.lengths for row in _rows(t, n, options, say)]
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise MemoryError("the arrays do not fit; give smaller --lengths, --states, --inputs or --batch") from error
    finally:
        logging.disable(logging.NOTSET)
        jax.config.update("jax_enable_x64", wide)
    return {
        "command": command_line("lrcssm benchmark engine", options),
        "environment": facts,
        "options": {key: value for key, value in dataclasses.asdict(options).items() if key != "json"},
        "rows": rows,
        "summary": summary(rows),
    }


def _rows(length: int, states: int, options: EngineBenchmark, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """All methods at one length and number of states, timed in turn."""
    where = f"T={length:,} N={states}"
    keys = jax.random.split(jax.random.key(0), 3)
    dtype = jnp.dtype(options.dtype)
    case = Case(
        cell=LRC(options.inputs, states, form=options.form, dtype=dtype, key=keys[0]),
        inputs=jax.random.normal(keys[1], (length, options.batch, options.inputs), dtype),
        state=jnp.zeros((options.batch, states), dtype),
        cotangent=jax.random.normal(keys[2], (length, options.batch, states), dtype),
    )
    jax.block_until_ready((case.inputs, case.cotangent))
    programs: dict[str, Program] = {}
    notes: dict[str, str] = {}
    say(f"{where}: compiling")
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        for method in dict.fromkeys(options.methods):
            try:
                programs[method] = _torch_program(case, pool) if method == "lstm" else _jax_program(case, method, pool)
            except ModuleNotFoundError as error:
                if error.name != "torch":
                    raise
                notes[method] = 'not installed: pip install "lrcssm[bench]"'
        memory = {(m, name): program.memory[name]() for m, program in programs.items() for name in PASSES}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    failures: dict[Any, Exception] = {}
    timings = interleave(
        {(method, name): getattr(program, name) for name in PASSES for method, program in programs.items()},
        rounds=options.rounds,
        budget=_BUDGET,
        compiled=True,
        pauses={("lstm", name): _SPIN for name in PASSES},
        failures=failures,
        say=lambda text: say(f"{where} {text}"),
    )
    notes |= {method: _reason(error) for (method, _), error in failures.items()}
    rows = []
    for method in dict.fromkeys(options.methods):
        program = programs.get(method)
        row: dict[str, Any] = {"length": length, "states": states, "method": method, "note": notes.get(method)}
        row["iterations"] = None if program is None or program.iterations is None else int(program.iterations)
        for name in PASSES:
            timing = timings.get((method, name))
            row[name] = timing and _measured(timing, memory[method, name])
        both = row["forward_backward"]
        row["step_us"] = both and 1e3 * both["best_ms"] / length
        for name in PASSES:
            for other in ("scan", "lstm"):
                timing, reference = timings.get((method, name)), timings.get((other, name))
                row[f"{name}_to_{other}"] = timing.best / reference.best if timing and reference else None
        rows.append(row)
    return rows


def _measured(timing: Timing, memory: int | None) -> dict[str, Any]:
    return {
        "best_ms": 1e3 * timing.best,
        "median_ms": 1e3 * timing.median,
        "rounds": timing.rounds,
        "memory_mb": None if memory is None else memory / 1e6,
    }


def _jax_program(case: Case, method: str, pool: Executor) -> Program:
    params, static = eqx.partition(case.cell, eqx.is_inexact_array)

    def evaluate(params, inputs, state):
        cell = eqx.combine(params, static)
        if method == "scan":
            return _scan(cell, inputs, state), None
        # The initial state is an argument because XLA folds a constant one, for minutes where the sequence is long.
        solution = solve(cell, inputs, state=state, solver=SOLVERS[method])
        return solution.states, jnp.max(solution.iterations)

    @jax.jit
    def forward(params, inputs, state):
        return evaluate(params, inputs, state)

    @jax.jit
    def forward_backward(params, inputs, state, cotangent):
        _, pullback = jax.vjp(lambda params, inputs: evaluate(params, inputs, state)[0], params, inputs)
        return pullback(cotangent)

    def call_forward():
        states, program.iterations = forward(*given)
        return states

    given = (params, case.inputs, case.state)
    program = Program(
        forward=call_forward,
        forward_backward=lambda: forward_backward(*given, case.cotangent),
        memory={
            "forward": pool.submit(compiled_bytes, forward, *given).result,
            "forward_backward": pool.submit(compiled_bytes, forward_backward, *given, case.cotangent).result,
        },
    )
    return program


def _scan(cell: LRC, inputs: jax.Array, state: jax.Array) -> jax.Array:
    """The program that one would write without an engine: the drive of all steps, then one step after the other."""

    def step(state, drive):
        state = cell.step(state, drive)
        return state, state

    return lax.scan(step, state, cell.drive(inputs))[1]


def lstm(
    length: int, batch: int, inputs: int, states: int, dtype: str
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """PyTorch's LSTM on random data: a forward and a forward and backward pass, of all steps or of the first few."""
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    layer = torch.nn.LSTM(inputs, states, dtype=kind)
    data = torch.randn(length, batch, inputs, dtype=kind, requires_grad=True)
    cotangent = torch.randn(length, batch, states, dtype=kind)

    def forward(steps=length):
        with torch.no_grad():
            return layer(data[:steps])[0]

    def forward_backward(steps=length):
        return torch.autograd.grad(layer(data[:steps])[0], [*layer.parameters(), data], cotangent[:steps])

    return forward, forward_backward


def _torch_program(case: Case, pool: Executor) -> Program:
    length, batch, inputs = case.inputs.shape
    sizes = (length, batch, inputs, case.state.shape[1], case.inputs.dtype.name)
    forward, forward_backward = lstm(*sizes)
    # One step first, so that what PyTorch loads at its first call is not counted.
    setup = f"from {__name__} import lstm; forward, both = lstm{sizes}; forward(1); both(1)"
    peaks = pool.submit(resident_bytes, setup, "forward()", "both()")

    def peak(i: int) -> int | None:
        found = peaks.result()
        return None if found is None else found[i]

    return Program(forward, forward_backward, {name: partial(peak, i) for i, name in enumerate(PASSES)})


def _reason(error: Exception) -> str:
    """The sentence in an error that was raised inside a compiled function."""
    text = str(error)
    found = re.search(r"EquinoxRuntimeError: (.+)", text)
    return f"failed: {found[1] if found else text.strip().splitlines()[0]}"


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each number of states: how constant the sequential time per step is over the lengths (greatest over smallest,
    less one), and the two ratios that have targets."""
    found = []
    for states in dict.fromkeys(row["states"] for row in rows):
        mine = [row for row in rows if row["states"] == states and row["method"] == "sequential" and row["step_us"]]
        if not mine:
            continue
        entry: dict[str, Any] = {"states": states, "lengths": sorted({row["length"] for row in mine})}
        for name in PASSES:
            steps = [row[name]["best_ms"] / row["length"] for row in mine]
            entry[f"{name}_variation"] = max(steps) / min(steps) - 1
        at = next((row for row in mine if row["length"] == TARGET_LENGTH), None)
        for other in ("scan", "lstm"):
            entry[f"target_to_{other}"] = at and at[f"forward_backward_to_{other}"]
        found.append(entry)
    return found


def show(record: dict[str, Any]) -> None:
    """Prints a record as a table, with what its columns mean and the summary."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.width = max(console.width, 80)  # a number that is cut is worse than a line that is broken
    options, facts = record["options"], record["environment"]
    console.print(
        f"LRC, {options['form']} form, batch {options['batch']}, {options['inputs']} inputs, {options['dtype']}; "
        f"{facts['processor']}, {facts['cores']} cores"
    )
    table = Table(box=box.SIMPLE_HEAD, padding=0)
    heads = "T, N, method, iter., fwd\nms, fwd+\nbwd ms, µs per\nstep, fwd\nMB, fwd+\nbwd MB, to\nscan, to\nLSTM"
    for head in heads.split(", "):
        table.add_column(head, justify="left" if head == "method" else "right", no_wrap=True)
    for row in record["rows"]:
        passes = [row[name] or {} for name in PASSES]
        table.add_row(
            f"{row['length']:,}",
            str(row["states"]),
            LABELS[row["method"]],
            str(row["iterations"] or "–"),
            *(_number(each.get("best_ms")) for each in passes),
            _number(row["step_us"]),
            *(_number(each.get("memory_mb")) for each in passes),
            *(_number(row[f"forward_backward_to_{other}"]) for other in ("scan", "lstm")),
            end_section=row["method"] == options["methods"][-1],
        )
    console.print(table)
    for note in dict.fromkeys(f"{LABELS[row['method']]}: {row['note']}" for row in record["rows"] if row["note"]):
        console.print(note, markup=False)
    console.print(
        "Best times of several rounds, in turn. Time per step and the ratios (below 1 is faster) are of fwd+bwd. "
        "lax.scan is differentiated by JAX. MB: arrays beyond the arguments, as planned by XLA; for PyTorch, by how "
        "much the resident memory of a fresh process grew."
    )
    for sentence in [*_doubts(record), *(each for entry in record["summary"] for each in _sentences(entry))]:
        console.print(sentence)


def _doubts(record: dict[str, Any]) -> list[str]:
    """What speaks against the numbers. Threads that wait for each other by spinning, as PyTorch's do, can be ten times
    slower when they do not have their cores to themselves, which would flatter everything else."""
    load, cores = record["environment"]["load"], record["environment"]["cores"]
    doubts = []
    if load is not None and cores is not None and load > cores / 2:
        doubts.append(
            f"The load was {load:.1f} on {cores} cores at the start: other programs disturb the times, and those of "
            "PyTorch most; measure again on a quiet machine before you quote them."
        )
    uneven = [
        f"{LABELS[row['method']]} at T={row['length']:,}"
        for row in record["rows"]
        if any(row[name] and row[name]["median_ms"] > 1.5 * row[name]["best_ms"] for name in PASSES)
    ]
    if uneven:
        doubts.append(f"Uneven times, median over 1.5 times the best: {', '.join(dict.fromkeys(uneven))}.")
    return doubts


def _sentences(entry: dict[str, Any]) -> list[str]:
    lengths, sentences = entry["lengths"], []
    if len(lengths) > 1:
        sentences.append(
            f"Sequential, N={entry['states']}: time per step from T={lengths[0]:,} to T={lengths[-1]:,} varies by "
            f"{100 * entry['forward_backward_variation']:.0f} % (fwd alone: {100 * entry['forward_variation']:.0f} %)."
        )
    targets = {"lax.scan with autodiff": entry["target_to_scan"], "torch.nn.LSTM": entry["target_to_lstm"]}
    parts = [f"{ratio:.2f} of the time of {other}" for other, ratio in targets.items() if ratio]
    if parts:
        sentences.append(
            f"Sequential, N={entry['states']}: at T={TARGET_LENGTH:,}, fwd+bwd takes {' and '.join(parts)}."
        )
    return sentences


def _number(value: float | None) -> str:
    """As many digits as mean something."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.1g}"
