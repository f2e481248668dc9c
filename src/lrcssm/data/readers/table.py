"""Tables (`.csv`, `.tsv`, `.txt`, `.parquet`): long (a row for each step) or wide (a row for each case)."""

import dataclasses
import itertools
import pathlib
from collections.abc import Sequence

import numpy as np

from ...errors import FileError
from ..dataset import Dataset
from .build import build
from .columns import (
    AMBIGUOUS,
    MORE_NAMES,
    NAMES,
    NONE,
    Columns,
    counting_column,
    found_roles,
    index_column,
    is_counted,
    named_roles,
    plain,
    several,
)  # fmt: skip
from .frame_rows import FrameRows
from .rows import Rows, is_header, rows_of
from .source import NoTargetColumn, Problem, Source, at, listed, located, shown
from .values import DECIMAL_COMMA, date_order, increasing, is_date, is_number, moments, numbers

_AT_ONCE = 4096
_PEEK = 100
_HINT = "name the column with case=, time= or target= if it is one of these, or leave it out with ignore="


def read_table(
    path: pathlib.Path, columns: Columns = Columns(), task: str | None = None, single: bool = False
) -> Dataset:
    """Read a table.

    **Arguments:**

    - `path`: the file.
    - `columns`: roles of columns, guessed if not given.
    - `task`: `"per-step"` if each row has its own target.
    - `single`: the file is a single case, whose rows are steps.
    """
    rows = rows_of(path)
    number, first = next(rows())
    with at(path, number):
        known = {role: (*NAMES[role], *MORE_NAMES[role]) for role in NAMES} | {"given": _given(columns)}
        header = is_header(first, rows, known)
        if not header and (wanted := [one for one in _given(columns) if one != NONE]):
            kind = NoTargetColumn if columns.target else FileError
            raise Problem(f"it has no header, so no column is called {shown(wanted[0])}; name the columns.", kind=kind)
        if header:
            return read_headed(path, rows, columns, task, single)
    if len(first) < 2 and not single:
        raise FileError(
            f"{located(path, number)}: there is only one column; expected one row for each case with its values, or columns "
            f"for the case, the time and the channels ({_looked_for()})."
        )
    if not single:
        return _bare(path, rows, guess=columns.target is None)
    values, _, _ = _parse(path, [str(i) for i in range(len(first))], rows, list(range(len(first))), [], header=False)
    return build(_stem(path), [values], guess="Rows are steps, without a header.")


def _given(columns: Columns) -> list[str]:
    return [one.strip().casefold() for own in columns.given.values() for one in own]


def _stem(path: Source) -> str:
    return path.name.split(".")[0]


def _looked_for() -> str:
    return "; ".join(f"{role}: {', '.join(names)}" for role, names in NAMES.items())


