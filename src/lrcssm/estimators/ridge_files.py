"""Estimators on liquid features in files (see `lrcssm.files`): parameters and facts in the header, arrays as they are."""

import os
from typing import Any

import numpy as np

from ..features import FeatureMap
from ..files import FileError, read_arrays, write_arrays
from .readout import Readout

KIND = "features"
_FACTS = ("n_features_in_", "n_channels_", "unit_", "table_", "factor_", "n_outputs_", "flat_")


def write_estimator(path: str | os.PathLike[str], estimator: Any) -> None:
    """Writes a fitted estimator."""
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters["random_state"], int | np.integer | None):
        kind = type(parameters["random_state"]).__name__
        raise TypeError(f"A file cannot hold random_state, a {kind}; set it to an integer or None before saving.")
    given = vars(estimator)
    config, arrays = estimator.map_.to_arrays()
    fitted = {name: _plain(given[name]) for name in _FACTS if name in given}
    if "feature_names_in_" in given:
        fitted["feature_names_in_"] = given["feature_names_in_"].tolist()
    if "classes_" in given:
        labels = given["classes_"]
        fitted["classes_"] = {"dtype": labels.dtype.str, "values": labels.tolist()}
    if "readout_" in given:
        readout = given["readout_"]
        fitted["penalty"] = readout.penalty
        arrays |= {f"readout.{name}": getattr(readout, name) for name in ("mean", "scale", "weights", "intercept")}
    parameters = {name: _plain(value) for name, value in parameters.items()}
    about = {"class": type(estimator).__name__, "parameters": parameters, "fitted": fitted, "map": config}
    write_arrays(path, {"kind": KIND, "estimator": about}, arrays)


def read_estimator(path: str | os.PathLike[str], kind: type) -> Any:
    """Reads an estimator of this class."""
    header, arrays = read_arrays(path, kind=KIND)
    about = header.get("estimator")
    if not isinstance(about, dict) or about.get("class") != kind.__name__:
        found = about.get("class") if isinstance(about, dict) else None
        raise FileError(f"{path} holds a {found}, not a {kind.__name__}; load it with its own class.")
    try:
        estimator = kind(**about["parameters"])
        fitted = dict(about["fitted"])
        if "feature_names_in_" in fitted:
            fitted["feature_names_in_"] = np.array(fitted["feature_names_in_"], object)
        if "classes_" in fitted:
            fitted["classes_"] = np.array(fitted["classes_"]["values"], np.dtype(fitted["classes_"]["dtype"]))
        if "penalty" in fitted:
            parts = {name.split(".")[1]: array for name, array in arrays.items() if name.startswith("readout.")}
            fitted["readout_"] = Readout(**parts, penalty=fitted.pop("penalty"))
        vars(estimator).update(fitted, map_=FeatureMap.from_arrays(about["map"], arrays))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path} does not describe a {kind.__name__}: {error}") from error
    return estimator


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else list(value) if isinstance(value, tuple) else value
