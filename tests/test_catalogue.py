"""Names of data sets: location, precedence, and facts that are known without reading."""

import dataclasses
import pathlib
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import sklearn.datasets
from archives import ts

from lrcssm import FileError
from lrcssm.data import digits, load, names
from lrcssm.data.catalogue import directory, entries
from lrcssm.data.download import DataError

pytestmark = pytest.mark.usefixtures("place")

VALUES = np.arange(24, dtype=np.float32).reshape(4, 3, 2)


def test_digits():
    dataset = load("digits")
    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    np.testing.assert_array_equal(np.stack(dataset.series)[..., 0], (images / 8 - 1).astype(np.float32))
    np.testing.assert_array_equal(dataset.targets, labels)
    assert dataset.classes == tuple("0123456789") and dataset.task == "classify"
    order = np.random.default_rng(0).permutation(1797)
    np.testing.assert_array_equal(np.concatenate(dataset.complete_split()), order)
    assert len(digits()) == 1797


@pytest.mark.parametrize("labels", [[0, 1, 0, 1], [0.5, 1.5, 2.5, 3.5]])
def test_too_few_cases_for_three_parts(place, labels):
    for cases in (1, 2, 3):
        np.savez(place / "Few.npz", X=VALUES[:cases], y=np.array(labels[:cases]))
        with pytest.raises(ValueError, match=rf"^Few has {cases} cases, too few .*; give at least 4\.$"):
            load("Few").parts()
    np.savez(place / "Few.npz", X=VALUES, y=np.array(labels))
    assert [len(part) for part in load("Few").parts()] == [2, 1, 1]
    np.savez(place / "Few.npz", X=VALUES, y=np.array(labels), split=np.array([0, 2, 0, 2]))
    with pytest.raises(ValueError, match=r"^Few has 2 training cases, too few .*; give at least 3\.$"):
        load("Few").parts()
    np.savez(place / "Few.npz", X=VALUES, y=np.array(labels), split=np.array([0, 2, 0, 0]))
    assert [len(part) for part in load("Few").parts()] == [2, 1, 1]


def test_the_target_by_its_name(place):
    (place / "Own.csv").write_text("case,time,y,grade\na,0,1,0.5\na,1,2,0.5\nb,0,3,1.5\n")
    assert load("Own", target="grade").targets.tolist() == [0.5, 1.5]
    for name in ("Other_TRAIN.csv", "Other_TEST.csv"):
        (place / name).write_text("grade,t0,t1\n0.5,1,2\n1.5,3,4\n")
    assert load("Other", target="grade").targets.tolist() == [0.5, 1.5, 0.5, 1.5]
    assert load(place / "Other_TEST.csv", target="grade").targets.tolist() == [0.5, 1.5]
    for name in ("digits", "adding:10"):
        with pytest.raises(FileError, match=f"^{name} has no column 'grade'; leave target= out"):
            load(name, target="grade")


def test_synthetic_names():
    assert load("adding").series[0].shape == (400, 2)
    assert load("adding:50").series[0].shape == (50, 2)
    assert load("adding:50").name == "adding:50"
    for wrong in ("adding:", "adding:x", "adding:-5", "adding:5.0", "adding:" + "9" * 40, "adding:²"):
        with pytest.raises(DataError, match="give a number of steps after the colon, as in adding:1000"):
            load(wrong)
    with pytest.raises(DataError, match="give at least 1 case and 2 steps"):
        load("adding:0")
    with pytest.raises(DataError, match="numbers; give at most"):
        load("adding:999999999999")


