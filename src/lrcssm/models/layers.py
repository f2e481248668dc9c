"""Maps of the features of each step, and sums over observed steps."""

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..cells.base import linear

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "identity": lambda x: x,
}


Given = ParamSpec("Given")
Result = TypeVar("Result")


def in_its_precision(method: Callable[Concatenate[Any, Given], Result]) -> Callable[Concatenate[Any, Given], Result]:
    """Run a method of a model with the precision of matrix products that its configuration names."""

    @functools.wraps(method)
    def run(self: Any, *args: Given.args, **options: Given.kwargs) -> Result:
        if self.config.matmul == "float32":
            return method(self, *args, **options)
        with jax.default_matmul_precision(self.config.matmul):
            return method(self, *args, **options)

    return run


class Linear(eqx.Module):
    """`x w + b` on the last axis, any leading axes; weights from ±√(3/inputs), unit scale to unit scale."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, inputs: int, outputs: int, key: PRNGKeyArray, gain: float = 1.0):
        limit = gain * (3 / inputs) ** 0.5
        self.weight = jax.random.uniform(key, (inputs, outputs), minval=-limit, maxval=limit)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, "... inputs"]) -> Float[Array, "... outputs"]:
        return linear(x, self.weight) + self.bias


class MLP(eqx.Module):
    """Linear, activation, linear. With `released`, weights are drawn from ±√(6/outputs), as in the released code, which
    confuses the numbers of outputs and inputs."""

    first: Linear
    second: Linear
    activation: str = eqx.field(static=True)

    def __init__(
        self, inputs: int, hidden: int, outputs: int, activation: str, key: PRNGKeyArray, released: bool = False
    ):
        keys = jax.random.split(key)
        gains = (2**0.5, 1.0)
        if released:
            gains = ((2 * inputs / hidden) ** 0.5, (2 * hidden / outputs) ** 0.5)
        self.first = Linear(inputs, hidden, keys[0], gains[0])
        self.second = Linear(hidden, outputs, keys[1], gains[1])
        self.activation = activation

    def __call__(self, x: Float[Array, "... inputs"]) -> Float[Array, "... outputs"]:
        return self.second(self.hidden(x))

    def hidden(self, x: Float[Array, "... inputs"]) -> Float[Array, "... hidden"]:
        """Compute the features between the two maps."""
        return ACTIVATIONS[self.activation](self.first(x))


class GLU(eqx.Module):
    """Activation, then a linear map times the sigmoid of another."""

    value: Linear
    gate: Linear
    activation: str = eqx.field(static=True)

    def __init__(self, inputs: int, outputs: int, activation: str, key: PRNGKeyArray):
        keys = jax.random.split(key)
        self.value, self.gate = Linear(inputs, outputs, keys[0]), Linear(inputs, outputs, keys[1])
        self.activation = activation

    def __call__(self, x: Float[Array, "... inputs"]) -> Float[Array, "... outputs"]:
        x = ACTIVATIONS[self.activation](x)
        return self.value(x) * jax.nn.sigmoid(self.gate(x))


def normalise(x: Float[Array, "... features"]) -> Float[Array, "... features"]:
    """Layer norm without parameters: mean 0 and variance 1 over the features of each step."""
    x = x - jnp.mean(x, -1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-5)


def dropout(x: Float[Array, "time *rest"], rate: float, key: PRNGKeyArray | None) -> Float[Array, "time *rest"]:
    """Zero a share of the features, the same ones at all steps of a sample; without a key, none."""
    if rate == 0 or key is None:
        return x
    keep = jax.random.bernoulli(key, 1 - rate, x.shape[1:])
    return jnp.where(keep, x / (1 - rate), 0)


def moments(
    x: Float[Array, "time *batch features"], mask: Bool[Array, "time *batch"] | None
) -> tuple[Float[Array, "*batch features"], Float[Array, "*batch features"]]:
    """Mean and variance over the observed steps."""
    count = x.shape[0] if mask is None else jnp.maximum(jnp.sum(mask, 0), 1)[..., None].astype(x.dtype)
    mean = jnp.sum(masked(x, mask), 0) / count
    return mean, jnp.sum(masked((x - mean) ** 2, mask), 0) / count


def masked(x: Float[Array, "time *rest"], mask: Bool[Array, "time *batch"] | None, fill: float = 0.0) -> Array:
    """Replace padding by `fill`."""
    return x if mask is None else jnp.where(mask[..., None], x, fill)
