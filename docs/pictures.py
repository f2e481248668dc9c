"""Draws the pictures of the documentation: python docs/pictures.py (about a minute).

Those of cells and stability come from the cells as they are at the start; no training.
"""

import json
import pathlib

import jax
import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import numpy as np

import lrcssm
from lrcssm.cells import LRC
from lrcssm.estimators.backtest import backtest, origins_of
from lrcssm.report.forecast import forecast_figure
from lrcssm_paper.benchmark.scaling import draw as draw_scaling

jax.config.update("jax_enable_x64", True)
matplotlib.use("Agg")

FOLDER = pathlib.Path(__file__).parent / "img"
INPUTS = 16
COLOURS = {"paper": "#c44e52", "spread": "#4c72b0", "10 × paper": "#8172b3"}


def noise(length, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(length, INPUTS)))


def slow(length, seed=0):
    """Inputs of unit scale that stay what they are for a quarter of the sequence."""
    values = np.random.default_rng(seed).normal(size=(4, INPUTS))
    return jnp.asarray(np.repeat(values, -(-length // 4), 0)[:length])


def cell(init, units=64, max_time=20000.0, **options):
    factor = 10 if init.startswith("10") else 1
    made = LRC(INPUTS, units, init=init.split()[-1], max_time=max_time, key=jax.random.key(0), **options)
    return jax.tree.map(lambda a: factor * a, made)


def time_constants():
    """Time constants of the units of a layer, by initialisation."""
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for init in ("paper", "spread"):
        constants = np.sort(lrcssm.stability.time_constants(cell(init), noise(40000)))
        axes.plot(np.arange(64), constants, ".", color=COLOURS[init], label=f'init="{init}"')
    axes.axhline(20000, color="0.7", linewidth=1, zorder=0)
    axes.text(0, 21500, "max_time", color="0.5", fontsize=9)
    axes.set(yscale="log", xlabel="unit, sorted", ylabel="time constant, steps")
    axes.set_title("LRC, 64 units, 16 inputs of white noise", fontsize=10)
    axes.legend(frameon=False)
    return figure


def output_scale():
    """The scale of the states against the number of units, by initialisation and input."""
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    sizes = (8, 16, 32, 64, 128, 256)
    for init in ("paper", "spread"):
        for make, style, name in ((noise, "-", "white noise"), (slow, "--", "slow inputs")):
            scales = []
            for units in sizes:
                states = lrcssm.solve(cell(init, units, 1000.0), make(4000)).states[2000:]
                scales.append(float(jnp.sqrt(jnp.mean(states**2))))
            axes.plot(sizes, scales, style, marker=".", color=COLOURS[init], label=f'init="{init}", {name}')
    axes.set(xscale="log", yscale="log", xlabel="units", ylabel="root mean square of the states", ylim=(1e-3, 5))
    axes.set_xticks(sizes, sizes)
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=9)
    return figure


def gradient_norm():
    """Share of a gradient at the last step that reaches a step further back, T = 20,000."""
    length = 20000
    inputs = noise(length)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.8), layout="constrained", sharey=True)
    for axes, rho in ((left, None), (right, 0.99)):
        for init in ("paper", "10 × paper", "spread"):
            this = cell(init, rho=rho)
            states = lrcssm.solve(this, inputs, solver=lrcssm.Sequential()).states
            logs = log_jacobians(this, inputs, states)
            back = np.cumsum(np.asarray(logs)[::-1], 0)  # log |∂x_T/∂x_τ| of each unit
            top = back.max(1)
            norms = (top + 0.5 * np.log(np.mean(np.exp(2 * (back - top[:, None])), 1))) / np.log(10)
            axes.plot(np.arange(1, length + 1), norms, color=COLOURS[init], label=init)
        if rho is not None:
            steps = np.arange(1, length + 1)
            axes.plot(steps, steps * np.log10(rho), "k:", linewidth=1, label="$\\rho^{T-\\tau}$, the guarantee")
        axes.set(xscale="log", ylim=(-30, 3), xlabel="distance $T - \\tau$, steps")
        axes.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        axes.set_title("without rho" if rho is None else f"rho = {rho}", fontsize=10)
        axes.legend(frameon=False, fontsize=9, loc="lower left")
    left.set_ylabel("$\\log_{10}$ of the gradient's norm, relative")
    return figure


def log_jacobians(this, inputs, states):
    before = jnp.concatenate([jnp.zeros_like(states[:1]), states[:-1]])
    drive = this.drive(inputs)
    slopes = jax.jit(lambda x: jax.jvp(lambda x: this.step(x, drive), (x,), (jnp.ones_like(x),))[1])(before)
    return jnp.log(jnp.abs(slopes))


