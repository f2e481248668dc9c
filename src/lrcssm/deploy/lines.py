"""Predictions for samples that arrive line by line."""

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import LrcssmError
from ..models import Stream
from ..training import Trained
from ..training.predictions import prediction_of


class Sample(NamedTuple):
    """Content of a line.

    **Attributes:**

    - `name`: of the stream; `None` for the one without a name.
    - `reset`: true if the stream starts again.
    - `values`: one for each channel, NaN where it is missing; `None` if the line only resets a stream.
    - `dt`: time since the sample before, or `None`.
    """

    name: str | None
    reset: bool
    values: list[float] | None
    dt: float | None


class LineError(LrcssmError, ValueError):
    """A line that cannot be predicted; the message is the reason."""


def predict_lines(trained: Trained, source: Iterable[str], out: Any, err: Any) -> tuple[int, int]:
    """Write a prediction for each line of samples, or an error.

    ```python
    import io, jax, lrcssm
    from lrcssm.deploy.lines import predict_lines
    from lrcssm.training import Trained

    model = lrcssm.SequenceModel(lrcssm.ModelConfig(input_dim=2, output_dim=1, task="regress"), jax.random.key(0))
    out, err = io.StringIO(), io.StringIO()
    print(predict_lines(Trained(model), ["0.1,0.2", "[0.3, 0.4]", "oops"], out, err))  # (2, 1)
    ```

    **Arguments:**

    - `trained`: a model that predicts sample by sample.
    - `source`: lines (see `parse`); a first line of names gives the order of the channels.
    - `out`, `err`: files for the predictions, as JSON lines, and for the errors.

    **Returns:**

    The numbers of lines that were accepted and refused.
    """
    streams, good, refused = Streams(trained), 0, 0
    for number, line in enumerate(source, 1):
        try:
            if number == 1 and (names := _names(line, trained.model.config.input_dim)) is not None:
                streams.order = trained.order_of(names, "The first line names", ", or none")
                continue
            for reply in streams.take(line):
                print(json.dumps(reply, allow_nan=False), file=out, flush=True)
            good += 1
        except LineError as error:
            refused += 1
            print(f"lrcssm: line {number}: {error}", file=err, flush=True)
    return good, refused


class Streams:
    """Streams of a model by their names; all run the same compiled program."""

    def __init__(self, trained: Trained):
        self.trained = trained
        self.first = trained.stream()
        self.first.push(np.zeros(trained.model.config.input_dim))  # compile now, so that the first sample does not wait
        self.missing, self.unit, self.names = trained.missing, trained.unit, trained.channels
        self.order: list[int] | None = None
        """Position of each channel in lines with commas, if a first line named them."""
        self.open: dict[str | None, _Open] = {}

    def take(self, line: str) -> Iterator[dict[str, Any]]:
        """The prediction for a line; none for an empty line or a reset. Raises `LineError`."""
        if not line.strip():
            return
        said = parse(line, self.trained.model.config.input_dim, self.names, self.order)
        if said.reset:
            self.open.pop(said.name, None)
        if said.values is None:
            return
        if said.name not in self.open:
            self.open[said.name] = _Open(self.first.another(), [math.nan] * len(said.values))
        named = {} if said.name is None else {"stream": said.name}
        one = self.open[said.name]
        dt = said.dt if said.dt is None or self.unit is None else said.dt / self.unit
        if dt is not None and not (math.isfinite(dt) and dt > 0):
            raise LineError(f"dt is {said.dt}; give the time of a step, above 0.")
        if dt is None and self.unit is not None and (one.passed or one.stream.steps):
            raise LineError(
                'the model was trained with times, so a step needs its own: give {"values": [...], "dt": ...}, where dt is '
                "the time since the sample before, as in the training data."
            )
        values = self._complete(said.values, one)
        if values is None:  # skipped: its time passes
            try:
                one.stream.skip()
            except ValueError as error:
                text = str(error)
                raise LineError(f"a value is missing, but {text[0].lower()}{text[1:]}") from error
            one.passed += 1.0 if dt is None else dt
            yield named | one.reply | {"skipped": True}
            return
        if one.passed:
            dt, one.passed = one.passed + (1.0 if dt is None else dt), 0.0
        try:
            with np.errstate(over="ignore"):
                outputs = one.stream.push(values, dt)
        except ValueError as error:  # too large for the model's precision
            raise LineError(str(error)) from error
        one.last = values
        one.reply = self._reply(one.stream, outputs)
        yield named | one.reply

    def _complete(self, values: list[float], one: "_Open") -> list[float] | None:
        """Values after the missing-value policy of training; `None` if the step is skipped."""
        if not any(map(math.isnan, values)):
            return values
        if self.missing == "error":
            raise LineError(
                "a value is missing, but the model was trained on data without missing values; give all values."
            )
        if self.missing == "fill" and not all(map(math.isnan, values)):
            values = [old if math.isnan(new) else new for new, old in zip(values, one.last, strict=True)]
            if any(map(math.isnan, values)):
                raise LineError(
                    "a value is missing, and there is no earlier value to carry forward; start with a complete sample."
                )
            return values
        return None

    def _reply(self, stream: Stream, outputs: np.ndarray) -> dict[str, Any]:
        step = int(stream.steps)
        if step < self.trained.model.config.patch:
            return {"step": step, "prediction": None}
        if not np.isfinite(outputs).all():
            raise LineError("the output is not finite, because the values are too large; reset the stream.")
        return {"step": step} | prediction_of(outputs, self.trained.names)


