"""Cases, batches, and the paper's splits: against known numbers, and the stored ones where they are present."""

import os
import pathlib

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrcssm.data import Cases, arrange, batches, digits, full_size, padded_lengths
from lrcssm.data.batching import rung
from lrcssm_paper.splits import SEEDS, _key, _split, paper_split

DATA = pathlib.Path(os.environ.get("LRCSSM_DATA", "nowhere"))


def test_the_generator_gives_known_numbers():
    """`jax.random.split(jax.random.PRNGKey(0))` of JAX before 0.5, as its documentation printed it."""
    assert _split(_key(0), 2).tolist() == [[4146024105, 967050713], [2718843009, 1272950319]]


@pytest.mark.parametrize("cases", [3, 4, 236, 561, 2001])
def test_a_split_is_a_partition(cases):
    for seed in SEEDS:
        parts = paper_split(cases, seed)
        assert sorted(np.concatenate(parts).tolist()) == list(range(cases))
        assert len(parts.train) == int(0.7 * cases) and len(parts.train) + len(parts.validation) == int(0.85 * cases)
    assert paper_split(cases, 1).train.tolist() == paper_split(cases, 1).train.tolist()
    assert cases < 20 or paper_split(cases, 1).train.tolist() != paper_split(cases, 2).train.tolist()


def test_too_few_cases_are_refused():
    with pytest.raises(ValueError, match="2 cases"):
        paper_split(2, 0)


@pytest.mark.skipif(not (DATA / "paper_splits.npz").exists(), reason="LRCSSM_DATA does not name the benchmark data")
def test_splits_are_the_stored_ones():
    with np.load(DATA / "paper_splits.npz") as stored:
        names = [name for name in stored.files if not name.endswith("_labels")]
        assert len(names) == 30
        for name in names:
            order = stored[name]
            split = paper_split(len(order), int(name.rsplit("_", 1)[1]))
            np.testing.assert_array_equal(np.concatenate(split), order)


def test_cases_are_checked():
    for text, call in {
        "There is no case": lambda: Cases.of([]),
        r"Series 1 has shape \(3,\)": lambda: Cases.of([np.ones((3, 1)), np.ones(3)]),
        "Series 1 has 2 channels and series 0 has 1": lambda: Cases.of([np.ones((3, 1)), np.ones((3, 2))]),
        "Series 0 holds NaN": lambda: Cases.of([np.full((3, 1), np.nan)]),
        "2 series and 1 targets": lambda: Cases.of(np.ones((2, 3, 1)), [0]),
    }.items():
        with pytest.raises(ValueError, match=text):
            call()


@hypothesis.given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=30), size=st.integers(1, 7), shuffled=st.booleans()
)
def test_each_case_is_in_one_batch(lengths, size, shuffled):
    cases = Cases.of([np.full((n, 2), i + 1.0) for i, n in enumerate(lengths)], np.arange(len(lengths)))
    seen, shapes, full = [], set(), []
    for part, positions in batches(cases, size, np.random.default_rng(0) if shuffled else None):
        shapes.add(part.inputs.shape)
        assert part.targets is not None
        mask = np.ones(part.inputs.shape[:2], bool) if part.mask is None else part.mask
        for column, position in enumerate(positions):
            own = lengths[position]
            assert mask[:, column].sum() == own and own <= len(part.inputs)
            assert (part.inputs[:own, column] == position + 1).all() and (part.inputs[own:, column] == 0).all()
            assert part.targets[column] == position and part.weights[column] == 1
        assert part.weights.sum() == len(positions) and mask.any(0).all()
        seen += positions.tolist()
        full.append(len(positions) == size)
    assert sorted(seen) == list(range(len(lengths)))
    assert len(shapes) <= 3 and len({shape[1] for shape in shapes}) == 1
    assert full.count(False) <= 1  # batches are full but for one


def _of_lengths(lengths):
    return Cases.of([np.zeros((n, 1), np.float32) for n in lengths], np.zeros(len(lengths), int))


def test_500_lengths_give_three_shapes():
    shapes = {part.inputs.shape for part, _ in batches(_of_lengths(range(1, 501)), 16, np.random.default_rng(0))}
    assert shapes == {(128, 16, 1), (256, 16, 1), (512, 16, 1)}


