"""Resumable downloads with limits; a file gets its final name only when it is complete.

The received part is in `NAME.part`, and its address and the server's validator are in `NAME.part.json`. A later
attempt asks for the rest with `Range` and `If-Range` (RFC 9110, 13.1.5 and 14.2): a server whose file has changed sends all of
it instead. (pooch neither resumes nor limits size, speed or what a zip file inflates to, so it would replace little of this.)
"""

import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import LrcssmError

MOST_BYTES = 32 * 2**30
_MOST_ATTEMPTS = 200
_BLOCK = 2**16
SLOWEST = 1000
"""Bytes per second below which a download is aborted."""
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}

Progress = Callable[[int, int | None], None]
"""Called with the number of received bytes and the total, which is `None` if unknown."""


class DataError(LrcssmError, ValueError):
    """A data set that cannot be loaded or downloaded."""


class _Interrupted(Exception):
    """A connection that ended too early; another attempt may succeed."""


def download(
    url: str,
    target: pathlib.Path,
    *,
    timeout: float = 30.0,
    retries: int = 4,
    pause: float = 1.0,
    progress: Progress | None = None,
) -> None:
    """Download a file, or the rest of it.

    **Arguments:**

    - `url`: http or https.
    - `target`: the file; the received part is kept next to it, also after an interruption.
    - `timeout`: seconds without a byte after which a connection is closed, and over which the speed is measured.
    - `retries`: largest number of consecutive retries without a new byte.
    - `pause`: seconds before the first retry; each later one waits twice as long.
    - `progress`: called after each piece.
    """
    part = target.with_name(target.name + ".part")
    with _alone(part):
        failures = 0
        for attempt in itertools.count(1):
            before = part.stat().st_size
            try:
                _attempt(url, part, timeout, progress)
                break
            except _Interrupted as error:
                failures = failures + 1 if part.stat().st_size <= before else 0
                if failures > retries or attempt >= _MOST_ATTEMPTS:
                    kept = part.stat().st_size
                    rest = f" ({kept:,} bytes are kept for the next attempt)" if kept else ""
                    raise DataError(f"{_host(url)} does not deliver {url}: {error}{rest}.") from error
                time.sleep(pause * 2 ** max(failures - 1, 0))
    os.replace(part, target)
    _note(part).unlink(missing_ok=True)


def _attempt(url: str, part: pathlib.Path, timeout: float, progress: Progress | None) -> None:
    """Open one connection; raises `_Interrupted` if a retry may help."""
    import http.client
    import ssl
    import urllib.error
    import urllib.request

    from .. import __version__

    have, note = part.stat().st_size, _read_note(part)
    validator = note.get("validator") if note.get("url") == url else None
    headers = {"User-Agent": f"lrcssm/{__version__}", "Accept-Encoding": "identity"}
    if have and validator:
        headers |= {"Range": f"bytes={have}-", "If-Range": validator}
    opener = urllib.request.build_opener(_redirects())
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=timeout) as answer:
            start, total = _extent(answer, have)
            if total is not None:
                _check_space(url, total, start, part.parent)
            if start == 0:
                _note(part).write_text(json.dumps({"url": url, "validator": _validator(answer.headers)}))
            with part.open("r+b") as file:
                file.seek(start)
                file.truncate()
                done = start
                if progress is not None:
                    progress(done, total)
                mark, since = done, time.monotonic()
                while block := answer.read1(_BLOCK):
                    file.write(block)
                    done += len(block)
                    if time.monotonic() - since > timeout:
                        if done - mark < SLOWEST * timeout:
                            raise DataError(
                                f"{_host(url)} sends fewer than {SLOWEST:,} bytes a second of {url} ({done:,} bytes are kept for "
                                "the next attempt)."
                            )
                        mark, since = done, time.monotonic()
                    if done > MOST_BYTES:
                        raise DataError(
                            f"{url} is larger than {MOST_BYTES / 2**30:.0f} GiB, the largest accepted size."
                        )
                    if progress is not None:
                        progress(done, total)
        if total is not None and done != total:
            raise _Interrupted(f"the connection ended after {done:,} of {total:,} bytes")
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416:  # there is no byte after those that we have
                if have and error.headers.get("Content-Range") == f"bytes */{have}":
                    return
                part.write_bytes(b"")
                raise _Interrupted("it has another file than before") from error
            if error.code in _TRANSIENT:
                raise _Interrupted(f"it answers {error.code} ({error.reason})") from error
            raise DataError(f"{_host(url)} answers {error.code} ({error.reason}) to {url}.") from error
    except urllib.error.URLError as error:
        raise _Interrupted(f"no connection ({_reason(error.reason)})") from error
    except http.client.IncompleteRead as error:
        raise _Interrupted("the connection ended too early") from error
    except http.client.HTTPException as error:
        raise _Interrupted(f"its answer is not HTTP ({type(error).__name__})") from error
    except (TimeoutError, ConnectionError, ssl.SSLError) as error:
        raise _Interrupted(f"the connection broke ({_reason(error)})") from error


