"""What is not kept for the backward pass, but computed again there."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..engine.abstract import STATES
from .block import Block, Passed

# From so many numbers between all blocks together on, what is inside them is computed twice, if the sequence cannot be
# taken in chunks; and so many states at most are kept where everything else is computed twice.
VERY_LONG, KEPT = 2**26, 2**26


def very_long(model: Any, x: Float[Array, "time *batch features"]) -> bool:
    """Whether what is inside the blocks should not be kept for the backward pass."""
    return math.prod(x.shape[:-1]) * model.config.width * len(model.blocks) >= VERY_LONG


def kept(
    blocks: Sequence[Block], x: Float[Array, "time *batch features"], states: bool | None = None
) -> Callable[..., bool]:
    """What `jax.checkpoint` shall keep of what is inside the blocks: their states, or nothing. Without `states`, which says it,
    that is decided by how many they are."""
    if states is None:
        states = math.prod(x.shape[:-1]) * sum(leaf.size for leaf in states_of(blocks)) <= KEPT
    policies = jax.checkpoint_policies
    return policies.save_only_these_names(STATES) if states else policies.nothing_saveable


def states_of(blocks: Sequence[Block]) -> list[jax.ShapeDtypeStruct]:
    """The shapes of what the recurrences of some blocks remember, for one step of one sequence."""
    layers = [layer for block in blocks for layer in (block.layer, block.back) if layer is not None]
    return jax.tree.leaves(jax.eval_shape(lambda: [layer.initial_state(()) for layer in layers if layer.whole is None]))


def alike(blocks: Sequence[Block], width: int) -> bool:
    """Whether each block could stand in for each other, after `width` features."""
    shapes = [jax.tree.map(jnp.shape, eqx.filter(block, eqx.is_array)) for block in blocks]
    return blocks[0].size == width and all(shape == shapes[0] for shape in shapes)


def run_again(
    blocks: Sequence[Block],
    h: Float[Array, "time *batch width"],
    states: Sequence[Any],
    keys: Sequence[Any],
    states_too: bool | None = None,
    **how: Any,
) -> tuple[Float[Array, "time *batch width"], list[Passed]]:
    """What blocks that are alike give one after the other, as a loop over them: of what is computed again without one, XLA
    finds out on a CPU that it was computed before, and keeps it. `states_too`: as for `kept`."""
    rest = eqx.filter(blocks[0], eqx.is_array, inverse=True)
    stacked = _stacked([eqx.filter(block, eqx.is_array) for block in blocks])

    @functools.partial(jax.checkpoint, prevent_cse=False, policy=kept(blocks, h, states_too))
    def run(h, given):
        arrays, state, key = given
        return eqx.combine(arrays, rest)(h, state=state, key=key, **how)

    h, passed = lax.scan(run, h, (stacked, _stacked(states), _stacked(keys)))
    leaves, tree = jax.tree.flatten(passed)
    return h, [jax.tree.unflatten(tree, [leaf[i] for leaf in leaves]) for i in range(len(blocks))]


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
