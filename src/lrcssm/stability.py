"""Bounds of a recurrence that hold for all inputs, and diagnosis of a given trajectory.

`certify` computes bounds from the parameters. `diagnose` summarises the Jacobians along a solution. The page on stability has
the theorem that `certify` evaluates, with its proof and its limits.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from .cells import Cell
from .engine import Sequential, solve
from .engine.arguments import prepare
from .engine.jacobian import linearise
from .engine.recurrence import previous
from .engine.solution import Solution
from .engine.system import update
from .errors import InvalidType, InvalidValue


class Certificate(NamedTuple):
    """Bounds for each unit of a cell that hold for all inputs; infinite where nothing is known.

    **Attributes:**

    - `state_bound`: |x_t| is at most this, at all times.
    - `jacobian_low`, `jacobian_high`: ∂x_t/∂x_{t−1} is within.
    - `jacobian_bound`: the larger of their sizes.
    - `contractive`: true if `jacobian_bound` is below 1.
    """

    state_bound: Float[Array, " state"]
    jacobian_low: Float[Array, " state"]
    jacobian_high: Float[Array, " state"]
    jacobian_bound: Float[Array, " state"]
    contractive: Bool[Array, " state"]

    @property
    def exists(self) -> Bool[Array, " state"]:
        """For each unit, true if its state is bounded."""
        return jnp.isfinite(self.state_bound)

    def __str__(self) -> str:
        units = self.state_bound.size
        bounded, contractive = int(jnp.sum(self.exists)), int(jnp.sum(self.contractive))
        if not bounded:
            return f"No certificate: nothing bounds the states of these {units} units for all inputs."
        text = f"{bounded} of {units} units are bounded (|x| ≤ {float(jnp.max(self.state_bound)):.3g}); "
        if not contractive:
            return text + "none is certified to contract."
        worst = float(jnp.max(jnp.where(self.contractive, self.jacobian_bound, 0)))
        return text + f"{contractive} contract, with |∂x_t/∂x_(t−1)| ≤ {worst:.6g}."


def certify(
    cell: Cell,
    input_bound: float | int | None = None,
    *,
    dt: float | int | tuple[float, float] = 1.0,
    state: Any = None,
) -> Certificate:
    """Bounds of the states and the Jacobian of a cell that follow from its parameters alone.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.LRC(3, 8, rho=0.99, key=jax.random.key(0))
    certificate = lrcssm.stability.certify(cell)
    print(certificate)
    assert certificate.contractive.all()
    ```

    **Arguments:**

    - `cell`: the cell.
    - `input_bound`: the largest Euclidean norm of an input. Without it the bounds hold for all inputs. Behind a layer
        norm without gain it is √`input_dim`.
    - `dt`: the time that a step takes, or the shortest and the longest.
    - `state`: the largest absolute initial state, for each unit or for all; the cell's own if not given.

    **Returns:**

    A `Certificate`: arrays with one value per unit. Where a unit has no bound its values are infinite.
    """
    if not isinstance(cell, Cell):
        raise InvalidType(f"certify got a {type(cell).__name__}; give an lrcssm.cells.Cell.")
    shortest, longest = (dt, dt) if isinstance(dt, float | int) else dt
    if not 0 < shortest <= longest:
        raise InvalidValue(f"certify got dt={dt!r}; give a positive number, or the shortest and the longest step.")
    if input_bound is not None and not input_bound >= 0:
        raise InvalidValue(f"certify got input_bound={input_bound!r}; give a number that is not negative, or None.")
    own = cell.initial_state()
    real = own.real.dtype
    initial = jnp.broadcast_to(jnp.abs(own if state is None else jnp.asarray(state, real)), own.shape)
    found = cell.envelope(initial, input_bound, (float(shortest), float(longest)))
    if found is None:
        nothing = jnp.full(own.shape, jnp.inf, real)
        return Certificate(nothing, -nothing, nothing, nothing, jnp.zeros(own.shape, bool))
    # λ beyond [0, 1] voids the state's bound, for which x ← ρλx + (1−λ)r must be a mean of x and r.
    bounded = (found.keep_low >= 0) & (found.keep_high <= 1) & jnp.isfinite(found.rest)
    change = found.keep_slope * (found.rho * found.state + found.rest) + found.rest_slope  # M

    def at(keep, sign):
        lost = 1 - keep
        return found.rho * keep + sign * jnp.where(lost > 0, lost * change, 0)

    low = jnp.minimum(at(found.keep_low, -1), at(found.keep_high, -1))
    high = jnp.maximum(at(found.keep_low, 1), at(found.keep_high, 1))
    # Outwards by what the arithmetic of these few lines, and of a step, may have lost.
    slack = 64 * float(jnp.finfo(real).eps) * (1 + jnp.abs(low) + jnp.abs(high))
    state_bound, low, high = (
        jnp.where(bounded & ~jnp.isnan(value), value, other)
        for value, other in (
            (found.state * (1 + 64 * float(jnp.finfo(real).eps)), jnp.inf),
            (low - slack, -jnp.inf),
            (high + slack, jnp.inf),
        )
    )
    bound = jnp.maximum(jnp.abs(low), jnp.abs(high))
    return Certificate(state_bound, low, high, bound, bound < 1)


class Diagnosis(NamedTuple):
    """Summary of the Jacobians along a trajectory, for each sample.

    **Attributes:**

    - `largest`: the largest |∂x_t/∂x_{t−1}| of all steps and units (the spectral norm, where units are coupled).
    - `lyapunov`: the Lyapunov exponent of each unit, the mean of log |∂x_t/∂x_{t−1}| (of coupled units the largest one):
        below 0 nearby trajectories converge, above 0 they diverge. `−1/lyapunov` is a time constant in steps.
    - `gradient_bound`: upper bound of the factor by which a gradient at the last step grows on its way back, at the step where
        that is largest; at least 1.
    """

    largest: Float[Array, "..."]
    lyapunov: Float[Array, "... units"]
    gradient_bound: Float[Array, "..."]


def diagnose(
    cell: Any, inputs: Any, solution: Solution, *, state: Any = None, dt: Any = None, mask: Any = None
) -> Diagnosis:
    """Jacobians along a solution: their size, the Lyapunov exponents, and how far a gradient can grow.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.LRC(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 5, 3))
    solution = lrcssm.solve(cell, inputs)
    print(lrcssm.stability.diagnose(cell, inputs, solution).largest)
    ```

    **Arguments:**

    - `cell`, `inputs`, `state`, `dt`, `mask`: the arguments of `solve`. (Masked steps have the Jacobian 1.)
    - `solution`: its result.

    **Returns:**

    A `Diagnosis`. Costs one linearisation of all steps: the work of one Newton iteration without its recurrence.
    """
    arguments = prepare(cell, inputs, state, dt, mask, None)
    states = solution.states.reshape(solution.states.shape[0], -1, solution.states.shape[-1])
    largest, lyapunov, growth = _diagnose(arguments, states)
    return Diagnosis(arguments.restore(largest), lyapunov.reshape(*arguments.batch, -1), arguments.restore(growth))


@eqx.filter_jit
def _diagnose(arguments, states):
    cell, piece = arguments.cell, arguments.piece
    before = previous(states, arguments.initial)
    drive = cell.drive(piece.inputs)
    _, jacobian = linearise(lambda x: update(cell, x, drive, piece.dt, piece.mask), before, cell.structure)
    if cell.structure == "diagonal":
        norms = jnp.abs(jacobian)
        logs = jnp.log(norms)
        lyapunov = jnp.mean(logs, 0)
        back = lax.cumsum(logs, 0, reverse=True)  # from the last step to each one
    else:
        blocks = jacobian if cell.structure == "block2" else jacobian[:, :, None]
        norms = jnp.linalg.norm(blocks, ord=2, axis=(-2, -1))  # time, batch, units
        lyapunov = _largest_exponents(blocks)
        back = lax.cumsum(jnp.log(norms), 0, reverse=True)
    return jnp.max(norms, (0, 2)), lyapunov, jnp.exp(jnp.maximum(jnp.max(back, (0, 2)), 0))


def _largest_exponents(blocks):
    """The mean growth of the product of the blocks, `(time, batch, units, n, n)`, which is rescaled at each step."""

    def step(product, block):
        product = block @ product
        size = jnp.sqrt(jnp.sum(jnp.abs(product) ** 2, (-2, -1)))
        return product / jnp.maximum(size, jnp.finfo(size.dtype).tiny)[..., None, None], jnp.log(size)

    start = jnp.broadcast_to(jnp.eye(blocks.shape[-1], dtype=blocks.dtype), blocks.shape[1:])
    return jnp.mean(lax.scan(step, start, blocks)[1], 0)


def time_constants(cell: Cell, inputs: Any, *, state: Any = None, dt: Any = None) -> Float[Array, " units"]:
    """Number of steps that each unit remembers: −1 over its Lyapunov exponent along a sequence, averaged over the samples.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.LRC(3, 8, init="spread", max_time=500, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 3))
    print(lrcssm.stability.time_constants(cell, inputs))
    ```

    **Arguments:** as for `lrcssm.solve`.

    **Returns:**

    One time constant for each unit, in steps; infinite for a unit that does not forget.
    """
    solution = solve(cell, inputs, state=state, dt=dt, solver=Sequential())
    exponents = diagnose(cell, inputs, solution, state=state, dt=dt).lyapunov
    exponents = jnp.mean(exponents.reshape(-1, exponents.shape[-1]), 0)
    return jnp.where(exponents < 0, -1 / jnp.where(exponents < 0, exponents, -1), jnp.inf)
