"""Declared structure = true structure for every cell, and the checks that a user runs on a cell of their own."""

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