def read_headed(
    path: Source, rows: Rows, columns: Columns, task: str | None, single: bool, notes: Sequence[str] = (),
    without: Sequence[str] = (),
) -> Dataset:  # fmt: skip
    """Read a table with a header.

    **Arguments:**

    - `path`: the file, or the name of a table in memory.
    - `rows`: all rows, the first of which is the header.
    - `columns`, `task`, `single`: as for `read_table`.
    - `without`: roles that no column has; `notes` has the reasons.
    """
    number, header = next(rows())
    peek = [row for _, row in itertools.islice(rows(), 1, 1 + _PEEK)]
    if not peek:
        raise FileError(f"{path} holds a header and no rows; there must be at least one case.")
    with at(path, number):
        roles, dropped, rest = _by_name(header, peek, columns, without)
    judged = {i: _holds_text(peek, i) for i in rest}
    texts, numeric = ([i for i in rest if judged[i] is kind] for kind in (True, False))
    taken = [i for own in roles.values() for i in own]
    values, cells, where = _parse(path, header, rows, numeric, [*taken, *texts])
    times, repeats = _by_content(path, header, roles, {i: cells[i] for i in texts}, cells, where, single)
    names = [header[i].strip() for i in numeric]
    if not names:
        raise FileError(f"{located(path, number)}: no column is left for values; expected more than {listed(header)}.")
    if "case" not in roles and not single and (repeats or (times is None and not is_counted(names))):
        found = counting_column(values, times) if len(names) > 1 else None
        if found is not None and names.count(names[found]) == 1:
            return read_headed(
                path, rows, dataclasses.replace(columns, case=names[found]), task, single, notes, without
            )
    given = (
        ["/".join(one) for one in zip(*(cells[i] for i in roles["case"]), strict=True)] if roles.get("case") else None
    )
    long = single or times is not None or (given is not None and len(set(given)) < len(given))
    label = cells[roles["target"][0]] if roles.get("target") else None
    name = header[roles["target"][0]].strip() if label is not None else ""
    unsure = long and columns.target is None and plain(name) == AMBIGUOUS and task != "per-step"
    if unsure and label and all(map(is_number, label)) and (single or _changes(label, given or [""] * len(where))):
        note = f"{shown(name)} is a channel because it changes within cases"
        return read_headed(path, rows, columns, task, single, (*notes, note), (*without, "target"))
    for role, i in ((role, i) for role, own in roles.items() for i in own):
        if "" in cells[i] and not (role == "target" and task == "per-step"):
            raise FileError(
                f"{located(path, where[cells[i].index('')])}: its {role} is missing; give one in every row."
            )
    with at(path, number):
        long = _check_layout(header, roles, names, long, single, task, guessed=columns.target is None)
    guess = _sentence(header, roles, dropped, names, long, times, cells, notes)
    if long:
        return _long(path, values, given, times, label, where, task, tuple(names), guess)
    ids = None if given is None else tuple(given)
    return build(_stem(path), list(values[:, :, None]), label, open=True, ids=ids, guess=guess)


def _by_name(
    header: list[str], peek: list[list[str]], columns: Columns, without: Sequence[str]
) -> tuple[dict[str, list[int]], dict[int, str], list[int]]:
    """Find roles by name, columns that are left out with the reason, and all other columns."""
    roles = named_roles(header, columns, without)
    dropped, chosen = dict.fromkeys(roles.pop("ignore", []), ""), roles.pop("channels", None)
    if not any(0 in own for own in (*roles.values(), dropped, chosen or ())):
        kind = index_column(header, [row[0] for row in peek if row])
        if kind == "time" and "time" not in roles:
            roles["time"] = [0]
        elif kind:
            dropped[0] = "row numbers"
    taken = [i for own in roles.values() for i in own]
    rest = [i for i in range(len(header)) if i not in taken and i not in dropped]
    if chosen is None:
        return roles, dropped, rest
    return roles, dropped | dict.fromkeys([i for i in rest if i not in chosen], ""), chosen


def _by_content(
    path: Source, header: list[str], roles: dict[str, list[int]], texts: dict[int, list[str]],
    cells: dict[int, list[str]], where: list[int], single: bool,
) -> tuple[np.ndarray | None, bool]:  # fmt: skip
    """Add roles of columns of text; returns the times, and true if they repeat without a case column."""
    if "time" not in roles:
        date = next((i for i, own in texts.items() if all(map(is_date, own[:_PEEK]))), None)
        roles |= {} if date is None else {"time": [date]}
    times = None
    if roles.get("time"):
        own = cells[roles["time"][0]]
        try:
            if "" in own:
                raise Problem("its time is missing; give one in every row.", own.index(""))
            times = moments(own)
        except Problem as problem:
            raise FileError(f"{located(path, where[problem.where])}: {problem}") from None
    repeats = times is not None and "case" not in roles and not single and len(np.unique(times)) < len(times)
    once = lambda own: times is not None and len(set(zip(own, times.tolist(), strict=True))) == len(own)
    left = {i: own for i, own in texts.items() if roles.get("time") != [i]}
    known = roles | {"case": []} if single else roles
    roles |= {role: [i] for role, i in found_roles(left, once, repeats, known).items()}
    if (odd := next((i for i in left if [i] not in (roles.get("case"), roles.get("target"))), None)) is not None:
        cell = shown(left[odd][0])
        raise FileError(
            f"{located(path, where[0])}: the column {shown(header[odd])} holds text, such as {cell}; {_HINT}."
        )
    return times, repeats


