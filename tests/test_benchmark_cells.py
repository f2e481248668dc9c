"""The benchmark of the cells at sizes where it takes no time, and that it measures the right thing."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from wing import run

from lrcssm import DEER, cells as library
from lrcssm.cells.base import parameter_count
from lrcssm_paper.benchmark import CellsBenchmark, cells, layer, record as records

TINY: dict[str, Any] = {"length": 4, "state_dim": 3, "input_dim": 2, "batch": 2, "rounds": 2}
ROW = {
    "cell", "structure", "parameters", "note", "iterations", "forward", "forward_backward", "forward_step_us",
    "forward_backward_step_us", "forward_to_lrc", "forward_backward_to_lrc",
}  # fmt: skip


def test_every_cell_and_variant_can_be_made():
    made: dict[str, Any] = {
        name: eqx.filter_eval_shape(make, 2, 4, dtype=jnp.float32, key=jax.random.key(0))
        for name, make in cells.makers().items()
    }
    assert set(library.ALL) <= set(made) and next(iter(made)) == "LRC"
    for name, cell in made.items():
        assert type(cell) is library.ALL[name.partition("-")[0]]
        assert {leaf.dtype for leaf in jax.tree.leaves(cell)} <= {jnp.dtype("float32"), jnp.dtype("complex64")}
    assert made["LRC"].form == "paper" and made["LRC-released"].form == "released"
    assert made["LSTM"].structure == "block2" and made["LSTM-cell"].structure == "diagonal"


@pytest.mark.parametrize(
    ("asked", "measured"),
    [
        (("GRU",), ["LRC", "GRU"]),
        (("LSTM-cell", "LRC", "LSTM-cell"), ["LRC", "LSTM-cell"]),
        (("all",), list(cells.makers())),
        (("all", "GRU"), list(cells.makers())),
    ],
)
def test_names(asked, measured):
    assert records.chosen(asked, cells.makers(), "cells", "LRC") == measured


def test_unknown_name():
    with pytest.raises(ValueError, match=r"--cells got 'gru'; give all, or some of LRC, LRC-released, .*DenseLTC\.$"):
        cells.measure(CellsBenchmark(cells=("LRC", "gru")))


@pytest.mark.parametrize("wrong", [{"length": 0}, {"state_dim": 0}, {"input_dim": -1}, {"rounds": 0}, {"cells": ()}])
def test_options_are_checked(wrong):
    with pytest.raises(ValueError, match=f"--{next(iter(wrong)).replace('_', '-')} got"):
        CellsBenchmark(**wrong)


def test_command(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "_FEW", 2)
    path = tmp_path / "record.json"
    words = ["benchmark", "cells", "--cells", "DenseSTC", "--limit", "1e-9", "--json", str(path)]
    run(*words, *(f"--{name.replace('_', '-')}={size}" for name, size in TINY.items()))
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("Sequential, T=4, N=3")
    assert "DenseSTC: not measured at T=4" in out and "Variants" not in out and "DEER" not in out

    assert str(tmp_path) not in path.read_text()
    record = json.loads(path.read_text())
    assert set(record) == {"command", "environment", "options", "rows"}
    assert record["command"].startswith("lrcssm benchmark cells --rounds 2 --limit 1e-09 --input-dim 2 --state-dim 3")
    assert [row["cell"] for row in record["rows"]] == ["LRC", "DenseSTC"]
    assert all(set(row) == ROW for row in record["rows"])
    row, slow = record["rows"]
    assert "raise --limit" in slow["note"] and slow["parameters"] > 0
    assert all(slow[f"{name}{more}"] is None for name in layer.PASSES for more in ("", "_step_us", "_to_lrc"))
    assert row["note"] is None and row["iterations"] == 0
    for name in layer.PASSES:
        assert set(row[name]) == {"best_ms", "median_ms", "rounds", "memory_mb"}
        assert 0 < row[name]["best_ms"] <= row[name]["median_ms"] and row[name]["rounds"] == 2
        assert row[name]["memory_mb"] > 0 and row[f"{name}_to_lrc"] == 1.0
        assert row[f"{name}_step_us"] == pytest.approx(1e3 * row[name]["best_ms"] / 4)

    cells.show(record | {"rows": [row, row | {"cell": "LSTM-cell"}]})
    assert "Variants: LSTM-cell has gates_see='cell'." in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # Vectors a, b, g, k of the state, b, g, k of the inputs, g_leak, e_leak, w_x and v; matrices a_u and w_u.
        ("LRC", 11 * 3 + 2 * 2 * 3),
        # Four of the vectors are complex, and read has a complex matrix and a vector.
        ("LRC-complex", (11 + 4) * 3 + 2 * 2 * 3 + 2 * 3 * 3 + 3),
        ("GRU", 3 * (3 + 2 * 3 + 3)),
        ("DenseSTC", 4 * 5 * 3 + 2 * 3),
    ],
)
def test_parameters(name, parameters):
    cell = cells.makers()[name](2, 3, dtype=jnp.float32, key=jax.random.key(0))
    assert parameter_count(cell) == parameters


@pytest.mark.slow
def test_passes_are_those_of_a_plain_loop():
    """Outputs, and the gradient of a real loss, where the state is complex and not what the next layer reads."""
    keys = jax.random.split(jax.random.key(0), 3)
    cell = cells.makers()["LRC-complex"](2, 3, dtype=jnp.float64, key=keys[0])
    inputs = jax.random.normal(keys[1], (5, 2, 2), jnp.float64)
    cotangent = jax.random.normal(keys[2], (5, 2, 3), jnp.float64)
    state = cell.initial_state((2,))
    assert jnp.iscomplexobj(state)

    @jax.jit
    @partial(jax.grad, argnums=(0, 1), has_aux=True)
    def expect(cell, inputs):
        _, states = lax.scan(lambda x, drive: (cell.step(x, drive),) * 2, state, cell.drive(inputs))
        outputs = cell.read(states, inputs)
        return jnp.sum(jnp.real(cotangent * outputs)), outputs

    gradients, outputs = expect(cell, inputs)
    with ThreadPoolExecutor(1) as pool:
        program = cells._program(layer.Case(cell, inputs, state, cotangent), "sequential", pool)
    np.testing.assert_allclose(program.forward(), outputs, rtol=1e-10, atol=1e-12)
    for a, b in zip(jax.tree.leaves(program.forward_backward()), jax.tree.leaves(gradients), strict=True):
        assert np.any(b != 0)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_deer_and_a_cell_that_fails(monkeypatch, capsys):
    monkeypatch.setattr(cells, "DEER", lambda quasi: DEER(quasi=quasi, max_steps=1 if quasi else 100))
    record = cells.measure(CellsBenchmark(cells=("DenseLTC",), solver="deer", **TINY))
    fine, failed = record["rows"]
    assert fine["note"] is None and fine["forward_to_lrc"] == 1.0 and fine["iterations"] > 0
    assert failed["note"].startswith("failed: DEER") and failed["iterations"] is None
    assert failed["forward_step_us"] is None and failed["forward_to_lrc"] is None
    cells.show(record)
    out, err = capsys.readouterr()
    assert out.startswith("DEER, T=4") and "DenseLTC: failed: DEER" in out and "DEER(quasi=True)." in out
    assert "Traceback" not in err
