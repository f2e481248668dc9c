"""Bytes and lines of a file, up to a size limit, and parts of error messages."""

import contextlib
import dataclasses
import gzip
import pathlib
import zlib
from collections.abc import Iterable, Iterator

from ...errors import FileError

EXPANSION = 200
_FREELY, _AT_MOST = 64 * 2**20, 64 * 2**30


class Problem(ValueError):
    """Error in a line, raised before the file and the line are known.

    **Arguments:**

    - `text`: one sentence.
    - `where`: the position of the wrong cell among those that were read at once.
    - `kind`: the error to raise.
    """

    def __init__(self, text: str, where: int = 0, kind: type[FileError] = FileError):
        super().__init__(text)
        self.where, self.kind = where, kind


class NoTargetColumn(FileError):
    """A target was given by the name of a column that does not exist."""


@dataclasses.dataclass(frozen=True)
class InMemory:
    """A table in memory, instead of a path: `name` is the name of the data set, `text` describes it in messages."""

    name: str
    text: str

    def __str__(self) -> str:
        return self.text


Source = pathlib.Path | InMemory


def located(source: Source, row: int | None) -> str:
    """Describe a row in a message: a line of a file, or a position in a table in memory."""
    if isinstance(source, InMemory):
        return str(source) if row is None else f"{source}, row {row}"
    return f"{source}, line {row}"


@contextlib.contextmanager
def at(source: Source, row: int | None) -> Iterator[None]:
    """Add the file and the line to a `Problem`."""
    try:
        yield
    except Problem as problem:
        raise problem.kind(f"{located(source, row)}: {problem}") from None


def shown(text: str, longest: int = 30) -> str:
    """Quote a piece of a file for a message, with escapes."""
    return ascii(text if len(text) <= longest else text[: longest - 1] + "…").replace("\\u2026", "...")


def listed(names: Iterable[str], most: int = 6) -> str:
    """List names in a message, shortened if there are many."""
    all_of_them = list(names)
    more = len(all_of_them) - most
    return ", ".join(map(shown, all_of_them[:most])) + (f" and {more} more" if more > 0 else "")


def limit(path: pathlib.Path) -> int:
    """Return the largest number of bytes that a file may have when unpacked."""
    return min(max(_FREELY, EXPANSION * path.stat().st_size), _AT_MOST)


def too_large(path: pathlib.Path) -> FileError:
    return FileError(
        f"{path} would be unpacked to more than {limit(path) / 2**20:,.0f} MB, the limit for its "
        "compressed size; store such data without compression."
    )


def content(path: pathlib.Path) -> bytes:
    """Read all bytes of a file, unpacked if its name ends in `.gz`."""
    try:
        if not path.name.lower().endswith(".gz"):
            return path.read_bytes()
        chunks, size, most = [], 0, limit(path)
        with gzip.open(path) as file:
            while chunk := file.read(2**20):
                chunks.append(chunk)
                size += len(chunk)
                if size > most:
                    raise too_large(path)
        return b"".join(chunks)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FileError(f"{path} is damaged: it cannot be unpacked to its end.") from error
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}.") from error


def lines(path: pathlib.Path, comment: str | tuple[str, ...] = ()) -> list[str]:
    """Read the lines of a text file in UTF-8; comments may be in any encoding."""
    data = content(path).removeprefix(b"\xef\xbb\xbf")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not data.strip():
        raise FileError(f"{path} is empty.")
    if (zero := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, zero) + 1
        raise FileError(f"{path}, line {line}: there is a zero byte, so it is not text in UTF-8; save it as UTF-8.")
    try:
        return data.decode().split("\n")
    except UnicodeDecodeError:
        found = data.decode(errors="surrogateescape").split("\n")
    for number, line in enumerate(found, 1):
        if not line.isascii() and not line.lstrip().startswith(comment):
            try:
                line.encode()
            except UnicodeEncodeError:
                raise FileError(f"{path}, line {number}: it is not text in UTF-8; save it as UTF-8.") from None
    return found
