"""Common parts of the liquid cells with a diagonal Jacobian: conductances, their options, and a contraction.

Paper (equations 8 and 9; σ is the logistic function, everything per unit i):

    f = g_x σ(a_x x + b_x) + g_u σ(Σ_j a_u,ji u_j + b_u) + g_leak        forget conductance
    z = k_x σ(a_x x + b_x) + k_u σ(Σ_j a_u,ji u_j + b_u) + g_leak        update conductance

Released code (`form="released"`): each input has its own synapse, σ(a_u,j (u_j − b_u,j)), mixed by full matrices
g_u and k_u into f and z; and the state's synapse is σ(a_x (x − b_x)).

The paper writes the offset b_u with the input's index inside a sum over inputs; summed it is one number for each unit,
and that number is learned here.

Contraction. With the rate α and the rest r of the cell's equation (see `integrators.py`), a step is
x ← ρ λ x + (1 − λ) r, and |∂λ/∂x| ≤ (1 − λ) R, |∂r/∂x| ≤ S, |r| ≤ r*, |x| ≤ X with bounds R and S that are proportional
to the slopes of the state's synapse and elastance. So |∂x'/∂x| ≤ ρ λ + (1 − λ) M with M = R (ρ X + r*) + S, which is at
most ρ if M is. `rho=` multiplies the slopes by min(1, ρ/M): then M ≤ ρ for all parameters.
"""

import abc
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import sigmoid, softplus
from jaxtyping import Array, DTypeLike, Float, Inexact, PRNGKeyArray

from ..errors import InvalidValue
from .base import Cell, Envelope, choose, linear, logit, signs, uniform
from .integrators import INTEGRATORS, Integrator, advance, share_kept

Form = Literal["paper", "released"]
StateDependence = Literal["both", "b", "none"]
ComplexParameters = Literal["none", "gk", "gka", "gkab"]
Contraction = Literal["tanh-clamp", "negative-softplus-exponential"]
Initialisation = Literal["paper", "spread"]
_INTEGRATOR_OF: dict[str, Integrator] = {"tanh-clamp": "euler", "negative-softplus-exponential": "exponential"}


