"""The forecaster trained by gradients, or by ridge regression."""

import time
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..data import Cases
from ..engine import SolveError, Status
from ..errors import InvalidValue
from ..features import ForecastModel
from ..features.forecast import margin_of
from ..training import Facts, Trained
from ..training.metrics import worst_status
from .arrays import seed_of
from .base import Learner, all_or_nothing
from .forecast_inputs import several
from .forecasts import Forecasts
from .parameters import ForecasterParameters, documented, method_of, solver_of, training_config
from .ridge_forecaster import fit_ridge, refuse_target
from .windows import Windows, as_cases, levels, naive_error, positions, window_of

_GAINS = np.linspace(0, 1, 11)
_BASE = "base/"


@documented
class LrcSSMForecaster(Forecasts, Learner, ForecasterParameters):
    """Forecaster of a time series, of one channel or many, or of several series with one model.

    Without any parameters of the model or the training it uses ridge regression on lags and random liquid states, like
    `lrcssm.LrcRidgeForecaster`; with such parameters it trains an LrcSSM by gradients, on the residuals of ridge regression on
    lags.

    ```python
    import lrcssm, numpy as np

    t = np.arange(300)
    y = np.sin(2 * np.pi * t / 12) + 0.01 * t
    model = lrcssm.LrcSSMForecaster(horizon=6, window=24, hidden_dim=8, state_dim=8, num_blocks=1, steps=100, random_state=0)
    print(model.fit(y).predict(horizon=12))  # the 12 values after the last one
    ```

    Time is the first axis here: `(n_timepoints,)`, `(n_timepoints, n_channels)`, or a list of such
    arrays for several series.

    {arguments}

    **Attributes:**

    - `trained_`, `model_`: the `lrcssm.training.Trained`, and its `SequenceModel` (or, with ridge, its
        `lrcssm.features.ForecastModel`).
    - `base_`, `gain_`: ridge regression on lags, and the factor of the model's outputs that are added to it: the best factor on
        the held-out part of the series, 1 without such a part.
    - `errors_`: errors of ridge regression on lags by rolling origins, and of the full forecast on the held-out part; the
        intervals are computed from them.
    - `season_`, `season_guessed_`: the season, and true if it was guessed.
    - `window_`, `horizon_`: number of values that the model reads, and that it forecasts at once.
    - `tails_`, `stamps_`: the last values of each series, from which `predict` starts, and their times if `fit` had any.
    - `history_`, `n_iter_`: one `Evaluation` for each evaluation, and the number of steps made.
    - `n_channels_`, `n_features_in_`: channels.
    - `n_past_`, `n_future_`: covariates, for ridge only.
    """

    base_: ForecastModel
    gain_: float
    errors_: np.ndarray

    def fit(
        self, X: Any, y: Any = None, times: Any = None, past_covariates: Any = None, future_covariates: Any = None
    ) -> "LrcSSMForecaster":
        """Train a new model, or with `warm_start` continue training the current one.

        **Arguments:**

        - `X`: the series.
        - `y`: not used, present for API consistency.
        - `times`: time of each step, for irregular series: `(n_timepoints,)`, or a list of them for several
            series, increasing. Forecasts are those of the next measurements, a mean interval apart.
        - `past_covariates`, `future_covariates`: as for `lrcssm.LrcRidgeForecaster`; for ridge only.
        """
        refuse_target(X, y)
        with all_or_nothing(self):
            self._callbacks()
            if self.level not in ("last", "mean", "none"):
                raise InvalidValue(f'{type(self).__name__} got level={self.level!r}; give "last", "mean" or "none".')
            self.single_ = not several(X)
            series, stamps = self._given(X, times, past_covariates, future_covariates, reset=True)
            self._choose_season(series)
            self.window_ = window_of(self, min(len(one) for one in series), self.season_)
            self.horizon_ = int(self.horizon)
            if method_of(self, "forecast", len(series)) == "ridge":
                self._ridge(series, stamps)
            elif self.n_past_ or self.n_future_:
                raise InvalidValue(
                    f'{type(self).__name__} got covariates, which gradient steps do not take; give method="ridge" and leave '
                    "parameters of model and training out."
                )
            else:
                self._train(series, stamps)
            self.naive_error_ = naive_error([one[:, : self.n_channels_] for one in series], self.season_)
            self._keep(series, stamps)
        return self

    def _ridge(self, series: list[np.ndarray], stamps: list[np.ndarray] | None) -> None:
        start = time.perf_counter()
        model = fit_ridge(self, series, stamps, seed=seed_of(self.random_state))
        self.trained_ = Trained(model, missing=self.missing, unit=self.unit_)
        self.history_, self.n_iter_ = (), 0
        for name in ("base_", "gain_", "errors_"):
            vars(self).pop(name, None)
        if self.verbose:
            seconds = time.perf_counter() - start
            print(f'ridge on lags and liquid states  {seconds:.1f} s  (method="gradient" trains instead)')

    def _train(self, series: list[np.ndarray], stamps: list[np.ndarray] | None) -> None:
        seed = seed_of(self.random_state)
        how = training_config(self, seed=seed)
        # A short series is for training: at least one window of it, with what follows.
        held_out = [round(self._share(len(one)) * len(one)) for one in series]
        least = self.window_ + self.horizon_
        ends = [max(len(one) - count, least) for one, count in zip(series, held_out, strict=True)]
        # More windows than the steps will ever see would only take memory.
        learned = [positions(end, self.window_, self.horizon_, most=how.steps * how.batch) for end in ends]
        held = [
            positions(len(one), self.window_, self.horizon_, start=end, most=1024)
            for one, end in zip(series, ends, strict=True)
        ]
        before = [one[:end] for one, end in zip(series, ends, strict=True)]
        earlier = None if stamps is None else [one[:end] for one, end in zip(stamps, ends, strict=True)]
        # As the network, which sees windows relative to their levels.
        how_base = {"scale": "linear", "units": 0, "level": self.level == "none"}
        self.base_, self.gain_ = fit_ridge(self, before, earlier, **how_base), 1.0
        train, validation = (self._known(self._windows(series, stamps, begins)) for begins in (learned, held))
        cases = self._relative(train)
        facts = Facts(
            self.n_channels_, self.window_, cases.dt is not None, "forecast", self.horizon_ * self.n_channels_
        )
        config, how = self._configured(facts, seed)
        checked = self._relative(validation) if len(validation.pieces) else None
        self._learn(config, how, cases, checked, unit=self.unit_)
        self.errors_ = self.base_.errors
        if checked is not None:
            outputs, left = self._outputs_of(checked), np.asarray(checked.targets)
            found = [float(np.abs(gain * outputs - left).mean()) for gain in _GAINS]
            self.gain_ = float(_GAINS[int(np.argmin(found))])
            own = (self.gain_ * outputs - left).reshape(-1, self.horizon_, self.n_channels_)
            # A short series has few held-out windows; its start is no better than the whole.
            self.errors_ = np.concatenate([self.errors_, own])

    def _known(self, windows: Windows) -> Windows:
        """Training windows with all values of their horizons."""
        return windows.take(~np.isnan(windows.after).any((1, 2)))

    def _relative(self, windows: Windows) -> Cases:
        """Cases relative to their levels; targets are relative to ridge regression on lags."""
        mean = getattr(self.model_, "target_mean", None) if hasattr(self, "trained_") else None
        dtype = jnp.result_type(float) if mean is None else mean.dtype
        after = start = None
        if not np.isnan(windows.after).any():
            after, start = windows.after, self.base_(self._cases(windows))
        return as_cases(
            windows.pieces, after, self.level, np.dtype(dtype), stamps=windows.stamps, unit=self.unit_,
            missing=self.missing, start=start,
        )  # fmt: skip

    def _ahead(self, windows: Windows) -> np.ndarray:
        if isinstance(self.model_, ForecastModel):
            return self.model_(self._cases(windows), self._future(windows))
        bare = Windows(windows.pieces, np.full_like(windows.after, np.nan), windows.stamps)
        outputs = self._outputs_of(self._relative(bare)).reshape(windows.after.shape)
        return self.base_(self._cases(windows)) + self.gain_ * outputs

    def _ends(self, windows: Windows, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(self.model_, ForecastModel):
            return self.model_.interval(self._cases(windows), coverage, self._future(windows))
        middle, margin = self._ahead(windows), margin_of(self.errors_, coverage)
        return middle - margin, middle + margin

    def _roll(self, windows: Windows, known: list[np.ndarray] | None, horizon: int) -> np.ndarray:
        """Forecasts of any number of steps, with the states of the cells carried over."""
        if self.model_.whole() is not None:
            return super()._roll(windows, known, horizon)
        cases, level = self._relative(windows), levels(windows.pieces, self.level)
        inputs, mask, dt = (
            None if part is None else np.stack(part, 1) for part in (cases.series, cases.valid, cases.dt)
        )
        found, state = [], None
        while len(found) * self.horizon_ < horizon:
            outputs, state, worst = _piece(self.model_, inputs, mask, dt, state, solver_of(self))
            if not (status := Status(int(worst))).ok:
                raise SolveError(f"The forecast could not be computed. {status.message}")
            outputs = np.asarray(outputs, np.float64).reshape(windows.after.shape)
            found.append(self.base_(self._cases(windows)) + self.gain_ * outputs)
            inputs = np.moveaxis(found[-1] - level, 0, 1).astype(cases.series[0].dtype)
            mask = dt = None
            windows = self._slid(windows, found[-1], None, len(found))
        return np.concatenate(found, 1)[:, :horizon]

    def _facts(self) -> dict[str, Any]:
        facts = super()._facts() | self._kept_facts()
        return facts if not hasattr(self, "base_") else facts | {"gain_": self.gain_, "base": self.base_.to_arrays()[0]}

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = self._kept_arrays()
        if hasattr(self, "base_"):
            own = self.base_.to_arrays()[1]
            arrays |= {"held-out errors": self.errors_} | {f"{_BASE}{name}": array for name, array in own.items()}
        return arrays

    def _remember(self, facts: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        facts = dict(facts)
        if "base" in facts:
            own = {name.removeprefix(_BASE): one for name, one in arrays.items() if name.startswith(_BASE)}
            self.base_, self.errors_ = ForecastModel.from_arrays(facts.pop("base"), own), arrays["held-out errors"]
            shape = (facts["horizon_"], facts["n_channels_"])
            sizes = (self.base_.config.window, self.base_.config.horizon, self.base_.config.input_dim)
            if self.errors_.shape[1:] != shape or sizes != (facts["window_"], *shape) or "gain_" not in facts:
                raise InvalidValue("its start is not that of its model")
        elif not isinstance(self.model_, ForecastModel):
            raise InvalidValue("its start is missing")
        super()._remember(facts, arrays)
        self._remember_arrays(arrays)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags


@eqx.filter_jit
def _piece(model, inputs, mask, dt, state, solver):
    outputs, state, passed = model.run(inputs, mask=mask, dt=dt, state=state, solver=solver, throw=False)
    return outputs, state, worst_status(passed)
