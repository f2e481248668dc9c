# %% [markdown]
# # Bring your own cell
#
# `solve` evaluates any recurrence over time, optionally in parallel. This tutorial writes two cells, a minGRU and a network of coupled
# oscillators, checks them, and looks at the iterations of Newton's method.
#
# ## A minGRU
#
# The minGRU of Feng et al. (2024) is a GRU whose gate and candidate depend on the input alone:
#
# $$x_t = (1 - z_t)\,x_{t-1} + z_t\,c_t, \qquad z_t = \sigma(W_z u_t), \quad c_t = W_c u_t.$$
#
# A cell splits that into the `drive`, which depends on the input alone and is computed for many steps at once, and the `step`.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp

import lrcssm


class MinGRU(lrcssm.cells.Cell):
    """x ← (1 − z) x + z c, with a gate z and a candidate c that depend on the input alone."""

    structure = "diagonal"
    affine = True
    gate: jax.Array
    candidate: jax.Array
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)

    def __init__(self, input_dim, state_dim, *, key):
        one, two = jax.random.split(key)
        self.input_dim, self.state_dim = input_dim, state_dim
        self.gate = jax.random.normal(one, (input_dim, state_dim)) / input_dim**0.5
        self.candidate = jax.random.normal(two, (input_dim, state_dim)) / input_dim**0.5

    def drive(self, inputs):
        return jax.nn.sigmoid(inputs @ self.gate), inputs @ self.candidate

    def step(self, state, drive, dt=1.0):
        gate, candidate = drive
        return state + dt * gate * (candidate - state)


cell = MinGRU(3, 8, key=jax.random.key(0))
inputs = jax.random.normal(jax.random.key(1), (2000, 4, 3))  # time, batch, features
solution = lrcssm.solve(cell, inputs, solver="deer")
print("iterations:", solution.iterations)

# %% [markdown]
# The step is affine in the state, so one iteration of Newton's method is exact. A cell *declares* its structure; `check_structure` compares
# the declaration with the Jacobian:

# %%
print(lrcssm.check_structure(cell))

# %% [markdown]
# ## Coupled oscillators
#
# Each unit of the second cell is a driven, damped oscillator, as in the coRNN of Rusch and Mishra (2021), with a position $y$ and a
# velocity $v$ that act on each other through a non-linearity:
#
# $$v \leftarrow v + \Delta t\,\big(\tanh(a\,y + b\,v + B u) - \gamma\,y - \eta\,v\big), \qquad y \leftarrow y + \Delta t\,v.$$
#
# The state has two halves, and the pair $(v, y)$ of a unit depends on that pair alone: the Jacobian consists of 2×2 blocks.


# %%
class Oscillators(lrcssm.cells.Cell):
    """Driven oscillators whose position and velocity are coupled."""

    structure = "block2"
    a: jax.Array
    b: jax.Array
    stiffness: jax.Array
    damping: jax.Array
    weights: jax.Array
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)

    def __init__(self, input_dim, units, *, key):
        keys = jax.random.split(key, 3)
        self.input_dim, self.state_dim = input_dim, 2 * units
        self.a = jax.random.uniform(keys[0], (units,), minval=-1, maxval=1)
        self.b = jax.random.uniform(keys[1], (units,), minval=-1, maxval=1)
        self.stiffness = jnp.geomspace(0.5, 20.0, units)
        self.damping = jnp.full((units,), 0.5)
        self.weights = jax.random.normal(keys[2], (input_dim, units))

    def drive(self, inputs):
        return inputs @ self.weights

    def step(self, state, drive, dt=0.1):
        v, y = jnp.split(state, 2, -1)
        force = jnp.tanh(self.a * y + self.b * v + drive) - self.stiffness * y - self.damping * v
        v = v + dt * force
        return jnp.concatenate([v, y + dt * v], -1)


swing = Oscillators(3, 6, key=jax.random.key(2))
print(lrcssm.check_structure(swing))

# %% [markdown]
# Do all solvers give the states of a plain loop, and its gradients? `check_agreement` prints a table; the last columns are differences from
# `lax.scan` and automatic differentiation.