def _redirects() -> Any:
    import urllib.error
    import urllib.request

    class Redirects(urllib.request.HTTPRedirectHandler):
        """Redirections to https, and from http to http."""

        def redirect_request(self, req, fp, code, msg, headers, newurl):
            scheme = newurl.partition(":")[0].lower()
            if scheme != "https" and (scheme != "http" or req.full_url.startswith("https:")):
                if fp is not None:
                    fp.close()
                raise DataError(f"{_host(req.full_url)} redirects to {newurl}, which is not secure; give another url=.")
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    return Redirects()


def _extent(answer: Any, have: int) -> tuple[int, int | None]:
    """Return the start of the response and the length of the whole file."""
    length = answer.headers.get("Content-Length", "")
    size = int(length) if length.isdecimal() else None
    if answer.status != 206:
        return 0, size
    unit, _, rest = answer.headers.get("Content-Range", "").partition(" ")
    range_, _, total = rest.partition("/")
    begin = range_.partition("-")[0]
    if unit != "bytes" or begin != str(have):
        raise _Interrupted("it sends another part than the one that is missing")
    if total.isdecimal():
        return have, int(total)
    return have, None if size is None else have + size


def _validator(headers: Any) -> str | None:
    """Return the value for `If-Range`: a strong ETag, or else the date of the last change."""
    tag = headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")


def _check_space(url: str, total: int, start: int, directory: pathlib.Path) -> None:
    if total > MOST_BYTES:
        raise DataError(f"{url} is {total:,} bytes long; at most {MOST_BYTES / 2**30:.0f} GiB are accepted.")
    free = shutil.disk_usage(directory).free
    if total - start > free:
        raise DataError(
            f"{url} needs {total - start:,} more bytes and {directory} has {free:,} left; make room, or name another "
            "directory."
        )


def _note(part: pathlib.Path) -> pathlib.Path:
    return part.with_name(part.name + ".json")


def _read_note(part: pathlib.Path) -> dict[str, Any]:
    try:
        note = json.loads(_note(part).read_text())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


@contextlib.contextmanager
def _alone(part: pathlib.Path) -> Iterator[None]:
    """Lock a file against other processes, if the system supports it."""
    with part.open("ab") as file:
        with contextlib.suppress(ImportError):
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise DataError(f"{part} is being written by another process; wait until that is done.") from error
        try:
            yield
        finally:
            if not part.stat().st_size:
                part.unlink()
                _note(part).unlink(missing_ok=True)


def check_url(url: str) -> None:
    """Raise `DataError` if an address is not one of http or https."""
    import urllib.parse

    try:
        found = urllib.parse.urlsplit(url)
        good = found.scheme in ("http", "https") and bool(found.hostname) and url.isascii() and " " not in url
        found.port  # noqa: B018, raises if it is no number
    except ValueError:
        good = False
    if not good:
        raise DataError(f"url= got {url!r}; give an address that begins with https:// or http://.")


def sha256(path: pathlib.Path) -> str:
    """Compute the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]


def _reason(error: Any) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
