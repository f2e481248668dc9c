"""Fetching from an archive: against a server on this machine that cuts, lies and changes its mind; never the network."""

import hashlib
import http.server
import io
import json
import pathlib
import socket
import stat
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pytest

from lrcssm.data import archive, download, load, unpack
from lrcssm.data.archive import fetch
from lrcssm.data.download import DataError
from lrcssm.data.problems import MULTIVARIATE, NAMES, REGRESSION, UNIVARIATE


def ts(labels, seed):
    """A file of the archive, with one channel of five steps."""
    rows = np.random.default_rng(seed).integers(0, 99, (len(labels), 5))
    data = "\n".join(f"{','.join(map(str, row))}:{label}" for row, label in zip(rows, labels, strict=True))
    head = "@problemName Tiny\n@timeStamps false\n@univariate true\n@equalLength true\n@seriesLength 5\n"
    return f"{head}@classLabel true a b\n@data\n{data}\n"


def parcel(name="Tiny", members=None, compression=zipfile.ZIP_STORED):
    """A zip file as bytes; large enough to be sent in several pieces."""
    if members is None:
        members = {
            f"{name}_TRAIN.ts": ts("aabb", 0),
            f"{name}_TEST.ts": ts("ab", 1),
            f"{name}.txt": "x" * 300_000,
            f"{name}Dimension1_TRAIN.arff": "",
        }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for member, text in members.items():
            made.writestr(member, text)
    return file.getvalue()


class Server:
    """What is served, how, and what was asked for."""

    def __init__(self):
        self.files = {}
        self.etag = '"1"'
        self.modified = None
        self.cuts = []  # bytes after which the next connections are cut
        self.errors = []  # codes that the next requests are answered with
        self.ranges = True
        self.asked = []
        self.sent = 0

    def handle(self, request):
        self.asked.append((request.path, request.headers.get("Range"), request.headers.get("If-Range")))
        if self.errors:
            return request.send_error(self.errors.pop(0))
        data = self.files.get(request.path)
        if data is None:
            return request.send_error(404)
        start = 0
        validator = self.etag if self.etag and not self.etag.startswith("W/") else self.modified
        if self.ranges and (wanted := request.headers.get("Range")) and request.headers.get("If-Range") == validator:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(data):
                request.send_response(416)
                request.send_header("Content-Range", f"bytes */{len(data)}")
                request.send_header("Content-Length", "0")
                return request.end_headers()
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            request.send_response(200)
        request.send_header("Content-Length", str(len(data) - start))
        for name, value in (("ETag", self.etag), ("Last-Modified", self.modified)):
            if value:
                request.send_header(name, value)
        request.end_headers()
        body = data[start : start + self.cuts.pop(0)] if self.cuts else data[start:]
        self.sent += len(body)  # before they are sent: who has them may look at once
        request.wfile.write(body)
        return None


@pytest.fixture
def server():
    made = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            made.handle(self)

        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        made.url = f"http://127.0.0.1:{running.server_port}"
        made.files["/Tiny.zip"] = parcel()
        yield made
        running.shutdown()
        thread.join()


@pytest.fixture
def get(server, tmp_path):
    """Fetches from that server into a directory of this test, without waiting between attempts."""
    return lambda name="Tiny", **more: fetch(
        name, **({"directory": tmp_path, "url": server.url, "timeout": 5.0, "pause": 0.0} | more)
    )


def visible(folder):
    return sorted(path.name for path in folder.iterdir())


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


@pytest.mark.parametrize(("etag", "modified"), [('"1"', None), ('W/"1"', "Mon, 16 Nov 2026 09:00:00 GMT")])
def test_cut_connections_are_resumed(server, get, etag, modified):
    server.etag, server.modified = etag, modified
    server.cuts = [100_000, 0, 50_000]
    get()
    validator = '"1"' if modified is None else modified
    assert server.asked[1:] == [("/Tiny.zip", "bytes=100000-", validator)] * 2 + [
        ("/Tiny.zip", "bytes=150000-", validator)
    ]
    assert server.sent == len(server.files["/Tiny.zip"])


@pytest.mark.parametrize("change", ["no ranges", "no validator", "another file"])
def test_what_cannot_be_resumed_starts_afresh(server, get, change):
    server.cuts = [100_000]
    if change == "no ranges":
        server.ranges = False
    if change == "no validator":
        server.etag = None
    if change == "another file":
        with pytest.raises(DataError, match="100,000 bytes are kept"):
            server.cuts = [100_000, *[0] * 9]
            get(retries=2)
        server.files["/Tiny.zip"], server.etag, server.cuts = parcel("Tiny")[:-1] + b"\0", '"2"', []
    assert get().is_dir()
    assert server.sent == 100_000 + len(server.files["/Tiny.zip"])


