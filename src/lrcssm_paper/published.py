"""The configurations behind the paper's tables, for each architecture and data set.

LrcSSM's are those of its appendix. The rivals' are the best of the searches of Walker et al. (2024, log-neural controlled
differential equations), Rusch and Rus (2025, LinOSS) and Moreno-Pino et al. (2024, Rough Transformers), from which the
tables take their rows: for the six data sets of the UEA archive those that gave the published accuracies, for PPG-DaLiA
those of the later search. Those works publish one LinOSS for each data set, the better of its two discretisations.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from lrcssm.data.problems import MULTIVARIATE, Size
from lrcssm.errors import InvalidValue
from lrcssm.models import ARCHITECTURES, RELEASED

DATASETS = {
    "Heart": "Heartbeat",
    "SCP1": "SelfRegulationSCP1",
    "SCP2": "SelfRegulationSCP2",
    "Ethanol": "EthanolConcentration",
    "Motor": "MotorImagery",
    "Worms": "EigenWorms",
    "PPG": "PPG-DaLiA",
}
"""Data sets of the archive by their names in the tables."""
SIZES = {short: MULTIVARIATE[name] for short, name in DATASETS.items() if short != "PPG"} | {
    "PPG": Size(1232, 49920, 6, 1)
}
"""Their sizes; of PPG-DaLiA those of the windows, with one number for every 128th step instead of classes."""
TRAINING_CASES = {"Heart": 286, "SCP1": 392, "SCP2": 266, "Ethanol": 366, "Motor": 264, "Worms": 165}
"""Numbers of training cases of the paper's splits."""


class Published(NamedTuple):
    """Fields of `ModelConfig` and `TrainingConfig` that make a published model."""

    model: dict[str, Any]
    training: dict[str, Any]


# Columns: learning rate, hidden_dim, state_dim, num_blocks, time as a channel; then options of the architecture.
_RECURRENT: dict[str, dict[str, tuple[Any, ...]]] = {
    "lrcssm": {
        "Heart": (1e-3, 64, 64, 4, False), "SCP1": (1e-3, 64, 16, 2, False), "SCP2": (1e-3, 128, 64, 2, False),
        "Ethanol": (1e-4, 128, 16, 2, False), "Motor": (1e-4, 16, 16, 4, False), "Worms": (1e-4, 64, 16, 4, False),
    },
    "lru": {
        "Heart": (1e-4, 128, 256, 6, False), "SCP1": (1e-4, 64, 256, 6, True), "SCP2": (1e-3, 128, 64, 6, False),
        "Ethanol": (1e-4, 128, 16, 2, False), "Motor": (1e-3, 64, 256, 6, False), "Worms": (1e-3, 128, 16, 6, True),
        "PPG": (1e-3, 128, 256, 6, False),
    },
    "s5": {  # and blocks
        "Heart": (1e-4, 64, 16, 2, False, 4), "SCP1": (1e-4, 16, 64, 4, False, 8), "SCP2": (1e-4, 64, 256, 2, True, 8),
        "Ethanol": (1e-3, 16, 16, 6, True, 2), "Motor": (1e-4, 128, 256, 4, True, 4),
        "Worms": (1e-3, 128, 256, 2, True, 8), "PPG": (1e-3, 16, 64, 6, True, 2),
    },
    "linoss-im": {
        "Heart": (1e-3, 16, 16, 6, True), "SCP1": (1e-4, 128, 256, 6, True), "Ethanol": (1e-5, 16, 16, 4, False),
        "Motor": (1e-5, 128, 16, 2, False), "Worms": (1e-3, 128, 64, 2, True), "PPG": (1e-3, 16, 64, 6, True),
    },
    "linoss-imex": {"SCP2": (1e-5, 64, 256, 6, True)},
    "s6": {
        "Heart": (1e-3, 16, 16, 4, True), "SCP1": (1e-4, 64, 16, 2, False), "SCP2": (1e-3, 16, 256, 2, False),
        "Ethanol": (1e-5, 16, 16, 4, True), "Motor": (1e-3, 16, 256, 4, True), "Worms": (1e-3, 16, 64, 4, False),
        "PPG": (1e-4, 64, 64, 2, True),
    },
    "mamba": {  # and width of the convolution, expansion
        "Heart": (1e-4, 64, 256, 4, False, 2, 4), "SCP1": (1e-5, 128, 16, 2, False, 4, 1),
        "SCP2": (1e-4, 64, 64, 6, True, 2, 2), "Ethanol": (1e-3, 64, 256, 4, True, 4, 4),
        "Motor": (1e-5, 128, 64, 2, False, 3, 1), "Worms": (1e-3, 16, 64, 6, True, 2, 1),
        "PPG": (1e-3, 128, 64, 4, False, 3, 2),
    },
}  # fmt: skip

