"""The measuring tools, and the benchmark of the engine at sizes where it takes no time."""

import importlib
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrcssm import DEER
from lrcssm.machine import environment
from lrcssm.options import options_of
from lrcssm.report import table
from lrcssm_paper.benchmark import COMMANDS, EngineBenchmark, ModelsBenchmark, engine, record, timing

TINY: dict[str, Any] = {"lengths": (4,), "state_dim": 3, "input_dim": 2, "batch": 2, "rounds": 2}


def test_interleave_takes_turns():
    calls = []
    found = timing.interleave({name: lambda name=name: calls.append(name) for name in "abc"}, rounds=3)
    assert "".join(calls) == "abc" + "abc" * 3
    assert [found[name].rounds for name in "abc"] == [3, 3, 3]


def test_interleave_gives_slow_things_fewer_rounds():
    calls = []

    def slow():
        calls.append(None)
        time.sleep(0.03)

    found = timing.interleave({"slow": slow, "fast": lambda: None}, rounds=5, budget=0.01)
    assert found["slow"].rounds == 2 and found["fast"].rounds == 5
    assert found["slow"].best >= 0.03 > found["fast"].best
    assert len(calls) == 4

    calls.clear()
    found = timing.interleave({"slow": slow}, rounds=5, budget=0.01, compiled=True)
    assert found["slow"].rounds == 2 and len(calls) == 2


def test_interleave_with_failures():
    def fail():
        raise RuntimeError("no")

    failures = {}
    assert set(timing.interleave({"bad": fail, "good": int}, rounds=2, failures=failures)) == {"good"}
    assert set(failures) == {"bad"}
    with pytest.raises(RuntimeError, match="no"):
        timing.interleave({"bad": fail}, rounds=2)


def test_timing():
    found = timing.Timing((3.0, 1.0, 10.0))
    assert (found.best, found.median, found.rounds) == (1.0, 3.0, 3)


def test_compiled_bytes():
    x = jnp.ones(1000, jnp.float32)
    assert timing.compiled_bytes(jax.jit(lambda x: 2 * x), x) == 4000
    # A sort cannot be done in place of anything, so that its copy counts as well.
    assert timing.compiled_bytes(jax.jit(lambda x: jnp.sum(jnp.sort(x))), x) >= 4000


@pytest.mark.skipif(sys.platform == "win32", reason="no resource module")
def test_resident_bytes():
    peaks = timing.resident_bytes("n = 10**8", "a = b'1' * (n // 4); del a", "a = b'1' * n")
    assert peaks is not None
    assert 0.2e8 < peaks[0] < 0.4e8 and 0.9e8 < peaks[1] < 1.2e8
    assert timing.resident_bytes("raise ValueError", "pass") is None


def test_environment():
    facts = environment("no-such-package")
    assert facts["versions"]["no-such-package"] is None
    assert all(facts["versions"][name] for name in ("python", "lrcssm", "jax", "equinox", "numpy"))
    assert json.loads(json.dumps(facts)) == facts


def test_command_line():
    words = record.command_line("engine", EngineBenchmark(lengths=(5, 6), json="/secret/place")).split()
    assert words[:5] == ["lrcssm", "benchmark", "engine", "--rounds", "5"] and words[-2:] == ["--form", "paper"]
    assert "--lengths 5 6" in " ".join(words) and "--json" not in words
    words = record.command_line("models", ModelsBenchmark(rounds=2)).split()
    assert "--published" not in words and "None" not in words


def test_every_option_has_help():
    """Options that a benchmark inherits keep their help."""
    for name, command in COMMANDS.items():
        if name:
            assert all(option.text for option in options_of(command).values()), name
            assert command.__doc__ and importlib.import_module(f"lrcssm_paper.benchmark.{command.module}").measure


@pytest.mark.parametrize("wrong", [{"lengths": (0,)}, {"lengths": ()}, {"batch": 0}, {"rounds": -1}, {"methods": ()}])
def test_options_are_checked(wrong):
    with pytest.raises(ValueError, match=f"--{next(iter(wrong))} got"):
        EngineBenchmark(**wrong)


