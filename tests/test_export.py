"""Exported programs give the model's numbers, without the model."""

import importlib.util
import json
import pathlib
import runpy
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import lrcssm
from lrcssm import ModelConfig, SequenceModel, cells, cli
from lrcssm.deploy.export import ExportError
from lrcssm.deploy.export.programs import OneArray, examples, largest_difference, program
from lrcssm.deploy.export.real import without_complex
from lrcssm.deploy.export.stablehlo import arguments
from lrcssm.training import Trained

SMALL = {"input_dim": 3, "output_dim": 2, "hidden_dim": 8, "state_dim": 6, "num_blocks": 2}
VARIANTS = {
    "patch": {"patch": 4, "differences": True},
    "case": {"bidirectional": True, "standardise": "case"},
    "per-step": {"task": "per-step", "differences": True, "cell": "LSTM"},
    "complex": {"cell_options": {"complex_parameters": "gk"}, "pool": "mean-max-std"},
    "time": {"include_time": True, "task": "regress"},
    "attention": {"pool": "attention", "layout": "plain"},
    "mamba": {"cell": "Mamba", "pool": "last"},
    "bfloat16": {"matmul": "bfloat16"},
    "exponential": {"cell_options": {"integrator": "exponential"}, "pool": "mean-max-std"},
}
COMPLEX = ("LRU", "S5", "S4D", "LiquidS4")


@pytest.fixture(autouse=True)
def single_precision():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


def make(**changes):
    model = SequenceModel(ModelConfig(**(SMALL | changes)), jax.random.key(0))
    return model.with_statistics(0.1, [1.0, 2.0, 3.0], 0.5, -1.0, 2.0)


def test_one_array_and_back():
    """Complex numbers, whole ones and truths go through a real vector."""
    rng = np.random.default_rng(0)
    state = {
        "complex": jnp.asarray(rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)), jnp.complex64),
        "count": jnp.asarray(3, jnp.int32),
        "known": (jnp.asarray(True), jnp.arange(4, dtype=jnp.float32)),
    }
    packing = OneArray(state)
    packed = packing.pack(state)
    assert packed.shape == (packing.size,) and packed.dtype == jnp.float32
    jax.tree.map(np.testing.assert_array_equal, packing.unpack(packed), state)


def _powers(z, w):
    """Everything that complex numbers are put through, in a loop, a choice and outside of both."""
    outside = jnp.concatenate(
        [z + w, z - w, z * w, z / w, -z, jnp.conj(z), jnp.exp(z), jnp.expm1(z), z @ w.reshape(4, -1)]
    )

    def step(carry, now):
        carry = jnp.tanh(0.5j * carry + now) + jax.nn.sigmoid(carry) * 2.0
        return carry, carry[::-1]

    last, steps = jax.lax.scan(step, jnp.zeros(4, z.dtype), jnp.outer(z, w))
    chosen = jax.lax.cond(jnp.abs(z[0]) > 1, lambda z: z, lambda z: z.real.astype(z.dtype), z)
    picked = jnp.where(z.real > 0, z, w)
    return jnp.concatenate([outside, last, steps.reshape(-1), chosen, picked, jnp.abs(z).astype(z.dtype)])


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_complex_numbers_as_pairs(scale):
    """Against numpy's own complex arithmetic where that is one line, and against JAX's for all of it."""
    rng = np.random.default_rng(0)
    z, w = (scale * (rng.normal(size=4) + 1j * rng.normal(size=4)) for _ in range(2))

    def of_parts(a, b, c, d):
        found = _powers(jax.lax.complex(a, b), jax.lax.complex(c, d))
        return found.real, found.imag

    with jax.enable_x64(True):
        parts = [jnp.asarray(part) for part in (z.real, z.imag, w.real, w.imag)]
        made = without_complex(of_parts)
        assert "complex" not in str(jax.make_jaxpr(made)(*parts)) and "c128" not in str(jax.make_jaxpr(made)(*parts))
        got = np.asarray(made(*parts)[0]) + 1j * np.asarray(made(*parts)[1])
        want = np.asarray(_powers(jnp.asarray(z), jnp.asarray(w)))
    known = np.concatenate([z + w, z - w, z * w, z / w, -z, z.conj(), np.exp(z), np.expm1(z)])
    np.testing.assert_allclose(got[: known.size], known, rtol=1e-13)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_complex_numbers_without_a_rule_say_so():
    with pytest.raises(NotImplementedError, match="cosh of complex numbers"):
        without_complex(lambda x: jnp.cosh(x + 1j).real)(1.0)