def test_a_part_that_is_longer_than_the_new_file(server, get, tmp_path):
    (tmp_path / "Tiny.zip.part").write_bytes(b"x" * 10**6)
    assert get().is_dir()
    size = json.loads((tmp_path / "Tiny.lock.json").read_text())["bytes"]
    assert size == len(server.files["/Tiny.zip"]) < 10**6


def test_a_part_is_kept_for_the_next_time(server, get, tmp_path):
    server.cuts = [100_000, *[0] * 9]
    with pytest.raises(DataError, match="100,000 bytes are kept") as caught:
        get(retries=2)
    assert "after 100,000 of" in str(caught.value) and "try later" in str(caught.value)
    assert len(server.asked) == 4
    assert (tmp_path / "Tiny.zip.part").stat().st_size == 100_000
    server.cuts = []
    get()
    assert server.asked[-1][1] == "bytes=100000-"
    assert visible(tmp_path) == ["Tiny", "Tiny.lock.json"]


def test_a_part_that_is_whole_is_not_downloaded_again(server, get, tmp_path):
    (tmp_path / "Tiny.zip.part").write_bytes(server.files["/Tiny.zip"])
    (tmp_path / "Tiny.zip.part.json").write_text(json.dumps({"url": f"{server.url}/Tiny.zip", "validator": '"1"'}))
    assert get().is_dir()
    assert server.sent == 0


@pytest.mark.parametrize("note", ["", "[]", "{", '{"url": "http://elsewhere/Tiny.zip", "validator": "1"}'])
def test_a_part_of_something_else_is_not_used(server, get, tmp_path, note):
    (tmp_path / "Tiny.zip.part").write_bytes(b"something else")
    (tmp_path / "Tiny.zip.part.json").write_text(note)
    assert get().is_dir()
    assert server.asked[0][1] is None


def test_an_interruption_keeps_the_part(server, get, tmp_path):
    def interrupt(done, total):
        if done > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(progress=interrupt)
    kept = (tmp_path / "Tiny.zip.part").stat().st_size
    assert 0 < kept < len(server.files["/Tiny.zip"])
    get()
    assert server.asked[-1][1] == f"bytes={kept}-"


def test_errors_that_pass_are_waited_for(server, get):
    server.errors = [503, 500, 429]
    assert get().is_dir()
    assert len(server.asked) == 4


def test_errors_that_stay(server, get, tmp_path):
    server.errors = [503] * 9
    with pytest.raises(DataError, match="it answers 503"):
        get(retries=2)
    assert len(server.asked) == 3
    server.errors = [403]
    with pytest.raises(DataError, match=r"answers 403 \(Forbidden\)"):
        get()
    assert len(server.asked) == 4
    assert visible(tmp_path) == []


def test_a_name_that_does_not_exist(get):
    with pytest.raises(DataError, match=r"answers 404 .* perhaps you meant Heartbeat\.$"):
        get("Heartbeet")
    with pytest.raises(DataError, match=r"404 .*; lrcssm data list --all shows the names that are known\.$"):
        get("Xyzzyx")


def test_no_server(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(DataError) as caught:
            fetch("Heartbeat", directory=tmp_path / "new", url=url, retries=1, pause=0.0)
    text = str(caught.value)
    assert url.removeprefix("http://") in text and "no connection (Connection refused)" in text
    assert f"put it at {tmp_path / 'new' / 'Heartbeat.zip'}" in text
    assert text.endswith(".") and "\n" not in text


def test_no_such_host(tmp_path, monkeypatch):
    def unknown(*address, **more):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DataError, match=r"^timeseriesclassification\.com does not deliver .*Name or service not known"):
        fetch("Heartbeat", directory=tmp_path, retries=0)


