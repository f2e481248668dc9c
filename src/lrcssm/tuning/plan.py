"""The plan of a study: all settings that a worker needs, stored in the study itself."""

import dataclasses
import functools
import json
from typing import Any

from ..data import Cases, Dataset, load
from ..data.readers.columns import wrong_columns
from ..errors import InvalidValue
from ..files import checksum
from ..models import ModelConfig
from ..options import options_of
from ..training import Facts, TrainingConfig, recipe
from ..training.provenance import divide, fingerprint
from ..training.recipe import find_preset
from .space import Space


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that defines a study: data, shared settings, and the space of varied ones.

    **Attributes:**

    - `source`, `directory`, `columns`: of the data, as `lrcssm.data.load` takes them.
    - `settings`: `preset`, `split`, `missing` and `solver`, as `lrcssm train` takes them.
    - `model`, `training`: fields of `ModelConfig` (and `architecture`) and of `TrainingConfig` that are given.
    - `seeds`: one run of each trial for each.
    - `space`: fields that the trials differ in.
    - `pruner`: `"median"`, `"halving"` or `"none"`.
    - `data`: a checksum, so that all workers use the same data.
    """

    source: str
    directory: str | None
    columns: dict[str, Any]
    settings: dict[str, str]
    model: dict[str, Any]
    training: dict[str, Any]
    seeds: tuple[int, ...]
    space: Space
    pruner: str
    data: str = ""

    def checked(self, data: Dataset) -> "Plan":
        """The plan for some data; raises `InvalidValue` if no model can be made of it."""
        plan = dataclasses.replace(self, data=fingerprint(data))
        material = Material(plan, data)
        for settings in plan.space.samples():
            plan.configured(material, settings, plan.seeds[0])
        for seed in plan.seeds:
            divide(data, plan.settings["split"], seed)
        return plan

    def fields(self, settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Fields of model and training of a trial."""
        model, training = dict(self.model), dict(self.training)
        for name, value in settings.items():
            (training if name in options_of(TrainingConfig) else model)[name] = value
        return model, training

    def configured(
        self, material: "Material", settings: dict[str, Any], seed: int
    ) -> tuple[ModelConfig, TrainingConfig]:
        """Model and training of a run."""
        model, training = self.fields(settings)
        preset = find_preset(self.settings["preset"], material.data)
        return recipe(material.facts, model, training | {"seed": seed}, preset=preset)

    def identity(self, model: ModelConfig, training: TrainingConfig) -> str:
        """A checksum of everything that the result of a run depends on."""
        shared = {name: self.settings[name] for name in ("split", "missing", "solver")}
        return checksum(model, training, shared, self.data)

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        # A tuple becomes a list here already, as it will when it is stored.
        return json.loads(json.dumps(dataclasses.asdict(self) | {"space": self.space.to_json()}))

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Plan":
        """The inverse of `to_json`; raises `InvalidValue`, `KeyError` or `TypeError` for anything else."""
        kinds = {
            "source": str, "directory": str | None, "columns": dict, "settings": dict, "model": dict, "training": dict,
            "seeds": list, "space": dict, "pruner": str, "data": str,
        }  # fmt: skip
        known = {"model": [*options_of(ModelConfig), "architecture"], "training": [*options_of(TrainingConfig)]}
        wrong = [name for name, kind in kinds.items() if not isinstance(found[name], kind)]
        wrong += [name for name, fields in known.items() if not set(found[name]) <= set(fields)]
        wrong += [
            name for name in ("preset", "split", "missing", "solver") if type(found["settings"].get(name)) is not str
        ]
        wrong += wrong_columns(found["columns"])
        if wrong or not found["seeds"] or not all(type(seed) is int and seed >= 0 for seed in found["seeds"]):
            raise InvalidValue(f"its {[*wrong, 'seeds'][0]} is not that of a plan")
        changed = {"seeds": tuple(found["seeds"]), "space": Space.from_json(found["space"])}
        return cls(**(found | changed))


class Material:
    """The data of a study, split for each seed at its first use."""

    def __init__(self, plan: Plan, data: Dataset):
        self.plan = plan
        self.data = data
        self.parts = functools.cache(self._parts)

    @classmethod
    def of(cls, plan: Plan, directory: str | None) -> "Material":
        """Read the data; raises `InvalidValue` if they are not those of the study."""
        data = load(plan.source, directory=directory or plan.directory, **plan.columns)
        if fingerprint(data) != plan.data:
            raise InvalidValue(
                f"{data.name} has changed since the study was created; restore the data, or create another study."
            )
        return cls(plan, data)

    @functools.cached_property
    def cases(self) -> Cases:
        """All cases."""
        return self.data.cases(self.plan.settings["missing"])

    @functools.cached_property
    def facts(self) -> Facts:
        """Facts about the data for the recipe."""
        return Facts.of_dataset(self.data, self.cases)

    def _parts(self, seed: int) -> tuple[Cases, Cases]:
        """Training and validation cases."""
        split = divide(self.data, self.plan.settings["split"], seed)
        return self.cases.take(split.train), self.cases.take(split.validation)
