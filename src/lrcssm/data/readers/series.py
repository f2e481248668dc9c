"""A single series in a table: a row for each step, perhaps with a column of times."""

import itertools
import os
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...errors import FileError, MissingFile, printable
from .columns import MORE_NAMES, NAMES, NONE, Columns
from .rows import is_header, rows_of
from .source import at, listed
from .table import _PEEK, _by_content, _by_name, _given, _holds_text, _parse  # the same room
from .values import date_order, increasing


class SingleSeries(NamedTuple):
    """A series read from a table, sorted by time.

    **Attributes:**

    - `name`: of the file, without its ending.
    - `names`: of the columns with numbers.
    - `values`: `(time, columns)`, NaN where a value is missing.
    - `times`: numbers, or seconds since 1970 for dates; `None` without a column of times.
    - `stamps`: the times as text.
    - `day_first`: true for dates such as 31/12/2024.
    - `guess`: one sentence about the guessed roles of the columns.
    """

    name: str
    names: tuple[str, ...]
    values: np.ndarray
    times: np.ndarray | None
    stamps: tuple[str, ...] | None
    day_first: bool
    guess: str


def read_series(
    path: str | os.PathLike[str], *, time: str | None = None, ignore: Sequence[str] = (), channels: Sequence[str] | None = None
) -> SingleSeries:  # fmt: skip
    """Read a single series from a table (`.csv`, `.tsv`, `.txt`, `.parquet`).

    ```python
    import pathlib, tempfile
    from lrcssm.data.readers.series import read_series

    path = pathlib.Path(tempfile.mkdtemp()) / "sales.csv"
    path.write_text("month,sales\\n2024-01,3\\n2024-02,5\\n2024-03,4\\n")
    print(read_series(path).guess)  # Rows are steps; time: month; columns: sales.
    ```

    **Arguments:**

    - `path`: the file.
    - `time`: the column of times; `"none"` if there is none. Guessed if not given.
    - `ignore`: columns to leave out.
    - `channels`: columns to read; all with numbers if not given.
    """
    path = pathlib.Path(path)
    if not path.exists():
        raise MissingFile(f"{path} does not exist; give a table with a row for each step.")
    if path.is_dir():
        raise FileError(f"{path} is a folder; give a table with a row for each step.")
    columns = Columns(case=NONE, time=time, target=NONE, ignore=ignore, channels=channels)
    rows = rows_of(path)
    number, header = next(rows())
    with at(path, number):
        known = {"time": (*NAMES["time"], *MORE_NAMES["time"]), "given": _given(columns)}
        named = is_header(header, rows, known)
    header = [printable(name) for name in header]
    if not named:
        header = [str(i) for i in range(len(header))]
    peek = [row for _, row in itertools.islice(rows(), int(named), _PEEK)]
    if not peek:
        raise FileError(f"{path} holds a header and no rows; give at least a few steps.")
    with at(path, number):
        roles, dropped, rest = _by_name(header, peek, columns, ()) if named else ({}, {}, list(range(len(header))))
    texts, numeric = ([i for i in rest if _holds_text(peek, i) is kind] for kind in (True, False))
    values, cells, where = _parse(path, header, rows, numeric, [*roles.get("time", []), *texts], header=named)
    try:
        times, _ = _by_content(
            path, header, roles, {i: cells[i] for i in texts}, cells, where, True,
        )  # fmt: skip
    except FileError as error:
        if not numeric:
            raise FileError(f"{path} has no column of numbers; there are {listed(header)}.") from error
        raise
    if not numeric:
        raise FileError(f"{path} has no column of numbers besides the times; there are {listed(header)}.")
    names = tuple(header[i].strip() for i in numeric)
    parts = ["Rows are steps"]
    stamps = None
    if times is not None:
        order = np.argsort(times, kind="stable")
        if not increasing(times[order]):
            i = int(order[np.flatnonzero(np.diff(times[order]) <= 0)[0] + 1])
            raise FileError(f"{path}, line {where[i]}: this time occurs twice; a single series has each time once.")
        own = cells[roles["time"][0]]
        times, values, stamps = times[order], values[order], tuple(printable(own[i]) for i in order)
        parts.append(f"time: {header[roles['time'][0]].strip() or 'the first column'}")
    parts.append(f"column{'s' if len(names) > 1 else ''}: {', '.join(names)}" if named else "without a header")
    if dropped:
        parts.append("left out: " + ", ".join(header[i].strip() or "row numbers" for i in dropped))
    first = stamps is not None and date_order(stamps) == "day first"
    return SingleSeries(
        path.name.split(".")[0], names, values.astype(np.float64), times, stamps, first, "; ".join(parts) + "."
    )


def continued(series: SingleSeries, count: int) -> list[str]:
    """Times of the steps that follow a series, as text.

    Months and years follow the calendar; other times continue with the median interval. Without times, steps are counted from
    0.

    **Arguments:**

    - `series`: with at least two steps if it has times.
    - `count`: steps.
    """
    if series.times is None or series.stamps is None or len(series.times) < 2:
        return [str(len(series.values) + i) for i in range(count)]
    step = float(np.median(np.diff(series.times)))
    try:
        numeric = [float(one) for one in series.stamps]
    except ValueError:
        return _dates(series, step, count)
    whole = all(value == round(value) for value in numeric) and step == round(step)
    ahead = [series.times[-1] + step * (i + 1) for i in range(count)]
    return [str(round(one)) if whole else f"{one:.10g}" for one in ahead]


def _dates(series: SingleSeries, step: float, count: int) -> list[str]:
    assert series.times is not None and series.stamps is not None
    moments = (series.times * 1e6).round().astype("int64").astype("datetime64[us]")
    months = moments.astype("datetime64[M]")
    into = moments - months.astype("datetime64[us]")
    gaps = np.diff(months.astype(int))
    ahead = np.arange(1, count + 1)
    if (into == into[0]).all() and len(gaps) and (gaps == np.median(gaps)).all() and gaps[0] > 0:
        following = (months[-1] + gaps[0] * ahead).astype("datetime64[us]") + into[0]
    else:
        following = moments[-1] + (step * 1e6 * ahead).round().astype("timedelta64[us]")
    if all(len(one.strip("\"' ")) <= 7 for one in series.stamps) and (into == np.timedelta64(0, "us")).all():
        return following.astype("datetime64[M]").astype(str).tolist()
    days = np.concatenate([moments, following])
    if (days == days.astype("datetime64[D]").astype("datetime64[us]")).all():
        return following.astype("datetime64[D]").astype(str).tolist()
    return [one.replace("T", " ") for one in following.astype("datetime64[s]").astype(str)]


def uneven(series: SingleSeries) -> bool:
    """True if steps differ in length by more than months and years do."""
    if series.times is None or len(series.times) < 3:
        return False
    gaps = np.diff(series.times)
    middle = float(np.median(gaps))
    day = 86400.0
    calendar = any(all(low <= gap <= high for gap in gaps) for low, high in ((28 * day, 31 * day), (89 * day, 92 * day), (365 * day, 366 * day)))  # fmt: skip
    return not calendar and bool((np.abs(gaps - middle) > 0.01 * middle).any())
