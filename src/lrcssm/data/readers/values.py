"""Numbers and times from text."""

import datetime
import re
from collections.abc import Sequence

import numpy as np

from .source import Problem, shown

_MISSING = {"?", "nan", "na", "n/a", "null", "none"}
DECIMAL_COMMA = re.compile(r"\s*[-+]?[0-9.]*[0-9],[0-9]+(?:[eE][-+]?[0-9]+)?\s*")
_MONTH = re.compile(r"\d{4}-\d{2}")
_SLASHED = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})")


def numbers(cells: Sequence[str], *, blank: bool = False) -> np.ndarray:
    """Values in single precision, NaN where one is missing.

    **Arguments:**

    - `cells`: one number each; `?` and the usual words stand for a missing one.
    - `blank`: whether an empty cell is a missing value too.
    """
    try:
        found = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        found = np.fromiter((_number(cell, i, blank) for i, cell in enumerate(cells)), np.float64, len(cells))
    with np.errstate(over="ignore"):
        values = found.astype(np.float32)
    if np.isinf(values).any():
        where = int(np.flatnonzero(np.isinf(values))[0])
        raise Problem(f"{shown(cells[where])} is beyond single precision; give finite numbers below 3e38.", where)
    return values


def is_number(cell: str) -> bool:
    """Whether a cell is a number or says that one is missing."""
    try:
        float(cell)
    except ValueError:
        word = cell.strip().casefold()
        return not word or word in _MISSING
    return True


def _number(cell: str, where: int, blank: bool) -> float:
    try:
        return float(cell)
    except ValueError:
        word = cell.strip().casefold()
        if word in _MISSING or (blank and not word):
            return np.nan
    if not word:
        raise Problem("a value between two separators is empty; write ? for a missing one.", where)
    hint = "write it with a decimal point" if DECIMAL_COMMA.fullmatch(cell) else "write ? for a missing one"
    raise Problem(f"{shown(cell)} is not a number; {hint}.", where)


def targets(cells: Sequence[str]) -> np.ndarray:
    """Targets of a regression, in double precision; none may be missing."""
    found = np.zeros(len(cells))
    for i, cell in enumerate(cells):
        try:
            found[i] = float(cell)
        except ValueError:
            found[i] = np.nan
        if not np.isfinite(found[i]):
            raise Problem(f"the target {shown(cell)} is not a finite number; leave such cases out.", i)
    return found


def moments(cells: Sequence[str]) -> np.ndarray:
    """Times, in double precision: numbers as they are, dates in seconds since 1970 (UTC unless they name a zone)."""
    try:
        found = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        read = _plain_time if is_number(cells[0]) else _date
        found = np.fromiter((read(cell, i) for i, cell in enumerate(cells)), np.float64, len(cells))
    if not np.isfinite(found).all():
        where = int(np.flatnonzero(~np.isfinite(found))[0])
        raise Problem(f"the time {shown(cells[where])} is not finite.", where)
    return found


def _plain_time(cell: str, where: int) -> float:
    try:
        return float(cell)
    except ValueError:
        raise _no_time(cell, where) from None


def _no_time(cell: str, where: int) -> Problem:
    return Problem(
        f"{shown(cell)} is not a time; give numbers, or dates such as 2024-01-31 12:00:00, and not both.", where
    )


def _date(cell: str, where: int) -> float:
    text = cell.strip().strip("\"'")
    if _MONTH.fullmatch(text):
        text += "-01"
    date = _SLASHED.match(text)
    if date:
        text = f"{date[1]}-{int(date[2]):02}-{int(date[3]):02}{text[date.end() :]}"
    try:
        found = datetime.datetime.fromisoformat(text)
        zoned = found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
        return (zoned - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)).total_seconds()
    except (ValueError, OverflowError):
        raise _no_time(cell, where) from None


def increasing(times: np.ndarray) -> bool:
    return bool((np.diff(times) > 0).all())