def test_a_server_that_says_nothing(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        start = time.monotonic()
        with pytest.raises(DataError, match="timed out"):
            fetch("Heartbeat", directory=tmp_path, url=url, retries=1, pause=0.0, timeout=0.2)
        assert time.monotonic() - start < 5


def test_a_server_that_is_none(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as strange:

        def answer():
            with strange.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(b"220 mail.example.org ESMTP\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(DataError, match="its answer is not HTTP"):
            fetch("Heartbeat", directory=tmp_path, url=f"http://127.0.0.1:{strange.getsockname()[1]}", retries=0)
        thread.join()


def test_retries_wait_longer_each_time(server, get, monkeypatch):
    waited = []
    monkeypatch.setattr(download.time, "sleep", waited.append)
    server.errors = [503] * 9
    with pytest.raises(DataError):
        get(retries=3, pause=1.0)
    assert waited == [1, 2, 4]


def test_only_one_process_at_a_time(get, tmp_path):
    pytest.importorskip("fcntl")
    with download._alone(tmp_path / "Tiny.zip.part"), pytest.raises(DataError, match="by another process"):
        get()


def test_a_full_disk(get, tmp_path, monkeypatch):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(DataError, match=r"and .* has 1,000 left; make room"):
        get()
    assert visible(tmp_path) == []


def test_what_is_far_too_large(get, monkeypatch):
    monkeypatch.setattr(download, "MOST_BYTES", 100_000)
    with pytest.raises(DataError, match="is no data set"):
        get()


@pytest.mark.parametrize("url", ["file:///etc", "ftp://host", "archive", "http://", "http://a:b", "https://ho st", ""])
def test_addresses_are_checked(tmp_path, url):
    with pytest.raises(DataError, match="give an address that begins with https://"):
        fetch("Tiny", directory=tmp_path, url=url)


def test_no_redirection_to_what_others_can_read():
    import urllib.request

    request = urllib.request.Request("https://host/file")
    with pytest.raises(DataError, match="not secure"):
        download._redirects().redirect_request(request, None, 302, "", {}, "http://host/file")
    assert download._redirects().redirect_request(request, None, 302, "", {}, "https://other/file") is not None


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
    with pytest.raises(DataError, match="give --force"):
        get(demanded="0" * 64)


def test_the_first_checksum_is_remembered(server, get, tmp_path):
    folder = get()
    before = (folder / "Tiny_TRAIN.ts").read_text()
    assert get(force=True) == folder
    assert len(server.asked) == 2
    server.files["/Tiny.zip"] = parcel(members={"Tiny_TRAIN.ts": ts("ab", 2), "Tiny_TEST.ts": ts("ab", 3)})
    changed = hashlib.sha256(server.files["/Tiny.zip"]).hexdigest()
    with pytest.raises(DataError, match=f"was recorded in Tiny.lock.json .* give --sha256 {changed}"):
        get(force=True)
    assert (folder / "Tiny_TRAIN.ts").read_text() == before
    get(force=True, demanded=changed)
    assert (folder / "Tiny_TRAIN.ts").read_text() == ts("ab", 2)
    assert visible(tmp_path) == ["Tiny", "Tiny.lock.json"]
    get(force=True)


def test_files_are_checked_when_they_are_read(get, tmp_path):
    folder = get()
    path = folder / "Tiny_TRAIN.ts"
    text = path.read_text()
    path.write_text(text.replace("@data\n", "@data\n9"))
    with pytest.raises(DataError, match=r"is not the file that was downloaded; lrcssm data fetch Tiny --force gets it"):
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


def test_a_page_instead_of_a_file(server, get, tmp_path):
    server.files["/Tiny.zip"] = b"<!DOCTYPE html><title>Sorry</title>"
    with pytest.raises(DataError, match="not a zip file but a web page"):
        get()
    server.files["/Tiny.zip"] = b"PK what"
    with pytest.raises(DataError, match="something else"):
        get()
    assert visible(tmp_path) == []


def hostile(kind):
    good = {"Tiny_TRAIN.ts": ts("ab", 0), "Tiny_TEST.ts": ts("ab", 1)}
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
    """The first format that is there for both parts, whatever the folder and capitals, and the one file that can be
    meant if none has the right name."""
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


def test_a_killed_download_is_resumed(server, tmp_path):
    """Nothing but the file itself is needed to go on: a process that was killed had no time to write more."""
    server.cuts = []
    code = (
        "import os, sys\nfrom lrcssm.data.archive import fetch\n"
        "stop = lambda done, total: os._exit(9) if done > 100_000 else None\n"
        "fetch('Tiny', directory=sys.argv[1], url=sys.argv[2], progress=stop)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path), server.url], timeout=60)
    assert killed.returncode == 9
    kept = pathlib.Path(tmp_path, "Tiny.zip.part").stat().st_size
    assert fetch("Tiny", directory=tmp_path, url=server.url).is_dir()
    assert server.asked[-1][1] == (f"bytes={kept}-" if kept else None)
