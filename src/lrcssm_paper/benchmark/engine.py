"""One LRC layer, forward and with its gradient: every solver, the straightforward JAX program, and PyTorch's LSTM.

The gradient is that of all parameters and of the inputs, for a fixed random cotangent of all states.
"""

import importlib
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lrcssm.cells import LRC
from lrcssm.engine import DEER, ELK, Jacobi, Sequential, solve
from lrcssm.machine import environment
from lrcssm.report.table import doubts, number, print_table

from . import EngineBenchmark
from .layer import (
    PASSES,
    Case,
    Program,
    compare,
    compilers,
    jax_program,
    make_record,
    measuring,
    ratio,
    run_benchmark,
    step_us,
    too_long,
    uneven,
    unmeasured,
)
from .timing import resident_bytes

LABELS = {
    "sequential": "Sequential",
    "deer": "DEER",
    "elk": "ELK",
    "jacobi": "Jacobi",
    "scan": "lax.scan",
    "lstm": "torch.nn.LSTM",
}
SOLVERS = {"sequential": Sequential(), "deer": DEER(), "elk": ELK(), "jacobi": Jacobi()}
# The length at which the engine's speed has targets: that of the longest of the paper's data sets.
TARGET_LENGTH = 17984

# PyTorch's threads spin for a while after each call, on the cores that the next one is timed on.
_SPIN = 0.25


def run(options: EngineBenchmark) -> None:
    """Measures what the options ask for, prints a table and writes the record."""
    run_benchmark(options, measure, show, keep=options.keep_memory)


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
    try:
        with measuring("--lengths, --states, --inputs or --batch") as say:
            rows = []
            for states in options.states:
                for length in options.lengths:
                    rows += _rows(length, states, options, rows, say)
    finally:
        jax.config.update("jax_enable_x64", wide)
    return make_record("lrcssm benchmark engine", options, facts, rows) | {"summary": summary(rows)}


def _rows(
    length: int, states: int, options: EngineBenchmark, known: list[dict[str, Any]], say: Callable[[str], None]
) -> list[dict[str, Any]]:
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
    found: dict[str, dict[str, Any]] = {}
    methods = tuple(dict.fromkeys(options.methods))
    say(f"{where}: compiling")
    with compilers() as pool:
        for method in methods:
            expected = max((length * row["step_us"] / 1e6 for row in known if _same(row, method, states)), default=0)
            if expected > options.limit:
                found[method] = too_long(length, expected)
                continue
            try:
                programs[method] = _torch_program(case, pool) if method == "lstm" else _jax_program(case, method, pool)
            except ModuleNotFoundError as error:
                if error.name != "torch":
                    raise
                found[method] = unmeasured('not installed: pip install "lrcssm[bench]"')
        found |= compare(
            programs, rounds=options.rounds, pauses={"lstm": _SPIN}, say=lambda text: say(f"{where} {text}")
        )
    rows = []
    for method in methods:
        row = {"length": length, "states": states, "method": method, **found[method]}
        row["step_us"] = step_us(row["forward_backward"], length)
        for name in PASSES:
            for other in ("scan", "lstm"):
                row[f"{name}_to_{other}"] = ratio(row[name], found.get(other, unmeasured(None))[name])
        rows.append(row)
    return rows


def _same(row: dict[str, Any], method: str, states: int) -> bool:
    return row["method"] == method and row["states"] == states and row["step_us"] is not None


def _jax_program(case: Case, method: str, pool: Executor) -> Program:
    def evaluate(cell, inputs, state):
        if method == "scan":
            return _scan(cell, inputs, state), None
        solution = solve(cell, inputs, state=state, solver=SOLVERS[method])
        return solution.states, jnp.max(solution.iterations)

    return jax_program(case, evaluate, pool)


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
    options, facts = record["options"], record["environment"]
    heads = "T, N, method<, iter., fwd\nms, fwd+\nbwd ms, µs per\nstep, fwd\nMB, fwd+\nbwd MB, to\nscan, to\nLSTM"
    rows: list[list[str] | None] = []
    for row in record["rows"]:
        passes = [row[name] or {} for name in PASSES]
        rows.append(
            [
                f"{row['length']:,}",
                str(row["states"]),
                LABELS[row["method"]],
                str(row["iterations"] or "–"),
                *(number(each.get("best_ms")) for each in passes),
                number(row["step_us"]),
                *(number(each.get("memory_mb")) for each in passes),
                *(number(row[f"forward_backward_to_{other}"]) for other in ("scan", "lstm")),
            ]
        )
        if row["method"] == options["methods"][-1]:
            rows.append(None)
    print_table(
        heads.split(", "),
        rows,
        title=f"LRC, {options['form']} form, batch {options['batch']}, {options['inputs']} inputs, {options['dtype']}; "
        f"{facts['processor']}, {facts['cores']} cores",
        notes=[
            *dict.fromkeys(f"{LABELS[row['method']]}: {row['note']}" for row in record["rows"] if row["note"]),
            "Best times of several rounds, in turn. Time per step and the ratios (below 1 is faster) are of fwd+bwd. "
            "lax.scan is differentiated by JAX. MB: arrays beyond the arguments, as planned by XLA; for PyTorch, by "
            "how much the resident memory of a fresh process grew.",
            *doubts(
                facts, [f"{LABELS[row['method']]} at T={row['length']:,}" for row in record["rows"] if uneven(row)]
            ),
            *(each for entry in record["summary"] for each in _sentences(entry)),
        ],
    )


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
