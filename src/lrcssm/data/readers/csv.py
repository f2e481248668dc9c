"""`.csv`, long (a row for each step) or wide (a row for each case)."""

import csv
import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...files import FileError
from .raw import Raw
from .source import NoTargetColumn, Problem, at, lines, listed, shown
from .values import DECIMAL_COMMA, increasing, is_number, moments, numbers

ROLES = {
    "case": ("case", "id", "series", "sample", "case_id"),
    "time": ("time", "t", "timestamp", "step"),
    "target": ("target", "label", "class", "y"),
}
NONE = "none"
"""Instead of a target's name: there is none."""
_AMBIGUOUS = "y"  # a target, or the channel after x
_ONE_CASE = ROLES | {"target": tuple(name for name in ROLES["target"] if name != _AMBIGUOUS)}
_AT_ONCE = 4096


@dataclasses.dataclass
class _Table:
    """Rows under a header: text of the columns that have a role, numbers of all others."""

    roles: dict[str, int]
    names: tuple[str, ...]
    values: np.ndarray
    special: dict[str, list[str]]
    lines: list[int]
    about: str = ""


def read_csv(path: pathlib.Path, target: str | None = None) -> Raw:
    """Reads a file of many cases; `target` is the name of the column with their targets, `NONE` if there is none, and found
    out if not given."""
    known = ROLES if target is None else _chosen(target)
    rows = _rows(path)
    number, first = next(rows)
    if len(first) < 2:
        raise FileError(
            f"{path}, line {number}: there is only one column; expected one row for each case with its values, or columns "
            f"for the case, the time and the channels ({_looked_for()})."
        )
    with at(path, number):
        header = _is_header(first, known)
    if target is not None and _plain(target) not in (NONE, *map(_plain, first if header else ())):
        there = f"there are {listed(cell.strip() for cell in first)}" if header else "it has no header"
        raise NoTargetColumn(
            f"{path}, line {number}: no column is called {shown(target)}, which was named as the target; {there}."
        )
    if not header:
        return _bare(path, number, first, rows)
    with at(path, number):
        roles = _roles(first, known)
    unsure = target is None and "target" in roles and _plain(first[roles["target"]]) == _AMBIGUOUS
    table = _table(path, number, first, rows, roles, blank="target" if unsure else None)
    cases = table.special.get("case")
    long = "time" in roles or (cases is not None and len(set(cases)) < len(table.lines))
    if unsure:
        table = _settled(path, table, first[roles["target"]].strip(), long)
    special = table.special
    name = path.name.split(".")[0]
    if long:
        return _long(path, table, name)
    if target is None and "target" in roles and _AMBIGUOUS in map(_plain, table.names):
        both = [cell.strip() for cell in first if _plain(cell) in ROLES["target"]]
        raise FileError(f"{path}, line {number}: {_several('target', both)}")
    if not table.roles and not _counted(table.names):
        raise FileError(
            f"{path}, line {number}: {listed(table.names)} could be steps of cases or channels of one series; name the columns "
            f"t0, t1, t2 for steps, or give those that tell cases and times apart their names ({_looked_for()})."
        )
    ids = tuple(special["case"]) if "case" in special else None
    return Raw(name, list(table.values[:, :, None]), special.get("target"), guess=True, ids=ids)


def read_one_csv(path: pathlib.Path) -> Raw:
    """Reads a file of one case: rows are steps and columns are channels, with a time column or not."""
    rows = _rows(path)
    number, first = next(rows)
    names = None
    if all(map(is_number, first)):
        table = _table(path, number, [str(i) for i in range(len(first))], _chain(number, first, rows), {})
    else:
        with at(path, number):
            roles = _roles(first, _ONE_CASE)
        table = _table(path, number, first, rows, roles)
        names = table.names
        for role in ("case", "target"):
            if role in table.roles:
                raise FileError(
                    f"{path}, line {number}: there is a column {shown(first[table.roles[role]])}, but a file among others "
                    "in a folder is a single case, of the class its folder names if that is one; leave that column out."
                )
    raw = _long(path, table, path.name.split(".")[0])
    return dataclasses.replace(raw, labels=None, channel_names=names)


