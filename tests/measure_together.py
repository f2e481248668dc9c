"""What `fit_together` saves: the time of a step for each of three runs, side by side and one after the other, in turn.

    python tests/measure_together.py [ROUNDS] [SIZE]

Prints one JSON object for each size, or for those that begin with SIZE: milliseconds for a step of one run, and together
over alone.
"""

import json
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import lrcssm
from lrcssm.benchmark.timing import interleave
from lrcssm.models import RELEASED
from lrcssm.training import TrainingConfig
from lrcssm.training.step import TrainState, train_step

DEFAULT = {"layout": "plain", "dropout": 0.1, "pool": "mean-max-std", "bidirectional": True}
SIZES = {
    "digits, width 8, depth 1": (64, 16, 1, DEFAULT | {"width": 8, "state": 8, "depth": 1, "patch": 8}),
    "digits, width 64, depth 2": (64, 16, 1, DEFAULT | {"width": 64, "state": 64, "depth": 2, "patch": 8}),
    "SCP1, default preset": (896, 16, 6, DEFAULT | {"width": 64, "state": 64, "depth": 2, "patch": 29}),
    "SCP1, paper's 16/16/2": (896, 4, 6, RELEASED | {"width": 16, "state": 16, "depth": 2}),
    "SCP1, paper's 64/16/2": (896, 4, 6, RELEASED | {"width": 64, "state": 16, "depth": 2}),
    "SCP1, paper's 64/64/6": (896, 4, 6, RELEASED | {"width": 64, "state": 64, "depth": 6}),
    "SCP1, paper's 128/256/2": (896, 4, 6, RELEASED | {"width": 128, "state": 256, "depth": 2}),
}
RUNS, STEPS = 3, 3


def measure(length, batch, channels, fields, rounds):
    """Seconds for a step of one run: alone, together."""
    rng = np.random.default_rng(0)
    config = lrcssm.ModelConfig(input_dim=channels, output_dim=2, **fields)
    knobs = [TrainingConfig(learning_rate=1e-4 * 10**i).knobs() for i in range(RUNS)]
    keys = [jax.random.key(i) for i in range(RUNS)]
    states = [TrainState.start(lrcssm.SequenceModel(config, key), own) for key, own in zip(keys, knobs, strict=True)]
    inputs = rng.normal(size=(RUNS, length, batch, channels)).astype(np.float32)
    targets = rng.integers(0, 2, (RUNS, batch)).astype(np.int32)
    batches = [(inputs[i], None, None, targets[i], np.ones(batch, np.float32)) for i in range(RUNS)]
    stacked = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees) for trees in (states, batches, knobs)]
    steps = eqx.filter_jit(eqx.filter_vmap(train_step))

    def alone():
        ends = []
        for state, *rest in zip(states, batches, knobs, keys, strict=True):
            for _ in range(STEPS):
                state = train_step(state, *rest, lrcssm.Auto())[0]
            ends.append(state.step)
        return ends

    def together():
        state, *rest = stacked
        for _ in range(STEPS):
            state = steps(state, *rest, jnp.stack(keys), lrcssm.Auto())[0]
        return state.step

    times = interleave({"alone": alone, "together": together}, rounds=rounds, budget=30.0)
    return [times[name].best / RUNS / STEPS for name in ("alone", "together")]


def main(rounds="9", only=""):
    lrcssm.keep_memory()
    for name, size in SIZES.items():
        if name.startswith(only):
            alone, together = measure(*size, rounds=int(rounds))
            times = {"alone": round(1e3 * alone, 2), "together": round(1e3 * together, 2)}
            print(json.dumps({"size": name} | times | {"ratio": round(together / alone, 2)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
