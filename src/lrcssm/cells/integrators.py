"""Integrators of the liquid cells: from the differential equation to the next state.

Every liquid cell is, with coefficients that depend on state and input,

    ẋ = −α x + β        rate α, force β;  at rest x = β/α =: r

Over a step Δt, with the coefficients frozen at its beginning, each integrator keeps a share λ of the state and
replaces the rest by r, x ← λ x + (1 − λ) r:

    euler          λ = 1 − Δt α          explicit
    implicit       λ = 1 / (1 + Δt α)    the linear part at the end of the step, the coefficients at its beginning
    exponential    λ = exp(−Δt α)        exact for frozen coefficients

For α > 0 and any Δt > 0 the last two have 0 < λ < 1, so that |x| never exceeds the larger of |x_0| and the largest |r|.
Explicit Euler has that only while Δt α ≤ 1: with Δt ≤ 1 for cells whose rate is a sigmoid, and not at all for LTC.

`rho` < 1 shrinks the kept share, x ← ρ λ x + (1 − λ) r.
"""

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Inexact

from .base import as_factor

Integrator = Literal["euler", "implicit", "exponential"]
INTEGRATORS: tuple[Integrator, ...] = ("euler", "implicit", "exponential")


def advance(
    integrator: Integrator,
    state: Inexact[Array, "..."],
    rate: Inexact[Array, "..."],
    force: Inexact[Array, "..."],
    dt: Inexact[Array, "..."] | float,
    rho: float | None = None,
    speed: Inexact[Array, "..."] | None = None,
) -> Inexact[Array, "..."]:
    """The state after a step of `dt`. `speed` multiplies rate and force. Passing it separately saves a product and, in the
    backward pass, an array."""
    dt = as_factor(dt, state) if speed is None else as_factor(dt, state) * speed
    kept = state if rho is None else rho * state
    if integrator == "euler":
        return kept + dt * (force - rate * kept)
    if integrator == "implicit":
        return (kept + dt * force) / (1 + dt * rate)
    exponent = -dt * rate
    tiny = jnp.abs(exponent) < 1e-6
    safe = jnp.where(tiny, 1.0, exponent)
    mean = jnp.where(tiny, 1 + exponent / 2, jnp.expm1(safe) / safe)  # of exp over the step
    return jnp.exp(exponent) * kept + dt * mean * force


def share_kept(integrator: Integrator, rate: Inexact[Array, "..."], dt: float) -> Inexact[Array, "..."]:
    """The share λ of the state that a step keeps; it falls as the rate rises."""
    if integrator == "euler":
        return 1 - dt * rate
    return 1 / (1 + dt * rate) if integrator == "implicit" else jnp.exp(-dt * rate)
