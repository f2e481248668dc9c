"""The interface of a solver: a frozen dataclass whose methods implement the differences between solvers.

`solve` resolves a solver for the structure of a cell, then compiles `solver.solution`. Everything that other packages need to
know about a solver (its shards, the steps that it takes at a time, its name) is a method or a property here.
"""

import abc
import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Mesh
from jaxtyping import Array, Float, Inexact, Int

from ..errors import InvalidValue
from .adjoint import attach
from .arguments import Arguments
from .newton import Rule, iterate
from .solution import Solution
from .system import chunk_length, held
from .verdict import guard, judge_data, judge_rest, judge_states

STATES = "lrcssm: states"
"""The name of the states for `jax.checkpoint`. Recomputing them can take longer than everything else in a model."""


class Found(NamedTuple):
    """States of a solver without a gradient; all but the states for each sample."""

    states: Inexact[Array, "time batch state"]
    status: Int[Array, " batch"]
    iterations: Int[Array, " batch"]
    residual: Float[Array, " batch"]


class Backward(NamedTuple):
    """The evaluation of a gradient: `chunk` steps at a time, in `parallel` over them, building `matrices` or not."""

    chunk: int
    parallel: bool
    matrices: bool


@dataclasses.dataclass(frozen=True)
class AbstractSolver(abc.ABC):
    """Base class of all solvers; a subclass defines how states and their gradient are evaluated."""

    @property
    def name(self) -> str:
        """The text in `Solution.solver`."""
        return str(self)

    def resolve(self, structure: str) -> "AbstractSolver":
        """The solver that is run for a cell of this structure on this backend."""
        del structure
        return self

    @abc.abstractmethod
    def run(self, arguments: Arguments, raise_inside: bool) -> Found:
        """Find the states, without a gradient; with `raise_inside`, raise from compiled code where possible."""

    @abc.abstractmethod
    def backward(self, structure: str, length: int, elements: int) -> Backward:
        """The evaluation of the gradient of `length` steps of `elements` numbers each."""

    def solution(self, arguments: Arguments, raise_inside: bool) -> Solution:
        """Solve and attach the implicit gradient."""
        cell, piece, initial = arguments.cell, arguments.piece, arguments.initial
        found = self.run(arguments, raise_inside)
        chunk, parallel, matrices = self.backward(cell.structure, piece.length, initial.size)
        states = attach(
            checkpoint_name(found.states, STATES),
            cell,
            piece,
            initial,
            chunk=chunk,
            parallel=parallel,
            matrices=matrices,
        )
        return Solution(
            states=arguments.restore(states),
            status=arguments.restore(found.status),
            iterations=arguments.restore(found.iterations),
            residual=arguments.restore(found.residual),
            solver=self.name,
        )

    def withhold(self, outputs: Any, status: Int[Array, " batch"]) -> Any:
        """Outputs of compiled code, which raises if a status is an error."""
        return guard(outputs, status, self.name)

    def steps_at_once(self, steps: int, elements: int) -> int:
        """The number of steps, of `elements` numbers each, that are held in memory at a time."""
        return self.resolve("diagonal").backward("diagonal", steps, elements).chunk

    @property
    def devices(self) -> Mesh | None:
        """The devices over which a solve is split; `None` if it is not."""
        return None

    @property
    def axes(self) -> tuple[str, str]:
        """The axes of these devices over which time and the batch are split."""
        raise NotImplementedError(f"{self.name} is not split over devices.")

    @property
    def local(self) -> "AbstractSolver":
        """The solver of a single device."""
        return self

    @property
    def time_shards(self) -> int:
        """The number of parts into which time is split."""
        return 1

    @property
    def batch_shards(self) -> int:
        """The number of parts into which the batch is split."""
        return 1


@dataclasses.dataclass(frozen=True)
class Iterative(AbstractSolver):
    """Base class of iterations on the whole sequence; a subclass defines the `rule` of an iteration."""

    @abc.abstractmethod
    def rule(self, length: int) -> Rule:
        """The rule of an iteration on `length` steps."""

    def __post_init__(self):
        name, rule = type(self).__name__, self.rule(1)
        for field in ("rtol", "atol"):
            value = getattr(rule, field)
            if value is not None and not value >= 0:
                raise InvalidValue(f"{name} got {field}={value!r}; give a tolerance of at least 0.")
        if not rule.max_steps >= 1:
            raise InvalidValue(f"{name} got max_steps={rule.max_steps!r}; give at least 1.")

    def iterate(self, arguments: Arguments) -> Found:
        """Iterate from the guess, or from the initial state at all steps."""
        cell, piece, initial, guess = held((arguments.cell, arguments.piece, arguments.initial, arguments.guess))
        if guess is None:
            guess = jnp.broadcast_to(initial, (piece.length, *initial.shape))
        return Found(*iterate(cell, piece, initial, guess, self.rule(piece.length)))

    def run(self, arguments: Arguments, raise_inside: bool) -> Found:
        found = judged(self.iterate(arguments), arguments)
        return found._replace(states=self.withhold(found.states, found.status)) if raise_inside else found

    def backward(self, structure: str, length: int, elements: int) -> Backward:
        # A quasi solver is chosen where T·D² is too much, so its exact gradient must not build that either.
        matrices = not self.rule(length).quasi
        parallel = matrices or structure == "diagonal"
        return Backward(length if parallel else chunk_length(length, elements), parallel, matrices)


def judged(found: Found, arguments: Arguments) -> Found:
    """Refine the status for invalid arguments and for a recurrence that overflows."""
    cell, piece, initial, guess = held((arguments.cell, arguments.piece, arguments.initial, arguments.guess))
    given = jnp.maximum(judge_data(piece), judge_rest(cell, initial, guess))
    return found._replace(status=judge_states(found.status, found.states, given))
