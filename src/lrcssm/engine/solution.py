"""What a solve returns: the states, and an honest word on how they were found."""

import enum

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Inexact, Int


class Status(enum.IntEnum):
    """How a solve ended, for one sample. `Status(code).message` is a sentence with a remedy.

    `SUCCESS` and `FELL_BACK` mean that the states are right. Everything else means that they are not.

    ```python
    from lrcssm import Status

    print(Status.MAX_STEPS.message)
    ```
    """

    SUCCESS = 0
    FELL_BACK = 1
    MAX_STEPS = 2
    STALLED = 3
    DIVERGED = 4
    UNSTABLE = 5
    NONFINITE_ARGUMENT = 6
    APART = 7

    @property
    def ok(self) -> bool:
        """Whether the states of this sample may be used."""
        return self <= Status.FELL_BACK

    @property
    def message(self) -> str:
        """What happened and what to do about it, as one sentence."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.SUCCESS: "The states satisfy the recurrence to within the tolerance.",
    Status.FELL_BACK: (
        "The parallel iteration did not converge, so the states were computed step by step and are right; "
        "if this happens often, name solver=Sequential() or solver=ELK() to save the wasted iterations."
    ),
    Status.MAX_STEPS: (
        "The iteration used up max_steps before the residual met the tolerance; "
        "raise max_steps, loosen rtol, or use solver=Auto() or solver=Sequential()."
    ),
    Status.STALLED: (
        "No damping makes the residual smaller although it is above the tolerance; "
        "loosen rtol, compute in float64, or use solver=Auto() or solver=Sequential()."
    ),
    Status.DIVERGED: (
        "The iteration overflowed from finite arguments (undamped Newton steps can do that over a long sequence); "
        "use solver=ELK(), solver=Auto() or solver=Sequential()."
    ),
    Status.UNSTABLE: (
        "The recurrence itself overflows: its states, computed step by step, are not finite; "
        "make the cell's weights or dt smaller, or use a contractive cell."
    ),
    Status.NONFINITE_ARGUMENT: (
        "The inputs, dt, the initial state, the guess or the cell's parameters hold NaN or infinity; "
        "clean them, or mark missing steps with mask=."
    ),
    Status.APART: (
        "What the parts on different devices begin with does not meet what the parts before them end with, to within "
        "rounding (a recurrence that is so sensitive cannot be split); compute in float64, or on one device."
    ),
}


class SolveError(RuntimeError):
    """Raised by `lrcssm.solve` when the states may not be used; its text is that of the worst `Status`."""


class Solution(eqx.Module):
    """The states of a recurrence at all steps, with their pedigree. A pytree, so it passes through `jit` and `vmap`.

    **Attributes:**

    - `states`: `(time, ..., state)`, the state *after* each step.
    - `status`: a `Status` code for each sample, of the batch shape.
    - `iterations`: for each sample, how many iterations were made; 0 for a sequential sweep.
    - `residual`: for each sample, the largest `|x_t − F(x_{t−1}, u_t)|` of all units and steps, relative to the unit's
        size at that step, `|x_t| + |J_t| |x_{t−1}|` (see `DEER`). 0 for a sequential sweep.
    - `solver`: the solver that was used, as text; `Auto` writes here what it chose.
    """

    states: Inexact[Array, "time ..."]
    status: Int[Array, "..."]
    iterations: Int[Array, "..."]
    residual: Float[Array, "..."]
    solver: str = eqx.field(static=True)

    @property
    def final(self) -> Inexact[Array, "..."]:
        """The last state: the `state=` of the next call."""
        return self.states[-1]

    @property
    def ok(self) -> Array:
        """For each sample, whether its states may be used."""
        return self.status <= Status.FELL_BACK

    @property
    def message(self) -> str:
        """The sentence of the worst status (outside of `jit` only)."""
        return Status(int(jnp.max(self.status))).message
