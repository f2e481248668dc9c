"""One layer of every cell, forward and with its gradient, against the LRC cell in the paper's form.

A layer is all states of a sequence and what the next layer reads of them; the gradient is that of all parameters and of
the inputs, for a fixed random cotangent of what is read.
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
from lrcssm.errors import InvalidValue
from lrcssm.machine import environment
from lrcssm.report.table import doubts, number, print_table

from . import CellsBenchmark
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
)

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
"""More than the defaults: for a cell's name, names and options of its variants."""

# What all others are compared with.
_REFERENCE = "LRC"
# Steps by which the time of a dense cell is foretold.
_FEW = 50


def run(options: CellsBenchmark) -> None:
    """Measures what the options ask for, prints a table and writes the record."""
    run_benchmark(options, measure, show, keep=options.keep_memory)


def makers() -> dict[str, Callable[..., Cell]]:
    """Functions that make a cell of given dimensions: of each cell by its name, and of its variants after it."""
    found: dict[str, Callable[..., Cell]] = {}
    for name, cell in ALL.items():
        for variant, chosen in {name: {}, **VARIANTS.get(name, {})}.items():
            found[variant] = eqx.Partial(cell, **chosen)
    return found


def measure(options: CellsBenchmark) -> dict[str, Any]:
    """Measures what the options ask for.

    **Returns:**

    A record for JSON: `command`, `environment`, `options` and `rows`. Times are in milliseconds, those of one step in
    microseconds, memory in MB of 10⁶ bytes; `..._to_lrc` is the cell's best time over that of LRC. Of `parameters`, a
    complex one counts as two.
    """
    known = makers()
    chosen = _chosen(options.cells, known)
    facts = environment()
    shape, dtype = (options.length, options.batch), jnp.float32
    keys = jax.random.split(jax.random.key(0), 3)
    with measuring("--length, --states, --inputs or --batch") as say:
        cells = {name: known[name](options.inputs, options.states, dtype=dtype, key=keys[0]) for name in chosen}
        inputs = jax.random.normal(keys[1], (*shape, options.inputs), dtype)
        cotangent = jax.random.normal(keys[2], (*shape, options.states), dtype)
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
            found |= compare(programs, rounds=options.rounds, pauses={chosen[-1]: 0.0}, say=say)
    rows = []
    for name, cell in cells.items():
        row: dict[str, Any] = {
            "cell": name, "structure": cell.structure, "parameters": parameter_count(cell), **found[name]
        }  # fmt: skip
        for each in PASSES:
            row[f"{each}_step_us"] = step_us(row[each], options.length)
            row[f"{each}_to_lrc"] = ratio(row[each], found[_REFERENCE][each])
        rows.append(row)
    return make_record("lrcssm benchmark cells", options, facts, rows)


def _chosen(asked: tuple[str, ...], known: dict[str, Any]) -> list[str]:
    """The names to measure, in the order of `known`."""
    for name in asked:
        if name not in known and name != "all":
            raise InvalidValue(f"--cells got {name!r}; give all, or some of {', '.join(known)}.")
    return [name for name in known if name in (*asked, _REFERENCE) or "all" in asked]


def _slow(cases: dict[str, Case], options: CellsBenchmark, pool: Executor) -> dict[str, dict[str, Any]]:
    """Rows for the dense cells that would take longer than the limit."""
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
    """Prints a record as a table, with what its columns mean."""
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
        for name, chosen in several.items()
        if name in shown
        for key, value in chosen.items()
    ]
    print_table(
        heads.split("|"),
        rows,
        title=f"{'DEER' if deer else 'Sequential'}, T={options['length']:,}, N={options['states']}, batch "
        f"{options['batch']}, {options['inputs']} inputs, float32; {facts['processor']}, {facts['cores']} cores",
        notes=[
            *(f"{row['cell']}: {row['note']}" for row in record["rows"] if row["note"]),
            "Best times of several rounds, in turn. A step is one time step of the whole batch; below 1 is faster than "
            "LRC. A complex parameter counts as two. MB: arrays beyond the arguments, as planned by XLA.",
            *([f"Variants: {', '.join(variants)}."] if variants else []),
            *(["Dense cells are solved with DEER(quasi=True)."] if deer else []),
            *doubts(facts, [row["cell"] for row in record["rows"] if uneven(row)]),
        ],
    )
