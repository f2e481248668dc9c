"""Names of data sets, what is said about them, and the commands of `lrcssm data`."""

import dataclasses
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest

from lrcssm import cli
from lrcssm.data import Dataset, Split, catalogue, digits, load, names
from lrcssm.data.catalogue import directory, entries
from lrcssm.data.describe import facts
from lrcssm.data.download import DataError
from lrcssm.data.sketch import examples, sketch

VALUES = np.arange(24, dtype=np.float32).reshape(4, 3, 2)


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    """A data directory of this test, and no other that it could find."""
    made = tmp_path / "data"
    made.mkdir()
    monkeypatch.setenv("LRCSSM_DATA", str(made))
    monkeypatch.chdir(tmp_path)
    return made


@pytest.fixture
def run(capsys):
    """Runs `lrcssm data ...` and gives its output; it must succeed."""

    def command(*words, code=0):
        assert cli.main(["data", *words]) == code
        out, err = capsys.readouterr()
        if code:
            assert out == "" and err.startswith("lrcssm: ") and err.endswith(".\n") and err.count("\n") == 1
            return err
        assert err == ""
        return out

    return command


def ts(rows, head=""):
    data = "\n".join(":".join([",".join(map(str, values)), label]) for values, label in rows)
    return f"@problemName x\n@univariate true\n@classLabel true a b{head}\n@data\n{data}\n"


def test_digits():
    dataset = load("digits")
    cases, split = digits()
    np.testing.assert_array_equal(dataset.series, cases.series)
    np.testing.assert_array_equal(dataset.targets, cases.targets)
    assert dataset.classes == tuple("0123456789") and dataset.task == "classify"
    for mine, given in zip(dataset.complete_split(), split, strict=True):
        np.testing.assert_array_equal(mine, given)


def test_synthetic_names():
    assert load("adding").series[0].shape == (400, 2)
    assert load("adding:50").series[0].shape == (50, 2)
    assert load("adding:50").name == "adding:50"
    for wrong in ("adding:", "adding:x", "adding:-5", "adding:5.0", "adding:" + "9" * 40, "adding:²"):
        with pytest.raises(DataError, match="give a number of steps after the colon, as in adding:1000"):
            load(wrong)
    with pytest.raises(DataError, match="give at least 1 case and 2 steps"):
        load("adding:0")
    with pytest.raises(DataError, match="numbers; ask for at most"):
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
        with pytest.raises(FileNotFoundError, match="it does not exist; give a file, a folder, or a name"):
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
        ("qqqqqqqq", "lrcssm data list shows what there is"),
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


