"""Neural controlled differential equations: a hidden state that a path drives,

    dh = F(h) dZ,    h(0) = W x_0 + b.

`NCDE` (Kidger et al., 2020): Z is the data itself, between the samples the Hermite cubic with backward differences; F
is a network whose output is a matrix for each state.

`NRDE` (Morrill et al., 2021): the data is cut into intervals, and on each of them Z goes straight by the interval's
log-signature: what long intervals do to the state is then seen from fewer, richer steps (the log-ODE method).

`LogNCDE` (Walker et al., 2024): the same Z, but F is not free: the columns f_i of an NCDE's matrix for the increments,
and for the areas their Lie brackets, [f_i, f_j] = Df_j f_i − Df_i f_j.

Heun's method solves all of them in equal steps of time: at least `solver_steps`, and at least as many as there are
intervals. A step takes the exact increment of Z,

    k = F(h) ΔZ,    h ← h + ½ (k + F(h + k) ΔZ),

which for the same work is far closer to the solution than samples of dZ/dt, as a step may lie across an interval's end.
"""

import abc
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...errors import InvalidValue, MissingExtra
from ..context import Context
from ..signature import log_signature_size, log_signatures, valid_first
from .base import Outcome, TimeLayer, at_least_one


class Path(NamedTuple):
    """A path by its knots: when (from 0 to 1), where, and with which slope it leaves each knot but the last; it arrives
    with the slope of the straight line, and is that line where no slopes are given."""

    times: Float[Array, "knots batch"]
    values: Float[Array, "knots batch terms"]
    slopes: Float[Array, "intervals batch terms"] | None

    def at(self, times: Float[Array, "times batch"]) -> Float[Array, "times batch terms"]:
        """Interpolate the path."""
        last_before = jax.vmap(lambda knots, t: jnp.searchsorted(knots, t, side="right") - 1, 1, 1)
        i = jnp.clip(last_before(self.times, times), 0, self.times.shape[0] - 2)
        left, gap = _pick(self.times, i), _pick(_gaps(self.times), i)
        share = ((times - left) / gap)[..., None]
        start, way = _pick(self.values, i), _pick(jnp.diff(self.values, axis=0), i)
        if self.slopes is not None:
            way = way + (_pick(self.slopes, i) * gap[..., None] - way) * (1 - share) ** 2
        return start + share * way


