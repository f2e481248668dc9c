"""All prefixes of a sequence under an associative operation, in parallel.

The sequence is cut into blocks of 16. All blocks are processed at once, one element after the other; the blocks' totals are a
sequence of a sixteenth of the length, treated the same way; and the total of all elements before a block is composed with each
of its prefixes. That is twice the work of one sweep, in 16 log₁₆ T steps. `lax.associative_scan` takes about as many, but
writes each of them out, and takes many times as long to compile.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax

Elements = TypeVar("Elements")

BLOCK = 16


def prefixes(compose: Callable[[Elements, Elements], Elements], elements: Elements, reverse: bool = False) -> Elements:
    """`e_1, e_1∘e_2, e_1∘e_2∘e_3, ...`, where `compose(first, second)` takes any number of pairs at a time.

    **Arguments:**

    - `compose`: the operation; it must work on any leading axes, broadcasting them.
    - `elements`: a pytree of arrays with time on axis 0.
    - `reverse`: start with the last element, and give `compose` the later element first.
    """
    if reverse:
        return _flip(prefixes(compose, _flip(elements)))
    length = jax.tree.leaves(elements)[0].shape[0]
    if length <= BLOCK:
        return _run(compose, jax.tree.map(lambda a: a[None], elements), lambda a: a[0])
    count = -(-length // BLOCK)
    extra = count * BLOCK - length  # what follows the end changes nothing before it
    padded = jax.tree.map(lambda a: jnp.concatenate([a, a[:extra]]) if extra else a, elements)
    inside = _run(compose, jax.tree.map(lambda a: a.reshape(count, BLOCK, *a.shape[1:]), padded))
    before = prefixes(compose, jax.tree.map(lambda a: a[:-1, -1], inside))
    rest = compose(jax.tree.map(lambda a: a[:, None], before), jax.tree.map(lambda a: a[1:], inside))
    return jax.tree.map(lambda a, b: jnp.concatenate([a[0], b.reshape(-1, *b.shape[2:])])[:length], inside, rest)


def _run(compose, blocks, give=lambda a: a):
    """The prefixes within each block, `(blocks, time, ...)`."""
    length = jax.tree.leaves(blocks)[0].shape[1]

    def step(i, carry):
        so_far, out = carry
        so_far = compose(so_far, jax.tree.map(lambda a: lax.dynamic_index_in_dim(a, i, 1, False), blocks))
        return so_far, jax.tree.map(lambda a, b: lax.dynamic_update_index_in_dim(a, b, i, 1), out, so_far)

    first = jax.tree.map(lambda a: a[:, 0], blocks)
    return jax.tree.map(give, lax.fori_loop(1, length, step, (first, blocks))[1])


def _flip(tree):
    return jax.tree.map(lambda a: jnp.flip(a, 0), tree)
