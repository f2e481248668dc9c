"""A trained model with everything needed to use it, in memory and in a file."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Cases, Dataset
from ..engine import Auto, Solver
from ..errors import FileError, InvalidType, InvalidValue, printable
from ..features import ForecastModel, LiquidModel
from ..files import named_leaves, read_arrays, write_arrays
from ..models import ModelConfig, SequenceModel, Stream, check_size
from .metrics import finite_outputs, log_softmax, predict

_RIDGE = {kind.__name__: kind for kind in (LiquidModel, ForecastModel)}


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained model with everything needed to use it; estimators, the command line, streams, exports and files hold one.

    ```python
    import jax, lrcssm, numpy as np
    from lrcssm.data import Cases
    from lrcssm.training import Trained

    model = lrcssm.SequenceModel(lrcssm.ModelConfig(input_dim=1, output_dim=2), jax.random.key(0))
    trained = Trained(model, classes=np.array(["down", "up"]))
    print(trained.predict(Cases.of(np.zeros((3, 20, 1)))))
    ```

    **Attributes:**

    - `model`: a `SequenceModel`, or the `lrcssm.features.LiquidModel` or `ForecastModel` of ridge regression.
    - `classes`: labels of the classes in the order of the outputs; `None` for numbers.
    - `channels`: names of the channels, if they have any.
    - `missing`: policy for missing values, as for `Cases.of`.
    - `unit`: time of one step in the unit of the data; `None` if training had no times.
    - `provenance`: further facts as JSON values, e.g. the name of the data.
    - `extra`: further arrays by name, e.g. the state of an optimiser.
    - `lengths`: padded lengths of the training cases (`lrcssm.data.padded_lengths`); new cases are padded to the same lengths
        where they fit, so that few programs are compiled.
    """

    model: Any
    classes: np.ndarray | None = None
    channels: tuple[str, ...] | None = None
    missing: str = "error"
    unit: float | None = None
    provenance: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    extra: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    lengths: tuple[int, ...] = ()

    @property
    def task(self) -> str:
        """The task of the model, as for `ModelConfig`."""
        return self.model.config.task

    @property
    def names(self) -> tuple[str, ...] | None:
        """Labels of the classes as text, in which control characters are escaped."""
        return None if self.classes is None else tuple(printable(str(label)) for label in self.classes.tolist())

    def outputs(self, cases: Cases | Dataset, *, batch: int = 64, solver: Solver = Auto()) -> Any:
        """Logits or numbers, as `lrcssm.training.predict` returns them.

        **Arguments:**

        - `cases`: cases with the channels of training, or a data set, which is converted.
        - `batch`: number of cases per batch.
        - `solver`: of the recurrences.
        """
        given = self.cases(cases) if isinstance(cases, Dataset) else cases
        if isinstance(self.model, tuple(_RIDGE.values())):
            return finite_outputs(self.model.outputs(given), given)
        return predict(self.model, given, batch, solver, self.lengths)

    def probabilities(self, cases: Cases | Dataset, **how: Any) -> Any:
        """Probability of each class, `(cases, classes)`; for outputs of each step a list of `(time, classes)`. Arguments as for
        `outputs`."""
        if self.classes is None:
            raise InvalidValue("The model predicts numbers, which have no probabilities; call outputs or predict.")
        found = self.outputs(cases, **how)
        if isinstance(found, list):
            return [as_probabilities(one) for one in found]
        return as_probabilities(found)

    def predict(self, cases: Cases | Dataset, **how: Any) -> Any:
        """The most probable class, or the numbers, of each case. Arguments as for `outputs`."""
        found = self.outputs(cases, **how)
        if self.classes is None:
            return found
        if isinstance(found, list):
            return [self.classes[one.argmax(-1)] for one in found]
        return self.classes[found.argmax(-1)]

    def stream(self, count: int | None = None) -> Stream:
        """Make a stream, which predicts after each sample; see `lrcssm.models.Stream`.

        **Arguments:**

        - `count`: number of streams at once, each at its own position; one if not given.
        """
        return Stream(self.model.stepper() if isinstance(self.model, LiquidModel) else self.model, count)

    def cases(self, data: Dataset, missing: str | None = None) -> Cases:
        """Convert a data set to cases for the model: channels and classes in the order of training, time in its unit.

        **Arguments:**

        - `data`: with or without targets.
        - `missing`: policy for missing values; that of training if not given.
        """
        channels = data.series[0].shape[1]
        if channels != self.model.config.input_dim:
            raise InvalidValue(
                f"{data.name} has {channels} channels, but the model was trained on {self.model.config.input_dim}; give "
                "data with the same channels."
            )
        series, given = data.series, data.channel_names
        order = None if given is None else self.order_of(given, f"The channels of {data.name} are")
        if order is not None:
            series = tuple(one[:, order] for one in series)
        same = dataclasses.replace(
            self._timed(data),
            targets=self._targets(data),
            classes=self.names,
            series=series,
            channel_names=self.channels,
        )
        return same.cases(missing or self.missing, self.unit)

    def order_of(self, given: Sequence[str], subject: str, remedy: str = "") -> list[int] | None:
        """Positions of the channels of training among some names; `None` if they are already in order, or have no names.

        **Arguments:**

        - `given`: names of all channels.
        - `subject`, `remedy`: start and end of the error message for other names.
        """
        if self.channels is None:
            return None
        # Names in data sets have their control characters escaped, those that an estimator was given have not.
        known, given = (tuple(map(printable, names)) for names in (self.channels, given))
        if known == given:
            return None
        if set(known) != set(given) or len(set(given)) < len(given):
            raise InvalidValue(
                f"{subject} {', '.join(given)}, but the model was trained on {', '.join(known)}; give the same names, in any "
                f"order{remedy}."
            )
        return [list(given).index(name) for name in known]

    def _timed(self, data: Dataset) -> Dataset:
        """The data with times if the model was trained with times, and without otherwise."""
        if self.unit is None:
            if data.times is not None:
                raise InvalidValue(
                    f"The steps of {data.name} take unequal times, but those of the training data took equal ones; bring the "
                    "data to equal steps, or train on data like this."
                )
            return data
        timed = data.with_times()
        if timed.times is None:
            raise InvalidValue(
                f"{data.name} has no times, but the model was trained with them; add those of its steps."
            )
        return timed

    def _targets(self, data: Dataset) -> Any:
        names = self.names
        if data.targets is None or names is None or data.classes is None:
            return data.targets
        if unknown := [name for name in data.classes if name not in names]:
            raise InvalidValue(
                f"{data.name} has the class {unknown[0]!r}, which is not a class of the model; its classes are {', '.join(names)}."
            )
        own = np.array([names.index(name) for name in data.classes])
        return tuple(own[one] for one in data.targets) if isinstance(data.targets, tuple) else own[data.targets]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to one file, without pickle.

        **Arguments:**

        - `path`: an existing file is replaced atomically.
        """
        labels = self.classes
        if isinstance(self.model, tuple(_RIDGE.values())):
            config, own = self.model.to_arrays()
        else:
            config, own = json.loads(self.model.config.to_json()), named_leaves(self.model)
        header = {
            "kind": "model",
            "model": type(self.model).__name__,
            "config": config,
            "classes": None if labels is None else {"dtype": labels.dtype.str, "values": labels.tolist()},
            "channels": self.channels,
            "missing": self.missing,
            "unit": self.unit,
            "lengths": list(self.lengths),
            "provenance": dict(self.provenance),
        }
        arrays = {f"model{name}": np.asarray(leaf) for name, leaf in own.items()}
        write_arrays(path, header, arrays | {f"extra/{name}": array for name, array in self.extra.items()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trained":
        """Read a file of `save`; any other file raises `FileError`.

        **Arguments:**

        - `path`: the file.
        """
        header, arrays = read_arrays(path, kind="model")
        own, extra = {}, {}
        for name, array in arrays.items():
            if not name.startswith(("model", "extra/")):
                raise FileError(f"{path} holds an array {name!r}, which is neither of the model nor extra.")
            place = own if name.startswith("model") else extra
            place[name.removeprefix("model").removeprefix("extra/")] = array
        try:
            if (kind := _RIDGE.get(header["model"])) is not None:
                return cls(kind.from_arrays(header["config"], own), extra=extra, **_described(header))
            config = ModelConfig.from_json(json.dumps(header["config"]))
            check_size(config, {name: array.shape for name, array in own.items()}, str(path))
            return cls(_filled(path, config, own), extra=extra, **_described(header))
        except FileError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError) as error:
            raise FileError(f"{path} does not describe a model: {error}") from error


def save(path: str | os.PathLike[str], trained: Any) -> None:
    """Write a trained model to one file.

    ```python
    import jax, lrcssm, tempfile, pathlib

    model = lrcssm.SequenceModel(lrcssm.ModelConfig(input_dim=2, output_dim=2, hidden_dim=8), jax.random.key(0))
    path = pathlib.Path(tempfile.mkdtemp()) / "model.lrcssm"
    lrcssm.save(path, model)
    same = lrcssm.load(path).model
    ```

    **Arguments:**

    - `path`: an existing file is replaced atomically.
    - `trained`: a `Trained`, or a model alone.
    """
    if not isinstance(trained, Trained | SequenceModel):
        raise InvalidType(
            f"save got a {type(trained).__name__}; give a Trained or a SequenceModel. An estimator has a method save."
        )
    (trained if isinstance(trained, Trained) else Trained(trained)).save(path)


def load(path: str | os.PathLike[str]) -> Trained:
    """Read a trained model from a file of `save`, of an estimator, or of `lrcssm train`.

    **Arguments:**

    - `path`: the file, or the folder of a run.

    **Returns:**

    A `Trained`, its parameters in the dtype that they had.
    """
    target = pathlib.Path(path)
    return Trained.load(target / "model.lrcssm" if target.is_dir() else target)


def as_probabilities(logits: Any) -> np.ndarray:
    """Probabilities of classes from logits, in double precision."""
    return np.exp(log_softmax(np.asarray(logits, np.float64)))


def _described(header: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `Trained` that a header holds, checked."""
    labels, channels, unit = header["classes"], header["channels"], header["unit"]
    if header["missing"] not in ("error", "mask", "fill") or not isinstance(header["provenance"], dict):
        raise ValueError("its missing-value policy or its provenance is not known")
    if unit is not None and not (isinstance(unit, int | float) and 0 < unit < float("inf")):
        raise ValueError(f"its unit of time is {unit!r}")
    lengths = header.get("lengths", [])  # older files have none
    if len(lengths) > 64 or not all(type(one) is int and 0 < one < 2**31 for one in lengths):
        raise ValueError("its lengths are not numbers of steps")
    if channels is not None and (
        len(channels) != header["config"]["input_dim"] or not all(isinstance(c, str) for c in channels)
    ):
        raise ValueError("its channels are not those of its configuration")
    classes = None
    if labels is not None:
        classes = np.array(labels["values"], np.dtype(labels["dtype"]))
        plain = all(isinstance(label, str | int | float) for label in labels["values"])
        if classes.shape != (header["config"]["output_dim"],) or not plain:
            raise ValueError("its classes are not those of its configuration")
    return {
        "classes": classes, "channels": None if channels is None else tuple(channels), "missing": header["missing"],
        "unit": unit, "provenance": header["provenance"], "lengths": tuple(lengths),
    }  # fmt: skip


def _filled(path: Any, config: ModelConfig, arrays: dict[str, np.ndarray]) -> SequenceModel:
    """The model of a configuration with the arrays of a file."""
    skeleton = eqx.filter_eval_shape(SequenceModel, config, jax.random.key(0))
    wanted = named_leaves(skeleton)
    if set(wanted) != set(arrays):
        odd = sorted(set(wanted) ^ set(arrays))[0]
        raise FileError(f"{path} does not hold the arrays of its own configuration ({odd} is missing or too much).")
    for name, array in arrays.items():
        if array.shape != wanted[name].shape:
            raise FileError(f"{path} holds {name} of shape {array.shape} where {wanted[name].shape} is expected.")
    double = any(array.dtype in (np.float64, np.complex128) for array in arrays.values())
    if double and not jax.config.read("jax_enable_x64"):
        raise FileError(
            f'{path} holds a model in double precision; call jax.config.update("jax_enable_x64", True) before loading it.'
        )
    leaves, tree = jax.tree_util.tree_flatten_with_path(skeleton)
    return jax.tree.unflatten(tree, [jnp.asarray(arrays[jax.tree_util.keystr(where)]) for where, _ in leaves])
