"""Readers of folders: parts, classes and cases in files of their own, which have to agree."""

import numpy as np
import pytest
from writers import WRITERS, make, write_arff, write_ts

from lrcssm import FileError
from lrcssm.data.readers import Columns, read, read_parts


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("names", [("Waves_TRAIN", "Waves_TEST"), ("train", "test"), ("train", "test", "validation")])
def test_folders_of_parts(suffix, names, tmp_path):
    series = make(np.random.default_rng(0), cases=9)
    sizes = {"train": 4, "test": 3, "validation": 2}
    start, spans = 0, {}
    for name in names:
        part = name.lower().rsplit("_", 1)[-1]
        spans[part] = list(range(start, start + sizes[part]))
        labels = ["ab"[i % 2] for i in spans[part]]
        WRITERS[suffix](tmp_path / (name + suffix), [series[i] for i in spans[part]], labels, ("a", "b"))
        start += sizes[part]
    (tmp_path / "readme.txt").write_text("no data")
    (tmp_path / ".hidden.csv").write_text("no data")
    found = read(tmp_path)
    assert found.split is not None and found.targets is not None
    for part, positions in zip(("train", "validation", "test"), found.split, strict=True):
        expected = spans.get(part, [])
        assert len(positions) == len(expected)
        for i, j in zip(positions, expected, strict=True):
            np.testing.assert_array_equal(found.series[i], series[j])
            assert found.targets[i] == j % 2
    assert [len(part) > 0 for part in found.complete_split()] == [True] * 3


def test_the_archive_has_more_in_a_folder(tmp_path):
    folder = tmp_path / "Waves"
    folder.mkdir()
    series = make(np.random.default_rng(0))
    for name in ("Waves", "WavesDimension1"):
        for part in ("TRAIN", "TEST"):
            write_arff(folder / f"{name}_{part}.arff", series, list("aabbab"), ("a", "b"))
            write_ts(folder / f"{name}_{part}.ts", series, list("aabbab"), ("a", "b"))
    assert len(read(folder)) == 12
    write_ts(folder / "Other_TRAIN.ts", series)
    write_ts(folder / "Other_TEST.ts", series)
    assert read(folder).task == "classify"
    with pytest.raises(FileError, match="several data sets"):
        read(folder.rename(tmp_path / "else"))


def test_a_folder_for_each_class(tmp_path):
    for part, shift in (("train", 0), ("test", 10)):
        for label in ("2", "10"):
            folder = tmp_path / "parts" / part / label
            folder.mkdir(parents=True)
            for i in range(3):
                rows = [f"{t},{t + shift + int(label)}" for t in range(i + 1)]
                (folder / f"{i}.csv").write_text("left,right\n" + "\n".join(rows))
    found = read(tmp_path / "parts")
    assert found.classes == ("2", "10") and found.name == "parts" and found.channel_names == ("left", "right")
    assert found.split is not None and found.targets is not None
    assert [len(part) for part in found.split] == [6, 0, 6] and sorted(found.targets.tolist()) == [0] * 6 + [1] * 6
    by_content = {
        (float(one[0, 1]), len(one)): found.classes[k] for one, k in zip(found.series, found.targets, strict=True)
    }
    assert by_content == {(s + c, n): str(c) for s in (0, 10) for c in (2, 10) for n in (1, 2, 3)}
    alone = read(tmp_path / "parts" / "train")
    assert alone.split is None and len(alone) == 6 and alone.task == "classify"
    (tmp_path / "parts" / "train" / "2" / "0.csv").write_text("1\n2\n")
    with pytest.raises(FileError, match="channels"):
        read(tmp_path / "parts")


def test_the_target_of_folders(tmp_path):
    for label in ("up", "down"):
        (tmp_path / "classes" / label).mkdir(parents=True)
        (tmp_path / "classes" / label / "1.csv").write_text("x,y\n1,2\n3,2\n")
    found = read(tmp_path / "classes")
    assert found.channel_names == ("x", "y") and found.classes == ("down", "up")
    np.testing.assert_array_equal(found.series[0], [[1, 2], [3, 2]])
    with pytest.raises(FileError, match=r"classes has a file for each case, .* 'label', can .* leave target= out\.$"):
        read(tmp_path / "classes", target="label")
    (tmp_path / "classes" / "up" / "1.csv").write_text("x,label\n1,2\n3,4\n")
    with pytest.raises(FileError, match="there is a column 'label', but a table among others"):
        read(tmp_path / "classes")
    parts = tmp_path / "parts"
    parts.mkdir()
    for part in ("train", "test"):
        (parts / f"{part}.csv").write_text("case,time,y,grade\na,0,1,0.5\na,1,1,0.5\nb,0,3,1.5\n")
    for found in (
        read(parts, target="grade"),
        read_parts(
            {part: parts / f"{part}.csv" for part in ("train", "test")}, "parts", columns=Columns(target="grade")
        ),
    ):
        assert found.channel_names == ("y",) and found.targets is not None
        assert found.targets.tolist() == [0.5, 1.5, 0.5, 1.5]


