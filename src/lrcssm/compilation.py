"""Compiled programs that outlive the process."""

import contextlib
import os
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from .files import cache_folder

LEAST_SECONDS = 0.1
"""Programs that compile in less time are not kept."""
MOST_BYTES = 2 * 2**30
"""Size of the folder above which the programs that were used longest ago are removed."""
MOST_PROGRAMS = 16
"""Programs of one function that a process keeps, each some ten megabytes."""
SWITCH = "LRCSSM_COMPILATIONS"
"""Variable that keeps estimators from writing programs to disk, if it is `off`."""
_lock = threading.Lock()
_inside = 0  # blocks of `keeping_compilations` that share the cache now
_least_before = 1.0


def remember_compilations(directory: str | os.PathLike[str] | None = None) -> pathlib.Path | None:
    """Cache compiled programs on disk, so that the same shapes on the same machine are compiled once.

    The command line does this for its process, and estimators do it while they compute (`keeping_compilations`); call it in your
    own program before the first computation. A directory that was chosen before (`JAX_COMPILATION_CACHE_DIR`) is not changed.

    ```python
    import lrcssm

    lrcssm.remember_compilations()
    ```

    **Arguments:**

    - `directory`: where; `compiled` in the cache folder of lrcssm if not given.

    **Returns:**

    The directory, or `None` if it cannot be written, in which case nothing is kept.
    """
    chosen = _config("jax_compilation_cache_dir")
    if chosen:
        return pathlib.Path(chosen)
    path = _writable(pathlib.Path(directory) if directory is not None else cache_folder() / "compiled")
    if path is not None:
        _choose(str(path), LEAST_SECONDS)
    return path


@contextlib.contextmanager
def keeping_compilations() -> Iterator[None]:
    """Keep on disk what is compiled within a `with` block, as `remember_compilations` does, and nothing that is compiled after it.

    JAX has one cache for a process. A library must not choose it for programs that are not its own, so it is chosen here for as
    long as an estimator computes, and given back. Nothing happens if the process has chosen a directory of its own, if JAX's
    cache is switched off (`JAX_ENABLE_COMPILATION_CACHE=false`), if the variable `LRCSSM_COMPILATIONS` is `off`, or if the
    folder cannot be written. Programs of other threads that are compiled in the meantime are kept too, which is harmless.

    ```python
    from lrcssm.compilation import keeping_compilations

    with keeping_compilations():
        pass  # compute
    ```
    """
    global _inside, _least_before
    with _lock:
        if _inside == 0 and _free() and (path := _writable(cache_folder() / "compiled")) is not None:
            _least_before = _config("jax_persistent_cache_min_compile_time_secs")
            _choose(str(path), LEAST_SECONDS)
            mine = 1
        else:
            mine = int(_inside > 0)
        _inside += mine
    try:
        yield
    finally:
        with _lock:
            _inside -= mine
            if mine and _inside == 0:
                _choose(None, _least_before)


def bound_programs(function: Any) -> None:
    """Give back the memory of the programs of a function if there are many, as after series of very many lengths.

    **Arguments:**

    - `function`: made by `equinox.filter_jit`. Its programs are compiled again when they are needed, or read from disk.
    """
    compiled = getattr(function, "_cached", None)
    if compiled is not None and compiled._cache_size() > MOST_PROGRAMS:
        compiled.clear_cache()


def _free() -> bool:
    """True if the process has not chosen a cache or switched it off."""
    wanted = os.environ.get(SWITCH, "").casefold() not in ("off", "0", "no", "false")
    return wanted and not _config("jax_compilation_cache_dir") and bool(_config("jax_enable_compilation_cache"))


def _config(name: str) -> Any:
    return getattr(jax.config, name)


def _choose(path: str | None, least: float) -> None:
    jax.config.update("jax_compilation_cache_dir", path)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)
    # JAX opens its cache at the first compilation and keeps it open; now it opens the one that was chosen.
    compilation_cache.reset_cache()


def _writable(path: pathlib.Path) -> pathlib.Path | None:
    """The folder, created and with a bounded size; `None` if it cannot be written."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            return None
        prune(path)
    except OSError:
        return None
    return path


def prune(path: pathlib.Path, most: int = MOST_BYTES) -> None:
    """Remove the oldest files of a folder until the rest has at most `most` bytes."""
    files = sorted((one.stat().st_mtime, one.stat().st_size, one.path) for one in os.scandir(path) if one.is_file())
    total = sum(size for _, size, _ in files)
    for _, size, name in files:
        if total <= most:
            return
        with contextlib.suppress(OSError):
            os.unlink(name)
        total -= size
