# %% [markdown]
# # Forecast with intervals
#
# This tutorial forecasts two series with `LrcRidgeForecaster`: the number of airline passengers, which grows and has a season, and a
# chaotic series, which can be forecast for a short time only. Both forecasts come with intervals, and the tutorial checks their coverage.
#
# ## A seasonal series
#
# The classic airline data of Box and Jenkins, monthly totals from 1949 to 1960, come with aeon. The last two years are held back:

# %%
import numpy as np
from aeon.datasets import load_airline

import lrcssm

passengers = np.asarray(load_airline(), float).ravel()
past, future = passengers[:-24], passengers[-24:]
print(len(past), "months to learn from,", len(future), "to forecast")

# %% [markdown]
# Time is the first axis of a series here. The forecaster guesses the season, and decides whether to take logarithms:

# %%
model = lrcssm.LrcRidgeForecaster(horizon=24, random_state=0).fit(past)
forecast = model.predict()
low, high = model.predict_interval(coverage=0.9)
naive = np.tile(past[-12:], 2)  # the same months of the last year
print("season:", model.season_)
print(
    f"mean absolute error: {np.abs(forecast - future).mean():.1f} thousand passengers, last year's months: {np.abs(naive - future).mean():.1f}"
)
print(f"within the 90 % interval: {np.mean((low <= future) & (future <= high)):.0%} of the months")

# %% [markdown]
# The intervals come from the errors of earlier forecasts, each made from the values before it alone (rolling origins). A long horizon and a
# short history leave few such forecasts, so these intervals are a rough guide.
#
# ## A chaotic series
#
# The first coordinate of the Lorenz system: two trajectories that start close together separate exponentially, so no method can forecast
# far ahead. We integrate it with small steps and keep every second one:


# %%
def lorenz(steps, dt=0.01, every=2):
    """First coordinate of the Lorenz system, by the classical Runge–Kutta method."""

    def slope(s):
        x, y, z = s
        return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    state, found = np.array([1.0, 1.0, 20.0]), []
    for _ in range(steps * every):
        a = slope(state)
        b = slope(state + dt / 2 * a)
        c = slope(state + dt / 2 * b)
        d = slope(state + dt * c)
        state = state + dt / 6 * (a + 2 * b + 2 * c + d)
        found.append(state[0])
    return np.array(found[::every])


series = lorenz(4400)[400:]
train, test = series[:3000], series[3000:]
chaos = lrcssm.LrcRidgeForecaster(horizon=60, season=1, random_state=0).fit(train)

# %% [markdown]
# A single origin proves little. We forecast from 40 origins and compute, for each distance, the error and the share of values within the
# interval:

# %%
starts = range(0, 800, 20)
errors, inside = [], []
for start in starts:
    seen, truth = np.concatenate([train, test[:start]]), test[start : start + 60]
    forecast_here = chaos.predict(seen)
    below, above = chaos.predict_interval(seen, coverage=0.9)
    errors.append(np.abs(forecast_here - truth))
    inside.append((below <= truth) & (truth <= above))
errors, inside = np.array(errors), np.array(inside)
spread = np.abs(train - np.median(train)).mean()
for distance in (1, 10, 30, 60):
    print(f"{distance:2} steps ahead: error {errors[:, distance - 1].mean():.3f} (of a constant: {spread:.1f}), "
          f"{inside[:, distance - 1].mean():.0%} within the 90 % interval")  # fmt: skip

# %%
# Forecasts with 90 % intervals of the airline passengers and of the Lorenz system, and the error against the distance
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(10.4, 3.2), layout="constrained", width_ratios=(1.3, 1.3, 1))
months = np.arange(len(passengers))
axes[0].plot(months[-84:], passengers[-84:], color="0.3", linewidth=1, label="observed")
axes[0].plot(months[-24:], forecast, color="#c44e52", label="forecast")
axes[0].fill_between(months[-24:], low, high, color="#c44e52", alpha=0.25, linewidth=0)
axes[0].set(xlabel="month", title="airline passengers, thousands")
axes[0].legend(frameon=False, loc="upper left")
start = 200
seen = np.concatenate([train, test[:start]])
below, above = chaos.predict_interval(seen, coverage=0.9)
steps = np.arange(start, start + 60)
axes[1].plot(np.arange(start - 60, start + 60), test[start - 60 : start + 60], color="0.3", linewidth=1)
axes[1].plot(steps, chaos.predict(seen), color="#c44e52")
axes[1].fill_between(steps, below, above, color="#c44e52", alpha=0.25, linewidth=0)
axes[1].set(xlabel="step", title="Lorenz system")
axes[2].semilogy(np.arange(1, 61), errors.mean(0), color="#4c72b0")
axes[2].axhline(spread, color="0.6", linestyle=":")
axes[2].text(1, spread * 1.1, "constant", color="0.5", fontsize=9)
axes[2].set(xlabel="steps ahead", title="mean error, Lorenz system")

# %% [markdown]
# The forecast of the chaotic series is good for a while; then the interval widens until it is as wide as the series itself. Far ahead it is
# a little too narrow here: it covers fewer than 90 % of the values.
#
# ## Next
#
# - [Use the estimators](../estimators.md#forecasts) covers missing values, irregular times and models trained by gradients.
