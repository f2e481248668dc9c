"""Readers of damaged files: a valid data set or one sentence, quickly and in little memory."""

import gzip
import io
import itertools
import resource
import struct
import time
import zipfile

import numpy as np
import pytest

from lrcssm import FileError
from lrcssm.data.readers import read
from lrcssm.errors import printable

RNG = np.random.default_rng(0)
TS = (
    "# a comment\n@problemName a\n@timeStamps false\n@missing true\n@univariate false\n@dimensions 2\n@equalLength false\n"
    "@classLabel true a 'b c' \xe9\n@data\n1.5,2,?:4,5e-3,6:a\n-1,2,3,4:4,5,6,7:'b c'\n1,2:NaN,4:\xe9\n"
).encode()
STAMPED = b"@timeStamps true\n@targetLabel true\n@data\n" + b"(2024-01-01 00:00:00,1),(2024-01-03 00:00:00,2):3\n" * 3
ARFF = (
    "% a comment\n@relation a\n@attribute series relational\n@attribute t0 numeric\n@attribute t1 numeric\n@end series\n"
    "@attribute class {a,'b c',\"\xe9\"}\n@data\n'1.5,?\\n3,4e-3',a\n\"1,2\\n3,4\",'b c'\n'1,2\\n3,4',\xe9\n"
).encode()
FLAT = b"@relation b\n@attribute a real\n@attribute b real\n@attribute y real\n@data\n1,2,3.5\n4,?,6\n"
LONG = (
    b"case,time,a,b,target\n1,0,1.5,2,up\n1,1,3,,up\n1,2.5,3,4,up\n"
    + 'é,0,1,2,"do,wn"\n'.encode() * 1
    + b"3,1,1,1,up\n"
)
WIDE = b"label,0,1,2\n1,1.5,2,3\n2,3,?,1\n1,1,2,\n"
PANDAS = b",0,1,2,label\n0,1.5,2,3,up\n1,3,,1,down\n2,1,2,0.5,up\n"
GERMAN = (
    "id;Datum;x;y-Wert;Zustand\n1;31.01.2024 9:30;1,5;2;auf\n1;1.2.2024;-3,25;;auf\né;5.2.2024;1.000,5;1;ab\n".encode()
)
AMERICAN = b"machine\twhen\tx\tz\nm 1\t1/31/24 1:05 PM\t1.5\t2\nm 1\t2/1/24\t3\t4\nm 2\t1/31/24 1:05 PM\t1\t2\n"
SPACED = b"1 0.5 1.5e-3  2\n2 1 0.25 3.5\n1 2 3.5 ?\n2 2 1.5 1\n"
STEPS = b"id,time,x,activity\na,0,1,sit\na,1,2,run\nb,0,1,sit\nb,1,,run\n"


def npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


NPZ = npz(
    X=np.arange(24, dtype=np.float32).reshape(4, 3, 2), y=np.array([0, 1, 0, 1]), classes=np.array(["a", "b"]),
    lengths=np.array([3, 2, 3, 1]), times=np.arange(12.0).reshape(4, 3) ** 2, split=np.array([0, 0, 1, 2]),
)  # fmt: skip


def member(header, body=b"", method=zipfile.ZIP_DEFLATED, name="X.npy", version=1, length=None):
    """An archive with one array and an arbitrary header."""
    file = io.BytesIO()
    text = header if isinstance(header, bytes) else header.encode()
    size = len(text) if length is None else length
    with zipfile.ZipFile(file, "w", method) as archive:
        start = b"\x93NUMPY" + bytes([version, 0]) + size.to_bytes(2 if version == 1 else 4, "little")
        archive.writestr(name, start + text + body)
    return file.getvalue()


