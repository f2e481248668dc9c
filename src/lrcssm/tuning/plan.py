"""What a study is about: everything that a worker must know, kept in the study itself."""

import dataclasses
import functools
import hashlib
import json
import os
from typing import Any

from ..data import Cases, Dataset, load
from ..data.catalogue import from_anywhere
from ..errors import InvalidValue
from ..experiments.jobs import fingerprint
from ..models import ModelConfig
from ..runs import ModelOptions, Train, TrainingOptions, given
from ..runs.presets import configure
from ..runs.train import divide
from ..training import TrainingConfig
from . import Start
from .space import Space, make_space


@dataclasses.dataclass(frozen=True)
class Plan:
    """The options of `lrcssm train` that all trials share, and those that they do not.

    **Attributes:**

    - `options`: of `Train`, as JSON can hold them; its seed is that of a run.
    - `seeds`: one run of each trial for each.
    - `space`: what the trials differ in.
    - `pruner`: `"median"`, `"halving"` or `"none"`.
    - `data`: a fingerprint, so that no worker takes other data.
    """

    options: dict[str, Any]
    seeds: tuple[int, ...]
    space: Space
    pruner: str
    data: str

    @classmethod
    def of(cls, start: Start, data: Dataset) -> "Plan":
        """What the command asks for; `ValueError` if no model can be made of it."""
        held = [*given(start.model), *given(start.training)]
        space = make_space(start.space, start.vary, held)
        names = ("preset", "split", "missing", "solver")
        options = {name: getattr(start, name) for name in names} | {
            "source": from_anywhere(start.source),
            "data_dir": None if start.data_dir is None else os.path.abspath(os.path.expanduser(start.data_dir)),
            "model": dataclasses.asdict(start.model),
            "training": dataclasses.asdict(start.training),
        }
        pruner = start.pruner or ("none" if space.grid else "median")
        plan = cls(options, start.seeds, space, pruner, fingerprint(data))
        for settings in space.samples():
            plan.configured(data, settings, start.seeds[0])
        for seed in start.seeds:
            divide(data, start.split, seed)
        return plan

    def train(self, settings: dict[str, Any], seed: int) -> Train:
        """The command that trains with some settings."""
        model, training = ({**self.options[part]} for part in ("model", "training"))
        for name, value in settings.items():
            (model if name in model else training)[name] = value
        model["cell_options"] = tuple(model["cell_options"])
        shared = {name: value for name, value in self.options.items() if name not in ("model", "training")}
        return Train(
            **shared, model=ModelOptions(**model), training=TrainingOptions(**training), seed=seed, split_seed=seed
        )

    def configured(self, data: Dataset, settings: dict[str, Any], seed: int) -> tuple[ModelConfig, TrainingConfig]:
        """The model and training of some settings."""
        train = self.train(settings, seed)
        return configure(train.preset, data, train.model, train.training, seed)

    def identity(self, model: ModelConfig, training: TrainingConfig) -> str:
        """A name for a run: another one for whatever has another result."""
        shared = {name: self.options[name] for name in ("split", "missing", "solver")}
        facts = [json.loads(model.to_json()), dataclasses.asdict(training), shared, self.data]
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        changed = {"seeds": list(self.seeds), "space": self.space.to_json()}
        # What JSON makes of a tuple is a list, before it is stored as after.
        return json.loads(json.dumps(dataclasses.asdict(self) | changed))

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Plan":
        changed = {"seeds": tuple(found["seeds"]), "space": Space.from_json(found["space"])}
        return cls(**(found | changed))


class Material:
    """The data of a study, cut for each seed when it is asked for."""

    def __init__(self, plan: Plan, data: Dataset):
        self.plan = plan
        self.data = data
        self.parts = functools.cache(self._parts)

    @classmethod
    def of(cls, plan: Plan, data_dir: str | None) -> "Material":
        """Reads the data; `ValueError` if it is not that of the study."""
        data = load(plan.options["source"], directory=data_dir or plan.options["data_dir"])
        if fingerprint(data) != plan.data:
            raise InvalidValue(
                f"{data.name} is not what it was when the study was made; get the same data again, or make another study."
            )
        return cls(plan, data)

    @functools.cached_property
    def cases(self) -> Cases:
        return self.data.cases(self.plan.options["missing"])

    def _parts(self, seed: int) -> tuple[Cases, Cases]:
        """Training and validation cases."""
        split = divide(self.data, self.plan.options["split"], seed)
        return self.cases.take(split.train), self.cases.take(split.validation)
