"""What the classifier and the regressor share: from arrays to cases, training, prediction."""

import abc
import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ..data import Cases
from ..errors import InvalidType, InvalidValue
from ..models import ModelConfig, SequenceModel
from ..training import Epoch, TrainingConfig, fit, predict
from .arrays import as_series, as_times
from .parameters import Parameters, SeriesParameters, model_config, solver_of, training_config
from .saving import Saved

# Predictions are made in batches of one size, whatever their number: one compiled function serves them all, and what is
# predicted for a case does not depend, not even by rounding, on how many others there are.
BATCH = 16


@contextlib.contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Training that fails leaves an estimator as it was: one that could predict still can."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


class Learner(Saved, BaseEstimator, Parameters):
    """An estimator with a `SequenceModel` in it."""

    model_: SequenceModel
    history_: tuple[Epoch, ...]
    n_iter_: int
    n_features_in_: int
    n_channels_: int

    def _seed(self) -> int:
        """A number that stands for `random_state` in one fit."""
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _may_miss(self) -> bool:
        """Whether values may be missing."""
        if self.missing not in ("error", "mask", "fill"):
            raise InvalidValue(f'{type(self).__name__} got missing={self.missing!r}; give "error", "mask" or "fill".')
        return self.missing != "error"

    def _told(self) -> tuple[Any, ...]:
        """Whom to tell of each look, checked."""
        given = () if self.callbacks is None else self.callbacks
        found = (given,) if callable(given) else tuple(given) if isinstance(given, Collection) else (given,)
        if not all(callable(one) for one in found):
            raise InvalidType(
                f"{type(self).__name__} got callbacks={given!r}; give a function that takes an Epoch, or a list of them."
            )
        return found

    def _goes_on(self) -> bool:
        """Whether there is a model for `fit` to start from."""
        return self.warm_start and hasattr(self, "model_")

    def _configured(self, length: int, *, irregular: bool = False, **fixed: Any) -> ModelConfig:
        """The model's configuration; while one goes on learning, it must be what it was."""
        if not self._goes_on():
            return model_config(self, length=length, irregular=irregular, **fixed)
        old = self.model_.config
        new = model_config(self, length=length, old=old, **fixed)
        for name in vars(old):
            if getattr(new, name) != getattr(old, name):
                raise InvalidValue(
                    f"{type(self).__name__} goes on from a model with {name}={getattr(old, name)!r}, but now it is "
                    f"{getattr(new, name)!r}; set warm_start=False to start anew."
                )
        return old

    def _start(self, config: ModelConfig, train: Cases, seed: int) -> SequenceModel:
        if self._goes_on():
            return self.model_
        return SequenceModel(config, jax.random.key(seed)).with_statistics(*train.statistics())

    def _learn(self, model: SequenceModel, train: Cases, validation: Cases | None, config: TrainingConfig) -> None:
        """Trains a model and keeps it."""
        fitted = fit(model, train, validation, config, solver=solver_of(self), report=self._report)
        self.model_, self.history_, self.n_iter_ = fitted.model, fitted.history, fitted.history[-1].step

    def _report(self, epoch: Epoch) -> bool:
        """Tells what was asked for; true if a callback wants to stop."""
        if self.verbose:
            scores = "".join(f"  {name} {value:.4g}" for name, value in epoch.scores.items())
            print(f"step {epoch.step}  loss {epoch.loss:.4g}{scores}  {epoch.seconds:.1f} s", flush=True)
        return any([bool(callback(epoch)) for callback in self._told()])

    def _outputs(self, cases: Cases) -> np.ndarray:
        """What the model says to each case, in double precision."""
        full = cases.take([*range(len(cases)), *[0] * (BATCH - len(cases))])
        found = predict(self.model_, full, BATCH, solver_of(self))
        return np.asarray(found[: len(cases)], np.float64)

    def _held_out(self, count: int) -> int:
        """How many of `count` cases are for validation; at least half of them stay."""
        share = self.validation_fraction
        if not 0 <= share < 1:
            raise InvalidValue(
                f"{type(self).__name__} got validation_fraction={share!r}; give a number from 0 (none) to below 1."
            )
        return min(round(share * count), count // 2)


class SeriesLearner(Learner, SeriesParameters):
    """An estimator with one answer for a series."""

    unit_: float | None
    table_: bool
    seed_: int

    def _fit(self, X: Any, y: Any, times: Any) -> None:
        with all_or_nothing(self):
            self._train(X, y, times)

    def _train(self, X: Any, y: Any, times: Any) -> None:
        self._refuse_no_targets(y)
        self._told()
        series = as_series(self, X, reset=True, nan=self._may_miss())
        check_consistent_length(series, y)
        cases = self._cases(series, self._targets(y), times, reset=True)
        config, self.seed_ = self._config(cases), self._seed()
        held = self._validation(np.asarray(cases.targets), np.random.default_rng(self.seed_))
        train, validation = cases, None
        if len(held):
            train, validation = cases.take(np.setdiff1d(np.arange(len(cases)), held)), cases.take(held)
        start = self._start(config, train, self.seed_)
        self._learn(start, train, validation, training_config(self, seed=self.seed_))

    def _refuse_no_targets(self, y: Any) -> None:
        if y is None:
            raise InvalidValue(f"{type(self).__name__} requires y to be passed, but the target y is None.")

    @abc.abstractmethod
    def _targets(self, y: Any) -> np.ndarray:
        """Targets as a model takes them; what has to be remembered of them is kept."""

    @abc.abstractmethod
    def _task(self) -> dict[str, Any]:
        """`task` and `output_dim` of the model."""

    def _config(self, cases: Cases) -> ModelConfig:
        irregular = cases.dt is not None
        return self._configured(cases.longest, irregular=irregular, input_dim=cases.channels, **self._task())

    def _validation(self, targets: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Positions of the cases that are held out."""
        return np.sort(rng.permutation(len(targets))[: self._held_out(len(targets))])

    def _cases(self, series: Sequence[np.ndarray], targets: Any, times: Any, *, reset: bool) -> Cases:
        stamps = as_times(times, series, fitted=None if reset else self.unit_ is not None)
        cases = Cases.of(
            series, targets, times=stamps, unit=None if reset else self.unit_, missing=self.missing,
            dtype=np.dtype(jnp.result_type(float)) if reset else self.model_.target_mean.dtype,
        )  # fmt: skip
        if reset:
            self.unit_ = cases.unit
        return cases

    def _answers(self, X: Any, times: Any) -> np.ndarray:
        """The model's outputs for new series."""
        check_is_fitted(self, "model_")
        series = as_series(self, X, reset=False, nan=self._may_miss())
        return self._outputs(self._cases(series, None, times, reset=False))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing != "error"
        tags.target_tags.required = True
        return tags
