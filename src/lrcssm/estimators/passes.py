"""Learning in passes: `partial_fit` of the classifier and the regressor, and what a file keeps of it."""

import abc
import time
from typing import Any

import jax
import numpy as np
from sklearn.utils.validation import check_consistent_length

from ..data import Cases, batches
from ..errors import TrainingError
from ..training import Epoch
from ..training.loop import mean_iterations
from ..training.metrics import arrays_of, weights_of
from ..training.step import TrainState, train_step
from .arrays import as_series
from .base import SeriesLearner
from .parameters import solver_of, training_config
from .saving import packed, unpacked


class PassLearner(SeriesLearner):
    """An estimator with one answer for a series, which can learn from some cases after others."""

    _progress: TrainState

    def _fit(self, X: Any, y: Any, times: Any) -> None:
        super()._fit(X, y, times)
        vars(self).pop("_progress", None)

    @abc.abstractmethod
    def _more_targets(self, y: Any) -> np.ndarray:
        """Targets for `partial_fit`, of the kind that the calls before had."""

    def _known(self, X: Any, y: Any, times: Any) -> Cases:
        """Cases for `partial_fit`, whose first call makes the model."""
        first = not hasattr(self, "model_")
        self._refuse_no_targets(y)
        series = as_series(self, X, reset=first, nan=self._may_miss())
        check_consistent_length(series, y)
        cases = self._cases(series, self._more_targets(y), times, reset=first)
        if first:
            self.seed_ = self._seed()
            self.model_ = self._start(self._config(cases), cases, self.seed_)
        return cases

    def _pass(self, cases: Cases) -> None:
        """Each case once."""
        start, solver = time.perf_counter(), solver_of(self)
        self._told()
        config = training_config(self, seed=self.seed_, schedule="constant")
        knobs, key = config.knobs(), jax.random.key(config.seed)
        # The optimiser's memory and the averaged weights go on from call to call.
        state, history = getattr(self, "_progress", None), getattr(self, "history_", ())
        if state is None:
            state, history = TrainState.start(self.model_, knobs), ()
        weights = weights_of(cases, config.class_weights, self.model_.config.output_dim)
        rng = np.random.default_rng((config.seed, int(state.step)))
        values, iterations = [], []
        for part in batches(cases, min(config.batch, len(cases)), rng):
            state, loss, counts, _ = train_step(
                state, arrays_of(part, weights), knobs, key, solver, config.truncate, config.chunk, config.memory
            )
            if not np.isfinite(loss):
                raise TrainingError(f"Training failed at step {int(state.step)}: make learning_rate smaller.")
            values.append(float(loss))
            iterations.append(np.asarray(counts))
        seconds = (history[-1].seconds if history else 0.0) + time.perf_counter() - start
        epoch = Epoch(int(state.step), float(np.mean(values)), {}, seconds, *mean_iterations(np.stack(iterations)))
        self._progress, self.history_, self.n_iter_ = state, (*history, epoch), epoch.step
        self.model_ = state.average if config.ema else state.model
        self._report(epoch)

    def _facts(self) -> dict[str, Any]:
        facts, state = super()._facts(), getattr(self, "_progress", None)
        if state is not None:
            facts["progress"] = packed((state.model, state.optimiser, state.step))
        return facts

    def _remember(self, facts: dict[str, Any]) -> None:
        facts = dict(facts)
        progress = facts.pop("progress", None)
        super()._remember(facts)
        if progress is not None:
            empty = TrainState.start(self.model_, training_config(self, seed=self.seed_).knobs())
            model, optimiser, step = unpacked(progress, (empty.model, empty.optimiser, empty.step))
            # The averaged weights are those of the estimator's model.
            self._progress = TrainState(model, self.model_, optimiser, step)
