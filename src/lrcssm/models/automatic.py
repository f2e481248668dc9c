"""Choices that follow from the data, for whoever does not want to make them."""

from collections.abc import Mapping
from typing import Any

from .time import names, options_of


def automatic_patch(length: int) -> int:
    """About as many steps in a patch as there are patches: what a long series costs then grows with the root of its length,
    and a short one, up to 3 steps, is left alone."""
    return max(1, int(length**0.5))


def automatic_cell_options(cell: str, steps: int, irregular: bool) -> dict[str, Any]:
    """Time constants up to the length of the sequence, and where the time between steps differs an integrator that stays
    bounded for any of it; for cells that can do that."""
    known = options_of(cell) if cell in names() else ()
    options: dict[str, Any] = {"init": "spread", "max_time": float(max(steps, 2))} if "max_time" in known else {}
    return options | ({"integrator": "exponential"} if irregular and "integrator" in known else {})


def default_fields(
    architectures: Mapping[str, Mapping[str, Any]], architecture: str, length: int, irregular: bool, **given: Any
) -> dict[str, Any]:
    """Fields of `ModelConfig` that do well on most data, with the block of an architecture.

    **Arguments:**

    - `architectures`: `lrcssm.models.ARCHITECTURES`.
    - `length`, `irregular`: steps of the longest series, and whether the time between them differs.
    - `given`: `cell` and `patch`, where they are decided; the cell of an architecture has its options.
    """
    fields = {
        "cell": "LRC", "hidden_dim": 64, "state_dim": 64, "num_blocks": 2, "patch": automatic_patch(length), "layout": "plain",
        "dropout": 0.1, "pool": "mean-max-std", "bidirectional": True,
    } | dict(architectures[architecture])  # fmt: skip
    own = {} if "cell" in given else fields.get("cell_options", {})
    fields |= given
    automatic = automatic_cell_options(fields["cell"], -(-length // fields["patch"]), irregular)
    return fields | {"cell_options": automatic | own}
