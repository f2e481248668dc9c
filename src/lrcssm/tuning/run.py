"""A run of a trial and its files."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from ..engine import Solver
from ..models import ModelConfig
from ..training import Evaluation, Fitted, TrainingConfig, first_model, fit
from ..training.folder import Folder
from .plan import Material


@dataclasses.dataclass(frozen=True)
class Run:
    """One seed of a trial.

    **Arguments:**

    - `config`, `training`: model and training.
    - `folder`: folder for its checkpoint and its result.
    """

    config: ModelConfig
    training: TrainingConfig
    folder: Folder

    def score(
        self, material: Material, solver: Solver, report: Callable[[Evaluation], Any], tick: Callable[[int], None]
    ) -> float:
        """Train, or resume training from a checkpoint.

        **Arguments:**

        - `material`: data of the study.
        - `solver`: of the recurrences.
        - `report`, `tick`: called after each evaluation and after each step.

        **Returns:**

        The best validation score.
        """
        if self.folder.file("result.json").exists():
            return self.folder.read_json("result.json")["score"]
        self._begin()
        train, validation = material.parts(self.training.seed)
        fitted = fit(
            first_model(self.config, train, self.training.seed), train, validation, self.training, solver=solver, report=report, tick=tick,
            checkpoint=self.folder.checkpoint, resume=True,
        )  # fmt: skip
        self.finish(fitted)
        return fitted.score

    def finish(self, fitted: Fitted) -> None:
        """Write its result."""
        self._begin()
        self.folder.write_history(fitted.history)
        result = {"score": fitted.score, "step": fitted.step, "seconds": fitted.history[-1].seconds}
        self.folder.write_json("result.json", result)
        self.folder.forget_checkpoint()

    def _begin(self) -> None:
        self.folder.path.mkdir(parents=True, exist_ok=True)
        facts = {"model": json.loads(self.config.to_json()), "training": dataclasses.asdict(self.training)}
        self.folder.write_json("run.json", facts)
