"""A run of a trial: what it is made of, and the files that it leaves."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import jax

from ..data import Cases
from ..engine import Solver
from ..models import ModelConfig, SequenceModel
from ..runs.folder import Folder
from ..training import Epoch, Fitted, TrainingConfig, fit
from .plan import Material


@dataclasses.dataclass(frozen=True)
class Run:
    """One seed of a trial.

    **Arguments:**

    - `config`, `training`: what to run.
    - `folder`: where its result is, or its checkpoint.
    """

    config: ModelConfig
    training: TrainingConfig
    folder: Folder

    @property
    def fresh(self) -> bool:
        """Whether it has neither."""
        return not self.folder.file("result.json").exists() and not self.folder.checkpoint.exists()

    def model(self, train: Cases) -> SequenceModel:
        """Where it begins."""
        return SequenceModel(self.config, jax.random.key(self.training.seed)).with_statistics(*train.statistics())

    def score(
        self, material: Material, solver: Solver, look: Callable[[Epoch], Any], tick: Callable[[int], None]
    ) -> float:
        """Runs it, or goes on with it; gives its best validation score.

        **Arguments:**

        - `look`, `tick`: called after each look at the validation data and after each step.
        """
        if self.folder.file("result.json").exists():
            return self.folder.read_json("result.json")["score"]
        self._begin()
        train, validation = material.parts(self.training.seed)
        fitted = fit(
            self.model(train), train, validation, self.training, solver=solver, report=look, tick=tick,
            checkpoint=self.folder.checkpoint, resume=True,
        )  # fmt: skip
        self.finish(fitted)
        return fitted.score

    def finish(self, fitted: Fitted) -> None:
        """Writes its result."""
        self._begin()
        self.folder.write_history(fitted.history)
        result = {"score": fitted.score, "step": fitted.step, "seconds": fitted.history[-1].seconds}
        self.folder.write_json("result.json", result)
        self.folder.forget_checkpoint()

    def _begin(self) -> None:
        self.folder.path.mkdir(parents=True, exist_ok=True)
        facts = {"model": json.loads(self.config.to_json()), "training": dataclasses.asdict(self.training)}
        self.folder.write_json("run.json", facts)
