# %% [markdown]
# # Stability
#
# The paper argues that the gradients of an LrcSSM cannot explode, because its Jacobian is bounded by a number below 1. This tutorial
# examines the claim, gives a counterexample, and shows which guarantees are possible instead.
#
# ## The claim
#
# The paper writes a unit as
#
# $$x_t = \lambda_t\,x_{t-1} + b_t, \qquad 0 < \lambda_t \le \rho < 1,$$
#
# and concludes that the Jacobian $J_t = \partial x_t / \partial x_{t-1}$ is $\lambda_t$, so that a gradient shrinks at least by $\rho$ in
# each step. But $\lambda_t$ and $b_t$ depend on the state, and the product rule adds terms:
#
# $$J_t = \lambda_t + \frac{\partial \lambda_t}{\partial x}\,x_{t-1} + \frac{\partial b_t}{\partial x}.$$
#
# ## A counterexample
#
# Take an LRC cell, and make its weights ten times as large as at initialisation, as training may do. Its $\lambda_t$ is always between 0
# and 1. Its Jacobian is not:

# %%
import jax
import jax.numpy as jnp
import numpy as np

import lrcssm

inputs = jax.random.normal(jax.random.key(1), (2000, 3))


def scaled(factor, **options):
    """An LRC cell with weights that are larger than at initialisation."""
    cell = lrcssm.cells.LRC(3, 16, key=jax.random.key(0), **options)
    return jax.tree.map(lambda a: factor * a, cell)


for factor in (1, 3, 10):
    cell = scaled(factor)
    found = lrcssm.stability.diagnose(cell, inputs, lrcssm.solve(cell, inputs))
    print(f"{factor:2} × weights: the largest |J| along the trajectory is {found.largest:.3f}")

# %% [markdown]
# A single expanding step does not yet make gradients explode, but it shows that the bound does not hold, and that nothing in the equations
# prevents worse.
#
# ## A certificate
#
# `certify` computes bounds of the states and the Jacobian from the parameters alone. They hold for all inputs within `input_bound`, because
# they are a theorem ([with proof](../stability.md#a-theorem-that-holds)), not a measurement:

# %%
for factor in (1, 3, 10):
    print(f"{factor:2} × weights:", lrcssm.stability.certify(scaled(factor), input_bound=5.0))

# %% [markdown]
# At the initial scale all units are certified to contract; with large weights there is no such certificate, as expected.
#
# ## Contraction by construction
#
# `rho=0.99` makes a cell contractive for all parameters, and so at every step of training. It scales the slopes with respect to the state
# where the bound exceeds $\rho$, and leaves everything else as it is:

# %%
tame = scaled(10, rho=0.99)
print(lrcssm.stability.certify(tame))
found = lrcssm.stability.diagnose(tame, inputs, lrcssm.solve(tame, inputs))
print(f"largest |J| along the trajectory: {found.largest:.4f}")


# %% [markdown]
# ## The picture
#
# All Jacobians along the trajectory of 2,000 random inputs, for the three cells, and how two nearby states develop:


# %%
def jacobians(cell):
    """∂x_t/∂x_{t−1} of all units at all steps."""
    states = lrcssm.solve(cell, inputs).states
    before = jnp.concatenate([jnp.zeros_like(states[:1]), states[:-1]])
    drive = cell.drive(inputs)
    return jax.jvp(lambda x: cell.step(x, drive), (before,), (jnp.ones_like(before),))[1]


def distance(cell, steps=60):
    """Largest distance of the units of two trajectories, relative to that of their first states."""
    start = jnp.zeros(16)
    one = lrcssm.solve(cell, inputs[:steps], state=start).states
    two = lrcssm.solve(cell, inputs[:steps], state=start + 1e-3).states
    return jnp.max(jnp.abs(one - two), 1) / 1e-3


# %%
# Histograms of the Jacobians, and the distance of two nearby trajectories
import matplotlib.pyplot as plt

cells = {
    "initial weights": (scaled(1), "#4c72b0"),
    "10 × weights": (scaled(10), "#c44e52"),
    "10 × weights, rho=0.99": (tame, "#55a868"),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.4), layout="constrained")
for name, (cell, colour) in cells.items():
    values = np.asarray(jacobians(cell)).ravel()
    left.hist(values, np.linspace(-1.6, 2, 120), histtype="step", color=colour, label=name, linewidth=1.3)
    right.semilogy(np.maximum(distance(cell), 1e-6), color=colour, label=name)
for edge in (-1, 1):
    left.axvline(edge, color="0.6", linestyle=":", linewidth=1)
left.set(xlabel="Jacobian of a unit at a step", ylabel="count", yscale="log")
left.legend(frameon=False, fontsize=8, loc="upper left")
right.axhline(1, color="0.6", linestyle=":", linewidth=1)
right.set(xlabel="step", ylabel="distance, relative to the start")
right.legend(frameon=False, fontsize=8)

# %% [markdown]
# Some Jacobians of the red cell are larger than 1; those of the green one, with the same weights and `rho=0.99`, are not.
#
# ## What a guarantee does not cover
#
# A guarantee applies to the recurrence of one cell in exact arithmetic, not to the layers around it. Moreover, a gradient that does not
# explode can still vanish: $0.99^{1000}$ is $4 \cdot 10^{-5}$. If the first of T steps matters, choose $\rho \ge 1 - 1/T$.
#
# ## Next
#
# [Stability](../stability.md) has the theorem, its proof, and the bounds of each cell.
