"""Saving and loading of estimators: the file of a `Trained`, with the estimator's parameters and fitted attributes."""

import dataclasses
import math
import os
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .. import engine
from ..errors import FileError, InvalidType, InvalidValue
from ..models import Stream
from ..training import Evaluation, Trained

_SOLVERS = {name: getattr(engine, name) for name in ("Auto", "DEER", "ELK", "Jacobi", "Sequential")}
_KEPT = ("n_iter_", "n_features_in_", "n_channels_", "table_", "seed_")
_whole = lambda value: type(value) is int and 0 <= value < 2**31
_size = lambda value: _whole(value) and value > 0
_number = lambda value: type(value) in (int, float) and 0 <= value < math.inf
_switch = lambda value: type(value) is bool
_FACTS = {
    "n_iter_": _whole, "n_features_in_": _size, "n_channels_": _size, "table_": _switch, "seed_": lambda value: type(value) is int,
    "feature_names_in_": lambda value: type(value) is list and all(type(one) is str for one in value),
    "flat_": _switch, "n_outputs_": _size, "window_": _size, "horizon_": _size, "season_": _size, "season_guessed_": _switch,
    "single_": _switch, "unit_": lambda value: value is None or (_number(value) and value > 0), "n_past_": _whole,
    "n_future_": _whole, "gain_": _number,
}  # fmt: skip
"""What a fitted attribute of any estimator may be."""


class Saved:
    """`save`, `load` and `stream` of an estimator with a `trained_`."""

    trained_: Trained
    _needed: ClassVar[tuple[str, ...]] = ("n_features_in_", "n_channels_")
    """Fitted attributes that a file must hold, besides those of the parent classes."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, without pickle. `lrcssm.load` reads it as a `Trained`.

        **Arguments:**

        - `path`: an existing file is replaced atomically. `callbacks` are not part of it.
        """
        check_is_fitted(self, "trained_")
        estimator: Any = self
        parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name != "callbacks"}
        if not isinstance(parameters["random_state"], int | np.integer | None):
            kind = type(parameters["random_state"]).__name__
            raise InvalidType(
                f"A file cannot hold random_state, a {kind}; set it to a whole number or None before saving."
            )
        about = {
            "class": type(self).__name__,
            "parameters": {name: _plain(value) for name, value in parameters.items()},
            "fitted": self._facts(),
        }
        trained = estimator.trained_
        dataclasses.replace(trained, provenance={**trained.provenance, "estimator": about}, extra=self._arrays()).save(
            path
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Any:
        """Read an estimator from a file of `save`.

        **Arguments:**

        - `path`: the file.
        """
        trained = Trained.load(path)
        about = trained.provenance.get("estimator")
        if not isinstance(about, dict) or about.get("class") != cls.__name__:
            found = about.get("class") if isinstance(about, dict) else "a model without an estimator"
            raise FileError(f"{path} holds {found}, not {cls.__name__}; load it with the class that it is of.")
        provenance = {name: value for name, value in trained.provenance.items() if name != "estimator"}
        try:
            parameters = {
                name: _solver(value) if name == "solver" else _mapping(value)
                for name, value in about["parameters"].items()
            }
            estimator: Any = cls(**parameters)
            estimator.trained_ = dataclasses.replace(trained, provenance=provenance, extra={})
            estimator._remember(about["fitted"], trained.extra)
        except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise FileError(f"{path} does not describe a {cls.__name__}: {error}") from error
        return estimator

    def stream(self, count: int | None = None) -> Stream:
        """Make a stream of the fitted model that predicts after each sample; see `lrcssm.models.Stream`. Models that need the
        whole series raise `InvalidValue`.

        **Arguments:**

        - `count`: number of streams at once, each at its own position; one if not given.
        """
        check_is_fitted(self, "trained_")
        return self.trained_.stream(count)

    def _facts(self) -> dict[str, Any]:
        """Fitted attributes besides the trained model, as JSON values."""
        given = vars(self)
        facts = {name: given[name] for name in _KEPT if name in given}
        if "feature_names_in_" in given:
            facts["feature_names_in_"] = given["feature_names_in_"].tolist()
        return facts | {"history": [evaluation.to_dict() for evaluation in given.get("history_", ())]}

    def _arrays(self) -> dict[str, np.ndarray]:
        """Fitted arrays besides the trained model."""
        return {}

    def _remember(self, facts: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """The inverse of `_facts` and `_arrays`; raises an error if they are not those of such an estimator."""
        del arrays
        facts = dict(facts)
        history = tuple(Evaluation.from_dict(evaluation) for evaluation in facts.pop("history"))
        for name, value in facts.items():
            if name not in _FACTS or not _FACTS[name](value):
                raise InvalidValue(f"{name!r} is not known or not what it should be")
        needed = {name for kind in type(self).__mro__ for name in vars(kind).get("_needed", ())}
        if missing := sorted(needed - set(facts)):
            raise InvalidValue(f"{missing[0]} is missing")
        inputs = facts["n_channels_"] + facts.get("n_past_", 0) + facts.get("n_future_", 0)
        if inputs != self.trained_.model.config.input_dim:
            raise InvalidValue("its channels are not those of its model")
        if ("window_" in facts) != (self.trained_.task == "forecast"):
            raise InvalidValue(f"its model is one for the task {self.trained_.task}")
        if "feature_names_in_" in facts:
            if len(facts["feature_names_in_"]) != facts["n_features_in_"]:
                raise InvalidValue("its names are not those of its columns")
            facts["feature_names_in_"] = np.array(facts["feature_names_in_"], object)
        vars(self).update(facts | {"history_": history})


def _plain(value: Any) -> Any:
    """A parameter as a JSON value; mappings become pairs, since labels need not be text."""
    if isinstance(value, Mapping) and not all(isinstance(name, str) for name in value):
        return {"pairs": [[_plain(name), _plain(one)] for name, one in value.items()]}
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"name": type(value).__name__, "fields": fields}
    if isinstance(value, tuple):
        return list(value)
    return value.item() if isinstance(value, np.generic) else value


def _mapping(plain: Any) -> Any:
    return dict(plain["pairs"]) if isinstance(plain, dict) and set(plain) == {"pairs"} else plain


def _solver(plain: Any) -> Any:
    """The inverse of `_plain` for the parameter `solver`."""
    if plain is None or isinstance(plain, str):
        return plain
    given = {name: _solver(value) if name == "newton" else value for name, value in plain["fields"].items()}
    if not isinstance(given.get("newton"), engine.Solver | None):
        raise InvalidValue("its solver is not known")
    return _SOLVERS[plain["name"]](**given)
