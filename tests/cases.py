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


def _make(name, **options):
    return lambda *args, **kwargs: cells.ALL[name](*args, **options, **kwargs)


# name -> (make(input_dim, state_dim, dtype=, key=), one step of the numpy loop)
CORE = {
    "LRC paper": (_make("LRC", form="paper"), reference.lrc),
    "dense toy": (DenseToy, reference.dense_toy),
    "block toy": (BlockToy, reference.block_toy),
}
FAMILY = {
    "LRC released": (_make("LRC", form="released"), reference.lrc),
    "LRC A(u) b(x,u)": (_make("LRC", state_dependence="b"), reference.lrc),
    "LRC A(u) b(u)": (_make("LRC", state_dependence="none"), reference.lrc),
    "LRC complex gk": (_make("LRC", complex_parameters="gk"), reference.lrc),
    "LRC complex gka": (_make("LRC", complex_parameters="gka"), reference.lrc),
    "LRC complex gkab": (_make("LRC", form="released", complex_parameters="gkab"), reference.lrc),
    "LRC symmetric": (_make("LRC", elastance="symmetric", elastance_input=False), reference.lrc),
    "LRC nonnegative": (_make("LRC", nonnegative=True, elastance_input=False), reference.lrc),
    "LRC implicit": (_make("LRC", integrator="implicit"), reference.lrc),
    "LRC exponential": (_make("LRC", integrator="exponential"), reference.lrc),
    "LRC rho": (_make("LRC", rho=0.8), reference.lrc_contractive),
    "LRC spread": (_make("LRC", init="spread", max_time=50.0), reference.lrc),
    "STC": (_make("STC"), reference.stc),
    "STC released exponential": (_make("STC", form="released", integrator="exponential"), reference.stc),
    "LTC": (_make("LTC"), reference.ltc),
    "LTC Euler": (_make("LTC", form="released", integrator="euler"), reference.ltc),
    "GRU": (_make("GRU"), reference.gru),
    "MGU": (_make("MGU"), reference.mgu),
    "LSTM": (_make("LSTM"), reference.lstm),
    "LSTM diagonal": (_make("LSTM", gates_see="cell"), reference.lstm_cell),
    "DenseLRC": (_make("DenseLRC"), reference.dense_lrc),
    "DenseSTC": (_make("DenseSTC", integrator="implicit"), reference.dense_stc),
    "DenseLTC": (_make("DenseLTC"), reference.dense_ltc),
    # Memories of some dozens of steps: over longer ones the rounding of coefficients, not of states, would be measured.
    "LRU": (_make("LRU", r_max=0.95), reference.lru),
    "S5": (_make("S5", dt_min=0.1, dt_max=0.5), reference.s5),
    "S5 bilinear": (_make("S5", discretisation="bilinear", dt_min=0.1, dt_max=0.5), reference.s5),
    "LinOSS": (_make("LinOSS"), reference.linoss),
    "LinOSS damped": (_make("LinOSS", discretisation="damped", r_max=0.95), reference.linoss),
    "S6": (_make("S6", dt_min=0.1, dt_max=0.5), reference.s6),
    "S4D": (_make("S4D", dt_min=0.1, dt_max=0.5), reference.s4),
    "LiquidS4": (_make("LiquidS4", dt_min=0.1, dt_max=0.2), reference.liquid_s4),
}
# An oscillator that never comes to rest adds up the rounding of all steps: not for the long sequences of the lists.
UNDAMPED = {
    "LinOSS IMEX": (_make("LinOSS", discretisation="imex"), reference.linoss),
}
LINEAR = ("LRU", "S5", "S5 bilinear", "LinOSS", "LinOSS IMEX", "LinOSS damped", "S6", "S4D", "LiquidS4")
CELLS = CORE | FAMILY | UNDAMPED
# One of each kind, for what is not tested on all of them by default.
KINDS = ("LRC released", "LRC complex gk", "LRC rho", "LTC", "GRU", "LSTM", "DenseLRC")
# One of each class of `cells.ALL`, for what every cell is tested on by default.
EACH = (
    "LRC paper", "STC", "LTC", "GRU", "MGU", "LSTM", "LRU", "S5", "LinOSS", "S6", "S4D", "LiquidS4", "DenseLRC", "DenseSTC", "DenseLTC",
)  # fmt: skip
# Real by what they are, complex already, or (Euler's step of a complex rate) unstable, so that rounding grows.
REAL_ONLY = {
    "LRC rho", "LRC spread", "LRC symmetric", "LTC Euler", *(name for name in FAMILY if "complex" in name), *LINEAR
}  # fmt: skip


