"""Errors that users can fix. The command line prints their message; all other errors keep their traceback."""

import unicodedata

# Marks that change the direction of the text after them.
_DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


class LrcssmError(Exception):
    """Base class of all errors that `lrcssm` raises for invalid input; the message states the remedy.

    Each is also a built-in exception, so `except ValueError` works as well.

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
    """A file that could not be written, e.g. because the disk is full; the message names the file."""


class MissingExtra(LrcssmError, ImportError):
    """An optional dependency that is not installed."""


class TrainingError(LrcssmError, FloatingPointError):
    """Training that produced non-finite states or losses."""


class TrainingWarning(UserWarning):
    """Warning that a trained model is no better than a constant prediction."""


class PredictionError(LrcssmError, FloatingPointError):
    """Outputs that are not finite."""


class FileError(LrcssmError, ValueError):
    """A file that is damaged or of the wrong kind; the message names the file."""


def printable(text: str) -> str:
    """Escape control characters and changes of text direction, as in `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(
        one.encode("unicode_escape").decode() if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") or one in _DIRECTIONS
        else one for one in text
    )  # fmt: skip
