"""Zip files of the archive: the selection of files, and malicious zip files."""

import io
import stat
import zipfile

import pytest
from archives import drawn, parcel, visible

from lrcssm.data import unpack
from lrcssm.data.download import DataError


def test_a_page_instead_of_a_file(server, get, tmp_path):
    server.files["/Tiny.zip"] = b"<!DOCTYPE html><title>Sorry</title>"
    with pytest.raises(DataError, match="not a zip file but a web page"):
        get()
    server.files["/Tiny.zip"] = b"PK what"
    with pytest.raises(DataError, match="something else"):
        get()
    assert visible(tmp_path) == []


def hostile(kind):
    good = {"Tiny_TRAIN.ts": drawn("ab", 0), "Tiny_TEST.ts": drawn("ab", 1)}
    if kind in ("../evil.ts", "/evil.ts", "a/../../evil.ts", "..\\evil.ts", "C:evil.ts"):
        return parcel(members=good | {kind: "evil"})
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in good.items():
            made.writestr(name, text)
        if kind == "link":
            link = zipfile.ZipInfo("Tiny.txt")
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            made.writestr(link, "/etc/passwd")
        if kind == "bomb":
            with made.open("Tiny_X.txt", "w", force_zip64=True) as member:
                for _ in range(3):
                    member.write(bytes(2**20))
        if kind == "many":
            for i in range(unpack.MOST_FILES):
                made.writestr(f"{i}", "")
    data = file.getvalue()
    if kind == "damaged":
        place = data.index(b"Tiny_TRAIN.ts") + 40
        data = data[:place] + b"\xff" * 20 + data[place + 20 :]
    if kind == "encrypted":
        place = data.index(b"PK\x01\x02")
        data = data[: place + 8] + b"\x01" + data[place + 9 :]
    if kind == "method":
        place = data.index(b"PK\x01\x02")
        data = data[: place + 10] + b"\x63" + data[place + 11 :]
    if kind == "lie":
        place = data.index(b"PK\x01\x02") + 24
        data = data[:place] + (20).to_bytes(4, "little") + data[place + 4 :]
    if kind == "cut":
        data = data[:100]
    return data


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("../evil.ts", "outside of its folder"),
        ("/evil.ts", "outside of its folder"),
        ("a/../../evil.ts", "outside of its folder"),
        ("..\\evil.ts", "outside of its folder"),
        ("C:evil.ts", "outside of its folder"),
        ("link", "holds the link 'Tiny.txt'"),
        ("bomb", "would inflate to 3,146,"),
        ("lie", "is damaged"),
        ("many", "holds 20,002 files"),
        ("damaged", "is damaged"),
        ("encrypted", "is encrypted"),
        ("method", "is damaged"),
        ("cut", "not a zip file"),
    ],
)
def test_hostile_files(server, get, tmp_path, monkeypatch, kind, says):
    monkeypatch.setattr(unpack, "FREE", 2**20)
    server.files["/Tiny.zip"] = hostile(kind)
    place = tmp_path / "outer" / "data"
    with pytest.raises(DataError, match=says) as caught:
        get(directory=place)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    assert list(tmp_path.rglob("*")) == [place.parent, place]


def test_which_files_are_taken(tmp_path):
    """The first format that both parts have, in any folder and with any capitals, and the only candidate if no name matches."""
    for i, (members, taken) in enumerate([
        ({"Tiny_TRAIN.arff": "1", "Tiny_TEST.arff": "2"}, {"Tiny_TRAIN.arff": "1", "Tiny_TEST.arff": "2"}),
        ({"Tiny_TRAIN.ts": "1", "Tiny_TEST.ts": "2", "Tiny_TRAIN.arff": "3", "Tiny_TEST.arff": "4"},
         {"Tiny_TRAIN.ts": "1", "Tiny_TEST.ts": "2"}),
        ({"a/b/tiny_train.TS": "1", "a/b/tiny_test.TS": "2"}, {"Tiny_TRAIN.ts": "1", "Tiny_TEST.ts": "2"}),
        ({"Other_TRAIN.ts": "1", "Other_TEST.ts": "2"}, {"Tiny_TRAIN.ts": "1", "Tiny_TEST.ts": "2"}),
        ({"Tiny_eq_TRAIN.ts": "0", "Tiny_TRAIN.ts": "1", "Tiny_TEST.ts": "2"},
         {"Tiny_TRAIN.ts": "1", "Tiny_TEST.ts": "2"}),
    ]):  # fmt: skip
        path, folder = tmp_path / f"{i}.zip", tmp_path / f"{i}"
        path.write_bytes(parcel(members=members))
        folder.mkdir()
        assert unpack.unpack(path, folder, "Tiny") == sorted(taken)
        assert {file.name: file.read_text() for file in folder.iterdir()} == taken
    path.write_bytes(parcel(members={"Tiny_TRAIN.ts": "", "A_TEST.ts": "", "B_TEST.ts": ""}))
    with pytest.raises(DataError, match="holds no Tiny_TRAIN and Tiny_TEST as"):
        unpack.unpack(path, folder, "Tiny")
