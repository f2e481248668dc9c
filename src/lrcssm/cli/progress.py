"""Progress of a run: a bar for people, lines for a log, JSON for programs, or nothing."""

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..training import Evaluation


@contextlib.contextmanager
def shown(
    total: int, *, quiet: bool, as_json: bool
) -> Iterator[tuple[Callable[[int], None], Callable[[Evaluation], None]]]:
    """Two functions: one to call after each step, one to call after each evaluation."""
    if quiet:
        yield (lambda step: None), (lambda evaluation: None)
    elif as_json:
        yield (lambda step: None), _print_json
    elif sys.stderr.isatty():
        with _bar(total) as functions:
            yield functions
    else:
        yield (
            (lambda step: None),
            (lambda evaluation: print(f"step {evaluation.step}/{total}  {describe(evaluation)}", file=sys.stderr)),
        )


def _print_json(evaluation: Evaluation) -> None:
    print(json.dumps(evaluation.to_dict()), flush=True)


@contextlib.contextmanager
def _bar(total: int):
    from rich import progress
    from rich.console import Console

    with progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[speed]}"),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[text]}"),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("compiling", total=total, text="", speed="")

        def tick(step):
            speed = bar.tasks[0].speed
            bar.update(task, completed=step, description="training", speed=f"{speed:.1f} steps/s" if speed else "")

        yield tick, lambda evaluation: bar.update(task, text=describe(evaluation))


def describe(evaluation: Evaluation) -> str:
    """One evaluation in a few words."""
    words = [f"loss {evaluation.loss:.4f}"]
    for name in ("accuracy", "mse"):
        if name in evaluation.scores:
            value = evaluation.scores[name]
            words.append(f"validation {name} {value:.1%}" if name == "accuracy" else f"validation {name} {value:.4g}")
    if evaluation.iterations:  # a sequential sweep needs none
        words.append(f"{evaluation.iterations:.3g} iterations")
    return "  ".join(words)


def finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON cannot represent."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