def _check_layout(
    header: list[str],
    roles: dict[str, list[int]],
    names: list[str],
    long: bool,
    single: bool,
    task: str | None,
    guessed: bool,
) -> bool:
    """Raise an error for roles that do not fit the layout; returns true if the table is long."""
    if single and (odd := roles.get("case") or (task != "per-step" and roles.get("target"))):
        raise Problem(
            f"there is a column {shown(header[odd[0]])}, but a table among others is a single case, of the class its "
            "folder names if that is one; leave it out with ignore=."
        )
    second = next((name for name in names if plain(name) == AMBIGUOUS), None)
    if not long and guessed and roles.get("target") and second is not None:
        raise Problem(several("target", [header[roles["target"][0]].strip(), second]))
    if long or any(roles.values()) or is_counted(names):
        return long
    if len(names) == 1:
        return True  # a single series
    raise Problem(
        f"{listed(names)} could be steps of cases or channels of one series; name the columns t0, t1, t2 for steps, or name "
        f"the columns with cases and times ({_looked_for()})."
    )


def _holds_text(peek: Sequence[Sequence[str]], i: int) -> bool:
    """Classify a column by its first cell that is not missing."""
    cell = next((row[i] for row in peek if i < len(row) and row[i].strip()), "")
    return not is_number(cell) and not DECIMAL_COMMA.fullmatch(cell)


def _parse(
    path: Source, names: Sequence[str], rows: Rows, numeric: list[int], texts: Sequence[int], header: bool = True
) -> tuple[np.ndarray, dict[int, list[str]], list[int]]:
    """Read all rows: numbers `(rows, columns)` of the columns `numeric`, text of the columns `texts`, and their lines."""
    if isinstance(rows, FrameRows):
        return rows.parsed(path, numeric, texts)
    parts, cells, where = [], {i: [] for i in texts}, []
    waiting: list[list[str]] = []

    def convert() -> None:
        try:
            parts.append(
                numbers([row[i] for row in waiting for i in numeric], blank=True).reshape(len(waiting), len(numeric))
            )
        except Problem as problem:
            row, column = divmod(problem.where, len(numeric))
            line, hint = (
                where[len(where) - len(waiting) + row],
                f"; or {_HINT}" if "not a number" in str(problem) else "",
            )
            raise FileError(
                f"{located(path, line)}: in column {shown(names[numeric[column]])} {str(problem)[:-1]}{hint}."
            ) from None
        waiting.clear()

    for line, row in itertools.islice(rows(), 1 if header else 0, None):
        if len(row) != len(names):
            raise FileError(
                f"{located(path, line)}: it has {len(row)} cells where the first row has {len(names)}; leave cells empty "
                "where values are missing."
            )
        for i, own in cells.items():
            own.append(row[i].strip())
        where.append(line)
        waiting.append(row)
        if len(waiting) >= _AT_ONCE:
            convert()
    convert()
    return np.concatenate(parts), cells, where


def _bare(path: Source, rows: Rows, guess: bool) -> Dataset:
    """Read a wide table without a header: the target is the column of text at an end, or the column of whole numbers at an end
    if no other is written so."""
    first = next(rows())[1]
    place = next((i for i in (0, -1) if not is_number(first[i])), None)
    reason = "the column of text"
    if place is None and guess:
        place, reason = next((i for i in (0, -1) if _holds_classes(rows, i)), None), "the only column of whole numbers"
    series, labels = [], []
    for line, row in rows():
        with at(path, line):
            if len(row) < 2:
                raise Problem("it has only one cell; expected a case with its values.")
            if place is not None:
                labels.append(row.pop(place).strip())
                if not labels[-1]:
                    raise Problem("its target is missing; leave such cases out.")
            series.append(numbers(row, blank=True)[:, None])
    target = "" if place is None else f"; target: {reason} at the {'start' if place == 0 else 'end'}"
    return build(_stem(path), series, labels or None, open=True, guess=f"Rows are cases, without a header{target}.")


