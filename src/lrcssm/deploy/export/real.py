"""Complex arithmetic in real numbers, for formats without complex ones.

A function is traced, and its operations are evaluated on pairs of real and imaginary parts. A part that is known to be zero is
left out.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core


class Pair(NamedTuple):
    """Real and imaginary part of a complex array; an imaginary part of `None` is zero."""

    re: Any
    im: Any


def without_complex(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of real arrays in real arithmetic, up to rounding. Its outputs must be real too."""

    def run(*arguments):
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        if not _has_complex(closed.jaxpr):
            return function(*arguments)
        found = _evaluate(closed.jaxpr, closed.consts, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), found)

    return run


_LOOPS = ("scan", "while", "cond")


def _is_complex(atom: Any) -> bool:
    return jnp.issubdtype(atom.aval.dtype, jnp.complexfloating)


def _has_complex(jaxpr: Any) -> bool:
    atoms = (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars)
    return any(map(_is_complex, atoms)) or any(map(_concerns, jaxpr.eqns))


def _concerns(equation: Any) -> bool:
    """Test for complex numbers in an operation or in a function that it calls."""
    if any(map(_is_complex, (*equation.invars, *equation.outvars))):
        return True
    return any(_has_complex(getattr(inner, "jaxpr", inner)) for inner in _inside(equation.params))


def _inside(params: dict[str, Any]) -> list[Any]:
    parts = [one for value in params.values() for one in (value if isinstance(value, tuple | list) else (value,))]
    return [one for one in parts if isinstance(one, core.Jaxpr | core.ClosedJaxpr)]


