"""Base classes of estimators that are trained by gradients."""

import abc
import contextlib
import dataclasses
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ..compilation import keeping_compilations
from ..data import Cases, padded_lengths
from ..data.splits import hold_out
from ..errors import InvalidType, InvalidValue, TrainingWarning
from ..features import LiquidModel
from ..files import named_leaves
from ..models import ModelConfig, SequenceModel
from ..training import Evaluation, Facts, Trained, TrainingConfig, first_model, fit, recipe
from ..training.baseline import doubt
from ..training.loop import one_pass
from ..training.step import TrainState
from .arrays import as_series, as_times, channel_names, check_missing, seed_of
from .parameters import Parameters, SeriesParameters, given_fields, method_of, solver_of, training_config
from .saving import Saved
from .steps import Steps
from .tables import own_targets

# Predictions are made in batches of one size, whatever their number: one compiled function serves them all, and a case's
# prediction does not depend, not even by rounding, on how many others there are.
BATCH = 16


@contextlib.contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Restore the estimator if training fails, so that an earlier fit is not lost; cache compiled programs on disk."""
    before = dict(vars(estimator))
    try:
        with keeping_compilations():
            yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


class Learner(Saved, BaseEstimator, Parameters):
    """An estimator around a `SequenceModel`."""

    trained_: Trained
    history_: tuple[Evaluation, ...]
    n_iter_: int
    n_features_in_: int
    n_channels_: int

    @property
    def model_(self) -> Any:
        """The trained `SequenceModel`, or the `LiquidModel` of ridge regression."""
        return self.trained_.model

    def _callbacks(self) -> tuple[Any, ...]:
        """Functions to call after each evaluation, checked."""
        given = () if self.callbacks is None else self.callbacks
        found = (given,) if callable(given) else tuple(given) if isinstance(given, Collection) else (given,)
        if not all(callable(one) for one in found):
            raise InvalidType(
                f"{type(self).__name__} got callbacks={given!r}; give a function of an Evaluation, or a list of them."
            )
        return found

    def _goes_on(self) -> bool:
        """True if `fit` continues an existing model."""
        return self.warm_start and hasattr(self, "trained_") and isinstance(self.model_, SequenceModel)

    def _configured(self, facts: Facts, seed: int) -> tuple[ModelConfig, TrainingConfig]:
        """The model and the training; a model that continues to train must keep its configuration."""
        old = self.model_.config if self._goes_on() else None
        training = given_fields(self, TrainingConfig) | {"seed": seed}
        config, how = recipe(facts, given_fields(self, ModelConfig), training, old=old)
        for name in () if old is None else vars(old):
            if getattr(config, name) != getattr(old, name):
                raise InvalidValue(
                    f"{type(self).__name__} continues a model with {name}={getattr(old, name)!r}, but now it is "
                    f"{getattr(config, name)!r}; set warm_start=False to start from scratch."
                )
        return config, how

    def _learn(
        self, config: ModelConfig, training: TrainingConfig, train: Cases, validation: Cases | None, **facts: Any
    ) -> None:
        """Train a model and keep it; `facts` are the fields of `Trained` besides the model."""
        start = self.model_ if self._goes_on() else first_model(config, train, training.seed)
        fitted = fit(start, train, validation, training, solver=solver_of(self), report=self._report)
        self.trained_ = Trained(
            fitted.model, missing=self.missing, lengths=padded_lengths(train, patch=config.patch), **facts
        )
        self.history_, self.n_iter_ = fitted.history, fitted.history[-1].step
        if config.task != "forecast" and (text := doubt(fitted, train, validation, training)) is not None:
            warnings.warn(text, TrainingWarning, stacklevel=4)

    def _report(self, evaluation: Evaluation) -> bool:
        """Print progress and call the callbacks; return true if one of them stops the training."""
        if self.verbose:
            scores = "".join(f"  {name} {value:.4g}" for name, value in evaluation.scores.items())
            print(f"step {evaluation.step}  loss {evaluation.loss:.4g}{scores}  {evaluation.seconds:.1f} s", flush=True)
        return any([bool(callback(evaluation)) for callback in self._callbacks()])

    def _outputs_of(self, cases: Cases) -> Any:
        """Outputs of the model for each case, in double precision; a list if each step has its own."""
        full = cases.take([*range(len(cases)), *[0] * (BATCH - len(cases))])
        with keeping_compilations():
            found = self.trained_.outputs(full, batch=BATCH, solver=solver_of(self))
        if isinstance(found, list):
            return [np.asarray(one, np.float64) for one in found[: len(cases)]]
        return np.asarray(found[: len(cases)], np.float64)

    def _share(self, count: int) -> float:
        """Share of `count` cases for validation; none if they are very few."""
        share = self.validation_fraction
        if not 0 <= share < 1:
            raise InvalidValue(
                f"{type(self).__name__} got validation_fraction={share!r}; give a number from 0 (none) to below 1."
            )
        return min(float(share), 0.5) if count > 3 else 0.0


class SeriesLearner(Learner, SeriesParameters):
    """An estimator with one prediction for a series, trained at once or in passes (`partial_fit`)."""

    table_: bool
    seed_: int
    _needed: ClassVar[tuple[str, ...]] = ("table_",)
    _progress: TrainState

    def _fit(self, X: Any, y: Any, sample_weight: Any, times: Any) -> None:
        with all_or_nothing(self):
            cases = self._known(X, y, sample_weight, times, reset=True)
            self.seed_ = seed_of(self.random_state)
            more = () if sample_weight is None else ("sample_weight",)
            method = method_of(self, self._task()[0], len(cases), *more)
            if method != "gradient":
                self._liquid(cases, method)
                return
            config, training = self._configured(self._data_facts(cases), self.seed_)
            rng, labels = np.random.default_rng(self.seed_), self._labels_of(cases)
            kept, held = hold_out(np.arange(len(cases)), self._share(len(cases)), rng, labels)
            train, validation = (cases, None) if not len(held) else (cases.take(kept), cases.take(held))
            self._learn(config, training, train, validation, unit=cases.unit, **self._described())
            vars(self).pop("_progress", None)

    def _liquid(self, cases: Cases, method: str) -> None:
        """Fit a read-out of random liquid features; all cases are used in the final fit."""
        start = time.perf_counter()
        model = LiquidModel.fit(cases, *self._task(), views=self.views, seed=self.seed_, logistic=method == "logistic")
        self.trained_ = Trained(model, missing=self.missing, unit=cases.unit, **self._described())
        self.history_, self.n_iter_ = (), 0
        vars(self).pop("_progress", None)
        if self.verbose:
            seconds = time.perf_counter() - start
            print(
                f'{method} on {model.config.n_features} features  {seconds:.1f} s  (method="gradient" trains instead)'
            )

    def _pass(self, X: Any, y: Any, sample_weight: Any, times: Any) -> None:
        """`partial_fit`: one pass over the cases, continuing from the last call, at a constant learning rate after the warm-up."""
        with all_or_nothing(self):
            first = not hasattr(self, "trained_")
            if not first and isinstance(self.model_, LiquidModel):
                raise InvalidValue(
                    f"partial_fit got {type(self).__name__} after a fit on liquid features, which cannot be continued; fit it with "
                    'method="gradient", or call partial_fit from the start.'
                )
            cases = self._known(X, y, sample_weight, times, reset=first)
            if first:
                method_of(self, self._task()[0], len(cases), "partial_fit")
                self.seed_ = seed_of(self.random_state)
                config, _ = self._configured(self._data_facts(cases), self.seed_)
                model = first_model(config, cases, self.seed_)
                self.trained_ = Trained(
                    model,
                    missing=self.missing,
                    unit=cases.unit,
                    lengths=padded_lengths(cases, patch=config.patch),
                    **self._described(),
                )
            training = training_config(self, seed=self.seed_, schedule="constant")
            # The optimiser's memory and the averaged weights go on from call to call.
            state, history = getattr(self, "_progress", None), getattr(self, "history_", ())
            if state is None:
                state, history = TrainState.start(self.model_, training.knobs()), ()
            seconds = history[-1].seconds if history else 0.0
            state, evaluation = one_pass(state, cases, training, solver_of(self), seconds, self.trained_.lengths)
            self._progress, self.history_, self.n_iter_ = state, (*history, evaluation), evaluation.step
            self.trained_ = dataclasses.replace(self.trained_, model=state.chosen(training))
            self._report(evaluation)

    def _known(self, X: Any, y: Any, sample_weight: Any, times: Any, *, reset: bool) -> Cases:
        """Training cases, checked; `reset` stores the fitted attributes that describe them."""
        self._callbacks()
        targets = self._targets(own_targets(X) if y is None else y, reset=reset)
        series = as_series(self, X, reset=reset, nan=check_missing(self))
        check_consistent_length(series, targets, sample_weight)
        return self._cases(series, targets, times, self._weights(targets, sample_weight), reset=reset)

    def _weights(self, targets: np.ndarray | Steps, sample_weight: Any) -> Any:
        """Weights of the cases in the loss, or `None`."""
        del targets
        return sample_weight

    @abc.abstractmethod
    def _targets(self, y: Any, *, reset: bool) -> np.ndarray | Steps:
        """Targets as the model expects them; `reset` stores their kind, otherwise it is compared."""

    @abc.abstractmethod
    def _task(self) -> tuple[str, int]:
        """`task` and `output_dim` of the model."""

    def _labels_of(self, cases: Cases) -> np.ndarray | None:
        """Classes by which cases are held out."""
        return None

    def _described(self) -> dict[str, Any]:
        """Fields of `Trained` that describe data and targets."""
        return {"channels": channel_names(self)}

    def _data_facts(self, cases: Cases) -> Facts:
        return Facts.of(cases, *self._task())

    def _cases(
        self, series: Sequence[np.ndarray], targets: Any, times: Any, weights: Any = None, *, reset: bool = False
    ) -> Cases:
        unit = None if reset else self.trained_.unit
        stamps = as_times(times, series, fitted=None if reset else unit is not None)
        mean = None if reset else getattr(self.model_, "target_mean", None)
        dtype = np.dtype(jnp.result_type(float)) if mean is None else mean.dtype
        return Cases.of(
            series, targets, times=stamps, unit=unit, missing=self.missing, dtype=dtype, weights=weights
        )  # fmt: skip

    def _outputs(self, X: Any, times: Any) -> Any:
        """The model's outputs for new series."""
        check_is_fitted(self, "trained_")
        series = as_series(self, X, reset=False, nan=check_missing(self))
        return self._outputs_of(self._cases(series, None, times))

    def _arrays(self) -> dict[str, np.ndarray]:
        state = getattr(self, "_progress", None)
        if state is None:
            return {}
        leaves = named_leaves((state.model, state.optimiser, state.step))
        return {name: np.asarray(leaf) for name, leaf in leaves.items()}

    def _remember(self, facts: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        super()._remember(facts, arrays)
        if arrays:
            empty = TrainState.start(self.model_, training_config(self).knobs())
            parts = (empty.model, empty.optimiser, empty.step)
            leaves = [
                jnp.asarray(arrays[name].reshape(leaf.shape), leaf.dtype) for name, leaf in named_leaves(parts).items()
            ]
            model, optimiser, step = jax.tree.unflatten(jax.tree.structure(parts), leaves)
            # The averaged weights are those of the estimator's model.
            self._progress = TrainState(model, self.model_, optimiser, step)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing != "error"
        tags.target_tags.required = True
        return tags
