"""SelfRegulationSCP1 with the paper's five splits: test accuracy of our own configuration.

    LRCSSM_DATA=folder python examples/scp1.py --json results/scp1-ours.json

Full test sets; the seed of a split is also that of the model. A file that is there is gone on with: its seeds are not run
again. `lrcssm reproduce table1 --datasets SCP1 --models LrcSSM` runs the published configuration.
"""

import dataclasses
import json
import pathlib
import time

import jax
import numpy as np
import tyro

import lrcssm
from lrcssm.benchmark.timing import environment
from lrcssm.data import SEEDS, load, paper_parts
from lrcssm.runs import ModelOptions, TrainingOptions
from lrcssm.runs.presets import configure
from lrcssm.training import TrainingConfig, evaluate, fit

MODEL = ModelOptions(patch=8)
TRAINING = TrainingOptions(steps=400, learning_rate=2e-3, monitor="last")


@dataclasses.dataclass(frozen=True)
class Options:
    json: str | None = None
    """Where to keep the results."""
    data_dir: str | None = None
    """Where SelfRegulationSCP1 is; the variable LRCSSM_DATA if not given."""


def main(options: Options) -> None:
    data = load("SelfRegulationSCP1", directory=options.data_dir)
    path = None if options.json is None else pathlib.Path(options.json)
    config, training = configure("default", data, MODEL, TRAINING, seed=0)
    record = {
        "command": "python examples/scp1.py",
        "environment": environment(),
        "model": json.loads(config.to_json()),
        "training": dataclasses.asdict(training),
        "runs": {},
    }
    if path is not None and path.exists():
        found = json.loads(path.read_text())
        # A configuration that was written down by an earlier version may lack what has come since.
        same = lrcssm.ModelConfig.from_json(json.dumps(found["model"])) == config
        if same and TrainingConfig(**found["training"]) == training:
            record = found
    for seed in SEEDS:
        if str(seed) in record["runs"]:
            continue
        train, validation, test = data.parts(split=paper_parts(data, seed))
        model = lrcssm.SequenceModel(config, jax.random.key(seed)).with_statistics(*train.statistics())
        start = time.perf_counter()
        fitted = fit(model, train, validation, dataclasses.replace(training, seed=seed))
        record["runs"][str(seed)] = {
            "validation": fitted.score,
            "test": evaluate(fitted.model, test)["accuracy"],
            "test_cases": len(test),
            "best_step": fitted.step,
            "steps": fitted.history[-1].step,
            "seconds": round(time.perf_counter() - start, 1),
        }
        print(seed, record["runs"][str(seed)], flush=True)
        scores = [run["test"] for run in record["runs"].values()]
        record["mean"], record["std"] = float(np.mean(scores)), float(np.std(scores))
        if path is not None:
            path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"{record['mean']:.1%} ± {record['std']:.1%} over {len(record['runs'])} splits")


if __name__ == "__main__":
    main(tyro.cli(Options))
