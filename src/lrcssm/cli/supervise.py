"""Supervision of the training process by its parent.

When one of several processes is gone, JAX ends the others at once, from C++, with a page of addresses. This
process survives and explains the failure.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping

from ..training.folder import RunError
from .devices import DeviceOptions, slurm_tasks

_MARK = "LRCSSM_SUPERVISED"
_PR_SET_PDEATHSIG = 1


def supervised(options: DeviceOptions, environ: Mapping[str, str] = os.environ) -> bool:
    """Run this command in a child process if it is one of several, and return true when the child has finished. Return false in
    the child, and if there is a single process."""
    if environ.get(_MARK) == str(os.getppid()):
        _end_with_parent()
        return False
    slurm = slurm_tasks(options, environ) > 1
    if options.processes is None and not slurm:
        return False
    child = subprocess.Popen([sys.executable, "-m", "lrcssm", *sys.argv[1:]], env={**environ, _MARK: str(os.getpid())})
    # Ctrl-C reaches both of them; the one that trains knows what to do.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN), signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    try:
        code = child.wait()
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])
    if code == -signal.SIGABRT:
        raise RunError(
            f"Process {environ.get('SLURM_PROCID') if slurm else options.process} was ended because another process of this run is gone or cannot be reached; start "
            "all of them again with --resume to continue from the last checkpoint."
        )
    if code:
        raise SystemExit(code if code > 0 else 128 - code)
    return True


def _end_with_parent() -> None:
    """End the child if the parent is killed; has no effect on systems without this feature."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
