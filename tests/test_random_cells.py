"""No silent failure: random cells that are large, unstable or wrongly declared, every solver, against a numpy loop."""

import dataclasses
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from cases import SOLVERS
from truth import truth_and_reach, wrong

from lrcssm import Sequential, Sharded, Status, cells, solve
from lrcssm.training import make_mesh

UNITS = 4
SHARES = {20: 600, 300: 380, 2000: 20}  # length -> how many of a thousand cells


def limited(solver):
    return dataclasses.replace(solver, max_steps=100) if hasattr(solver, "max_steps") else solver


def run_stack(stack, inputs, solver):
    """Status and states of a stack of cells, each with inputs of its own."""
    one = lambda cell, inputs: solve(cell, inputs, solver=solver, throw=False)
    found = eqx.filter_jit(eqx.filter_vmap(one))(stack, inputs)
    return np.asarray(found.status), np.moveaxis(np.asarray(found.states), 0, 1)


def numpy_parameters(stack):
    """The parameters of a stack of cells in float64, with an axis for the products with inputs after that of the cells."""
    fields = {field.name: getattr(stack, field.name) for field in dataclasses.fields(stack)}
    arrays = {name: np.asarray(value, np.float64) for name, value in fields.items() if eqx.is_array(value)}
    return types.SimpleNamespace(**fields | {n: a[:, None] if a.ndim == 2 else a for n, a in arrays.items()})


def report(capsys, name, counts, silent):
    with capsys.disabled():
        shown = ", ".join(f"{status.name.lower()} {counts[status]}" for status in Status if counts[status])
        print(f"\n{name}: {counts.sum()} random cells: {shown}; {silent} silently wrong")


def random_cells(form, count, key):
    keys = jax.random.split(key, 2 * count)
    stack = eqx.filter_vmap(lambda k: cells.LRC(3, UNITS, form=form, dtype=jnp.float32, key=k))(keys[:count])
    scales = jnp.linspace(1, 10, count, dtype=jnp.float32)
    return jax.tree.map(lambda p: p * scales.reshape(-1, *(1,) * (p.ndim - 1)), stack)


# On a diagonal cell a quasi solver is the solver itself. What DEER solves of a thousand must not become less.
@pytest.mark.parametrize(
    ("solver", "total", "solved"),
    [
        pytest.param("DEER", 100, 93, marks=pytest.mark.slow),
        *(
            pytest.param(name, 1000, least, marks=pytest.mark.slow)
            for name, least in {"Sequential": 1000, "DEER": 935, "ELK": 950, "Jacobi": 650, "Auto": 1000}.items()
        ),
    ],
)
def test_large_parameters(solver, total, solved, getkey, capsys):
    """LRC cells at 1 to 10 times the initial scale."""
    counts, silent, eps = np.zeros(len(Status), int), 0, np.finfo(np.float32).eps
    for i, (length, share) in enumerate(SHARES.items()):
        share = share * total // 1000
        stack = random_cells("paper" if i % 2 else "released", share, jax.random.key(length))
        inputs = jax.random.normal(getkey(), (share, length, 3), jnp.float32)
        status, states = run_stack(stack, inputs, limited(SOLVERS[solver]))
        given, u = numpy_parameters(stack), np.asarray(inputs, np.float64)
        step = lambda t, x, given=given, u=u: reference.lrc(given, x[:, None], u[:, t][:, None], 1.0)[:, 0]
        found = wrong(states, *truth_and_reach(step, np.zeros((share, UNITS)), length, eps), eps)
        counts += np.bincount(status, minlength=len(Status))
        silent += np.sum(np.any(found, (0, 2)) & (status <= Status.FELL_BACK))
    report(capsys, solver, counts, silent)
    assert counts.sum() == total and silent == 0
    assert counts[Status.SUCCESS] + counts[Status.FELL_BACK] >= solved


