"""Errors for mistakes that a user can mend. The command line prints their sentence; all others keep their traceback."""

import unicodedata

# Marks that change the direction of the text after them.
_DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


class LrcssmError(Exception):
    """Base of every error that `lrcssm` raises for a user's mistake; its text is one sentence with a remedy.

    Each such error is also one of Python's own kind, so `except ValueError` works as well.

    ```python
    import lrcssm

    print(issubclass(lrcssm.FileError, lrcssm.LrcssmError), issubclass(lrcssm.FileError, ValueError))  # True True
    ```
    """

    def __str__(self) -> str:
        # Sentences quote names and cells of files, which must not control a terminal.
        return printable(" ".join(map(str, self.args)))


class InvalidValue(LrcssmError, ValueError):
    """An argument of the right type with a value that cannot be used."""


class InvalidType(LrcssmError, TypeError):
    """An argument of the wrong type."""


class MissingFile(LrcssmError, FileNotFoundError):
    """A file or folder that does not exist."""


class WriteError(LrcssmError, OSError):
    """A file that could not be written, e.g. because the disk is full; its text names the file."""


class MissingExtra(LrcssmError, ImportError):
    """An optional dependency that is not installed."""


class TrainingError(LrcssmError, FloatingPointError):
    """Training that produced states or losses that are not numbers."""


class TrainingWarning(UserWarning):
    """Training that ended with a model that is no better than a constant prediction."""


class PredictionError(LrcssmError, FloatingPointError):
    """Outputs that are not finite."""


class FileError(LrcssmError, ValueError):
    """A file that is damaged, or that is not what it should be; its text names the file."""


def printable(text: str) -> str:
    """Escape characters that control a terminal or turn text around, as in `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(
        one.encode("unicode_escape").decode() if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") or one in _DIRECTIONS
        else one for one in text
    )  # fmt: skip