def _rows(path: pathlib.Path) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, each with its line; never none."""
    text = lines(path)
    start = next(line for line in text if line.strip())
    delimiter = _delimiter(start)
    reader = csv.reader((line + "\n" for line in text), delimiter=delimiter, strict=True, skipinitialspace=True)
    found = False
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                found = True
                # Targets with decimal commas would be taken for names of classes, so all cells are looked at.
                comma = delimiter != "," and next(
                    (cell for cell in row if "," in cell and DECIMAL_COMMA.fullmatch(cell)), None
                )
                if comma:
                    raise FileError(
                        f"{path}, line {reader.line_num}: {shown(comma.strip())} has a decimal comma; write numbers with "
                        "a decimal point."
                    )
                yield reader.line_num, row
    except csv.Error as error:
        raise FileError(
            f"{path}, line {reader.line_num}: its quotes or columns cannot be told apart ({error})."
        ) from None
    if not found:
        raise FileError(f"{path} is empty: all its cells are.")


def _delimiter(line: str) -> str:
    """The first of three that a line has; but commas within numbers, as in 1,5;2,0, separate nothing."""
    for mark in (";", "\t"):
        cells = line.split(mark)
        if len(cells) > 1 and all("," not in cell or DECIMAL_COMMA.fullmatch(cell.strip(' "')) for cell in cells):
            return mark
    return ","


def _chain(number, first, rows):
    yield number, first
    yield from rows


def _is_header(row: Sequence[str], known: Mapping[str, Sequence[str]]) -> bool:
    """Words only; or with a known word beside counted columns, as 0, 1, 2, label."""
    numeric = [is_number(cell) for cell in row]
    words = [i for i, number in enumerate(numeric) if not number]
    if len(words) == len(row):
        return True
    if not words and len(row) > 2 and [cell.strip() for cell in row] == [str(i) for i in range(len(row))]:
        raise Problem(
            "0, 1, 2 and so on could be a header or a case; leave the header out or name its columns t0, t1, t2, or write a "
            "case as 0.0."
        )
    special = {name for names in known.values() for name in names}
    counted = [cell.strip() for cell, number in zip(row, numeric, strict=True) if number]
    if counted in ([str(i + start) for i in range(len(counted))] for start in (0, 1)) and any(
        _plain(row[i]) in special for i in words
    ):
        return True
    if len(words) > 1 or (words and words[0] not in (0, len(row) - 1)):
        raise Problem(
            f"it is neither a header nor numbers with one target at an end ({listed(row[i] for i in words)} are no "
            f"numbers); name the columns in a header ({_looked_for()})."
        )
    return False


def _counted(names: Sequence[str]) -> bool:
    """Whether names are numbered one after the other, as steps are."""
    found = [re.search(r"\d{1,9}$", name, re.ASCII) for name in names]
    places = [int(one[0]) for one in found if one]
    return len(places) == len(names) and places == list(range(places[0], places[0] + len(places)))


def _looked_for() -> str:
    return "; ".join(f"{role}: {', '.join(names)}" for role, names in ROLES.items())


def _bare(path: pathlib.Path, number: int, first: list[str], rows: Iterator[tuple[int, list[str]]]) -> Raw:
    """Wide, without a header: the target is the column at an end that is not a number, if there is one."""
    place = next((i for i in (0, -1) if not is_number(first[i])), None)
    series, labels = [], []
    for line, row in _chain(number, first, rows):
        with at(path, line):
            if len(row) < 2:
                raise Problem("it has only one cell; expected a case with its values.")
            if place is not None:
                labels.append(row.pop(place).strip())
                if not labels[-1]:
                    raise Problem("its target is missing; leave such cases out.")
            series.append(numbers(row, blank=True)[:, None])
    return Raw(path.name.split(".")[0], series, None if place is None else labels, guess=place is not None)


def _table(path, number, header, rows, roles: dict[str, int], blank: str | None = None) -> _Table:
    """All rows; cells of the role `blank` may be empty."""
    plain = [i for i in range(len(header)) if i not in roles.values()]
    if not plain:
        raise FileError(f"{path}, line {number}: no column is left for values; expected more than {listed(header)}.")
    parts, special, where = [], {role: [] for role in roles}, []
    waiting: list[list[str]] = []

    def convert():
        cells = [row[i] for row in waiting for i in plain]
        try:
            parts.append(numbers(cells, blank=True).reshape(-1, len(plain)))
        except Problem as problem:
            row, column = divmod(problem.where, len(plain))
            raise FileError(
                f"{path}, line {where[len(where) - len(waiting) + row]}: in column {shown(header[plain[column]])} "
                f"{str(problem)[:-1]}, and name a column that holds no values as what it is ({_looked_for()})."
            ) from None
        waiting.clear()

    for line, row in rows:
        if len(row) != len(header):
            raise FileError(
                f"{path}, line {line}: it has {len(row)} cells where the first row has {len(header)}; leave cells empty "
                "where values are missing."
            )
        for role, i in roles.items():
            cell = row[i].strip()
            if not cell and role != blank:
                raise _missing(path, line, role)
            special[role].append(cell)
        where.append(line)
        waiting.append(row)
        if len(waiting) >= _AT_ONCE:
            convert()
    convert()
    if not where:
        raise FileError(f"{path} holds a header and no rows; there must be at least one case.")
    return _Table(roles, tuple(header[i].strip() for i in plain), np.concatenate(parts), special, where)


def _plain(name: str) -> str:
    return name.strip().casefold()


def _chosen(target: str) -> dict[str, tuple[str, ...]]:
    """`ROLES` with one name for the target, which then has no other role."""
    name = _plain(target)
    return {role: tuple(one for one in names if one != name) for role, names in ROLES.items()} | {"target": (name,)}


def _roles(header: Sequence[str], known: Mapping[str, Sequence[str]]) -> dict[str, int]:
    names, roles = list(map(_plain, header)), {}
    for role, own in known.items():
        found = [i for i, name in enumerate(names) if name in own]
        if role == "target":
            found = [i for i in found if names[i] != _AMBIGUOUS] or found
        if len(found) > 1:
            raise Problem(_several(role, [header[i].strip() for i in found]))
        if found:
            roles[role] = found[0]
    return roles


def _several(role: str, names: Sequence[str]) -> str:
    choose = ", or choose it with --target" if role == "target" and len(set(map(_plain, names))) > 1 else ""
    return f"{listed(names)} could all be the {role}; rename all but one{choose}."


def _missing(path: pathlib.Path, line: int, role: str) -> FileError:
    return FileError(f"{path}, line {line}: its {role} is missing; give one in every row.")


def _settled(path: pathlib.Path, table: _Table, name: str, long: bool) -> _Table:
    """Whether a column y, which has this name, is the target or, if its numbers change within a case, a channel."""
    cells = table.special["target"]
    if long and all(map(is_number, cells)) and _changes(cells, table.special.get("case", [""] * len(cells))):
        try:
            values = numbers(cells, blank=True)
        except Problem as problem:
            raise FileError(f"{path}, line {table.lines[problem.where]}: {problem}") from None
        place = table.roles["target"]
        place -= sum(other < place for other in table.roles.values())
        return _Table(
            {role: i for role, i in table.roles.items() if role != "target"},
            (*table.names[:place], name, *table.names[place:]),
            np.insert(table.values, place, values, axis=1),
            {role: found for role, found in table.special.items() if role != "target"},
            table.lines,
            f"Its column {name} changes within cases, so it is a channel and not the target.",
        )
    if "" in cells:
        raise _missing(path, table.lines[cells.index("")], "target")
    return table


def _changes(cells: Sequence[str], cases: Sequence[str]) -> bool:
    """Whether numbers, as far as they are not missing, differ within a case."""
    first: dict[str, float] = {}
    for cell, case in zip(cells, cases, strict=True):
        try:
            value = float(cell)
        except ValueError:
            continue
        if not np.isnan(value) and first.setdefault(case, value) != value:
            return True
    return False


def _long(path: pathlib.Path, table: _Table, name: str) -> Raw:
    """Rows by case, and those of a case by time."""
    count = len(table.lines)
    place: dict[str, int] = {}
    codes = np.array([place.setdefault(one, len(place)) for one in table.special.get("case", [""] * count)])
    times = None
    if "time" in table.special:
        try:
            times = moments(table.special["time"])
        except Problem as problem:
            raise FileError(f"{path}, line {table.lines[problem.where]}: {problem}") from None
    order = np.lexsort((np.arange(count) if times is None else times, codes))
    groups = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    labels = None
    if "target" in table.special:
        given = table.special["target"]
        labels = [given[group[0]] for group in groups]
        for label, group in zip(labels, groups, strict=True):
            for i in group:
                if given[i] != label:
                    raise FileError(
                        f"{path}, line {table.lines[i]}: the target is {shown(given[i])} here and {shown(label)} in "
                        "another row of the same case; a case has one target."
                    )
    stamps = None
    if times is not None:
        stamps = [times[group] for group in groups]
        for stamp, group in zip(stamps, groups, strict=True):
            if not increasing(stamp):
                i = group[np.flatnonzero(np.diff(stamp) <= 0)[0] + 1]
                raise FileError(
                    f"{path}, line {table.lines[i]}: this time occurs twice in its case; give each step once, and name "
                    f"the case in a column if there are several ({', '.join(ROLES['case'])})."
                )
    series = [table.values[group] for group in groups]
    ids = tuple(place) if "case" in table.special else None
    return Raw(
        name,
        series,
        labels,
        guess=labels is not None,
        times=stamps,
        channel_names=table.names,
        ids=ids,
        about=table.about,
    )
