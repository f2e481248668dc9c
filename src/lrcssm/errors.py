"""Errors that users can fix. The command line prints their message; all other errors keep their traceback."""


class LrcssmError(Exception):
    """Base class of all errors that `lrcssm` raises for invalid input; the message states the remedy.

    Each is also a built-in exception, so `except ValueError` works as well.

    ```python
    import lrcssm

    print(issubclass(lrcssm.FileError, lrcssm.LrcssmError), issubclass(lrcssm.FileError, ValueError))  # True True
    ```
    """


class InvalidValue(LrcssmError, ValueError):
    """An argument of the right type with a value that cannot be used."""


class InvalidType(LrcssmError, TypeError):
    """An argument of the wrong type."""


class MissingFile(LrcssmError, FileNotFoundError):
    """A file or folder that does not exist."""

    def __str__(self) -> str:
        return " ".join(map(str, self.args))


class WriteError(LrcssmError, OSError):
    """A file that could not be written, e.g. because the disk is full; the message names the file."""

    def __str__(self) -> str:
        return " ".join(map(str, self.args))


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
