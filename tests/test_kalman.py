"""The damped linear problem against least squares in float64 numpy, and its edge cases."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrcssm.engine.kalman import smooth_dense, smooth_diagonal

SMOOTHERS = [smooth_diagonal, smooth_dense]
# On the first batch axis, so that all of them share one compilation; the second batch axis has length 2.
DAMPINGS = [0.0, 1e-6, 1e-2, 1.0, 100.0]
LENGTHS = [1, 2, 3, 17, 200]
TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-4, "complex64": 1e-4}
# Nearly all of the time goes into compiling, and most of it for the dense smoother.
QUICK = [
    *((smooth_diagonal, length, 3, dtype) for length in LENGTHS[:-1] for dtype in TOLERANCE),
    (smooth_diagonal, 200, 3, "float64"),
    (smooth_diagonal, 200, 3, "complex64"),
    (smooth_dense, 1, 3, "complex128"),
    (smooth_dense, 2, 1, "complex64"),
    (smooth_dense, 2, 2, "float64"),
    (smooth_dense, 3, 2, "complex128"),
    (smooth_dense, 3, 3, "float64"),
    (smooth_dense, 17, 3, "complex128"),
    (smooth_dense, 200, 2, "float32"),
]
SLOW = [
    *((smooth_diagonal, 200, 3, dtype) for dtype in TOLERANCE),
    *((smooth_dense, length, dim, dtype) for length in (17, 200) for dim in (1, 2, 3) for dtype in TOLERANCE),
]
CASES = [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW if case not in QUICK)]
SLOW_DENSE = pytest.param(smooth_dense, marks=pytest.mark.slow)
LONG = [case for case in CASES if 200 in getattr(case, "values", case)]


@functools.cache
def compiled(smoother):
    # The tests compile many shapes and run each for microseconds.
    return jax.jit(smoother, compiler_options={"xla_backend_optimization_level": 0})


def run(smoother, problem, damping, dtype):
    arguments = [jnp.asarray(value, dtype) for value in problem]
    out = compiled(smoother)(*arguments, jnp.asarray(damping))
    assert out.dtype == dtype and out.shape == problem[1].shape
    return np.asarray(out)


def make_problem(smoother, length, dim, dtype, batch=(len(DAMPINGS), 2)):
    """Jacobian, offset, guess and initial state; on average a contraction, at times not."""
    rng = np.random.default_rng(length + 10 * dim)

    def normal(*shape):
        values = rng.normal(size=(2, *shape))
        values = (values[0] + 1j * values[1]) / np.sqrt(2) if "complex" in dtype else values[0]
        return values.astype(dtype).astype(np.result_type(dtype, np.float64))

    matrix = (dim, dim) if smoother is smooth_dense else (dim,)
    scale = 0.9 / np.sqrt(dim) if smoother is smooth_dense else 0.9
    jacobian = scale * normal(length, *batch, *matrix)
    return jacobian, normal(length, *batch, dim), normal(length, *batch, dim), normal(*batch, dim)


def make_expanding(smoother, length, dim, dtype, batch=(len(DAMPINGS), 2)):
    """The same with factors that are 1.5 times a rotation."""
    jacobian, *rest = make_problem(smoother, length, dim, dtype, batch)
    if smoother is smooth_dense:
        return 1.5 * np.linalg.qr(jacobian)[0], *rest
    return 1.5 * jacobian / np.abs(jacobian), *rest


def least_squares(jacobian, offset, guess, initial, damping):
    """One sample, dense (T, D, D): the normal equations of all residuals at once."""
    length, dim = offset.shape
    size = length * dim
    model = np.eye(size, dtype=jacobian.dtype)
    for t in range(1, length):
        model[t * dim : (t + 1) * dim, (t - 1) * dim : t * dim] = -jacobian[t]
    constant = offset.copy()
    constant[0] += jacobian[0] @ initial
    adjoint = model.conj().T
    right = adjoint @ constant.ravel() + damping * guess.ravel()
    return np.linalg.solve(adjoint @ model + damping * np.eye(size), right).reshape(length, dim)


def reference(smoother, problem, dampings):
    """Every sample on its own, `dampings` along the first batch axis."""
    jacobian, offset, guess, initial = problem
    if smoother is smooth_diagonal:
        # Every entry is a sample of dimension 1.
        problem = jacobian[..., None, None], offset[..., None], guess[..., None], initial[..., None]
        return reference(smooth_dense, problem, dampings)[..., 0]
    out = np.zeros_like(offset)
    for i in np.ndindex(initial.shape[:-1]):
        now = (slice(None), *i)
        sample = jacobian[now], offset[now], guess[now], initial[i]
        out[now] = least_squares(*sample, dampings[i[0]])
    return out


def recurrence(smoother, problem):
    """The undamped solution."""
    jacobian, offset, _, state = problem
    out = np.zeros_like(offset)
    for t in range(len(offset)):
        if smoother is smooth_dense:
            state = (jacobian[t] @ state[..., None])[..., 0] + offset[t]
        else:
            state = jacobian[t] * state + offset[t]
        out[t] = state
    return out


def error(out, expected):
    """The largest error of every sample, relative to its own largest value."""
    axes = (0, *range(2, out.ndim))
    return np.abs(out - expected).max(axis=axes) / np.abs(expected).max(axis=axes)


def column(dampings):
    return np.reshape(dampings, (-1, 1, 1))


@pytest.mark.parametrize("smoother, length, dim, dtype", CASES)
def test_least_squares(smoother, length, dim, dtype):
    problem = make_problem(smoother, length, dim, dtype)
    out = run(smoother, problem, column(DAMPINGS), dtype)
    assert error(out, reference(smoother, problem, DAMPINGS)).max() < TOLERANCE[dtype]


@pytest.mark.parametrize("smoother, length, dim, dtype", CASES)
def test_no_damping_is_the_recurrence(smoother, length, dim, dtype):
    problem = make_problem(smoother, length, dim, dtype)
    out = run(smoother, problem, column([0.0] * len(DAMPINGS)), dtype)
    assert error(out, recurrence(smoother, problem)).max() < TOLERANCE[dtype] / 100


@pytest.mark.parametrize("smoother, length, dim, dtype", CASES)
def test_strong_damping_is_the_guess(smoother, length, dim, dtype):
    problem = make_problem(smoother, length, dim, dtype)
    out = run(smoother, problem, column([1e6, 1e10, 1e20, 1e30, 1e38]), dtype)
    assert (error(out, problem[2]) < [1e-4, 1e-6, 1e-6, 1e-6, 1e-6]).all()


@pytest.mark.parametrize("smoother, length, dim, dtype", LONG)
def test_expanding(smoother, length, dim, dtype):
    """The product of the factors is 1e35, and its square is beyond float32."""
    problem = make_expanding(smoother, length, dim, dtype)
    dampings = [1e-4, 1e-3, 1e-2, 1.0, 100.0]
    out = run(smoother, problem, column(dampings), dtype)
    assert error(out, reference(smoother, problem, dampings)).max() < TOLERANCE[dtype]


@pytest.mark.parametrize("smoother", [smooth_diagonal, SLOW_DENSE])
def test_expanding_for_long(smoother):
    problem = make_expanding(smoother, 2000, 2, "float32", batch=(1, 1))
    out = run(smoother, problem, column([1e-4]), "float32")
    assert np.isfinite(out).all()
    # With damping a step hardly knows of those far away: in its middle, a window gives the same as the whole.
    window = [value[900:1100] for value in problem[:3]] + [np.zeros_like(problem[3])]
    expected = reference(smoother, window, [1e-4])
    assert error(out[950:1050], expected[50:150]).max() < TOLERANCE["float32"]


@pytest.mark.parametrize("smoother", SMOOTHERS)
def test_undamped_overflow_stays_late(smoother):
    """A sample that overflows keeps its early steps, and leaves its neighbour alone."""
    length, dim, dtype = (17, 3, "complex128")
    jacobian, *rest = make_problem(smoother, length, dim, dtype)
    jacobian[8:10, :, 0] *= 1e200
    with np.errstate(over="ignore", invalid="ignore"):
        expected = recurrence(smoother, (jacobian, *rest))
    out = run(smoother, (jacobian, *rest), column([0.0] * len(DAMPINGS)), dtype)
    assert not np.isfinite(expected[-1, :, 0]).any()
    assert error(out[:9], expected[:9]).max() < 1e-11
    assert error(out[:, :, 1], expected[:, :, 1]).max() < 1e-11


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_diagonal_is_dense(dtype):
    dim = 2 if dtype == "complex128" else 3
    jacobian, *rest = make_problem(smooth_diagonal, 3, dim, dtype)
    matrices = jacobian[..., None] * np.eye(dim)
    diagonal = run(smooth_diagonal, (jacobian, *rest), column(DAMPINGS), dtype)
    dense = run(smooth_dense, (matrices, *rest), column(DAMPINGS), dtype)
    assert error(diagonal, dense).max() < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("smoother", SMOOTHERS)
def test_vmap(smoother):
    problem = [jnp.asarray(value) for value in make_problem(smoother, 2, 2, "complex128", (2,))]
    damping = jnp.asarray([[0.0], [0.1]])
    mapped = jax.vmap(smoother, in_axes=(1, 1, 1, 0, 0), out_axes=1)
    np.testing.assert_allclose(compiled(mapped)(*problem, damping), jax.jit(smoother)(*problem, damping), rtol=1e-12)


@pytest.mark.parametrize("smoother", [smooth_diagonal, SLOW_DENSE])
def test_jit(smoother):
    problem = [jnp.asarray(value) for value in make_problem(smoother, 3, 2, "float64", (2,))]
    np.testing.assert_allclose(jax.jit(smoother)(*problem, 0.1), smoother(*problem, 0.1), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("smoother", SMOOTHERS)
def test_damping_per_sample(smoother):
    """Two samples together equal each alone, for any shape and type of the damping."""
    problem = make_problem(smoother, 2, 2, "float64", (2,))
    together = run(smoother, problem, [[1e-3], [10.0]], "float64")
    for i, damping in enumerate([1e-3, 10.0]):
        alone = [jnp.asarray(value[:, i]) for value in problem[:3]] + [jnp.asarray(problem[3][i])]
        for form in (damping, jnp.asarray([damping])):
            out = compiled(smoother)(*alone, form)
            np.testing.assert_allclose(together[:, i], out, rtol=1e-7)
