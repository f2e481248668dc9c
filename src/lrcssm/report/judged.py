"""The part of a report about predictions: scores, confused classes and importance of channels."""

import dataclasses
import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import Cases
from ..engine import Auto, Solver
from ..features import LiquidModel
from ..features.explain import Explanation, explain
from ..training import Trained
from ..training.importance import channel_importance
from ..training.metrics import observed
from ..training.reliability import reliability
from ..training.trained import as_probabilities
from . import outcome, plots
from .headline import STATISTIC_WORDS, headline, most_confused, spoken
from .page import bars, folded, row, section, table, wide
from .steps import timelines, worst

_SHOWN_CLASSES = 12
_SHOWN_CHANNELS = 20
_EXPLAINED = 200
_LEAST_RELIABLE = 10


@dataclasses.dataclass(frozen=True)
class Judged:
    """Predictions of a model for cases with targets.

    **Attributes:**

    - `trained`: the model.
    - `cases`: with targets.
    - `outputs`: of the model for the cases, as `Trained.outputs` gives them.
    - `found`: their scores.
    - `part`: name of the cases, such as `"test"`.
    - `ids`: name of each case.
    - `seconds`: time limit for the importance of channels.
    - `solver`: of the recurrences.
    """

    trained: Trained
    cases: Cases
    outputs: Any
    found: dict[str, Any]
    part: str
    ids: Sequence[Any]
    seconds: float = 10.0
    solver: Solver = Auto()

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes."""
        return self.trained.names

    def headline(self) -> str:
        """The result in words."""
        outputs, targets = observed(self.outputs, self.cases)
        return headline(self.found, outputs, targets, self.classes, of=self._units())

    def sections(self) -> list[str]:
        """The sections of the page; empty ones are left out."""
        outputs, targets = observed(self.outputs, self.cases)
        parts = [self._classes(outputs, targets)] if self.classes is not None else [self._residuals(outputs, targets)]
        parts += [self._channels(), self._explanation(), self._furthest()]
        return [part for part in parts if part]

    def _units(self) -> str:
        return f"{self.part} {'steps' if isinstance(self.cases.targets, tuple) else 'cases'}"

    def _classes(self, outputs: np.ndarray, targets: np.ndarray) -> str:
        classes = self.classes
        assert classes is not None
        counts = outcome.confusion_counts(targets, outputs.argmax(-1), len(classes))
        text = f"{self._units().capitalize()}: the true class of each row, the predicted one of each column."
        parts = [section("Confusion matrix", text, wide(plots.svg(outcome.confusion(counts, classes))))]
        each = table(("class", "precision", "recall", "F1", "cases"), by_class(counts, classes))
        if len(classes) > 2 * _SHOWN_CLASSES:
            each = folded(f"Precision and recall of all {len(classes)} classes", each)
        parts.append(section(
            "Classes", "Precision: the share of the predictions of a class that are right. Recall: the share of its cases that are found.",
            each + _pairs(counts, classes),
        ))  # fmt: skip
        if len(targets) >= _LEAST_RELIABLE:
            found = reliability(as_probabilities(outputs), targets)
            parts.append(section(
                "Reliability",
                f"Predictions grouped by their probability: of those with 80 %, 80 % should be right. Larger points have more cases. "
                f"The expected calibration error is {found.error:.1%}.",
                plots.svg(outcome.diagram(found)),
            ))  # fmt: skip
        return "".join(parts)

    def _residuals(self, outputs: np.ndarray, targets: np.ndarray) -> str:
        pictures = [(plots.svg(one), "") for one in outcome.residuals(targets, outputs)]
        return section("Residuals", f"{self._units().capitalize()}.", row(pictures))

    def _channels(self) -> str:
        """Importance of the channels; nothing for one channel."""
        if self.cases.channels < 2:
            return ""
        found = channel_importance(
            lambda cases: self.trained.outputs(cases, solver=self.solver), self.cases, classify=self.classes is not None,
            seconds=self.seconds,
        )  # fmt: skip
        if found is None:
            return section(
                "Channels",
                f"Their importance was not computed: it would have taken more than {self.seconds:.0f} s.",
                "",
            )
        names = self.trained.channels or [f"channel {i}" for i in range(self.cases.channels)]
        order = np.argsort(-found.losses, kind="stable")
        # Adding 0 makes 0 of −0.
        text = lambda x: f"{round(100 * x, 1) + 0:+.1f} points" if found.of == "accuracy" else f"{round(x, 3) + 0:+.3f}"
        rows = [(str(names[i]), -float(found.losses[i]), text(-found.losses[i])) for i in order]
        content = bars([(name, -value, shown) for name, value, shown in rows[:_SHOWN_CHANNELS]])
        if len(rows) > _SHOWN_CHANNELS:
            rest = [(name, -value, shown) for name, value, shown in rows[_SHOWN_CHANNELS:]]
            content += folded(f"The other {len(rest)} channels", bars(rest))
        sampled = f"all {found.cases}" if found.cases == len(self.cases) else f"{found.cases} of {len(self.cases)}"
        name = "accuracy" if found.of == "accuracy" else "R²"
        words = (
            f"Change of the {name} when a channel is exchanged between cases at random (permutation importance): the further it "
            f"falls, the more the model relies on the channel. Measured on {sampled} {self.part} cases"
            + (", a random sample that bounds the time." if found.cases < len(self.cases) else ".")
            + (
                f" Differences below about {100 / found.cases**0.5:.0f} points may be chance."
                if found.of == "accuracy"
                else ""
            )
        )
        return section("Channels", words, content)

    def _explanation(self) -> str:
        """Contributions of channels, time scales and statistics to a ridge model's predictions."""
        if not isinstance(self.trained.model, LiquidModel):
            return ""
        cases = self.cases
        if len(cases) > _EXPLAINED:
            cases = cases.take(np.sort(np.random.default_rng(0).permutation(len(cases))[:_EXPLAINED]))
        found = explain(self.trained.model, cases, classes=self.trained.classes, channels=self.trained.channels)
        return explanation_section(found, len(self.cases), self.part)

    def _furthest(self) -> str:
        """The most uncertain cases, or those with the largest errors."""
        if isinstance(self.cases.targets, tuple):
            chosen = worst(self.outputs, self.cases, self.classes is not None)
            picture = timelines(self.outputs, self.cases, self.classes, self.ids, chosen)
            title = f"{self.part.capitalize()} cases with the largest errors"
            return section(title, "True and predicted targets of each step.", wide(plots.svg(picture)))
        outputs, targets = np.asarray(self.outputs), np.asarray(self.cases.targets)
        classify = self.classes is not None
        chosen = outcome.uncertain(outputs, targets, classify)
        title = (
            f"Most uncertain {self.part} cases"
            if classify
            else f"{self.part.capitalize()} cases with the largest errors"
        )
        figures = [(plots.svg(plots.series(self.cases.series[i])), self._caption(int(i))) for i in chosen]
        count = "" if self.cases.channels < 2 else f", {min(self.cases.channels, 8)} of {self.cases.channels} channels"
        return section(title, f"Each channel at unit scale{count}.", row(figures))

    def _caption(self, i: int) -> str:
        output, target = np.atleast_1d(self.outputs[i]), np.atleast_1d(np.asarray(self.cases.targets)[i])
        if self.classes is not None:
            true, guess = self.classes[int(target[0])], self.classes[int(output.argmax())]
            return f"case {self.ids[i]}: true {true}, predicted {guess} ({as_probabilities(output).max():.0%})"
        if output.size > 1:
            return f"case {self.ids[i]}: off by up to {np.abs(output - target).max():.4g}"
        return f"case {self.ids[i]}: true {target[0]:.4g}, predicted {output[0]:.4g}"


