"""Files: written arrays are read back bit by bit, and the reader detects all damage."""

import json
import os
import pathlib
import resource
import time
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lrcssm
from lrcssm import FileError, ModelConfig, SequenceModel, load, save
from lrcssm.files import read_arrays, write_arrays
from lrcssm.training import Trained


def make(**changes):
    fields = {"input_dim": 3, "output_dim": 2, "hidden_dim": 8, "state_dim": 6, "num_blocks": 2} | changes
    return SequenceModel(ModelConfig(**fields), jax.random.key(0))


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "model.lrcssm"
    save(path, make())
    return path.read_bytes()


@pytest.mark.parametrize("changes", [{}, {"cell": "LSTM", "bidirectional": True}, {"cell_options": {"rho": 0.9}}])
def test_a_round_trip_changes_nothing(changes, tmp_path):
    model = make(**changes).with_statistics(1.0, 2.0)
    known = {"classes": np.array(["left", "right"]), "channels": ("x", "y", "z"), "missing": "fill", "unit": 0.5}
    trained = Trained(model, **known, provenance={"data": "mine"}, extra={"more": np.arange(3.0)})
    save(tmp_path / "a", trained)
    found = load(tmp_path / "a")
    for name in ("channels", "missing", "unit", "provenance"):
        assert getattr(found, name) == getattr(trained, name)
    np.testing.assert_array_equal(found.classes, trained.classes)
    np.testing.assert_array_equal(found.extra["more"], trained.extra["more"])
    same = found.model
    assert same.config == model.config
    for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(same), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    inputs = jnp.ones((4, 3))
    np.testing.assert_array_equal(model(inputs)[0], same(inputs)[0])
    assert os.listdir(tmp_path) == ["a"]


def test_every_dtype_comes_back(tmp_path):
    arrays = {
        name: np.arange(6).reshape(2, 3).astype(name)
        for name in ("float32", "float64", "complex64", "int32", "uint8", "bool")
    } | {"scalar": np.array(3.5), "empty": np.zeros((0, 4))}
    write_arrays(tmp_path / "a", {"kind": "test"}, arrays)
    _, found = read_arrays(tmp_path / "a", kind="test")
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    with pytest.raises(TypeError, match="cannot hold"):
        write_arrays(tmp_path / "b", {"kind": "test"}, {"words": np.array(["a"])})
    assert not (tmp_path / "b").exists()


def test_an_interrupted_write_leaves_the_old_file(good, tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.write_bytes(good)

    def fail(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        save(path, make(hidden_dim=16))
    assert path.read_bytes() == good and os.listdir(tmp_path) == ["model"]


def damaged(good, rng):
    """300 damaged files: truncated, with flipped bits, of another kind, or with a false header."""
    for _ in range(100):
        yield good[: rng.integers(0, len(good))]
    for _ in range(100):
        data = bytearray(good)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(0, len(data))] ^= 1 << rng.integers(0, 8)
        if bytes(data) != good:
            yield bytes(data)
    yield from (b"", b"PK\x03\x04" + bytes(100), b"\x80\x04\x95" + bytes(50), good + b"more", bytes(10000))
    length = int.from_bytes(good[8:16], "little")
    header, body = json.loads(good[24 : 24 + length]), good[24 + length :]

    def framed(text):
        return good[:8] + len(text).to_bytes(8, "little") + zlib.crc32(text).to_bytes(8, "little") + text + body

    def with_header(change):
        lie = json.loads(json.dumps(header))
        change(lie)
        return framed(json.dumps(lie).encode())

    def set_array(field, value):
        return lambda h: h["arrays"][int(rng.integers(0, len(h["arrays"])))].__setitem__(field, value)

    for _ in range(10):
        for field, value in (
            ("shape", [2**40, 2**40]),
            ("shape", [-1]),
            ("shape", "ab"),
            ("shape", [1.5]),
            ("offset", -8),
            ("offset", 2**70),
            ("dtype", "object"),
            ("name", "other"),
        ):
            yield with_header(set_array(field, value))
    yield with_header(lambda h: h.update(format=99))
    yield with_header(lambda h: h.update(kind="checkpoint"))
    yield with_header(lambda h: h.update(config={}))
    yield with_header(lambda h: h.update(config=[1]))
    # Sizes for which making the model would take hours, or more memory than there is.
    for sizes in ({"hidden_dim": 10**9}, {"num_blocks": 10**4}, {"state_dim": 10**9}, {"patch": 10**9}):
        yield with_header(lambda h, sizes=sizes: h["config"].update(sizes))
    yield with_header(lambda h: h["config"].update(cell="os.system"))
    yield with_header(lambda h: h["config"].update(cell_options={"units": 3}))
    for field, value in (
        ("classes", {"dtype": "<U1", "values": ["a"]}), ("classes", ["a"]), ("classes", {"dtype": "|O", "values": [{}, []]}),
        ("channels", ["a"]), ("channels", 3), ("missing", "maybe"), ("unit", -1), ("unit", "s"), ("provenance", None),
    ):  # fmt: skip
        yield with_header(lambda h, field=field, value=value: h.update({field: value}))
    yield with_header(lambda h: h.pop("unit"))
    yield with_header(lambda h: h.update(arrays=None))
    yield with_header(lambda h: h.update(arrays=[]))
    yield good[:8] + (2**63).to_bytes(8, "little") + good[16:]
    yield framed(b"[" * 100000)
    yield framed(b"{a:1}")
    yield framed(b"[1, 2]")
    yield framed(b"\xff\xfe")


def test_damaged_files_give_one_sentence(good, tmp_path):
    path = pathlib.Path(tmp_path / "model")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count = 0
    for data in damaged(good, np.random.default_rng(0)):
        path.write_bytes(data)
        start = time.process_time()
        with pytest.raises(FileError) as caught:
            load(path)
        assert str(path) in str(caught.value) and str(caught.value).isprintable()
        assert time.process_time() - start < 2
        count += 1
    assert count >= 290
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # kilobytes


def test_a_sentence_about_a_file_does_not_control_a_terminal(tmp_path):
    """It names an array that should not be there, in the words of the file."""
    save(tmp_path / "model", make(num_blocks=1))
    header, arrays = read_arrays(tmp_path / "model", kind="model")
    own = {name: header[name] for name in header if name not in ("format", "arrays")}
    write_arrays(tmp_path / "model", own, arrays | {"model.\x1b[2J\nx": np.zeros(1)})
    with pytest.raises(FileError) as caught:
        load(tmp_path / "model")
    assert str(caught.value).isprintable() and r".\x1b[2J\nx is missing or too much" in str(caught.value)


def test_other_mistakes(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match=r"model.lrcssm does not exist"):
        load(tmp_path)
    with pytest.raises(FileError, match="is not a file"):
        Trained.load(tmp_path)
    with pytest.raises(TypeError, match="save got a dict; give a Trained or a SequenceModel"):
        save(tmp_path / "model", {})
    with pytest.raises(FileNotFoundError, match="its directory does not exist"):
        save(tmp_path / "no" / "model", make())
    save(tmp_path / "model", make())
    with jax.enable_x64(False), pytest.raises(FileError, match="double precision"):
        lrcssm.load(tmp_path / "model")
