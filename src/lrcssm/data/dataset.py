"""The data set that a reader returns, independent of models and training."""

import dataclasses
import re

import numpy as np

from ..errors import InvalidValue, printable
from .cases import Cases
from .splits import VALIDATION, Split, hold_out

_LONGEST_NAME = 80


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Series with their targets, as read from a file.

    ```python
    import lrcssm

    digits = lrcssm.data.load("digits")
    print(digits.name, len(digits), digits.task, digits.classes[:3])  # digits 1797 classify ('0', '1', '2')
    train, validation, test = digits.parts()
    ```

    **Attributes:**

    - `name`: a single path component, without separators and control characters.
    - `series`: one float32 array `(time, channels)` for each case, NaN where a value is missing.
    - `targets`: one for each case: positions in `classes`, or numbers, `(cases,)` or `(cases, targets)`; or one for each
        step, a tuple of such arrays `(time,)`, −1 or NaN where a step has no class or number; `None` without targets.
    - `classes`: names of the classes, or `None` for regression.
    - `split`: the split of the source, or `None`. Its validation part may be empty.
    - `times`: time of each step, `(time,)` for each case and increasing, or `None` for equal steps.
    - `channel_names`: as many as there are channels, or `None`.
    - `about`: one paragraph: the origin of the data and, if known, the best possible score.
    - `index`, `total`: for a part of a data set that the paper's experiments used: the position of each case in the order
        that they permute, and the number of cases in all; see `lrcssm_paper.splits.paper_parts`.
    - `ids`: names of the cases in the source, or `None` if cases have no names.
    - `step`: source time per step if all steps take the same; `None` where there are no times, or `times`.
    - `guess`: one sentence about the guessed roles of the columns of a table; empty if nothing was guessed.
    - `labels`: for readers: `"listed"` if the source lists its classes or has numbers, `"found"` if `classes` are those that
        occur, `"open"` if these may also be numbers of a regression.

    Control characters in names of classes, channels and cases are escaped.
    """

    name: str
    series: tuple[np.ndarray, ...]
    targets: np.ndarray | tuple[np.ndarray, ...] | None = None
    classes: tuple[str, ...] | None = None
    split: Split | None = None
    times: tuple[np.ndarray, ...] | None = None
    channel_names: tuple[str, ...] | None = None
    about: str = ""
    index: np.ndarray | None = None
    total: int | None = None
    ids: tuple[str, ...] | None = None
    step: float | None = None
    guess: str = ""
    labels: str = "listed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", safe_name(self.name))
        for field in ("classes", "channel_names", "ids"):
            if (texts := getattr(self, field)) is not None:
                object.__setattr__(self, field, tuple(map(printable, texts)))

    def __len__(self) -> int:
        return len(self.series)

    @property
    def task(self) -> str:
        """`"classify"`, `"regress"`, `"per-step"`, or `"none"` if there are no targets."""
        if self.targets is None:
            return "none"
        if isinstance(self.targets, tuple):
            return "per-step"
        return "regress" if self.classes is None else "classify"

    @property
    def missing(self) -> int:
        """Number of values that are NaN."""
        return sum(int(np.isnan(one).sum()) for one in self.series)

    def id_of(self, case: int) -> str | int:
        """Return the name of a case in the source, or its position."""
        return int(case) if self.ids is None else self.ids[case]

    def with_times(self) -> "Dataset":
        """Fill in `times` for equal steps, if the source gives their length."""
        if self.times is not None or self.step is None:
            return self
        return dataclasses.replace(self, times=tuple(self.step * np.arange(len(one)) for one in self.series))

    def cases(self, missing: str = "error", unit: float | None = None) -> Cases:
        """Check all cases for training; `missing` and `unit` are as for `Cases.of`."""
        return Cases.of(self.series, self.targets, times=self.times, unit=unit, missing=missing)

    def parts(self, seed: int = 0, missing: str = "error", split: Split | None = None) -> tuple[Cases, Cases, Cases]:
        """Select training, validation and test cases.

        **Arguments:**

        - `seed`: of the random draw of all parts (70, 15 and 15 %), or of the validation part alone (15 % of the training
            cases) if the source has a test part but none for validation. Classes keep their shares.
        - `missing`: as for `Cases.of`.
        - `split`: your own split, e.g. `lrcssm_paper.splits.paper_parts(dataset, seed)`.

        **Returns:**

        Cases for training, validation and test.
        """
        chosen = self.complete_split(seed) if split is None else split
        cases = self.cases(missing)
        train, validation, test = (cases.take(part) for part in chosen)
        return train, validation, test

    def complete_split(self, seed: int = 0) -> Split:
        """Return the split that `parts` uses."""
        rng = np.random.default_rng(seed)
        if self.split is not None and len(self.split.validation):
            return self.split
        if self.split is not None:
            train, validation = self._cut(self.split.train, VALIDATION, rng)
            return Split(train, validation, self.split.test)
        rest, test = self._cut(np.arange(len(self)), VALIDATION, rng)
        return Split(*self._cut(rest, VALIDATION / (1 - VALIDATION), rng), test)

    def _cut(self, which: np.ndarray, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Hold out a share of some cases; at least two are left."""
        stratified = self.classes is not None and isinstance(self.targets, np.ndarray)
        kept, held = hold_out(which, share, rng, self.targets[which] if stratified else None)  # pyright: ignore
        if len(kept) < 2:
            own, least = ("cases", 4) if self.split is None else ("training cases", 3)
            have = len(self) if self.split is None else len(self.split.train)
            raise InvalidValue(
                f"{self.name} has {have} {own}, too few for training, validation and test; give at least {least}."
            )
        return kept, held


def safe_name(text: str) -> str:
    """Make one component of a path from any text.

    ```python
    from lrcssm.data.dataset import safe_name

    print(safe_name("../../etc/passwd"))  # etc_passwd
    ```
    """
    plain = printable(text).replace("\\", "/").strip("./ ")
    return re.sub(r"(?:/|\.\.+)+", "_", plain)[:_LONGEST_NAME].strip("./ ") or "data"
