"""Training over many devices: a mesh with the axes `batch` and `sequence`, and how the numbers lie on it.

The model, the optimiser and everything that a step returns is on all devices alike; of a batch, each device has its share of
the cases and of the steps. Between the recurrences, which `lrcssm.Sharded` solves, the compiler sees to it that each device
computes what belongs to its share, and sums gradients over all.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..engine import Solver

BATCH, SEQUENCE = "batch", "sequence"


def make_mesh(batch: int = 1, sequence: int = 1) -> Mesh:
    """Devices side by side: `batch` shares of the cases times `sequence` shares of the steps.

    ```python
    from lrcssm.training import make_mesh

    mesh = make_mesh(batch=1)
    print(dict(mesh.shape))  # {'batch': 1, 'sequence': 1}
    ```
    """
    for name, number in {BATCH: batch, SEQUENCE: sequence}.items():
        if number < 1:
            raise ValueError(f"make_mesh got {name}={number!r}; give a whole number of at least 1.")
    have = jax.devices()
    if batch * sequence > len(have):
        raise ValueError(
            f"make_mesh got batch={batch} and sequence={sequence}, which needs {batch * sequence} devices; there are "
            f"{len(have)}."
        )
    return Mesh(np.array(have[: batch * sequence]).reshape(batch, sequence), (BATCH, SEQUENCE))


def everywhere(tree: Any, mesh: Mesh) -> Any:
    """All arrays of a tree on all devices alike."""

    def placed(array):
        if not eqx.is_array(array):
            return array
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(_placed(jax.random.key_data(array), mesh))
        return _placed(array, mesh)

    return jax.tree.map(placed, tree)


def keep_everywhere(tree: Any, solver: Solver) -> Any:
    """The same inside of a compiled function, if it runs over many devices."""
    if solver.devices is None:
        return tree
    where = NamedSharding(solver.devices, PartitionSpec())
    return jax.tree.map(lambda a: lax.with_sharding_constraint(a, where) if eqx.is_array(a) else a, tree)


def divisible(size: int, solver: Solver) -> int:
    """The next size of a batch that the devices can share evenly."""
    return -(-size // solver.batch_shards) * solver.batch_shards


def spread(batch: tuple[Any, ...], solver: Solver) -> tuple[Any, ...]:
    """Inputs, mask, dt, targets and weights (or the first few of them) where they belong on the devices."""
    if solver.devices is None:
        return batch
    length, cases = batch[0].shape[:2]
    moving = [array is not None and array.shape[:2] == (length, cases) for array in batch[:4]] + [False]
    return tuple(
        array if array is None else _placed(array, solver.devices, *(solver.axes if stepwise else solver.axes[1:]))
        for array, stepwise in zip(batch, moving[: len(batch)], strict=True)
    )


def _placed(array: Any, mesh: Mesh, *axes: str) -> jax.Array:
    # What does not divide stays whole; the recurrences take care of themselves.
    spec = [
        name if name in mesh.shape and size % mesh.shape[name] == 0 else None
        for name, size in zip(axes, array.shape, strict=False)
    ]
    array = np.asarray(array)
    return jax.make_array_from_callback(array.shape, NamedSharding(mesh, PartitionSpec(*spec)), lambda at: array[at])


def local(tree: Any) -> Any:
    """The arrays of a tree on the default device of this process, as a model that never saw a mesh has them."""
    return jax.tree.map(lambda a: jnp.asarray(np.asarray(a)) if eqx.is_array(a) else a, tree)
