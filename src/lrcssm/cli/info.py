"""`lrcssm info MODEL`: what a trained model is, from its file alone."""

import json
from typing import Any

from ..models import parameter_count
from .evaluate import Trained, open_model


def describe_model(where: str, *, as_json: bool) -> None:
    """Prints what a model takes, gives and consists of."""
    facts = facts_of(open_model(where))
    if as_json:
        print(json.dumps(facts))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        if value is None or value == []:
            continue
        words = ", ".join(map(str, value)) if isinstance(value, list) else value
        if isinstance(value, dict):
            words = ", ".join(f"{key} {one}" for key, one in value.items())
        table.add_row(name, f"{words:,}" if type(words) is int else str(words))
    Console(highlight=False, markup=False).print(table)


def facts_of(trained: Trained) -> dict[str, Any]:
    """What is worth knowing of a model: its task, what it takes and gives, and what is in it."""
    model, known = trained.model, trained.metadata
    config = json.loads(model.config.to_json())
    names = known.get("channel_names")
    usual = ("input_dim", "output_dim", "task", "cell", "hidden_dim", "state_dim", "num_blocks")
    return {
        "task": config["task"],
        "data": known.get("data"),
        "channels": config["input_dim"] if names is None else list(names),
        "classes": None if trained.classes is None else list(trained.classes),
        "outputs": config["output_dim"],
        "times": None if known.get("unit") is None else f"one step is {known['unit']:.6g} of the data's time",
        "missing values": known.get("missing"),
        "cell": config["cell"],
        "width, state, depth": [config["hidden_dim"], config["state_dim"], config["num_blocks"]],
        "other fields": {
            name: value for name, value in config.items() if name not in usual and value not in ({}, [], None)
        },
        "parameters": parameter_count(model),
        "sample by sample": "yes" if (why := model.whole()) is None else f"no: it {why}",
    }
