"""What a block does along time: the contract, and the layers that are a recurrence."""

import abc
import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ...cells import Cell
from ...engine import Solution, Solver, solve
from ...engine.sharded import over_devices
from ...engine.system import CHUNK_ELEMENTS, chunk_length, scan_chunks


class Outcome(NamedTuple):
    """What a layer gives: `(time, ..., size)`, what it remembers after the last step, and how its recurrence was solved
    (`None` if it has none)."""

    outputs: Float[Array, "time *batch size"]
    state: Any
    solution: Solution | None


class TimeLayer(eqx.Module):
    """A map from `(time, ..., width)` to `(time, ..., size)` in which the steps see each other.

    A subclass is made from `(input_dim, state_dim, *, key, **options)`, has `size` and is called as below. What is not
    valid must change nothing that is: neither outputs of valid steps nor gradients.
    """

    whole: ClassVar[str | None] = None
    """Why a sequence cannot be given in pieces, to go on after "the model got a state, but it"; `None` if it can."""
    size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def __call__(
        self,
        inputs: Float[Array, "time *batch width"],
        *,
        state: Any,
        dt: Any,
        mask: Bool[Array, "time *batch"] | None,
        key: PRNGKeyArray | None,
        solver: Solver,
        throw: bool,
    ) -> Outcome:
        """Runs over some steps.

        **Arguments:**

        - `inputs`: of all steps.
        - `state`: what an earlier call gave, to go on from; `None` at the start of a sequence.
        - `dt`, `mask`: as for `lrcssm.solve`.
        - `key`: given while training, for dropout.
        - `solver`, `throw`: as for `lrcssm.solve`.
        """

    def initial_state(self, batch: tuple[int, ...]) -> Any:
        """What it remembers before the first step, for layers that a sequence can be given to in pieces."""
        raise NotImplementedError(f"{type(self).__name__} has no state: it {self.whole}.")

    def penalty(self) -> Float[Array, ""] | None:
        """What training adds to the loss, if anything."""
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

    def __call__(
        self,
        inputs: Float[Array, "time *batch width"],
        *,
        state: Any,
        dt: Any,
        mask: Bool[Array, "time *batch"] | None,
        key: PRNGKeyArray | None,
        solver: Solver,
        throw: bool,
    ) -> Outcome:
        del key
        if self.cell.expands:
            if solver.devices is not None:
                return _over_devices(self.cell, inputs, state, dt, mask, solver, throw)
            return _in_pieces(self.cell, inputs, state, dt, mask, solver, throw)
        solution = solve(self.cell, inputs, state=state, dt=dt, mask=mask, solver=solver, throw=throw)
        return Outcome(self.cell.read(solution.states, inputs), solution.final, solution)


def first_state(cell: Cell, state: Array | None, batch: tuple[Any, ...]) -> Array:
    """The state before the first step, for each sample: the given one, or the cell's own."""
    state = cell.initial_state() if state is None else state
    return jnp.broadcast_to(state, (*batch, state.shape[-1]))


def _over_devices(cell, inputs, state, dt, mask, solver: Solver, throw) -> Outcome:
    """`_in_pieces` on each of many devices, for its part of time."""

    def run(cell, inputs, state, dt, mask):
        found = _in_pieces(cell, inputs, state, dt, mask, solver.local, throw=False)
        assert found.solution is not None
        return found.outputs, found.state, found.solution.status

    batch = inputs.shape[1:-1]
    flat = lambda a: a.reshape(a.shape[0], -1, *a.shape[1 + len(batch) :])
    dt = dt if dt is None or jnp.ndim(dt) == 0 else flat(dt)
    mask = None if mask is None else flat(mask)
    first = first_state(cell, state, batch)
    found = over_devices(run, cell, flat(inputs), first.reshape(-1, first.shape[-1]), dt, mask, solver)
    outputs = solver.withhold(found[0], found[2]) if throw else found[0]
    outputs = outputs.reshape(-1, *batch, outputs.shape[-1])
    last, status, iterations, residual = (a.reshape(*batch, *a.shape[1:]) for a in found[1:])
    return Outcome(outputs, last, Solution(last[None], status, iterations, residual, str(solver)))


def _in_pieces(cell, inputs, state, dt, mask, solver, throw) -> Outcome:
    """For cells whose states are much larger than what is read from them: the states of one piece of time are read
    before the next one starts, and computed again in the backward pass, so that those of all steps are never there."""
    batch = inputs.shape[1:-1]
    first = first_state(cell, state, batch)

    @jax.checkpoint
    def run(carry, part):
        inputs, dt, mask = part
        found = solve(cell, inputs, state=carry[0], dt=dt, mask=mask, solver=solver, throw=throw)
        worst = (jnp.maximum(carry[1], found.status), jnp.maximum(carry[2], found.iterations))
        return (found.final, *worst, jnp.maximum(carry[3], found.residual)), cell.read(found.states, inputs)

    none = jnp.zeros(batch, jnp.int32)
    carry = (first, none, none, jnp.zeros(batch, first.real.dtype))
    # At least √T steps: the states between the pieces, which are kept, then are not more than those within one.
    piece = chunk_length(inputs.shape[0], min(math.prod(first.shape), CHUNK_ELEMENTS // math.isqrt(inputs.shape[0])))
    (last, status, iterations, residual), outputs = scan_chunks(run, carry, (inputs, dt, mask), piece)
    return Outcome(outputs, last, Solution(last[None], status, iterations, residual, str(solver)))
