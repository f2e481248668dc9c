# %% [markdown]
# # A million steps in a gigabyte
#
# Back-propagation through a recurrent network keeps the intermediate results of every step, so memory grows with the length of the
# sequence. Here it does not: a *chunk* of time goes through all blocks before the next chunk starts, and its inside is recomputed in the
# backward pass.
#
# ## One training step
#
# Each length is measured in a separate process, whose peak memory includes Python, JAX and the compiler. The program makes
# one sequence of random inputs and computes the gradient of a loss with respect to all parameters, twice: the first pass compiles.

# %%
PROGRAM = """
import json, resource, sys, time
import equinox as eqx, jax, jax.numpy as jnp, lrcssm

length = int(sys.argv[1])
config = lrcssm.ModelConfig(input_dim=4, output_dim=3, hidden_dim=32, state_dim=32, num_blocks=3, dropout=0.0)
model = lrcssm.SequenceModel(config, jax.random.key(0))
inputs = jax.random.normal(jax.random.key(1), (length, 1, 4))  # time, batch, channels


@eqx.filter_jit
@eqx.filter_value_and_grad
def loss(model, inputs):
    logits, state = model(inputs, **json.loads(sys.argv[2]))
    return -jnp.mean(jax.nn.log_softmax(logits)[..., 0])


value, gradient = jax.block_until_ready(loss(model, inputs))
start = time.perf_counter()
jax.block_until_ready(loss(model, inputs))
seconds = time.perf_counter() - start
size = float(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient)) ** 0.5)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"length": length, "seconds": seconds, "peak_MB": peak, "loss": float(value), "gradient": size}))
"""

# %%
import json
import subprocess
import sys


def measure(length, **options):
    """Time and peak memory of a training step, in a process of its own."""
    command = [sys.executable, "-c", PROGRAM, str(length), json.dumps(options)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


rows = [measure(length) for length in (4_096, 32_768, 262_144, 1_048_576)]
for row in rows:
    print(f"{row['length']:>9,} steps: {row['seconds']:6.2f} s, peak {row['peak_MB']:5.0f} MB, loss {row['loss']:.4f}")

# %% [markdown]
# A million steps, forward and backward, in less than a gigabyte, and in a time that is proportional to the length.
#
# ## The same gradient
#
# `chunk=None` keeps everything, as back-propagation usually does. The gradients agree, but the memory grows with the length:

# %%
whole = [measure(length, chunk=None) for length in (4_096, 32_768, 262_144)]
for row in whole:
    print(f"{row['length']:>9,} steps: {row['seconds']:6.2f} s, peak {row['peak_MB']:5.0f} MB, loss {row['loss']:.4f}")
difference = abs(rows[2]["gradient"] / whole[-1]["gradient"] - 1)
print(f"262,144 steps: the norms of the gradients differ by a factor of 1 + {difference:.0e}")

# %%
# Peak memory and time of a training step against the length of the sequence
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for name, some, colour in (("in chunks (default)", rows, "#4c72b0"), ("all at once", whole, "#c44e52")):
    lengths = [row["length"] for row in some]
    left.loglog(lengths, [row["peak_MB"] for row in some], "o-", color=colour, label=name)
    right.loglog(lengths, [row["seconds"] for row in some], "o-", color=colour, label=name)
left.axhline(1024, color="0.7", linestyle=":")
left.text(5000, 1080, "1 GB", color="0.5", fontsize=9)
left.set(xlabel="steps", ylabel="peak of the process, MB", ylim=(250, 3000))
right.set(xlabel="steps", ylabel="seconds, forward and backward")
left.legend(frameon=False)

# %% [markdown]
# ## A budget
#
# `memory=` sets a limit for a training step instead; the model chooses chunks and recomputation that fit. It works in
# `TrainingConfig(memory="300MB")`, in the estimators, and as `lrcssm train --memory 300MB`.

# %%
small = measure(262_144, memory="60MB")
print(f"{small['length']:,} steps with memory='60MB': {small['seconds']:.2f} s, peak {small['peak_MB']:.0f} MB")

# %% [markdown]
# ## Next
#
# - [Memory](../memory.md) explains which results are kept and which are recomputed.
# - [Train on long sequences](../long.md) covers budgets, truncated gradients and many devices.
