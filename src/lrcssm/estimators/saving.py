"""Estimators in files: the model's file (see `lrcssm.files`) with the rest of the estimator in its metadata."""

import base64
import dataclasses
import os
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.utils.validation import check_is_fitted

from .. import engine
from ..errors import InvalidType, InvalidValue
from ..files import FileError, load_with_metadata, named_leaves, save
from ..training import Epoch

_SOLVERS = {name: getattr(engine, name) for name in ("Auto", "DEER", "ELK", "Jacobi", "Sequential")}
# What a header, of 16 MiB at most, has room for beside everything else.
_MOST_BYTES = 8 * 2**20
_KEPT = ("n_iter_", "n_features_in_", "n_channels_", "unit_", "table_", "seed_")


class Saved:
    """`save` and `load` for an estimator."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the fitted estimator to one file, without pickle. `lrcssm.load` reads the model alone.

        **Arguments:**

        - `path`: where to; a file that is there is replaced, at once or not at all. `callbacks` are not part of it.
        """
        check_is_fitted(self, "model_")
        estimator: Any = self
        parameters = estimator.get_params(deep=False) | {"callbacks": None}
        if not isinstance(parameters["random_state"], int | np.integer | None):
            kind = type(parameters["random_state"]).__name__
            raise InvalidType(
                f"A file cannot hold random_state, a {kind}; set it to a whole number or None before saving."
            )
        parameters["solver"] = _plain(parameters["solver"])
        about = {
            "class": type(self).__name__,
            "parameters": {name: _number(value) for name, value in parameters.items()},
            "fitted": self._facts(),
        }
        save(path, estimator.model_, metadata={"estimator": about})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Any:
        """Reads an estimator that `save` wrote.

        **Arguments:**

        - `path`: the file.
        """
        model, metadata = load_with_metadata(path)
        about = metadata.get("estimator")
        if not isinstance(about, dict) or about.get("class") != cls.__name__:
            found = about.get("class") if isinstance(about, dict) else "a model without an estimator"
            raise FileError(f"{path} holds {found}, not {cls.__name__}; load it with what it is.")
        try:
            estimator: Any = cls(**about["parameters"] | {"solver": _solver(about["parameters"]["solver"])})
            estimator.model_ = model
            estimator._remember(about["fitted"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FileError(f"{path} does not describe a {cls.__name__}: {error}") from error
        return estimator

    def _facts(self) -> dict[str, Any]:
        """What `fit` found out, besides the model, as JSON can hold it."""
        given = vars(self)
        facts = {name: given[name] for name in _KEPT if name in given}
        if "feature_names_in_" in given:
            facts["feature_names_in_"] = given["feature_names_in_"].tolist()
        return facts | {"history_": [epoch.to_dict() for epoch in given["history_"]]}

    def _remember(self, facts: dict[str, Any]) -> None:
        """The inverse of `_facts`."""
        facts = dict(facts)
        history = tuple(Epoch.from_dict(epoch) for epoch in facts.pop("history_"))
        if "feature_names_in_" in facts:
            facts["feature_names_in_"] = np.array(facts["feature_names_in_"], object)
        vars(self).update(facts, history_=history)


def packed(tree: Any) -> dict[str, str] | None:
    """Arrays as text by their path, for the header: a reader of the model wants no arrays but the model's."""
    arrays = {name: np.asarray(leaf, leaf.dtype.newbyteorder("<")) for name, leaf in named_leaves(tree).items()}
    size = sum(array.nbytes for array in arrays.values())
    if size > _MOST_BYTES:
        warnings.warn(
            f"The training state takes {size:,} bytes, and a file has room for {_MOST_BYTES:,}: it holds the estimator without "
            "it. After loading, partial_fit goes on from the weights with a new optimiser; pickle keeps the whole.",
            stacklevel=5,
        )
        return None
    return {name: base64.b64encode(array.tobytes()).decode() for name, array in arrays.items()}


def unpacked(texts: dict[str, str], empty: Any) -> Any:
    """The inverse of `packed`, with the shapes and dtypes of `empty`."""
    wanted = named_leaves(empty)
    if set(wanted) != set(texts):
        raise InvalidValue("its training state is that of another model.")
    leaves = []
    for name, leaf in wanted.items():
        numbers = np.frombuffer(base64.b64decode(texts[name], validate=True), leaf.dtype.newbyteorder("<"))
        leaves.append(jnp.asarray(numbers.reshape(leaf.shape), leaf.dtype))
    return jax.tree.unflatten(jax.tree.structure(empty), leaves)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else dict(value) if hasattr(value, "keys") else value


def _plain(solver: Any) -> Any:
    """A solver as JSON can hold it."""
    if not dataclasses.is_dataclass(solver):
        return solver
    fields = {field.name: _plain(getattr(solver, field.name)) for field in dataclasses.fields(solver)}
    return {"name": type(solver).__name__, "fields": fields}


def _solver(plain: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    return _SOLVERS[plain["name"]](**{name: _solver(value) for name, value in plain["fields"].items()})
