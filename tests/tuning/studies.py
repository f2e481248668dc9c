"""Small studies and their data."""

import dataclasses
import time

import numpy as np
from optuna.trial import TrialState

from lrcssm.cli.options import ModelOptions, TrainingOptions
from lrcssm.cli.tune import Start
from lrcssm.data import load
from lrcssm.tuning.claims import Leases
from lrcssm.tuning.plan import Material
from lrcssm.tuning.storage import open_place
from lrcssm.tuning.study import Study

SMALL = {
    "cell": "MGU",
    "mixer": "none",
    "hidden_dim": 4,
    "state_dim": 4,
    "num_blocks": 1,
    "pool": "mean",
    "bidirectional": False,
    "dropout": 0.0,
}
SHORT = {"steps": 60, "check_every": 10, "batch": 4, "monitor": "loss"}
NINE = ("learning_rate=1e-3,3e-3,1e-2", "clip=0.1,1,10")


def options(name="s", **changes):
    """A grid over two learning rates of a tiny model."""
    fields = {"source": "waves.csv", "study": name, "space": "paper", "vary": ("learning_rate=1e-3,1e-2",)}
    fields |= {"model": ModelOptions(**SMALL), "training": TrainingOptions(**SHORT)}
    return Start(**(fields | changes))


def wave_file(folder, channels=1, names=("case", "time", "label")):
    """Write `waves.csv`: twelve short series of two classes, one row for each step."""
    rng = np.random.default_rng(0)
    case, time, label = names
    lines = [",".join([case, time, *(f"c{k}" for k in range(channels)), label])]
    for number in range(12):
        phase = rng.uniform(0, 6)
        for t in range(9):
            values = [f"{np.sin(phase + t * (0.3, 0.9)[number % 2]):.5f}"] * channels
            lines.append(",".join([str(number), str(t), *values, ("slow", "fast")[number % 2]]))
    (folder / "waves.csv").write_text("\n".join(lines) + "\n")


def words(options):
    """The same as a user types it."""
    found = [options.source, "--study", options.study, "--space", options.space, "--vary", *options.vary]
    for part in (options.model, options.training):
        for name, value in dataclasses.asdict(part).items():
            if value not in (None, ()):
                found += [
                    f"--{name.replace('_', '-')}",
                    {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value),
                ]
    return ["tune", "start", *found]


def made(options, place=None):
    """A study and its data."""
    data = load(options.source)
    plan = options.plan().checked(data)
    place = open_place(options.study, None, make=True) if place is None else place
    return Study.make(options.study, place, plan, options.trials), Material(plan, data)


def again(name="s"):
    """The same study as another process sees it."""
    return Study.load(name, open_place(name, None, make=False))


def states(study):
    return [trial.state.name for trial in study.trials().values()]


def pair(shared, interval=0.02, grace=60.0, settle=0.0, **changes):
    """A study as two machines see it, and the leases of a worker on each."""
    study, material = made(options(**changes), shared())
    other = Study.load("s", shared())
    leases = [Leases(one, interval=interval, grace=grace, settle=settle) for one in (study, other)]
    return study, other, *leases, material


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def dead(study, number=0):
    """Lets a trial look as if a worker had died right after its claim; returns its number in the storage."""
    trial_id = study.id_of(study.trials()[number])
    study.place.storage.set_trial_state_values(trial_id, TrialState.RUNNING)
    return trial_id
