"""The batch norm: its statistics and their averages, which are not learned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import distance, normal

from lrcssm import ModelConfig, SequenceModel
from lrcssm.engine import Auto
from lrcssm.models import trainable
from lrcssm.models.norm import BatchNorm
from lrcssm.training import TrainingConfig
from lrcssm.training.step import TrainState, train_step


def test_statistics_of_valid_steps():
    rng = np.random.default_rng(0)
    x, y = (normal(rng, (9, 3, 4), jnp.float64) * 3 + 1 for _ in range(2))
    mask = jnp.arange(9)[:, None] < jnp.array([9, 5, 7])
    filled = jnp.where(mask[..., None], x, jnp.nan)
    norm = BatchNorm(4)
    scaled, after = norm(filled, mask, True)
    valid = np.asarray(x)[np.asarray(mask)]
    want = (valid - valid.mean(0)) / np.sqrt(valid.var(0) + 1e-5)
    assert distance(np.asarray(scaled)[np.asarray(mask)], want) < 1e-12
    # The first batch is taken as it is, the second counts half, and later ones one in a hundred at least.
    assert distance(after.mean, valid.mean(0)) < 1e-12 and distance(after.variance, valid.var(0)) < 1e-12
    _, later = after(y, None, True)
    flat = np.asarray(y).reshape(-1, 4)
    assert distance(later.mean, (valid.mean(0) + flat.mean(0)) / 2) < 1e-12
    scaled, same = later(x, mask, False)
    assert same is later
    assert distance(scaled, (x - later.mean) / jnp.sqrt(later.variance + 1e-5)) < 1e-12


@pytest.mark.slow
def test_training_keeps_the_averages_and_does_not_learn_them():
    config = ModelConfig(input_dim=2, output_dim=2, hidden_dim=5, state_dim=4, num_blocks=2, cell="GRU", norm="batch")
    model = SequenceModel(config, jax.random.key(0))
    with jax.numpy_dtype_promotion("standard"):
        knobs = TrainingConfig(weight_decay=0.1).knobs()
        inputs = normal(np.random.default_rng(0), (6, 3, 2), jnp.float64)
        batch = (inputs, None, None, jnp.array([0, 1, 0]), jnp.ones(3))
        state = TrainState.start(model, knobs)
        for _ in range(2):
            state, *_ = train_step(state, batch, knobs, jax.random.key(1), Auto())
    first = np.asarray(model.encoder(inputs)).reshape(-1, 5)  # what the first block saw at the first step
    for trained in (state.model, state.average):
        assert [float(block.norm.count) for block in trained.blocks] == [2, 2]
        assert distance(trained.blocks[0].norm.mean, first.mean(0)) < 0.1
        assert distance(trained.blocks[0].norm.mean, np.zeros(5)) > 0.5
    assert not any(jax.tree.leaves(trainable(model).blocks[0].norm))
