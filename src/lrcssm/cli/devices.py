"""The devices of a run: of this process, or of several processes on one machine or many."""

import contextlib
import dataclasses
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated

import jax
from jax.sharding import Mesh

from ..training import make_mesh
from ..training.folder import RunError
from .parser import Arg

SECONDS = 30
"""Seconds to wait for a process that does not answer."""


@dataclasses.dataclass(frozen=True)
class DeviceOptions:
    """The devices; one if nothing is given."""

    devices: Annotated[str | None, Arg("N|BxS")] = None
    """Devices to train on: 4 splits each batch over 4 devices; 2x4 splits the batch over 2 and time over 4. On a CPU devices are
    threads."""
    coordinator: Annotated[str | None, Arg("HOST:PORT")] = None
    """Address of the first of several processes that train one model. Not needed under SLURM."""
    processes: Annotated[int | None, Arg("INT")] = None
    """Number of processes."""
    process: Annotated[int | None, Arg("INT")] = None
    """Number of this process, counted from 0. All processes must be able to read the run folder."""


def slurm_tasks(options: DeviceOptions, environ: Mapping[str, str]) -> int:
    """Number of processes that SLURM has started for this run: 1 if it has not, or if --devices does not need them."""
    if options.devices is None or options.processes is not None or "SLURM_JOB_ID" not in environ:
        return 1
    return int(environ.get("SLURM_NTASKS", "1"))


def open_mesh(options: DeviceOptions, environ: Mapping[str, str] = os.environ) -> Mesh | None:
    """Mesh of the requested devices; `None` for the first device of this process. Joins the other processes, if any, so it must
    be called before any other use of JAX."""
    shares = None if options.devices is None else _shares(options.devices)
    many = _join(options, None if shares is None else math.prod(shares), environ)
    if shares is None and not many:
        return None
    have = len(jax.devices())
    batch, sequence = (have, 1) if shares is None else shares
    if batch * sequence > have:
        raise RunError(f"--devices {options.devices}: only {have} devices are available; give at most as many.")
    if batch * sequence < have and many:
        raise RunError(f"--devices {options.devices}: there are {have} in all processes together; use all of them.")
    return make_mesh(batch, sequence)


def _join(options: DeviceOptions, wanted: int | None, environ: Mapping[str, str]) -> bool:
    """Join the other processes, if any; returns true if there are any. `wanted`: devices of all processes."""
    given = (options.coordinator, options.processes, options.process)
    tasks = slurm_tasks(options, environ)
    if any(one is not None for one in given) and None in given:
        raise RunError(
            "--coordinator, --processes and --process belong together: the address of the first process, as in "
            "localhost:9876, how many there are, and which of them this is, counted from 0."
        )
    many = options.processes is not None or tasks > 1
    count = options.processes or tasks
    if wanted is not None:
        if wanted % count:
            raise RunError(f"--devices {options.devices} cannot be shared evenly by {count} processes.")
        # Of a processor there are as many devices as one asks for, if one asks before anything else.
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", wanted // count)
    if not many:
        return False
    if options.process is not None and not 0 <= options.process < count:
        raise RunError(f"--process {options.process}: give a number from 0 to {count - 1}, one for each process.")
    # What carries the numbers between processes prints to standard output, which is for our answers.
    sys.stdout = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        jax.distributed.initialize(
            options.coordinator, options.processes, options.process, heartbeat_timeout_seconds=SECONDS,
            initialization_timeout=300,
        )  # fmt: skip
    except (RuntimeError, ValueError) as error:
        raise RunError(f"The processes of this run did not find each other: {_first_line(error)}") from error
    return True


def _shares(devices: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d*)(?:[x×]([1-9]\d*))?", devices)
    if found is None:
        raise RunError(
            f"--devices got {devices!r}; give a number of devices that share each batch, as in 4, or shares of the batch "
            "times shares of time, as in 2x4."
        )
    return int(found[1]), int(found[2] or 1)


@contextlib.contextmanager
def with_others() -> Iterator[None]:
    """Raise an error if another process of the run is lost."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if jax.process_count() == 1:
            raise
        raise RunError(
            f"Process {jax.process_index()} lost another process of this run ({_first_line(error)}); start all of them "
            "again with --resume to continue from the last checkpoint."
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200].rstrip(".")
