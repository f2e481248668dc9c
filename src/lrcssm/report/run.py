"""The report of a run: one self-contained page."""

import html
import json
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
from . import plots
from .judged import Judged
from .page import head, page, row, section


def write_report(folder: Folder, facts: dict[str, Any], fitted: Fitted, judged: Judged) -> None:
    """Write `report.html`.

    **Arguments:**

    - `folder`: of the run.
    - `facts`: content of `run.json`.
    - `fitted`: result of training.
    - `judged`: the predictions for the test cases, or for another `part`.
    """
    parts = [_head(facts, fitted, judged), *judged.sections(), *_training(fitted, judged)]
    parts.append(section("Command", "", f"<pre>{html.escape(facts['command'])}</pre>"))
    shown = {key: facts[key] for key in ("model", "training", "data", "versions")}
    parts.append(f"<details><summary>Everything that was set</summary><pre>{_json(shown)}</pre></details>")
    folder.write_text("report.html", page(f"{facts['data']['name']} · {_method(facts)}", parts))


def evaluation_page(path: Any, title: str, about: str, judged: Judged) -> str:
    """The page about an evaluation on other data.

    **Arguments:**

    - `path`: of the model, to name it.
    - `title`, `about`: a heading, and a line of facts.
    - `judged`: the predictions.
    """
    top = head(title, f"{about} Model: {path}.", _cards(judged), judged.headline())
    return page(title, [top, *judged.sections()])


def _training(fitted: Fitted, judged: Judged) -> list[str]:
    """Sections about training by gradients; empty for ridge regression."""
    parts = []
    if len(fitted.history) > 1:
        curves = plots.learning_curves(fitted.history, fitted.step)
        kept = "The model with the best validation score was kept." if len(curves) > 1 else ""
        parts.append(section("Learning curves", kept, row([(plots.svg(one), "") for one in curves])))
    constants = time_constants(fitted.model, judged.cases) if isinstance(fitted.model, SequenceModel) else []
    if constants:
        config = fitted.model.config
        steps = dict(config.signature)["windows"] if config.signature else -(-judged.cases.longest // config.patch)
        figure = plots.time_constants(constants, steps)
        if figure is not None:
            parts.append(section(
                "Memory",
                f"Steps (after patching) that each unit remembers along the first {judged.part} case: −1 over its Lyapunov exponent.",
                plots.svg(figure),
            ))  # fmt: skip
    if len(fitted.history) > 1 and any(one.iterations for one in fitted.history):
        parts.append(section(
            "Solver", "Iterations of the solver while training, on average.",
            plots.svg(plots.iterations(fitted.history)),
        ))  # fmt: skip
    return parts


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


def _cards(judged: Judged) -> list[tuple[str, str]]:
    found, part = judged.found, judged.part
    low, high = found["interval"]
    accuracy = found["of"] == "accuracy"
    text = (lambda value: f"{value:.1%}") if accuracy else (lambda value: f"{value:.4g}")
    name = f"{part} accuracy" if accuracy else f"{part} mean squared error"
    cards = [(text(found[found["of"]]), name), (f"{text(low)} – {text(high)}", "95 % interval")]
    for key, label in {"baseline": "constant prediction", "minirocket": "MiniRocket"}.items():
        if found["of"] in found.get(key, {}):
            cards.append((text(found[key][found["of"]]), label))
    if not accuracy:
        cards.append((f"{found['r2']:.3f}" if np.isfinite(found["r2"]) else "–", "R²"))
    return [*cards, (f"{len(judged.cases):,}", f"{part} cases")]


def _head(facts: dict[str, Any], fitted: Fitted, judged: Judged) -> str:
    cards = [
        *_cards(judged), (f"{facts['parameters']:,}", "parameters"), (f"{fitted.seconds:.0f} s", "training time"),
    ]  # fmt: skip
    data, sizes = facts["data"], facts["data"]["cases"]
    parts = f"{sizes['train']} cases for training, {sizes['validation']} for validation"
    if facts["method"] != "gradient":  # which needs none for validation
        parts = f"{sizes['train'] + sizes['validation']} cases for training"
    about = (
        f"{parts}, {sizes['test']} for test; "
        f"{data['steps']} steps, {data['channels']} channels. {facts['date'].replace('T', ' ')}."
    )
    return head(f"{data['name']}, {_method(facts)}", about, cards, judged.headline())


def _method(facts: dict[str, Any]) -> str:
    if facts["method"] == "gradient":
        return f"{facts['model']['cell']} model"
    return f"{facts['method']} on liquid features"


def _json(value: Any) -> str:
    return html.escape(json.dumps(value, indent=2, ensure_ascii=False))
