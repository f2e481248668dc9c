"""Errors for mistakes that a user can mend. The command line prints their sentence; all others keep their traceback."""


class LrcssmError(Exception):
    """Base of every error that `lrcssm` raises for a user's mistake; its text is one sentence with a remedy.

    Each such error is also one of Python's own kind, so `except ValueError` works as well.

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
    """A file that could not be written, e.g. because the disk is full; its text names the file."""

    def __str__(self) -> str:
        return " ".join(map(str, self.args))


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