class CDE(TimeLayer):
    """Common base of the three equations.

    The output at a step is the hidden state at the end of its interval. (In between, an interval's end is interpolated if
    it lies within a step of the solver.) Padding is ignored.

    The equation does not depend on the speed along its path: `dt` only determines the positions of the samples between 0,
    the start of a sequence, and 1, its end, and so the distribution of the solver's steps and the interpolation of `NCDE`.
    If the time itself matters, it has to be a channel (`ModelConfig.include_time`).

    **Arguments:**

    - `input_dim`, `state_dim`: channels, and size of the hidden state.
    - `vf_depth`, `vf_width`: hidden layers of the network F, and units of each.
    - `depth`, `step`: of `NRDE` and `LogNCDE`: depth of the log-signatures, 1 or 2, and samples in an interval.
    - `scale`: divisor of the initial weights and biases of the network, of `NRDE` all but the last layer's; `None` is 1, for
        `LogNCDE` 1000.
    - `lip2`: factor of a penalty in the loss: for each layer of the network the mean norm of a unit's weights, and the norm
        of the biases.
    - `solver_steps`: the least number of the solver's steps.
    - `key`: a `jax.random.key`.
    """

    whole: ClassVar[str | None] = "divides the time of a whole sequence into steps"
    activation: ClassVar[Any] = staticmethod(jax.nn.relu)
    bounded: ClassVar[Literal["output", "hidden"]] = "output"
    """Position of the network's tanh: after the last layer, or before it."""
    default_scale: ClassVar[float] = 1.0
    first: eqx.nn.Linear
    layers: tuple[eqx.nn.Linear, ...]
    step: int = eqx.field(static=True)
    lip2: float | int = eqx.field(static=True)
    solver_steps: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __init__(self, input_dim, state_dim, columns, *, vf_depth, vf_width, step, scale, lip2, solver_steps, key):
        at_least_one(type(self).__name__, vf_depth=vf_depth, vf_width=vf_width, step=step, solver_steps=solver_steps)
        scale = self.default_scale if scale is None else scale
        keys = jax.random.split(key, vf_depth + 2)
        sizes = (state_dim, *(vf_width,) * vf_depth, state_dim * columns)
        layers = [eqx.nn.Linear(sizes[i], sizes[i + 1], key=keys[i]) for i in range(vf_depth + 1)]
        divided = len(layers) if self.bounded == "output" else -1
        layers[:divided] = jax.tree.map(lambda a: a / scale, layers[:divided])
        self.first, self.layers = eqx.nn.Linear(input_dim, state_dim, key=keys[-1]), tuple(layers)
        self.step, self.lip2, self.solver_steps, self.size = step, lip2, solver_steps, state_dim

    @abc.abstractmethod
    def path(self, x: Float[Array, "time batch inputs"], passed: Float[Array, "time batch"]) -> Path:
        """Make Z from the samples and their times. Its first knot is before all steps, and each interval ends at one
        more."""

    def field(self, h: Float[Array, " state"], dz: Float[Array, " terms"]) -> Float[Array, " state"]:
        """Compute F(h) ΔZ of one sample."""
        return self.matrix(h) @ dz

    def __call__(self, inputs: Float[Array, "time *batch width"], state: Any, context: Context) -> Outcome:
        length, batch, dt, mask = inputs.shape[0], inputs.shape[1:-1], context.dt, context.mask
        x = inputs.reshape(length, -1, inputs.shape[-1])
        dt = jnp.ones((), x.dtype) if dt is None else jnp.asarray(dt, x.dtype)
        dt = jnp.broadcast_to(dt, inputs.shape[:-1]).reshape(x.shape[:-1])
        valid = None if mask is None else mask.reshape(x.shape[:-1])
        number = jnp.arange(length)[:, None] if valid is None else jnp.maximum(jnp.cumsum(valid, 0) - 1, 0)
        x, count = valid_first(x, valid)
        dt, _ = valid_first(dt[..., None], valid)
        passed = jnp.cumsum(jnp.where(jnp.arange(length)[:, None] < count, dt[..., 0], 0), 0)

        # Each sample has as many steps as it would have alone; then Z stands still until all are done.
        steps = max(self.solver_steps, 1 + length // self.step)
        own = jnp.maximum(self.solver_steps, 1 + count // self.step).astype(x.dtype)
        times = jnp.minimum(jnp.arange(steps + 1, dtype=x.dtype)[:, None] / own, 1)
        path = self.path(x, passed)
        increments = jnp.diff(path.at(times), axis=0)
        states = _heun(jax.vmap(self.field), jax.vmap(self.first)(x[0]), increments)

        place = _pick(path.times, jnp.broadcast_to(number // self.step + 1, x.shape[:-1])) * own
        before = jnp.minimum(place.astype(jnp.int32), steps - 1)
        share = (place - before.astype(x.dtype))[..., None]
        low, high = _pick(states, before), _pick(states, before + 1)
        return Outcome((low + share * (high - low)).reshape(length, *batch, self.size), None, None)

    def hidden(self, h: Float[Array, " state"]) -> Float[Array, " units"]:
        """Compute the units before the last layer of the network."""
        for i, layer in enumerate(self.layers[:-1]):
            last = i == len(self.layers) - 2
            h = (jnp.tanh if last and self.bounded == "hidden" else self.activation)(layer(h))
        return h

    def matrix(self, h: Float[Array, " state"]) -> Float[Array, "state columns"]:
        """Compute the output of the network."""
        out = self.layers[-1](self.hidden(h)).reshape(self.size, -1)
        return jnp.tanh(out) if self.bounded == "output" else out

    def penalty(self) -> Float[Array, ""] | None:
        if self.lip2 == 0:
            return None
        norm = jnp.linalg.norm
        return self.lip2 * sum(
            (jnp.mean(norm(layer.weight, axis=1)) + norm(layer.bias) for layer in self.layers), start=jnp.zeros(())
        )


class NCDE(CDE):
    """A neural controlled differential equation. Options as described for `CDE`."""

    def __init__(
        self, input_dim: int, state_dim: int, *, vf_depth: int = 3, vf_width: int = 64, scale: float | int | None = None,
        lip2: float | int = 0, solver_steps: int = 500, key: PRNGKeyArray,
    ):  # fmt: skip
        super().__init__(
            input_dim, state_dim, input_dim, vf_depth=vf_depth, vf_width=vf_width, step=1, scale=scale, lip2=lip2,
            solver_steps=solver_steps, key=key,
        )  # fmt: skip

    def path(self, x, passed):
        # The first sample is two knots, as the first step ends where it begins.
        times = _shares(jnp.concatenate([passed[:1], passed]) - passed[:1])
        values = jnp.concatenate([x[:1], x])
        slopes = jnp.diff(values, axis=0) / _gaps(times)[..., None]
        return Path(times, values, jnp.concatenate([slopes[:1], slopes[1:2], slopes[1:-1]]))


class LogODE(CDE):
    """Common part of the equations that are driven by the log-signatures of intervals."""

    depth: int = eqx.field(static=True)

    def __init__(
        self, input_dim: int, state_dim: int, *, vf_depth: int = 3, vf_width: int = 64, depth: int = 2, step: int = 4,
        scale: float | int | None = None, lip2: float | int = 0, solver_steps: int = 500, key: PRNGKeyArray,
    ):  # fmt: skip
        if depth not in (1, 2):
            raise InvalidValue(f"{type(self).__name__} got depth={depth!r}; give a log-signature's depth, 1 or 2.")
        self.depth = depth
        super().__init__(
            input_dim, state_dim, self.columns(input_dim), vf_depth=vf_depth, vf_width=vf_width, step=step, scale=scale,
            lip2=lip2, solver_steps=solver_steps, key=key,
        )  # fmt: skip

    @abc.abstractmethod
    def columns(self, input_dim: int) -> int:
        """Count the columns of the network's matrix."""

    def path(self, x, passed):
        steps = log_signatures(x, depth=self.depth, step=self.step)
        values = jnp.concatenate([jnp.zeros_like(steps[:1]), jnp.cumsum(steps, 0)])
        ends = np.minimum(np.arange(self.step, x.shape[0] + self.step, self.step), x.shape[0]) - 1
        return Path(_shares(jnp.concatenate([jnp.zeros_like(passed[:1]), passed[ends]])), values, None)


class NRDE(LogODE):
    """A neural rough differential equation. Options as described for `CDE`."""

    bounded: ClassVar[Literal["output", "hidden"]] = "hidden"

    def columns(self, input_dim: int) -> int:
        return log_signature_size(input_dim, self.depth)


class LogNCDE(LogODE):
    """A neural controlled differential equation, solved by the log-ODE method. Options as described for `CDE`."""

    activation: ClassVar[Any] = staticmethod(jax.nn.silu)
    default_scale: ClassVar[float] = 1000.0

    def columns(self, input_dim: int) -> int:
        return input_dim

    def field(self, h, dz):
        """Compute Σ_i s_i f_i + Σ_{i<j} s_ij [f_i, f_j]. With s_ji = −s_ij the brackets are Σ_j Df_j v_j for v_j = Σ_i s_ij
        f_i: one derivative for each channel, not for each pair."""
        f = self.matrix(h)
        channels = f.shape[1]
        along = f @ dz[:channels]
        if self.depth == 1 or channels == 1:
            return along
        upper = jnp.zeros((channels, channels), dz.dtype).at[np.triu_indices(channels, 1)].set(dz[channels:])
        ways = f @ (upper - upper.T)
        last = jax.tree.map(lambda a: a.reshape(self.size, channels, *a.shape[1:]), self.layers[-1])

        def derivative(last, way):
            return jax.jvp(lambda h: jnp.tanh(last(self.hidden(h))), (h,), (way,))[1]

        return along + jnp.sum(jax.vmap(derivative, 1)(last, ways), 0)


def _heun(
    field: Any, h: Float[Array, "batch state"], increments: Float[Array, "steps batch terms"]
) -> Float[Array, "steps+1 batch state"]:
    """States before the first step of the solver and after each. Time counts its steps."""
    try:
        import diffrax
        import lineax
    except ImportError as error:
        raise MissingExtra(
            'NCDE, NRDE and LogNCDE are solved by diffrax, which is not installed; pip install "lrcssm[baselines]".'
        ) from error
    shape = jax.ShapeDtypeStruct(increments.shape[1:], increments.dtype)
    term = diffrax.ControlTerm(
        lambda t, h, args: lineax.FunctionLinearOperator(lambda dz: field(h, dz), shape),
        lambda t0, t1: increments[jnp.asarray(t0, jnp.int32)],
    )
    steps = increments.shape[0]
    t0, t1, dt0 = (jnp.asarray(t, h.dtype) for t in (0, steps, 1))
    save = diffrax.SaveAt(t0=True, steps=True)
    solution = diffrax.diffeqsolve(term, diffrax.Heun(), t0, t1, dt0, h, saveat=save, max_steps=steps, throw=False)
    assert solution.ys is not None
    return solution.ys


def _shares(passed):
    """Times from 0 to 1. A sequence of one sample takes no time."""
    return passed / jnp.where(passed[-1] > 0, passed[-1], 1)


def _gaps(times):
    """Times from knot to knot; 1 between two knots at the same time, with nothing between them."""
    gaps = jnp.diff(times, axis=0)
    return jnp.where(gaps > 0, gaps, 1)


def _pick(values, index):
    """`(steps, batch, ...)` at a step for each sample."""
    return jnp.take_along_axis(values, index.reshape(*index.shape, *(1,) * (values.ndim - 2)), 0)
