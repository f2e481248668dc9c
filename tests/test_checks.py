"""Declared structure = true structure for every cell, and the checks for user-defined cells."""

import io

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from cases import CELLS, REAL_ONLY, DenseToy

from lrcssm import DEER, Jacobi, Sequential, cells, check_agreement, check_structure


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(
            name,
            dtype,
            marks=[pytest.mark.slow]
            * (dtype == jnp.complex128 or name not in ("LRC paper", "LSTM", "DenseLRC", "dense toy", "S5")),
        )
        for name in CELLS
        for dtype in (jnp.float64, jnp.complex128)
        if dtype == jnp.float64 or name not in REAL_ONLY
    ],
)
def test_declared_structure_is_true(name, dtype, getkey):
    make, _ = CELLS[name]
    report = check_structure(make(3, 6, dtype=dtype, key=getkey()))
    assert report and report.found == report.declared and report.found_affine == report.declared_affine
    assert "declare " not in str(report)


def test_every_public_cell_is_in_a_case():
    key = jax.random.key(0)
    made = {type(eqx.filter_eval_shape(make, 3, 4, dtype=None, key=key)) for make, _ in CELLS.values()}
    assert set(cells.ALL.values()) <= made


def test_a_wrong_declaration_is_found(getkey):
    class Wrong(DenseToy):
        structure = "diagonal"

    report = check_structure(Wrong(3, 4, key=getkey()))
    assert not report and report.found == "dense"
    assert 'declare structure="dense"' in str(report)

    class Modest(cells.LRC):
        structure = "dense"

    report = check_structure(Modest(3, 4, key=getkey()))
    assert report and 'declare structure="diagonal" to have it solved faster' in str(report)

    class Linear(DenseToy):
        affine = True

    assert "affine=False" in str(check_structure(Linear(3, 4, key=getkey())))
    with pytest.raises(TypeError, match="input_dim"):
        check_structure(lambda x, u: x)


class WrongToy(DenseToy):
    structure = "diagonal"


class ConjugateToy(DenseToy):
    """w conj(x) |x| + u, as real as any recurrence, but without a complex derivative."""

    structure = "diagonal"

    def step(self, state, drive, dt=1.0):
        return 0.3 * jnp.conj(state) * jnp.abs(state).astype(state.dtype) + drive


def test_a_step_that_is_not_holomorphic_is_found(getkey):
    report = check_structure(ConjugateToy(3, 4, dtype=jnp.complex128, key=getkey()))
    assert not report and not report.holomorphic
    assert "not holomorphic" in str(report) and "\n" not in str(report)
    real = check_structure(ConjugateToy(3, 4, key=getkey()))
    assert real and real.holomorphic


def test_a_jacobian_that_is_not_finite_is_refused(getkey):
    class Root(DenseToy):
        def step(self, state, drive, dt=1.0):
            return jnp.sqrt(state) + drive

    cell = Root(3, 4, key=getkey())
    with pytest.raises(ValueError, match="give states that the cell can be in"):
        check_structure(cell)
    assert check_structure(cell, state=jnp.full((2, 4), 0.5)).found == "diagonal"


@pytest.mark.parametrize(("make", "words"), [(WrongToy, 'structure="dense"'), (ConjugateToy, "not holomorphic")])
def test_agreement_finds_a_wrong_gradient(make, words, getkey):
    """The sequential sweep has a wrong gradient too, although its states are right."""
    kind = jnp.complex128 if make is ConjugateToy else jnp.float64
    cell, text = make(3, 4, dtype=kind, key=getkey()), io.StringIO()
    inputs = 0.5 * jax.random.normal(getkey(), (8, 2, 3), kind)
    (row,) = check_agreement(cell, inputs, solvers=(Sequential(),), file=text)
    assert row.status.ok and row.difference < 1e-10 and row.gradient_difference > 1e-3
    assert words in text.getvalue().splitlines()[0]


def test_agreement_in_all_arguments(getkey):
    """Parameters that a function closes over, dt, mask and initial state."""
    w = 0.3 * jax.random.normal(getkey(), (4, 4))
    rows = check_agreement(
        lambda x, u, dt: x + dt * (jnp.tanh(w @ x + u) - x),
        jax.random.normal(getkey(), (8, 2, 4)),
        state=jax.random.normal(getkey(), (2, 4)),
        dt=jax.random.uniform(getkey(), (8, 2)),
        mask=jax.random.bernoulli(getkey(), 0.8, (8, 2)),
        solvers=(Sequential(),),
        file=io.StringIO(),
    )
    assert rows[0].difference < 1e-12 and rows[0].gradient_difference < 1e-10


@pytest.mark.parametrize("name", ["LRC paper", pytest.param("dense toy", marks=pytest.mark.slow)])
def test_agreement_prints_a_table(name, getkey):
    make, _ = CELLS[name]
    text = io.StringIO()
    cell = make(3, 4, key=getkey())
    solvers = (Sequential(), DEER(), DEER(quasi=True), Jacobi())
    rows = check_agreement(cell, jax.random.normal(getkey(), (8, 2, 3)), solvers=solvers, file=text)
    assert all(row.status.ok and row.difference < 1e-10 and row.gradient_difference < 1e-9 for row in rows)
    lines = text.getvalue().splitlines()
    assert lines[0].startswith("solver") and lines[1].startswith("Sequential") and len(lines) == len(rows) + 2


@pytest.mark.slow
def test_agreement_shows_what_fails(getkey):
    text = io.StringIO()
    rows = check_agreement(
        lambda x, u: 3.9 * x * (1 - x) + 0 * u,  # the logistic map: chaos is what Newton cannot do over a long time
        jnp.zeros((100, 1)),
        state=jnp.full(1, 0.3),
        solvers=(Sequential(), DEER(max_steps=5), Jacobi(max_steps=20)),
        file=text,
    )
    assert rows[0].status.ok
    bad = [row for row in rows if not row.status.ok]
    assert bad
    for row in bad:
        assert f"{row.status.name.lower()}: {row.status.message}" in text.getvalue()