def every(quick=(), leave_out=()):
    """Every solver × every cell, for `parametrize`. Compiling takes the time, so most of it is for --slow: what another
    pair covers too, and of the family all but the `quick` pairs. What is particular to a solver is tested on the core;
    on the family, the solvers that differ in what they ask of a cell."""
    pairs = [(solver, cell) for solver in SOLVERS for cell in CORE]
    pairs += [(solver, cell) for solver in ("Sequential", "DEER", "ELK") for cell in FAMILY]
    pairs += [("quasi-DEER", cell) for cell in FAMILY if "Dense" in cell or cell == "LSTM"]
    heavy = [
        (solver, cell)
        for solver, cell in pairs
        if cell in FAMILY
        or solver in ("quasi-ELK", "Auto")
        or (solver in ("ELK", "Jacobi", "quasi-DEER") and cell == "block toy")
        or (solver in ("Sequential", "ELK", "Jacobi") and cell == "dense toy")
        or (solver, cell) in (("Sequential", "block toy"), ("Jacobi", "LRC paper"), ("quasi-DEER", "LRC paper"))
    ]
    return pytest.mark.parametrize(
        ("solver", "cell"),
        [
            pytest.param(*pair, marks=[pytest.mark.slow] * (pair in heavy and pair not in quick))
            for pair in pairs
            if pair[1] not in leave_out
        ],
    )


def normal(rng, shape, dtype):
    """Normal numbers from a numpy generator: JAX's own are compiled for each shape, which takes most of a second."""
    numbers = rng.normal(size=shape)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        numbers = (numbers + 1j * rng.normal(size=shape)) / np.sqrt(2)
    return jnp.asarray(numbers, dtype)


class Case:
    """A cell with inputs, a non-zero initial state, and the states that a numpy loop gives for them."""

    def __init__(self, name, length, dtype=jnp.float64, *, batch=(2,), dt=None, masked=False, seed=0, size=4):
        make, step = CELLS[name]
        rng = np.random.default_rng(seed)
        real = jnp.finfo(dtype).dtype
        self.cell = make(3, size, dtype=dtype, key=jax.random.key(seed))
        self.inputs = normal(rng, (length, *batch, 3), dtype)
        own = jax.eval_shape(self.cell.initial_state)
        self.state = 0.5 * normal(rng, (*batch, own.shape[-1]), own.dtype)
        self.dt = None
        if dt == "scalar":
            self.dt = jnp.asarray(0.7, real)
        elif dt == "steps":
            self.dt = jnp.asarray(rng.uniform(0.2, 1.0, (length, *batch)), real)
        self.mask = jnp.asarray(rng.random((length, *batch)) < 0.7) if masked else None
        self.cotangent = normal(rng, (length, *self.state.shape), own.dtype)
        self._step = step

    @property
    def options(self):
        return {"state": self.state, "dt": self.dt, "mask": self.mask}

    def one_step(self, state, t, sample, mask=None):
        """The step of the numpy loop from a given state."""
        dt = None if self.dt is None else np.asarray(self.dt)[t, sample][None, None]
        return reference.loop(
            self._step, self.cell, np.asarray(self.inputs)[t, sample][None, None], state[None], dt, mask
        )[0, 0]

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
