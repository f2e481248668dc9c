"""The Jacobian of a step in the structure that the cell declares, from as few JVPs as that structure needs.

    diagonal   one JVP with a tangent of ones           J: (..., state)
    block2     two JVPs, one for each half of the state  J: (..., units, 2, 2)
    dense      one JVP for each state                    J: (..., state, state); its diagonal alone takes as many

The state of a `block2` cell is `[first half, second half]`: unit i owns entries i and units + i.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

STRUCTURES = ("diagonal", "block2", "dense")


def linearise(
    step: Callable[[Array], Array], states: Array, structure: str, quasi: bool = False
) -> tuple[Array, Array]:
    """The next states and the Jacobian of `step` at `states`. `quasi` keeps only the diagonal."""
    if structure == "diagonal":
        return jax.jvp(step, (states,), (jnp.ones_like(states),))
    if structure == "block2":
        units = states.shape[-1] // 2
        halves = [jnp.zeros_like(states).at[..., part].set(1) for part in (slice(units), slice(units, None))]
        (new, first), (_, second) = (jax.jvp(step, (states,), (half,)) for half in halves)
        if quasi:
            return new, jnp.concatenate([first[..., :units], second[..., units:]], -1)
        return new, jnp.stack([pair(first), pair(second)], -1)
    size = states.shape[-1]
    new, tangent = jax.linearize(step, states)

    def column(i):
        return tangent(jnp.broadcast_to(jnp.arange(size) == i, states.shape).astype(states.dtype))

    if quasi:  # one entry of one column at a time: no array of T·D²
        diagonal = lax.map(lambda i: column(i)[..., i], jnp.arange(size))
        return new, jnp.moveaxis(diagonal, 0, -1)
    return new, jax.vmap(column, out_axes=-1)(jnp.arange(size))


def pair(states: Array) -> Array:
    """`(..., 2 units)` to `(..., units, 2)`."""
    return jnp.swapaxes(states.reshape(*states.shape[:-1], 2, -1), -1, -2)


def unpair(pairs: Array) -> Array:
    """`(..., units, 2)` to `(..., 2 units)`."""
    return jnp.swapaxes(pairs, -1, -2).reshape(*pairs.shape[:-2], -1)


def as_vectors(structure: str) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """A pair of functions: to the form in which matrices of this structure act on the last axis, and back."""
    return (pair, unpair) if structure == "block2" else (lambda x: x, lambda x: x)