# Learning rate, state_dim, depth and width of the vector field, time as a channel; then depth and step of the
# log-signature, and the weight of the penalty.
_CONTROLLED: dict[str, dict[str, tuple[Any, ...]]] = {
    "ncde": {
        "Heart": (1e-3, 16, 2, 32, False), "SCP1": (1e-4, 16, 3, 128, False), "SCP2": (1e-5, 64, 4, 128, True),
        "Ethanol": (1e-5, 16, 3, 64, True), "Motor": (1e-4, 128, 4, 128, False), "Worms": (1e-4, 128, 3, 128, True),
        "PPG": (1e-3, 16, 4, 128, True),
    },
    "nrde": {
        "Heart": (1e-4, 128, 4, 128, False, 2, 2), "SCP1": (1e-3, 16, 2, 32, False, 2, 4),
        "SCP2": (1e-3, 16, 3, 128, False, 1, 1), "Ethanol": (1e-4, 128, 3, 128, False, 1, 1),
        "Motor": (1e-4, 128, 4, 128, False, 1, 1), "Worms": (1e-3, 16, 4, 128, True, 2, 16),
        "PPG": (1e-3, 128, 4, 128, True, 1, 10),
    },
    "log-ncde": {
        "Heart": (1e-3, 16, 2, 32, True, 2, 2, 0.0), "SCP1": (1e-3, 128, 3, 64, False, 2, 12, 1e-3),
        "SCP2": (1e-3, 64, 3, 128, True, 2, 8, 1e-3), "Ethanol": (1e-4, 64, 3, 128, True, 2, 2, 0.0),
        "Motor": (1e-4, 64, 3, 128, True, 2, 4, 1e-6), "Worms": (1e-4, 64, 4, 128, False, 2, 12, 1e-6),
        "PPG": (1e-3, 128, 3, 64, True, 1, 10, 0.0),
    },
}  # fmt: skip

# Learning rate, epochs, windows, heads, level, one channel at a time, view, size of the positions' embedding.
_ROUGH: dict[str, tuple[Any, ...]] = {
    "Heart": (1e-3, 15, 30, 3, 2, True, "global", 10), "SCP1": (1e-4, 20, 100, 3, 2, True, "global", 10),
    "SCP2": (1e-4, 30, 50, 3, 3, True, "global", 10), "Ethanol": (1e-3, 20, 400, 1, 1, False, "global", 16),
    "Motor": (1e-4, 60, 200, 3, 2, True, "local", 16), "Worms": (3e-4, 125, 10, 1, 2, False, "local", 10),
}  # fmt: skip

# Common to all of them: Adam at a constant rate, no averaging of weights, the best validation accuracy.
_PLAIN = {"schedule": "constant", "warmup": 0.0, "weight_decay": 0.0, "ema": 0.0, "label_smoothing": 0.0}
_NO_CLIP = 1e9


