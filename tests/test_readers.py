"""Readers: files written here from known arrays are read back exactly, in all formats and layouts."""

import gzip
import re
import textwrap

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from writers import WRITERS, make

from lrcssm import FileError
from lrcssm.data.readers import NoTargetColumn, read
from lrcssm_paper.splits import paper_order

LABELS = ("left", "rechts öben", "it's", 'a "b"', "c:d", "e,f")


def same(found, series):
    assert len(found.series) == len(series)
    for a, b in zip(found.series, series, strict=True):
        assert a.dtype == np.float32 and a.flags.c_contiguous
        np.testing.assert_array_equal(a, np.asarray(b, np.float32))


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("channels", [1, 3])
def test_classes_come_back(suffix, channels, tmp_path):
    series = make(np.random.default_rng(channels), channels=channels)
    path = tmp_path / f"waves{suffix}"
    WRITERS[suffix](path, series, list(LABELS), LABELS)
    found = read(path)
    same(found, series)
    assert found.classes is not None and found.targets is not None
    assert found.name == "waves" and found.task == "classify" and set(found.classes) == set(LABELS)
    assert found.classes == (tuple(sorted(LABELS)) if suffix == ".csv" else LABELS)
    assert [found.classes[i] for i in found.targets] == list(LABELS)
    assert found.missing == sum(int(np.isnan(one).sum()) for one in series) > 0 and found.times is None
    found.cases(missing="fill")


@pytest.mark.parametrize("suffix", WRITERS)
def test_numbers_come_back(suffix, tmp_path):
    series = make(np.random.default_rng(0))
    targets = np.array([0.1, -2e-7, 3.0, 1e12, 4.0, 5.0])
    WRITERS[suffix](tmp_path / f"a{suffix}", series, targets, None)
    found = read(tmp_path / f"a{suffix}")
    same(found, series)
    assert found.task == "regress" and found.targets is not None and found.targets.dtype == np.float64
    np.testing.assert_array_equal(found.targets, targets)


finite = st.floats(width=32, allow_nan=True, allow_infinity=False)


@hypothesis.settings(max_examples=40)
@hypothesis.given(
    st.integers(1, 3).flatmap(
        lambda channels: st.lists(
            st.integers(1, 5).flatmap(lambda n: hnp.arrays(np.float32, (n, channels), elements=finite)),
            min_size=1,
            max_size=4,
        )
    ),
    st.sampled_from(sorted(WRITERS)),
)
def test_any_values_come_back(tmp_path_factory, series, suffix):
    for one in series:
        one[-1] = np.nan_to_num(one[-1])
    path = tmp_path_factory.mktemp("any") / f"a{suffix}"
    WRITERS[suffix](path, series, np.arange(len(series)) + 0.5, None)
    same(read(path), series)


@pytest.mark.parametrize("suffix", [".ts", ".arff", ".csv"])
def test_packed_text_is_read(suffix, tmp_path):
    series = make(np.random.default_rng(0))
    WRITERS[suffix](tmp_path / f"a{suffix}", series, list("aabbab"), ("a", "b"))
    (tmp_path / f"b{suffix.upper()}.gz").write_bytes(gzip.compress((tmp_path / f"a{suffix}").read_bytes()))
    same(read(tmp_path / f"b{suffix.upper()}.gz"), series)


@pytest.mark.parametrize("dates", [False, True])
@pytest.mark.parametrize("suffix", [".ts", ".csv"])
def test_times_come_back(suffix, dates, tmp_path):
    rng = np.random.default_rng(0)
    series = make(rng, channels=2, missing=False)
    seconds = [np.cumsum(rng.integers(1, 10**6, len(one))) for one in series]
    texts = [[str(np.datetime64(int(t), "s")).replace("T", " ") for t in one] for one in seconds]
    WRITERS[suffix](tmp_path / f"a{suffix}", series, list("aabbab"), ("a", "b"), times=texts if dates else seconds)
    found = read(tmp_path / f"a{suffix}")
    same(found, series)
    assert found.times is not None
    for a, b in zip(found.times, seconds, strict=True):
        np.testing.assert_array_equal(a, b)
    assert found.cases().dt is not None


