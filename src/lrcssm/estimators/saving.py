"""Saving and loading of estimators: the file of a `Trained`, with the estimator's parameters and fitted attributes."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .. import engine
from ..errors import FileError, InvalidType
from ..models import Stream
from ..training import Evaluation, Trained

_SOLVERS = {name: getattr(engine, name) for name in ("Auto", "DEER", "ELK", "Jacobi", "Sequential")}
_KEPT = ("n_iter_", "n_features_in_", "n_channels_", "table_", "seed_")


class Saved:
    """`save`, `load` and `stream` of an estimator with a `trained_`."""

    trained_: Trained

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
        except (AttributeError, KeyError, TypeError, ValueError) as error:
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
        """The inverse of `_facts` and `_arrays`."""
        del arrays
        facts = dict(facts)
        facts["history_"] = tuple(Evaluation.from_dict(evaluation) for evaluation in facts.pop("history"))
        if "feature_names_in_" in facts:
            facts["feature_names_in_"] = np.array(facts["feature_names_in_"], object)
        vars(self).update(facts)


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
    if not isinstance(plain, dict):
        return plain
    return _SOLVERS[plain["name"]](**{name: _solver(value) for name, value in plain["fields"].items()})