def little(**changes):
    series = (np.array([[1.0], [2]]), np.array([[3.0], [np.nan], [5]]), np.array([[1.0], [2]]), np.array([[0.0], [4]]))
    made = Dataset(
        "little", tuple(one.astype(np.float32) for one in series), np.array([0, 1, 0, 1]), ("a", "b", "none"),
        Split(np.array([0, 1]), np.arange(0), np.array([2, 3])), about="Made up.",
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


def test_facts():
    found = facts(little())
    assert found["lengths"] == {"min": 2, "median": 2.0, "max": 3}
    assert found["classes"] == {"a": 2, "b": 2, "none": 0}
    assert found["missing"] == {"values": 1, "cases": 1}
    assert found["split"] == {"train": 2, "validation": 0, "test": 2}
    assert found["duplicates"] == {"cases": 1, "test cases that are also in training": 1}
    seen = [1, 2, 3, 5, 1, 2, 0, 4]
    assert found["values"] == pytest.approx({"min": 0, "mean": np.mean(seen), "max": 5, "sd": np.std(seen)})
    assert found["times"] is None
    assert [remark.partition(":")[0] for remark in found["remarks"]] == [
        "Values are missing", "Without a case", "1 test cases are also in training",
    ]  # fmt: skip
    json.dumps(found, allow_nan=False)


def test_facts_of_numbers_and_times():
    times = tuple(np.cumsum(np.r_[0, np.ones(len(one) - 1) / (1 + i)]) for i, one in enumerate(little().series))
    found = facts(little(classes=None, targets=np.array([[0, 1], [2, 3], [4, 5], [6, 7]]), times=times, split=None))
    assert found["task"] == "regress" and "classes" not in found
    assert [column["mean"] for column in found["targets"]] == [3, 4]
    assert found["times"]["regular"] is False and found["times"]["min"] == 0.25 and found["times"]["max"] == 1
    assert found["split"] is None
    regular = facts(little(times=tuple(np.arange(len(one)) / 2 for one in little().series)))
    assert regular["times"] == {"regular": True, "min": 0.5, "median": 0.5, "max": 0.5}


def test_facts_of_what_is_odd():
    one = np.ones((2, 3), np.float32)
    found = facts(Dataset("odd", (one, one.copy())))
    assert any("more channels (3) than steps (2)" in remark for remark in found["remarks"])
    assert any("Channels 0, 1, 2 are constant" in remark for remark in found["remarks"])
    assert found["task"] == "none"
    infinite = facts(Dataset("odd", (np.array([[np.inf], [1]], np.float32), np.full((2, 1), np.nan, np.float32))))
    assert any("infinite" in remark for remark in infinite["remarks"])
    nothing = facts(Dataset("odd", (np.full((2, 1), np.nan, np.float32),)))
    assert nothing["values"] == {"min": None, "mean": None, "max": None, "sd": None}


def dots(lines):
    """The grid of dots that lines of braille stand for, by what Unicode says of each."""
    bits = {(0, 0): 1, (1, 0): 2, (2, 0): 4, (0, 1): 8, (1, 1): 16, (2, 1): 32, (3, 0): 64, (3, 1): 128}
    grid = np.zeros((4 * len(lines), 2 * len(lines[0])), bool)
    for i, line in enumerate(lines):
        for j, character in enumerate(line):
            for (row, column), bit in bits.items():
                grid[4 * i + row, 2 * j + column] = bool(ord(character) - 0x2800 & bit)
    return grid


def test_sketches():
    ramp = dots(sketch(np.arange(8.0), width=4, height=2))
    np.testing.assert_array_equal(
        ramp.argmax(0), np.arange(8)[::-1]
    )  # the highest dot falls from the left to the right
    assert ramp[7, 0] and ramp[0, 7] and not ramp[0, :6].any()
    level = dots(sketch(np.full(100, 7.0), width=5))
    assert level.any(0).all() and level.any(1).sum() == 1
    few = dots(sketch(np.array([0.0, 1]), width=10, height=1))
    assert few.any(0).all() and few[3, 0] and few[0, 19]
    gap = dots(sketch(np.array([0.0, 0, np.nan, np.nan, 1, 1]), width=3))
    assert gap.any(0).tolist() == [True, True, False, False, True, True]
    assert not dots(sketch(np.full(5, np.nan), width=3)).any()
    assert dots(sketch(np.array([2.0]), width=3)).sum() >= 1
    late = dots(sketch(np.array([0.0, 0, 0, 1]), np.array([0.0, 1, 2, 100]), width=10, height=1))
    assert late[3, :3].all() and late[0, 19] and not late[0, :10].any()


def test_examples():
    assert examples(little()) == [("a", [0]), ("b", [1])]
    assert examples(little(), each=2) == [("a", [0, 2]), ("b", [1, 3])]
    numbers = little(classes=None, targets=np.array([4.0, 1, 3, 2]))
    assert examples(numbers) == [("1", [1]), ("3", [2]), ("4", [0])]
    assert examples(little(classes=None, targets=None)) == [("", [0, 1, 2])]


def test_list(run, place):
    np.savez(place / "Own.npz", X=VALUES)
    text = run("list")
    for words in ("digits 1,797 64 1 10 built in", "Own 4 3 2 – directory", "EigenWorms 259 17,984 6 5 archive"):
        assert any(line.split() == words.split() for line in text.splitlines())
    assert "Yoga" not in text and "147 more" in " ".join(text.split())
    assert "Yoga" in run("list", "--all") and "147 more" not in run("list", "--all")
    found = json.loads(run("list", "--json"))
    assert found["directory"] == str(place)
    assert {"name": "Own", "where": "directory", "cases": 4, "length": 3, "channels": 2, "classes": None} in (
        found["datasets"]
    )
    assert len(found["datasets"]) == 1 + 5 + 1 + 177
    assert json.loads(run("list", "--json", "--data-dir", "nowhere"))["directory"] == "nowhere"


def test_show(run, place):
    np.savez(place / "Own.npz", X=VALUES, y=["up", "down", "up", "up"])
    text = run("show", "Own")
    for words in ("cases 4", "steps 3", "channels 2", "missing none", "duplicates none", "times equal steps"):
        assert any(line.split() == words.split() for line in text.splitlines())
    assert "up (3)" in text and "down (1)" in text
    assert any("\u2801" <= character <= "\u28ff" for character in text)
    found = json.loads(run("show", "Own", "--json"))
    assert found["classes"] == {"down": 1, "up": 3} and found["channels"] == 2
    assert found == json.loads(json.dumps(facts(load("Own"))))


@pytest.mark.parametrize("source", ["oscillators:100", "lorenz:50", "copying:9"])
def test_show_of_each_kind(run, source):
    text = " ".join(run("show", source).split())
    assert load(source).about in text
    assert ("irregular" in text) == source.startswith("oscillators")


def test_show_without_targets(run, tmp_path):
    np.savez(tmp_path / "bare.npz", X=VALUES[:1])
    assert "no targets" in run("show", "bare.npz")


def test_show_names_that_look_like_markup(run, tmp_path):
    np.savez(tmp_path / "odd.npz", X=VALUES, y=["[red]x[/red]", "[/]", ":smile:", "[bold"])
    text = run("show", "odd.npz")
    assert all(name in text for name in ("[red]x[/red]", "[/]", ":smile:", "[bold"))


@pytest.mark.parametrize(("source", "suffix"), [("oscillators:100", "png"), ("lorenz:50", "svg"), ("few.npz", "png")])
def test_pictures(run, tmp_path, source, suffix):
    np.savez(tmp_path / "few.npz", X=np.where(VALUES == 3, np.nan, VALUES), y=["$a$", "b_{", "\\frac", "µ"])
    path = tmp_path / f"picture.{suffix}"
    assert f"picture is in {path}" in "".join(run("show", source, "--picture", str(path)).split("\n")).replace(
        "  ", " "
    )
    head = path.read_bytes()[:8]
    assert head == b"\x89PNG\r\n\x1a\n" if suffix == "png" else head.startswith(b"<?xml")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("show Heartbeat", "lrcssm data fetch Heartbeat"),
        ("show nowhere/x.ts", "Cannot use 'nowhere/x.ts': it does not exist"),
        ("show adding:x", "a number of steps"),
        ("show digits --picture x.doc", "--picture got 'x.doc'; give a name that ends in .png, .svg or .pdf"),
        ("show digits --picture nowhere/x.png", "its directory does not exist"),
        ("show", "SOURCE"),
        ("fetch", "at least one, e.g. Heartbeat"),
        ("fetch a/b", "cannot be the name"),
        ("fetch X --url ftp://x", "give an address that begins with"),
        ("fetch X Y --sha256 1", "--sha256 is that of one file, and there are 2 names"),
        ("fetch X Y --url http://x/y.zip", "--url is that of one file"),
        ("fetch X --sha256 1", "64 hexadecimal digits"),
        ("fetch X --timeout 0", "--timeout got 0"),
        ("fetch X --timeout nan", "--timeout got nan"),
        ("fetch X --retries -1", "--retries got -1"),
        ("list --jsn", "perhaps you meant --json"),
    ],
)
def test_mistakes(run, words, says):
    assert says in run(*words.split(), code=2)