def by_class(counts: np.ndarray, classes: Sequence[str]) -> list[list[str]]:
    """Precision, recall, F1 and cases of each class, as text."""
    rows = []
    for k, name in enumerate(classes):
        hits, true, taken = counts[k, k], counts[k].sum(), counts[:, k].sum()
        shares = [f"{hits / n:.2f}" if n else "–" for n in (taken, true, (true + taken) / 2)]
        rows.append([name, *shares, f"{true:,}"])
    return rows


def _pairs(counts: np.ndarray, classes: Sequence[str]) -> str:
    """The pairs of classes that are most often confused, for more classes than a matrix can show."""
    left, rows = counts * (1 - np.eye(len(counts), dtype=int)), []
    while len(classes) > _SHOWN_CLASSES and len(rows) < 5 and left.any():
        pair, number = most_confused(left)
        assert pair is not None
        rows.append([f"{classes[pair[0]]} and {classes[pair[1]]}", str(number)])
        left[pair], left[pair[::-1]] = 0, 0
    return table(("most often confused", "cases"), rows) if rows else ""


def explanation_section(found: Explanation, total: int, part: str) -> str:
    """The section about an explanation; empty if there is nothing to compare."""
    size = np.abs(found.by_class).sum((1, 2, 3))
    known = np.flatnonzero(np.isfinite(size) & (size > 0))
    if not len(known):
        return ""
    count = np.bincount(found.predicted, minlength=len(size)) if found.classes is not None else -np.arange(len(size))
    shown = np.sort(known[np.argsort(-count[known], kind="stable")][:_SHOWN_CLASSES])
    if found.classes is not None and len(found.classes) == 2:
        shown = shown[:1]  # what speaks for one class speaks against the other as much
    names = _columns(found, shown)
    shares = found.by_class[shown]
    # Each class by itself: of what speaks for and against it, together 1.
    shares = shares / np.abs(shares.sum((1, 2, 3), keepdims=True))
    pictures = []
    axes = [("time scale", shares.sum((1, 3)), found.time_scales), ("statistic of a unit's states", shares.sum((1, 2)),
            [STATISTIC_WORDS[one] for one in found.statistics])]  # fmt: skip
    if len(found.channels) > 1:
        every = shares.sum((2, 3))
        top = np.sort(np.argsort(-np.abs(every).max(0), kind="stable")[:_SHOWN_CHANNELS])
        axes.insert(0, ("channel", every[:, top], [found.channels[i] for i in top]))
    for label, values, columns in axes:
        texts = np.array([[f"{100 * value:.0f}" for value in line] for line in values])
        figure, _ = outcome.matrix(values.T, columns, names, texts.T, cell=(0.46 if len(names) > 1 else 1.5, 0.28))
        pictures.append((wide(plots.svg(figure)), f"by {label}, %"))
    words = "".join(f"<li>{html.escape(text)}</li>" for k in shown if (text := spoken(found, int(k))))
    cases = f"{len(found.contributions)} of {total}" if len(found.contributions) < total else f"all {total}"
    subject = (
        "blue counts for the class, red against it"
        if found.classes is not None
        else "blue raises the predictions, red lowers them"
    )
    about = (
        f"Weights of the read-out times features, summed over groups of features and averaged over {cases} {part} cases: {subject}, and each "
        "column adds up to 100 %. The time scale is the number of steps that a unit looks back; units that mix channels count for "
        "each by its share of the mix."
    )
    if len(shown) < len(size) != 2:
        about += f" {len(shown)} of {len(size)} classes are shown."
    return section(
        "Contributions to each class" if found.classes is not None else "Contributions to the predictions",
        about,
        f"<ul>{words}</ul>" + row(pictures),
    )


def _columns(found: Explanation, shown: np.ndarray) -> list[str]:
    """Names of the outputs that an explanation shows."""
    if found.classes is None:
        return ["prediction"] if len(found.by_class) == 1 else [f"output {k}" for k in shown]
    return [" or ".join(found.classes)] if len(found.classes) == 2 else [found.classes[k] for k in shown]
