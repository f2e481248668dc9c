"""One layer of every cell, forward and with its gradient, against the LRC cell in the paper's form.

A layer computes all states of a sequence and the features that the next layer reads; the gradient is that of all parameters and
of the inputs, for a fixed random cotangent of those features.
"""

import dataclasses
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from lrcssm.cells import ALL, Cell
from lrcssm.cells.base import parameter_count
from lrcssm.engine import DEER, Sequential, Solver, solve
from lrcssm.machine import environment
from lrcssm.report.table import doubts, number, print_table

from . import CellsBenchmark
from .layer import PASSES, Case, Program, compare, compilers, jax_program, step_us, too_long, uneven
from .record import chosen, make_record, measuring
from .timing import ratio

VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "LRC": {
        "LRC-released": {"form": "released"},
        "LRC-implicit": {"integrator": "implicit"},
        "LRC-exponential": {"integrator": "exponential"},
        "LRC-rho": {"rho": 0.99},
        "LRC-complex": {"complex_parameters": "gkab"},
    },
    "LSTM": {"LSTM-cell": {"gates_see": "cell"}},
}
"""Names and options of the variants of a cell."""

_REFERENCE = "LRC"
# Steps from which the time of a dense cell is estimated.
_FEW = 50


def makers() -> dict[str, Callable[..., Cell]]:
    """Functions that make a cell of given dimensions, for each cell and its variants."""
    found: dict[str, Callable[..., Cell]] = {}
    for name, cell in ALL.items():
        for variant, options in {name: {}, **VARIANTS.get(name, {})}.items():
            found[variant] = eqx.Partial(cell, **options)
    return found


def measure(options: CellsBenchmark) -> dict[str, Any]:
    """Measure the cells.

    **Returns:**

    A record for JSON: `command`, `environment`, `options` and `rows`. Times are in milliseconds, those of one step in
    microseconds, memory in MB of 10⁶ bytes; `..._to_lrc` is the cell's best time over that of LRC. Of `parameters`, a
    complex one counts as two.
    """
    known = makers()
    names = chosen(options.cells, known, "cells", _REFERENCE)
    facts = environment()
    shape, dtype = (options.length, options.batch), jnp.float32
    keys = jax.random.split(jax.random.key(0), 3)
    with measuring("--length, --state-dim, --input-dim or --batch") as say:
        cells = {name: known[name](options.input_dim, options.state_dim, dtype=dtype, key=keys[0]) for name in names}
        inputs = jax.random.normal(keys[1], (*shape, options.input_dim), dtype)
        cotangent = jax.random.normal(keys[2], (*shape, options.state_dim), dtype)
        jax.block_until_ready((inputs, cotangent))
        say("compiling")
        with compilers() as pool:
            cases = {
                name: Case(cell, inputs, cell.initial_state((options.batch,)), cotangent)
                for name, cell in cells.items()
            }
            found = _slow(cases, options, pool)
            programs = {name: _program(case, options.solver, pool) for name, case in cases.items() if name not in found}
            # The last one, if it is dense, leaves the caches cold for the first, on which all ratios depend: the latter
            # is called once untimed.
            found |= compare(programs, rounds=options.rounds, pauses={names[-1]: 0.0}, say=say)
    rows = []
    for name, cell in cells.items():
        row: dict[str, Any] = {
            "cell": name, "structure": cell.structure, "parameters": parameter_count(cell), **found[name]
        }  # fmt: skip
        for each in PASSES:
            row[f"{each}_step_us"] = step_us(row[each], options.length)
            row[f"{each}_to_lrc"] = ratio(row[each], found[_REFERENCE][each])
        rows.append(row)
    return make_record("cells", options, facts, rows)


def _slow(cases: dict[str, Case], options: CellsBenchmark, pool: Executor) -> dict[str, dict[str, Any]]:
    """Rows of the dense cells that would take longer than the limit."""
    if options.length <= _FEW:
        return {}
    few = {
        name: dataclasses.replace(case, inputs=case.inputs[:_FEW], cotangent=case.cotangent[:_FEW])
        for name, case in cases.items()
        if case.cell.structure == "dense"
    }
    found = compare({name: _program(case, options.solver, pool) for name, case in few.items()}, rounds=2)
    expected = {
        name: (step_us(part["forward_backward"], _FEW) or 0) * options.length / 1e6 for name, part in found.items()
    }
    return {name: too_long(options.length, seconds) for name, seconds in expected.items() if seconds > options.limit}


def _program(case: Case, solver: str, pool: Executor) -> Program:
    chosen: Solver = Sequential() if solver == "sequential" else DEER(quasi=case.cell.structure == "dense")

    def evaluate(cell, inputs, state):
        solution = solve(cell, inputs, state=state, solver=chosen)
        return cell.read(solution.states, inputs), jnp.max(solution.iterations)

    return jax_program(case, evaluate, pool)


def show(record: dict[str, Any]) -> None:
    """Print a record as a table, and explain its columns."""
    options, facts = record["options"], record["environment"]
    heads = "cell<|para-\nmeters|iter.|fwd µs\nper step|to\nLRC|fwd+bwd µs\nper step|to\nLRC|fwd\nMB|fwd+\nbwd MB"
    rows = []
    for row in record["rows"]:
        line = [row["cell"], f"{row['parameters']:,}", str(row["iterations"] or "–")]
        for each in PASSES:
            line += [number(row[f"{each}_step_us"]), number(row[f"{each}_to_lrc"])]
        rows.append(line + [number((row[each] or {}).get("memory_mb")) for each in PASSES])
    deer = options["solver"] == "deer"
    shown = {row["cell"] for row in record["rows"]}
    variants = [
        f"{name} has {key}={value!r}"
        for several in VARIANTS.values()
        for name, given in several.items()
        if name in shown
        for key, value in given.items()
    ]
    print_table(
        heads.split("|"),
        rows,
        title=f"{'DEER' if deer else 'Sequential'}, T={options['length']:,}, N={options['state_dim']}, batch "
        f"{options['batch']}, {options['input_dim']} inputs, float32; {facts['processor']}, {facts['cores']} cores",
        notes=[
            *(f"{row['cell']}: {row['note']}" for row in record["rows"] if row["note"]),
            "Best times of several rounds, in turn. A step is one time step of the whole batch; below 1 is faster than "
            "LRC. A complex parameter counts as two. MB: arrays beyond the arguments, as planned by XLA.",
            *([f"Variants: {', '.join(variants)}."] if variants else []),
            *(["Dense cells are solved with DEER(quasi=True)."] if deer else []),
            *doubts(facts, [row["cell"] for row in record["rows"] if uneven(row)]),
        ],
    )
