# %% [markdown]
# # Unequal lengths, gaps and irregular times
#
# Real recordings start and stop at different times, lose values, and are sampled irregularly. Every estimator handles all three; this
# tutorial shows how, and what each costs in accuracy.
#
# ## Unequal lengths
#
# JapaneseVowels of the UEA archive comes with aeon: nine speakers say the same two vowels. Each utterance has 12 channels and 7 to 29
# steps, so the data are a list of arrays `(channels, steps)`, not one array.

# %%
import numpy as np
from aeon.datasets import load_japanese_vowels

X_train, y_train = load_japanese_vowels(split="train")
X_test, y_test = load_japanese_vowels(split="test")
print(len(X_train), "utterances for training,", len(X_test), "for test")
print("shapes:", [x.shape for x in X_train[:4]], "...")

# %% [markdown]
# Estimators accept the list directly. Shorter series are padded internally, and the padding changes neither outputs nor gradients.

# %%
from lrcssm import LrcRidgeClassifier, LrcSSMClassifier

ridge = LrcRidgeClassifier(random_state=0).fit(X_train, y_train)
print(f"ridge on random features: {ridge.score(X_test, y_test):.1%} of the test utterances are right")

trained = LrcSSMClassifier(method="gradient", steps=400, random_state=0).fit(X_train, y_train)
print(f"trained by gradients:     {trained.score(X_test, y_test):.1%}")

# %% [markdown]
# Both are accurate here, and the ridge model takes seconds. We continue with the trained model, to show how it copes with gaps.
#
# ## Gaps
#
# A missing value is NaN. Because the right treatment depends on the data, NaN is an error until you choose one:

# %%
rng = np.random.default_rng(0)


def with_gaps(series, share):
    """The series with a share of their values removed, but for the first of each channel."""
    holes = [(rng.random(x.shape) < share) & (np.arange(x.shape[1]) > 0) for x in series]
    return [np.where(hole, np.nan, x) for hole, x in zip(holes, series, strict=True)]


try:
    LrcSSMClassifier(method="gradient").fit(with_gaps(X_train, 0.1), y_train)
except ValueError as error:
    print(error)

# %% [markdown]
# `missing="fill"` carries the last value forward; `missing="mask"` skips a step at which any channel is missing. With 12 channels and a
# fifth of the values missing almost every step lacks some channel, so `"fill"` is the better choice here. Use `"mask"` if whole steps are
# missing.

# %%
shares = [0, 0.2, 0.4, 0.6]
gaps = [
    LrcSSMClassifier(method="gradient", missing="fill", steps=400, random_state=0)
    .fit(with_gaps(X_train, share), y_train)
    .score(with_gaps(X_test, share), y_test)
    for share in shares
]
for share, score in zip(shares, gaps, strict=True):
    print(f"{share:4.0%} of the values missing: {score:.1%}")

# %% [markdown]
# ## Irregular times
#
# If samples arrive at irregular times, pass the times of each case as `times`, to `fit` and to every method that predicts. The cells then
# take the time between two steps into account. The synthetic data set `oscillators` requires this: its classes are frequencies, and the
# sampling rate differs from case to case.

# %%
from lrcssm.data import synthetic

data = synthetic.oscillators(cases=1200, length=100, noise=0.1, seed=0)
X = np.stack([one.T for one in data.series])  # cases, channels, time
times = np.stack(data.times)
y = np.array(data.targets)
fit, test = slice(0, 1000), slice(1000, 1200)
print("channels:", data.channel_names, " first times:", times[0, :4].round(3))

# %%
options = {"patch": 1, "bidirectional": False, "steps": 600, "random_state": 0}
aware = LrcSSMClassifier(**options).fit(X[fit], y[fit], times=times[fit])
blind = LrcSSMClassifier(**options).fit(X[fit], y[fit])
with_times = aware.score(X[test], y[test], times=times[test])
without = blind.score(X[test], y[test])
print(f"with times {with_times:.1%}, without {without:.1%}; chance is 25 %")

# %%
# One irregular series, accuracy with gaps, and accuracy with and without times
import matplotlib.pyplot as plt

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9.6, 3), layout="constrained", width_ratios=(1.6, 1.2, 0.8))
left.plot(times[0], X[0, 0], ".-", color="#4c72b0", linewidth=0.6, markersize=4)
left.set(xlabel="time", title="one series of oscillators")
middle.plot(shares, gaps, "o-", color="#4c72b0")
middle.set(xlabel="share of values missing", ylabel="accuracy", ylim=(0, 1.02), title="JapaneseVowels")
middle.axhline(1 / 9, color="0.6", linestyle=":")
middle.text(0, 1 / 9 + 0.02, "chance", color="0.5", fontsize=9)
right.bar(["with\ntimes", "without"], [with_times, without], color=["#4c72b0", "#c44e52"])
right.axhline(0.25, color="0.6", linestyle=":")
right.set(ylim=(0, 1.02), title="oscillators")

# %% [markdown]
# ## Next
#
# - In cross-validation and searches `times` needs scikit-learn's metadata routing; [Use the estimators](../estimators.md#series) has an
#   example.
# - In files, times are a column, and gaps are empty cells: [Data formats](../formats.md).
