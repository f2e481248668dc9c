"""The paper's splits of a data set.

The protocol puts the archive's training and test cases together in single precision, drops exact duplicates, sorts what
is left lexicographically by its values, time by time, and only then permutes it by seed (`paper_split`).

The permutations were drawn with the random generator that JAX had before version 0.5 (Threefry-2x32 whose counters are
cut in two halves), which newer versions of JAX do not give by default. So it is written out here: Salmon et al.,
"Parallel random numbers: as easy as 1, 2, 3" (2011), and the use that JAX made of it.
"""

import math

import numpy as np
from jaxtyping import Int, UInt32

from lrcssm.data import Dataset, Split
from lrcssm.errors import InvalidValue

SEEDS = (2345, 3456, 4567, 5678, 6789)
"""The paper's five seeds."""
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def paper_order(dataset: Dataset) -> np.ndarray:
    """The cases in the order that the protocol permutes.

    ```python
    import numpy as np
    from lrcssm.data import Dataset
    from lrcssm_paper.splits import paper_order

    series = tuple(np.array([[float(value)]], np.float32) for value in (3, 1, 2, 1))
    print(paper_order(Dataset("four", series)))  # [1 2 0]
    ```

    **Arguments:**

    - `dataset`: complete, its training cases before its test cases, all of one length.

    **Returns:**

    Positions in `dataset`, fewer than it has cases if some are exactly equal: of these only the first is kept.
    """
    if len({len(one) for one in dataset.series}) > 1:
        raise InvalidValue(
            f"{dataset.name} has series of different lengths; the paper's order is defined for equal ones."
        )
    # As np.unique(axis=0), which is slow over many columns: big-endian bits whose sign is turned around compare,
    # byte by byte, as the numbers do. Adding 0 makes one zero of two.
    keys = []
    for one in dataset.series:
        bits = (one.astype(np.float32).ravel() + np.float32(0)).view(np.uint32)
        keys.append(np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31)).astype(">u4").tobytes())
    first = {key: i for i, key in reversed(list(enumerate(keys)))}
    return np.array([first[key] for key in sorted(first)])


def paper_parts(dataset: Dataset, seed: int) -> Split:
    """The paper's training, validation and test cases of a data set.

    **Arguments:**

    - `dataset`: a complete one, as from the archive's folder, or a part of one that has an `index`; cases that are not there
        are left out of the training part.
    - `seed`: the paper's are 2345, 3456, 4567, 5678 and 6789.

    **Returns:**

    Positions in `dataset`, for `dataset.parts(split=...)`.
    """
    if dataset.index is None:
        if dataset.total is not None and dataset.total != len(dataset):
            raise InvalidValue(
                f"{dataset.name} has {len(dataset)} of {dataset.total} cases and no index of them; the paper's "
                "split needs all of them, or an index."
            )
        order = paper_order(dataset)
        return Split(*(order[part] for part in paper_split(len(order), seed)))
    total = len(dataset) if dataset.total is None else dataset.total
    place = np.full(total, -1)
    place[dataset.index] = np.arange(len(dataset))
    train, validation, test = (place[part] for part in paper_split(total, seed))
    for name, part in (("validation", validation), ("test", test)):
        if (part < 0).any():
            raise InvalidValue(
                f"{dataset.name} lacks {int((part < 0).sum())} of the {len(part)} {name} cases of seed {seed}; use another "
                "seed, or all cases."
            )
    return Split(train[train >= 0], validation, test)


def paper_split(cases: int, seed: int) -> Split:
    """70 % for training, 15 % for validation and the rest for test, as the paper's experiments drew them.

    ```python
    from lrcssm_paper.splits import paper_split

    split = paper_split(561, seed=2345)
    print(len(split.train), len(split.validation), len(split.test))  # 392 84 85
    ```

    **Arguments:**

    - `cases`: of the whole data set: the archive's training and test part together, without duplicates, sorted.
    - `seed`: the paper's are 2345, 3456, 4567, 5678 and 6789.
    """
    if cases < 3:
        raise InvalidValue(f"paper_split got {cases} cases; there must be at least 3 to make three parts.")
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
