"""A model of random liquid features and a linear read-out: trained without gradients."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..data import Cases
from ..errors import InvalidValue
from .calibration import softmax_factor
from .fitting import check_units
from .logistic import fit_logistic
from .map import BATCH, FeatureMap
from .readout import Readout, fit_readout
from .statistics import THRESHOLDS
from .step import LiquidStep
from .views import STREAMED

N_FEATURES = 12_288
"""Default number of features."""
IN_MEMORY = 10_000
"""Most cases whose features are kept; those of more are computed twice, a part at a time."""


@dataclasses.dataclass(frozen=True)
class LiquidConfig:
    """Sizes and task of a `LiquidModel`.

    **Attributes:**

    - `input_dim`, `output_dim`: channels of the data, and classes or numbers.
    - `task`: `"classify"` or `"regress"`; `"features"` without a read-out.
    - `n_features`: number of features.
    - `views`: views of the series.
    """

    input_dim: int
    output_dim: int
    task: str
    n_features: int
    views: tuple[str, ...]
    patch: ClassVar[int] = 1  # a step of the model is one of the series

    def to_json(self) -> str:
        """All fields as a JSON object."""
        return json.dumps(dataclasses.asdict(self))


class LiquidModel(NamedTuple):
    """Random liquid features with a read-out.

    **Attributes:**

    - `task`: as for `LiquidConfig`.
    - `map`: from series to features.
    - `readout`: from features to decision values or numbers; `None` for features alone.
    - `factor`: of the decision values, so that their softmax gives calibrated probabilities.
    """

    task: str
    map: FeatureMap
    readout: Readout | None = None
    factor: float = 1.0

    @classmethod
    def fit(
        cls,
        cases: Cases,
        task: str,
        outputs: int,
        *,
        n_features: int = N_FEATURES,
        views: Sequence[str] | None = None,
        max_time: float | None = None,
        seed: int = 0,
        batch: int = BATCH,
        logistic: bool = False,
    ) -> "LiquidModel":
        """Draw the features and fit their read-out.

        ```python
        import numpy as np
        from lrcssm.data import Cases
        from lrcssm.features import LiquidModel

        rng = np.random.default_rng(0)
        cases = Cases.of(rng.standard_normal((20, 30, 2)), targets=np.arange(20) % 2)
        model = LiquidModel.fit(cases, "classify", 2, n_features=1000)
        print(model.outputs(cases).shape)  # (20, 2)
        ```

        **Arguments:**

        - `cases`: with targets: numbers of classes, or numbers.
        - `task`, `outputs`: `"classify"` and the number of classes, or `"regress"` and how many numbers each case has.
        - `n_features`, `views`, `max_time`, `seed`, `batch`: as for `FeatureMap.of`.
        - `logistic`: improve the read-out of a classifier by logistic regression, if held-out cases say so.

        **Returns:**

        A model whose penalty has the least leave-one-out error, and whose probabilities are calibrated on leave-one-out
        predictions.
        """
        rng = np.random.default_rng(seed)
        drawn = FeatureMap.of(cases, n_features=n_features, views=views, max_time=max_time, seed=seed, batch=batch)
        features = drawn(cases) if len(cases) <= IN_MEMORY else lambda which: drawn(cases.take(which))
        given = np.asarray(cases.targets)
        if task != "classify":
            targets = given.reshape(len(given), -1).astype(np.float64)
            scale = np.where(targets.std(0) > 0, targets.std(0), 1.0)
            readout, _ = fit_readout(features, targets / scale, rng=rng)
            return cls(
                task, drawn, readout._replace(weights=readout.weights * scale, intercept=readout.intercept * scale)
            )
        targets = np.where(given[:, None] == np.arange(outputs), 1.0, -1.0)
        counted = counted_cases(given, np.bincount(given, minlength=outputs))
        readout, held_out = fit_readout(features, targets, counted=counted, rng=rng)
        factor = softmax_factor(held_out.predictions, given[held_out.cases])
        if logistic:
            readout, factor = fit_logistic(features, given, readout, factor, held_out, rng=rng)
        return cls(task, drawn, readout, factor)

    @property
    def config(self) -> LiquidConfig:
        """Sizes and task."""
        outputs = self.map.n_features if self.readout is None else len(self.readout.intercept)
        return LiquidConfig(
            self.map.units.mixes.shape[1], outputs, self.task, self.map.n_features, tuple(self.map.views.names)
        )

    def outputs(self, cases: Cases) -> np.ndarray:
        """Logits or numbers of each case, `(cases, outputs)`, float64; its features if there is no read-out."""
        features = self.map(cases)
        return features if self.readout is None else self.factor * self.readout(features)

    @property
    def dtype(self) -> np.dtype:
        """Precision of the features."""
        return np.dtype(self.map.units.cell.v.dtype)

    def parameter_count(self) -> int:
        """Number of fitted numbers: the weights of the read-out."""
        return 0 if self.readout is None else self.readout.weights.size + self.readout.intercept.size

    def whole(self, **kind: Any) -> str | None:
        """Reason why a sequence cannot be given in pieces, to follow "it", or `None` if it can."""
        del kind
        by_case = [name for name in self.map.views.names if name not in STREAMED]
        return f"standardises each sequence as a whole ({' and '.join(by_case)})" if by_case else None

    def stepper(self) -> LiquidStep:
        """The same model for one sample at a time."""
        if (reason := self.whole()) is not None:
            raise InvalidValue(
                f"The model cannot predict step by step, because it {reason}; fit it with views={STREAMED!r}."
            )
        return LiquidStep.of(self.config, self.map, self.readout, self.factor)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The model as JSON and arrays by name."""
        about, arrays = self.map.to_arrays()
        about |= json.loads(self.config.to_json()) | {"factor": self.factor, "penalty": None}
        if self.readout is not None:
            arrays |= {f"readout.{name}": getattr(self.readout, name) for name in _READOUT}
            about["penalty"] = self.readout.penalty
        return about, arrays

    @classmethod
    def from_arrays(cls, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> "LiquidModel":
        """The inverse of `to_arrays`; raises `ValueError` or `KeyError` if they do not fit together."""
        readout = None
        if about["penalty"] is not None:
            parts = {name: arrays.pop(f"readout.{name}") for name in _READOUT}
            readout = Readout(**parts, penalty=float(about["penalty"]))
        model = cls(about["task"], FeatureMap.from_arrays(about, arrays), readout, float(about["factor"]))
        check_units(model.map.views, model.map.units)
        if type(model.map.batch) is not int or not 1 <= model.map.batch <= 2**16:
            raise ValueError("its batch is not a number of cases")
        groups, _, units = model.map.units.cell.a_u.shape
        shapes = {"mean": (groups, units, 1), "scale": (groups, units, 1), "thresholds": (THRESHOLDS, groups, units, 1)}
        if {name: part.shape for name, part in model.map.reference._asdict().items()} != shapes:
            raise ValueError("its thresholds are not those of its units")
        if model.task not in ("classify", "regress") if readout is not None else model.task != "features":
            raise ValueError("its task is not one of its kind")
        if json.loads(model.config.to_json()) != {name: about[name] for name in _CONFIG}:
            raise ValueError("its arrays are not those of its configuration")
        if readout is not None:
            features, outputs = model.map.n_features, len(readout.intercept)
            wanted = [(features,), (features,), (features, outputs), (outputs,)]
            if [getattr(readout, name).shape for name in _READOUT] != wanted:
                raise ValueError("its read-out is not that of its features")
        return model


def counted_cases(classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The cases that count in leave-one-out: the only case of a class cannot be predicted by a fit without it.

    **Arguments:**

    - `classes`: the number of each case's class.
    - `counts`: cases of each class.
    """
    return counts[classes] > 1


_READOUT = ("mean", "scale", "weights", "intercept")
_CONFIG = tuple(field.name for field in dataclasses.fields(LiquidConfig))
