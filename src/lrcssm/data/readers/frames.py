"""Data sets from tables in memory: DataFrames of pandas and polars, lists of them, and arrays of xarray."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import FileError, InvalidType, InvalidValue
from ..dataset import Dataset
from .build import build, settle
from .columns import MORE_NAMES, NAMES, Columns, plain
from .frame_rows import FrameRows, library_of, stacked, text_of
from .source import InMemory, Problem, listed, shown
from .table import read_headed

_DIMENSIONS = {
    "case": (*NAMES["case"], *MORE_NAMES["case"], "cases", "instance", "instances", "samples"),
    "time": (*NAMES["time"], *MORE_NAMES["time"], "times", "timepoint", "timepoints", "steps"),
    "channel": ("channel", "channels", "variable", "feature", "features", "dimension", "sensor", "lead", "band"),
}
"""Names of dimensions by role."""
_FRAME = "frame"  # the column that tells the frames of a list apart


def from_frame(
    frame: Any,
    *,
    case: str | Sequence[str] | None = None,
    time: str | None = None,
    target: str | None = None,
    ignore: Sequence[str] = (),
    channels: Sequence[str] | None = None,
    task: str | None = None,
    name: str = "frame",
) -> Dataset:
    """Read a data set from a table in memory.

    ```python
    import pandas as pd
    from lrcssm.data import from_frame

    table = pd.DataFrame({"machine": ["a", "a", "b", "b"], "time": [0, 1, 0, 1], "heat": [1.0, 2.0, 3.0, 2.0],
                          "label": ["ok", "ok", "hot", "hot"]})
    data = from_frame(table, case="machine")
    print(len(data), data.channel_names, data.classes)  # 2 ('heat',) ('hot', 'ok')
    print(data.guess)  # Rows are steps; case: 'machine'; time: 'time'; target: 'label'; channel: 'heat'.
    ```

    **Arguments:**

    - `frame`: a DataFrame of pandas or polars, long (a row for each step) or wide (a row for each case, a column for each
        step); a list of DataFrames, one for each case, with a row for each step; or a DataArray of xarray with the dimensions
        case, channel and time, in any order. An index of pandas with dates is the time, one of two levels case and time.
    - `case`, `time`, `target`: names of the columns with cases (several are taken together), times and targets; `"none"` for no
        column. Guessed if not given, as for a file; `Dataset.guess` describes the guess. For a DataArray only the target can be
        given: a coordinate along the cases, or along cases and times.
    - `ignore`: names of columns that are left out.
    - `channels`: names of the columns with values; all columns without another role if not given.
    - `task`: `"classify"` or `"regress"` if the targets are ambiguous, `"per-step"` if each step has a target.
    - `name`: of the data set.

    **Returns:**

    A `Dataset`. A table that cannot be used raises `InvalidValue`, which names the column.
    """
    found = read_frame(frame, Columns(case, time, target, ignore, channels), task, name)
    return dataclasses.replace(found, series=tuple(one.astype(np.float32) for one in found.series))


def is_frame(value: Any) -> bool:
    """True for a table in memory and for a list of them."""
    several = isinstance(value, list | tuple) and len(value) > 0
    return all(library_of(one) is not None for one in (value if several else [value]))


def read_frame(frame: Any, columns: Columns = Columns(), task: str | None = None, name: str = "frame") -> Dataset:
    """Read a data set as `from_frame` does, with the values in double precision."""
    source = InMemory(name, "The DataArray" if library_of(frame) == "xarray" else "The DataFrame")
    if task not in (None, "classify", "regress", "per-step"):
        raise InvalidValue(f"from_frame got task={task!r}; give one of classify, regress, per-step.")
    if not is_frame(frame):
        kind = type(frame[0] if isinstance(frame, list | tuple) and frame else frame).__name__
        raise InvalidType(f"from_frame got a {kind}; give a DataFrame, a list of DataFrames or a DataArray.")
    try:
        if isinstance(frame, list | tuple):
            found = _from_list(source, frame, columns, task)
        elif library_of(frame) == "xarray":
            found = _from_array(source, frame, columns)
        else:
            found = read_headed(source, _filled(FrameRows(frame)), columns, task, False)
        return dataclasses.replace(settle(found, source, task), about="")
    except (FileError, Problem) as error:
        raise InvalidValue(str(error) if isinstance(error, FileError) else f"{source}: {error}") from None


def _filled(rows: FrameRows) -> FrameRows:
    if not rows.count or not rows.names:
        raise Problem("it has no rows or no columns; give at least one case.")
    return rows


def _from_list(source: InMemory, frames: Sequence[Any], columns: Columns, task: str | None) -> Dataset:
    if any(library_of(one) == "xarray" for one in frames):
        raise Problem("it is a list with arrays of xarray; join them along a dimension case, with xarray.concat.")
    if columns.case:
        raise Problem(
            f"a list has a frame for each case, so that {shown(str(columns.case))} cannot be the case; leave it out."
        )
    found = read_headed(
        source, stacked(frames, _FRAME), dataclasses.replace(columns, case=_FRAME), task, False
    )  # fmt: skip
    guess = found.guess.replace(f"case: {_FRAME!r}", "case: a frame for each")
    return dataclasses.replace(found, ids=None, guess=guess)


def _from_array(source: InMemory, array: Any, columns: Columns) -> Dataset:
    """Read an array of xarray by the names of its dimensions; variables of a Dataset are channels."""
    if odd := [role for role in columns.given if role != "target"]:
        raise Problem(f"its dimensions have names, so that {odd[0]}= is not needed; leave it out.")
    labels = _coordinate(array, columns.target)
    if hasattr(array, "data_vars"):
        array = array.drop_vars([columns.target] if labels is not None and columns.target in array.data_vars else [])
        array = array.to_array("channel")
    roles = _dimensions(array)
    order = [roles[role] for role in ("case", "time", "channel") if role in roles]
    values = np.asarray(array.transpose(*order).values)
    if values.dtype.kind not in "fiub":
        raise Problem(f"its values have dtype {values.dtype}; give numbers.")
    for axis, role in enumerate(("case", "time", "channel")):
        values = values if role in roles else np.expand_dims(values, axis)
    with np.errstate(over="ignore"):
        if np.isinf(values.astype(np.float32)).any():
            raise Problem("it holds infinity, or a value beyond single precision; give finite numbers below 3e38.")
    stamps, names, ids = (_values(array, roles.get(role)) for role in ("time", "channel", "case"))
    times = None if stamps is None else [_seconds(stamps)] * len(values)
    given = None if labels is None else _aligned(labels, roles)
    return build(
        source.name, list(values.astype(np.float64)), given, open=True, times=times,
        channel_names=None if names is None else tuple(map(text_of, names)),
        ids=None if ids is None else tuple(map(text_of, ids)), guess=f"Dimensions: {_words(roles)}.",
    )  # fmt: skip


def _dimensions(array: Any) -> dict[str, str]:
    """Find the role of each dimension by its name; a single unknown dimension gets the single missing role."""
    names = {str(one): plain(str(one)) for one in array.dims}
    roles = {role: [one for one, low in names.items() if low in own] for role, own in _DIMENSIONS.items()}
    found = {role: own[0] for role, own in roles.items() if len(own) == 1}
    rest, free = (
        [one for one in names if one not in found.values()],
        [role for role in _DIMENSIONS if role not in found],
    )
    if len(rest) == 1 and (len(free) == 1 or "time" in free):
        found["time" if "time" in free else free[0]] = rest.pop()
    if rest or "time" not in found:
        raise Problem(f"its dimensions are {listed(names)}; name them case, channel and time.")
    return found


def _words(roles: Mapping[str, str]) -> str:
    return ", ".join(f"{shown(own)} is the {role}" if own != role else f"{role}" for role, own in roles.items())


def _values(array: Any, dimension: str | None) -> np.ndarray | None:
    """Return the coordinate of a dimension, if it has one."""
    return None if dimension is None or dimension not in array.coords else np.asarray(array.coords[dimension].values)


def _seconds(stamps: np.ndarray) -> np.ndarray:
    """Convert times to numbers; dates to seconds since 1970."""
    if stamps.dtype.kind in "mM":
        return stamps.astype(f"{stamps.dtype.kind}8[ns]").astype(np.int64) / 1e9
    if stamps.dtype.kind not in "fiu" or not np.isfinite(stamps).all() or (np.diff(stamps) <= 0).any():
        raise Problem("the coordinate of its time does not increase from step to step; sort the steps by time.")
    return stamps.astype(np.float64)


def _coordinate(array: Any, target: str | None) -> Any:
    if target is None or plain(target) == "none":
        return None
    known = {**getattr(array, "data_vars", {}), **array.coords}
    if target not in known:
        raise Problem(
            f"no coordinate is called {shown(target)}, which was named as the target; there are {listed(map(str, known))}."
        )
    return known[target]


def _aligned(labels: Any, roles: Mapping[str, str]) -> list[str] | list[list[str]]:
    """Return the targets as text, of each case or of each step."""
    axes = [roles.get("case"), roles.get("time")]
    if list(labels.dims) == axes[:1]:
        return [text_of(one) for one in labels.values]
    if set(labels.dims) == set(axes):
        return [[text_of(one) for one in row] for row in labels.transpose(*axes).values]
    raise Problem(
        f"its targets have the dimensions {listed(map(str, labels.dims))}; give one for each case, or for each step."
    )
