"""The count of operations against the compiler's own, where that sees no loop."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from lrcssm import ModelConfig, SequenceModel
from lrcssm.models import flops_per_step

VARIANTS = {
    "default": {},
    "released": {"layout": "released", "mixer": "mlp", "pool": "logits", "cell_options": {"form": "released"}},
    "GRU, per step": {"cell": "GRU", "task": "per-step", "encoder": "linear"},
    "LRU": {"cell": "LRU"},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_forward(name):
    """Elementwise operations add less than a tenth of the products at this width."""
    model = SequenceModel(
        ModelConfig(input_dim=6, output_dim=5, hidden_dim=128, state_dim=64, num_blocks=2, **VARIANTS[name]),
        jax.random.key(0),
    )
    arrays, rest = eqx.partition(model, eqx.is_array)

    @jax.jit
    def forward(arrays, inputs):
        return eqx.combine(arrays, rest)(inputs, throw=False)[0]

    many = 256  # sequences of one step each
    analysis = forward.lower(arrays, jnp.zeros((1, many, 6))).compile().cost_analysis()
    found = flops_per_step(model)
    assert 1.0 <= analysis["flops"] / many / found.forward < 1.25
    assert 2 * found.forward < found.training < 3 * found.forward
    assert found.constant == found.training / 256
