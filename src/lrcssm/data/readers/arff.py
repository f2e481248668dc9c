"""Weka's `.arff`, in the two layouts of the UEA and UCR archives: a column for each step, or a relational attribute."""

import dataclasses
import pathlib
import re
from collections.abc import Sequence

from ...errors import FileError
from ..dataset import Dataset
from .build import build
from .source import Problem, at, lines, listed, shown
from .values import dimensions, numbers, targets

TARGETS = ("target", "label", "class", "y")
_QUOTED = r"""'([^'\\]*(?:\\.[^'\\]*)*)'|"([^"\\]*(?:\\.[^"\\]*)*)\""""
_WORD = re.compile(rf"\s*(?:{_QUOTED}|([^\s,{{}}'\"]+))")
_CELL = re.compile(rf"\s*(?:{_QUOTED}|([^,]*))\s*(,|$)")
_ESCAPE = re.compile(r"\\(.)")
_NUMERIC = ("numeric", "real", "integer")


@dataclasses.dataclass
class _Attribute:
    name: str
    kind: str
    classes: tuple[str, ...] | None = None


def read_arff(path: pathlib.Path) -> Dataset:
    """Read one file."""
    text = lines(path, comment="%")
    name, attributes, start = _header(path, text)
    with at(path, start):
        target, relational = _target(attributes)
    classes = None if target is None else attributes[target].classes
    regress = target is not None and classes is None
    series, labels = [], []
    for number in range(start, len(text)):
        line = text[number].strip()
        if not line or line.startswith("%"):
            continue
        with at(path, number + 1):
            if line.startswith("{"):
                raise Problem("it is written sparsely, in braces; write all values.")
            cells = _cells(line)
            if len(cells) != len(attributes):
                raise Problem(f"it has {len(cells)} values for {len(attributes)} attributes; it may be cut off.")
            label = "" if target is None else cells.pop(target).strip()
            if regress:
                targets([label])
            elif classes is not None and label not in classes:
                raise Problem(f"the label {shown(label)} is not one of {listed(classes)}, as the header has them.")
            one = dimensions(cells[0].split("\\n")) if relational else numbers(cells)[:, None]
            if series and one.shape[1] != series[0].shape[1]:
                raise Problem(f"it has {one.shape[1]} dimensions and the first case has {series[0].shape[1]}.")
        series.append(one)
        labels.append(label)
    return build(name, series, None if target is None else targets(labels) if regress else labels, classes)


def _header(path: pathlib.Path, text: Sequence[str]) -> tuple[str, list[_Attribute], int]:
    name, attributes, inside = path.name.split(".")[0], [], None
    for number, line in enumerate(text, 1):
        line = line.strip()
        if not line or line.startswith("%"):
            continue
        with at(path, number):
            tag, _, rest = line.replace("\t", " ").partition(" ")
            match tag.lower():
                case "@relation":
                    name = _first(rest)[0] or name
                case "@attribute":
                    found = _attribute(rest)
                    if inside is None:
                        attributes.append(found)
                        inside = found if found.kind == "relational" else None
                    elif found.kind not in _NUMERIC:
                        raise Problem(f"the attribute {shown(found.name)} of a series is not numeric; all need to be.")
                case "@end":
                    inside = None
                case "@data":
                    if inside is not None:
                        raise Problem(f"@data comes before the @end of {shown(inside.name)}.")
                    return name, attributes, number
                case _:
                    raise Problem(f"{shown(line)} is not a line of a header; expected @attribute, @end or @data.")
    raise FileError(
        f"{path}, line {len(text)}: there is no @data before the file's end, so it is cut off or not .arff."
    )


def _attribute(text: str) -> _Attribute:
    name, rest = _first(text)
    rest = rest.strip()
    if rest.startswith("{"):
        classes = _nominal(rest)
        if len(set(classes)) < len(classes):
            raise Problem(f"the attribute {shown(name)} lists a value twice; list each once.")
        return _Attribute(name, "nominal", classes)
    kind = rest.split(None, 1)[0].lower() if rest else ""
    if kind not in (*_NUMERIC, "relational"):
        raise Problem(
            f"the attribute {shown(name)} has the type {shown(rest)}; expected numeric, relational or a list in braces."
        )
    return _Attribute(name, kind)


def _first(text: str) -> tuple[str, str]:
    """Separate the first word of a text, which may be in quotes, from the rest."""
    found = _WORD.match(text)
    if not found:
        raise Problem(f"{shown(text)} does not begin with a name; close its quotes.")
    return _plain(found), text[found.end() :]


def _plain(found: re.Match[str]) -> str:
    single, double, bare = found[1], found[2], found[3]
    return bare.strip() if bare is not None else _ESCAPE.sub(r"\1", single if single is not None else double)


def _nominal(text: str) -> tuple[str, ...]:
    inner = text[1:].rstrip()
    if not inner.endswith("}"):
        raise Problem("a list of classes is not closed by a brace.")
    cells = [cell.strip() for cell in _cells(inner[:-1])]
    if not all(cells):
        raise Problem("a list of classes has an empty name.")
    return tuple(cells)


def _cells(line: str) -> list[str]:
    """Split a line at its commas, except those in quotes."""
    if "'" not in line and '"' not in line:
        return line.split(",")
    cells, place = [], 0
    while True:
        found = _CELL.match(line, place)
        if not found or (found[3] is not None and found[3].startswith(("'", '"'))):
            raise Problem(f"quotes around {shown(line[place : place + 60].strip())} are not closed; it may be cut off.")
        # Line ends within a series are written as \n, which the series' reader has to see.
        series = found[3] is None and "\\n" in found[0]
        cells.append((found[1] if found[1] is not None else found[2]) if series else _plain(found))
        if not found[4]:
            return cells
        place = found.end()


def _target(attributes: Sequence[_Attribute]) -> tuple[int | None, bool]:
    """Find the attribute that is the target; the second value is true if the series is one relational attribute."""
    kinds = [one.kind for one in attributes]
    relational = kinds.count("relational")
    nominal = [i for i, kind in enumerate(kinds) if kind == "nominal"]
    if relational > 1 or len(nominal) > 1 or (relational and len(kinds) > 2):
        raise Problem(
            "the header has several attributes that could be the series or its target; expected numeric ones or a single "
            "relational one, and at most one target."
        )
    if relational:
        others = [i for i, kind in enumerate(kinds) if kind != "relational"]
        return (others[0] if others else None), True
    target = nominal[0] if nominal else None
    if target is None and len(attributes) > 1 and attributes[-1].name.lower() in TARGETS:
        target = len(attributes) - 1
    if len(attributes) - (target is not None) < 1:
        raise Problem(
            "the header has no attribute that holds the values of a series; expected numeric or relational ones."
        )
    return target, False
