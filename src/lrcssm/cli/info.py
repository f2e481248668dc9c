"""`lrcssm info`: facts about a trained model, or about this machine."""

import dataclasses
import json
from typing import Annotated, Any

from ..features import ForecastModel, LiquidModel
from ..machine import environment, write_record
from ..models import parameter_count
from ..report.table import print_facts
from ..training import Trained
from .evaluate import load_trained
from .parser import Arg


@dataclasses.dataclass(frozen=True)
class Info:
    """Describe a trained model, or show versions, devices and defaults for a bug report."""

    model: Annotated[str | None, Arg("MODEL", positional=True)] = None
    """Run folder or model file."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Print a table, or JSON."""
        if self.model is not None:
            facts = facts_of(load_trained(self.model))
            print(json.dumps(facts)) if self.json else print_facts(facts)
            return
        import jax.numpy as jnp

        machine: dict[str, Any] = environment() | {"dtype": jnp.result_type(float).name}
        if self.json:
            write_record("-", machine)
            return
        names = ("backend", "devices", "processor", "cores", "system", "dtype")
        print_facts(machine["versions"] | {name: machine[name] for name in names})


def facts_of(trained: Trained) -> dict[str, Any]:
    """Facts about a model: its task, inputs, outputs and configuration."""
    config = json.loads(trained.model.config.to_json())
    liquid = isinstance(trained.model, LiquidModel | ForecastModel)
    sizes = ("cell", "hidden_dim", "state_dim", "num_blocks")
    if liquid:
        sizes = ("n_features",) if isinstance(trained.model, LiquidModel) else ("window", "horizon", "season")
    usual = ("input_dim", "output_dim", "task", *sizes)
    return {
        "task": config["task"],
        "data": trained.provenance.get("data"),
        "channels": config["input_dim"] if trained.channels is None else list(trained.channels),
        "classes": None if trained.names is None else list(trained.names),
        "outputs": config["output_dim"],
        "times": None if trained.unit is None else f"one step is {trained.unit:.6g} of the data's time",
        "missing values": trained.missing,
        **{name: config[name] for name in sizes},
        "other fields": {
            name: value for name, value in config.items() if name not in usual and value not in ({}, [], None)
        },
        "parameters": trained.model.parameter_count() if liquid else parameter_count(trained.model),  # pyright: ignore
        "sample by sample": "yes" if (why := trained.model.whole()) is None else f"no: it {why}",
    }
