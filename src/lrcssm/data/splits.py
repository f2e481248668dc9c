"""The paper's splits, in numpy: which cases of a data set are for training, validation and test.

They were drawn with the random generator that JAX had before version 0.5 (Threefry-2x32 whose counters are cut in two
halves), which newer versions of JAX do not give by default. So it is written out here: Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3" (2011), and what JAX made of it.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt32

SEEDS = (2345, 3456, 4567, 5678, 6789)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


class Split(NamedTuple):
    """Positions of the cases of each part."""

    train: Int[np.ndarray, " train"]
    validation: Int[np.ndarray, " validation"]
    test: Int[np.ndarray, " test"]

    @classmethod
    def of(cls, order: Int[np.ndarray, " cases"]) -> "Split":
        """70, 15 and 15 % of the cases in a given order."""
        return cls(*np.split(order, [int(0.7 * len(order)), int(0.85 * len(order))]))


def paper_split(cases: int, seed: int) -> Split:
    """70 % for training, 15 % for validation and the rest for test, as the paper's experiments drew them.

    ```python
    from lrcssm.data import paper_split

    split = paper_split(561, seed=2345)
    print(len(split.train), len(split.validation), len(split.test))  # 392 84 85
    ```

    **Arguments:**

    - `cases`: of the whole data set: the archive's training and test part together, without duplicates, sorted.
    - `seed`: the paper's are 2345, 3456, 4567, 5678 and 6789.
    """
    if cases < 3:
        raise ValueError(f"paper_split got {cases} cases; there must be at least 3 to make three parts.")
    data_key = _split(_key(seed), 4)[0]
    return Split.of(_permutation(_split(data_key, 2)[0], cases))


def _key(seed: int) -> UInt32[np.ndarray, "2"]:
    return np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)


def _split(key, count: int) -> UInt32[np.ndarray, "count 2"]:
    return _bits(key, 2 * count).reshape(count, 2)


def _permutation(key, count: int) -> Int[np.ndarray, " count"]:
    order = np.arange(count)
    for _ in range(math.ceil(3 * math.log(max(1, count)) / math.log(2**32 - 1))):
        key, now = _split(key, 2)
        order = order[np.argsort(_bits(now, count), kind="stable")]
    return order


def _bits(key, count: int) -> UInt32[np.ndarray, " count"]:
    """Random bits: the counters 0, 1, ... in two halves, encrypted."""
    counters = np.arange(count + count % 2, dtype=np.uint32)
    counters[count:] = 0
    return np.concatenate(_threefry(key, *np.split(counters, 2)))[:count]


def _threefry(key, x, y):
    keys = (*key, key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        x, y = x + keys[0], y + keys[1]
        for block in range(5):
            for rotation in _ROTATIONS[block % 2]:
                x = x + y
                y = (y << np.uint32(rotation) | y >> np.uint32(32 - rotation)) ^ x
            x = x + keys[(block + 1) % 3]
            y = y + keys[(block + 2) % 3] + np.uint32(block + 1)
    return x, y
