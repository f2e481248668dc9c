# %% [markdown]
# # Classify sensor data
#
# A smart watch records acceleration and rotation while its owner walks, rests, runs or plays badminton. From such recordings, in a pandas
# DataFrame or a CSV file, this tutorial trains a classifier, tests it, and predicts new recordings.
#
# ## The data
#
# BasicMotions of the UEA archive comes with aeon: 40 recordings for training and 40 for test, each of 10 seconds at 10 Hz, with six
# channels.

# %%
import pathlib

import numpy as np
import pandas as pd
from aeon.datasets import load_basic_motions

CHANNELS = ["acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z"]


def as_table(part):
    X, y = load_basic_motions(split=part)  # X: cases, channels, time
    cases, channels, steps = X.shape
    table = pd.DataFrame(X.transpose(0, 2, 1).reshape(-1, channels).round(4), columns=CHANNELS)
    table.insert(0, "recording", np.repeat([f"{part}-{i:02d}" for i in range(cases)], steps))
    table.insert(1, "time", np.tile(np.arange(steps) / 10, cases))
    table["activity"] = np.repeat(y, steps)
    return table


train, test = as_table("train"), as_table("test")
print(train.iloc[[0, 1, 2, 100, 101]].to_string(index=False))

# %% [markdown]
# This is a *long* table: a row for each time step. One column names the recording, one holds the time, one the class, and all others are
# channels.

# %%
# One recording of each activity, acceleration along x
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 4, figsize=(9, 2.2), layout="constrained", sharey=True)
for ax, (activity, rows) in zip(axes, train.groupby("activity", sort=False), strict=True):
    first = rows[rows.recording == rows.recording.iloc[0]]
    ax.plot(first.time, first.acc_x, color="#4c72b0")
    ax.set_title(activity, fontsize=10)
    ax.set_xlabel("seconds")

# %% [markdown]
# ## From the command line
#
# A folder with `train.csv` and `test.csv` is a data set:

# %%
folder = pathlib.Path("motions")
folder.mkdir()
train.to_csv(folder / "train.csv", index=False)
test.to_csv(folder / "test.csv", index=False)

# %%
# !lrcssm data show motions

# %% [markdown]
# The columns were guessed from their names and contents; `--case`, `--time`, `--target` and `--ignore` override the guess. Training is one
# command:

# %%
# !lrcssm train motions

# %% [markdown]
# `runs/motions/report.html` is a page with the scores, the confusion matrix and the most uncertain cases. The model is
# `runs/motions/model.lrcssm`. It predicts new recordings, here the first two of the test part without their labels:

# %%
new = test[test.recording.isin(["test-00", "test-01"])].drop(columns="activity")
new.to_csv("new.csv", index=False)

# %%
# !lrcssm predict runs/motions new.csv

# %% [markdown]
# ## In Python
#
# In Python no file is needed: `from_frame` accepts the tables directly, and the estimators accept the resulting data sets.

# %%
import lrcssm

roles = {"case": "recording", "time": "time", "target": "activity"}
for_training = lrcssm.data.from_frame(train, **roles)
for_test = lrcssm.data.from_frame(test, **roles)
model = lrcssm.LrcRidgeClassifier(random_state=0).fit(for_training)
predicted = model.predict(for_test)

truth = test.groupby("recording").activity.first()
print(f"{np.mean(predicted == truth):.1%} of {len(truth)} test recordings are right")

# %% [markdown]
# With so few recordings, one split is not conclusive. Cross-validation over all of them uses scikit-learn's own tools, and a shorter part
# of each recording shows how much of it is needed. For this we use arrays, with the axes cases, channels and time:

# %%
series = np.concatenate([load_basic_motions(split=part)[0] for part in ("train", "test")])
labels = np.concatenate([load_basic_motions(split=part)[1] for part in ("train", "test")])

from sklearn.model_selection import StratifiedKFold, cross_val_score

folds = StratifiedKFold(4, shuffle=True, random_state=0)
seconds = [0.5, 1, 2, 5, 10]
scores = [
    cross_val_score(
        lrcssm.LrcRidgeClassifier(n_features=2000, random_state=0), series[..., : int(10 * s)], labels, cv=folds
    )
    for s in seconds
]
for s, score in zip(seconds, scores, strict=True):
    print(f"{s:4} s: {score.mean():.1%} ± {score.std():.1%}")

# %%
# Accuracy against the length of the recordings, and the confusion matrix of the test part
from sklearn.metrics import ConfusionMatrixDisplay

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.errorbar(seconds, [s.mean() for s in scores], [s.std() for s in scores], marker="o", color="#4c72b0", capsize=3)
left.set(xlabel="seconds of each recording", ylabel="accuracy, 4 folds", ylim=(0.4, 1.03), xscale="log")
left.set_xticks(seconds, seconds)
ConfusionMatrixDisplay.from_predictions(truth, predicted, ax=right, colorbar=False, cmap="Blues", xticks_rotation=30)
right.set_title("test part", fontsize=10)

# %% [markdown]
# ## Next
#
# - [Data formats](../formats.md) lists the files that `lrcssm` reads: CSV, Parquet, `.ts`, `.arff`, `.npz`, and folders of them.
# - [Use the estimators](../estimators.md) covers pipelines, searches and saving.
# - [Unequal lengths, gaps and irregular times](irregular.md) covers less regular recordings.
