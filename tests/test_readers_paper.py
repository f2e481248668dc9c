"""The paper's order and splits of what was read, against numpy's own sort and the stored ones where they are present."""

import os
import pathlib

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest

from lrcssm.data import Dataset, Split
from lrcssm.data.readers import read
from lrcssm_paper.splits import SEEDS, paper_order, paper_parts, paper_split

DATA = pathlib.Path(os.environ.get("LRCSSM_DATA", "nowhere"))


@hypothesis.given(hnp.arrays(np.float32, (7, 3, 2), elements=st.sampled_from([-1e-40, -2.5, -0.0, 0.0, 1.0, 1e38])))
def test_the_order_is_that_of_unique(values):
    found = paper_order(Dataset("a", tuple(values)))
    expected, first = np.unique(values.reshape(7, -1), axis=0, return_index=True)
    np.testing.assert_array_equal(values.reshape(7, -1)[found], expected)
    np.testing.assert_array_equal(found, first)


def test_the_papers_parts():
    values = np.random.default_rng(0).normal(size=(40, 5, 2)).astype(np.float32)
    whole = Dataset("whole", (*values, values[3]))
    order = paper_order(whole)
    assert sorted(order.tolist()) == list(range(40))
    expected = Split(*(order[part] for part in paper_split(40, 2345)))
    kept = np.sort(np.concatenate([paper_split(40, 2345).train[5:], *paper_split(40, 2345)[1:]]))
    part = Dataset("part", tuple(values[order[kept]]), index=kept, total=40)
    found = paper_parts(part, 2345)
    for a, b, c in zip(paper_parts(whole, 2345), expected, found, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.stack([part.series[i] for i in c]), values[b[len(b) - len(c) :]])
    assert [len(one) for one in found] == [23, 6, 6]
    with pytest.raises(ValueError, match="lacks"):
        paper_parts(part, 1)
    with pytest.raises(ValueError, match="has 35 of 40 cases and no index"):
        paper_parts(Dataset("part", part.series, total=40), 2345)
    with pytest.raises(ValueError, match="different lengths"):
        paper_order(Dataset("a", (values[0], values[1, :2])))


@pytest.mark.skipif(not (DATA / "paper_splits.npz").exists(), reason="LRCSSM_DATA does not name the benchmark data")
@pytest.mark.parametrize("name", ["SelfRegulationSCP1", "SelfRegulationSCP2", "EthanolConcentration", "MotorImagery"])
def test_parts_of_the_benchmark_are_the_stored_ones(name):
    found = read(DATA / f"{name}.npz")
    assert found.index is not None and found.total is not None
    np.testing.assert_array_equal(paper_order(found), np.arange(len(found)))
    with np.load(DATA / "paper_splits.npz") as stored:
        np.testing.assert_array_equal(found.targets, stored[f"{name}_labels"][found.index])
        for seed in SEEDS:
            order = stored[f"{name}_{seed}"]
            parts = paper_parts(found, seed)
            ends = [int(0.7 * found.total), int(0.85 * found.total)]
            for part, expected in zip(parts, np.split(order, ends), strict=True):
                np.testing.assert_array_equal(found.index[part], expected[np.isin(expected, found.index)])
            assert len(parts.validation) == ends[1] - ends[0] and len(parts.test) == found.total - ends[1]
