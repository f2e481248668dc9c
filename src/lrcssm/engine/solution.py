"""The result of a solve: states, status and residual."""

import enum

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Inexact, Int

from ..errors import LrcssmError


class Status(enum.IntEnum):
    """The outcome of a solve for one sample. `Status(code).message` is a sentence with a remedy.

    With `SUCCESS` and `FELL_BACK` the states are correct; with any other status they are not.

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
    NEGATIVE_DT = 8

    @property
    def ok(self) -> bool:
        """True if the states of this sample are valid."""
        return self <= Status.FELL_BACK

    @property
    def message(self) -> str:
        """The reason and the remedy, as one sentence."""
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
        "Every damped step makes the states more than ten times as large or not finite, up to the largest damping; "
        "start from a better guess, or use solver=Auto() or solver=Sequential()."
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
        "The states at the shard boundaries do not match to within rounding, because the recurrence is too sensitive to be "
        "split over time; compute in float64, or on one device."
    ),
    Status.NEGATIVE_DT: "dt holds a negative number; give the time that each step takes, at least 0.",
}


class SolveError(LrcssmError, RuntimeError):
    """Raised by `lrcssm.solve` if a solve fails; the message is that of the worst `Status`."""


class Solution(eqx.Module):
    """States, status and residual of a solve. A pytree, so it passes through `jit` and `vmap`.

    **Attributes:**

    - `states`: `(time, ..., state)`, the state *after* each step.
    - `status`: a `Status` code for each sample, of the batch shape.
    - `iterations`: number of iterations of each sample; 0 for a sequential sweep.
    - `residual`: for each sample, the largest `|x_t − F(x_{t−1}, u_t)|` of all units and steps, relative to the unit's
        size at that step, `|x_t| + |J_t| |x_{t−1}|` (see `DEER`). 0 for a sequential sweep.
    - `solver`: the name of the solver that was used; for `Auto`, its choice.
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
        """For each sample, true if its states are valid."""
        return self.status <= Status.FELL_BACK

    @property
    def message(self) -> str:
        """The message of the worst status (outside of `jit` only)."""
        return Status(int(jnp.max(self.status))).message
