"""Signatures and log-signatures of piecewise-linear paths.

The signature of a path X holds its iterated integrals,

    S^{i₁…i_k} = ∫_{t₁<…<t_k} dX^{i₁}_{t₁} … dX^{i_k}_{t_k},

for all words i₁…i_k of up to `level` channels. A straight piece Δ has S_k = Δ^{⊗k}/k!, and two paths one after the
other have the tensor product of their signatures (Chen's identity):

    S_k(X * Y) = Σ_{j=0}^{k} S_j(X) ⊗ S_{k−j}(Y).

The log-signature of depth 2 omits all terms that follow from others: it holds the increments, and for each pair i < j
of channels the area ½(S^{ij} − S^{ji}) between path and chord.

Padding is ignored. See Chevyrev and Kormilitzin, "A primer on the signature method in
machine learning" (2016); Morrill et al., "Neural rough differential equations" (2021).
"""

from typing import Literal, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..engine.prefix import prefixes
from ..errors import InvalidValue
from .layers import masked

View = Literal["local", "global", "both"]
VIEWS: tuple[View, ...] = get_args(View)


def signature_size(channels: int, level: int) -> int:
    """Count the words of 1 to `level` channels."""
    return sum(channels**k for k in range(1, level + 1))


def log_signature_size(channels: int, depth: int) -> int:
    """Count the channels, and at depth 2 their pairs."""
    return channels + (channels * (channels - 1) // 2 if depth == 2 else 0)


def signature(path: Float[Array, "time *batch channels"], level: int) -> Float[Array, "*batch terms"]:
    """Compute the signature of a whole path, all levels one after the other, the words of each in lexicographic order."""
    return jnp.concatenate(_levels(path, level), -1)


def log_signatures(
    path: Float[Array, "time *batch channels"],
    *,
    depth: int,
    step: int,
    mask: Bool[Array, "time *batch"] | None = None,
) -> Float[Array, "intervals *batch terms"]:
    """Compute the log-signature of each interval of `step` observed steps: increments first, then (depth 2) the areas of the pairs
    (0, 1), (0, 2), ..., (1, 2), ...: the Hall basis.

    An interval begins where the one before it ended, the first one at zero, so that the level of the path is not lost.
    The last interval may be shorter; those after the last observed step are zero.
    """
    if depth not in (1, 2):
        raise InvalidValue(f"log_signatures got depth={depth!r}; give 1 (increments) or 2 (increments and areas).")
    path, _ = valid_first(path, mask)
    extra = -path.shape[0] % step
    path = jnp.concatenate([jnp.zeros_like(path[:1]), path, *[path[-1:]] * extra])
    # Each interval with the point before it: (points, intervals, ..., channels).
    ends = np.arange(0, path.shape[0] - 1, step)
    levels = _levels(path[ends + np.arange(step + 1)[:, None]], depth)
    if depth == 1:
        return levels[0]
    channels = path.shape[-1]
    first, second = np.triu_indices(channels, 1)
    square = levels[1].reshape(*levels[1].shape[:-1], channels, channels)
    return jnp.concatenate([levels[0], (square[..., first, second] - square[..., second, first]) / 2], -1)


def window_signatures(
    path: Float[Array, "time *batch channels"],
    *,
    windows: int,
    level: int,
    view: View,
    mask: Bool[Array, "time *batch"] | None = None,
) -> Float[Array, "windows *batch terms"]:
    """Compute the signatures of windows of time, as `window_ends` cuts it: `"local"`, of the window alone, from the last point
    of the one before; `"global"`, from the first step to the end of the window; or `"both"`, one after the other
    (Moreno-Pino et al., "Rough transformers", 2024)."""
    length = path.shape[0]
    path, count = valid_first(path, mask)
    ends, _ = window_ends(length, windows, count)
    starts = jnp.concatenate([jnp.zeros_like(ends[:1]), ends[:-1]])
    longest = -(-max(length, windows) // windows)
    offsets = jnp.arange(longest + 1).reshape(-1, *(1,) * starts.ndim)
    points = jnp.minimum(jnp.minimum(starts + offsets, ends), length - 1)  # a shorter window repeats its last point
    flat = points.reshape(-1, *points.shape[2:])
    pieces = jnp.take_along_axis(path, flat[..., None], 0).reshape(*points.shape, path.shape[-1])
    local = _levels(pieces, level)
    views = [] if view == "global" else local
    return jnp.concatenate([*views, *(() if view == "local" else prefixes(_chen, local))], -1)


def window_ends(
    length: int, windows: int, count: Int[Array, "*batch"]
) -> tuple[Int[Array, "windows *batch"], Bool[Array, "windows *batch"]]:
    """Share `count` observed steps evenly among windows: the number of each window's last step among the observed ones, and a
    mask of the windows. With fewer steps than windows, each step is a window and the rest is padding."""
    total = jnp.maximum(count, windows)
    number = jnp.arange(1, windows + 1, dtype=total.dtype).reshape(-1, *(1,) * total.ndim)
    ends = number * (total // windows) + number * (total % windows) // windows - 1
    return jnp.minimum(ends, length - 1), ends < count


def valid_first(
    x: Float[Array, "time *batch channels"], mask: Bool[Array, "time *batch"] | None
) -> tuple[Float[Array, "time *batch channels"], Int[Array, "*batch"]]:
    """Return the observed steps in their order, then the last of them repeated; and the number of observed steps."""
    if mask is None:
        return x, jnp.full(x.shape[1:-1], x.shape[0])
    length = x.shape[0]
    count = jnp.sum(mask, 0)
    rank = jnp.cumsum(mask, 0) - 1
    flat = jnp.where(mask, rank, length).reshape(length, -1)
    steps = jnp.broadcast_to(jnp.arange(length)[:, None], flat.shape)
    place = jnp.zeros_like(flat).at[flat, jnp.arange(flat.shape[1])].set(steps.astype(flat.dtype), mode="drop")
    place = place.reshape(mask.shape)
    which = jnp.minimum(jnp.arange(length).reshape(-1, *(1,) * count.ndim), jnp.maximum(count - 1, 0))
    found = jnp.take_along_axis(place, which, 0)
    # Without observed steps the first one is repeated, which is zero as all padding.
    return jnp.take_along_axis(masked(x, mask), found[..., None], 0), count


def _levels(path, level) -> list[Array]:
    """Each level of the signature, `(..., channels^k)`. The term of one step is written in Horner's form, which needs the lower
    levels before that step; its sum over time is a matmul."""
    steps = jnp.diff(path, axis=0)
    levels, before = [path[-1] - path[0]], [path[:-1] - path[:1]]
    for k in range(2, level + 1):
        inner = before[0] + steps / k
        for j in range(2, k):
            inner = before[j - 1] + _outer(inner, steps / (k - j + 1))
        levels.append(_word(jnp.einsum("t...a,t...b->...ab", inner, steps)))
        if k < level:
            sums = jnp.cumsum(_outer(inner, steps), 0)
            before.append(jnp.concatenate([jnp.zeros_like(sums[:1]), sums[:-1]]))
    return levels


def _chen(first, second):
    """The signature of two paths one after the other, level by level."""
    return [
        first[k] + second[k] + sum(_outer(first[j], second[k - 1 - j]) for j in range(k)) for k in range(len(first))
    ]


def _outer(a, b):
    return _word(a[..., :, None] * b[..., None, :])


def _word(product):
    """Two axes of words as one of their compositions."""
    return product.reshape(*product.shape[:-2], product.shape[-2] * product.shape[-1])
