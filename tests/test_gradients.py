"""Gradients of every solver on every cell: against finite differences and against autodiff of a plain scan."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import EACH, REAL_ONLY, SOLVERS, Case, distance, every, normal
from jax import lax

from lrcssm import DEER, Sequential, solve


def plain(case, solver, cell, inputs, dt, state):
    """The same states by `lax.scan` alone, which JAX differentiates by itself."""
    del solver
    steps = case.inputs.shape[0]

    def step(x, now):
        drive, h, keep = now
        new = cell.step(x, drive, 1.0 if dt is None else h[..., None])
        return (jnp.where(keep[..., None], new, x),) * 2

    h = jnp.ones((), state.real.dtype) if dt is None else dt
    h = jnp.broadcast_to(h, (steps, 2)) if h.ndim == 0 else h
    mask = jnp.ones((steps, 2), bool) if case.mask is None else case.mask
    return lax.scan(step, state, (cell.drive(inputs), h, mask))[1]


def ours(case, solver, cell, inputs, dt, state):
    # An error inside of compiled code is tested elsewhere; without it these compile in half of the time.
    return solve(cell, inputs, dt=dt, state=state, mask=case.mask, solver=solver, throw=False).states


def loss(function, case, solver):
    params, static = eqx.partition(case.cell, eqx.is_inexact_array)

    def value(params, inputs, dt, state):
        states = function(case, solver, eqx.combine(params, static), inputs, dt, state)
        return jnp.sum(jnp.real(case.cotangent * states + 0.3 * states**2))

    return value, (params, case.inputs, case.dt, case.state)


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


@pytest.mark.parametrize(
    ("dt", "masked"),
    [
        (None, False),
        pytest.param("scalar", True, marks=pytest.mark.slow),
        pytest.param("steps", True, marks=pytest.mark.slow),
    ],
)
@every()
def test_equals_autodiff_of_a_scan(solver, cell, dt, masked):
    case = Case(cell, 9, masked=masked, dt=dt)
    value, args = loss(ours, case, SOLVERS[solver])
    wanted, _ = loss(plain, case, None)
    which = (0, 1, 3) if dt is None else (0, 1, 2, 3)
    got = jax.jit(jax.grad(value, which))(*args)
    assert distance(flat(got), flat(jax.jit(jax.grad(wanted, which))(*args))) < 1e-10


@every(leave_out=REAL_ONLY)
def test_complex_equals_autodiff_of_a_scan(solver, cell):
    case = Case(cell, 9, jnp.complex128)
    value, args = loss(ours, case, SOLVERS[solver])
    wanted, _ = loss(plain, case, None)
    assert (
        distance(flat(jax.jit(jax.grad(value, (0, 1, 3)))(*args)), flat(jax.jit(jax.grad(wanted, (0, 1, 3)))(*args)))
        < 1e-10
    )


@every(quick=[("ELK", "dense toy"), ("quasi-ELK", "dense toy"), *(("Sequential", cell) for cell in EACH)])
def test_equals_finite_differences(solver, cell):
    """Along random directions, of all arguments at once and of each alone, against the numpy loop's own values, at irregular
    times and with masked steps."""
    case = Case(cell, 9, masked=True, dt="steps")
    value, args = loss(ours, case, SOLVERS[solver])
    total, gradient = jax.jit(jax.value_and_grad(value, (0, 1, 2, 3)))(*args)

    def reference(params, inputs, dt, state):
        other = Case(cell, 9, masked=True, dt="steps")
        other.cell, other.inputs, other.dt, other.state = params, inputs, dt, state
        states = other.states()
        return np.sum(np.real(np.asarray(case.cotangent) * states + 0.3 * states**2))

    assert abs(total - reference(*args)) <= 1e-10 * max(abs(total), 1.0)
    rng = np.random.default_rng(0)
    for part in ((0, 1, 2, 3), (0,), (1,), (2,), (3,)):
        ways = [
            jax.tree.map(lambda a, i=i, part=part: np.asarray(normal(rng, a.shape, a.dtype)) * (i in part), arg)
            for i, arg in enumerate(args)
        ]

        def moved(h, ways=ways):
            return reference(*jax.tree.map(lambda a, way: np.asarray(a) + h * way, list(args), ways))

        h = 1e-4
        numeric = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h)
        analytic = sum(
            np.sum(np.real(np.asarray(g) * d)) for g, d in zip(*map(jax.tree.leaves, (gradient, ways)), strict=True)
        )
        assert abs(numeric - analytic) <= 1e-6 * max(abs(analytic), 1e-3), part


@every()
def test_forward_mode_and_hessian_products(solver, cell):
    case = Case(cell, 8)
    value, args = loss(ours, case, SOLVERS[solver])
    wanted, _ = loss(plain, case, None)
    rng = np.random.default_rng(0)
    ways = jax.tree.map(lambda a: normal(rng, a.shape, a.dtype), args)

    def forward(function):
        return jax.jvp(function, args, ways)[1]

    def curvature(function):
        return jax.jvp(jax.grad(function, (0, 1, 3)), args, ways)[1]

    got, want = (jax.jit(lambda f=f: (forward(f), curvature(f)))() for f in (value, wanted))
    assert distance(got[0], want[0]) < 1e-10
    assert distance(flat(got[1]), flat(want[1])) < 1e-9


@every()
def test_gradient_under_vmap(solver, cell):
    case = Case(cell, 9, batch=(3,))

    @jax.jit
    @jax.vmap
    def gradient(inputs, state, cotangent):
        return jax.grad(
            lambda u, x: jnp.sum(
                jnp.real(cotangent * solve(case.cell, u, state=x, solver=SOLVERS[solver], throw=False).states)
            ),
            (0, 1),
        )(inputs, state)

    moved = [jnp.moveaxis(a, 1, 0) for a in (case.inputs, case.cotangent)]
    got = gradient(moved[0], case.state, moved[1])
    whole = jax.grad(
        lambda u, x: jnp.sum(jnp.real(case.cotangent * solve(case.cell, u, state=x, solver=Sequential()).states)),
        (0, 1),
    )(case.inputs, case.state)
    assert distance(jnp.moveaxis(got[0], 0, 1), whole[0]) < 1e-10
    assert distance(got[1], whole[1]) < 1e-10


@pytest.mark.slow
def test_what_a_function_closes_over_is_differentiated():
    case = Case("dense toy", 8)

    def total(w, solver):
        return jnp.sum(
            case.cotangent
            * solve(lambda x, u: jnp.tanh(x @ w + u @ case.cell.v), case.inputs, state=case.state, solver=solver).states
        )

    def scanned(w):
        def step(x, u):
            return (jnp.tanh(x @ w + u @ case.cell.v),) * 2

        return jnp.sum(case.cotangent * lax.scan(step, case.state, case.inputs)[1])

    for solver in (Sequential(), DEER(), DEER(quasi=True)):
        assert distance(jax.grad(total)(case.cell.w, solver), jax.grad(scanned)(case.cell.w)) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("solver", [Sequential(), DEER()], ids=lambda s: type(s).__name__)
def test_memory_of_the_backward_pass_does_not_grow_with_the_iterations(solver):
    """A cell that needs many iterations and one that needs few take the same memory: it is static, so look at it."""
    case = Case("LRC paper", 2000, jnp.float32, size=16)

    def temporary(rtol):
        changed = solver if isinstance(solver, Sequential) else type(solver)(rtol=rtol, max_steps=50)

        def total(cell, inputs):
            return jnp.sum(solve(cell, inputs, solver=changed, throw=False).states ** 2)

        lowered = jax.jit(jax.grad(total, (0, 1))).lower(case.cell, case.inputs)
        return lowered.compile().memory_analysis().temp_size_in_bytes

    states = case.cotangent.size * 4
    assert temporary(1e-1) == temporary(1e-6) < 60 * states