def header(descr="'<f4'", shape="(2, 3, 1)", order="False"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


def hostile_ts():
    for line in (
        "@dimensions 999999999", "@dimensions 99999999999999999999999", "@dimensions -1", "@seriesLength 999999999999",
        "@seriesLength 1", "@univariate true", "@equalLength true", "@timeStamps true", "@classLabel false",
        "@classLabel true " + "'" * 10001, "@classLabel true " + "x " * 9999, "@targetLabel true", "@classLabel",
        "@timeStamps perhaps", "@", "@unknown 3", "@data", "1,2:a", "@problemName " + "x" * 100000, "@missing \x85\u2028",
    ):  # fmt: skip
        yield line.encode() + b"\n" + TS
        yield TS.replace(b"@data", line.encode() + b"\n@data")
        yield b"@data\n" + line.encode()
    for body in hostile_lines():
        yield TS + body
        yield STAMPED + body
    for stamp in (
        "9999999999-01-01",
        "0001-01-01T00:00+23:59",
        "1e400",
        "nan",
        "",
        "2024-13-01",
        "2024/1/5",
        "'1'",
        "(((",
    ):
        yield b"@timestamps true\n@data\n" + f"(0,1),({stamp},2)\n({stamp},1)\n".encode()
        yield b"@timestamps true\n@data\n" + f"({stamp},2)\n".encode()
    # Times that no two dimensions share would need their product.
    pairs = ":".join(",".join(f"({100 * i + j},1)" for j in range(100)) for i in range(300))
    yield b"@timestamps true\n@data\n" + pairs.encode()


def hostile_lines():
    """For all text formats."""
    for word in ("1e400", "-inf", "1e39", "nan", "0x10", "1_0", "١", "--1", "1 2", "é", "\ud800", "1" * 5000, "?" * 99):
        yield f"{word},1:2,3:a\n".encode("utf-8", "surrogatepass")
        yield f"'{word},1\\n2,3',a\n".encode("utf-8", "surrogatepass")
        yield f"1,{word},1,2,a\n".encode("utf-8", "surrogatepass")
    for mark in (
        ",",
        ":",
        "'",
        '"',
        "(",
        ")",
        "\\",
        "{",
        "}",
        "?",
        " ",
        "\t",
        "1,",
        "1:",
        "(0,1),",
        "'\"",
        "\\'",
        "@",
        "\r",
    ):
        yield mark.encode() * 10000
        yield b"1,2" + mark.encode() * 10000 + b"a\n"
    yield from (
        b"\0",
        b"1,2\0:a",
        b"\xff\xfe1\0,\0",
        b"\xc3",
        b"1,2:\xe9\n",
        b"# \xe9\n",
        b"% \xe9\n",
        bytes(range(256)),
    )


def hostile_arff():
    for line in (
        "@attribute", "@attribute x", "@attribute x {", "@attribute x {a,a}", "@attribute 'x", "@attribute x string",
        "@attribute x date 'yyyy'", "@attribute x relational", "@end", "@end other", "@data", "@relation",
        "@relation '" + "x" * 100000, "@attribute x {" + "a," * 10000 + "b}", "@attribute " + "\\" * 10000 + " real",
        "@attribute 'a\\'b' {'c\\'d'}", "@attribute x {{}}", "1,2",
    ):  # fmt: skip
        for good in (ARFF, FLAT):
            yield line.encode() + b"\n" + good
            yield good.replace(b"@data", line.encode() + b"\n@data")
        yield b"@data\n" + line.encode()
    for body in hostile_lines():
        yield ARFF + body
        yield FLAT + body


def hostile_csv():
    for line in (
        "case,id,a", "time,t,a", "label,class,a", "case", "case,time,target", "a", "1", ",,,", '"', '"a', '"a"b,1', "1,2,x,y",
        "a,1,2,b", "y,y,y", "x" * 200000 + ",1", "t,a\n9999-01-01,1\n1,2", "t,a\n2024-01-01,1\n2024-01-02,", "1,2;3,4",
        "case,t,a\n1,0,1\n1,0,1", "case,t,a,y\n1,0,1,p\n1,1,2,q", "t,a\nnan,1", "t,a\ninf,1\n2,2", "y,a\n1e999,1\ninf,2",
        "y,a\n" + "9" * 5000 + ",1\n1,2\n1,3", "y,a\nnan,1\nnan,2", "," * 50000, ",0,1", ",0,1\n", ",\n0,1", ",a\nx,1", "index,a\n0,1",
        "id,time,x\n1,1/2/3,4", "t,a\n99/99/9999,1\n1/1/1,2", "t,a\n25:61,1\n1:00,2", "id,id,a\n1,1,1", "case,t,a\n,0,1", "t,a\n,1",
        "a;b\n1,5;2.5", "a;b\n1.5;2,5", "a;b\n1,5,5;2", "x y\n1 2 3", "x y\n1 2", "time,x,p,q,r\n0,1,a,b,c", "no,x\n1,2\n1,3\n2,4\n2,5",
    ):  # fmt: skip
        yield line.encode()
        yield line.encode() + b"\n" + WIDE
        yield LONG + line.encode()
    for body in hostile_lines():
        yield LONG + body
        yield WIDE + body
        yield body


def hostile_npz():
    body = np.ones(6, np.float32).tobytes()
    for shape in ("(1000000000000,)", "(10, 99999999999)", "(0, 1000000000000)", "(1000000000000, 0, 3)", "()", "(6,)", "(-2, 3)",
                  "(2, 3, 1, 1)", "(2.0, 3)", "2", "(2, 3", "(" + "1," * 90 + ")", "(" + "9" * 150 + ",)", "(None,)"):  # fmt: skip
        yield member(header(shape=shape), body)
        yield npz(X=np.ones((2, 3))) + member(header(shape=shape), body)
    for descr in ("'|O'", "'<f3'", "'<U999999999'", "'<U0'", "'|V24'", "'<c8'", "'<M8[s]'", "'<M8[zz]'", "'|S4'", "[('a', '<f4')]",
                  "'<f4", "'object'", "__import__('os')", "'|b2'", "'<f16'", "'<i4'", "'>f4'", "'|b4'", "'<m8[s]'"):  # fmt: skip
        yield member(header(descr=descr), body)
        yield member(header(descr=descr, shape="(2,)"), body, name="y.npy")
    for order in ("Maybe", "True", "0", "'True'"):
        yield member(header(order=order), body)
    for text in (b"", b"{" * 5000, b"\xff" * 100, b"1if 1else 2", b"{'descr': '\\d'}", b"(" * 9000):
        for version in (1, 2, 3, 9):
            yield member(text, body, version=version)
    for length in (0, 9999, 65535):
        yield member(header(), body, length=length)
    yield member(header(), body, version=2, length=2**32 - 1)
    yield member(header(), body[:-1])
    yield member(header(), body + b"x")
    yield member(header(), body, method=zipfile.ZIP_BZIP2)
    yield member(header(), body, method=zipfile.ZIP_LZMA)
    # Ends of the archive that lie about where things are and how large they are.
    good = npz(X=np.ones((2, 3)))
    end = good.rfind(b"PK\x05\x06")
    for offset, value in itertools.product((8, 10, 12, 16, 20), (0, 1, 0xFFFF)):
        lie = bytearray(good)
        struct.pack_into("<H", lie, end + offset, value)
        yield bytes(lie)
    entry = good.find(b"PK\x01\x02")
    for offset, value in itertools.product((6, 8, 10, 20, 22, 24, 26, 28, 30, 42, 44), (0, 1, 99, 0xFFFF)):
        lie = bytearray(good)
        struct.pack_into("<H", lie, entry + offset, value)
        yield bytes(lie)
    for arrays in (
        {"X": np.full((2, 3), 1e300)}, {"X": np.full((2, 3), np.inf)}, {"X": np.full((2, 3), np.nan)},
        {"X": np.full((2, 3), 2**63, np.uint64), "y": np.array([2**64 - 1, 0], np.uint64)},
        {"X": np.ones((2, 3)), "times": np.array([1, 2, 2**62], "M8[Y]")},
        {"X": np.ones((2, 3)), "times": np.array([1, 2, 2**62], "M8[as]")},
        {"X": np.ones((2, 3)), "times": np.array([1, 2, 2**62], "M8[D]")},
        {"X": np.ones((2, 3)), "times": np.full((2, 3), np.nan)},
        {"X": np.ones((2, 3)), "n_total": 2**62, "index": np.array([0, 2**61])},
        {"X": np.ones((2, 3)), "y": np.array(["a\nb" * 1000, ""])},
        {"X": np.ones((2, 3)), "y": np.array([0, 1]), "classes": np.array([["a", "b"]])},
        {"X": np.ones((2, 3)), "y": np.array([True, False]), "classes": np.array(["x", "y"])},
        {"X": np.array(["1", "2"])}, {"y": np.ones(3)}, {"X": np.ones((2, 3)), "y": np.ones((2, 2, 2))},
        {"stream": np.ones((1, 20000), np.float32), "T": 10000, "C": 10001, "shift": 1},
        {"stream": np.ones((1, 20)), "T": 2**62, "C": 2**62, "shift": 2**62},
        {"stream": np.ones((1, 20)), "T": -1, "C": 1, "shift": 1}, {"stream": np.ones((1, 20)), "T": 20, "C": 1},
        {"X": np.ones((2, 3)), "lengths": np.array([0, 3])}, {"X": np.ones((2, 3)), "lengths": np.array([1.0, 3.0])},
        {"X": np.ones((2, 3)), "channel_names": np.array(["a", "b"])}, {"X": np.ones((2, 3)), "split": np.array([2, 2])},
    ):  # fmt: skip
        yield npz(**arrays)
    pickled = io.BytesIO()
    np.savez(pickled, allow_pickle=True, X=np.array([[1, "a"]], object))
    yield pickled.getvalue()


def damaged(good, hostile):
    """At least 300 files: cut off, with flipped bits or wrong bytes, of other kinds, and malicious."""
    for one in good:
        for _ in range(60):
            yield one[: RNG.integers(0, len(one))]
        for _ in range(120):
            data = bytearray(one)
            for _ in range(RNG.integers(1, 5)):
                data[RNG.integers(0, len(data))] ^= 1 << RNG.integers(0, 8)
            yield bytes(data)
        for _ in range(60):
            data = bytearray(one)
            place = int(RNG.integers(0, len(data)))
            data[place : place + int(RNG.integers(0, 4))] = RNG.bytes(3)
            yield bytes(data)
        for _ in range(60):
            a, b = sorted(int(i) for i in RNG.integers(0, len(one), 2))
            yield one[:a] + one[b:] if RNG.random() < 0.5 else one[:b] + one[a:]
    yield from (
        TS,
        STAMPED,
        ARFF,
        FLAT,
        LONG,
        WIDE,
        NPZ,
        gzip.compress(TS),
        b"\x80\x04\x95" + bytes(50),
        RNG.bytes(5000),
    )
    yield from hostile


def check_valid(found):
    channels = found.series[0].shape[1]
    for one in found.series:
        assert one.dtype == np.float32 and one.ndim == 2 and one.shape[1] == channels > 0 and len(one) > 0
        assert not np.isinf(one).any()
    targets = found.targets
    if isinstance(targets, tuple):
        assert [len(one) for one in targets] == [len(one) for one in found.series]
        targets = np.concatenate(targets)
        assert not np.isinf(targets).any()
    elif targets is not None:
        assert len(targets) == len(found) and np.isfinite(targets).all()
    if found.classes is not None:
        least = -1 if isinstance(found.targets, tuple) else 0  # the label of a step may be missing
        assert targets.min() >= least and targets.max() < len(found.classes) == len(set(found.classes))
    names = [found.name, found.guess, *(found.classes or ()), *(found.ids or ()), *(found.channel_names or ())]
    assert all(printable(name) == name for name in names) and "/" not in found.name
    if found.times is not None:
        for one, stamp in zip(found.series, found.times, strict=True):
            assert stamp.shape == one.shape[:1] and np.isfinite(stamp).all() and (np.diff(stamp) > 0).all()
    if found.split is not None:
        assert sorted(np.concatenate(found.split).tolist()) == list(range(len(found)))
    if found.channel_names is not None:
        assert len(found.channel_names) == channels


def examine(path, data, task=None):
    """Reads bytes under a name; whether that gave a data set."""
    path.write_bytes(data)
    start = time.process_time()
    try:
        found = read(path, task)
    except FileError as error:
        text = str(error)
        assert str(path) in text and "\n" not in text and len(text) < 700 + len(str(path)) and text.endswith(".")
        found = None
    assert time.process_time() - start < 2
    if found is not None:
        check_valid(found)
    return found is not None


KINDS = {
    ".ts": ((TS, STAMPED), hostile_ts),
    ".arff": ((ARFF, FLAT), hostile_arff),
    ".csv": ((LONG, WIDE), hostile_csv),
    ".npz": ((NPZ,), hostile_npz),
    ".tsv": ((AMERICAN, GERMAN, PANDAS), lambda: iter(())),
    ".txt": ((SPACED,), hostile_lines),
    ".ts.gz": ((gzip.compress(TS, mtime=0),), lambda: iter(())),
}


@pytest.mark.parametrize("suffix", [pytest.param(one, marks=[pytest.mark.slow] * (one == ".tsv")) for one in KINDS])
def test_damaged_files_give_one_sentence(suffix, tmp_path):
    good, hostile = KINDS[suffix]
    path = tmp_path / f"a{suffix}"
    assert all(examine(path, one) for one in good)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    results = [examine(path, data) for data in damaged(good, hostile())]
    assert len(results) >= 300 and results.count(False) >= 150
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024  # kilobytes


@pytest.mark.slow
def test_damaged_targets_for_each_step_give_one_sentence(tmp_path):
    assert examine(tmp_path / "a.csv", STEPS, "per-step")
    results = [examine(tmp_path / "a.csv", data, "per-step") for data in damaged((STEPS,), hostile_csv())]
    assert len(results) >= 300 and results.count(False) >= 100


def test_text_names_the_line(tmp_path):
    for suffix, data, line in ((".ts", TS, 11), (".arff", ARFF, 10), (".csv", LONG, 3), (".csv", WIDE, 3)):
        rows = data.split(b"\n")
        rows[line - 1] = b"x,'\xff"
        (tmp_path / f"a{suffix}").write_bytes(b"\n".join(rows))
        with pytest.raises(FileError, match=rf"a{suffix}, line {line}: "):
            read(tmp_path / f"a{suffix}")


def test_bombs_are_not_unpacked(tmp_path):
    zeros = bytes(100 * 2**20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    packed = gzip.compress(zeros, 1)
    (tmp_path / "a.ts.gz").write_bytes(packed)
    with pytest.raises(FileError, match="would be unpacked to more than"):
        read(tmp_path / "a.ts.gz")
    bomb = member(header(shape=f"({len(zeros) // 4}, 1)"), zeros)
    (tmp_path / "a.npz").write_bytes(bomb)
    with pytest.raises(FileError, match="would be unpacked to more than"):
        read(tmp_path / "a.npz")
    # The same with a lie about its size, in both places where that is written.
    text = header(shape="(6, 1)")
    lie = bytearray(member(text, zeros))
    claimed = 10 + len(text) + 24
    struct.pack_into("<I", lie, 22, claimed)
    struct.pack_into("<I", lie, lie.rfind(b"PK\x01\x02") + 24, claimed)
    (tmp_path / "b.npz").write_bytes(lie)
    with pytest.raises(FileError, match="damaged"):
        read(tmp_path / "b.npz")
    # 400 MB is what this very test has in its hands.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 * 1024


@pytest.mark.parametrize("seed", range(20))
def test_folders_of_anything(seed, tmp_path):
    rng = np.random.default_rng(seed)
    names = [
        "train", "test", "A_TRAIN.ts", "A_TEST.ts", "train.csv", "test.csv", "test.npz", "b.arff", "c", "c.csv", ".d", "val",
    ]  # fmt: skip
    contents = [TS, STAMPED, ARFF, FLAT, LONG, WIDE, NPZ, b"", b"1,2\n3,4\n"]
    for _ in range(20):
        folder = tmp_path
        for _ in range(rng.integers(0, 3)):
            folder = folder / names[rng.integers(len(names))]
        if not any(parent.is_file() for parent in (folder, *folder.parents)):
            folder.mkdir(parents=True, exist_ok=True)
            target = folder / names[rng.integers(len(names))]
            if not target.is_dir():
                target.write_bytes(contents[rng.integers(len(contents))])
    try:
        check_valid(read(tmp_path))
    except FileError as error:
        assert str(tmp_path) in str(error) and "\n" not in str(error)