@pytest.mark.slow
def test_a_step_begins_anew_where_it_is_told_to():
    model = make(num_blocks=1)
    made = program(model, "step")
    given = next(examples(model, made, 1))
    run = jax.jit(made.function)
    output, _ = run(**given)
    want, _ = model.step(jnp.asarray(given["sample"]))
    np.testing.assert_allclose(output, want, atol=1e-6)
    assert not np.allclose(run(**(given | {"begin": ~given["begin"]}))[0], want)
    assert largest_difference(model, made, run, count=1, steps=3) < 1e-5
    assert largest_difference(model, made, lambda *given: [2 * np.asarray(a) for a in run(*given)], count=1) > 1e-2


def test_length_and_batch_are_free():
    model = make(num_blocks=1)
    made = program(model, "sequence", timed=True)
    exported = export.export(jax.jit(made.function))(*arguments(made))
    assert str(exported.in_avals[0].shape) == "(t, b, 3)"
    assert largest_difference(model, made, exported.call, count=1) < 1e-5


@pytest.mark.parametrize("what", ["sequence", "step"])
def test_stablehlo(tmp_path, what, capsys):
    """The file that the command writes runs in a process that does not import this package."""
    pytest.importorskip("flatbuffers")
    model = make(num_blocks=1)
    lrcssm.save(tmp_path / "model.lrcssm", model)
    path = tmp_path / "program.stablehlo"
    words = ["export", str(tmp_path / "model.lrcssm"), "--out", str(path), "--what", what, "--json"]
    assert cli.main(words) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["error"] < 1e-5 and facts["bytes"] == path.stat().st_size
    if what == "step":
        return
    code = f"""
import sys, jax, numpy as np
program = jax.export.deserialize(bytearray(open({str(path)!r}, "rb").read()))
print(program.call(np.ones((7, 2, 3), np.float32))[0].tolist())
assert not any(name.startswith(("lrcssm", "equinox")) for name in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", "import jax.export" + code], capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(run.stdout), model(jnp.ones((7, 2, 3)))[0], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["sequence", "step"])
@pytest.mark.parametrize("name", VARIANTS)
def test_stablehlo_of_every_kind(tmp_path, name, what):
    pytest.importorskip("flatbuffers")
    from lrcssm.deploy.export import to_stablehlo

    model = make(**VARIANTS[name])
    if what == "step" and model.whole():
        with pytest.raises(ValueError, match="step cannot be used"):
            to_stablehlo(tmp_path / "program", model, what=what)
        return
    assert to_stablehlo(tmp_path / "program", model, what=what, timed=True, checks=2) < 1e-5


@pytest.mark.slow
def test_stablehlo_at_many_lengths(tmp_path):
    pytest.importorskip("flatbuffers")
    from lrcssm.deploy.export import to_stablehlo

    assert to_stablehlo(tmp_path / "program", make(num_blocks=1), checks=100) < 1e-5


def test_what_has_no_free_length_says_so(tmp_path):
    pytest.importorskip("flatbuffers")
    from lrcssm.deploy.export import to_stablehlo

    with pytest.raises(ExportError, match="cannot be exported with a free length"):
        to_stablehlo(tmp_path / "program", make(cell="Hyena", num_blocks=1))
    assert not (tmp_path / "program").exists()


def test_nothing_is_written_that_differs(tmp_path, monkeypatch):
    pytest.importorskip("flatbuffers")
    from lrcssm.deploy.export import stablehlo

    monkeypatch.setattr(stablehlo, "largest_difference", lambda *_, **__: 1.0)
    with pytest.raises(ExportError, match="nothing was written"):
        stablehlo.to_stablehlo(tmp_path / "program", make(num_blocks=1))
    assert not list(tmp_path.iterdir())


def test_mistakes(tmp_path, capsys):
    lrcssm.save(tmp_path / "model", make(num_blocks=1))
    assert cli.main(["export", str(tmp_path / "model"), "--out", str(tmp_path / "no" / "file.onnx")]) == 2
    assert "its folder does not exist" in capsys.readouterr().err
    Trained(make(num_blocks=1), unit=2.0).save(tmp_path / "timed")
    assert cli.main(["export", str(tmp_path / "timed"), "--out", str(tmp_path / "program.stablehlo")]) == 2
    assert "give --timed" in capsys.readouterr().err
    if importlib.util.find_spec("onnx") is None:
        words = ["export", str(tmp_path / "model"), "--out", str(tmp_path / "model.onnx")]
        assert cli.main(words) == 2
        assert 'pip install "lrcssm[export]"' in capsys.readouterr().err


@pytest.mark.parametrize("name", ["model.tflite", "model.pb", "model"])
def test_formats_that_are_not_known_are_refused(tmp_path, capsys, name):
    """The file extension determines the format; an unknown extension needs --format."""
    pytest.importorskip("flatbuffers")
    lrcssm.save(tmp_path / "kept", make(num_blocks=1))
    words = ["export", str(tmp_path / "kept"), "--out", str(tmp_path / name), "--what", "step"]
    assert cli.main(words) == 2
    assert f"{name}: unknown file extension; use .onnx or .stablehlo" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_format_that_is_given_counts(tmp_path):
    pytest.importorskip("flatbuffers")
    lrcssm.save(tmp_path / "kept", make(num_blocks=1))
    path = tmp_path / "model"
    words = ["export", str(tmp_path / "kept"), "--out", str(path), "--what", "step", "--format", "stablehlo"]
    assert cli.main(words) == 0
    assert export.deserialize(bytearray(path.read_bytes())).in_avals[0].shape[1] == 3


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("step", {}),
        pytest.param("sequence", {}, marks=pytest.mark.slow),
        *(
            pytest.param(w, VARIANTS[n], marks=pytest.mark.slow)
            for n in ("patch", "per-step", "attention", "exponential")
            for w in ("step", "sequence")
        ),
        *(pytest.param("step", VARIANTS[n], marks=pytest.mark.slow) for n in ("mamba", "complex", "bfloat16")),
        *(pytest.param("step", {"cell": n}, marks=pytest.mark.slow) for n in cells.ALL),
        *(pytest.param("sequence", {"cell": n}, marks=pytest.mark.slow) for n in COMPLEX),
    ],
)
def test_onnx(tmp_path, what, changes):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("jax2onnx")
    from lrcssm.deploy.export import to_onnx

    assert to_onnx(tmp_path / "model.onnx", make(**changes), what=what, checks=100) < 1e-5


def test_onnx_of_primitives_without_a_translation(tmp_path, monkeypatch):
    """jax2onnx translates the steps that our own translator does not know."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("jax2onnx")
    from lrcssm.deploy.export import onnx

    def unknown(made):
        raise onnx.Unknown("a primitive")

    monkeypatch.setattr(onnx, "lean_model", unknown)
    before = dict(vars(jnp))
    assert onnx.to_onnx(tmp_path / "step.onnx", make(num_blocks=1), what="step") < 1e-5
    assert [
        name for name, value in before.items() if vars(jnp)[name] is not value
    ] == []  # it replaces functions of JAX


def test_onnx_without_jax(tmp_path, capsys):
    """The example runs the step of a file that the command wrote."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("jax2onnx")
    model = make()
    Trained(model, classes=np.array(["calm", "storm"])).save(tmp_path / "model")
    path = tmp_path / "step.onnx"
    words = ["--what", "step", "--out", str(path)]
    assert cli.main(["export", str(tmp_path / "model"), *words]) == 0
    assert "within" in capsys.readouterr().out
    inputs = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    np.savetxt(tmp_path / "samples.csv", inputs, delimiter=",")
    example = pathlib.Path(__file__).parent.parent / "examples" / "onnx_step.py"
    arguments = sys.argv
    try:
        sys.argv = [str(example), str(path), str(tmp_path / "samples.csv")]
        runpy.run_path(str(example))
    finally:
        sys.argv = arguments
    last = capsys.readouterr().out.splitlines()[-1]
    np.testing.assert_allclose(json.loads(last), np.asarray(model(jnp.asarray(inputs))[0]), atol=1e-4)
