"""Cases, batches, and the paper's splits: against known numbers, and the stored ones where they are present."""

import os
import pathlib

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from lrcssm.data import SEEDS, Cases, batches, digits, paper_split
from lrcssm.data.splits import _key, _split

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
    seen, shapes = [], set()
    for part in batches(cases, size, np.random.default_rng(0) if shuffled else None):
        assert part.inputs.shape == (len(part.inputs), size, 2) and part.targets is not None
        shapes.add(len(part.inputs))
        mask = np.ones(part.inputs.shape[:2], bool) if part.mask is None else part.mask
        for column, position in enumerate(part.positions):
            own = lengths[position]
            assert mask[:, column].sum() == own and own <= len(part.inputs)
            assert (part.inputs[:own, column] == position + 1).all() and (part.inputs[own:, column] == 0).all()
            assert part.targets[column] == position and part.weights[column] == 1
        assert part.weights.sum() == len(part.positions) and mask.any(0).all()
        seen += part.positions.tolist()
    assert sorted(seen) == list(range(len(lengths)))
    assert len(shapes) <= 16


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
    cases, split = digits()
    assert len(cases) == 1797 and cases.longest == 64 and cases.channels == 1
    assert sorted(np.concatenate(split).tolist()) == list(range(1797))