ROW = {
    "length", "method", "note", "iterations", "forward", "forward_backward", "step_us",
    "forward_to_scan", "forward_to_lstm", "forward_backward_to_scan", "forward_backward_to_lstm",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "lengths", "methods"),
    [("paper", (2,), ("sequential", "deer", "elk", "jacobi", "scan")), ("released", (4, 6), ("sequential", "scan"))],
)
def test_engine(form, lengths, methods, capsys):
    record = engine.measure(EngineBenchmark(**TINY | {"lengths": lengths}, methods=methods, form=form))
    assert set(record) == {"command", "environment", "options", "rows"} and record["options"]["form"] == form
    assert json.loads(json.dumps(record, allow_nan=False))["rows"] == record["rows"]
    assert [(row["length"], row["method"]) for row in record["rows"]] == [(t, m) for t in lengths for m in methods]
    for row in record["rows"]:
        assert set(row) == ROW and row["note"] is None
        for name in engine.PASSES:
            assert set(row[name]) == {"best_ms", "median_ms", "rounds", "memory_mb"}
            assert 0 < row[name]["best_ms"] <= row[name]["median_ms"] and row[name]["rounds"] == 2
            assert row[name]["memory_mb"] > 0
        assert row["step_us"] == pytest.approx(1e3 * row["forward_backward"]["best_ms"] / row["length"])
        assert row["forward_to_scan"] > 0 and row["forward_to_lstm"] is None
        if row["method"] == "scan":
            assert row["iterations"] is None and row["forward_backward_to_scan"] == 1.0
        else:
            assert row["iterations"] > 0 or row["method"] == "sequential"
    engine.show(record)
    out = capsys.readouterr().out
    assert all(engine.LABELS[method] in out for method in methods)


@pytest.mark.slow
def test_methods_compute_the_same():
    keys = jax.random.split(jax.random.key(0), 3)
    case = engine.Case(
        cell=engine.LRC(2, 3, dtype=jnp.float64, key=keys[0]),
        inputs=jax.random.normal(keys[1], (4, 2, 2), jnp.float64),
        state=jnp.zeros((2, 3), jnp.float64),
        cotangent=jax.random.normal(keys[2], (4, 2, 3), jnp.float64),
    )
    with ThreadPoolExecutor(1) as pool:
        programs = {method: engine._jax_program(case, method, pool) for method in ("sequential", "deer", "scan")}
    for name in engine.PASSES:
        expected = jax.tree.leaves(getattr(programs["scan"], name)())
        assert len(expected) == (1 if name == "forward" else 14)
        for program in programs.values():
            for a, b in zip(jax.tree.leaves(getattr(program, name)()), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_a_solver_that_fails_says_so_in_its_row(monkeypatch, capsys):
    monkeypatch.setitem(engine.SOLVERS, "deer", DEER(max_steps=1))
    record = engine.measure(EngineBenchmark(**TINY, methods=("deer", "scan")))
    failed, fine = record["rows"][:2]
    assert failed["note"].startswith("failed: DEER") and failed["forward"] is None
    assert fine["note"] is None and fine["forward"] is not None
    engine.show(record)
    out, err = capsys.readouterr()
    assert "raise max_steps" in " ".join(out.split()) and "Traceback" not in err


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    row, _ = engine.measure(EngineBenchmark(**TINY, methods=("lstm", "scan")))["rows"]
    assert 'pip install "lrcssm[bench]"' in row["note"] and row["forward"] is None


@pytest.mark.slow
def test_with_torch():
    pytest.importorskip("torch")
    record = engine.measure(EngineBenchmark(**TINY, methods=("lstm", "sequential")))
    assert record["environment"]["versions"]["torch"]
    for row in record["rows"]:
        assert row["note"] is None and row["forward"]["best_ms"] > 0
        assert row["forward_backward_to_lstm"] > 0 and row["forward_backward_to_scan"] is None
    assert record["rows"][0]["forward_backward_to_lstm"] == 1.0


def test_doubts():
    assert table.doubts({"load": 0.5, "cores": 2}, []) == []
    busy, uneven = table.doubts({"load": 3.0, "cores": 2}, ["lax.scan at T=1,000"])
    assert "load was 3.0 on 2 cores" in busy and "lax.scan at T=1,000" in uneven


@pytest.mark.slow
def test_a_method_that_would_take_too_long_says_so(capsys):
    record = engine.measure(
        EngineBenchmark(lengths=(16, 32), state_dim=4, methods=("sequential", "scan"), rounds=1, limit=1e-9)
    )
    short, long = record["rows"][0], record["rows"][2]
    assert short["note"] is None and short["step_us"] > 0
    assert "raise --limit" in long["note"] and long["step_us"] is None
    engine.show(record)
    assert "not measured at T=32" in capsys.readouterr().out
