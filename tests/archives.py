"""Small archive data sets, and a local server that sends them as a test requires."""

import contextlib
import http.server
import io
import threading
import time
import zipfile

import numpy as np


def ts(rows, head="@problemName x\n@univariate true\n"):
    """A file of the archive, from the values and the label of each case, which has one channel."""
    data = "\n".join(f"{','.join(map(str, values))}:{label}" for values, label in rows)
    return f"{head}@classLabel true a b\n@data\n{data}\n"


def drawn(labels, seed):
    """Such a file, with five random steps for each label."""
    rows = np.random.default_rng(seed).integers(0, 99, (len(labels), 5))
    head = "@problemName Tiny\n@timeStamps false\n@univariate true\n@equalLength true\n@seriesLength 5\n"
    return ts(zip(rows, labels, strict=True), head)


def parcel(name="Tiny", members=None, compression=zipfile.ZIP_STORED):
    """A zip file as bytes; large enough to be sent in several pieces."""
    if members is None:
        members = {
            f"{name}_TRAIN.ts": drawn("aabb", 0),
            f"{name}_TEST.ts": drawn("ab", 1),
            f"{name}.txt": "x" * 300_000,
            f"{name}Dimension1_TRAIN.arff": "",
        }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for member, text in members.items():
            made.writestr(member, text)
    return file.getvalue()


class Server:
    """Served files, behaviour of the server, and recorded requests."""

    def __init__(self):
        self.files = {}
        self.etag = '"1"'
        self.modified = None
        self.cuts = []  # bytes after which the next connections are cut
        self.errors = []  # codes that the next requests are answered with
        self.ranges = True
        self.drip = 0  # bytes that are sent one by one, with a pause before each, of which the connection is then cut
        self.redirect = None
        self.asked = []
        self.sent = 0

    def handle(self, request):
        self.asked.append((request.path, request.headers.get("Range"), request.headers.get("If-Range")))
        if self.errors:
            return request.send_error(self.errors.pop(0))
        if self.redirect:
            request.send_response(302)
            request.send_header("Location", self.redirect)
            return request.end_headers()
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
        for i in range(self.drip):
            time.sleep(0.01)
            request.wfile.write(body[i : i + 1])
        if self.drip:
            return None
        self.sent += len(body)  # before they are sent: who has them may look at once
        request.wfile.write(body)
        return None


@contextlib.contextmanager
def serving():
    """Such a server while it runs; it has the data set Tiny."""
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


def visible(folder):
    return sorted(path.name for path in folder.iterdir())
