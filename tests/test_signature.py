"""Signatures and log-signatures: against iterated integrals written out, and against signax."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import signax
from cases import distance, normal

from lrcssm import ModelConfig
from lrcssm.models import signature as module
from lrcssm.models.features import Features
from lrcssm.models.signature import log_signature_size, signature_size, valid_first

# One compilation for each shape, and not one for each operation.
signature = jax.jit(module.signature, static_argnums=1)
log_signatures = jax.jit(module.log_signatures, static_argnames=("depth", "step"))
window_signatures = jax.jit(module.window_signatures, static_argnames=("windows", "level", "view"))


def iterated_integrals(path, level):
    """Each word of a piecewise-linear path, integrated piece by piece: on a piece, everything is a polynomial of the
    share that has passed, held by its coefficients."""
    words = [word for k in range(1, level + 1) for word in itertools.product(range(path.shape[1]), repeat=k)]
    values = {(): 1.0} | {word: 0.0 for word in words}
    for step in np.diff(path, axis=0):
        polynomials = {(): np.array([1.0])}
        for word in words:
            inside = polynomials[word[:-1]] * step[word[-1]]
            polynomials[word] = np.concatenate([[values[word]], inside / np.arange(1, len(inside) + 1)])
        values = {word: polynomial.sum() for word, polynomial in polynomials.items()}
    return np.array([values[word] for word in words])


def log_signature(path, depth):
    """Increments and signed areas, by the shoelace formula against the first point."""
    moved = path - path[0]
    pairs = itertools.combinations(range(path.shape[1]), 2)
    areas = [0.5 * np.sum(moved[:-1, i] * moved[1:, j] - moved[:-1, j] * moved[1:, i]) for i, j in pairs]
    return np.concatenate([moved[-1], areas if depth == 2 else []])


def walk(shape, seed=0):
    return normal(np.random.default_rng(seed), shape, jnp.float64)


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_signature_is_the_iterated_integrals(level):
    path = np.asarray(walk((7, 2, 3)))
    got = signature(path, level)
    assert got.shape == (2, signature_size(3, level))
    want = np.stack([iterated_integrals(path[:, b], level) for b in range(2)])
    assert distance(got, want) < 1e-12
    assert distance(signature(path[:1], level), np.zeros(got.shape)) == 0


def test_signax_agrees():
    path = walk((9, 3))
    assert distance(signature(path, 3), signax.signature(path, 3)) < 1e-12
    # signax gives the coefficients of the Lyndon words i < j, which at this depth are those of the Hall basis.
    whole = np.concatenate([np.zeros((1, 3)), path])
    assert distance(log_signatures(path, depth=2, step=9)[0], signax.logsignature(whole, 2)) < 1e-12


@pytest.mark.parametrize("step", [1, 3, 20])
def test_log_signatures_of_intervals(step):
    path = np.asarray(walk((11, 2, 3)))
    for depth in (1, 2):
        got = np.asarray(log_signatures(path, depth=depth, step=step))
        assert got.shape == (-(-11 // step), 2, log_signature_size(3, depth))
        for b in range(2):
            points = np.concatenate([np.zeros((1, 3)), path[:, b]])
            want = [log_signature(points[i : i + step + 1], depth) for i in range(0, 11, step)]
            assert distance(got[:, b], np.stack(want)) < 1e-12


def test_log_signatures_of_what_is_valid():
    path = np.asarray(walk((11, 2, 3)))
    mask = np.random.default_rng(1).random((11, 2)) < 0.6
    got = np.asarray(log_signatures(np.where(mask[..., None], path, np.nan), depth=2, step=2, mask=mask))
    for b in range(2):
        points = np.concatenate([np.zeros((1, 3)), path[mask[:, b], b]])
        want = np.stack([log_signature(points[i : i + 3], 2) for i in range(0, len(points) - 1, 2)])
        assert distance(got[: len(want), b], want) < 1e-12
        assert np.all(got[len(want) :, b] == 0)
    with pytest.raises(ValueError, match="depth=3; give 1"):
        log_signatures(path, depth=3, step=2)


@pytest.mark.parametrize(("length", "windows"), [pytest.param(20, 4, marks=pytest.mark.slow), (11, 4), (3, 5)])
def test_windows(length, windows):
    """Local ones are those of the window from the end of the one before, global ones those of all that was so far."""
    path = np.asarray(walk((length, 2, 2)))
    got = np.asarray(window_signatures(path, windows=windows, level=3, view="both"))
    size = signature_size(2, 3)
    assert got.shape == (windows, 2, 2 * size)
    ends = [min((k + 1) * max(length, windows) // windows, length) for k in range(windows)]
    for k, (start, end) in enumerate(itertools.pairwise([1, *ends])):
        for b in range(2):
            points = path[:, b]
            local, whole = iterated_integrals(points[start - 1 : end], 3), iterated_integrals(points[:end], 3)
            np.testing.assert_allclose(got[k, b], np.concatenate([local, whole]), rtol=1e-12, atol=1e-12)
    for view, part in (("local", got[..., :size]), ("global", got[..., size:])):
        assert np.array_equal(window_signatures(path, windows=windows, level=3, view=view), part)


def test_windows_of_what_is_valid():
    path = np.asarray(walk((20, 3, 2)))
    mask = np.stack([np.arange(20) < 13, np.arange(20) % 3 > 0, np.zeros(20, bool)], 1)
    filled = np.where(mask[..., None], path, np.nan)
    got = np.asarray(window_signatures(filled, windows=4, level=2, view="both", mask=mask))
    for b in range(2):  # both have 13 valid steps
        alone = window_signatures(path[mask[:, b], b], windows=4, level=2, view="both")
        assert distance(got[:, b], alone) < 1e-12
    assert np.all(got[:, 2] == 0)


def test_valid_first():
    x = np.arange(5.0)[:, None] * np.ones(3)
    mask = np.array(
        [[False, True, False], [True, True, False], [False, False, False], [True, True, False], [False] * 3]
    )
    first, count = jax.jit(valid_first)(x[..., None], mask)
    np.testing.assert_array_equal(first[..., 0].T, [[1, 3, 3, 3, 3], [0, 1, 3, 3, 3], [0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(count, [2, 3, 0])


def test_gradient():
    path, weights = np.asarray(walk((9, 2))), walk((3, 2 * signature_size(2, 3)), 1)
    mask = np.arange(9) != 4

    @jax.jit
    def total(path):
        held = window_signatures(path, windows=3, level=3, view="both", mask=mask)
        return jnp.sum(weights * held) + jnp.sum(log_signatures(path, depth=2, step=3, mask=mask) ** 2)

    got, rng, eps = np.asarray(jax.jit(jax.grad(total))(path)), np.random.default_rng(2), 1e-6
    for _ in range(3):
        way = rng.normal(size=path.shape)
        want = (total(path + eps * way) - total(path - eps * way)) / (2 * eps)
        assert distance(np.sum(got * way), want) < 1e-7
    assert np.all(got[4] == 0)


FRONT = {"input_dim": 3, "output_dim": 2, "hidden_dim": 8, "state_dim": 6, "num_blocks": 1}
SIGNATURES = {
    "local": {"windows": 4, "view": "local", "level": 3},
    "both, univariate": {"windows": 4, "univariate": True},
    "more windows than steps": {"windows": 15, "level": 1},
}


def features(**changes):
    return Features(ModelConfig(**(FRONT | changes)))


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == "local" else []) for n in SIGNATURES])
def test_front_end(name):
    """Windows of a padded sequence are those that it has alone, whatever is in the padding; the size is as
    announced."""
    front = features(signature=SIGNATURES[name], standardise="none")
    made = eqx.filter_jit(front)
    windows = SIGNATURES[name]["windows"]
    inputs = np.asarray(walk((20, 2, 3)))
    mask = np.arange(20)[:, None] < np.array([20, 12])
    dt = np.random.default_rng(3).uniform(0.5, 1.5, (20, 2))
    tokens, between, valid = (np.asarray(a) for a in made(np.where(mask[..., None], inputs, np.nan), dt, mask, None))
    assert tokens.shape == (windows, 2, front.size)
    alone, between_alone, valid_alone = made(inputs[:12, 1], dt[:12, 1], None, None)
    here = valid[:, 1]
    assert here.sum() == min(windows, 12) and (valid_alone is None or np.array_equal(here, valid_alone))
    assert distance(tokens[here, 1], np.asarray(alone)[here]) < 1e-12
    assert distance(between[here, 1], np.asarray(between_alone)[here]) < 1e-12
    # All windows together last as long as all steps do, in units of a window's share of the steps.
    assert distance(np.sum(between[here, 1]) * max(12 / windows, 1), np.sum(dt[:12, 1])) < 1e-12


def test_univariate_signatures_are_those_of_time_and_channel():
    inputs = np.asarray(walk((10, 3)))
    front = features(signature={"windows": 2, "univariate": True, "view": "global"}, standardise="none")
    tokens, dt, mask = eqx.filter_jit(front)(inputs, None, None, None)
    assert dt is None and mask is None
    time = np.arange(1, 11) / 10
    want = [iterated_integrals(np.stack([time, inputs[:, c]], 1), 2) for c in range(3)]
    assert distance(tokens[-1], np.concatenate(want)) < 1e-12


def test_configuration():
    config = ModelConfig(**FRONT, signature={"windows": 4})
    assert dict(config.signature) == {"windows": 4, "level": 2, "view": "both", "univariate": False}
    assert ModelConfig.from_json(config.to_json()) == config and hash(config) == hash(config.replace())
    for text, changes in {
        "a signature with sort; give some of windows": {"signature": {"windows": 4, "sort": 1}},
        "windows=None; give a whole number": {"signature": {"level": 2}},
        "level=0; give a whole number": {"signature": {"windows": 4, "level": 0}},
        "view='far'; give one of local, global, both": {"signature": {"windows": 4, "view": "far"}},
        "univariate=1; give true or false": {"signature": {"windows": 4, "univariate": 1}},
        "patch=2; windows are patches": {"signature": {"windows": 4}, "patch": 2},
        "windows have outputs, but not steps": {"signature": {"windows": 4}, "task": "per-step"},
        "give include_time=False": {"signature": {"windows": 4, "univariate": True}, "include_time": True},
    }.items():
        with pytest.raises(ValueError, match=text):
            ModelConfig(**(FRONT | changes))
