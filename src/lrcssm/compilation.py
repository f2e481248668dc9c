"""Disk cache of compiled programs."""

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
"""Programs that compile faster than this, in seconds, are not cached."""
MOST_BYTES = 2 * 2**30
"""Size of the folder above which the least recently used programs are removed."""
MOST_PROGRAMS = 16
"""Number of programs of one function that a process keeps, each of some ten megabytes."""
SWITCH = "LRCSSM_COMPILATIONS"
"""Environment variable; `off` disables the cache of the estimators."""
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

    - `directory`: of the cache; by default `compiled` in the cache folder of lrcssm.

    **Returns:**

    The directory, or `None` if it is not writable, in which case nothing is cached.
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
    """Cache the programs that are compiled within a `with` block on disk, as `remember_compilations` does for the whole
    process.

    JAX has one cache per process. A library must not choose it for other programs, so it is set here while an estimator
    computes, and restored afterwards. Has no effect if the process has chosen its own directory, if JAX's cache is switched
    off (`JAX_ENABLE_COMPILATION_CACHE=false`), if the variable `LRCSSM_COMPILATIONS` is `off`, or if the folder cannot be
    written. Programs of other threads that are compiled in the meantime are cached too, which is harmless.

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
