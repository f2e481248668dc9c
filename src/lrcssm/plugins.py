"""Extensions found through entry points, so that the library never imports its extensions.

Groups: `lrcssm.commands` (command line), `lrcssm.presets` and `lrcssm.splits` (of `lrcssm train`), and
`lrcssm.readers` (folders of a data set with a layout of its own).
"""

import functools
import importlib.metadata
from typing import Any


@functools.cache
def find(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Entry points of a group by name, not loaded."""
    return {entry.name: entry for entry in importlib.metadata.entry_points(group=f"lrcssm.{group}")}


def load(group: str, name: str) -> Any | None:
    """Load the extension of a name; `None` if none is installed."""
    entry = find(group).get(name)
    return None if entry is None else entry.load()