def speed():
    """Time of one layer, forward and backward, against the length of the sequence, from the record of the benchmark."""
    record = json.loads((FOLDER.parent.parent / "results" / "engine-cpu.json").read_text())
    names = {"lstm": ("torch.nn.LSTM", "0.55"), "scan": ("LRC, lax.scan with autodiff", "#c44e52"),
             "sequential": ("LRC, lrcssm", "#4c72b0")}  # fmt: skip
    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for method, (name, colour) in names.items():
        rows = [row for row in record["rows"] if row["method"] == method and row["forward_backward"]]
        lengths = [row["length"] for row in rows]
        times = [row["forward_backward"]["best_ms"] for row in rows]
        axes.loglog(lengths, times, "o-", color=colour, markersize=4)
        axes.annotate(f" {name}", (lengths[-1], times[-1]), color=colour, fontsize=9, va="center")
    axes.set(xlabel="steps", ylabel="ms, forward and backward", xlim=(900, 900000))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def newton():
    """Iterates of Newton's method over a whole sequence, and their errors."""
    length, scale = 400, 3
    this = jax.tree.map(lambda a: scale * a, LRC(INPUTS, 16, key=jax.random.key(0)))
    inputs = slow(length)
    exact = lrcssm.solve(this, inputs, solver=lrcssm.Sequential()).states
    iterates = [jnp.zeros_like(exact)]
    while float(jnp.max(jnp.abs(iterates[-1] - exact))) > 1e-12:
        solver = lrcssm.DEER(max_steps=len(iterates), rtol=1e-15)
        iterates.append(lrcssm.solve(this, inputs, solver=solver, throw=False).states)
    unit = int(jnp.argmax(jnp.max(jnp.abs(iterates[1] - exact), 0)))
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.4), layout="constrained", width_ratios=(2, 1))
    for number, states in enumerate(iterates[1:4], 1):
        left.plot(states[:, unit], color=plt.get_cmap("Reds")(0.25 + 0.22 * number), label=f"iteration {number}")
    left.plot(exact[:, unit], "k:", label="step by step")
    left.set(xlabel="step", ylabel="state of one unit")
    left.legend(frameon=False, fontsize=9)
    errors = [max(float(jnp.max(jnp.abs(states - exact))), 1e-16) for states in iterates]
    right.semilogy(errors, "o-", color=COLOURS["spread"])
    right.set(xlabel="iteration", ylabel="largest error of all units and steps")
    return figure


def memory():
    """Peak memory of a training step against the length of the sequence, from the record of the benchmark."""
    record = json.loads((FOLDER.parent.parent / "results" / "long-cpu.json").read_text())
    rows = record["rows"]
    lengths = np.array([row["length"] for row in rows])
    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    axes.loglog(lengths, [row["peak_mb"] for row in rows], "o-", color="#4c72b0", label="process, measured")
    axes.loglog(
        lengths, [row["memory_mb"] for row in rows], "s-", color="#55a868", label="training step, as XLA plans it"
    )
    everything = rows[1]["memory_mb"] / rows[1]["length"] * lengths
    axes.loglog(lengths, everything, ":", color="0.5", label="if everything were kept (extrapolated)")
    axes.set(xlabel="steps", ylabel="MB", ylim=(20, 30000))
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def scaling():
    """Time of a training step of each architecture against the length of the sequence, from the record of the benchmark."""
    return draw_scaling(json.loads((FOLDER.parent.parent / "results" / "scaling-cpu.json").read_text()))


def forecast():
    """Airline passengers, as `lrcssm forecast` draws them; the data come with aeon."""
    from aeon.datasets import load_airline

    values = np.asarray(load_airline(), float).reshape(-1, 1)
    with jax.enable_x64(False):
        make = lambda: lrcssm.LrcRidgeForecaster(horizon=12, random_state=0)
        origins = origins_of(len(values), 12, 8)
        rolled = backtest(make, values, origins)
        model = make().fit(values)
        low, high = model.predict_interval()
    months = np.arange("1949-01", "1962-01", dtype="datetime64[M]").astype(str)
    return forecast_figure(
        values, model.predict(), low, high, names=["passengers"], coverage=0.9, rolled=rolled.forecasts, origins=origins,
        stamps=months,
    )  # fmt: skip


def main():
    FOLDER.mkdir(exist_ok=True)
    for draw in (time_constants, output_scale, gradient_norm, speed, newton, memory, scaling, forecast):
        path = FOLDER / f"{draw.__name__.replace('_', '-')}.png"
        draw().savefig(path, dpi=110, metadata={"Software": None})
        print(path.relative_to(FOLDER.parent.parent))


if __name__ == "__main__":
    main()
