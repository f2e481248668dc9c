"""Roles of the columns of a table: given as arguments, recognised by name, or guessed from the content."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import FileError
from .source import NoTargetColumn, Problem, listed, shown
from .values import is_date, is_number

NONE = "none"
"""Used instead of a column's name: no column has this role."""
NAMES = {
    "case": ("case", "id", "series", "sample", "case_id"),
    "time": ("time", "t", "timestamp", "step"),
    "target": ("target", "label", "class", "y"),
}
"""Names of columns by role."""
MORE_NAMES = {
    "case": (
        "series_id", "sample_id", "subject", "subject_id", "recording", "recording_id", "session", "session_id", "trial",
        "trial_id", "machine", "machine_id", "patient", "patient_id", "user", "user_id", "device", "device_id", "unit_id",
    ),
    "time": ("date", "datetime", "date_time", "ds", "seconds", "elapsed", "frame", "cycle", "tick"),
    "target": ("activity", "outcome", "category", "labels", "diagnosis"),
}  # fmt: skip
"""Names that are recognised if none of `NAMES` occurs."""
AMBIGUOUS = "y"  # a target, or the channel between x and z
_INDEX = ("", "unnamed: 0", "index")
_UNIT = re.compile(r"\s*[\[(][^\[\]()]*[\])]$")


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns of a table that the user names.

    **Attributes:**

    - `case`: of the case that a row belongs to; several are taken together. `"none"`: no column.
    - `time`: of times. `"none"`: no column.
    - `target`: of targets. `"none"`: no column.
    - `ignore`: left out.
    - `channels`: of values; all others without a role are then left out.
    """

    case: str | Sequence[str] | None = None
    time: str | None = None
    target: str | None = None
    ignore: Sequence[str] = ()
    channels: Sequence[str] | None = None

    @property
    def given(self) -> dict[str, list[str]]:
        """Arguments that were given, each as a list of names."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: [one] if isinstance(one, str) else list(one) for name, one in fields.items() if one}


def wrong_columns(found: Mapping[str, Any]) -> list[str]:
    """Return the names of arguments, as a file keeps them, that are not those of `Columns` or of another type."""
    several = ("case", "ignore", "channels")
    known = [field.name for field in dataclasses.fields(Columns)]

    def fits(name: str, value: Any) -> bool:
        texts = type(value) is list and all(type(one) is str for one in value)
        return name in known and (value is None or type(value) is str or (name in several and texts))

    return [name for name, value in found.items() if not fits(name, value)]


def plain(name: str) -> str:
    """Strip a name of capitals and of a unit in brackets, as in `Time [s]`."""
    return _UNIT.sub("", name.strip()).casefold()


def named_roles(header: Sequence[str], columns: Columns, without: Sequence[str] = ()) -> dict[str, list[int]]:
    """Find roles by arguments and by names.

    **Arguments:**

    - `header`: names of the columns.
    - `columns`: the roles that were given.
    - `without`: roles that no column has.

    **Returns:**

    Positions of columns by role: one each, but possibly several for `case`, `ignore` and `channels`.
    """
    names, roles, taken = [plain(name) for name in header], {}, set()
    exact = [name.strip().casefold() for name in header]
    for role, given in columns.given.items():
        if [plain(one) for one in given] == [NONE] and role in NAMES:
            roles[role] = []
            continue
        for one in given:
            where = [i for i, name in enumerate(exact) if name == one.strip().casefold()]
            if not where:
                kind = NoTargetColumn if role == "target" else FileError
                what = {"ignore": "to be ignored", "channels": "as a channel"}.get(role, f"as the {role}")
                raise Problem(
                    f"no column is called {shown(one)}, which was named {what}; there are {listed(map(str.strip, header))}.",
                    kind=kind,
                )
            if len(where) > 1:
                raise Problem(f"{len(where)} columns are called {shown(one)}; rename all but one.")
            if where[0] in taken:
                raise Problem(f"the column {shown(one)} was named twice; give each column one role.")
            taken.add(where[0])
            roles.setdefault(role, []).extend(where)
    for role in NAMES:
        if role in roles or role in without:
            continue
        for own in (NAMES[role], MORE_NAMES[role]):
            found = [i for i, name in enumerate(names) if name in own and i not in taken]
            named = [i for i in found if names[i] != AMBIGUOUS]
            found = named or ([] if {"x", "z"} <= set(names) else found)
            if len(found) > 1:
                raise Problem(several(role, [header[i].strip() for i in found]))
            if found:
                roles[role] = found
                taken.add(found[0])
                break
    return {role: where for role, where in roles.items() if where or role in NAMES}


