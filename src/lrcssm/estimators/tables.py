"""Series from DataFrames, DataArrays and data sets, with the names of their channels and their times."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import Dataset
from ..data.readers.columns import AMBIGUOUS, MORE_NAMES, NAMES, NONE, Columns, plain
from ..data.readers.frame_rows import FrameRows, library_of
from ..data.readers.frames import is_frame, read_frame
from ..data.readers.source import listed
from ..data.readers.values import is_number
from ..errors import InvalidValue

MANY_CHANNELS = 16
"""Smallest number of channels that may be mistaken time steps."""


class Series(list[np.ndarray]):
    """Series `(time, channels)` of a table, with its `names` of channels and its `times`, both `None` where there are none."""

    def __init__(self, series: Sequence[np.ndarray] = (), names: tuple[str, ...] | None = None, times: Any = None):
        super().__init__(series)
        self.names, self.times = names, times
        self.step: float | None = None
        """Time of a step, if all steps take the same."""

    @classmethod
    def of(cls, data: Dataset) -> "Series":
        """The series of a data set."""
        found = cls(data.series, data.channel_names, data.times)
        found.step = data.step
        return found

    def reordered(self, order: Sequence[int]) -> "Series":
        """The same series with their channels in another order."""
        found = Series([one[:, list(order)] for one in self], None, self.times)
        found.step = self.step
        return found


def read_tables(X: Any) -> Series | None:
    """Series of a `Dataset`, of a list of DataFrames (time × columns), of a DataFrame whose index has two levels (case and
    time), or of a DataArray; `None` for anything else."""
    if isinstance(X, Dataset):
        return Series.of(X)
    if not is_frame(X):
        return None
    several = isinstance(X, list | tuple) or library_of(X) == "xarray"
    if not several and getattr(getattr(X, "index", None), "nlevels", 1) < 2:
        refuse_long(X)
        return None
    _refuse_targets(X)
    try:
        data = read_frame(X, Columns(target=NONE), name="X")
    except InvalidValue as error:
        text = (
            str(error).replace("The DataFrame", "X").replace("The DataArray", "X").partition("; or name the column")[0]
        )
        text = text.partition("; name the column")[0]
        raise InvalidValue(text if text.endswith(".") else f"{text}; leave it out of X.") from None
    return Series.of(data)


def _refuse_targets(X: Any) -> None:
    """Raise an error for a column with the name of a target."""
    names = [str(one) for one in getattr(X[0] if isinstance(X, list | tuple) else X, "columns", ())]
    if odd := [one for one in names if plain(one) in NAMES["target"] and plain(one) != AMBIGUOUS]:
        raise InvalidValue(
            f"X has the column {odd[0]!r}, the name of a target; leave it out of X and give y, or give "
            "lrcssm.data.from_frame(X) instead of X and y."
        )


def own_targets(X: Any) -> Any:
    """Targets of a data set as estimators accept them: labels or numbers, of each case or of each step; `None` for anything else."""
    if not isinstance(X, Dataset) or X.targets is None:
        return None
    if X.classes is None:
        return list(X.targets) if isinstance(X.targets, tuple) else X.targets
    names = np.array([*X.classes, None], object)
    if isinstance(X.targets, tuple):
        return [names[one] for one in X.targets]
    return np.array(X.classes)[X.targets]


def refuse_long(frame: Any) -> None:
    """Raise an error for a DataFrame whose rows are time steps instead of cases."""
    names = [str(one) for one in frame.columns]
    known = {role: (*NAMES[role], *MORE_NAMES[role]) for role in ("case", "time")}
    roles = {role: [one for one in names if plain(one) in own] for role, own in known.items()}
    if all(roles.values()):
        raise InvalidValue(
            f"X is a DataFrame with the columns {listed(names)}: its rows are time steps, and a DataFrame as X has "
            "a row for each case; give lrcssm.data.from_frame(X)."
        )
    if type(getattr(frame, "index", None)).__name__ == "DatetimeIndex":
        raise InvalidValue(
            "X is a DataFrame with an index of dates: its rows are time steps, and a DataFrame as X has a row for "
            "each case; give a list of such frames, one for each case."
        )
    for name, values in FrameRows(frame).named():
        # Columns of numbers are arrays.
        texts = (one for one in values if isinstance(one, str)) if isinstance(values, list) else ()
        if odd := next((one for one in texts if not is_number(one)), None):
            raise InvalidValue(
                f"The column {name!r} of X holds text, such as {odd[:30]!r}; leave it out of X, or give lrcssm.data.from_frame(X) "
                "if it holds cases or targets."
            )


def warn_time_first(shape: tuple[int, ...] | None, cases: int, channels: int, steps: int) -> None:
    """Warn if there are far more channels than time steps, as in arrays whose second axis is time.

    **Arguments:**

    - `shape`: of the array; `None` for a list of arrays.
    - `cases`, `channels`, `steps`: as they were read; the longest case counts.
    """
    if channels < MANY_CHANNELS or channels < (4 if steps <= 16 else 8) * steps:
        return
    what = "The list X" if shape is None else f"X of shape {shape}"
    up_to, remedy = ("up to ", "[one.T for one in X]") if shape is None else ("", "X.transpose(0, 2, 1)")
    form = "(time, channels)" if shape is None else "(cases, time, channels)"
    warnings.warn(
        f"{what} was read as {cases} cases of {channels} channels with {up_to}{steps} time steps; if its axes are {form}, give "
        f"{remedy}.",
        UserWarning,
        stacklevel=2,
    )
