"""Layers that are convolutions: `S4DConvolution`, and `Hyena` (Poli et al. 2023, "Hyena hierarchy"); and their parts, which
`Mamba` shares: short convolutions and packing.

Hyena of order N, of features u, one channel at a time (* is a causal convolution over time):

    v, x¹, ..., xᴺ = S u                     S: a linear map, then a convolution of 3 steps
    z¹ = v        zⁿ⁺¹ = xⁿ (hⁿ * zⁿ + dⁿ zⁿ)        n = 1..N
    y = W zᴺ⁺¹ + b

The filters hⁿ are as long as the sequence and have no weight for each step: a small network φ with sine activations
maps features of the position t to their values, under a window that falls at another rate α in each channel:

    hⁿ_t = √(1 − e^{−2α/L}) e^{−αt/L} φⁿ(t/L, cos 2πkt/L, sin 2πkt/L)        k = 0..bands − 1

L is a parameter, not the length of the input, so that later steps do not affect earlier ones. The square root, which is not in
the paper, makes the window's energy 1, so that the size of the signal does not depend on L. The window is down to 1 % after 0.3
L in the fastest channel and after 1.5 L in the slowest one, as in the released code; there, and not in the paper, v meets x¹
without a filter before it.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ...cells.base import linear
from ...cells.s4 import S4D
from ...errors import InvalidValue
from ..context import Context
from ..layers import Linear, masked
from .base import Outcome, TimeLayer, at_least_one

WHOLE = "convolves a sequence as a whole"
_DECAY = math.log(100)


class Packed(NamedTuple):
    """Steps with the observed ones of each sample first, zeros in the others, their context, and the function that brings
    outputs back to their place."""

    inputs: Float[Array, "time *batch width"]
    context: Context
    restore: Callable[[Array], Array]


def pack(inputs: Float[Array, "time *batch width"], context: Context) -> Packed:
    """Bring the observed steps to the front, in their order, so that a layer that looks back some steps finds observed ones,
    as if there were no padding."""
    dt, mask = context.dt, context.mask
    if mask is None:
        return Packed(inputs, context, lambda outputs: outputs)
    count = jnp.cumsum(mask, 0)
    place = jnp.where(mask, count - 1, count[-1] + jnp.cumsum(~mask, 0) - 1)
    steps = jnp.arange(mask.shape[0], dtype=place.dtype).reshape(-1, *(1,) * (mask.ndim - 1))
    source = jnp.put_along_axis(
        jnp.zeros_like(place), place, jnp.broadcast_to(steps, mask.shape), axis=0, inplace=False
    )
    if dt is not None and jnp.ndim(dt):
        dt = jnp.take_along_axis(dt, source, 0)
    packed = _permute(masked(inputs, mask), source, place)
    context = context.replace(dt=dt, mask=steps < count[-1])
    return Packed(packed, context, lambda outputs: _permute(outputs, place, source))


def _permute(x, source, place):
    """Step `source[t]` at t. As the solution of a linear system, since the gradient of indexing is a scatter, which is
    thirty times slower than the inverse permutation."""
    take = lambda x, index: jnp.take_along_axis(x, index[..., None], 0)
    return lax.custom_linear_solve(
        lambda y: take(y, place), x, lambda _, b: take(b, source), lambda _, b: take(b, place)
    )


class ShortConvolution(eqx.Module):
    """A causal convolution over a few steps, each channel for itself, that can continue where it ended.

    The weight of the present step is the last one. Weights and bias are from ±1/√steps.
    """

    weight: Float[Array, "steps channels"]
    bias: Float[Array, " channels"]

    def __init__(self, steps: int, channels: int, key: PRNGKeyArray):
        limit = steps**-0.5
        weight, bias = jax.random.split(key)
        self.weight = jax.random.uniform(weight, (steps, channels), minval=-limit, maxval=limit)
        self.bias = jax.random.uniform(bias, (channels,), minval=-limit, maxval=limit)

    def __call__(
        self,
        x: Float[Array, "time *batch channels"],
        before: Float[Array, "*batch remembered channels"] | None = None,
        mask: Bool[Array, "time *batch"] | None = None,
    ) -> tuple[Float[Array, "time *batch channels"], Float[Array, "*batch remembered channels"]]:
        """Compute the outputs, and the last `steps - 1` inputs, which are `before` in the next call; zeros without it. With a
        mask the observed steps have to come first, as `pack` puts them."""
        steps, length = self.weight.shape[0], x.shape[0]
        past = jnp.zeros((steps - 1, *x.shape[1:]), x.dtype) if before is None else jnp.moveaxis(before, -2, 0)
        seen = jnp.concatenate([past, x])
        outputs = sum((seen[k : k + length] * self.weight[k] for k in range(steps)), start=self.bias)
        if mask is None:
            return outputs, jnp.moveaxis(seen[length:], 0, -2)
        end = jnp.sum(mask, 0) + jnp.arange(steps - 1).reshape(-1, *(1,) * (mask.ndim - 1))
        return outputs, jnp.moveaxis(jnp.take_along_axis(seen, end[..., None], 0), 0, -2)


def fft_convolution(
    x: Float[Array, "time *batch channels"], kernel: Float[Array, "time channels"]
) -> Float[Array, "time *batch channels"]:
    """Compute `y_t = Σ_s kernel_s x_{t−s}`, each channel for itself, in O(T log T).

    Rounding errors are relative to the largest values of the whole sequence, not to those of a step.
    """
    length = x.shape[0]
    # Products of a power of 2 with 1, 3, 5 or 9 are quick to transform and never far above what is needed.
    size = min(m * 2 ** max(0, math.ceil(math.log2((2 * length - 1) / m))) for m in (1, 3, 5, 9))
    kernel = kernel.reshape(length, *(1,) * (x.ndim - 2), -1)
    spectrum = jnp.fft.rfft(x, size, axis=0) * jnp.fft.rfft(kernel, size, axis=0)
    return jnp.fft.irfft(spectrum, size, axis=0)[:length]


def _refuse_state(name: str, state: Any) -> None:
    if state is not None:
        raise InvalidValue(f"{name} got a state, but it {WHOLE}; give all steps at once, without a state.")


class S4DConvolution(TimeLayer):
    """The cell [`S4D`][lrcssm.cells.S4D] as the convolution that it is from a zero state, in O(T log T) and at once.

    Its outputs are those of the cell, but it cannot start from a state, and all steps take the same time: `dt` is a number
    or `None`. Padding is ignored.

    **Arguments:** as for the cell.
    """

    whole = WHOLE
    cell: S4D
    size: int = eqx.field(static=True)

    def __init__(
        self, input_dim: int, state_dim: int, *, init: Literal["lin", "inv"] = "lin", dt_min: float | int = 0.001,
        dt_max: float | int = 0.1, key: PRNGKeyArray,
    ):  # fmt: skip
        options: dict[str, Any] = {"init": init, "dt_min": dt_min, "dt_max": dt_max}
        self.cell = S4D(input_dim, state_dim, key=key, **options)  # pyright: ignore[reportCallIssue]
        self.size = input_dim

    def __call__(self, inputs: Float[Array, "time *batch width"], state: Any, context: Context) -> Outcome:
        _refuse_state("S4DConvolution", state)
        dt = context.dt
        if dt is not None and jnp.ndim(dt):
            raise InvalidValue(
                f"S4DConvolution got dt of shape {jnp.shape(dt)}, but a kernel is for steps that all take the same time; "
                "give a scalar, or take the cell S4D."
            )
        inputs, _, restore = pack(inputs, context)
        cell = self.cell
        if dt is not None:
            longer = cell.log_step + jnp.log(jnp.asarray(dt, cell.log_step.dtype))
            cell = eqx.tree_at(lambda cell: cell.log_step, cell, longer)
        outputs = fft_convolution(inputs, cell.kernel(inputs.shape[0])) + cell.d * inputs
        return Outcome(restore(outputs), None, None)


class Filters(eqx.Module):
    """Filters of any length, as a function of the position."""

    hidden: tuple[Linear, ...]
    frequency: Float[Array, " hidden"]
    out: Float[Array, "hidden filters"]
    bands: int = eqx.field(static=True)
    length: int = eqx.field(static=True)

    def __init__(
        self, filters: int, width: int, depth: int, bands: int, frequency: float, length: int, key: PRNGKeyArray
    ):
        *keys, last = jax.random.split(key, depth + 1)
        sizes = (1 + 2 * bands, *(width,) * depth)
        # From ±1/√inputs, as published, so that `frequency` alone says how fast the filters may change.
        self.hidden = tuple(Linear(sizes[i], width, keys[i], gain=3**-0.5) for i in range(depth))
        self.out = Linear(width, filters, last).weight
        self.frequency = jnp.full(width, float(frequency))
        self.bands, self.length = bands, length

    def __call__(self, steps: int) -> Float[Array, "steps filters"]:
        """Compute the first `steps` values of the filters, without a window."""
        t = jnp.arange(steps)[:, None]
        # Whole turns are taken off while the numbers are whole, so that rounding does not grow with t.
        turns = (t * jnp.arange(self.bands) % self.length).astype(self.out.dtype) / self.length
        share = t.astype(self.out.dtype) / self.length
        x = jnp.concatenate([share, jnp.cos(2 * jnp.pi * turns), jnp.sin(2 * jnp.pi * turns)], -1)
        for layer in self.hidden:
            x = jnp.sin(self.frequency * layer(x))
        return linear(x, self.out)


class Hyena(TimeLayer):
    """Gates and long convolutions, in turn.

    **Arguments:**

    - `input_dim`: features; there are as many outputs.
    - `state_dim`: width of the network that gives the filters, if `filter_width` is not given.
    - `order`: number of filters and gates.
    - `filter_width`, `filter_depth`: width and number of hidden layers of that network.
    - `bands`: frequencies among the features of a position.
    - `frequency`: of the sine activations at the start; it is learned.
    - `length`: how many steps the filters span: about the length of the sequences. Any other length works too.
    - `conv`: steps of the short convolution.
    """

    whole = WHOLE
    project: Linear
    short: ShortConvolution
    filters: Filters
    skip: Float[Array, "order width"]
    out: Linear
    size: int = eqx.field(static=True)
    order: int = eqx.field(static=True)

    def __init__(
        self, input_dim: int, state_dim: int, *, order: int = 2, filter_width: int | None = None, filter_depth: int = 3,
        bands: int = 8, frequency: float | int = 10.0, length: int = 1000, conv: int = 3, key: PRNGKeyArray,
    ):  # fmt: skip
        filter_width = state_dim if filter_width is None else filter_width
        at_least_one("Hyena", order=order, filter_width=filter_width, filter_depth=filter_depth, bands=bands)
        at_least_one("Hyena", length=length, conv=conv)
        keys = jax.random.split(key, 5)
        self.size, self.order = input_dim, order
        self.project = Linear(input_dim, (order + 1) * input_dim, keys[0])
        self.short = ShortConvolution(conv, (order + 1) * input_dim, keys[1])
        self.filters = Filters(order * input_dim, filter_width, filter_depth, bands, frequency, length, keys[2])
        self.skip = jax.random.normal(keys[3], (order, input_dim))
        self.out = Linear(input_dim, input_dim, keys[4])

    def __call__(self, inputs: Float[Array, "time *batch width"], state: Any, context: Context) -> Outcome:
        _refuse_state("Hyena", state)
        if context.dt is not None:
            raise InvalidValue("Hyena got dt, but it ignores the time between steps; give regular samples without dt.")
        inputs, _, restore = pack(inputs, context)
        x, _ = self.short(self.project(inputs))
        z, *gates = jnp.split(x, self.order + 1, -1)
        for gate, kernel, skip in zip(gates, self.kernels(inputs.shape[0]), self.skip, strict=True):
            z = gate * (fft_convolution(z, kernel) + skip * z)
        return Outcome(restore(self.out(z)), None, None)

    def kernels(self, steps: int) -> Float[Array, "order steps width"]:
        """Compute the first `steps` values of the long filters."""
        values = self.filters(steps).reshape(steps, self.order, self.size)
        rates = jnp.linspace(_DECAY / 1.5, _DECAY / 0.3, self.size, dtype=values.dtype) / self.filters.length
        t = jnp.arange(steps)[:, None].astype(values.dtype)
        window = jnp.sqrt(-jnp.expm1(-2 * rates)) * jnp.exp(-rates * t)
        return jnp.moveaxis(values, 1, 0) * window