# %%
slow = jnp.repeat(jax.random.normal(jax.random.key(3), (8, 1, 3)), 50, axis=0)  # inputs that change every 50 steps
rows = lrcssm.check_agreement(swing, slow, dt=0.1)

# %% [markdown]
# ## Newton's method at work
#
# `DEER` is Newton's method on the whole sequence. It starts from zero at all steps; each iteration linearises every step at the current
# states and solves the linear recurrence at once. With `max_steps=k` and `throw=False` we get the states after k iterations:


# %%
def iterates(cell, inputs, count, **options):
    """States of the first iterations, and the exact states."""
    exact = lrcssm.solve(cell, inputs, solver=lrcssm.Sequential(), **options).states
    found = [jnp.zeros_like(exact)]
    for k in range(1, count + 1):
        found.append(lrcssm.solve(cell, inputs, solver=lrcssm.DEER(max_steps=k), throw=False, **options).states)
    return found, exact


jax.config.update("jax_enable_x64", True)  # double precision shows the last digits
double = lambda tree: jax.tree.map(lambda a: a.astype(float), tree)
found, exact = iterates(double(swing), double(slow), 6, dt=0.1)
error = [float(jnp.max(jnp.abs(states - exact))) for states in found]
print("largest error after each iteration:", " ".join(f"{e:.0e}" for e in error))

# %%
# Newton iterates of the position of one oscillator
import matplotlib.pyplot as plt

unit = 6  # positions are the second half of the state
figure, axes = plt.subplots(1, 3, figsize=(9.6, 2.8), layout="constrained", sharey=True)
for k, ax in enumerate(axes, 1):
    ax.plot(exact[:, 0, unit], color="0.7", linewidth=4, label="step by step")
    ax.plot(found[k][:, 0, unit], color="#c44e52", linewidth=1.2, label=f"iteration {k}")
    ax.set(xlabel="step", ylim=(-4.5, 4.5))
    ax.legend(frameon=False, fontsize=9, loc="lower left")
axes[0].set_ylabel("position")

# %% [markdown]
# The early steps are right first, and once all steps are close the number of correct digits doubles with each iteration. The number of
# iterations depends on how non-linear the recurrence is, and only weakly on its length:

# %%
grus = lrcssm.cells.GRU(3, 8, key=jax.random.key(4))
lengths = [100, 1_000, 10_000]
scales = [1, 3, 6]
counts = {}
for scale in scales:
    scaled = double(jax.tree.map(lambda a, scale=scale: scale * a, grus))
    for length in lengths:
        noise = jax.random.normal(jax.random.key(5), (length, 3), dtype=float)
        counts[scale, length] = int(lrcssm.solve(scaled, noise, solver=lrcssm.ELK()).iterations)
print(counts)

# %%
# Error of each iteration, and iterations against the length
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.semilogy([max(e, 1e-16) for e in error], "o-", color="#4c72b0")
left.set(xlabel="iteration", ylabel="largest error", title="coupled oscillators, 400 steps, DEER")
for scale, colour in zip(scales, ("#4c72b0", "#8172b3", "#c44e52"), strict=True):
    label = "initial weights" if scale == 1 else f"{scale} times as large"
    right.semilogx(lengths, [counts[scale, n] for n in lengths], "o-", color=colour, label=label)
right.set(xlabel="steps", ylabel="iterations", title="GRU, ELK", ylim=(0, None))
right.legend(frameon=False)

# %% [markdown]
# ## In a model
#
# A registered cell works in models and estimators by name:

# %%
jax.config.update("jax_enable_x64", False)
lrcssm.cells.register(MinGRU)

from sklearn.datasets import load_digits

X, y = load_digits(return_X_y=True)
options = {"hidden_dim": 32, "state_dim": 32, "num_blocks": 1, "steps": 300, "learning_rate": 1e-2, "random_state": 0}
classifier = lrcssm.LrcSSMClassifier(cell="MinGRU", **options).fit(X[:1400], y[:1400])
print(f"{classifier.score(X[1400:], y[1400:]):.1%} of the test digits are right")

# %% [markdown]
# ## Next
#
# - [Write a cell](../own-cell.md) has the full contract.
# - [Solvers](../choose-solver.md) explains which solver suits which cell.
