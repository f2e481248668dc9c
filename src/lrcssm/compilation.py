"""Compiled programs that outlive the process."""

import os
import pathlib

import jax

from .files import cache_folder


def remember_compilations(directory: str | os.PathLike[str] | None = None) -> pathlib.Path | None:
    """Cache compiled programs on disk, so that the same shapes on the same machine are compiled once.

    The command line does this by itself; call it in your own program before the first computation. A directory that was
    chosen before (`JAX_COMPILATION_CACHE_DIR`) is not changed.

    ```python
    import lrcssm

    lrcssm.remember_compilations()
    ```

    **Arguments:**

    - `directory`: where; `compiled` in the cache folder of lrcssm if not given.

    **Returns:**

    The directory, or `None` if it cannot be written, in which case nothing is kept.
    """
    chosen = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if chosen:
        return pathlib.Path(chosen)
    path = pathlib.Path(directory) if directory is not None else cache_folder() / "compiled"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if not os.access(path, os.W_OK):
        return None
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    return path
