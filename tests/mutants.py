"""Mutated documents, each with one defect, to test the readers of files."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

HOSTILE = (
    None, True, False, 0, -1, 1.5, 10**400, 1e308, "", "x", "\x00", "../../x", "\x1b[31m", "none", [], {}, [[]], [1, "a"],
    {"a": {"b": 1}}, ["x"] * 3,
)  # fmt: skip
"""Values in the place of others."""


def mutants(document: Any, count: int, seed: int = 0) -> Iterator[Any]:
    """Copies of a JSON document in which one value was replaced, removed, renamed or moved."""
    rng = random.Random(seed)
    places = list(_places(document))
    for i in range(count):
        if i == 0:
            yield rng.choice(HOSTILE)
            continue
        made = copy.deepcopy(document)
        *before, last = rng.choice(places)
        parent = made
        for name in before:
            parent = parent[name]
        match rng.randrange(4):
            case 0 | 1:
                parent[last] = rng.choice(HOSTILE)
            case 2:
                del parent[last]
            case 3 if isinstance(parent, dict):
                parent[f"{last}2"] = parent.pop(last)
            case _:
                parent[last] = [parent[last]]
        yield made


def text_mutants(text: str, count: int, seed: int = 0) -> Iterator[bytes]:
    """Copies of a text that are cut off, or have bytes changed."""
    rng = random.Random(seed)
    for i in range(count):
        data = bytearray(text.encode())
        match i % 3:
            case 0:
                data = data[: rng.randrange(len(data))]
            case 1:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 2:
                at = rng.randrange(len(data))
                data[at : at + 8] = rng.randbytes(8)
        yield bytes(data)


def as_json(document: Any) -> str:
    return json.dumps(document)


def _places(document: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for name, value in inner:
        yield (*before, name)
        yield from _places(value, (*before, name))
