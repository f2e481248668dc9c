"""`lrcssm data list`, `show` and `fetch`."""

import dataclasses
import io
import sys
from typing import Annotated

from ..errors import InvalidValue
from .options import ColumnOptions
from .parser import Arg


@dataclasses.dataclass(frozen=True)
class ListData:
    """List the data sets that have a name: built in, synthetic, in the data directory, and in the archive."""

    all: bool = False
    """Also list the univariate and regression problems of the archive, whose sizes are unknown."""
    data_dir: Annotated[str | None, Arg("PATH")] = None
    """The data directory; $LRCSSM_DATA if not given, or a directory in your cache."""
    json: bool = False
    """Print JSON with all details."""

    def run(self) -> None:
        """Print a table, or JSON."""
        from ..report.dataset import list_entries

        _print_what_can_be_printed()
        list_entries(self.data_dir, self.all, self.json)


@dataclasses.dataclass(frozen=True)
class ShowData:
    """Describe a data set: sizes, classes, missing values, duplicates, and a sketch of its series."""

    source: Annotated[str, Arg("SOURCE", positional=True)]
    """A name of lrcssm data list, one with a length such as adding:4000, or the path of a file or folder."""
    data_dir: Annotated[str | None, Arg("PATH")] = None
    """The data directory; $LRCSSM_DATA if not given, or a directory in your cache."""
    columns: ColumnOptions = ColumnOptions()
    picture: Annotated[str | None, Arg("FILE")] = None
    """Also draw some series of each class into this file: .png, .svg or .pdf."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Print the facts and a sketch, or JSON."""
        from ..report.dataset import show

        _print_what_can_be_printed()
        show(self.source, self.data_dir, self.picture, self.json, **self.columns.as_arguments())


@dataclasses.dataclass(frozen=True)
class FetchData:
    """Download data sets of the UEA, UCR and Monash archives into the data directory, unless they exist."""

    names: Annotated[tuple[str, ...], Arg("NAME", positional=True)]
    """Names of data sets; lrcssm data list --all shows them."""
    data_dir: Annotated[str | None, Arg("PATH")] = None
    """The data directory; $LRCSSM_DATA if not given, or a directory in your cache."""
    url: Annotated[str | None, Arg("ADDRESS")] = None
    """Address to download from: of a folder, of one zip file, or with {name} as a placeholder."""
    sha256: Annotated[str | None, Arg("DIGITS")] = None
    """Required checksum of the zip file. The default is the checksum of the first download, if there was one."""
    force: bool = False
    """Download again even if the data set exists."""
    timeout: float = 30.0
    """Seconds without a response after which a connection is closed."""
    retries: int = 4
    """Number of retries in a row."""

    def __post_init__(self):
        if not self.names:
            raise InvalidValue("fetch got no name; give at least one, e.g. Heartbeat.")
        one_file = self.url is not None and self.url.endswith(".zip") and "{name}" not in self.url
        if len(self.names) > 1 and (self.sha256 is not None or one_file):
            option = "--sha256" if self.sha256 is not None else "--url"
            raise InvalidValue(
                f"{option} applies to one file, but there are {len(self.names)} names; give one of them."
            )
        if not 0 < self.timeout < 1e6:
            raise InvalidValue(f"--timeout got {self.timeout:g}; give a number of seconds above 0.")
        if self.retries < 0:
            raise InvalidValue(f"--retries got {self.retries}; give 0 or more.")

    def run(self) -> None:
        """Download with a progress bar, and print the folder of each data set."""
        from ..data.archive import MIRROR, fetch

        _print_what_can_be_printed()
        for name in self.names:
            with _bar(name) as tell:
                try:
                    folder = fetch(
                        name,
                        directory=self.data_dir,
                        url=self.url or MIRROR,
                        demanded=self.sha256,
                        force=self.force,
                        timeout=self.timeout,
                        retries=self.retries,
                        progress=tell,
                    )
                except KeyboardInterrupt:
                    print(f"The downloaded part of {name} is kept; run the same command to resume.", file=sys.stderr)
                    raise
            print(f"{folder.name} is in {folder}")


def _print_what_can_be_printed() -> None:
    """Replace characters that the terminal cannot encode by question marks."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _bar(name: str):
    """Context manager that yields a progress callback, shown on standard error if that is a terminal."""
    import contextlib

    from rich import progress
    from rich.console import Console

    @contextlib.contextmanager
    def shown():
        console = Console(stderr=True)
        columns = (
            progress.TextColumn(name, markup=False), progress.BarColumn(), progress.DownloadColumn(),
            progress.TransferSpeedColumn(), progress.TimeRemainingColumn(),
        )  # fmt: skip
        with progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task(name, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    return shown()
