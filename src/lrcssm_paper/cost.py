"""Estimates of the time of a run.

A training step takes time for matrix products and for passes over the numbers between them; the sizes determine the number of
both. For LrcSSM this agrees with `lrcssm benchmark train` on a machine with two cores to within 20 %; dense, complex and LSTM
cells and Newton's method have factors from runs on SelfRegulationSCP1; for the other architectures the rule is a guess that has
not been compared with measurements. Evaluations on the validation data, and other programs on the machine, come on top.
"""

from typing import Any

from .jobs import Job
from .published import SIZES

SPEED = 250e9
"""Floating-point operations in a second, products only. With `OVERHEAD` it gives the twelve steps of
`lrcssm benchmark train` to within 20 %."""
OVERHEAD = 1.4e-8
"""Seconds for each number that goes from one layer to the next, and twice for each state."""
NEWTON = 4e-7
"""Seconds for each state of a sequence that is solved by Newton's method, about three iterations, and differentiated."""
SYNAPSE = 9e-9
"""Seconds for each connection of a dense cell at each step, forward and backward."""


def seconds_per_step(model: dict[str, Any], length: int, batch: int, solver: str = "auto") -> float:
    """Estimate one training step of a model's configuration; the solver `"auto"` is a sequential sweep, as on a CPU."""
    width, state, depth, cell = model["hidden_dim"], model["state_dim"], model["num_blocks"], model["cell"]
    options = model["cell_options"]
    if cell in ("NCDE", "NRDE", "LogNCDE"):
        return batch * _controlled(model, options, length) / SPEED
    steps = dict(model["signature"])["windows"] if model["signature"] else -(-length // model["patch"])
    tokens = batch * steps
    products = depth * (3 * width * state + 2 * width**2) + 2 * width**2 + width * model["input_dim"]
    slow = (
        cell == "LSTM" or options.get("complex_parameters", "none") != "none"
    )  # 2×2 blocks; four sigmoids of complex numbers
    elements = depth * (width + 2 * state * (5 if slow else 1))
    expanded = 1.0
    if cell in ("S6", "S4D", "LiquidS4", "Mamba"):  # states for each feature
        expanded = options.get("expand", 2) if cell == "Mamba" else 1.0
        elements += depth * width * expanded * state
    work = 6 * tokens * products * expanded / SPEED + tokens * elements * OVERHEAD
    if solver not in ("auto", "sequential"):
        work += tokens * depth * state * expanded * NEWTON
    if cell.startswith("Dense"):
        work += tokens * depth * state * (state + width) * SYNAPSE
    if cell == "Transformer":
        work += 6 * tokens * steps * width / SPEED
    return work


def _controlled(model: dict[str, Any], options: dict[str, Any], length: int) -> int:
    """Operations for one sequence: two evaluations of the vector field in each of the solver's steps, forward and back; with
    brackets one more derivative for each channel."""
    width, channels = options.get("vf_width", 64), model["input_dim"] + int(model["include_time"])
    field = options.get("vf_depth", 3) * width**2 + width * model["state_dim"] * channels
    brackets = channels if model["cell"] == "LogNCDE" and options.get("depth", 2) == 2 else 1
    return 6 * 2 * 2 * max(500, 1 + length // options.get("step", 1)) * field * brackets


def seconds(job: Job) -> float:
    """Estimate a whole run, without evaluations and compilation."""
    if job.model is None:
        return 60.0
    length = SIZES[job.dataset].length
    return job.training["steps"] * seconds_per_step(job.model, length, job.training["batch"], job.solver) + 20.0


def in_words(seconds: float) -> str:
    """A duration in words, with two digits."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}" if seconds >= 10 * size else f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
