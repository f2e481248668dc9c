"""Reuse of memory between steps."""

import ctypes
import platform
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -4, -8


def keep_memory() -> bool:
    """Keep allocated memory in the process instead of returning it to the system.

    On a CPU, XLA allocates new buffers in each step, and the C library of Linux returns everything above 32 MB to the
    system and then has to get it back page by page, which can take half of the time of a step on long sequences. After this
    call the memory stays with the process until it ends.

    The command line does this automatically; call it in your own program before the first computation.

    ```python
    import lrcssm

    lrcssm.keep_memory()
    ```

    **Returns:**

    True on Linux with glibc; elsewhere nothing is done.
    """
    if not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    # One arena, which grows by 64 MB, never shrinks, and serves large requests too.
    settings = {_M_ARENA_MAX: 1, _M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: -1, _M_TOP_PAD: 64 * 2**20}
    return all([mallopt(name, value) == 1 for name, value in settings.items()])
