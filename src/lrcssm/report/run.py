"""The report of a run: one page that needs nothing else."""

import html
import json
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import stability
from ..data import Cases
from ..engine import Sequential
from ..models import Context, SequenceModel
from ..models.time import Recurrent
from ..training import Fitted
from ..training.folder import Folder
from ..training.metrics import observed
from ..training.trained import as_probabilities
from . import plots
from .page import head, page, section
from .steps import timelines, worst


def write_report(
    folder: Folder,
    facts: dict[str, Any],
    fitted: Fitted,
    test: Cases,
    outputs: np.ndarray,
    found: dict[str, Any],
    rows: Sequence[dict[str, Any]],
) -> None:
    """Write `report.html`.

    **Arguments:**

    - `folder`: of the run.
    - `facts`: content of `run.json`.
    - `fitted`: result of training.
    - `test`, `outputs`: the test cases (or others, if `found["part"]` says so), and the outputs of the model for them.
    - `found`: their scores.
    - `rows`: their predictions, as in `predictions.csv`.
    """
    classes, part = facts["data"]["classes"], found["part"]
    every: Any = outputs
    stepwise = isinstance(test.targets, tuple)
    outputs, targets = observed(outputs, test)
    parts = [_head(facts, fitted, found)]
    if fitted.history:
        parts.append(section(
            "Learning curves", "The model with the best validation score was kept.",
            plots.svg(plots.learning_curves(fitted.history, fitted.step)),
        ))  # fmt: skip
    if classes is not None:
        parts.append(section(
            "Confusion matrix", f"{part.capitalize()} cases: the true class of each row, the predicted one of each column.",
            plots.svg(plots.confusion(targets.astype(int), outputs.argmax(-1), classes)) + _by_class(targets, outputs, classes),
        ))  # fmt: skip
    else:
        parts.append(section("Residuals", f"{part.capitalize()} cases.", plots.svg(plots.residuals(targets, outputs))))
    what = f"{part.capitalize()} cases that are furthest off"
    if stepwise:
        ids = list(dict.fromkeys(one["case"] for one in rows))
        picture = timelines(every, test, classes, ids, worst(every, test, classes is not None))
        parts.append(section(what, "True and predicted targets of each step.", plots.svg(picture)))
    else:
        chosen = plots.uncertain(outputs, targets, classes is not None)
        what = f"Most uncertain {part} cases" if classes is not None else what
        picture = plots.series([test.series[i] for i in chosen], [_title(rows[i], outputs[i], classes) for i in chosen])
        parts.append(section(what, "Each channel is shown at unit scale, at most eight of them.", plots.svg(picture)))
    constants = time_constants(fitted.model, test) if isinstance(fitted.model, SequenceModel) else []
    if constants:
        config = fitted.model.config
        steps = dict(config.signature)["windows"] if config.signature else -(-test.longest // config.patch)
        parts.append(section(
            "Memory",
            f"Steps (after patching) that each unit remembers along the first {part} case: −1 over its Lyapunov exponent.",
            plots.svg(plots.time_constants(constants, steps)),
        ))  # fmt: skip
    if any(one.iterations for one in fitted.history):
        parts.append(section(
            "Solver", "Iterations of the solver while training, on average.",
            plots.svg(plots.iterations(fitted.history)),
        ))  # fmt: skip
    parts.append(section("Command", "", f"<pre>{html.escape(facts['command'])}</pre>"))
    shown = {key: facts[key] for key in ("model", "training", "data", "versions")}
    parts.append(f"<details><summary>Everything that was set</summary><pre>{_json(shown)}</pre></details>")
    title = f"{facts['data']['name']} · {_method(facts)}"
    folder.write_text("report.html", page(title, parts))


def time_constants(model: SequenceModel, cases: Cases) -> list[np.ndarray]:
    """Time constants of the units of each block along the first case; empty if the blocks are not recurrent."""
    inputs = jnp.asarray(cases.series[0])[:, None]
    dt = None if cases.dt is None else jnp.asarray(cases.dt[0])[:, None]
    mask = None if cases.valid is None else jnp.asarray(cases.valid[0])[:, None]
    h, dt, valid = model.features(inputs, dt, mask, None)
    h = h if model.encoder is None else model.encoder(h)
    found = []
    for block in model.blocks:
        if not isinstance(block.layer, Recurrent):
            return []
        seen, _ = block.before(h, valid)
        found.append(np.asarray(stability.time_constants(block.layer.cell, seen, dt=dt)))
        h, _ = block(h, None, Context(dt, valid, solver=Sequential()))
    return found


def _head(facts, fitted, found) -> str:
    low, high = found["interval"]
    accuracy = found["of"] == "accuracy"
    name = f"{found['part']} accuracy" if accuracy else f"{found['part']} mean squared error"
    text = (lambda value: f"{value:.1%}") if accuracy else (lambda value: f"{value:.4g}")
    cards = [(text(found[found["of"]]), name), (f"{text(low)} – {text(high)}", "95 % interval")]
    if not accuracy:
        cards.append((f"{found['r2']:.3f}" if np.isfinite(found["r2"]) else "–", "R²"))
    cards += [
        (f"{found['cases']:,}", f"{found['part']} cases"),
        (f"{facts['parameters']:,}", "parameters"),
        (f"{fitted.seconds:.0f} s", "training time"),
    ]
    data, sizes = facts["data"], facts["data"]["cases"]
    parts = f"{sizes['train']} cases for training, {sizes['validation']} for validation"
    if facts["method"] == "ridge":  # which needs none for validation
        parts = f"{sizes['train'] + sizes['validation']} cases for training"
    about = (
        f"{parts}, {sizes['test']} for test; "
        f"{data['steps']} steps, {data['channels']} channels. {facts['date'].replace('T', ' ')}."
    )
    return head(f"{data['name']}, {_method(facts)}", about, cards)


def _method(facts: dict[str, Any]) -> str:
    return "ridge on liquid features" if facts["method"] == "ridge" else f"{facts['model']['cell']} model"


def _by_class(targets, outputs, classes) -> str:
    """Precision, recall and F1 of each class."""
    guesses, lines = outputs.argmax(-1), []
    for k, name in enumerate(classes):
        hits, true, taken = np.sum((guesses == k) & (targets == k)), np.sum(targets == k), np.sum(guesses == k)
        shares = [f"{hits / n:.2f}" if n else "–" for n in (taken, true, (true + taken) / 2)]
        cells = "".join(f'<td class="n">{value}</td>' for value in (*shares, int(true)))
        lines.append(f"<tr><td>{html.escape(name)}</td>{cells}</tr>")
    head = "".join(f'<th class="n">{name}</th>' for name in ("precision", "recall", "F1", "cases"))
    return f"<table><tr><th>class</th>{head}</tr>{''.join(lines)}</table>"


def _title(row, output, classes) -> str:
    if classes is None:
        values = np.atleast_1d(output)
        return (
            f"case {row['case']}: true {row['target']:.4g}, predicted {values[0]:.4g}"
            if values.size == 1
            else f"case {row['case']}"
        )
    share = as_probabilities(output).max()
    return f"case {row['case']}: true {row['target']}, predicted {row['prediction']} ({share:.0%})"


def _json(value: Any) -> str:
    return html.escape(json.dumps(value, indent=2, ensure_ascii=False))
