"""Rows of a table in memory: a DataFrame of pandas or polars, recognised by module name, so that neither is imported."""

import datetime
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import FileError, InvalidType, InvalidValue
from .source import Problem, Source, listed, located, shown
from .values import numbers

_MISSING = ("NAType", "NaTType")
_HINT = "; or name the column with case=, time= or target= if it is one of these, or leave it out with ignore="


def library_of(value: Any) -> str | None:
    """Name the library of a table: `"pandas"`, `"polars"` or `"xarray"`; `None` for anything else, also for a single column."""
    for kind in type(value).__mro__:
        library = kind.__module__.partition(".")[0]
        if (library, kind.__name__) in (
            ("pandas", "DataFrame"), ("polars", "DataFrame"), ("polars", "LazyFrame"),
            ("xarray", "DataArray"), ("xarray", "Dataset"),
        ):  # fmt: skip
            return library
    return None


class FrameRows:
    """Rows of a table in memory, as for text files, and its columns as a whole.

    **Arguments:**

    - `frame`: a DataFrame of pandas or polars. A pandas index other than a row count becomes one or several leading columns.
    """

    def __init__(self, frame: Any):
        library = library_of(frame)
        if library == "polars":
            frame = frame.collect() if hasattr(frame, "collect") else frame
            pairs = [(name, _polars_values(frame.get_column(name))) for name in frame.columns]
        elif library == "pandas":
            pairs = [
                *_index(frame),
                *((_joined(name), _pandas_values(frame.iloc[:, i])) for i, name in enumerate(frame)),
            ]
        else:
            raise InvalidType(
                f"from_frame got a {type(frame).__name__}; give a DataFrame, a list of them or a DataArray."
            )
        self.names = [name for name, _ in pairs]
        self.columns: list[Any] = [values for _, values in pairs]
        self.count = len(frame)

    def __call__(self) -> Iterator[tuple[Any, list[str]]]:
        """Give the header, without a position, and then all rows as text."""
        yield None, list(self.names)
        for i in range(self.count):
            yield i, [text_of(values[i]) for values in self.columns]

    def named(self) -> Iterator[tuple[str, Any]]:
        """Give each column with its name: an array of numbers, or a list of anything."""
        return zip(self.names, self.columns, strict=True)

    def parsed(
        self, source: Source, numeric: Sequence[int], texts: Sequence[int]
    ) -> tuple[np.ndarray, dict[int, list[str]], list[int]]:
        """Convert columns: numbers `(rows, columns)` of the columns `numeric`, text of the columns `texts`, and positions."""
        values = np.empty((self.count, len(numeric)))
        for k, i in enumerate(numeric):
            values[:, k] = self._numbers(source, i)
        return values, {i: [text_of(one).strip() for one in self.columns[i]] for i in texts}, list(range(self.count))

    def _numbers(self, source: Source, i: int) -> np.ndarray:
        column = self.columns[i]
        if isinstance(column, np.ndarray):
            with np.errstate(over="ignore"):
                odd = np.flatnonzero(np.isinf(column.astype(np.float32)))
            if not len(odd):
                return column
        try:
            return numbers([text_of(one) for one in column], blank=True, dtype=np.float64)
        except Problem as problem:
            hint = _HINT if "not a number" in str(problem) else ""
            where = located(source, problem.where)
            raise FileError(f"{where}: in column {shown(self.names[i])} {str(problem)[:-1]}{hint}.") from None


def stacked(frames: Sequence[Any], case: str) -> FrameRows:
    """Concatenate frames, with an additional first column that identifies the frame of each row.

    **Arguments:**

    - `frames`: DataFrames with the same columns, in any order.
    - `case`: name of the additional column.
    """
    parts = [FrameRows(one) for one in frames]
    whole = parts[0]
    for i, part in enumerate(parts):
        if sorted(part.names) != sorted(whole.names) or len(set(part.names)) < len(part.names):
            raise InvalidValue(
                f"Frame {i} has the columns {listed(part.names)}, and frame 0 has {listed(whole.names)}; give all frames the "
                "same columns, each name once."
            )
        if not part.count:
            raise InvalidValue(f"Frame {i} has no rows; leave it out.")
        order = [part.names.index(name) for name in whole.names]
        part.columns = [part.columns[k] for k in order]
    if all(part.count == 1 for part in parts):
        raise InvalidValue(
            "Each frame has one row, but the rows of a frame in a list are the time steps of one case; give one frame with a row "
            "for each case, or a list of frames with a row for each step."
        )
    numbers_of = [i for i, part in enumerate(parts) for _ in range(part.count)]
    columns = [_concatenated(own) for own in zip(*(part.columns for part in parts), strict=True)]
    whole.names, whole.columns, whole.count = [case, *whole.names], [np.array(numbers_of), *columns], len(numbers_of)
    return whole


def text_of(value: Any) -> str:
    """Write a cell as text; a missing one is empty."""
    if value is None or type(value).__name__ in _MISSING:
        return ""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and math.isnan(value):
        return ""
    if isinstance(value, datetime.timedelta):
        return repr(value.total_seconds())
    dated = getattr(value, "isoformat", None)
    return str(value) if dated is None else dated()


def _concatenated(parts: Sequence[Any]) -> Any:
    whole = all(isinstance(one, np.ndarray) for one in parts)
    return np.concatenate(parts) if whole else list(itertools.chain.from_iterable(parts))


def _polars_values(column: Any) -> Any:
    plain = column.dtype.is_numeric() and not column.dtype.is_decimal() and not column.null_count()
    return column.to_numpy() if plain else column.to_list()


def _pandas_values(column: Any) -> Any:
    plain = isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub"
    return column.to_numpy() if plain else column.to_list()


def _index(frame: Any) -> list[tuple[str, Any]]:
    """Return the levels of a pandas index as columns; none for a row count."""
    index = frame.index
    if type(index).__name__ == "RangeIndex" and index.name is None:
        return []
    levels = [index.get_level_values(i) for i in range(index.nlevels)]
    if len(levels) > 1:
        # The usual index of a table of several series, in this order.
        usual = ("case", "time") if len(levels) == 2 else tuple(f"level {i}" for i in range(len(levels)))
        return [
            (usual[i] if level.name is None else str(level.name), _pandas_values(level))
            for i, level in enumerate(levels)
        ]
    values = _pandas_values(index)
    if index.name is not None:
        return [(str(index.name), values)]
    # Text tells cases apart, and dates are times. Numbers without a name are known as an index or as times later.
    texts = isinstance(values, list) and all(isinstance(one, str) for one in values)
    return [("case" if texts else "time" if isinstance(values, list) else "", values)]


def _joined(name: Any) -> str:
    return "/".join(map(str, name)) if isinstance(name, tuple) else str(name)
