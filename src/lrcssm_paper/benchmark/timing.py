"""Measuring tools: comparable times and peak memory.

A shared machine is noisy, and the noise comes in spells of seconds. So programs that are compared run in turn, A B C A B C,
and the best time of each counts, which is the least disturbed one.
"""

import dataclasses
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax


@dataclasses.dataclass(frozen=True)
class Timing:
    """Times of one program in seconds, one for each round."""

    times: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.times)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def rounds(self) -> int:
        return len(self.times)


def interleave(
    thunks: Mapping[Any, Callable[[], Any]],
    *,
    rounds: int,
    least: int = 2,
    budget: float = float("inf"),
    compiled: bool = False,
    pauses: Mapping[Any, float] | None = None,
    failures: dict[Any, Exception] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[Any, Timing]:
    """Time several programs in turn: each once to warm up, then all of them in each round.

    **Arguments:**

    - `thunks`: programs by name; each call ends when its arrays are ready.
    - `rounds`: largest number of rounds.
    - `least`, `budget`: a thunk gets fewer rounds, down to `least`, where all of them would take more than `budget`
        seconds.
    - `compiled`: the first call does not compile, so that a warm-up of more than `budget` counts as a round.
    - `pauses`: seconds to wait after a thunk that disturbs the next one, which is then called once untimed.
    - `failures`: is given the `RuntimeError` of each thunk that fails to warm up; without it, the error is raised.
    - `say`: called with a description of the current measurement.

    **Returns:**

    A `Timing` for each name that did not fail.
    """
    pauses = {} if pauses is None else pauses
    times: dict[Any, list[float]] = {name: [] for name in thunks}
    limits = {}

    cold = False

    def measure(name) -> float:
        nonlocal cold
        if cold:  # after a pause the cores have gone to sleep, which is not the fault of what comes next
            jax.block_until_ready(thunks[name]())
        cold = name in pauses
        start = time.perf_counter()
        jax.block_until_ready(thunks[name]())
        passed = time.perf_counter() - start
        time.sleep(pauses.get(name, 0.0))
        return passed

    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for name in thunks:
            say(f"{_text(name)}: warm-up")
            try:
                taken = measure(name)
            except RuntimeError as error:
                if failures is None:
                    raise
                failures[name] = error
                limits[name] = 0
                continue
            if compiled and taken > budget:
                times[name].append(taken)
            elif taken * rounds > budget:
                taken = measure(name)
            limits[name] = rounds if taken * rounds <= budget else max(least, int(budget / taken))
        for round in range(rounds):
            for name in thunks:
                if len(times[name]) < limits[name]:
                    say(f"{_text(name)}: round {round + 1} of {limits[name]}")
                    times[name].append(measure(name))
    finally:
        if collecting:
            gc.enable()
    return {name: Timing(tuple(taken)) for name, taken in times.items() if taken}


def _text(name) -> str:
    return ", ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def measured(timing: Timing) -> dict[str, Any]:
    """A timing for a record."""
    return {"best_ms": 1e3 * timing.best, "median_ms": 1e3 * timing.median, "rounds": timing.rounds}


def ratio(mine: dict[str, Any] | None, other: dict[str, Any] | None) -> float | None:
    """Best time of a measurement over that of another, if there are both."""
    return mine["best_ms"] / other["best_ms"] if mine and other else None


def is_uneven(found: dict[str, Any] | None) -> bool:
    """True if the times of a measurement vary widely."""
    return found is not None and found["median_ms"] > 1.5 * found["best_ms"]


def compiled_bytes(jitted: Any, *arguments: Any) -> int | None:
    """Memory of a jitted function beyond its arguments: intermediate arrays and results.

    **Arguments:**

    - `jitted`: a result of `jax.jit`; it is compiled for the arguments, so that its next call does not compile.

    **Returns:**

    Bytes as planned by the compiler, or `None` if the backend does not report it.
    """
    analysis = jitted.lower(*arguments).compile().memory_analysis()
    if analysis is None:
        return None
    return analysis.temp_size_in_bytes + analysis.output_size_in_bytes


# The peak of a process outlives exec: a child would start with that of its parent. VmHWM is of the new program alone,
# and Linux resets it on request; elsewhere there is only ru_maxrss, which does not reach into the past there.
_CHILD = """
import json, pathlib, sys
status, refs = pathlib.Path("/proc/self/status"), pathlib.Path("/proc/self/clear_refs")
def peak():
    if status.exists():
        return 1024 * int(status.read_text().split("VmHWM:")[1].split()[0])
    import resource
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
setup, *calls = json.load(sys.stdin)
names = {}
exec(setup, names)
try:
    refs.write_text("5")
except OSError:
    pass
base, growth = peak(), []
for call in calls:
    exec(call, names)
    growth.append(peak() - base)
print(json.dumps(growth))
"""


def resident_bytes(setup: str, *calls: str, timeout: float = 300.0) -> list[int] | None:
    """Largest growth of the resident memory of a fresh Python process, for code that no compiler plans.

    **Arguments:**

    - `setup`: source that runs first and is not counted.
    - `calls`: sources that run one after the other.
    - `timeout`: in seconds.

    **Returns:**

    For each call the peak since the end of the setup in bytes, or `None` if it cannot be measured.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CHILD],
            input=json.dumps([setup, *calls]), capture_output=True, text=True, timeout=timeout, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError):
        return None