@dataclasses.dataclass
class _Open:
    """A stream, its last sample, the time of the samples skipped since then, and its last prediction."""

    stream: Stream
    last: list[float]
    passed: float = 0.0
    reply: dict[str, Any] = dataclasses.field(default_factory=lambda: {"step": 0, "prediction": None})


def _names(line: str, channels: int) -> list[str] | None:
    """Names of channels in a first line; `None` if it holds numbers."""
    text = line.strip().lstrip("\ufeff")
    cells = [cell.strip().strip('"') for cell in text.split(",")]
    if text.startswith(("{", "[")) or len(cells) != channels:
        return None
    numbers = [_number(cell) for cell in cells]
    names = any(number is None for number in numbers)
    return cells if names and all(number is None or math.isnan(number) for number in numbers) else None


def parse(line: str, channels: int, names: Sequence[str] | None = None, order: list[int] | None = None) -> Sample:
    """Read a line: numbers separated by commas, a JSON array of numbers, or a JSON object with `values` and, optionally,
    `stream`, `dt` and `reset`.

    **Arguments:**

    - `line`: the text.
    - `channels`: number of channels of the model.
    - `names`: of the channels; `values` may then be an object with a number for each name.
    - `order`: position of each channel among numbers separated by commas; as in training if not given.

    **Returns:**

    A `Sample`. Raises `LineError`.
    """
    text = line.strip().lstrip("\ufeff")
    given: Any = {}
    if text.startswith(("{", "[")):
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:  # also a number of thousands of digits
            raise LineError(f"the line is not valid JSON: {text[:60]}; give an array or an object.") from error
        given = given if isinstance(given, dict) else {"values": given}
        if unknown := set(given) - {"values", "stream", "dt", "reset"}:
            raise LineError(f"{min(unknown)!r} is not a known key; give values, stream, dt or reset.")
        values = given.get("values")
        if isinstance(values, dict):
            if names is None or set(values) != set(names):
                wanted = "a list: the channels of the model have no names" if names is None else ", ".join(names)
                raise LineError(f"the values are named {', '.join(values)[:60]}; give {wanted}.")
            values = [values[name] for name in names]
    else:
        values = text.split(",")
        if order is not None and len(values) == channels:
            values = [values[place] for place in order]
    name, dt, reset = given.get("stream"), given.get("dt"), given.get("reset", False)
    if not (name is None or isinstance(name, str)) or not isinstance(reset, bool):
        raise LineError("stream or reset is of a wrong type; give text for stream, and true or false for reset.")
    if dt is not None:
        if not _is_number(dt) or (passed := _number(dt)) is None:
            raise LineError(f"dt is {str(dt)[:60]}; give a number.")
        dt = passed
    if values is None and reset:
        return Sample(name, reset, None, None)
    if not isinstance(values, list):
        raise LineError(f"there is no list of values; give {channels}, one for each channel.")
    if len(values) != channels:
        raise LineError(f"the line has {len(values)} values; give {channels}, one for each channel.")
    numbers = [_number(value) for value in values]
    for value, number in zip(values, numbers, strict=True):
        if number is None or math.isinf(number):
            raise LineError(f"{value!r} is not a finite number; give one, or nothing for a missing value.")
    return Sample(name, reset, [number for number in numbers if number is not None], dt)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> float | None:
    """A number, NaN for a missing value, or `None` for anything else."""
    if value is None or (isinstance(value, str) and value.strip() in ("", "?")):
        return math.nan
    if not isinstance(value, str) and not _is_number(value):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
