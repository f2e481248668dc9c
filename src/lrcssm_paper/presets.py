"""Presets of `lrcssm train` from the paper: `released` and `paper:ARCHITECTURE[:DATASET]`."""

from lrcssm.data import Dataset
from lrcssm.errors import InvalidValue

from .published import DATASETS, Published, configured, published


def preset(name: str, dataset: Dataset) -> Published:
    """Find the configuration of a preset for a data set.

    ```python
    import numpy as np
    from lrcssm.data import Dataset
    from lrcssm_paper.presets import preset

    worms = Dataset("EigenWorms", (np.zeros((30, 6), np.float32),))
    print(preset("paper:s5", worms).model["hidden_dim"])  # 128
    ```

    **Arguments:**

    - `name`: `"released"`, the code released with the paper, with the paper's sizes if it has some for the data set; or
        `"paper:ARCHITECTURE"` or `"paper:ARCHITECTURE:DATASET"`, the configuration behind a row of its tables.
    - `dataset`: its name is used if the preset names none.

    **Returns:**

    Fields of `ModelConfig` and of `TrainingConfig`.
    """
    if name == "released":
        if dataset.name in map(DATASETS.get, configured("lrcssm")):
            return published("lrcssm", dataset.name)
        # The sizes of the paper's ablations, for other data.
        fields, training = published("lrcssm", "Heart")
        return Published(fields | {"num_blocks": 6}, training | {"learning_rate": 1e-4})
    kind, *parts = name.split(":")
    if kind != "paper" or not 1 <= len(parts) <= 2:
        raise InvalidValue(
            f"There is no preset {name!r}; give released, paper:ARCHITECTURE or paper:ARCHITECTURE:DATASET, as in "
            "paper:s5:EthanolConcentration."
        )
    return published(parts[0], parts[1] if len(parts) == 2 else dataset.name)
