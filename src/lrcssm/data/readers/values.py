"""Numbers, dates and times from text."""

import datetime
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from .source import Problem, shown

_MISSING = {"?", "nan", "na", "n/a", "null", "none"}
DECIMAL_COMMA = re.compile(r"\s*[-+]?[0-9.]*[0-9],[0-9]+(?:[eE][-+]?[0-9]+)?\s*")
_DATE = re.compile(r"(\d{1,4})([-/.])(\d{1,2})(?:\2(\d{1,4}))?(?:[T\s]+(.*))?", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2})((?::\d{2}){0,2}(?:[.,]\d+)?)\s*([AaPp]\.?[Mm]\.?)?\s*(Z|[-+]\d{2}:?\d{2})?", re.ASCII)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def numbers(cells: Sequence[str], *, blank: bool = False, dtype: Any = np.float32) -> np.ndarray:
    """Convert text to numbers, NaN where a value is missing.

    **Arguments:**

    - `cells`: one number each; `?` and the usual words stand for a missing one.
    - `blank`: an empty cell is a missing value too.
    - `dtype`: of the result; all values must be finite in single precision.
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
    return found.astype(dtype)


def dimensions(parts: Sequence[str]) -> np.ndarray:
    """Convert the dimensions of a case, numbers between commas each, to an array `(time, dimensions)`."""
    counts = {one.count(",") + 1 for one in parts}
    if len(counts) > 1:
        low, high = min(counts), max(counts)
        raise Problem(f"its dimensions have from {low} to {high} values; all of a case need the same number.")
    return np.ascontiguousarray(numbers(",".join(parts).split(",")).reshape(len(parts), -1).T)


def is_number(cell: str) -> bool:
    """True if a cell is a number, empty, or a word for a missing value."""
    return is_float(cell) or not (word := cell.strip().casefold()) or word in _MISSING


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
    """Convert the targets of a regression to double precision; none may be missing."""
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
    """Convert times to double precision: numbers as they are, dates to seconds since 1970 (UTC unless they name a zone),
    times of day to seconds."""
    try:
        found = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        if is_number(cells[0]):
            raise next(_no_time(cell, i) for i, cell in enumerate(cells) if not is_float(cell)) from None
        day_first = date_order(cells) == "day first"
        found = np.fromiter((_date(cell, i, day_first) for i, cell in enumerate(cells)), np.float64, len(cells))
    if not np.isfinite(found).all():
        where = int(np.flatnonzero(~np.isfinite(found))[0])
        raise Problem(f"the time {shown(cells[where])} is not finite.", where)
    return found


def is_date(cell: str) -> bool:
    """True if a cell is a date or a time of day."""
    try:
        _date(cell, 0, day_first=True)
    except Problem:
        try:
            _date(cell, 0, day_first=False)
        except Problem:
            return False
    return not is_number(cell)


def date_order(cells: Sequence[str]) -> str:
    """Determine whether 1/2/2024 is the first of February, `"day first"`, or the second of January, `"month first"`.

    A number above 12 decides; without one, the order with fewer different step lengths, or else shorter steps. Dates that
    begin with the year give `""`.
    """
    found = [one for cell in cells if (one := _DATE.fullmatch(cell.strip(" \"'"))) and len(one[1]) < 3 and one[4]]
    if not found:
        return ""
    first, second = (np.array([int(one[k]) for one in found]) for k in (1, 3))
    if found[0][2] == "." or (first.max() > 12 and second.max() <= 12):
        return "day first"
    if first.max() > 12:
        raise Problem("some dates have the day first and some the month; write them as 2024-01-31.")
    if second.max() > 12:
        return "month first"
    year = 372 * np.array([int(one[4]) for one in found])
    days = [year + 31 * month + day for day, month in ((first, second), (second, first))]
    day_first, month_first = ((len(np.unique(np.diff(one))), int(np.ptp(one))) for one in days)
    return "day first" if day_first < month_first else "month first"


def is_float(cell: str) -> bool:
    """True if Python reads a cell as a number, finite or not."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _no_time(cell: str, where: int) -> Problem:
    return Problem(
        f"{shown(cell)} is not a time; give numbers, or dates such as 2024-01-31 12:00:00, and not both.", where
    )


def _date(cell: str, where: int, day_first: bool) -> float:
    text = cell.strip().strip("\"'")
    if not (found := _DATE.fullmatch(text)):
        clock = _CLOCK.fullmatch(text)
        if clock is None or ":" not in clock[2] or clock[4]:
            raise _no_time(cell, where)
        year, month, day, rest = "1970", "1", "1", text
    elif len(found[1]) == 4:
        year, month, day, rest = found[1], found[3], found[4] or "1", found[5]
    else:
        day, month = (found[1], found[3]) if day_first else (found[3], found[1])
        year, rest = found[4] or "", found[5]
        year = f"20{year}" if len(year) == 2 else year
    try:
        if not (clock := _CLOCK.fullmatch(rest.strip() if rest else "0")) or len(year) != 4:
            raise _no_time(cell, where)
        hour = int(clock[1]) % 12 + 12 * (clock[3][0] in "pP") if clock[3] else int(clock[1])
        minutes = (clock[2] if ":" in clock[2] else ":00" + clock[2]).replace(",", ".")
        iso = f"{year}-{int(month):02}-{int(day):02}T{hour:02}{minutes}{clock[4] or ''}"
        when = datetime.datetime.fromisoformat(iso)
        return ((when if when.tzinfo else when.replace(tzinfo=datetime.UTC)) - _EPOCH).total_seconds()
    except (ValueError, OverflowError):
        raise _no_time(cell, where) from None


def increasing(times: np.ndarray) -> bool:
    """True if each time is after the one before."""
    return bool((np.diff(times) > 0).all())
