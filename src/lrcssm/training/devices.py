"""Training over many devices: a mesh with the axes `batch` and `sequence`, and the placement of arrays on it.

The model, the optimiser and the results of a step are replicated on all devices; each device has its share of the cases and of the
steps of a batch. Between the recurrences, which `lrcssm.Sharded` solves, the compiler lets each device compute its share, and sums
gradients over all.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..data import Batch
from ..engine import Solver
from ..errors import InvalidValue

BATCH, SEQUENCE = "batch", "sequence"


def make_mesh(batch: int = 1, sequence: int = 1) -> Mesh:
    """Mesh of devices: `batch` shares of the cases times `sequence` shares of the steps.

    ```python
    from lrcssm.training import make_mesh

    mesh = make_mesh(batch=1)
    print(dict(mesh.shape))  # {'batch': 1, 'sequence': 1}
    ```
    """
    for name, number in {BATCH: batch, SEQUENCE: sequence}.items():
        if number < 1:
            raise InvalidValue(f"make_mesh got {name}={number!r}; give a whole number of at least 1.")
    have = jax.devices()
    if batch * sequence > len(have):
        raise InvalidValue(
            f"make_mesh got batch={batch} and sequence={sequence}, which needs {batch * sequence} devices; there are "
            f"{len(have)}."
        )
    return Mesh(np.array(have[: batch * sequence]).reshape(batch, sequence), (BATCH, SEQUENCE))


def everywhere(tree: Any, mesh: Mesh) -> Any:
    """Replicate all arrays of a tree on all devices."""

    def placed(array):
        if not eqx.is_array(array):
            return array
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(_placed(jax.random.key_data(array), mesh))
        return _placed(array, mesh)

    return jax.tree.map(placed, tree)


def keep_everywhere(tree: Any, solver: Solver) -> Any:
    """The same inside a compiled function, if it runs over several devices."""
    if solver.devices is None:
        return tree
    where = NamedSharding(solver.devices, PartitionSpec())
    return jax.tree.map(lambda a: lax.with_sharding_constraint(a, where) if eqx.is_array(a) else a, tree)


def spread(batch: Batch, solver: Solver) -> Batch:
    """Distribute the arrays of a batch over the devices."""
    mesh = solver.devices
    if mesh is None:
        return batch
    length, cases = batch.inputs.shape[:2]

    def placed(array):
        axes = solver.axes if array.shape[:2] == (length, cases) else solver.axes[1:]
        return _placed(array, mesh, *axes)

    return jax.tree.map(placed, batch)


def on_all(tree: Any, solver: Solver) -> Any:
    """Replicate a tree on all devices, if there are several."""
    return tree if solver.devices is None else everywhere(tree, solver.devices)


def _placed(array: Any, mesh: Mesh, *axes: str) -> jax.Array:
    # What does not divide stays whole; the recurrences take care of themselves.
    spec = [
        name if name in mesh.shape and size % mesh.shape[name] == 0 else None
        for name, size in zip(axes, array.shape, strict=False)
    ]
    array = np.asarray(array)
    return jax.make_array_from_callback(array.shape, NamedSharding(mesh, PartitionSpec(*spec)), lambda at: array[at])


def local(tree: Any) -> Any:
    """Move the arrays of a tree to the default device of this process, as if there were no mesh."""
    return jax.tree.map(lambda a: jnp.asarray(np.asarray(a)) if eqx.is_array(a) else a, tree)