def test_dimensions_with_different_times_share_them(tmp_path):
    (tmp_path / "a.ts").write_text(
        "@timeStamps true\n@classLabel false\n@data\n(0,1),(2,3):(0.5,?),(2,5)\n(1,2):(1,3)\n"
    )
    found = read(tmp_path / "a.ts")
    same(found, [[[1, np.nan], [np.nan, np.nan], [3, 5]], [[2, 3]]])
    assert found.times is not None and found.times[0].tolist() == [0, 0.5, 2] and found.task == "none"


def test_equal_steps_are_remembered(tmp_path):
    (tmp_path / "a.csv").write_text("time,a\n0,1\n0.1,2\n0.2,3\n")
    found = read(tmp_path / "a.csv")
    assert found.times is None and found.step == 0.1
    np.testing.assert_allclose(found.with_times().times[0], [0, 0.1, 0.2])


def test_equal_steps_need_no_times(tmp_path):
    (tmp_path / "a.csv").write_text(
        "id,timestamp,v\n" + "".join(f"{i},{10 * i + t / 10},{t}\n" for i in (1, 2) for t in range(5))
    )
    found = read(tmp_path / "a.csv")
    assert found.times is None and found.channel_names == ("v",) and len(found) == 2


def test_univariate_arff(tmp_path):
    (tmp_path / "a.arff").write_text(
        "@RELATION 'my set'\n@ATTRIBUTE 'att 1' REAL\n@attribute b integer\n@attribute c numeric\n"
        "@attribute class {1,\"two words\",3}\n\n@DATA\n1,2,3,1\n4,?,6,'two words'\n% no\n7,8,?,3\n"
    )
    found = read(tmp_path / "a.arff")
    same(found, [[[1], [2], [3]], [[4], [np.nan], [6]], [[7], [8]]])
    assert found.name == "my set" and found.classes == ("1", "two words", "3")
    assert found.targets is not None and found.targets.tolist() == [0, 1, 2]
    (tmp_path / "b.arff").write_text(
        "@relation b\n@attribute a real\n@attribute b real\n@attribute y real\n@data\n1,2,0.5\n"
    )
    assert read(tmp_path / "b.arff").task == "regress"


@pytest.mark.parametrize(
    ("text", "series", "classes"),
    [
        ("cat,1,2,3\ndog,4,5,\n", [[[1], [2], [3]], [[4], [5]]], ("cat", "dog")),
        ("1,2,cat\n4,5,6,7,dog\n", [[[1], [2]], [[4], [5], [6], [7]]], ("cat", "dog")),
        ("1,2\n3,NaN\n5,6\n", [[[1], [2]], [[3]], [[5], [6]]], None),
        ("0,1,Label\n1.5,2,10\n2,3,9\n3,4,9\n", [[[1.5], [2]], [[2], [3]], [[3], [4]]], ("9", "10")),
        ("id;y;a;b\n7;x;1;2\n8;x;;3\n", [[[1], [2]], [[np.nan], [3]]], ("x",)),
        ("y\ta\tb\r\nx\t1\t2\r\n", [[[1], [2]]], ("x",)),
        ("case,a,b,y\n1,1,2,p\n2,5,6,q\n1,3,4,p\n", [[[1, 2], [3, 4]], [[5, 6]]], ("p", "q")),
        ("case,t,a\n1,5,2\n1,4,1\n1,7,3\n", [[[1], [2], [3]]], None),
        ("t8,t9,t10\n1,2,3\n4,5,6\n", [[[1], [2], [3]], [[4], [5], [6]]], None),
        ("1,2,3\n4,5,6\n", [[[1], [2], [3]], [[4], [5], [6]]], None),
        ("time,a\n2024-03,3\n2024/01/05,1\n2024-02-01T10:00Z,2\n", [[[1], [2], [3]]], None),
        ("time,a,b\n0,1,2\n1,3,4\n", [[[1, 2], [3, 4]]], None),
        ('\ufefflabel,a,b\n"x, y",1,2\n', [[[1], [2]]], ("x, y",)),
    ],
)
def test_layouts_of_csv(text, series, classes, tmp_path):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8", newline="")
    found = read(tmp_path / "a.csv")
    same(found, series)
    assert found.classes == classes


