"""Comparison of a configuration with the arrays of a file, before a model is created."""

import re
from collections.abc import Mapping, Sequence

from ..errors import FileError
from .config import ModelConfig
from .features import feature_size

# Sizes up to LIMIT cost nothing to try, even if no array shows them: a cell need not have an array as long as its state.
LIMIT = 1024
# Options of cells and layers that are sizes or numbers of arrays.
_OPTIONS = (
    "bands", "conv", "embedding", "expand", "filter_depth", "filter_width", "heads", "layers", "max_length", "order", "rank",
    "vf_depth", "vf_width",
)  # fmt: skip


def check_size(config: ModelConfig, shapes: Mapping[str, Sequence[int]], name: str = "The file") -> None:
    """Raise `FileError` if a configuration cannot match some arrays, before anything is allocated or traced.

    The check is fast for any sizes. It finds sizes that are far too large, but not every mismatch: the model still has to
    be compared with the arrays one by one.

    ```python
    import jax, lrcssm
    from lrcssm.files import named_leaves
    from lrcssm.models import check_size

    config = lrcssm.ModelConfig(input_dim=3, output_dim=2, num_blocks=2)
    arrays = named_leaves(lrcssm.SequenceModel(config, jax.random.key(0)))
    check_size(config, {name: array.shape for name, array in arrays.items()})
    ```

    **Arguments:**

    - `config`: of the model.
    - `shapes`: the shape of each array by its path in the model, as `lrcssm.files.named_leaves` names it.
    - `name`: of the file, for the error.
    """

    def refuse(what: str, given: int, found: str) -> None:
        raise FileError(
            f"{name} has a configuration with {what}={given}, but {found}; it is damaged, or not of one model."
        )

    sizes = {"input_dim": shapes.get(".features.mean"), "output_dim": shapes.get(".target_mean")}
    for what, shape in sizes.items():
        if shape is None or tuple(shape) != (getattr(config, what),):
            refuse(what, getattr(config, what), f"arrays for {shape[0] if shape else 'none'}")
    blocks = [int(found[1]) for path in shapes if (found := re.match(r"\.blocks\[(\d{1,9})\]", path))]
    count = max(blocks, default=-1) + 1
    if count != config.num_blocks and (blocks or config.num_blocks > LIMIT):
        refuse("num_blocks", config.num_blocks, f"arrays of {count} blocks")
    largest = max((size for shape in shapes.values() for size in shape), default=0)
    options = dict(config.cell_options) | {"level": dict(config.signature).get("level", 1)}
    given = {option: value for option, value in options.items() if option in (*_OPTIONS, "level")}
    for what, value in ({"state_dim": config.state_dim, "patch": config.patch} | given).items():
        # Half a state is enough for cells with conjugate pairs.
        if isinstance(value, int) and value > max(LIMIT, 2 * largest):
            refuse(what, value, f"no dimension of an array above {largest}")
    if config.encoder == "none":
        return  # and so no hidden_dim
    weight = shapes.get(".encoder.first.weight" if config.encoder == "mlp" else ".encoder.weight", ())
    for what, value, size in zip(
        ("patch", "hidden_dim"), (feature_size(config), config.hidden_dim), weight, strict=False
    ):
        if value != size:
            refuse(what, getattr(config, what), f"an encoder of shape {tuple(weight)}")
    if len(weight) != 2:
        refuse("hidden_dim", config.hidden_dim, "no encoder")
