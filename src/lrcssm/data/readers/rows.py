"""Rows of a table: text with commas, semicolons, tabs or spaces between cells, or Parquet."""

import csv
import datetime
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import FileError, MissingExtra
from .source import Problem, limit, lines, listed, shown, too_large
from .values import DECIMAL_COMMA, is_number

Rows = Callable[[], Iterator[tuple[int, list[str]]]]
"""Function that returns the rows from the first one, each with its line; there is at least one."""
_INDEX = "__index_level_"
_WHOLE = re.compile(r"[-+]?\d{1,18}", re.ASCII)
_DECIMAL_POINT = re.compile(r"\s*[-+]?[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?\s*")


def rows_of(path: pathlib.Path) -> Rows:
    """Open a table in text or Parquet."""
    if path.suffix.lower() == ".parquet":
        return _parquet_rows(path)
    text = lines(path)
    start = next(line for line in text if line.strip())
    delimiter = _delimiter(start)
    commas = delimiter != "," and any("," in line for line in text) and _decimal_commas(path, text, delimiter)

    def rows() -> Iterator[tuple[int, list[str]]]:
        reader, found = _split(text, delimiter), False
        try:
            for row in reader:
                if any(cell.strip() for cell in row):
                    found = True
                    yield reader.line_num, [_pointed(cell) for cell in row] if commas else row
        except csv.Error as error:
            raise FileError(
                f"{path}, line {reader.line_num}: its quotes or columns cannot be parsed ({error})."
            ) from None
        if not found:
            raise FileError(f"{path} is empty: all its cells are.")

    return rows


def _split(text: Sequence[str], delimiter: str) -> Any:
    spaced = delimiter == " "
    return csv.reader(
        ((line.strip() if spaced else line) + "\n" for line in text),
        delimiter=delimiter,
        strict=True,
        skipinitialspace=True,
    )


def _delimiter(line: str) -> str:
    """Choose semicolons or tabs if the line has them, unless it has commas that are not within numbers, as in 1,5;2,0; then
    commas; then spaces between numbers."""
    for mark in (";", "\t"):
        cells = line.split(mark)
        if len(cells) > 1 and all("," not in cell or DECIMAL_COMMA.fullmatch(cell.strip(' "')) for cell in cells):
            return mark
    return " " if "," not in line and '"' not in line and len(line.split()) > 1 else ","


def _decimal_commas(path: pathlib.Path, text: Sequence[str], delimiter: str) -> bool:
    """Return true if numbers have decimal commas; decimal points are then an error."""
    comma, point = None, None
    reader = _split(text, delimiter)
    try:
        for row in reader:
            for cell in row:
                if "," in cell:
                    comma = comma or (DECIMAL_COMMA.fullmatch(cell) and cell)
                elif "." in cell and point is None and _DECIMAL_POINT.fullmatch(cell):
                    point = reader.line_num, cell
            if comma and point:
                raise FileError(
                    f"{path}, line {point[0]}: {shown(point[1].strip())} has a decimal point and {shown(comma.strip())} a decimal "
                    "comma; write all numbers in the same way."
                )
    except csv.Error:
        return False  # said when the rows are read
    return bool(comma)


def _pointed(cell: str) -> str:
    return cell.replace(".", "").replace(",", ".") if "," in cell and DECIMAL_COMMA.fullmatch(cell) else cell


def _parquet_rows(path: pathlib.Path) -> Rows:
    try:
        import pyarrow.parquet as parquet  # pyright: ignore
    except ImportError as error:
        raise MissingExtra(f"{path} is Parquet, which needs pyarrow; install it with pip install pyarrow.") from error
    try:
        file = parquet.ParquetFile(path)
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        if sum(group.total_byte_size for group in groups) > limit(path):
            raise too_large(path)
        names = [str(name) for name in file.schema_arrow.names]
        # pandas stores an index without a name last; in text it is the first column, also without one.
        order = sorted(range(len(names)), key=lambda i: not names[i].startswith(_INDEX))
        if not names or not file.metadata.num_rows:
            raise FileError(f"{path} holds no rows; there must be at least one case.")
    except (OSError, ValueError, RuntimeError, NotImplementedError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path} is cut off, damaged or not a Parquet file.") from error

    def rows() -> Iterator[tuple[int, list[str]]]:
        yield 1, ["" if names[i].startswith(_INDEX) else names[i] for i in order]
        line = 1
        try:
            for batch in file.iter_batches(4096):
                for row in zip(*(batch.columns[i].to_pylist() for i in order), strict=True):
                    line += 1
                    yield line, [_text(path, value) for value in row]
        except (OSError, ValueError, RuntimeError, NotImplementedError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"{path} is damaged after row {line - 1}.") from error

    return rows


def _text(path: pathlib.Path, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if not isinstance(value, (str, int, float)):
        raise FileError(f"{path} holds a {type(value).__name__} in a cell; store numbers, text or times.")
    return str(value)


def is_header(first: Sequence[str], rows: Rows, roles: Mapping[str, Sequence[str]]) -> bool:
    """Return true if the first row is a header.

    It is one if it has words only; or the name of a role, or an empty cell, before or after numbers; or counts 0, 1, 2 and no
    other row is written in whole numbers.

    **Arguments:**

    - `first`: the row.
    - `rows`: all rows.
    - `roles`: names of columns by role, in lower case.
    """
    blank = [i for i, cell in enumerate(first) if not cell.strip()]
    words = [i for i, cell in enumerate(first) if not is_number(cell)]
    if len(words) + len(blank) == len(first):
        return True
    rest = [cell.strip() for cell in first if cell.strip() and is_number(cell)]
    counts = any(rest == [str(i + start) for i in range(len(rest))] for start in (0, 1))
    special = {name for names in roles.values() for name in names}
    named = [i for i in words if first[i].strip().casefold() in special]
    if named and not any(row[i : i + 1] == [first[i]] for i in named for row in _others(rows, 1000)):
        return True
    if counts and blank == [0]:
        return True
    if not words:
        return counts and _counting(first, rest, rows)
    if len(words) > 1 or words[0] not in (0, len(first) - 1):
        raise Problem(
            f"it is neither a header nor numbers with one target at an end ({listed(first[i] for i in words)} are no "
            "numbers); name the columns in a header."
        )
    place = 0 if words[0] == 0 else -1
    others = [row[place] for row in _others(rows, 1000)]
    if others and all(cell.strip() and is_number(cell) for cell in others):
        raise Problem(
            f"{shown(first[place])} is in a column of numbers, so this could be a header or a case; name all "
            "columns, or leave the row out."
        )
    return False


def _counting(first: Sequence[str], rest: Sequence[str], rows: Rows) -> bool:
    """Classify a row 0, 1, 2, …: a header, or a case if other rows are whole numbers too."""
    if len(rest) < (2 if rest[0] == "0" else 5):
        return False
    if not any(all(_WHOLE.fullmatch(cell.strip()) for cell in row) for row in _others(rows, 1000)):
        return True
    if len(rest) < 3:
        return False
    raise Problem(
        f"{', '.join(first[:3])} and so on could be a header or a case; leave the header out or name its columns t0, t1, t2, or "
        f"write a case as {rest[0]}.0."
    )


def _others(rows: Rows, most: int) -> Iterator[list[str]]:
    """Rows after the first."""
    for i, (_, row) in enumerate(rows()):
        if 0 < i <= most:
            yield row
        elif i > most:
            return
