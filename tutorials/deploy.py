# %% [markdown]
# # Stream and deploy
#
# A recurrent model keeps a few hundred bytes of state instead of the sequence. It can therefore predict after every sample of a stream, and
# one step of it is a small program that runs in ONNX Runtime, without Python packages such as JAX.
#
# ## A model for streams
#
# Handwritten digits, one row of pixels at a time: 8 steps with 8 channels. A stream cannot look ahead, so the model has one direction and
# no patches.

# %%
import numpy as np
from sklearn.datasets import load_digits

import lrcssm

images, labels = load_digits(return_X_y=True)
X = images.reshape(-1, 8, 8).transpose(0, 2, 1) / 16  # cases, channels (columns), time (rows)
classifier = lrcssm.LrcSSMClassifier(
    bidirectional=False, patch=1, steps=800, batch=32, learning_rate=5e-3, random_state=0
)
classifier.fit(X[:1400], labels[:1400])
print(f"{classifier.score(X[1400:], labels[1400:]):.1%} of the test digits are right")

# %% [markdown]
# ## One sample at a time
#
# `stream.push` takes a sample and returns the output after it. The probabilities are those of a prediction from all samples so far:

# %%
model = classifier.model_
stream = model.stream()
digit = X[1401].T  # time, channels
seen = []
for row in digit:
    stream.push(row)
    seen.append(stream.probabilities)
seen = np.array(seen)
print("true class:", labels[1401], " predictions:", seen.argmax(1), f" state: {stream.nbytes} bytes")
assert np.allclose(seen[-1], classifier.predict_proba(X[1401:1402])[0], atol=1e-5)

# %% [markdown]
# ## Export to ONNX
#
# `to_onnx` writes one step of the model. Before it writes the file it compares the program's outputs with the model's.

# %%
difference = lrcssm.export.to_onnx("step.onnx", model, what="step")
print(f"largest relative difference in the check: {difference:.1e}")

# %% [markdown]
# The program below is all that a device needs: NumPy and ONNX Runtime. The state goes in and comes out; `begin` starts a new stream.

# %%
import onnxruntime

session = onnxruntime.InferenceSession("step.onnx")
print([(one.name, one.shape) for one in session.get_inputs()])


def predict(rows):
    """Outputs after each sample of a stream."""
    state = np.zeros(session.get_inputs()[1].shape, np.float32)
    for number, row in enumerate(rows):
        given = {"sample": row[None].astype(np.float32), "state": state, "begin": np.array([number == 0])}
        output, state = session.run(None, given)
        yield output[0]


logits = np.array(list(predict(digit)))
shares = np.exp(logits - logits.max(1, keepdims=True))
shares /= shares.sum(1, keepdims=True)
print("largest difference of the probabilities:", np.abs(shares - seen).max())

# %% [markdown]
# How long does a step take, and how many digits are right after each row?

# %%
import time

state = np.zeros(session.get_inputs()[1].shape, np.float32)
given = {"sample": digit[:1].astype(np.float32), "state": state, "begin": np.array([True])}
taken = []
for _ in range(2000):
    start = time.perf_counter()
    session.run(None, given)
    taken.append(1e6 * (time.perf_counter() - start))
print(f"median time of a step in ONNX Runtime: {np.median(taken):.0f} µs")

many = model.stream(len(X) - 1400)  # many streams at once
right = []
for row in range(8):
    many.push(X[1400:, :, row])
    right.append(float(np.mean(many.outputs.argmax(1) == labels[1400:])))

# %%
# Probabilities while a digit arrives row by row, and accuracy after each row
import matplotlib.pyplot as plt

figure, (left, middle, last) = plt.subplots(1, 3, figsize=(9.6, 3.2), layout="constrained", width_ratios=(0.8, 1.3, 1))
left.imshow(images[1401].reshape(8, 8), cmap="Greys")
left.set(xticks=[], ylabel="row", title=f"a {labels[1401]}")
picture = middle.imshow(seen, cmap="Blues", vmin=0, vmax=1, aspect="auto")
middle.set(xlabel="class", xticks=range(10), ylabel="rows seen", title="probability")
middle.set_yticks(range(8), range(1, 9))
figure.colorbar(picture, ax=middle)
last.plot(range(1, 9), right, "o-", color="#4c72b0")
last.set(xlabel="rows seen", ylabel="accuracy", ylim=(0, 1.02), title="all test digits")

# %% [markdown]
# ## Next
#
# - [Stream and export](../deploy.md) covers many streams, saved states, whole sequences and StableHLO.
# - `lrcssm predict MODEL --stream` predicts from standard input, and `lrcssm export` writes the same files from the command line.
