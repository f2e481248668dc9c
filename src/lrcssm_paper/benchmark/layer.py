"""Common parts of the layer benchmarks: one layer, forward and with its gradient.

The gradient is that of all parameters and of the inputs, for a fixed random cotangent of all outputs.
"""

import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax

from .timing import compiled_bytes, interleave, is_uneven, measured

PASSES = ("forward", "forward_backward")

# For each program at most 10 seconds of rounds, half of them for each pass.
_BUDGET = 5.0


@dataclasses.dataclass(frozen=True)
class Case:
    """A layer and its data."""

    cell: Any
    inputs: jax.Array  # (time, batch, input)
    state: jax.Array  # (batch, state)
    cotangent: jax.Array  # (time, batch, output)


@dataclasses.dataclass
class Program:
    """Passes to time. `memory` waits until a pass is compiled and gives its peak in bytes; `iterations` is known after the first
    forward pass."""

    forward: Callable[[], Any]
    forward_backward: Callable[[], Any]
    memory: dict[str, Callable[[], int | None]]
    iterations: Any = None


def jax_program(case: Case, evaluate: Callable[[Any, Any, Any], tuple[Any, Any]], pool: Executor) -> Program:
    """Both passes of a layer, compiled by `pool`.

    **Arguments:**

    - `evaluate`: from the cell, its inputs and its state to the outputs and the number of iterations, which may be
        `None`. The state is an argument because XLA folds a constant one, for minutes where the sequence is long.
    """
    params, static = eqx.partition(case.cell, eqx.is_inexact_array)

    @jax.jit
    def forward(params, inputs, state):
        return evaluate(eqx.combine(params, static), inputs, state)

    @jax.jit
    def forward_backward(params, inputs, state, cotangent):
        _, pullback = jax.vjp(
            lambda params, inputs: evaluate(eqx.combine(params, static), inputs, state)[0], params, inputs
        )
        return pullback(cotangent)

    def call_forward():
        outputs, program.iterations = forward(*given)
        return outputs

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


@contextlib.contextmanager
def compilers() -> Iterator[Executor]:
    """Thread pool with a thread for each core; tasks that have not started at the end are dropped."""
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def compare(
    programs: Mapping[str, Program],
    *,
    rounds: int,
    pauses: Mapping[str, float] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, dict[str, Any]]:
    """Time both passes of all programs in turn.

    **Arguments:**

    - `programs`, `rounds`, `pauses`, `say`: by name, as for `timing.interleave`; of each pass at most about 5 seconds.

    **Returns:**

    For each name a part of a row: `note`, the reason for missing numbers; `iterations`; and for each pass its `best_ms`,
    `median_ms`, `rounds` and `memory_mb`, or `None` if it failed.
    """
    memory = {(name, each): program.memory[each]() for name, program in programs.items() for each in PASSES}
    failures: dict[Any, Exception] = {}
    timings = interleave(
        {(name, each): getattr(program, each) for each in PASSES for name, program in programs.items()},
        rounds=rounds,
        budget=_BUDGET,
        compiled=True,
        pauses={(name, each): pause for name, pause in (pauses or {}).items() for each in PASSES},
        failures=failures,
        say=say,
    )
    notes = {name: _reason(error) for (name, _), error in failures.items()}
    found = {}
    for name, program in programs.items():
        part = unmeasured(notes.get(name))
        for each in PASSES:
            if (name, each) in timings:
                planned = memory[name, each]
                part[each] = measured(timings[name, each]) | {"memory_mb": None if planned is None else planned / 1e6}
        if part["forward"] is not None and program.iterations is not None:
            part["iterations"] = int(program.iterations)
        found[name] = part
    return found


def unmeasured(note: str | None) -> dict[str, Any]:
    """The part of a row that `compare` gives, without measurements."""
    return {"note": note, "iterations": None, **dict.fromkeys(PASSES)}


def too_long(length: int, seconds: float) -> dict[str, Any]:
    """The part of a row of a program that is expected to take this many seconds."""
    return unmeasured(f"not measured at T={length:,}, about {seconds:.0f} s a pass; raise --limit to have it")


def _reason(error: Exception) -> str:
    """The sentence in an error that was raised inside a compiled function."""
    text = str(error)
    found = re.search(r"EquinoxRuntimeError: (.+)", text)
    return f"failed: {found[1] if found else text.strip().splitlines()[0]}"


def step_us(measured: dict[str, Any] | None, length: int) -> float | None:
    """Microseconds for each step of a measured pass."""
    return None if measured is None else 1e3 * measured["best_ms"] / length


def uneven(row: dict[str, Any]) -> bool:
    """True if the times of a pass vary widely."""
    return any(is_uneven(row[name]) for name in PASSES)
