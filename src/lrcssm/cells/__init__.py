"""The recurrences, one file for each family."""

from .base import Cell as Cell
from .lrc import LRC as LRC

ALL: dict[str, type[Cell]] = {"LRC": LRC}
"""Every cell by its name; the tests run over it."""