def _holds_classes(rows: Rows, place: int) -> bool:
    """True if a column at an end is the only one of whole numbers, each of them in two rows on average at least."""
    found: list[str] = []
    for _, row in rows():
        cells = [cell.strip().lstrip("+-") for cell in row]
        if not cells[place].isdecimal() or len(cells) < 3 or all(map(str.isdecimal, cells)):
            return False
        if cells[-1 - place if place else -1].isdecimal():
            return False
        found.append(cells[place])
    return len(found) >= 4 and 2 * len(set(found)) <= len(found)


def _changes(cells: Sequence[str], cases: Sequence[str]) -> bool:
    """True if numbers differ within a case; missing ones are ignored."""
    first: dict[str, float] = {}
    for case, cell in zip(cases, cells, strict=True):
        try:
            value = float(cell)
        except ValueError:
            continue
        if not np.isnan(value) and first.setdefault(case, value) != value:
            return True
    return False


def _long(
    path: Source, values: np.ndarray, given: list[str] | None, times: np.ndarray | None, label: list[str] | None,
    where: list[int], task: str | None, names: tuple[str, ...], guess: str,
) -> Dataset:  # fmt: skip
    """Sort rows by case, and those of a case by time."""
    count = len(where)
    place: dict[str, int] = {}
    codes = np.array([place.setdefault(one, len(place)) for one in given or [""] * count])
    order = np.lexsort((np.arange(count) if times is None else times, codes))
    groups = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    stamps = None if times is None else [times[group] for group in groups]
    for stamp, group in zip(stamps or (), groups, strict=False):
        if not increasing(stamp):
            i = group[np.flatnonzero(np.diff(stamp) <= 0)[0] + 1]
            raise FileError(
                f"{located(path, where[i])}: this time occurs twice in its case; give each step once, and if there are several "
                "cases pass case= with the name of the column that identifies them."
            )
    labels = None if label is None else [[label[i] for i in group] for group in groups]
    if labels is not None and task != "per-step":
        for own, group in zip(labels, groups, strict=True):
            if len(set(own)) > 1:
                i = next(k for k, one in enumerate(own) if one != own[0])
                raise FileError(
                    f"{located(path, where[group[i]])}: the target is {shown(own[i])} here and {shown(own[0])} in another row of the "
                    'same case; a case has one target; pass task="per-step" if each step has its own.'
                )
        labels = [own[0] for own in labels]
    ids = None if given is None else tuple(place)
    return build(
        _stem(path),
        [values[group] for group in groups],
        labels,
        open=True,
        times=stamps,
        channel_names=names,
        ids=ids,
        guess=guess,
    )


def _sentence(
    header: Sequence[str], roles: dict[str, list[int]], dropped: dict[int, str], names: Sequence[str], long: bool,
    times: np.ndarray | None, cells: dict[int, list[str]], notes: Sequence[str],
) -> str:  # fmt: skip
    """Describe the roles of the columns in one sentence."""
    parts = ["Rows are steps" if long else f"Rows are cases of up to {len(names)} steps"]
    for role in NAMES:
        if roles.get(role):
            own = listed(header[i].strip() for i in roles[role])
            if role == "time" and times is not None and not is_number(cells[roles[role][0]][0]):
                form = date_order(cells[roles[role][0]])
                own += f" (dates{', ' + form if form else ''})"
            parts.append(f"{role}: {own}")
    if long:
        parts.append(f"channel{'s' if len(names) > 1 else ''}: {listed(names)}")
    if dropped:
        parts.append(
            "left out: "
            + ", ".join(f"{shown(header[i].strip())}{f' ({why})' if why else ''}" for i, why in dropped.items())
        )
    return "; ".join([*parts, *notes]) + "."