def test_500_sets_of_one_length_give_few_shapes_once_a_length_is_known():
    """Predictions for series of ever other lengths, one after the other, with a model that was trained on one length."""
    lengths = {padded_lengths(_of_lengths([n]), known=(361,)) for n in range(1, 501)}
    assert len(lengths) <= 33 and (361,) in lengths
    for n in range(1, 501):
        (length,) = padded_lengths(_of_lengths([n]), known=(361,))
        assert n <= length <= 2 * n


@pytest.mark.parametrize(
    ("lengths", "known", "want"),
    [
        ([100] * 3, (), (100,)),  # equal lengths are not padded
        ([100] * 3, (100,), (100,)),
        ([100] * 3, (90, 190), (190,)),
        ([100] * 3, (90, 201), (112,)),  # 201 would more than double it
        ([29, 361, 150], (), (96, 192, 384)),
        ([30, 350, 170], (), (96, 192, 384)),  # another fold of the same data
        ([29, 361, 890], (48, 384), (48, 384, 896)),
        ([1, 2, 3], (), (1, 2, 3)),
        ([5, 9], (), (5, 10)),
    ],
)
def test_lengths_to_pad_to(lengths, known, want):
    assert padded_lengths(_of_lengths(lengths), known) == want


def test_the_ladder():
    rungs = sorted({rung(n) for n in range(1, 129)})
    assert rungs == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128]
    assert all(n <= rung(n) < 1.25 * n + 1 for n in range(1, 10_000))


def test_sizes_of_batches():
    assert [full_size(n, 16) for n in (1, 2, 3, 5, 9, 15, 16, 17, 500)] == [1, 2, 4, 8, 16, 16, 16, 16, 16]
    assert full_size(5, 12) == 8 and full_size(11, 12) == 12 and full_size(1, 12, multiple=3) == 3


def test_an_epoch_has_the_same_batches_each_time():
    cases = _of_lengths(np.random.default_rng(0).integers(1, 300, 101))
    plan = lambda seed: sorted((length, len(which)) for length, which in arrange(cases, 8, np.random.default_rng(seed)))
    assert plan(0) == plan(1) == plan(2)


def test_a_compiled_step_takes_a_batch():
    """Traced once for each shape; positions do not matter."""
    traced = []

    @jax.jit
    def step(batch):
        traced.append(batch.inputs.shape)
        return jnp.sum(batch.weights * batch.inputs.sum((0, 2)))

    cases = _of_lengths(np.random.default_rng(0).integers(1, 300, 101))
    for seed in range(3):
        for part, _ in batches(cases, 8, np.random.default_rng(seed)):
            step(part)
    assert len(traced) == len(set(traced)) <= 3


def test_weights_of_cases_and_classes():
    cases = Cases.of(np.zeros((3, 4, 1)), [0, 1, 1], weights=[1.0, 2.0, 0.5])
    ((part, _),) = batches(cases.take([1, 0, 2]), 4)
    assert part.weights.tolist() == [2.0, 1.0, 0.5, 0.0] and part.weights.dtype == np.float32
    assert part.weighted(np.array([10.0, 3.0])).weights.tolist() == [6.0, 10.0, 1.5, 0.0]
    assert part.weighted(None) is part
    ((numbers, _),) = batches(Cases.of(np.zeros((3, 4, 1)), [0.5, 1.0, 1.0]), 4)
    with pytest.raises(ValueError, match="not one class for each case"):
        numbers.weighted(np.ones(2))
    for odd in ([1, 2], [1, 2, -1], [1, 2, np.nan], [0, 0, 0]):
        with pytest.raises(ValueError, match="weights have shape"):
            Cases.of(np.zeros((3, 4, 1)), weights=odd)


def test_statistics_are_those_of_all_steps():
    rng = np.random.default_rng(0)
    series = [rng.normal(3, 2, (n, 2)) * [1, 10] for n in (5, 30, 11)]
    mean, scale, difference, *targets = Cases.of([np.c_[one, np.ones(len(one))] for one in series]).statistics()
    assert targets == [0, 1]
    everything = np.concatenate(series)
    np.testing.assert_allclose(mean[:2], everything.mean(0), rtol=1e-5)
    np.testing.assert_allclose(scale, [*everything.std(0), 1.0], rtol=1e-5)
    changes = np.concatenate([one[1:] - one[:-1] for one in series])
    np.testing.assert_allclose(difference, [*np.sqrt((changes**2).mean(0)), 1.0], rtol=1e-5)


def test_digits():
    train, validation, test = digits().parts()
    assert [len(part) for part in (train, validation, test)] == [1257, 270, 270]
    assert train.longest == 64 and train.channels == 1
