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
from .layer import PASSES, Case, Program, compare, compilers, jax_program, step_us, too_long, uneven, unmeasured
from .record import make_record, measuring
from .timing import ratio, resident_bytes

LABELS = {
    "sequential": "Sequential",
    "deer": "DEER",
    "elk": "ELK",
    "jacobi": "Jacobi",
    "scan": "lax.scan",
    "lstm": "torch.nn.LSTM",
}
SOLVERS = {"sequential": Sequential(), "deer": DEER(), "elk": ELK(), "jacobi": Jacobi()}

# PyTorch's threads spin for a while after each call, on the cores that the next one is timed on.
_SPIN = 0.25


def measure(options: EngineBenchmark) -> dict[str, Any]:
    """Measure all methods at all lengths.

    **Returns:**

    A record for JSON: `command`, `environment`, `options` and `rows`. Times are in milliseconds, that of one step (of
    `forward_backward`) in microseconds, memory in MB of 10⁶ bytes; `..._to_scan` and `..._to_lstm` are the method's best time
    over that of the other.
    """
    if options.methods == ("lstm",):
        importlib.import_module("torch")
    facts, rows = environment("torch"), []
    with measuring("--lengths, --state-dim, --input-dim or --batch") as say:
        for length in options.lengths:
            rows += _rows(length, options, rows, say)
    return make_record("engine", options, facts, rows)


def _rows(
    length: int, options: EngineBenchmark, known: list[dict[str, Any]], say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Rows of all methods at one length, timed in turn."""
    where, dtype = f"T={length:,}", jnp.float32
    keys = jax.random.split(jax.random.key(0), 3)
    case = Case(
        cell=LRC(options.input_dim, options.state_dim, form=options.form, dtype=dtype, key=keys[0]),
        inputs=jax.random.normal(keys[1], (length, options.batch, options.input_dim), dtype),
        state=jnp.zeros((options.batch, options.state_dim), dtype),
        cotangent=jax.random.normal(keys[2], (length, options.batch, options.state_dim), dtype),
    )
    jax.block_until_ready((case.inputs, case.cotangent))
    programs: dict[str, Program] = {}
    found: dict[str, dict[str, Any]] = {}
    methods = tuple(dict.fromkeys(options.methods))
    say(f"{where}: compiling")
    with compilers() as pool:
        for method in methods:
            expected = max((length * row["step_us"] / 1e6 for row in known if _same(row, method)), default=0)
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
        row = {"length": length, "method": method, **found[method]}
        row["step_us"] = step_us(row["forward_backward"], length)
        for name in PASSES:
            for other in ("scan", "lstm"):
                row[f"{name}_to_{other}"] = ratio(row[name], found.get(other, unmeasured(None))[name])
        rows.append(row)
    return rows


def _same(row: dict[str, Any], method: str) -> bool:
    return row["method"] == method and row["step_us"] is not None


def _jax_program(case: Case, method: str, pool: Executor) -> Program:
    def evaluate(cell, inputs, state):
        if method == "scan":
            return _scan(cell, inputs, state), None
        solution = solve(cell, inputs, state=state, solver=SOLVERS[method])
        return solution.states, jnp.max(solution.iterations)

    return jax_program(case, evaluate, pool)


def _scan(cell: LRC, inputs: jax.Array, state: jax.Array) -> jax.Array:
    """The straightforward program: the drive of all steps, then one step after the other."""

    def step(state, drive):
        state = cell.step(state, drive)
        return state, state

    return lax.scan(step, state, cell.drive(inputs))[1]


def lstm(length: int, batch: int, inputs: int, states: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """PyTorch's LSTM on random data: a forward and a forward and backward pass, of all steps or of the first few."""
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    layer = torch.nn.LSTM(inputs, states)
    data = torch.randn(length, batch, inputs, requires_grad=True)
    cotangent = torch.randn(length, batch, states)

    def forward(steps=length):
        with torch.no_grad():
            return layer(data[:steps])[0]

    def forward_backward(steps=length):
        return torch.autograd.grad(layer(data[:steps])[0], [*layer.parameters(), data], cotangent[:steps])

    return forward, forward_backward


def _torch_program(case: Case, pool: Executor) -> Program:
    length, batch, inputs = case.inputs.shape
    sizes = (length, batch, inputs, case.state.shape[1])
    forward, forward_backward = lstm(*sizes)
    # One step first: PyTorch loads libraries at its first call.
    setup = f"from {__name__} import lstm; forward, both = lstm{sizes}; forward(1); both(1)"
    peaks = pool.submit(resident_bytes, setup, "forward()", "both()")

    def peak(i: int) -> int | None:
        found = peaks.result()
        return None if found is None else found[i]

    return Program(forward, forward_backward, {name: partial(peak, i) for i, name in enumerate(PASSES)})


def show(record: dict[str, Any]) -> None:
    """Print a record as a table, and explain its columns."""
    options, facts = record["options"], record["environment"]
    heads = "T, method<, iter., fwd\nms, fwd+\nbwd ms, µs per\nstep, fwd\nMB, fwd+\nbwd MB, to\nscan, to\nLSTM"
    rows: list[list[str] | None] = []
    for row in record["rows"]:
        passes = [row[name] or {} for name in PASSES]
        rows.append(
            [
                f"{row['length']:,}",
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
        title=f"LRC, {options['form']} form, batch {options['batch']}, {options['input_dim']} inputs, {options['state_dim']} states, float32; "
        f"{facts['processor']}, {facts['cores']} cores",
        notes=[
            *dict.fromkeys(f"{LABELS[row['method']]}: {row['note']}" for row in record["rows"] if row["note"]),
            "Best times of several rounds, in turn. Time per step and the ratios (below 1 is faster) are of fwd+bwd. "
            "lax.scan is differentiated by JAX. MB: arrays beyond the arguments, as planned by XLA; for PyTorch, by "
            "how much the resident memory of a fresh process grew.",
            *doubts(
                facts, [f"{LABELS[row['method']]} at T={row['length']:,}" for row in record["rows"] if uneven(row)]
            ),
        ],
    )
