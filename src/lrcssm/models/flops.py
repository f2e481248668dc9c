"""Arithmetic of a model, counted from its shapes."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from .layers import MLP
from .sequence import SequenceModel


class Flops(NamedTuple):
    """Floating-point operations of the matrix products for one step of one sequence (after patching): `forward`, and
    `training`, forward and backward without recomputation.

    `constant` is `training / (hidden_dim · num_blocks)`: the c_f of a cost that is written as
    c_f · batch · time · hidden_dim · num_blocks.
    """

    forward: float
    training: float
    constant: float


def flops_per_step(model: SequenceModel) -> Flops:
    """Count the multiplications and additions of all products with a weight matrix. Elementwise operations, a few for each
    feature and state, are left out.

    ```python
    import jax, lrcssm
    from lrcssm.models import flops_per_step

    config = lrcssm.ModelConfig(input_dim=6, output_dim=5, hidden_dim=64, state_dim=16, num_blocks=4)
    found = flops_per_step(lrcssm.SequenceModel(config, jax.random.key(0)))
    print(f"{found.training:,.0f} operations a step, c_f = {found.constant:.0f}")
    ```
    """
    head = model.head
    if model.pool is not None:  # its last map is applied once for a sequence
        head = head.first if isinstance(head, MLP) and model.config.pool == "logits" else None
    parts = (model.encoder, model.blocks, None if model.pool is None else model.pool.score, head)
    weights = [leaf for leaf in jax.tree.leaves(eqx.filter(parts, eqx.is_inexact_array)) if leaf.ndim == 2]
    forward = 2.0 * sum(leaf.size * (4 if jnp.iscomplexobj(leaf) else 1) for leaf in weights)
    training = 3 * forward
    if model.encoder is not None:  # training needs no derivative with respect to the data
        first = model.encoder.first if isinstance(model.encoder, MLP) else model.encoder
        training -= 2.0 * first.weight.size
    return Flops(forward, training, training / (model.config.hidden_dim * model.config.num_blocks))
