"""Names and sizes in files: a name is one component of a path, no text controls a terminal, and small files stay small."""

import dataclasses
import pathlib
import resource
import time

import numpy as np
import pytest

from lrcssm import FileError
from lrcssm.data import Dataset
from lrcssm.data.dataset import safe_name
from lrcssm.data.readers import read
from lrcssm.errors import printable

NAMES = {
    "../../X": "X", "/etc/passwd": "etc_passwd", "..": "data", "": "data", "a/b\\c": "a_b_c", "my set": "my set", "C:\\x": "C:_x",
    ".hidden": "hidden", "x" * 500: "x" * 80, "a..b": "a_b", "\x1b[31mred": "_x1b[31mred"[1:], "adding:4000": "adding:4000",
    "v1.2": "v1.2", "a\0b": "a_x00b", "..\u2028..": "u2028", "é ü": "é ü",
}  # fmt: skip


@pytest.mark.parametrize("given", NAMES)
def test_a_name_is_one_component_of_a_path(given):
    found = safe_name(given)
    assert found == NAMES[given]
    assert pathlib.PurePosixPath(found).name == found == Dataset(given, ()).name
    assert dataclasses.replace(Dataset("a", ()), name=given).name == found


@pytest.mark.parametrize("name", ["../../X", "..\\..\\X", "/X", "..//../X"])
def test_names_from_files(name, tmp_path):
    (tmp_path / "a.ts").write_text(f"@problemName {name}\n@classLabel true a\n@data\n1,2:a\n")
    (tmp_path / "a.arff").write_text(f"@relation '{name}'\n@attribute a real\n@attribute c {{x}}\n@data\n1,x\n")
    for file in ("a.ts", "a.arff"):
        assert (tmp_path / "runs" / read(tmp_path / file).name).resolve().parent == (tmp_path / "runs").resolve()
        assert read(tmp_path / file).name == "X"


def test_no_text_from_a_file_controls_a_terminal(tmp_path):
    bad = "\x1b]0;x\x07\x9b31m\u202e"
    (tmp_path / "a.csv").write_text(f"id,time,x{bad},label\na{bad},0,1,p{bad}\nb,0,2,q\n", encoding="utf-8")
    (tmp_path / "a.ts").write_text(
        f"@problemName n{bad}\n@classLabel true p{bad} q\n@data\n1,2:p{bad}\n", encoding="utf-8"
    )
    (tmp_path / "a.arff").write_text(
        f"@relation n{bad}\n@attribute a real\n@attribute c {{'p{bad}'}}\n@data\n1,'p{bad}'\n"
    )
    names = np.array([f"x{bad}"])
    np.savez(tmp_path / "a.npz", X=np.ones((2, 3, 1)), y=np.array([f"p{bad}", "q"]), channel_names=names)
    for file in ("a.csv", "a.ts", "a.arff", "a.npz"):
        found = read(tmp_path / file)
        texts = [found.name, *found.classes, *(found.channel_names or ()), *(found.ids or ()), found.about, found.guess]
        assert all(text.isprintable() for text in texts), texts
        assert any("\\x1b" in text for text in texts)
    for text in ("\x1b[2J", "a\nb", "\u2066"):
        (tmp_path / "a.csv").write_text(f"y,a,b\np,1,'{text}'\n")
        with pytest.raises(FileError) as caught:
            read(tmp_path / "a.csv")
        assert str(caught.value).isprintable()


def test_printable_text_is_kept():
    for text in ("plain", "Größe", "日本語", "a\u00a0b", "👩\u200d🔬", "a\\x1b"):
        assert printable(text) == text
    (one, two) = printable("\x1b"), printable("\u202e")
    assert (one, two) == ("\\x1b", "\\u202e")


def test_classes_that_look_alike_afterwards_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("label,t0,t1\np\x1b,1,2\np\\x1b,3,4\n")
    with pytest.raises(FileError, match="two of its classes differ in control characters only"):
        read(tmp_path / "a.csv")


def test_a_stream_of_many_channels_stays_small(tmp_path):
    """39 KB packed, 40 MB of zeros: 10 million channels of one step took 3.8 GB."""
    channels = 10**7
    np.savez_compressed(tmp_path / "a.npz", stream=np.zeros((1, channels), np.float32), T=1, C=channels, shift=1)
    assert (tmp_path / "a.npz").stat().st_size < 50_000
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    assert read(tmp_path / "a.npz").series[0].shape == (1, channels)
    assert time.process_time() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 * 1024  # kilobytes


@pytest.mark.parametrize(
    ("T", "C", "shift"), [(2**40, 1, 1), (1, 2**40, 1), (1, 1, 2**40), (2**20, 2**20, 1), (0, 1, 1)]
)
def test_sizes_of_a_stream_are_compared_with_it(tmp_path, T, C, shift):
    np.savez_compressed(tmp_path / "a.npz", stream=np.zeros((1, 2**21 - 1), np.float32), T=T, C=C, shift=shift)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FileError, match=r"whole numbers from 1 to|steps in its stream|would be unpacked to"):
        read(tmp_path / "a.npz")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024
