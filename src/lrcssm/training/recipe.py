"""The recipe: defaults of model and training that follow from the data. This is the only place where defaults depend on data.

Everything that does not follow from the data is a default of `ModelConfig` or `TrainingConfig`, or belongs to an
architecture (`lrcssm.models.ARCHITECTURES`). Estimators, the command line, sweeps and experiments all call `recipe`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import plugins
from ..data import Cases, Dataset, padded_lengths
from ..errors import InvalidValue
from ..models import ARCHITECTURES, ModelConfig
from ..models.time import names, options_of
from .config import TrainingConfig


class Facts(NamedTuple):
    """Facts about the data that a model depends on.

    **Attributes:**

    - `channels`, `length`: of the series; the longest counts.
    - `irregular`: true if the time between steps differs.
    - `task`: as for `ModelConfig`.
    - `outputs`: classes, or numbers that are predicted.
    """

    channels: int
    length: int
    irregular: bool
    task: str
    outputs: int

    @classmethod
    def of(cls, cases: Cases, task: str, outputs: int) -> "Facts":
        """Facts about some cases. For unequal lengths, the padded length of the longest case counts, so that the folds of a
        cross-validation have the same model."""
        length = padded_lengths(cases)[-1]
        return cls(cases.channels, length, cases.dt is not None, task, outputs)

    @classmethod
    def of_dataset(cls, data: Dataset, cases: Cases) -> "Facts":
        """Facts about a data set with targets, and the cases made of it."""
        if data.targets is None:
            raise InvalidValue(f"{data.name} has no targets to learn; use a trained model to predict them.")
        if data.classes is not None:
            found = np.unique(np.concatenate(data.targets) if isinstance(data.targets, tuple) else data.targets)
            if (count := np.count_nonzero(found >= 0)) < 2:
                raise InvalidValue(f"{data.name} has cases of {count} class; give some of at least 2.")
            return cls.of(cases, data.task, len(data.classes))
        target = data.targets[0] if isinstance(data.targets, tuple) else data.targets
        return cls.of(cases, data.task, 1 if target.ndim == 1 else target.shape[1])


METHODS = ("auto", "ridge", "logistic", "gradient")
MANY = 500
"""Cases above which `"auto"` classifies by logistic regression, which starts from the ridge solution."""


def choose_method(
    method: str, task: str, cases: int, asked: Sequence[str] = (), liquid: Sequence[str] = ()
) -> tuple[str, str]:
    """Choose between regression on random liquid features and a model that is trained by gradient steps.

    ```python
    from lrcssm.training.recipe import choose_method

    print(choose_method("auto", "classify", 1000))  # ('logistic', 'because there are more than 500 cases')
    ```

    **Arguments:**

    - `method`: one of `METHODS`; `"auto"` takes liquid features unless gradient steps are required.
    - `task`: as for `ModelConfig`.
    - `cases`: number of cases to learn from.
    - `asked`: names of given options that apply to gradient steps only.
    - `liquid`: names of given options that apply to liquid features only.

    **Returns:**

    `"ridge"`, `"logistic"` or `"gradient"`, and the reason as a clause.
    """
    if method not in METHODS:
        raise InvalidValue(f"method is {method!r}; give {', '.join(METHODS[:-1])} or {METHODS[-1]}.")
    whole = task != "per-step"
    if method in ("ridge", "logistic"):
        if not whole or (method == "logistic" and task != "classify"):
            kinds = "no targets of each step" if method == "ridge" else "one class for a series"
            raise InvalidValue(
                f"The method {method} predicts {kinds}, and the task is {task}; take the method gradient."
            )
        if asked:
            raise InvalidValue(
                f"The method {method} does not use {asked[0]}; leave it out, or take the method gradient."
            )
        return method, "as given"
    if liquid and (asked or method == "gradient" or not whole):
        why = f"required by {asked[0]}" if method == "auto" and asked else f"for {task}"
        raise InvalidValue(f"The method gradient, {why}, does not use {liquid[0]}; leave it out.")
    if method == "gradient":
        return method, "as given"
    if asked:
        return "gradient", f"because {asked[0]} was given"
    if not whole:
        return "gradient", f"because the task is {task}"
    if task == "classify" and cases > MANY:
        return "logistic", f"because there are more than {MANY} cases"
    return "ridge", f"because there are at most {MANY} cases" if task == "classify" else "the default"


class Preset(NamedTuple):
    """Fields of `ModelConfig` and `TrainingConfig` to start from."""

    model: dict[str, Any]
    training: dict[str, Any]


def recipe(
    facts: Facts,
    model: Mapping[str, Any] = {},
    training: Mapping[str, Any] = {},
    *,
    preset: Preset | None = None,
    old: ModelConfig | None = None,
) -> tuple[ModelConfig, TrainingConfig]:
    """Choose a model and a training for some data.

    ```python
    from lrcssm.training.recipe import Facts, recipe

    facts = Facts(channels=6, length=896, irregular=False, task="classify", outputs=2)
    config, training = recipe(facts, {"hidden_dim": 32}, {"steps": 200})
    print(config.patch, dict(config.cell_options), training.batch)
    ```

    **Arguments:**

    - `facts`: about the data.
    - `model`: fields of `ModelConfig` that are given, and `architecture`, a name of `lrcssm.models.ARCHITECTURES`.
        `patch="auto"` counts as not given.
    - `training`: fields of `TrainingConfig` that are given.
    - `preset`: fields to start from instead of an architecture.
    - `old`: configuration of a model that continues to train; choices that follow from the data are kept.

    **Returns:**

    A `ModelConfig` and a `TrainingConfig`. Given values take precedence over the preset or architecture, which takes precedence
    over choices that follow from the data.
    """
    given = {name: value for name, value in model.items() if value is not None and (name, value) != ("patch", "auto")}
    architecture = given.pop("architecture", None)
    if preset is not None and architecture is not None:
        raise InvalidValue(
            f"architecture={architecture!r} was given with a preset, which has its own; give one of them."
        )
    if preset is None and (architecture := architecture or "lrcssm") not in ARCHITECTURES:
        raise InvalidValue(f"architecture={architecture!r} is not known; give one of {', '.join(ARCHITECTURES)}.")
    start = _beside(ARCHITECTURES[str(architecture)] if preset is None else preset.model, given)
    options = dict(start.pop("cell_options", {})) | dict(given.pop("cell_options", {}))
    fields: dict[str, Any] = start | given
    if facts.task == "forecast":
        fields |= {"bidirectional": False, "pool": "last"}
    if facts.task == "per-step":
        # Without a look at later steps, so that the model can predict while samples arrive.
        fields |= {"pool": None, "bidirectional": False} | given
    if preset is None:
        fields.setdefault("patch", _patch(facts, fields) if old is None else old.patch)
        automatic = _cell_options(fields, facts, options) if old is None else dict(old.cell_options)
        options = automatic | options
    size = {"input_dim": facts.channels, "output_dim": facts.outputs, "task": facts.task}
    config = ModelConfig(**fields, **size, cell_options=options)
    return config, TrainingConfig(**({} if preset is None else preset.training) | dict(training))


def find_preset(name: str, data: Dataset) -> Preset | None:
    """The preset of a name for a data set; `None` for `"default"`. Others come from extensions."""
    if name == "default":
        return None
    made = plugins.load("presets", name.partition(":")[0])
    if made is None:
        known = ", ".join(["default", *plugins.find("presets")])
        raise InvalidValue(f"The preset {name!r} is not known; give one of {known}.")
    return Preset(*made(name, data))


def _beside(start: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields without those that do not apply to the given ones: cell options belong to the cell, a norm and a missing encoder
    to the layout."""
    odd = {"cell_options"} if given.get("cell", start["cell"]) != start["cell"] else set()
    if "layout" in start and given.get("layout", start["layout"]) != start["layout"]:
        odd |= {"norm"} | ({"encoder"} if start.get("encoder") == "none" else set())
    return {name: value for name, value in start.items() if name not in odd}


def _patch(facts: Facts, fields: Mapping[str, Any]) -> int:
    """Patch size: about the square root of the length, so that the cost grows with the square root too. Signatures have windows
    instead of patches, and per-step outputs and forecasts need all steps."""
    if fields.get("signature") or facts.task in ("per-step", "forecast"):
        return 1
    return max(1, int(facts.length**0.5))


def _cell_options(fields: Mapping[str, Any], facts: Facts, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the cell: time constants up to the length of the sequence and, for irregular steps, an integrator that stays
    bounded, if the cell supports them."""
    cell = fields.get("cell", "LRC")
    known = options_of(cell) if cell in names() else ()
    windows = dict(fields.get("signature") or {}).get("windows")
    patch = fields["patch"] if isinstance(fields["patch"], int) and fields["patch"] > 0 else 1
    steps = windows if isinstance(windows, int) else -(-facts.length // patch)
    spread = "max_time" in known and given.get("init", "spread") == "spread"
    options: dict[str, Any] = {"init": "spread", "max_time": float(max(steps, 2))} if spread else {}
    return options | ({"integrator": "exponential"} if facts.irregular and "integrator" in known else {})
