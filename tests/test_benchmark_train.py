"""The benchmark of training at sizes where it takes no time, and that it compares a step with the right things."""

import json
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from wing import run

from lrcssm import SequenceModel
from lrcssm.training.step import train_step
from lrcssm_paper.benchmark import TrainBenchmark, step, train

TINY = train.Configuration(length=6, channels=3, classes=2, hidden_dim=5, state_dim=4, num_blocks=1)
EQUAL = TINY._replace(state_dim=5, num_blocks=2)
ROW = {
    "dataset", "batch", *train.Configuration._fields, "parameters", "gflop", "note", "compile_s", "memory_mb",
    "step", "sum", "matmuls", "to_matmuls", "to_sum", "matmul_gflops",
}  # fmt: skip


def made(size: train.Configuration) -> SequenceModel:
    return SequenceModel(size.model(), jax.random.key(0))


def products(jaxpr: Any) -> list[int]:
    """The operations of every matrix product in a program."""
    found = []
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            left = equation.invars[0].aval
            ((contracted, _), _) = equation.params["dimension_numbers"]
            found.append(2 * equation.outvars[0].aval.size * int(np.prod([left.shape[i] for i in contracted])))
        for inner in jax.tree.leaves(equation.params, is_leaf=lambda p: hasattr(p, "eqns") or hasattr(p, "jaxpr")):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                found += products(inner)
    return found


def test_published_configurations():
    assert len(train.CONFIGURATIONS) == 6
    assert train.CONFIGURATIONS["EigenWorms"] == (17984, 6, 5, 64, 16, 4)
    assert train.CONFIGURATIONS["Heartbeat"] == (405, 61, 2, 64, 64, 4)


@pytest.mark.parametrize("size", [TINY, EQUAL], ids=["widths differ", "equal widths"])
@pytest.mark.usefixtures("defaults")
def test_matmuls_are_those_of_the_model(size):
    """All three programs have the same products, but for the drives that a recurrence computes again to save memory."""
    multiply, arrays = train.matmuls(size, 2)
    alone = products(jax.make_jaxpr(multiply)(*arrays).jaxpr)
    assert sum(alone) == train.operations(size, 2)
    given = step.arguments(train.without_recurrence(made(size)), size.length, 2)
    jaxpr, _, _ = eqx.filter_make_jaxpr(train_step)(*given)
    assert sorted(products(jaxpr.jaxpr)) == sorted(alone)


@pytest.mark.usefixtures("defaults")
def test_the_compiler_removes_no_product():
    count = 3 * len(train.products(TINY, 2)) - 1
    multiply, arrays = train.matmuls(TINY, 2)
    jitted: Any = multiply
    assert jitted.lower(*arrays).compile().as_text().count(" dot(") == count
    given = step.arguments(train.without_recurrence(made(TINY)), TINY.length, 2)
    assert step.compiled(*given).compiled.as_text().count(" dot(") == count


def test_without_recurrence_the_order_of_steps_does_not_matter(getkey):
    model, inputs = made(EQUAL), jax.random.normal(getkey(), (6, 2, 3))
    other = train.without_recurrence(model)
    same = [np.array_equal(a, b) for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(other), strict=True)]
    assert all(same)
    call = eqx.filter_jit(lambda model, inputs: model(inputs, throw=False)[0])
    np.testing.assert_allclose(call(other, inputs), call(other, inputs[::-1]), rtol=1e-12)
    assert not np.allclose(call(model, inputs), call(model, inputs[::-1]), rtol=1e-6)


@pytest.mark.usefixtures("defaults")
def test_command(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "CONFIGURATIONS", {"Small": TINY, "EigenWorms": EQUAL})
    path = tmp_path / "record.json"
    words = "benchmark train --batches 2 --rounds 2 --limit 1e-9 --json"
    run(*words.split(), path)
    out = " ".join(capsys.readouterr().out.split())
    assert "EigenWorms, batch 2: not measured, about" in out and "raise --limit" in out

    assert str(tmp_path) not in path.read_text()
    record = json.loads(path.read_text())
    assert set(record) == {"command", "environment", "options", "dtype", "rows"}
    assert record["command"] == "lrcssm benchmark train --rounds 2 --limit 1e-09 --datasets all --batches 2"
    assert record["dtype"] == "float32"
    row, slow = record["rows"]
    assert set(row) == set(slow) == ROW
    assert slow["step"] is None and slow["compile_s"] is None and slow["to_sum"] is None
    assert row["note"] is None and row["compile_s"] > 0 and row["memory_mb"] > 0
    for name in train.PROGRAMS:
        assert 0 < row[name]["best_ms"] <= row[name]["median_ms"] and row[name]["rounds"] == 2
    assert row["to_matmuls"] == pytest.approx(row["step"]["best_ms"] / row["matmuls"]["best_ms"])
    assert row["to_sum"] == pytest.approx(row["step"]["best_ms"] / row["sum"]["best_ms"])
    assert row["matmul_gflops"] == pytest.approx(train.operations(TINY, 2) / row["matmuls"]["best_ms"] / 1e6)


def test_what_does_not_fit_is_not_started(monkeypatch):
    monkeypatch.setattr(train, "CONFIGURATIONS", {"Small": TINY})
    monkeypatch.setattr(train, "compiled_in", lambda given: (None, 1.0))
    monkeypatch.setattr(train, "megabytes", lambda program: 9e3)
    monkeypatch.setattr(step, "_available", lambda: 2e3)
    (row,) = train.measure(TrainBenchmark(batches=(2,)))["rows"]
    assert row["note"] == "not measured, it needs 9 GB and 2 are there" and row["memory_mb"] == 9e3
    assert row["step"] is None and row["to_matmuls"] is None


def test_unknown_configuration():
    with pytest.raises(ValueError, match=r"--datasets got 'Worms'; give all, or some of Heartbeat, .*EigenWorms\.$"):
        train.measure(TrainBenchmark(datasets=("Worms",)))


@pytest.mark.parametrize("wrong", [{"datasets": ()}, {"batches": ()}, {"batches": (4, 0)}, {"rounds": 0}])
def test_options_are_checked(wrong):
    with pytest.raises(ValueError, match=f"--{next(iter(wrong))} got"):
        TrainBenchmark(**wrong)
