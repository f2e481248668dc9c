# %% [markdown]
# # Reproduce a row of the paper
#
# `lrcssm reproduce` has every table of the paper: the published numbers, the configurations behind them, and their known errors. This
# tutorial reproduces the results on one data set, SelfRegulationSCP1, and shows the results in the repository.
#
# ## The tables

# %%
# !lrcssm reproduce

# %% [markdown]
# ## The plan
#
# `--plan` lists the runs of a command and estimates their time, without running anything:

# %%
# !lrcssm reproduce table1 --datasets SCP1 --models LrcSSM S5 LrcRidge --plan

# %% [markdown]
# The published budgets take days on a GPU. `--steps` sets a smaller budget for all models, which the table notes.
#
# ## A run
#
# The data come from the UEA archive: `lrcssm data fetch SelfRegulationSCP1`, once, with a network connection. Without the data the command
# below prints the published numbers and lists the missing data. Interrupted runs resume, and a finished run is never repeated:

# %%
# !lrcssm reproduce table1 --datasets SCP1 --models LrcRidge LrcSSM --seeds 2345 --steps 100 --store my-results

# %% [markdown]
# One seed and 100 steps only show that everything works. The results of the project itself, with five seeds, are in the repository:

# %%
# !lrcssm reproduce table1 --datasets SCP1 --models LrcSSM LrcRidge MiniRocket --steps 40000 --show --store $LRCSSM_ROOT/results/reproduce

# %% [markdown]
# ## Published and ours
#
# The same in Python: `TABLES` holds the published numbers, and the results are lines of JSON.

# %%
import json
import os
import pathlib

import numpy as np

from lrcssm_paper.tables import TABLES

store = pathlib.Path(os.environ["LRCSSM_ROOT"], "results", "reproduce", "results.jsonl")
runs = [json.loads(line) for line in store.read_text().splitlines()]
published = {name: row.published["SCP1"] for name, row in TABLES["table1"].rows.items() if "SCP1" in row.published}
ours = {}
for run in runs:
    if (run["table"], run["dataset"], run["protocol"], run["solver"]) in (
        ("table1", "SCP1", "clean", "auto"),
        ("table1", "SCP1", "clean", "none"),
    ):
        ours.setdefault((run["row"], run.get("steps")), []).append(100 * run["test"])
for (name, steps), scores in ours.items():
    budget = f"{steps:,} steps" if steps else "no gradient steps"
    print(f"{name}, {budget}: {np.mean(scores):.1f} ± {np.std(scores):.1f} over {len(scores)} seeds")

# %%
# Test accuracy on SelfRegulationSCP1: published numbers and our own runs
import matplotlib.pyplot as plt

entries = [
    (name, *value, "0.65") for name, value in published.items() if not isinstance(value, str) and "our" not in name
]
for (name, steps), scores in ours.items():
    label = f"{name}, {steps:,} steps (ours)" if steps else f"{name} (ours)"
    entries.append((label, np.mean(scores), np.std(scores), "#4c72b0"))
entries.sort(key=lambda entry: entry[1])
figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
for place, (_, mean, deviation, colour) in enumerate(entries):
    axes.errorbar(mean, place, xerr=deviation, fmt="o", color=colour, capsize=2)
axes.set_yticks(range(len(entries)), [entry[0] for entry in entries])
axes.set(xlabel="test accuracy, % (mean and standard deviation over five splits)")
axes.grid(axis="x", color="0.9")

# %% [markdown]
# The paper's numbers, in grey, come from five code bases with different trainers. Ours, in blue, are all on full test sets.
#
# ## Next
#
# - [Results, published and ours](../results.md) has all tables.
# - [Reproduce the paper](../reproduce.md) explains protocols, stores and reports.
