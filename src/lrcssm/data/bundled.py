"""Real data that comes with a dependency."""

import numpy as np

from .cases import Cases
from .dataset import Dataset
from .splits import Split


def digits() -> tuple[Cases, Split]:
    """Handwritten digits pixel by pixel: 1,797 series of 64 steps, 10 classes, from scikit-learn (Alpaydin and Kaynak,
    1998), with a fixed split of 70, 15 and 15 %.

    ```python
    from lrcssm.data import digits

    cases, split = digits()
    print(len(cases), cases.longest, len(split.test))  # 1797 64 270
    ```
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    cases = Cases.of(images.reshape(-1, 64, 1) / 8 - 1, labels)
    return cases, Split.of(np.random.default_rng(0).permutation(len(cases)))


def digits_dataset() -> Dataset:
    """The same cases and split as those of `digits`, as `lrcssm.data.load("digits")` gives them."""
    cases, split = digits()
    return Dataset(
        "digits", cases.series, np.asarray(cases.targets), tuple("0123456789"), split, channel_names=("ink",),
        about="Handwritten digits of 8 by 8 pixels, row by row, ink from -1 to 1; from the UCI repository by way of "
        "scikit-learn (Alpaydin and Kaynak, 1998).",
    )  # fmt: skip