class Wild(cells.Cell):
    """`x' = a x + c tanh(m x + d) + q x²`, with any declared structure."""

    a: jax.Array
    c: jax.Array
    q: jax.Array
    m: jax.Array
    v: jax.Array
    structure: str = eqx.field(static=True)
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)

    def __init__(self, structure, rng, dtype):
        """Contractive, slow or expanding; units alone, in pairs or all together; here and there a quadratic term."""
        self.structure, self.input_dim, self.state_dim = structure, 3, UNITS
        unit = np.arange(UNITS)
        masks = [unit[:, None] == unit, unit[:, None] % 2 == unit % 2, np.ones((UNITS, UNITS), bool)]
        size = 10 ** rng.uniform(-1, 1)
        self.a = jnp.asarray(rng.uniform(-1, 1, UNITS) * rng.choice([0.5, 1.0, 1.3]), dtype)
        self.c = jnp.asarray(rng.normal(size=UNITS) * 10 ** rng.uniform(-2, 1), dtype)
        self.q = jnp.asarray(rng.normal(size=UNITS) * rng.choice([0, 0, 0, 0.3]), dtype)
        self.m = jnp.asarray(size * rng.normal(size=(UNITS, UNITS)) * masks[rng.integers(3)], dtype)
        self.v = jnp.asarray(rng.normal(size=(3, UNITS)) * 10 ** rng.uniform(-3, 1, UNITS), dtype)

    def drive(self, inputs):
        return inputs @ self.v

    def step(self, state, drive, dt=1.0):
        return dt * (self.a * state + self.c * jnp.tanh(state @ self.m + drive) + self.q * state**2)


def wild(p, x, u):
    return p.a * x + p.c * np.tanh(x @ p.m + u @ p.v) + p.q * x**2


WILD = {name: limited(solver) for name, solver in SOLVERS.items()} | {"Sharded": Sharded(make_mesh(1, 2), Sequential())}
QUICK = [
    *((solver, "f32", "diagonal") for solver in ("Sequential", "DEER", "ELK", "Jacobi", "Auto")),
    *((solver, "f32", "block2") for solver in ("quasi-DEER", "quasi-ELK", "Sharded")),
    ("ELK", "f64", "block2"),
]
EVERY = [(s, d, declared) for s in WILD for d in ("f32", "f64") for declared in ("diagonal", "block2", "dense")]


@pytest.mark.parametrize(
    ("solver", "dtype", "declared", "total"),
    [*((*case, 60) for case in QUICK), *(pytest.param(*case, 1000, marks=pytest.mark.slow) for case in EVERY)],
)
def test_wrongly_declared_and_unstable(solver, dtype, declared, total, capsys):
    kind = {"f32": jnp.float32, "f64": jnp.float64}[dtype]
    rng, eps, length = np.random.default_rng(5), float(jnp.finfo(kind).eps), 60
    made = [Wild(declared, rng, kind) for _ in range(total)]
    # Some inputs have a spike, and some are large all the time.
    inputs = rng.normal(size=(total, length, 3)) * 10.0 ** rng.choice([0, 0, 2], (total, 1, 1))
    inputs[np.arange(total), rng.integers(length, size=total)] *= 10.0 ** rng.choice([0, 0, 8], (total, 1))
    inputs = jnp.asarray(inputs, kind)
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *made)
    if solver == "Sharded":  # a mesh, and a map over cells around it, is no case for users
        found = [
            solve(cell, u[:, None], solver=WILD[solver], throw=False)
            for cell, u in zip(made[:60], inputs[:60], strict=True)
        ]
        status = np.array([int(one.status[0]) for one in found])
        states = np.stack([np.asarray(one.states[:, 0]) for one in found], 1)
        stack, inputs = jax.tree.map(lambda leaf: leaf[:60], (stack, inputs))
    else:
        status, states = run_stack(stack, inputs, WILD[solver])
    given, u = numpy_parameters(stack), np.asarray(inputs, np.float64)
    step = lambda t, x: wild(given, x[:, None], u[:, t][:, None])[:, 0]
    found = wrong(states, *truth_and_reach(step, np.zeros((len(status), UNITS)), length, eps), eps)
    silent = np.sum(np.any(found, (0, 2)) & (status <= Status.FELL_BACK))
    counts = np.bincount(status, minlength=len(Status))
    report(capsys, f"{solver} {dtype} {declared}", counts, silent)
    assert silent == 0
    # Neither are all of them easy, nor does the solver give up on everything.
    assert 0 < counts[Status.SUCCESS] + counts[Status.FELL_BACK] < len(status)
