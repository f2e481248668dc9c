"""A data set: what a reader gives, before anything is decided about how to train on it."""

import dataclasses

import numpy as np

from ..errors import InvalidValue
from .cases import Cases
from .splits import VALIDATION, Split, hold_out


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Series with their targets, as they are in a file.

    ```python
    import lrcssm

    digits = lrcssm.data.load("digits")
    print(digits.name, len(digits), digits.task, digits.classes[:3])  # digits 1797 classify ('0', '1', '2')
    train, validation, test = digits.parts()
    ```

    **Attributes:**

    - `name`: for people.
    - `series`: one float32 array `(time, channels)` for each case, NaN where a value is missing.
    - `targets`: one for each case: positions in `classes`, or numbers, `(cases,)` or `(cases, targets)`; `None` where
        there are none.
    - `classes`: names of the classes, or `None` for regression.
    - `split`: which cases the source itself sets aside, or `None`. Its validation part may be empty.
    - `times`: when each step was measured, `(time,)` for each case and increasing, or `None` for equal steps.
    - `channel_names`: as many as there are channels, or `None`.
    - `about`: one paragraph: where it is from, and the best score that is possible if that is known.
    - `index`, `total`: for a part of a data set that the paper's experiments used: which position each case has in the
        order that they permute, and how many there are in all; see `paper_parts`.
    - `ids`: what the source calls each case, or `None` if it only counts them.
    - `step`: how much of the source's time each step takes if all take the same; `None` where it has no times, or `times`.
    """

    name: str
    series: tuple[np.ndarray, ...]
    targets: np.ndarray | None = None
    classes: tuple[str, ...] | None = None
    split: Split | None = None
    times: tuple[np.ndarray, ...] | None = None
    channel_names: tuple[str, ...] | None = None
    about: str = ""
    index: np.ndarray | None = None
    total: int | None = None
    ids: tuple[str, ...] | None = None
    step: float | None = None

    def __len__(self) -> int:
        return len(self.series)

    @property
    def task(self) -> str:
        """`"classify"`, `"regress"`, or `"none"` if there are no targets."""
        if self.targets is None:
            return "none"
        return "regress" if self.classes is None else "classify"

    @property
    def missing(self) -> int:
        """How many values are NaN."""
        return sum(int(np.isnan(one).sum()) for one in self.series)

    def id_of(self, case: int) -> str | int:
        """What the source calls a case, or its position."""
        return int(case) if self.ids is None else self.ids[case]

    def with_times(self) -> "Dataset":
        """The same with `times` also where all steps take the same time, as long as the source says how long that is."""
        if self.times is not None or self.step is None:
            return self
        return dataclasses.replace(self, times=tuple(self.step * np.arange(len(one)) for one in self.series))

    def cases(self, missing: str = "error", unit: float | None = None) -> Cases:
        """All of them, ready to be trained on; `missing` and `unit` are as for `Cases.of`."""
        return Cases.of(self.series, self.targets, times=self.times, unit=unit, missing=missing)

    def parts(self, seed: int = 0, missing: str = "error", split: Split | None = None) -> tuple[Cases, Cases, Cases]:
        """Training, validation and test cases.

        **Arguments:**

        - `seed`: of what is drawn at random: all parts (70, 15 and 15 %), or only the validation part (15 % of
            the training cases) if the source has a test part but none for validation. Classes keep their shares.
        - `missing`: as for `Cases.of`.
        - `split`: one of your own, e.g. `paper_parts(dataset, seed)`.
        """
        chosen = self.complete_split(seed) if split is None else split
        cases = self.cases(missing)
        train, validation, test = (cases.take(part) for part in chosen)
        return train, validation, test

    def complete_split(self, seed: int = 0) -> Split:
        """The split that `parts` uses."""
        rng = np.random.default_rng(seed)
        if self.split is not None and len(self.split.validation):
            return self.split
        if self.split is not None:
            train, validation = self._cut(self.split.train, VALIDATION, rng)
            return Split(train, validation, self.split.test)
        rest, test = self._cut(np.arange(len(self)), VALIDATION, rng)
        return Split(*self._cut(rest, VALIDATION / (1 - VALIDATION), rng), test)

    def _cut(self, which: np.ndarray, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """`hold_out` of some cases; at least two are left."""
        labels = None if self.classes is None or self.targets is None else self.targets[which]
        kept, held = hold_out(which, share, rng, labels)
        if len(kept) < 2:
            own, least = ("cases", 4) if self.split is None else ("training cases", 3)
            have = len(self) if self.split is None else len(self.split.train)
            raise InvalidValue(
                f"{self.name} has {have} {own}, too few for training, validation and test; give at least {least}."
            )
        return kept, held
