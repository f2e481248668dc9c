"""The solvers: ways of evaluating a recurrence over time.

All of them give the same states. See the page "How to choose a solver" for the cost of each one.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh

from ..errors import InvalidType, InvalidValue
from .abstract import AbstractSolver, Backward, Found, Iterative, judged
from .arguments import Arguments
from .newton import START, Rule
from .sharded import over_devices
from .solution import Solution, Status
from .system import Piece, chunk_length, held, sweep
from .verdict import withdraw


@dataclasses.dataclass(frozen=True)
class Sequential(AbstractSolver):
    """Sequential evaluation, one step after the other: always correct, and by far the fastest on a CPU; depth T elsewhere.

    ```python
    import jax, jax.numpy as jnp, lrcssm

    cell = lrcssm.cells.LRC(3, 8, key=jax.random.key(0))
    states = lrcssm.solve(cell, jnp.ones((100, 3)), solver=lrcssm.Sequential()).states
    ```

    **Arguments:**

    - `chunk`: number of steps that go through drive and recurrence at a time, so that they stay in the cache, forward and
        backward. `None` chooses it from the sizes.
    """

    chunk: int | None = None

    def __post_init__(self):
        if self.chunk is not None and not self.chunk >= 1:
            raise InvalidValue(f"Sequential got chunk={self.chunk!r}; give at least one step.")

    @property
    def name(self) -> str:
        return "Sequential"

    def run(self, arguments: Arguments, raise_inside: bool) -> Found:
        cell, piece, initial = held((arguments.cell, arguments.piece, arguments.initial))
        chunk = self.steps_at_once(piece.length, initial.size)
        states, status = sweep(cell, piece, initial, chunk, self.name if raise_inside else None)
        return Found(states, status, jnp.zeros(len(initial), jnp.int32), jnp.zeros(len(initial), states.real.dtype))

    def backward(self, structure: str, length: int, elements: int) -> Backward:
        return Backward(self.chunk or chunk_length(length, elements), parallel=False, matrices=False)


@dataclasses.dataclass(frozen=True)
class DEER(Iterative):
    """Newton's method on the whole sequence: each iteration linearises the cell at all steps and solves the linear
    recurrence by an associative scan (Lim et al. 2024). Exact for diagonal, 2×2 and dense Jacobians.

    **Arguments:**

    - `quasi`: keep only the diagonal of a dense Jacobian (Gonzalez et al. 2024): cheaper iterations, more of them.
        For a diagonal cell it changes nothing. Gradients are exact all the same.
    - `rtol`, `atol`: done when `|x_t − F(x_{t−1}, u_t)| ≤ rtol · size_t + atol` for every unit at every step, where
        `size_t` is `|x_t| + |J_t| |x_{t−1}|` of that unit; no other step, and no unit that `J_t` does not couple, enters.
        States before the step that differ in their last digits only count as equal. The default `rtol=None` is 8
        units of rounding of the state's dtype: as good as a sequential sweep.
    - `max_steps`: largest number of iterations; `None` is 100.
    """

    quasi: bool = False
    rtol: float | None = None
    atol: float = 0.0
    max_steps: int | None = None

    def rule(self, length: int) -> Rule:
        return Rule(
            True, self.quasi, None, False, self.rtol, self.atol, 100 if self.max_steps is None else self.max_steps
        )


@dataclasses.dataclass(frozen=True)
class ELK(Iterative):
    """Damped Newton (Levenberg–Marquardt): each iteration is a Kalman smoother over time, in parallel form (Gonzalez
    et al. 2024). It takes more iterations than `DEER`, but does not overflow where `DEER` does.

    **Arguments:**

    - `quasi`: keep only the diagonal of a dense Jacobian.
    - `trust`: the variance σ² = 1/λ of the trust region. `None` adapts the damping λ for each sample: it grows after a step
        that would make the states ten times as large, which is rejected, and shrinks after any other. A number fixes it.
    - `rtol`, `atol`: as for `DEER`.
    - `max_steps`: largest number of iterations; `None` is 1000.
    """

    quasi: bool = False
    trust: float | None = None
    rtol: float | None = None
    atol: float = 0.0
    max_steps: int | None = None

    def __post_init__(self):
        if self.trust is not None and not self.trust > 0:
            raise InvalidValue(f"ELK got trust={self.trust!r}; give a positive variance of the trust region, or None.")
        super().__post_init__()

    def rule(self, length: int) -> Rule:
        damping = START if self.trust is None else 1.0 / self.trust
        steps = 1000 if self.max_steps is None else self.max_steps
        return Rule(True, self.quasi, damping, self.trust is None, self.rtol, self.atol, steps)


@dataclasses.dataclass(frozen=True)
class Jacobi(Iterative):
    """Jacobi's iteration: every step is evaluated from the states of the last iterate, without any Jacobian. Exact after at
    most T iterations; in practice, about as many as the number of steps that the cell remembers.

    **Arguments:**

    - `rtol`, `atol`: as for `DEER`.
    - `max_steps`: largest number of iterations; `None` is T + 1.
    """

    rtol: float | None = None
    atol: float = 0.0
    max_steps: int | None = None

    def rule(self, length: int) -> Rule:
        steps = length + 1 if self.max_steps is None else self.max_steps
        return Rule(False, False, None, False, self.rtol, self.atol, steps)


@dataclasses.dataclass(frozen=True)
class Auto(AbstractSolver):
    """The solver for this backend and the structure of the cell. Samples that Newton's method does not solve are computed step
    by step, with `Status.FELL_BACK`. `Solution.solver` names the choice.

    **Arguments:**

    - `parallel`: `None` takes `Sequential` on a CPU and Newton's method elsewhere; `True` and `False` force it.
    - `newton`: the parallel solver; `None` is `DEER()`, for a dense cell `DEER(quasi=True)`.
    """

    parallel: bool | None = None
    newton: Iterative | None = None

    def resolve(self, structure: str) -> AbstractSolver:
        """Resolve `Auto` for this backend."""
        parallel = jax.default_backend() != "cpu" if self.parallel is None else self.parallel
        return Auto(True, self.newton or DEER(quasi=structure == "dense")) if parallel else Sequential()

    @property
    def name(self) -> str:
        return "Auto" if self.newton is None else f"Auto: {self.newton}"

    def run(self, arguments: Arguments, raise_inside: bool) -> Found:
        assert self.newton is not None, "resolve comes first"
        cell, piece, initial = held((arguments.cell, arguments.piece, arguments.initial))
        found = self.newton.iterate(arguments)
        bad = found.status > Status.FELL_BACK

        def fall_back():
            stepwise = sweep(cell, piece, initial, chunk_length(piece.length, initial.size))[0]
            return jnp.where(bad[:, None], stepwise, found.states)

        states = lax.cond(jnp.any(bad), fall_back, lambda: found.states)
        status = jnp.where(bad, int(Status.FELL_BACK), found.status)
        found = judged(Found(states, status, found.iterations, jnp.where(bad, 0, found.residual)), arguments)
        return found._replace(states=self.withhold(found.states, found.status)) if raise_inside else found

    def backward(self, structure: str, length: int, elements: int) -> Backward:
        assert self.newton is not None, "resolve comes first"
        return self.newton.backward(structure, length, elements)


@dataclasses.dataclass(frozen=True)
class Sharded(AbstractSolver):
    """Time split over devices: each solves its own part, and the states at the shard boundaries are found by Newton's method,
    with one small exchange in each iteration. P devices need at most P − 1 iterations, most often two.

    ```python
    import jax, lrcssm

    mesh = jax.make_mesh((1, jax.device_count()), ("batch", "sequence"))
    cell = lrcssm.cells.LRC(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 4, 3))
    states = lrcssm.solve(cell, inputs, solver=lrcssm.Sharded(mesh)).states
    ```

    Derivatives are exact, forward and reverse, but only the first. Inside of `jit` a solve that fails does not raise, because
    an error of one device would leave the others waiting: its states are NaN, and `Solution.status` has the reason.

    **Arguments:**

    - `mesh`: the devices.
    - `solver`: the solver of each device.
    - `sequence`, `batch`: the axes of the mesh over which time and the first batch axis are split. A mesh may have no such
        `batch`, and a batch that its devices do not divide is not split.
    """

    mesh: Mesh
    solver: AbstractSolver = Auto()
    sequence: str = "sequence"
    batch: str = "batch"

    def __post_init__(self):
        if not isinstance(self.mesh, Mesh):
            raise InvalidType(
                f"Sharded got a mesh of type {type(self.mesh).__name__}; give the devices as a jax.sharding.Mesh, e.g. "
                'jax.make_mesh((1, jax.device_count()), ("batch", "sequence")).'
            )
        if self.sequence not in self.mesh.shape:
            raise InvalidValue(
                f"Sharded got sequence={self.sequence!r} and a mesh with the axes {', '.join(self.mesh.axis_names)}; name "
                "the one over which time is split."
            )
        # With axes of the kind over which the compiler decides how arrays lie, as everything around a solve expects.
        object.__setattr__(self, "mesh", Mesh(self.mesh.devices, self.mesh.axis_names))

    def __str__(self) -> str:
        axes = " × ".join(f"{size} {name}" for name, size in self.mesh.shape.items())
        return f"Sharded({axes}, {self.solver})"

    def resolve(self, structure: str) -> AbstractSolver:
        return dataclasses.replace(self, solver=self.solver.resolve(structure))

    def run(self, arguments: Arguments, raise_inside: bool) -> Found:
        """Solve over the devices, with the gradient attached to the states."""
        if arguments.guess is not None:
            raise InvalidValue("solve got a guess, which Sharded cannot use; leave it out.")

        def part(cell, inputs, state, dt, mask):
            one = Arguments(cell, Piece(inputs, dt, mask), state, None, state.shape[:1])
            found = self.solver.solution(one, raise_inside=False)
            return found.states, found.final, found.status

        piece = arguments.piece
        states, _, status, iterations, residual = over_devices(
            part, arguments.cell, piece.inputs, arguments.initial, piece.dt, piece.mask, self
        )
        return Found(self.withhold(states, status) if raise_inside else states, status, iterations, residual)

    def backward(self, structure: str, length: int, elements: int) -> Backward:
        return self.solver.backward(structure, -(-length // self.time_shards), elements // self.batch_shards)

    def solution(self, arguments: Arguments, raise_inside: bool) -> Solution:
        found = self.run(arguments, raise_inside)
        return Solution(*map(arguments.restore, found), solver=self.name)

    def withhold(self, outputs: Any, status: Any) -> Any:
        """The outputs, NaN for samples that failed. An error raised by one device would leave the others waiting forever, so
        failures are reported by the status, or by `lrcssm.solve` outside of `jit` after all devices are done."""
        return withdraw(outputs, status)

    @property
    def devices(self) -> Mesh | None:
        return self.mesh

    @property
    def axes(self) -> tuple[str, str]:
        return self.sequence, self.batch

    @property
    def local(self) -> AbstractSolver:
        return self.solver

    @property
    def time_shards(self) -> int:
        return self.mesh.shape[self.sequence]

    @property
    def batch_shards(self) -> int:
        return self.mesh.shape.get(self.batch, 1)


Solver = AbstractSolver

SOLVERS: dict[str, Solver] = {"auto": Auto(), "sequential": Sequential(), "deer": DEER(), "elk": ELK()}
"""The solvers that have a name on the command line, in the estimators and for `solve`."""


def as_solver(given: Any) -> Solver:
    """Return a solver, given as an object or by name; raises `InvalidType` or `InvalidValue` for anything else."""
    if isinstance(given, AbstractSolver):
        return given
    if isinstance(given, str):
        if given in SOLVERS:
            return SOLVERS[given]
        raise InvalidValue(f"solve got solver={given!r}; give one of {', '.join(SOLVERS)}, or a solver such as DEER().")
    hint = " (an instance: add the parentheses)" if isinstance(given, type) else ""
    raise InvalidType(
        f"solve got solver={given!r}; give one of Auto(), Sequential(), DEER(), ELK(), Jacobi() or Sharded(mesh){hint}."
    )
