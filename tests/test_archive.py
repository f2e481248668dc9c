"""Fetching data sets by their names: addresses, checksums, and the record of what was fetched; never the network."""

import hashlib
import json

import pytest
from archives import drawn, parcel, visible

from lrcssm.data import archive, load
from lrcssm.data.archive import fetch
from lrcssm.data.download import DataError
from lrcssm.data.problems import MULTIVARIATE, NAMES, REGRESSION, UNIVARIATE


def test_a_data_set_is_fetched_once(server, get, tmp_path):
    told = []
    folder = get(progress=lambda done, total: told.append((done, total)))
    assert folder == tmp_path / "Tiny"
    assert visible(folder) == ["Tiny_TEST.ts", "Tiny_TRAIN.ts"]
    assert visible(tmp_path) == ["Tiny", "Tiny.lock.json"]
    size = len(server.files["/Tiny.zip"])
    assert told[0] == (0, size) and told[-1] == (size, size) and len(told) > 2
    assert get() == folder
    assert len(server.asked) == 1
    dataset = load("Tiny", directory=tmp_path)
    assert (len(dataset), dataset.classes, len(dataset.split.train), dataset.name) == (6, ("a", "b"), 4, "Tiny")
    record = json.loads((tmp_path / "Tiny.lock.json").read_text())
    assert record["sha256"] == hashlib.sha256(server.files["/Tiny.zip"]).hexdigest()
    assert record["url"] == f"{server.url}/Tiny.zip" and set(record["files"]) == set(visible(folder))


@pytest.mark.parametrize("form", ["{url}/{{name}}.zip", "{url}/", "{url}/Tiny.zip"])
def test_forms_of_an_address(server, get, form):
    assert get(url=form.format(url=server.url)).is_dir()
    assert server.asked[0][0] == "/Tiny.zip"


def test_names_of_the_archive_need_no_capitals(server, get):
    server.files["/BasicMotions.zip"] = parcel("BasicMotions")
    assert get("basicmotions").name == "BasicMotions"


def test_a_name_that_does_not_exist(get):
    with pytest.raises(DataError, match=r"answers 404 .* perhaps you meant Heartbeat\.$"):
        get("Heartbeet")
    with pytest.raises(DataError, match=r"404 .*; known names are in lrcssm.data.problems.NAMES\.$"):
        get("Xyzzyx")


def test_a_name_that_is_not_known_without_a_connection(tmp_path):
    """The server cannot be reached, so the message comes from the list of known names."""
    for name, says in (
        ("Heartbeet", "; perhaps you meant Heartbeat; 127"),
        ("Xyzzyx", "; known names are in lrcssm.data.problems.NAMES; 127"),
    ):
        with pytest.raises(
            DataError, match=f"^{name} is not a name that is known here{says}.*{name}.zip and fetch it again"
        ):
            fetch(name, directory=tmp_path, url="http://127.0.0.1:9", retries=0)


@pytest.mark.parametrize("url", ["file:///etc", "ftp://host", "archive", "http://", "http://a:b", "https://ho st", ""])
def test_addresses_are_checked(tmp_path, url):
    with pytest.raises(DataError, match="give an address that begins with https://"):
        fetch("Tiny", directory=tmp_path, url=url)


@pytest.mark.parametrize("name", ["../Tiny", "", ".Tiny", "a/b", "Tiny.zip", "a b", "-x", "ä"])
def test_names_are_checked(tmp_path, name):
    with pytest.raises(DataError, match="cannot be the name of a data set"):
        fetch(name, directory=tmp_path)


def test_a_demanded_checksum(server, get, tmp_path):
    right = hashlib.sha256(server.files["/Tiny.zip"]).hexdigest()
    with pytest.raises(DataError, match="64 hexadecimal digits"):
        get(demanded="12")
    with pytest.raises(DataError, match=f"has the SHA-256 {right}, but {'0' * 64} was demanded"):
        get(demanded="0" * 64)
    assert visible(tmp_path) == []
    assert get(demanded=right.upper()).is_dir()
    assert get(demanded=right).is_dir()
    with pytest.raises(DataError, match="pass force=True"):
        get(demanded="0" * 64)


def test_the_first_checksum_is_remembered(server, get, tmp_path):
    folder = get()
    before = (folder / "Tiny_TRAIN.ts").read_text()
    assert get(force=True) == folder
    assert len(server.asked) == 2
    server.files["/Tiny.zip"] = parcel(members={"Tiny_TRAIN.ts": drawn("ab", 2), "Tiny_TEST.ts": drawn("ab", 3)})
    changed = hashlib.sha256(server.files["/Tiny.zip"]).hexdigest()
    with pytest.raises(
        DataError, match=f"has the SHA-256 {changed}, .* was recorded in Tiny.lock.json .* pass that as demanded="
    ):
        get(force=True)
    assert (folder / "Tiny_TRAIN.ts").read_text() == before
    get(force=True, demanded=changed)
    assert (folder / "Tiny_TRAIN.ts").read_text() == drawn("ab", 2)
    assert visible(tmp_path) == ["Tiny", "Tiny.lock.json"]
    get(force=True)


def test_files_are_checked_when_they_are_read(get, tmp_path):
    folder = get()
    path = folder / "Tiny_TRAIN.ts"
    text = path.read_text()
    path.write_text(text.replace("@data\n", "@data\n9"))
    with pytest.raises(DataError, match=r"is not the file that was downloaded; fetch it again with force=True"):
        load("Tiny", directory=tmp_path)
    path.unlink()
    with pytest.raises(DataError, match="is missing"):
        get()
    get(force=True)
    assert path.read_text() == text


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sha256": 1}', '{"sha256": "", "files": {"../x": ""}}', "\xff"])
def test_a_damaged_record(get, tmp_path, text):
    get()
    (tmp_path / "Tiny.lock.json").write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=r"Tiny.lock.json is damaged; delete it if you trust the data"):
        load("Tiny", directory=tmp_path)


def test_a_file_that_was_put_there_by_hand(server, get, tmp_path):
    (tmp_path / "Tiny.zip").write_bytes(server.files["/Tiny.zip"])
    assert get().is_dir()
    assert server.asked == []
    assert (tmp_path / "Tiny.zip").exists()


def test_what_was_not_fetched_is_not_replaced(server, get, tmp_path):
    own = tmp_path / "Tiny"
    own.mkdir()
    (own / "mine.csv").write_text("a,1,2\nb,3,4\n")
    assert get() == own
    with pytest.raises(DataError, match="was not made by fetch and is not replaced"):
        get(force=True)
    assert visible(own) == ["mine.csv"] and server.asked == []


def test_the_names_of_the_archive():
    assert (len(MULTIVARIATE), len(UNIVARIATE), len(REGRESSION)) == (30, 128, 19)
    assert len({name.lower() for name in NAMES}) == 30 + 128 + 19
    assert "{name}" in archive.MIRROR and archive.MIRROR.startswith("https://")
    # The sizes of those that the paper uses, train + test cases.
    for name, size in {
        "EigenWorms": (259, 17984, 6, 5), "SelfRegulationSCP1": (561, 896, 6, 2), "Heartbeat": (409, 405, 61, 2),
        "SelfRegulationSCP2": (380, 1152, 7, 2), "EthanolConcentration": (524, 1751, 3, 4),
        "MotorImagery": (378, 3000, 64, 2),
    }.items():  # fmt: skip
        assert MULTIVARIATE[name] == size