class Liquid(Cell):
    """Base class of `LRC`, `STC` and `LTC`, which document the fields."""

    a_x: Inexact[Array, " state"] | None
    b_x: Inexact[Array, " state"] | None
    g_x: Inexact[Array, " state"] | None
    k_x: Inexact[Array, " state"] | None
    g_leak: Inexact[Array, " state"]
    e_leak: Inexact[Array, " state"]
    a_u: Inexact[Array, "input state"] | Inexact[Array, " input"]  # released: one for each input
    b_u: Inexact[Array, " state"] | Inexact[Array, " input"]
    g_u: Inexact[Array, " state"] | Inexact[Array, "input state"]  # released: a matrix
    k_u: Inexact[Array, " state"] | Inexact[Array, "input state"]
    c: Inexact[Array, "state out"] | None
    d: Float[Array, " out"] | None
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)
    form: Form = eqx.field(static=True)
    state_dependence: StateDependence = eqx.field(static=True)
    nonnegative: bool = eqx.field(static=True)
    integrator: Integrator = eqx.field(static=True)
    rho: float | None = eqx.field(static=True)

    def __init__(
        self,
        input_dim: int,
        state_dim: int,
        *,
        form: Form = "paper",
        state_dependence: StateDependence = "both",
        complex_parameters: ComplexParameters = "none",
        nonnegative: bool = False,
        integrator: Integrator | None = None,
        rho: float | None = None,
        contraction: Contraction = "tanh-clamp",
        init: Initialisation = "paper",
        max_time: float | int = 1000,
        dtype: DTypeLike | None = None,
        key: PRNGKeyArray,
    ):
        name = type(self).__name__
        choose(name, "form", form, ("paper", "released"))
        choose(name, "state_dependence", state_dependence, ("both", "b", "none"))
        choose(name, "complex_parameters", complex_parameters, ("none", "gk", "gka", "gkab"))
        choose(name, "init", init, ("paper", "spread"))
        choose(name, "contraction", contraction, tuple(_INTEGRATOR_OF))
        if integrator is not None:
            choose(name, "integrator", integrator, INTEGRATORS)
        dtype = jnp.dtype(jnp.result_type(float) if dtype is None else dtype)
        complex_dtype = jnp.issubdtype(dtype, jnp.complexfloating)
        if rho is not None:
            if not 0 < rho < 1:
                raise InvalidValue(f"{name} got rho={rho!r}; give a number between 0 and 1, e.g. 0.99.")
            if complex_dtype or complex_parameters != "none":
                raise InvalidValue(
                    f"{name} got rho={rho} with complex parameters, for which there is no bound; drop one."
                )
            if integrator is not None and integrator != _INTEGRATOR_OF[contraction]:
                raise InvalidValue(
                    f'{name} got integrator="{integrator}" and contraction="{contraction}", which is the '
                    f'"{_INTEGRATOR_OF[contraction]}" integrator; drop one of them.'
                )
        if complex_parameters != "none" and state_dependence == "none":
            raise InvalidValue(
                f'{name} got complex_parameters="{complex_parameters}" and state_dependence="none", which has no '
                "parameters of the state; drop one of them."
            )
        if init == "spread" and complex_dtype:
            raise InvalidValue(f'{name} got init="spread" and dtype={dtype}; choose complex_parameters= instead.')
        self.input_dim, self.state_dim, self.form = input_dim, state_dim, form
        self.state_dependence, self.nonnegative, self.rho = state_dependence, nonnegative, rho
        self.integrator = integrator or ("euler" if rho is None else _INTEGRATOR_OF[contraction])
        keys = iter(jax.random.split(key, 12))
        limit = 1 / state_dim**0.5

        def draw(*shape, of=None):
            chosen = of is not None and of in complex_parameters and not complex_dtype
            return uniform(next(keys), shape, _complex(dtype) if chosen else dtype, limit)

        paper = form == "paper"
        per_unit, per_input, mixing = (state_dim,), (input_dim,), (input_dim, state_dim)
        self.a_x, self.b_x, self.k_x = (
            (draw(*per_unit, of=name) if state_dependence != "none" else None) for name in "abk"
        )
        self.g_x = draw(*per_unit, of="g") if state_dependence == "both" else None
        self.g_leak, self.e_leak = draw(*per_unit), draw(*per_unit)
        self.a_u = draw(*(mixing if paper else per_input))
        self.b_u = draw(*(per_unit if paper else per_input))
        self.g_u, self.k_u = (draw(*(per_unit if paper else mixing)) for _ in range(2))
        self.c = self.d = None
        if complex_parameters != "none":
            self.c = uniform(next(keys), (state_dim, state_dim), _complex(dtype), (1.5 / state_dim) ** 0.5)
            self.d = jnp.zeros(state_dim, dtype)
        if init == "spread":
            self._spread(next(keys))
            self._spread_rates(max_time)

    def _spread_rates(self, max_time: float | int) -> None:
        """Set the time constants for `init="spread"`, after `_spread` set the scales."""

    def _spread(self, key: PRNGKeyArray) -> None:
        """Unit scale: the update conductance swings by ±1.2 as the inputs do, around a resting value from ±1, so that
        slow units, which average the swings away, are not all at zero; the sign is that of `e_leak`; and the forget
        conductance is positive."""
        keys = iter(jax.random.split(key, 12))
        dtype, n, m = self.e_leak.dtype, self.state_dim, self.input_dim
        self.g_leak = uniform(next(keys), (n,), dtype, 1.5, low=1.0)
        self.e_leak = 1.5 * signs(next(keys), (n,), dtype)
        centre = -2 * self.g_leak  # of k_u, so that z is 0 where the synapse is half open
        if self.form == "paper":
            self.a_u = 2 / m**0.5 * jax.random.normal(next(keys), (m, n), dtype)
            self.b_u = logit(0.5 + uniform(next(keys), (n,), dtype, 0.4))
            self.g_u = uniform(next(keys), (n,), dtype, 1.0, low=0.0)
            self.k_u = centre + uniform(next(keys), (n,), dtype, 0.5)
        else:
            self.a_u = 2 * signs(next(keys), (m,), dtype)
            self.b_u = uniform(next(keys), (m,), dtype, 0.5)
            self.g_u = uniform(next(keys), (m, n), dtype, 2.0 / m, low=0.0)
            mixed = 4 / m**0.5 * jax.random.normal(next(keys), (m, n), dtype)
            self.k_u = mixed - jnp.mean(mixed, 0) + (centre + uniform(next(keys), (n,), dtype, 2.0)) / m
        if self.nonnegative:
            self.g_leak, self.g_u = (inverse_softplus(g) for g in (self.g_leak, self.g_u))

        def state(old, low, high, positive=False):
            if old is None:
                return None
            new = uniform(next(keys), (n,), old.dtype, high, low=low)
            return inverse_softplus(new + 0.05) if positive and self.nonnegative else new

        self.a_x, self.b_x = state(self.a_x, -1.0, 1.0), state(self.b_x, -0.5, 0.5)
        self.g_x, self.k_x = state(self.g_x, 0.0, 0.5, positive=True), state(self.k_x, -0.5, 0.5)

    def _mean_forget(self) -> Float[Array, " state"]:
        """The forget conductance with all synapses half open."""
        g_x, g_u, g_leak = self._conductances()
        mean = g_leak + (g_u if self.form == "paper" else jnp.sum(g_u, 0)) / 2
        return jnp.real(mean if g_x is None else mean + g_x / 2)

    def _conductances(self):
        """g_x, g_u and g_leak as they act."""
        if not self.nonnegative:
            return self.g_x, self.g_u, self.g_leak
        return None if self.g_x is None else softplus(self.g_x), softplus(self.g_u), softplus(self.g_leak)

    @property
    def affine(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True if a step is affine in the state."""
        return self.state_dependence == "none"

    @abc.abstractmethod
    def _rates(self, x, f, z, drive, slope) -> tuple[Array, Array, Array | None]:
        """Rate and force without the elastance, and the elastance, given the conductances and the rest of the drive."""

    def drive(self, inputs: Inexact[Array, "... input"]) -> tuple[Inexact[Array, "... state"], ...]:
        """The inputs' synapse (paper) or their parts of f and z (released), and the terms of a subclass."""
        _, g_u, _ = self._conductances()
        if self.form == "paper":
            return (sigmoid(linear(inputs, self.a_u) + self.b_u),)
        synapse = sigmoid(self.a_u * (inputs - self.b_u))
        return linear(synapse, g_u), linear(synapse, self.k_u)

    def step(
        self,
        state: Inexact[Array, "... state"],
        drive: tuple[Inexact[Array, "... state"], ...],
        dt: Float[Array, "..."] | float = 1.0,
    ) -> Inexact[Array, "... state"]:
        """The next state, elementwise in the state."""
        if self.c is not None:  # real parameters meet a complex state
            self, drive = jax.tree.map(lambda a: a.astype(state.dtype), (self, drive))
        x = state
        slope = self._slope()
        g_x, g_u, g_leak = self._conductances()
        if self.form == "paper":
            synapse, *rest = drive
            f, z = g_u * synapse + g_leak, self.k_u * synapse + g_leak
        else:
            f, z, *rest = drive
            f, z = f + g_leak, z + g_leak
        if self.a_x is not None and self.b_x is not None and self.k_x is not None:
            a_x = self.a_x if slope is None else self.a_x * slope
            y = sigmoid(a_x * (x - self.b_x) if self.form == "released" else a_x * x + self.b_x)
            f = f if g_x is None else f + g_x * y
            z = z + self.k_x * y
        rate, force, speed = self._rates(x, f, z, tuple(rest), slope)
        return advance(self.integrator, x, rate, force, dt, self.rho, speed)

    def read(
        self, state: Inexact[Array, "... state"], inputs: Inexact[Array, "... input"]
    ) -> Inexact[Array, "... state"]:
        """The state; of complex parameters, Re(x c) + d with a learned matrix c."""
        del inputs
        return state if self.c is None or self.d is None else jnp.real(linear(state, self.c)) + self.d

    # --- bounds -----------------------------------------------------------------------------------------------------

    def _ranges(self, input_bound: float | int | None) -> tuple[Any, Any]:
        """The lowest and the highest f and z of each unit, over all states."""
        g_x, g_u, g_leak = self._conductances()
        if self.form == "paper":
            middle, steepest = self.b_u, jnp.linalg.norm(self.a_u, axis=0)
        else:
            middle, steepest = -self.a_u * self.b_u, jnp.abs(self.a_u)
        reach = jnp.inf if input_bound is None else input_bound * steepest
        open_low, open_high = sigmoid(middle - reach), sigmoid(middle + reach)

        def spans(own, inputs):
            low, high = _span(inputs, open_low, open_high, self.form)
            if own is not None:
                low, high = low + jnp.minimum(own, 0), high + jnp.maximum(own, 0)
            return low + g_leak, high + g_leak

        return spans(g_x, g_u), spans(self.k_x, self.k_u)

    @abc.abstractmethod
    def _limits(self, f, z) -> tuple[Array, Array, Array, Array, Array, Array]:
        """From the ranges of f and z, without the elastance: the lowest and the highest rate; the bound of the rest; and
        bounds of ∂ log α/∂f, ∂r/∂f and ∂r/∂z."""

    def _slopes(self, input_bound):
        """R, S and r* for slopes as they are, and the range of the rate's factor without elastance."""
        f, z = self._ranges(input_bound)
        low, high, rest, rate_by_f, rest_by_f, rest_by_z = self._limits(f, z)
        g_x, _, _ = self._conductances()
        zero = jnp.zeros_like(self.e_leak)
        df = zero if g_x is None or self.a_x is None else jnp.abs(g_x * self.a_x) / 4
        dz = zero if self.k_x is None or self.a_x is None else jnp.abs(self.k_x * self.a_x) / 4
        return rate_by_f * df, rest_by_f * df + rest_by_z * dz, rest, low, high

    def _elastance_slope(self) -> Array | None:
        """|w_x|, for a cell with an elastance that depends on the state."""
        return None

    def _slope(self) -> Array | None:
        """The factor of the state's slopes that makes the cell contract; `None` without `rho`."""
        if self.rho is None:
            return None
        keep, rest_slope, rest, _, _ = self._slopes(None)
        w_x = self._elastance_slope()
        keep = keep if w_x is None else keep + w_x
        total = keep * (self.rho + 1) * rest + rest_slope
        # A little less than ρ, for rounding; and no division by zero, also in the gradient.
        wanted = self.rho * (1 - 1e-4)
        return jnp.where(total > wanted, wanted / jnp.maximum(total, wanted), 1.0)

    def _elastance_range(self, state, input_bound, slope) -> tuple[Array, Array, Array]:
        """The lowest and the highest elastance e, and a bound of |∂ log e/∂x| for slopes as they are."""
        del state, input_bound, slope
        one = jnp.ones_like(self.e_leak)
        return one, one, 0 * one

    def envelope(
        self, initial: Float[Array, " state"], input_bound: float | int | None, dt: tuple[float, float]
    ) -> Envelope | None:
        if self.c is not None or jnp.iscomplexobj(self.e_leak):
            return None
        slope = self._slope()
        factor = 1.0 if slope is None else slope
        keep, rest_slope, rest, low, high = self._slopes(input_bound)
        state = jnp.maximum(initial, rest)
        e_low, e_high, e_slope = self._elastance_range(state, input_bound, slope)
        shares = [share_kept(self.integrator, r, h) for r in (low * e_low, high * e_high) for h in dt]
        return Envelope(
            state=state,
            keep_low=jnp.minimum(shares[2], shares[3]),
            keep_high=jnp.maximum(shares[0], shares[1]),
            rest=rest,
            keep_slope=factor * (keep + e_slope),
            rest_slope=factor * rest_slope,
            rho=1.0 if self.rho is None else self.rho,
        )


def _span(weights, low, high, form):
    """The range of Σ_j w_j s_j for synapses between `low` and `high`: one for each unit, or one for each input."""
    if form == "paper":
        ends = weights * low, weights * high
        return jnp.minimum(*ends), jnp.maximum(*ends)
    ends = weights * low[:, None], weights * high[:, None]
    return jnp.sum(jnp.minimum(*ends), 0), jnp.sum(jnp.maximum(*ends), 0)


def saturated_limits(f, z, e_leak):
    """`Liquid._limits` for α ∝ σ(f) and r = tanh(z) e_leak / σ(f)."""
    del z
    low, high = sigmoid(f[0]), sigmoid(f[1])
    rest = jnp.abs(e_leak) / low
    return low, high, rest, 1 - low, (1 - low) * rest, rest


def _complex(dtype):
    return jnp.complex128 if dtype == jnp.float64 else jnp.complex64


def inverse_softplus(value):
    return value + jnp.log(-jnp.expm1(-value))
