"""Ridge regression on cases that come in parts.

The first part draws and calibrates the features, and fixes their standardisation. After that the solution is that of all cases
together: their features are kept while they are few, and above `max(d / 2, EXACT)` cases for d features their Gram matrix instead
(see `sums`), so that memory is bounded. The penalty and the calibration come from leave-one-out as for all cases at once: of all
of them up to `EXACT`, and of a random sample of `PART` above, which reservoir sampling keeps next to the Gram matrix (Vitter, 1985).
"""

import itertools

import numpy as np

from ..data import Cases
from ..errors import InvalidValue
from .calibration import softmax_factor
from .map import FeatureMap
from .model import LiquidModel, counted_cases
from .readout import EXACT, PART, PENALTIES, ROWS, HeldOut, Readout, compressed, leave_one_out, moments, solve_by_cases
from .sums import Sums


class Parts:
    """Ridge regression on liquid features, accumulated part by part.

    ```python
    import numpy as np
    from lrcssm.data import Cases
    from lrcssm.features import FeatureMap, Parts

    rng = np.random.default_rng(0)
    cases = Cases.of(rng.standard_normal((40, 30, 2)), targets=np.arange(40) % 2)
    parts = Parts(FeatureMap.of(cases, n_features=1000), "classify", 2)
    for start in (0, 20):
        parts.add(cases.take(range(start, start + 20)))
    print(parts.model().outputs(cases).shape)  # (40, 2)
    ```

    **Arguments:**

    - `features`: the map from series to features.
    - `task`, `outputs`: as for `LiquidModel.fit`.
    - `seed`: of the random sample.
    """

    def __init__(self, features: FeatureMap, task: str, outputs: int, *, seed: int = 0):
        self.map, self.task, self.outputs = features, task, outputs
        self.count = 0
        self._rng = np.random.default_rng(seed)
        self._scaling: tuple[np.ndarray, np.ndarray] | None = None
        self._offset = np.zeros(outputs)
        self._squares = np.zeros(outputs)
        self._total = np.zeros(outputs)
        self._rows: list[np.ndarray] = []  # compressed features: of all cases, or of the sample
        self._targets: list[np.ndarray] = []
        self._sums: Sums | None = None

    def add(self, cases: Cases) -> None:
        """Take more cases.

        **Arguments:**

        - `cases`: with targets; the first part has at least 2 cases.
        """
        given = np.asarray(cases.targets)
        if self.task == "classify":
            targets = np.where(given[:, None] == np.arange(self.outputs), 1.0, -1.0)
        else:
            targets = given.reshape(len(given), -1).astype(np.float64)
        if self._scaling is None:
            if len(cases) < 2:
                raise InvalidValue(
                    f"The first part has {len(cases)} case; give some hundred, because they fix the scale of the features."
                )
            some = np.arange(len(cases))
            some = some if len(some) <= EXACT else self._rng.permutation(some)[:PART]
            self._scaling = moments(self.map(cases.take(some)))
            if self.task != "classify":
                self._offset = targets.mean(0)
        for start in range(0, len(cases), ROWS):
            which = np.arange(start, min(start + ROWS, len(cases)))
            self._take(compressed(self.map(cases.take(which)), *self._scaling), targets[which] - self._offset)

    def _take(self, z: np.ndarray, y: np.ndarray) -> None:
        if self._sums is None:
            self._rows.append(z)
            self._targets.append(y)
            if self.count + len(z) > max(z.shape[1] // 2, EXACT):
                self._change_to_sums()
        else:
            self._sums.add(z, y)
            sample, targets = self._rows[0], self._targets[0]
            for i in range(len(z)):
                place = int(self._rng.integers(self.count + i + 1))
                if place < len(sample):
                    sample[place], targets[place] = z[i], y[i]
        self.count += len(z)
        self._total += y.sum(0)
        self._squares += (y**2).sum(0)

    def _change_to_sums(self) -> None:
        """Replace the rows by their Gram matrix and a random sample of them."""
        sums = Sums(self._rows[0].shape[1], self.outputs)
        for z, y in zip(self._rows, self._targets, strict=True):
            sums.add(z, y)
        chosen = np.sort(self._rng.permutation(sums.count)[:PART])
        edges = np.cumsum([0, *map(len, self._rows)])
        inside = [chosen[(chosen >= low) & (chosen < high)] - low for low, high in itertools.pairwise(edges)]
        self._targets = [np.concatenate([y[some] for y, some in zip(self._targets, inside, strict=True)])]
        self._rows = [np.concatenate([z[some] for z, some in zip(self._rows, inside, strict=True)])]
        self._sums = sums

    def model(self) -> LiquidModel:
        """The model of all cases so far."""
        readout, held_out, targets = self._fitted()
        if self.task != "classify":
            return LiquidModel(self.task, self.map, readout)
        return LiquidModel(self.task, self.map, readout, softmax_factor(held_out.predictions, targets.argmax(1)))

    def _fitted(self) -> tuple[Readout, HeldOut, np.ndarray]:
        """The read-out, the held-out predictions, and the targets of these cases."""
        assert self._scaling is not None
        self._rows, self._targets = [np.concatenate(self._rows)], [np.concatenate(self._targets)]
        z, centre = self._rows[0], self._total / self.count
        deviation = np.sqrt(np.maximum(self._squares / self.count - centre**2, 0.0))
        scale = np.where(deviation > 0, deviation, 1.0) if self.task != "classify" else np.ones(self.outputs)
        y = self._targets[0] / scale
        part = np.arange(len(z))
        if self._sums is None and len(z) > EXACT:
            part = np.sort(np.random.default_rng(0).permutation(part)[:PART])
        counted = np.ones(len(part), bool)
        if self.task == "classify":
            counted = counted_cases(y[part].argmax(1), (self.count + self._total) / 2)
        some = z if len(part) == len(z) else z[part]
        dual, penalty, predictions = leave_one_out(some, y[part], PENALTIES, counted)
        if self._sums is not None:
            shift, weights = self._sums.solve(penalty)
            weights = weights / scale
        elif len(part) < len(z):
            shift, weights = solve_by_cases(z.copy(), y, penalty)
        else:
            shift, weights = z.mean(0, dtype=np.float64), z.T.astype(np.float64) @ dual
        weights = weights * scale
        intercept = self._offset + centre - shift @ weights
        held_out = HeldOut(predictions[counted], part[counted])
        return Readout(*self._scaling, weights, intercept, penalty), held_out, y[held_out.cases]