def several(role: str, names: Sequence[str]) -> str:
    """Error message for a role that several columns could have."""
    choose = f", or choose with {role}=" if len(set(map(plain, names))) > 1 else ""
    return f"{listed(names)} could all be the {role}; rename all but one{choose}."


def index_column(header: Sequence[str], first: Sequence[str]) -> str:
    """Classify a first column without a name, as pandas writes an index: `"index"` if it holds whole numbers, `"time"` if dates
    or other numbers, else `""`.

    **Arguments:**

    - `header`: names of the columns.
    - `first`: the first cells of the first column.
    """
    if header[0].strip().casefold() not in _INDEX or len(header) < 2:
        return ""
    if all(cell.strip().lstrip("-").isdecimal() for cell in first):
        counts = [int(cell) for cell in first]
        named = header[0].strip() != ""
        return "index" if not named or counts in (list(range(len(counts))), list(range(1, len(counts) + 1))) else ""
    if header[0].strip():
        return ""
    if all(map(is_date, first)) or all(cell.strip() and is_number(cell) for cell in first):
        return "time"
    raise Problem("the first column has no name; give it one, such as case or time.")


def found_roles(
    texts: dict[int, list[str]], groups: Callable[[list[str]], bool], repeats: bool, roles: dict[str, list[int]]
) -> dict[str, int]:
    """Find roles of text columns by their content.

    **Arguments:**

    - `texts`: cells of the columns of text that have no role.
    - `groups`: true if each time occurs once per case with these cells as cases.
    - `repeats`: times occur more than once, so a case column is missing.
    - `roles`: known roles.

    **Returns:**

    Further roles: text that separates repeated times, or that never repeats if there are no times, is the case; other text is
    the target.
    """
    found: dict[str, int] = {}
    bare = "time" not in roles and "case" not in roles
    for i, cells in texts.items():
        tells_apart = repeats and groups(cells)
        if "case" not in {*roles, *found} and (tells_apart or (bare and len(set(cells)) == len(cells) > 1)):
            found["case"] = i
        elif "target" not in {*roles, *found}:
            found["target"] = i
    return found


def counting_column(values: np.ndarray, times: np.ndarray | None) -> int | None:
    """Find the one column of whole numbers that could be the case, by repetition.

    **Arguments:**

    - `values`: numbers of all columns without a role.
    - `times`: times of all rows, which then occur once in each case; without them a case is a run of equal numbers in the
        first column.
    """
    found = []
    for i in range(values.shape[1] if times is not None else 1):
        column = values[:, i]
        if not np.isfinite(column).all() or (column != np.rint(column)).any():
            continue
        codes, count = np.unique(column, return_counts=True)
        if not 1 < len(codes) < len(column):
            continue
        if times is None:
            runs = 1 + np.count_nonzero(np.diff(column))
            if runs == len(codes) and count.min() > 1:
                found.append(i)
        elif len(np.unique(np.stack([column.astype(np.float64), times]), axis=1).T) == len(column):
            found.append(i)
    return found[0] if len(found) == 1 or (found and found[0] == 0) else None


def is_counted(names: Sequence[str]) -> bool:
    """True if names are numbered one after the other, as steps are."""
    found = [re.search(r"\d{1,9}$", name, re.ASCII) for name in names]
    places = [int(one[0]) for one in found if one]
    return len(places) == len(names) and places == list(range(places[0], places[0] + len(places)))
