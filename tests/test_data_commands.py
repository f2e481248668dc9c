"""The commands of `lrcssm data`: list, show and fetch, and how they fail."""

import http.server
import json
import os
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest
from archives import ts

from lrcssm import cli
from lrcssm.data import catalogue, load, names
from lrcssm.report.dataset import facts

pytestmark = pytest.mark.usefixtures("place")

VALUES = np.arange(24, dtype=np.float32).reshape(4, 3, 2)


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


def test_show_with_another_target(run, place):
    (place / "Own.csv").write_text("case,time,x,grade\na,0,1,0.5\na,1,2,0.5\nb,0,3,1.5\n")
    assert json.loads(run("show", "Own", "--json"))["task"] == "none"
    found = json.loads(run("show", "Own", "--json", "--target", "grade"))
    assert found["task"] == "regress" and found["channel_names"] == ["x"]
    assert "no column is called 'mark'" in run("show", "Own", "--target", "mark", code=2)


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
        ("show nowhere/x.ts", "nowhere/x.ts does not exist; give a file"),
        ("show adding:x", "a number of steps"),
        ("show digits --picture x.doc", "picture= got 'x.doc'; give a name that ends in .png, .svg or .pdf"),
        ("show digits --picture nowhere/x.png", "its directory does not exist"),
        ("show", "SOURCE"),
        ("fetch", "NAME is missing"),
        ("fetch a/b", "cannot be the name"),
        ("fetch X --url ftp://x", "give an address that begins with"),
        ("fetch X Y --sha256 1", "--sha256 applies to one file, but there are 2 names"),
        ("fetch X Y --url http://x/y.zip", "--url applies to one file"),
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
    """Characters that the terminal cannot show are left out, or replaced by a question mark."""
    code = "from lrcssm.cli.data import ListData, ShowData\nListData(all=True).run()\nShowData('lorenz:50').run()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | {"PYTHONIOENCODING": "ascii"}
    )
    assert done.returncode == 0 and done.stderr == ""
    assert "Yoga" in done.stdout and "R? above" in done.stdout


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
        "The downloaded part of Heartbeat is kept; run the same command to resume.\nlrcssm: interrupted.\n"
    )