def test_cases_keep_their_names(tmp_path):
    """From a column of a file or from the names of files, of which 2 comes before 10."""
    (tmp_path / "long.csv").write_text("id,time,a\nx7,0,1\nx7,1,2\nx3,0,3\n")
    assert read(tmp_path / "long.csv").ids == ("x7", "x3")
    (tmp_path / "wide.csv").write_text("case,label,0,1\np,up,1,2\nq,down,3,4\n")
    assert read(tmp_path / "wide.csv").ids == ("p", "q")
    for place in ("classes/down", "classes/up", "flat"):
        (tmp_path / place).mkdir(parents=True)
        for name in ("1.csv", "10.csv", "2.csv"):
            (tmp_path / place / name).write_text(f"a,b\n1,{name[:-4]}\n3,4\n")
    of_classes = read(tmp_path / "classes")
    assert of_classes.ids == tuple(f"{label}/{k}.csv" for label in ("down", "up") for k in (1, 2, 10))
    flat = read(tmp_path / "flat")
    assert flat.ids == ("1.csv", "2.csv", "10.csv") and flat.targets is None and flat.channel_names == ("a", "b")
    assert [one[0, 1] for one in flat.series] == [1, 2, 10]


@pytest.mark.parametrize("task", [None, "classify", "regress"])
def test_a_task_that_is_known_is_not_guessed(task, tmp_path):
    (tmp_path / "few.csv").write_text("target,0,1\n1,1,2\n1,3,4\n2,5,6\n")
    (tmp_path / "many.csv").write_text("target,0,1\n1,1,2\n2,3,4\n3,5,6\n")
    assert read(tmp_path / "few.csv", task).task == (task or "classify")
    assert read(tmp_path / "many.csv", task).task == (task or "regress")
    for part, labels in {"train": "112", "test": "113"}.items():
        text = "target,0,1\n" + "".join(f"{label},1,2\n" for label in labels)
        (tmp_path / f"{part}.csv").write_text(text)
    parts = {part: tmp_path / f"{part}.csv" for part in ("train", "test")}
    if task == "regress":
        np.testing.assert_array_equal(read_parts(parts, "both", task).targets, [1, 1, 2, 1, 1, 3])
    else:
        with pytest.raises(FileError, match="has the class '3', which"):
            read_parts(parts, "both", task)


def test_parts_must_agree(tmp_path):
    series = make(np.random.default_rng(0))
    for text, name, arguments in (
        ("2 channels and .* has 3", "x_TEST.ts", ([one[:, :2] for one in series], list("aabbab"), ("a", "b"))),
        ("list different classes, e.g. 'c'", "x_TEST.ts", (series, list("aabbab"), ("a", "b", "c"))),
        ("has targets and .* has none", "x_TEST.ts", (series,)),
        ("classes or numbers|list of classes", "x_TEST.ts", (series, np.arange(6))),
    ):
        write_ts(tmp_path / "x_TRAIN.ts", series, list("aabbab"), ("a", "b"))
        write_ts(tmp_path / name, *arguments)
        with pytest.raises(FileError, match=text):
            read(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "train.csv").write_text("y,a,b\np,1,2\nq,3,4\n")
    (other / "test.csv").write_text("y,a,b\nr,1,2\n")
    with pytest.raises(FileError, match="has the class 'r'"):
        read(other)
    (other / "train.csv").write_text("y,a,b\n1.5,1,2\n2.5,3,4\n")
    (other / "test.csv").write_text("y,a,b\n3,1,2\n")
    assert read(other).task == "regress"
    # One case alone would be a number; together with the training cases it is a class.
    (other / "train.csv").write_text("y,a,b\n1,1,2\n2,3,4\n1,5,6\n")
    (other / "test.csv").write_text("y,a,b\n2,1,2\n")
    found = read_parts({"test": other / "test.csv", "train": str(other / "train.csv")}, "both")
    assert found.name == "both" and found.classes == ("1", "2") and found.split is not None
    assert [part.tolist() for part in found.split] == [[0, 1, 2], [], [3]]
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_parts({"train": other / "train.csv", "test": other / "no.csv"}, "both")
    with pytest.raises(ValueError, match="read_parts got"):
        read_parts({"train": other / "train.csv"}, "both")