def test_where_the_data_directory_is(monkeypatch, place, tmp_path):
    assert directory() == place
    assert directory("~/x") == pathlib.Path.home() / "x"
    monkeypatch.setenv("LRCSSM_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert directory() == tmp_path / "lrcssm" / "data"
    for ignored in ("relative", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert directory() == pathlib.Path.home() / ".cache" / "lrcssm" / "data"


def test_a_file_in_the_directory(place):
    np.savez(place / "Own.npz", X=VALUES, y=[0, 1, 0, 1])
    dataset = load("Own")
    np.testing.assert_array_equal(dataset.series, VALUES)
    assert dataset.name == "Own" == load("own").name
    assert "Own" in names()


def test_names_that_are_taken(place):
    np.savez(place / "digits.npz", X=VALUES)
    np.savez(place / "_TRAIN.npz", X=VALUES)
    assert len(load("digits")) == 1797
    assert names().count("digits") == 1 and "" not in names()


def test_a_directory_as_an_argument(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    np.savez(other / "Own.npz", X=VALUES)
    assert len(load("Own", directory=other)) == 4
    assert "Own" in names(other) and "Own" not in names()


@pytest.mark.parametrize("folder", [True, False])
def test_two_parts_are_one_data_set(place, folder):
    home = place / "Two" if folder else place
    home.mkdir(exist_ok=True)
    (home / "Two_TRAIN.ts").write_text(ts([((1, 2), "b"), ((3, 4), "a"), ((5, 6), "b")]))
    (home / "Two_TEST.ts").write_text(ts([((7, 8), "a")]))
    (place / "Other_TRAIN.ts").write_text(ts([((1, 2), "a")]))
    dataset = load("Two")
    assert [one[:, 0].tolist() for one in dataset.series] == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert [dataset.classes[i] for i in dataset.targets] == ["b", "a", "b", "a"]
    assert [part.tolist() for part in dataset.split] == [[0, 1, 2], [], [3]]
    assert dataset.name == "Two"


def test_parts_with_their_own_orders_of_classes(place):
    (place / "Two_TRAIN.ts").write_text(ts([((1, 2), "b")]))
    (place / "Two_TEST.ts").write_text(ts([((1, 2), "b"), ((1, 2), "a")]).replace("true a b", "true b a"))
    dataset = load("Two")
    assert [dataset.classes[i] for i in dataset.targets] == ["b", "b", "a"]


def test_two_parts_are_better_than_one(place):
    np.savez(place / "Two_TRAIN.npz", X=VALUES)
    (place / "Two_TRAIN.ts").write_text(ts([((1, 2), "b")]))
    (place / "Two_TEST.ts").write_text(ts([((1, 2), "a")]))
    assert len(load("Two")) == 2


def test_parts_that_do_not_fit(place):
    (place / "Two_TRAIN.ts").write_text(ts([((1, 2), "b")]))
    (place / "Two_TEST.ts").write_text(ts([((1, 2), "1")]).replace("@classLabel true a b", "@targetLabel true"))
    with pytest.raises(ValueError, match="Two_TRAIN"):
        load("Two")


def test_one_part_alone(place):
    (place / "Half_TRAIN.ts").write_text(ts([((1, 2), "b"), ((3, 4), "a")]))
    dataset = load("Half")
    assert len(dataset) == 2 and dataset.split is None
    assert "Only the training part is here." in dataset.about


def test_the_folder_comes_first_then_npz(place):
    (place / "Own.csv").write_text("a,1,2\nb,3,4\na,5,6\n")
    assert len(load("Own")) == 3
    np.savez(place / "Own.npz", X=VALUES)
    assert len(load("Own")) == 4
    (place / "Own").mkdir()
    np.savez(place / "Own" / "only.npz", X=VALUES[:2])
    assert len(load("Own")) == 2
    assert names().count("Own") == 1


def test_paths(tmp_path):
    np.savez(tmp_path / "file.npz", X=VALUES)
    for source in (
        "file.npz",
        "./file.npz",
        str(tmp_path / "file.npz"),
        tmp_path / "file.npz",
        pathlib.Path("file.npz"),
    ):
        assert len(load(source)) == 4
    (tmp_path / "folder").mkdir()
    np.savez(tmp_path / "folder" / "x.npz", X=VALUES[:2])
    assert len(load("folder")) == 2
    for source in ("missing.npz", "missing/file", "missing.TS", pathlib.Path("missing")):
        with pytest.raises(FileNotFoundError, match="does not exist; give a file, a folder, or a name"):
            load(source)


def test_a_folder_does_not_hide_a_name(tmp_path):
    (tmp_path / "parity").mkdir()
    np.savez(tmp_path / "parity" / "x.npz", X=VALUES[:2])
    assert len(load("parity")) == 2000
    assert len(load("./parity")) == 2


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Heartbeat", "Heartbeat is not in .*data; lrcssm data fetch Heartbeat gets it from the archive."),
        ("heartbeat", "lrcssm data fetch Heartbeat gets"),
        ("Heartbeet", "is neither a file nor a data set in .*data; perhaps you meant Heartbeat."),
        ("digit", "perhaps you meant digits"),
        ("oscilators:20", "perhaps you meant oscillators"),
        ("Owm", "perhaps you meant Own"),
        ("qqqqqqqq", "lrcssm data list shows all names"),
        ("", "lrcssm data list"),
    ],
)
def test_unknown_names(place, name, says):
    np.savez(place / "Own.npz", X=VALUES)
    with pytest.raises(DataError, match=says):
        load(name)


def test_entries(place):
    np.savez(place / "Own.npz", X=VALUES, classes=["a", "b", "c"])
    np.savez(place / "Flat.npz", X=VALUES[..., 0])
    (place / "Text.csv").write_text("a,1,2\n")
    (place / "notes.txt").write_text("")
    (place / "empty").mkdir()
    (place / ".hidden.npz").write_text("")
    (place / "Heartbeat").mkdir()
    (place / "Heartbeat" / "Heartbeat_TRAIN.ts").write_text("")
    (place / "Broken.npz").write_text("PK")
    with zipfile.ZipFile(place / "Lies.npz", "w") as file:
        file.writestr("X.npy", b"\x93NUMPY\x01\x00\x76\x00{'descr': open('x')}")
    found = {entry.name: dataclasses.astuple(entry)[1:] for entry in entries()}
    assert found["Own"] == ("directory", 4, 3, 2, 3)
    assert found["Flat"] == ("directory", 4, 3, 1, None)
    for name in ("Text", "Broken", "Lies"):
        assert found[name] == ("directory", None, None, None, None)
    assert found["Heartbeat"] == ("directory", 409, 405, 61, 2)
    assert found["digits"] == ("built in", 1797, 64, 1, 10)
    assert found["EigenWorms"] == ("archive", 259, 17984, 6, 5)
    assert found["Yoga"] == ("archive", None, None, None, None)
    assert {"notes", "empty", "hidden"}.isdisjoint(found)
    assert len(found) == len(list(entries()))
    assert "EigenWorms" not in names() and "adding" in names()


def test_every_name_without_a_file_can_be_loaded():
    """But for the length that `lrcssm data list` says, nothing is known of them before."""
    for entry in entries():
        if entry.where in ("built in", "synthetic"):
            dataset = load(entry.name)
            shape = (len(dataset), *dataset.series[0].shape, None if dataset.classes is None else len(dataset.classes))
            assert shape == dataclasses.astuple(entry)[2:]


def test_loading_imports_nothing_that_is_not_needed():
    code = (
        "import sys\nfrom lrcssm.data import load\nload('parity')\n"
        "print(sorted({'sklearn', 'rich', 'tyro', 'urllib.request', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