def test_a_damaged_file_is_one_sentence(run, place):
    (place / "Bad.ts").write_text("@data\nx:y\n")
    assert "Bad.ts" in run("show", "Bad", code=2)


def test_output_without_unicode():
    """What the terminal could not show is left out, or replaced by a question mark."""
    code = "from lrcssm.runs.data import ListData, ShowData\nListData(all=True).run()\nShowData('lorenz:50').run()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | {"PYTHONIOENCODING": "ascii"}
    )
    assert done.returncode == 0 and done.stderr == ""
    assert "Yoga" in done.stdout and "R? above" in done.stdout


def test_loading_imports_nothing_that_is_not_needed():
    code = (
        "import sys\nfrom lrcssm.data import load\nload('parity')\n"
        "print(sorted({'sklearn', 'rich', 'tyro', 'urllib.request', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_fetch(run, place, tmp_path):
    """The whole way: from a server on this machine to a data set that is shown by its name."""
    with zipfile.ZipFile(tmp_path / "Tiny.zip", "w") as file:
        file.writestr("Tiny_TRAIN.ts", ts([((1, 2), "a"), ((3, 4), "b")]))
        file.writestr("Tiny_TEST.ts", ts([((5, 6), "a")]))

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *words, **more):
            super().__init__(*words, directory=str(tmp_path), **more)

        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert run("fetch", "Tiny", "--url", url) == f"Tiny is in {place / 'Tiny'}\n"
        assert run("fetch", "Tiny", "--url", url, "--force").startswith("Tiny is in")
        assert "404" in run("fetch", "Other", "--url", url, code=2)
        server.shutdown()
        thread.join()
    assert run("fetch", "Tiny", "--url", url).startswith("Tiny is in")  # without a server: it is there
    assert "train 2, test 1" in run("show", "Tiny")
    assert "Tiny" in names() and catalogue.directory() == place


def test_an_interrupted_fetch_says_what_to_do(run, monkeypatch, capsys):
    from lrcssm.data import archive

    def interrupt(*words, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(archive, "fetch", interrupt)
    assert cli.main(["data", "fetch", "Heartbeat"]) == 130
    assert capsys.readouterr().err == (
        "What has come of Heartbeat is kept; the same command goes on from there.\nlrcssm: interrupted.\n"
    )
