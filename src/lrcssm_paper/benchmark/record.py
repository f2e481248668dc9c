"""Records of benchmarks: measurement with readable errors, and output of the results."""

import contextlib
import dataclasses
import logging
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

from lrcssm.errors import InvalidValue
from lrcssm.machine import check_destination, write_record
from lrcssm.memory import keep_memory


def run_benchmark(options: Any, module: Any) -> None:
    """Run a benchmark.

    **Arguments:**

    - `options`: a `Benchmark`.
    - `module`: with `measure(options)`, which gives a record for JSON, `show(record)`, and `draw(record)` for a picture.
    """
    picture = getattr(options, "picture", None)
    for path in (options.json, picture):
        check_destination(path)
    if options.keeps_memory:
        keep_memory()
    record = module.measure(options)
    if options.json != "-":
        module.show(record)
    if picture is not None:
        module.draw(record).savefig(picture, dpi=150)
    if options.json is not None:
        write_record(options.json, record)


def make_record(name: str, options: Any, environment: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A record for JSON: `command`, `environment`, `options` and `rows`.

    **Arguments:**

    - `name`: of the benchmark.
    - `options`, `environment`, `rows`: of the measurement.
    """
    given = {key: value for key, value in dataclasses.asdict(options).items() if key not in ("json", "picture")}
    return {"command": command_line(name, options), "environment": environment, "options": given, "rows": rows}


def command_line(name: str, options: Any) -> str:
    """The command that measures the same again, with every option but its outputs."""
    words = ["lrcssm", "benchmark", name]
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name in ("json", "picture", "folder", "results") or value in (None, False, ()):
            continue
        values = () if value is True else value if isinstance(value, tuple) else (value,)
        words += [f"--{field.name.replace('_', '-')}", *map(str, values)]
    return shlex.join(words)


@contextlib.contextmanager
def measuring(sizes: str) -> Iterator[Callable[[str], None]]:
    """Context of a measurement: yields a progress function, and converts failures to messages.

    **Arguments:**

    - `sizes`: the options to make smaller if the arrays do not fit.
    """
    # A solver that fails says so in its row; jax would log the traceback of the callback that raised it.
    logging.disable(logging.ERROR)
    try:
        with progress() as say:
            yield say
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise MemoryError(f"the arrays do not fit; give smaller {sizes}") from error
    finally:
        logging.disable(logging.NOTSET)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that replaces the last line on standard error, if that is a terminal."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    # No refreshing thread: it would wake up during a measurement.
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda text: live.update(Text(text, style="dim", no_wrap=True, overflow="ellipsis"), refresh=True)


def chosen(asked: tuple[str, ...], known: Mapping[str, Any], option: str, always: str | None = None) -> list[str]:
    """Select names in the order of `known`; unknown ones raise `InvalidValue`.

    **Arguments:**

    - `asked`: names, or all.
    - `known`: all names.
    - `option`: of the command line, for the error.
    - `always`: a name that is selected in any case.
    """
    for name in asked:
        if name not in known and name != "all":
            raise InvalidValue(f"--{option} got {name!r}; give all, or some of {', '.join(known)}.")
    return [name for name in known if name in (*asked, always) or "all" in asked]
