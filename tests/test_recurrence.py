"""Linear recurrences against a numpy loop: diagonal, 2×2, dense; real, complex; both directions; both evaluations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import distance, normal
from jax.test_util import check_grads

from lrcssm import linear_recurrence

SHAPES = {
    "diagonal": ((3, 4), (3, 4)),
    "unbatched": ((5,), (5,)),
    "2×2": ((3, 2), (3, 2, 2)),
    "dense": ((2, 6), (2, 6, 6)),
}


def problem(shape, length, dtype=jnp.float64):
    vector, matrix = SHAPES[shape]
    rng = np.random.default_rng(length)
    size = matrix[-1] if len(matrix) > len(vector) else 1
    transition = normal(rng, (length, *matrix), dtype) * (0.7 / size)
    return transition, normal(rng, (length, *vector), dtype), normal(rng, vector, dtype)


def loop(a, b, x, reverse):
    a, b, x = (np.asarray(v) for v in (a, b, x))
    out = np.zeros_like(b)
    for t in reversed(range(len(b))) if reverse else range(len(b)):
        x = (np.einsum("...ij,...j->...i", a[t], x) if a.ndim > b.ndim else a[t] * x) + b[t]
        out[t] = x
    return out


@pytest.mark.parametrize("parallel", [True, False], ids=["parallel", "sequential"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize(
    "dtype", [jnp.float64, pytest.param(jnp.complex128, marks=pytest.mark.slow)], ids=["real", "complex"]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_a_loop(shape, dtype, reverse, parallel):
    for length in (1, 2, 17, 300):
        a, b, x = problem(shape, length, dtype)
        got = linear_recurrence(a, b, x, reverse=reverse, parallel=parallel)
        assert distance(got, loop(a, b, x, reverse)) < 1e-12
        got = linear_recurrence(a, b, reverse=reverse, parallel=parallel)
        assert distance(got, loop(a, b, 0 * x, reverse)) < 1e-12


@pytest.mark.parametrize("parallel", [True, False], ids=["parallel", "sequential"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_finite_differences(shape, reverse, parallel):
    a, b, x = problem(shape, 5)

    def function(a, b, x):
        a, b, x = (jnp.asarray(v) for v in (a, b, x))  # check_grads moves them as numpy arrays
        return linear_recurrence(a, b, x, reverse=reverse, parallel=parallel)

    check_grads(function, (a, b, x), order=1, modes=["fwd", "rev"], rtol=1e-5, atol=1e-6)
    mapped = jax.vmap(function)(jnp.stack([a, 2 * a]), jnp.stack([b, b]), jnp.stack([x, -x]))
    assert distance(mapped[1], loop(2 * a, b, -x, reverse)) < 1e-12


def test_wrong_arguments_are_explained():
    with pytest.raises(ValueError, match=r"transition of shape \(4, 2\) for an offset of shape \(4, 3\)"):
        linear_recurrence(jnp.ones((4, 2)), jnp.ones((4, 3)))
    with pytest.raises(TypeError, match="same dtype"):
        linear_recurrence(jnp.ones((4, 2), jnp.float32), jnp.ones((4, 2), jnp.float64))
