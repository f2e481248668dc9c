"""Real data sets that come with a dependency."""

import numpy as np

from .dataset import Dataset
from .splits import Split


def digits() -> Dataset:
    """Handwritten digits pixel by pixel: 1,797 series of 64 steps, 10 classes, from scikit-learn (Alpaydin and Kaynak,
    1998), with a fixed split of 70, 15 and 15 %. The same as `lrcssm.data.load("digits")`.

    ```python
    from lrcssm.data import digits

    train, validation, test = digits().parts()
    print(len(train), train.longest, len(test))  # 1257 64 270
    ```
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    series = (images.reshape(-1, 64, 1) / 8 - 1).astype(np.float32)
    return Dataset(
        "digits", tuple(series), np.asarray(labels), tuple("0123456789"), Split.of(np.random.default_rng(0).permutation(len(series))),
        channel_names=("ink",),
        about="Handwritten digits of 8 by 8 pixels, row by row, ink from -1 to 1; from the UCI repository by way of "
        "scikit-learn (Alpaydin and Kaynak, 1998).",
    )  # fmt: skip