def published(architecture: str, dataset: str) -> Published:
    """The published configuration.

    ```python
    from lrcssm_paper.published import published

    print(published("s5", "EthanolConcentration").model["cell_options"])
    ```

    **Arguments:**

    - `architecture`: a name of `lrcssm.models.ARCHITECTURES`.
    - `dataset`: the data set's name in the archive, such as `"EigenWorms"`; or as in the tables, such as `"Worms"`.
    """
    if architecture not in ARCHITECTURES:
        raise InvalidValue(f"There is no architecture {architecture!r}; give one of {', '.join(ARCHITECTURES)}.")
    short = short_name(dataset)
    known = configured(architecture)
    if short not in known:
        have = f"those for {', '.join(DATASETS[name] for name in known)}" if known else "none at all"
        raise InvalidValue(
            f"The paper's tables have no configuration of {architecture} for {dataset!r}; they have {have}."
        )
    if architecture in _CONTROLLED:
        return _controlled(architecture, *_CONTROLLED[architecture][short])
    return (
        _rough(*_ROUGH[short], cases=TRAINING_CASES[short])
        if architecture == "rformer"
        else _recurrent(architecture, short)
    )


def short_name(dataset: str) -> str:
    """Name of a data set in the tables, from that of the archive."""
    return {name: key for key, name in DATASETS.items()}.get(dataset, dataset)


def configured(architecture: str) -> tuple[str, ...]:
    """The data sets, as the tables name them, for which an architecture's configuration is published."""
    tables: Mapping[str, Mapping[str, Any]] = _RECURRENT | _CONTROLLED | {"rformer": _ROUGH}
    return tuple(tables.get(architecture, {}))


def _recurrent(architecture: str, dataset: str) -> Published:
    rate, width, state, depth, time, *more = _RECURRENT[architecture][dataset]
    fields = ARCHITECTURES[architecture] | {
        "hidden_dim": width,
        "state_dim": state,
        "num_blocks": depth,
        "include_time": time,
    }
    if architecture == "lrcssm":
        epoch = TRAINING_CASES[dataset] // 4
        patience = 100 if dataset == "Worms" else 1000
        training = {"steps": 3000 * epoch, "batch": 4, "clip": 1.0, "check_every": epoch, "patience": patience}
        return Published(fields | RELEASED, _PLAIN | training | {"learning_rate": rate})
    names = {"s5": ("blocks",), "mamba": ("conv", "expand")}.get(architecture, ())
    options = dict(fields.get("cell_options", {})) | dict(zip(names, more, strict=True))
    dropout = 0.05 if architecture in ("s5", "linoss-im", "linoss-imex") else 0.1
    fields |= {"cell_options": options, "standardise": "none", "dropout": dropout}
    small = dataset == "PPG" or (dataset == "Worms" and architecture.startswith("linoss"))
    training = _searched(rate, check_every=1000) | ({"batch": 4} if small else {})
    return Published(fields, training)


def _controlled(architecture: str, rate, state, vf_depth, vf_width, time, *more) -> Published:
    names = {"ncde": (), "nrde": ("depth", "step"), "log-ncde": ("depth", "step", "lip2")}[architecture]
    options = {"vf_depth": vf_depth, "vf_width": vf_width} | dict(zip(names, more, strict=True))
    fields = ARCHITECTURES[architecture] | {
        "state_dim": state, "include_time": time, "cell_options": options, "standardise": "none",
    }  # fmt: skip
    return Published(fields, _searched(rate, check_every=100))


def _rough(rate, epochs, windows, heads, level, univariate, view, embedding, cases) -> Published:
    fields = ARCHITECTURES["rformer"] | {
        "cell_options": {"heads": heads, "embedding": embedding}, "standardise": "none",
        "signature": {"windows": windows, "level": level, "view": view, "univariate": univariate},
    }  # fmt: skip
    steps = -(-cases // 20)
    training = {"steps": epochs * steps, "batch": 20, "clip": _NO_CLIP, "monitor": "last", "check_every": steps}
    return Published(fields, _PLAIN | training | {"learning_rate": rate})


def _searched(rate: float, check_every: int) -> dict[str, Any]:
    """Training of Walker et al. and of Rusch and Rus."""
    training = {"steps": 100_000, "batch": 32, "clip": _NO_CLIP, "check_every": check_every, "patience": 11}
    return _PLAIN | training | {"learning_rate": rate}
