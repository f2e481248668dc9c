"""The paper's splits of a data set that was read from files.

The protocol puts the archive's training and test cases together in single precision, drops exact duplicates, sorts what
is left lexicographically by its values, time by time, and only then permutes it by seed (`paper_split`).
"""

import numpy as np

from .dataset import Dataset
from .splits import Split, paper_split


def paper_order(dataset: Dataset) -> np.ndarray:
    """The cases in the order that the protocol permutes.

    ```python
    import numpy as np
    from lrcssm.data import Dataset
    from lrcssm.data.paper import paper_order

    series = tuple(np.array([[float(value)]], np.float32) for value in (3, 1, 2, 1))
    print(paper_order(Dataset("four", series)))  # [1 2 0]
    ```

    **Arguments:**

    - `dataset`: complete, its training cases before its test cases, all of one length.

    **Returns:**

    Positions in `dataset`, fewer than it has cases if some are exactly equal: of these only the first is kept.
    """
    if len({len(one) for one in dataset.series}) > 1:
        raise ValueError(
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
            raise ValueError(
                f"{dataset.name} has {len(dataset)} of {dataset.total} cases and no index that says which; the paper's "
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
            raise ValueError(
                f"{dataset.name} lacks {int((part < 0).sum())} of the {len(part)} {name} cases of seed {seed}; use another "
                "seed, or all cases."
            )
    return Split(train[train >= 0], validation, test)
