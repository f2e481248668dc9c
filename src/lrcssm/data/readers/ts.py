"""The `.ts` format of the UEA and UCR archives, as sktime and aeon write it (Bagnall et al., 2018)."""

import dataclasses
import pathlib
import re
from collections.abc import Sequence

import numpy as np

from ...errors import FileError
from ..dataset import Dataset
from .build import build
from .source import Problem, at, limit, lines, listed, shown
from .values import dimensions, increasing, moments, numbers, targets

_COMMENT = ("#", "%")
_WORD = re.compile(r"""'([^']*)'|"([^"]*)"|(\S+)""")
# A colon in a date never follows a bracket: only this one can end a dimension that has times.
_END_OF_DIMENSION = re.compile(r"(?<=\))\s*:")
_BETWEEN_PAIRS = re.compile(r"\)\s*,\s*\(")


@dataclasses.dataclass
class _Header:
    name: str
    stamped: bool = False
    dimensions: int | None = None
    equal: bool = False
    target: str | None = None
    classes: tuple[str, ...] | None = None


def read_ts(path: pathlib.Path) -> Dataset:
    """Read one file; the declared numbers of series and steps are only compared with the data."""
    text = lines(path, comment=_COMMENT)
    header, start = _header(path, text)
    most = limit(path)
    series, labels, times = [], [], []
    for number in range(start, len(text)):
        line = text[number].strip()
        if not line or line.startswith(_COMMENT):
            continue
        with at(path, number + 1):
            body, label = _label(line, header)
            stamped = header.stamped or body.startswith("(")
            one, stamp = _stamped(body, most) if stamped else (dimensions(body.split(":")), None)
            _check(one, header, series)
            if series and (stamp is None) != (not times):
                raise Problem("some cases have times and some have none; give them for all.")
            if header.target == "numbers":
                targets([label])
        series.append(one)
        labels.append(label)
        if stamp is not None:
            times.append(stamp)
    return build(
        header.name,
        series,
        None if header.target is None else targets(labels) if header.target == "numbers" else labels,
        header.classes,
        times=times or None,
    )


def _header(path: pathlib.Path, text: Sequence[str]) -> tuple[_Header, int]:
    header = _Header(path.name.split(".")[0])
    for number, line in enumerate(text, 1):
        line = line.strip()
        if not line or line.startswith(_COMMENT):
            continue
        with at(path, number):
            if not line.startswith("@"):
                raise Problem(f"{shown(line)} comes before @data; a header's lines begin with @ or #.")
            tag, rest = (*line.split(None, 1), "")[:2]
            if tag.lower() == "@data":
                return header, number
            _understand(header, tag.lower(), rest.strip())
    raise FileError(f"{path}, line {len(text)}: there is no @data before the file's end, so it is cut off or not .ts.")


def _understand(header: _Header, tag: str, rest: str) -> None:
    """Read one line of a header; `@missing` and `@seriesLength` are redundant."""
    match tag:
        case "@problemname":
            header.name = rest or header.name
        case "@timestamps":
            header.stamped = _truth(tag, rest)
        case "@univariate":
            header.dimensions = 1 if _truth(tag, rest) else header.dimensions
        case "@dimension" | "@dimensions":
            if not (rest.isascii() and rest.isdigit() and 0 < len(rest) < 19):
                raise Problem(f"{tag} is {shown(rest)}; expected a whole number.")
            header.dimensions = int(rest)
        case "@equallength":
            header.equal = _truth(tag, rest)
        case "@classlabel" | "@targetlabel":
            words = [a or b or c for a, b, c in _WORD.findall(rest)]
            if not words or not _truth(tag, words[0]):
                return
            if header.target is not None:
                raise Problem(f"{tag} comes after another line that declares the target; leave one of them out.")
            header.target = "classes" if tag == "@classlabel" else "numbers"
            if tag == "@classlabel" and words[1:]:
                if len(set(words[1:])) < len(words[1:]):
                    raise Problem("@classLabel lists a class twice; put labels with spaces in quotes.")
                header.classes = tuple(words[1:])


def _truth(tag: str, word: str) -> bool:
    if word.lower() not in ("true", "false"):
        raise Problem(f"{tag} is followed by {shown(word)}; expected true or false.")
    return word.lower() == "true"


def _label(line: str, header: _Header) -> tuple[str, str]:
    """Separate a line from its target."""
    if header.target is None:
        return line, ""
    body, found, label = line.rpartition(":")
    if line[-1] in "\"'":
        start = line.rfind(line[-1], 0, -1)
        quoted = line[:start].rstrip() if start > 0 else ""
        if quoted.endswith(":"):
            body, label = quoted[:-1], line[start:]
    if not found:
        raise Problem(
            "there is no target after a colon at its end, although the header promises one; it may be cut off."
        )
    label = label.strip()
    if header.target == "classes" and label not in (header.classes or ()):
        if len(label) > 1 and label[0] == label[-1] and label[0] in "\"'":
            label = label[1:-1]
        if header.classes is not None and label not in header.classes:
            raise Problem(f"the label {shown(label)} is not one of {listed(header.classes)}, as @classLabel has them.")
        if not label or label == "?":
            raise Problem("its label is missing; leave such cases out.")
    return body.rstrip(), label


def _stamped(body: str, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Read dimensions of pairs (time, value); if their times differ, each gets the union of all times, with NaN where it has no value."""
    stamps, values = [], []
    for i, part in enumerate(_END_OF_DIMENSION.split(body)):
        part = part.strip()
        if len(part) < 2 or part[0] != "(" or part[-1] != ")":
            raise Problem(f"dimension {i} is {shown(part)}; expected pairs of a time and a value, (0,1.5),(1,1.7).")
        pairs = [pair.rpartition(",") for pair in _BETWEEN_PAIRS.split(part[1:-1])]
        stamp = moments([time for time, _, _ in pairs])
        if not increasing(stamp):
            raise Problem(f"the times of dimension {i} do not increase; sort its pairs by time.")
        stamps.append(stamp)
        values.append(numbers([value for _, _, value in pairs]))
    if all(np.array_equal(stamp, stamps[0]) for stamp in stamps):
        return np.stack(values, 1), stamps[0]
    together = np.unique(np.concatenate(stamps))
    if 4 * len(together) * len(stamps) > most:
        raise Problem("its dimensions have too many different times; bring them to the same ones.")
    one = np.full((len(together), len(stamps)), np.nan, np.float32)
    for i, (stamp, value) in enumerate(zip(stamps, values, strict=True)):
        one[np.searchsorted(together, stamp), i] = value
    return one, together


def _check(one: np.ndarray, header: _Header, before: Sequence[np.ndarray]) -> None:
    expected = header.dimensions or (before[0].shape[1] if before else one.shape[1])
    if one.shape[1] != expected:
        hint = "" if header.target else "; if the last one is the target, the header needs @classLabel or @targetLabel"
        raise Problem(f"it has {one.shape[1]} dimensions where {expected} were expected{hint}.")
    if header.equal and before and len(one) != len(before[0]):
        raise Problem(f"it has {len(one)} steps and the first case has {len(before[0])}, but @equalLength is true.")
