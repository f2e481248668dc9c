"""The lists that the tests run over: every case × every solver × every transformation. A new cell is added here."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from lrcssm import DEER, ELK, Auto, Jacobi, Sequential, cells

SOLVERS = {
    "Sequential": Sequential(chunk=7),
    "DEER": DEER(),
    "quasi-DEER": DEER(quasi=True),
    "ELK": ELK(),
    "quasi-ELK": ELK(quasi=True),
    "Jacobi": Jacobi(),
    "Auto": Auto(parallel=True),
}


class DenseToy(cells.Cell):
    """Full connectivity, contractive: the norm of `w` is 0.6."""

    structure = "dense"
    w: jax.Array
    v: jax.Array
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)

    def __init__(self, input_dim, state_dim, *, dtype=None, key):
        self.input_dim, self.state_dim = input_dim, state_dim
        kw, kv = jax.random.split(key)
        w = jax.random.normal(kw, (state_dim, state_dim), dtype)
        self.w = w * (0.6 / jnp.linalg.norm(w, 2)).astype(w.dtype)
        self.v = jax.random.normal(kv, (input_dim, state_dim), dtype) * 0.5

    def drive(self, inputs):
        return inputs @ self.v

    def step(self, state, drive, dt=1.0):
        return state + dt * (jnp.tanh(state @ self.w + drive) - state)


class BlockToy(cells.Cell):
    """A damped oscillator for each unit: position and speed."""

    structure = "block2"
    a: jax.Array
    b: jax.Array
    v: jax.Array
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)

    def __init__(self, input_dim, state_dim, *, dtype=None, key):
        self.input_dim, self.state_dim = input_dim, 2 * (state_dim // 2)
        ka, kb, kv = jax.random.split(key, 3)
        units = state_dim // 2
        real = jnp.finfo(dtype).dtype if dtype is not None else None
        self.a = jax.random.uniform(ka, (units,), real, 0.3, 0.6).astype(dtype)
        self.b = jax.random.uniform(kb, (units,), real, 0.6, 0.9).astype(dtype)
        self.v = jax.random.normal(kv, (input_dim, units), dtype) * 0.1

    def drive(self, inputs):
        return inputs @ self.v

    def step(self, state, drive, dt=1.0):
        q, s = jnp.split(state, 2, -1)
        q_new = q + dt * (0.3 * jnp.tanh(self.a * s) - 0.2 * q)
        return jnp.concatenate([q_new, s - dt * (self.b * s + 0.3 * jnp.sin(q) - drive)], -1)


# name -> (make(input_dim, state_dim, dtype=, key=), one step of the numpy loop)
CELLS = {
    "LRC paper": (lambda *a, **k: cells.LRC(*a, form="paper", **k), reference.lrc_paper),
    "LRC released": (lambda *a, **k: cells.LRC(*a, form="released", **k), reference.lrc_released),
    "dense toy": (DenseToy, reference.dense_toy),
    "block toy": (BlockToy, reference.block_toy),
}


def every(quick=()):
    """Every solver × every cell, for `parametrize`. Compiling takes the time: what another pair covers too, and full
    ELK on matrices (half a minute each), is for --slow, but for the `quick` pairs."""
    pairs = [(solver, cell) for solver in SOLVERS for cell in CELLS]
    heavy = [
        (solver, cell)
        for solver, cell in pairs
        if cell == "LRC released"
        or solver in ("quasi-ELK", "Auto")
        or (solver, cell) in (("ELK", "dense toy"), ("ELK", "block toy"), ("quasi-DEER", "LRC paper"))
    ]
    return pytest.mark.parametrize(
        ("solver", "cell"),
        [pytest.param(*pair, marks=[pytest.mark.slow] * (pair in heavy and pair not in quick)) for pair in pairs],
    )


class Case:
    """A cell with inputs, a non-zero initial state, and the states that a numpy loop gives for them."""

    def __init__(self, name, length, dtype=jnp.float64, *, batch=(2,), dt=None, masked=False, seed=0, size=4):
        make, step = CELLS[name]
        keys = jax.random.split(jax.random.key(seed), 6)
        real = jnp.finfo(dtype).dtype
        self.cell = make(3, size, dtype=dtype, key=keys[0])
        self.inputs = jax.random.normal(keys[1], (length, *batch, 3), dtype)
        self.state = 0.5 * jax.random.normal(keys[2], (*batch, self.cell.state_dim), dtype)
        self.dt = None
        if dt == "scalar":
            self.dt = jnp.asarray(0.7, real)
        elif dt == "steps":
            self.dt = jax.random.uniform(keys[3], (length, *batch), real, 0.2, 1.0)
        self.mask = jax.random.bernoulli(keys[4], 0.7, (length, *batch)) if masked else None
        self.cotangent = jax.random.normal(keys[5], (length, *batch, self.cell.state_dim), dtype)
        self._step = step

    @property
    def options(self):
        return {"state": self.state, "dt": self.dt, "mask": self.mask}

    def states(self, inputs=None):
        return reference.loop(
            self._step, self.cell, self.inputs if inputs is None else inputs, self.state, self.dt, self.mask
        )


def distance(got, want):
    """The largest difference, relative to the largest value."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, (got.shape, want.shape)
    return float(np.max(np.abs(got - want)) / max(np.max(np.abs(want)), 1e-30))


def tolerance(dtype):
    return 1e-5 if jnp.finfo(dtype).dtype == jnp.float32 else 1e-10
