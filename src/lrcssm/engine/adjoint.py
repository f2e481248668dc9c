"""The implicit gradient of a solve.

The states satisfy `x_t = F(x_{t-1}, u_t; θ)` however they were found, so that their tangents v satisfy

    v_t = J_t v_{t-1} + dF_t,     J_t = ∂F/∂x at (x_{t-1}, u_t),  dF_t = ∂F/∂(θ, u, dt) · (dθ, du, d(dt))

one linear recurrence with the exact Jacobian, after any solver. Transposed it is the adjoint. It is evaluated
as the states were: all at once, or chunk by chunk. A chunk's drive and derivatives are recomputed in the backward
pass, where they are needed, while they fit into the cache; only the states are kept.
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array

from .jacobian import as_vectors, linearise
from .recurrence import linear_recurrence, previous, recurrence_of_maps
from .system import Piece, scan_chunks, update


def attach(
    states: Array, cell: Any, piece: Piece, initial: Array, *, chunk: int, parallel: bool, matrices: bool
) -> Array:
    """Attach the derivatives of a solution to its states.

    **Arguments:**

    - `states`: the solution, `(time, batch, state)`; its own derivatives are ignored.
    - `chunk`: how many steps to differentiate at a time.
    - `parallel`: solve the linear recurrence by an associative scan.
    - `matrices`: build the Jacobians of a cell that is not diagonal. Otherwise they are applied one step after the
        other without being built, at a memory of O(T·D) instead of O(T·D²).
    """
    params, rest = eqx.partition(cell, eqx.is_inexact_array)
    if getattr(cell, "affine", False) and not parallel:
        tangent = _by_maps
    elif matrices or cell.structure == "diagonal":
        tangent = functools.partial(_by_jacobian, parallel=parallel)
    else:
        tangent = _by_products

    @jax.custom_jvp
    def solution(states, params, piece, initial):
        return states

    @functools.partial(solution.defjvp, symbolic_zeros=True)
    def _(primals, tangents):
        states = solution(*primals)
        _, params, piece, initial = primals
        _, params_dot, piece_dot, initial_dot = jax.tree.map(
            lambda t: None if isinstance(t, SymbolicZero) else t,
            tangents,
            is_leaf=lambda t: isinstance(t, SymbolicZero),
        )

        @functools.partial(jax.checkpoint, prevent_cse=False)
        def run(params, params_dot, carry, part):
            first_dot, first = carry
            states, piece, piece_dot = part
            dots = tangent(rest, params, params_dot, piece, piece_dot, previous(states, first), first_dot)
            return (dots[-1], states[-1]), dots

        first_dot = jnp.zeros_like(initial) if initial_dot is None else initial_dot
        _, states_dot = scan_chunks(
            functools.partial(run, params, params_dot), (first_dot, initial), (states, piece, piece_dot), chunk
        )
        return states, states_dot

    return solution(states, params, piece, initial)


def _by_jacobian(rest, params, params_dot, piece, piece_dot, before, first_dot, *, parallel):
    """The tangents of a part of time from its Jacobians, built for all steps at once."""
    step, forcing = _forced(rest, params, params_dot, piece, piece_dot, before)
    _, jacobian = linearise(step, before, rest.structure)
    vectors, flat = as_vectors(rest.structure)
    return flat(linear_recurrence(jacobian, vectors(forcing), vectors(first_dot), parallel=parallel))


def _by_maps(rest, params, params_dot, piece, piece_dot, before, first_dot):
    """The tangents of a part of time one step after the other, for an affine cell: its Jacobians depend neither on the state
    nor, often, on time, and the step itself is the fastest way to apply them."""
    _, forcing = _forced(rest, params, params_dot, piece, piece_dot, before)
    cell = eqx.combine(params, rest)
    moving = piece.dt if piece.dt is not None and piece.dt.ndim else None

    def apply(now, x_dot):
        before, drive, dt, mask = now
        dt = piece.dt if dt is None else dt
        return jax.jvp(lambda x: update(cell, x, drive, dt, mask), (before,), (x_dot,))[1]

    given = (before, cell.drive(piece.inputs), moving, piece.mask)
    first = apply(jax.tree.map(lambda a: a[0], given), first_dot)
    return recurrence_of_maps(apply, given, forcing.at[0].add(first))


def _forced(rest, params, params_dot, piece, piece_dot, before):
    """The step of all times as a function of the states before it, and dF."""

    def step(params, piece, before):
        cell = eqx.combine(params, rest)
        return update(cell, before, cell.drive(piece.inputs), piece.dt, piece.mask)

    forcing = _jvp(lambda given: step(given[0], given[1], before), (params, piece), (params_dot, piece_dot))[1]
    return functools.partial(step, params, piece), forcing


def _by_products(rest, params, params_dot, piece, piece_dot, before, first_dot):
    """The tangents of a part of time one step after the other, by products with Jacobians that are never built."""
    drive, drive_dot = _jvp(
        lambda given: eqx.combine(given[0], rest).drive(given[1]),
        (params, piece.inputs),
        (params_dot, piece_dot.inputs),
    )

    def step(before_dot, now):
        before, drive, drive_dot, piece, piece_dot = now

        def new(given):
            params, before, drive, dt = given
            return update(eqx.combine(params, rest), before, drive, dt, piece.mask)

        dt, dt_dot = fixed_dt if fixed_dt else (piece.dt, piece_dot.dt)
        dots = _jvp(new, (params, before, drive, dt), (params_dot, before_dot, drive_dot, dt_dot))[1]
        return dots, dots

    fixed_dt = None
    if piece.dt is not None and piece.dt.ndim == 0:
        fixed_dt = piece.dt, piece_dot.dt
        piece, piece_dot = (
            eqx.tree_at(lambda p: p.dt, p, None, is_leaf=lambda a: a is None) for p in (piece, piece_dot)
        )
    return lax.scan(step, first_dot, (before, drive, drive_dot, piece, piece_dot))[1]


def _jvp(function, primals, tangents):
    """`jax.jvp` where a tangent may be `None` for zero."""
    moved = jax.tree.map(lambda t: t is not None, tangents, is_leaf=lambda t: t is None)
    varied, held = eqx.partition(primals, moved)
    if not jax.tree.leaves(varied):
        new = function(primals)
        return new, jax.tree.map(jnp.zeros_like, new)
    return jax.jvp(lambda varied: function(eqx.combine(varied, held)), (varied,), (tangents,))