def _evaluate(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """Evaluate a jaxpr with a pair for each complex number."""
    known: dict[Any, Any] = {}

    def read(atom: Any) -> Any:
        value = _number(atom) if isinstance(atom, core.Literal) else known[atom]
        return _pair(value) if _is_complex(atom) else value

    known |= dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))
    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        if _concerns(equation) or (_inside(equation.params) and equation.primitive.name not in _LOOPS):
            found = _translate(equation, inputs)
        else:
            found = equation.primitive.bind(*inputs, **equation.params)
            found = found if equation.primitive.multiple_results else [found]
        known |= dict(zip(equation.outvars, found, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _number(literal: Any) -> np.ndarray:
    return np.asarray(literal.val, literal.aval.dtype)


def _pair(value: Any) -> Pair:
    if isinstance(value, Pair):
        return value
    return Pair(value.real, None if isinstance(value, np.ndarray) and not value.imag.any() else value.imag)


def _translate(equation: Any, inputs: list[Any]) -> list[Any]:
    # jax2onnx replaces some primitives by its own, with names such as jax.numpy.tanh.
    name, params = equation.primitive.name.rpartition(".")[2], equation.params
    if name == "scan":
        return _scan(params, inputs)
    if name == "cond":
        return _cond(params, inputs)
    if name == "while":
        raise NotImplementedError("complex numbers in a loop of unknown length")
    if inner := _inside(params):  # jit, custom_jvp and their like
        closed = inner[0]
        return _evaluate(getattr(closed, "jaxpr", closed), getattr(closed, "consts", ()), inputs)
    if name in _RULES:
        return [_RULES[name](*inputs)]
    if name in _RULES_WITH_OPTIONS:
        return [_RULES_WITH_OPTIONS[name](*inputs, **params)]
    if name not in _OF_EACH_PART:
        raise NotImplementedError(f"{name} of complex numbers")
    bind = lambda values: equation.primitive.bind(*values, **params)
    pairs = [value for value in inputs if isinstance(value, Pair)]
    re = bind([value.re if isinstance(value, Pair) else value for value in inputs])
    if all(pair.im is None for pair in pairs):
        return [Pair(re, None)]
    return [Pair(re, bind([_whole(value).im if isinstance(value, Pair) else value for value in inputs]))]


def _whole(value: Any) -> Any:
    """A pair with both parts, as loops and conditionals need it."""
    return Pair(value.re, jnp.zeros_like(value.re)) if isinstance(value, Pair) and value.im is None else value


def _scan(params: dict[str, Any], inputs: list[Any]) -> list[Any]:
    consts, carried = params["num_consts"], params["num_carry"]
    closed, still = params["jaxpr"], inputs[:consts]

    def body(carry, now):
        found = list(map(_whole, _evaluate(closed.jaxpr, closed.consts, [*still, *carry, *now])))
        return found[:carried], found[carried:]

    begin, moving = list(map(_whole, inputs[consts : consts + carried])), inputs[consts + carried :]
    length = None if moving else params["length"]  # a symbolic one may not be given
    last, outputs = lax.scan(body, begin, moving, length=length, reverse=params["reverse"])
    return [*last, *outputs]


def _cond(params: dict[str, Any], inputs: list[Any]) -> list[Any]:
    which, *others = inputs
    run = lambda closed: lambda *given: list(map(_whole, _evaluate(closed.jaxpr, closed.consts, given)))
    return lax.switch(which, list(map(run, params["branches"])), *others)


def _plus(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _minus(a: Any, b: Any) -> Any:
    return a if b is None else (-b if a is None else a - b)


def _by(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a * b


def _multiply(a: Pair, b: Pair) -> Pair:
    re = _minus(a.re * b.re, _by(a.im, b.im))
    return Pair(re, _plus(_by(a.re, b.im), _by(a.im, b.re)))


def _divide(a: Pair, b: Pair) -> Pair:
    if b.im is None:
        return Pair(a.re / b.re, None if a.im is None else a.im / b.re)
    size = b.re * b.re + b.im * b.im
    found = _multiply(a, Pair(b.re, -b.im))
    return Pair(found.re / size, found.im / size)


def _exponential(z: Pair) -> Pair:
    if z.im is None:
        return Pair(jnp.exp(z.re), None)
    size = jnp.exp(z.re)
    return Pair(size * jnp.cos(z.im), size * jnp.sin(z.im))


def _exponential_less_one(z: Pair) -> Pair:
    if z.im is None:
        return Pair(jnp.expm1(z.re), None)
    half = jnp.sin(z.im / 2)
    return Pair(jnp.expm1(z.re) * jnp.cos(z.im) - 2 * half * half, jnp.exp(z.re) * jnp.sin(z.im))


def _logistic(z: Pair) -> Pair:
    """1 / (1 + exp(−z)), without overflow, and accurate near its poles."""
    if z.im is None:
        return Pair(jax.nn.sigmoid(z.re), None)
    t, cos, sin = jnp.exp(-jnp.abs(z.re)), jnp.cos(z.im / 2), jnp.sin(z.im / 2)
    size = (1 - t) ** 2 + 4 * t * cos * cos
    re = jnp.where(z.re >= 0, (1 - t) + 2 * t * cos * cos, t * ((t - 1) + 2 * cos * cos))
    return Pair(re / size, 2 * t * sin * cos / size)


def _tanh(z: Pair) -> Pair:
    if z.im is None:
        return Pair(jnp.tanh(z.re), None)
    t, cos, sin = jnp.exp(-2 * jnp.abs(z.re)), jnp.cos(z.im), jnp.sin(z.im)
    size = (1 - t) ** 2 + 4 * t * cos * cos
    return Pair(jnp.where(z.re >= 0, 1 - t * t, t * t - 1) / size, 4 * t * sin * cos / size)


def _product(a: Pair, b: Pair, **params: Any) -> Pair:
    params["preferred_element_type"] = a.re.dtype
    params.pop("out_sharding", None)
    dot = lambda x, y: None if x is None or y is None else lax.dot_general(x, y, **params)
    re = _minus(dot(a.re, b.re), dot(a.im, b.im))
    return Pair(re, _plus(dot(a.re, b.im), dot(a.im, b.re)))


def _converted(value: Any, new_dtype: Any, **params: Any) -> Any:
    real = jnp.finfo(new_dtype).dtype
    if not isinstance(value, Pair):
        return Pair(jnp.asarray(value, real), None)
    if not jnp.issubdtype(new_dtype, jnp.complexfloating):
        return value.re.astype(new_dtype)
    return Pair(value.re.astype(real), None if value.im is None else value.im.astype(real))


def _sum(a: Pair, b: Pair) -> Pair:
    return Pair(a.re + b.re, _plus(a.im, b.im))


def _difference(a: Pair, b: Pair) -> Pair:
    return Pair(a.re - b.re, _minus(a.im, b.im))


def _size(z: Pair) -> Any:
    return jnp.abs(z.re) if z.im is None else jnp.sqrt(z.re * z.re + z.im * z.im)


_RULES: dict[str, Callable[..., Any]] = {
    "complex": lambda re, im: Pair(re, im),
    "real": lambda z: z.re,
    "imag": lambda z: _whole(z).im,
    "conj": lambda z: Pair(z.re, None if z.im is None else -z.im),
    "add": _sum,
    "add_any": _sum,
    "sub": _difference,
    "neg": lambda z: Pair(-z.re, None if z.im is None else -z.im),
    "mul": _multiply,
    "square": lambda z: _multiply(z, z),
    "div": _divide,
    "abs": _size,
    "exp": lambda z: _exponential(z),
    "expm1": lambda z: _exponential_less_one(z),
    "logistic": lambda z: _logistic(z),
    "tanh": lambda z: _tanh(z),
}
_RULES_WITH_OPTIONS: dict[str, Callable[..., Any]] = {
    "convert_element_type": _converted,
    "dot_general": _product,
    "zeros": lambda *_, shape, dtype, **__: Pair(jnp.zeros(shape, jnp.finfo(dtype).dtype), None),
}
_OF_EACH_PART = (
    "broadcast_in_dim", "concatenate", "copy", "copy_p", "cumsum", "dynamic_slice", "dynamic_update_slice", "expand_dims",
    "gather", "optimization_barrier", "reduce_sum", "reshape", "rev", "select_n", "slice", "squeeze", "stop_gradient",
    "transpose",
)  # fmt: skip
"""Linear operations, which apply to the real and the imaginary part separately."""