XYZ = [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9]]]


@pytest.mark.parametrize(
    ("text", "target", "series", "channels", "targets"),
    [
        ("case,time,x,y,z,label\na,0,1,2,3,u\na,1,4,5,6,u\nb,0,7,8,9,v\n", None, XYZ, "xyz", [0, 1]),
        ("case,time,label,y,x,z\na,0,u,1,2,3\na,1,u,4,5,6\nb,0,v,7,8,9\n", None, XYZ, "yxz", [0, 1]),
        ("case,time,x,Y,z\na,0,1,2,3\na,1,4,5.0,6\nb,0,7,8,9\n", None, XYZ, "xYz", None),
        ("y,case,x,z\n1,a,2,3\n4,a,5,6\n7,b,8,9\n", None, XYZ, "yxz", None),
        ("time,x,y\n0,1,2\n1,3,\n2,4,?\n3,5,6\n", None, [[[1, 2], [3, np.nan], [4, np.nan], [5, 6]]], "xy", None),
        ("case,time,x,y\na,0,1,0.5\na,1,2,0.5\nb,0,3,1.5\n", None, [[[1], [2]], [[3]]], "x", [0.5, 1.5]),
        ("case,time,x,y\na,0,1,0.5\na,1,2,0.5\nb,0,3,1.5\n", "none", [[[1, 0.5], [2, 0.5]], [[3, 1.5]]], "xy", None),
        ("case,time,x,y,z,label\na,0,1,2,3,0\na,1,4,2,6,1\nb,0,7,1.5,9,2\n", "y",
         [[[1, 3, 0], [4, 6, 1]], [[7, 9, 2]]], ("x", "z", "label"), [2, 1.5]),
        ("case,x,class,Grade\na,1,5,0.1\na,2,6,0.1\nb,3,7,0.2\n", "grade", [[[1, 5], [2, 6]], [[3, 7]]],
         ("x", "class"), [0.1, 0.2]),
        ("id,time,x\n0.5,0,1\n1.5,1,2\n", "id", None, None, None),
        ("0,1,grade\n1,2,0.1\n3,4,0.2\n", "grade", [[[1], [2]], [[3], [4]]], None, [0.1, 0.2]),
        ("label,x,y\nu,1,2\nv,3,4\n", "label", [[[1], [2]], [[3], [4]]], None, [0, 1]),
    ],
)  # fmt: skip
def test_which_column_is_the_target(text, target, series, channels, targets, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    if series is None:
        with pytest.raises(FileError, match="a case has one target"):
            read(tmp_path / "a.csv", target=target)
        return
    found = read(tmp_path / "a.csv", target=target)
    same(found, series)
    assert found.channel_names == (None if channels is None else tuple(channels))
    assert (None if found.targets is None else found.targets.tolist()) == targets
    # Between x and z, y needs no reason to be a channel.
    assert ("changes within cases" in found.guess) == (target is None and targets is None and "z" not in channels)


def test_a_target_that_is_not_there(tmp_path):
    (tmp_path / "a.csv").write_text("case,time,x,label\na,0,1,u\n")
    with pytest.raises(
        NoTargetColumn, match=r"line 1: no column is called 'grade', .* there are 'case', 'time', 'x', 'la"
    ):
        read(tmp_path / "a.csv", target="grade")
    (tmp_path / "a.csv").write_text("1,2,u\n3,4,v\n")
    with pytest.raises(NoTargetColumn, match="it has no header, so no column is called 'grade'; name the columns"):
        read(tmp_path / "a.csv", target="grade")
    assert read(tmp_path / "a.csv", target="none").classes == ("u", "v")
    np.savez(tmp_path / "a.npz", X=np.ones((2, 3)))
    with pytest.raises(
        NoTargetColumn, match=r"a.npz has no columns to choose from, so target='grade' cannot be used; leave it out"
    ):
        read(tmp_path / "a.npz", target="grade")


@pytest.mark.parametrize(
    ("targets", "task"),
    [
        (["1", "2", "1"], "classify"),
        (["-1", "+1", "-1"], "classify"),
        (["1", "2", "3"], "regress"),
        (["1.0", "2.0", "1.0"], "regress"),
        ([str(i // 2) for i in range(40)], "classify"),
        ([str(i // 2) for i in range(42)], "regress"),
        (["1", "a", "1.5"], "classify"),
    ],
)
def test_what_is_a_class(targets, task, tmp_path):
    (tmp_path / "a.csv").write_text("target,a,b\n" + "".join(f"{target},1,2\n" for target in targets))
    assert read(tmp_path / "a.csv").task == task
    if all(target.lstrip("+-").isdigit() for target in targets):
        np.savez(tmp_path / "a.npz", X=np.ones((len(targets), 4)), y=np.array(targets, int))
        assert read(tmp_path / "a.npz").task == task


def test_keys_of_npz(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5, 4, 2))
    times = np.cumsum(rng.uniform(1, 2, (5, 4)), 1)
    np.savez_compressed(
        tmp_path / "a.npz", X=np.asfortranarray(values), y=np.array(list("abcba")), split=np.array([0, 0, 2, 1, 0]),
        times=times, index=np.array([4, 2, 0, 7, 6]), n_total=8, channel_names=np.array(["p", "q"]), other=np.ones(3),
    )  # fmt: skip
    found = read(tmp_path / "a.npz")
    same(found, values)
    assert found.classes == ("a", "b", "c") and found.channel_names == ("p", "q") and found.total == 8
    assert found.split is not None and [part.tolist() for part in found.split] == [[0, 1, 4], [3], [2]]
    assert found.index is not None and found.index.tolist() == [4, 2, 0, 7, 6] and found.times is not None
    np.testing.assert_array_equal(np.stack(found.times), times)
    np.savez(tmp_path / "b.npz", X=values.astype(">f8").transpose(0, 2, 1), y=rng.normal(size=(5, 2)))
    assert "more channels (4) than steps (2)" in read(tmp_path / "b.npz").about
    dates = np.array(["2024-01-01", "2024-01-02", "2024-02-01", "NaT"], "M8[D]")
    np.savez(tmp_path / "c.npz", X=np.where(np.arange(4) < 3, 1.0, np.nan) * np.ones((5, 1)), times=dates)
    with pytest.raises(FileError, match="times that are not finite"):
        read(tmp_path / "c.npz")
    np.savez(tmp_path / "c.npz", X=np.ones((5, 3)), times=dates[:3])
    stamps = read(tmp_path / "c.npz").times
    assert stamps is not None and np.diff(stamps[4]).tolist() == [86400, 30 * 86400]


def test_a_stream_is_its_delayed_copies(tmp_path):
    stream = np.random.default_rng(0).normal(size=(3, 10)).astype(np.float32)
    np.savez(tmp_path / "a.npz", stream=stream, T=4, C=3, shift=3, y=np.array([0, 1, 0]), classes=np.array(["a", "b"]))
    expected = [[[stream[n, t + 3 * k] for k in range(3)] for t in range(4)] for n in range(3)]
    same(read(tmp_path / "a.npz"), expected)
    np.savez(tmp_path / "a.npz", stream=stream, T=5, C=3, shift=3)
    with pytest.raises(FileError, match="10 steps in its stream"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("thing", [read, paper_order])
def test_docstrings_run(thing):
    (block,) = re.findall(r"```python\n(.*?)```", textwrap.dedent("    " + thing.__doc__), re.DOTALL)
    exec(compile(block, "docstring", "exec"), {})
