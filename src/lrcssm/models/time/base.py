"""Interface of layers along time, and the layer around a cell."""

import abc
import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int

from ...cells import Cell
from ...engine import Solution, Solver, solve
from ...engine.sharded import over_devices
from ...engine.system import CHUNK_ELEMENTS, chunk_length, scan_chunks
from ...errors import InvalidValue
from ..context import Context


class Outcome(NamedTuple):
    """Results of a layer: `(time, ..., size)`, its state after the last step, and the solution of its recurrence (`None` if
    it has none)."""

    outputs: Float[Array, "time *batch size"]
    state: Any
    solution: Solution | None


class TimeLayer(eqx.Module):
    """A map from `(time, ..., width)` to `(time, ..., size)` in which steps depend on each other.

    A subclass is made from `(input_dim, state_dim, *, key, **options)`, has `size` and is called as below. Padding must
    change neither the outputs of observed steps nor gradients.
    """

    whole: ClassVar[str | None] = None
    """Reason why a sequence cannot be given in pieces, as the end of a sentence that starts with "it"; `None` if it can."""
    size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def __call__(self, inputs: Float[Array, "time *batch width"], state: Any, context: Context) -> Outcome:
        """Run over some steps.

        **Arguments:**

        - `inputs`: of all steps.
        - `state`: of an earlier call, to continue from; `None` at the start of a sequence.
        - `context`: times, mask, key and solver of these steps.
        """

    def initial_state(self, batch: tuple[int, ...]) -> Any:
        """Return the state before the first step, for layers to which a sequence can be given in pieces."""
        raise NotImplementedError(f"{type(self).__name__} has no state: it {self.whole}.")

    def penalty(self) -> Float[Array, ""] | None:
        """Compute the penalty that training adds to the loss."""
        return None


class Recurrent(TimeLayer):
    """A cell over time: solved by the engine, then read."""

    cell: Cell
    size: int = eqx.field(static=True)

    def __init__(self, cell: Cell):
        self.cell = cell
        read = jax.eval_shape(lambda: cell.read(cell.initial_state(), jnp.zeros(cell.input_dim)))
        self.size = read.shape[-1]

    def initial_state(self, batch: tuple[int, ...]) -> Any:
        return self.cell.initial_state(batch)

    def __call__(self, inputs: Float[Array, "time *batch width"], state: Any, context: Context) -> Outcome:
        if not self.cell.expands:
            solution = _solve(self.cell, inputs, state, context)
            return Outcome(self.cell.read(solution.states, inputs), solution.final, solution)
        run = _in_pieces if context.solver.devices is None else _over_devices
        return run(self.cell, inputs, state, context)


class Worst(NamedTuple):
    """Worst status, iterations and residual of a recurrence that is solved in pieces."""

    status: Int[Array, "*batch"]
    iterations: Int[Array, "*batch"]
    residual: Float[Array, "*batch"]

    @classmethod
    def start(cls, batch: tuple[Any, ...], dtype: DTypeLike) -> "Worst":
        """Return the verdict before the first piece."""
        none = jnp.zeros(batch, jnp.int32)
        return cls(none, none, jnp.zeros(batch, dtype))

    def add(self, solution: Solution | None) -> "Worst":
        """Return the verdict after one more piece."""
        if solution is None:
            return self
        new = (solution.status, solution.iterations, solution.residual.astype(self.residual.dtype))
        return Worst(*map(jnp.maximum, self, new))

    def solution(self, last: Array, solver: Solver) -> Solution:
        """Return the verdict as a solution that holds the last state alone."""
        return Solution(last[None], self.status, self.iterations, self.residual, str(solver))


def first_state(cell: Cell, state: Array | None, batch: tuple[Any, ...]) -> Array:
    """Return the state of each sample before the first step: the given one, or the cell's own."""
    state = cell.initial_state() if state is None else state
    return jnp.broadcast_to(state, (*batch, state.shape[-1]))


def at_least_one(name: str, **given: int) -> None:
    """Raise `InvalidValue` if an option is not a whole number of at least 1."""
    for option, value in given.items():
        if not isinstance(value, int) or value < 1:
            raise InvalidValue(f"{name} got {option}={value!r}; give a whole number of at least 1.")


def _solve(cell, inputs, state, context: Context) -> Solution:
    return solve(
        cell, inputs, state=state, dt=context.dt, mask=context.mask, solver=context.solver, throw=context.throw
    )


def _over_devices(cell, inputs, state, context: Context) -> Outcome:
    """`_in_pieces` on each of many devices, for its part of time."""
    solver: Any = context.solver

    def run(cell, inputs, state, dt, mask):
        found = _in_pieces(cell, inputs, state, Context(dt, mask, None, solver.local, False))
        assert found.solution is not None
        return found.outputs, found.state, found.solution.status

    batch, dt, mask = inputs.shape[1:-1], context.dt, context.mask
    flat = lambda a: a.reshape(a.shape[0], -1, *a.shape[1 + len(batch) :])
    dt = dt if dt is None or jnp.ndim(dt) == 0 else flat(dt)
    mask = None if mask is None else flat(mask)
    first = first_state(cell, state, batch)
    found = over_devices(run, cell, flat(inputs), first.reshape(-1, first.shape[-1]), dt, mask, solver)
    outputs = solver.withhold(found[0], found[2]) if context.throw else found[0]
    outputs = outputs.reshape(-1, *batch, outputs.shape[-1])
    last, *verdict = (a.reshape(*batch, *a.shape[1:]) for a in found[1:])
    return Outcome(outputs, last, Worst(*verdict).solution(last, solver))


def _in_pieces(cell, inputs, state, context: Context) -> Outcome:
    """For cells whose states are much larger than their outputs: the states of one piece of time are read before
    the next one starts, and recomputed in the backward pass, so that the states of all steps are never in memory."""
    batch = inputs.shape[1:-1]
    first = first_state(cell, state, batch)

    @jax.checkpoint
    def run(carry, part):
        (state, worst), (inputs, dt, mask) = carry, part
        found = _solve(cell, inputs, state, context.replace(dt=dt, mask=mask))
        return (found.final, worst.add(found)), cell.read(found.states, inputs)

    # At least √T steps: the states between the pieces, which are kept, then are not more than those within one.
    piece = chunk_length(inputs.shape[0], min(math.prod(first.shape), CHUNK_ELEMENTS // math.isqrt(inputs.shape[0])))
    carry = (first, Worst.start(batch, first.real.dtype))
    (last, worst), outputs = scan_chunks(run, carry, (inputs, context.dt, context.mask), piece)
    return Outcome(outputs, last, worst.solution(last, context.solver))
