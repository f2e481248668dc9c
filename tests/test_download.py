"""Downloads from a local server that breaks connections, fails and changes its files; never the network."""

import json
import pathlib
import socket
import subprocess
import sys
import threading
import time

import pytest
from archives import parcel, visible

from lrcssm.data import download
from lrcssm.data.archive import fetch
from lrcssm.data.download import DataError


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


def test_a_killed_download_is_resumed(server, tmp_path):
    """The partial file alone is enough to resume, because a killed process has no time to write more."""
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
    with pytest.raises(DataError, match=r"the largest accepted size|are accepted"):
        get()


def test_no_redirection_to_what_others_can_read():
    import urllib.request

    request = urllib.request.Request("https://host/file")
    with pytest.raises(DataError, match="not secure"):
        download._redirects().redirect_request(request, None, 302, "", {}, "http://host/file")
    assert download._redirects().redirect_request(request, None, 302, "", {}, "https://other/file") is not None


@pytest.mark.parametrize("place", ["ftp://127.0.0.1:9/Tiny.zip", "file:///etc/passwd"])
def test_redirections_to_other_protocols_are_refused(server, get, place):
    server.redirect = place
    with pytest.raises(
        DataError, match=r"redirects to ftp:.*, which is not secure; give another url=|'file.*' is not allowed"
    ) as caught:
        get(retries=0)
    assert place in str(caught.value) and len(server.asked) == 1


def test_a_download_that_only_drips_ends(server, get, tmp_path):
    """100 bytes a second, without end: no pause is long enough for a timeout, and each attempt gets some bytes."""
    server.drip = 1000
    start = time.monotonic()

    def hurry(done, total):
        assert time.monotonic() - start < 5

    with pytest.raises(DataError, match=r"sends fewer than 1,000 bytes a second of .* bytes are kept"):
        get(timeout=0.5, progress=hurry)
    assert len(server.asked) == 1
    assert (tmp_path / "Tiny.zip.part").stat().st_size > 0
    server.drip = 0
    assert get().is_dir()
